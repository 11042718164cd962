/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/s3_mem.h - an object store in memory, for unit tests of what uses one; signatures are
 * not looked at
 *
 * The client itself is tested against a real server (tests/objects/). This one counts, can be
 * switched off, and its threads are quiet (tests/fault/).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

#define S3_MEM_OBJECTS 512
struct s3_mem {
	int fd;
	pthread_t thread;
	char url[80];
	_Atomic bool down; /* connections are closed unanswered */
	_Atomic unsigned n_open;
	struct mutex lock;
	struct s3_mem_object {
		char key[96]; /* "layers/ly-x/0" */
		uint8_t *p;   /* owned */
		size_t n;
		unsigned got; /* how often it was read */
	} o[S3_MEM_OBJECTS] GUARDED_BY(lock);
	size_t n GUARDED_BY(lock);
};
void s3_mem_start(struct s3_mem *s);
void s3_mem_stop(struct s3_mem *s);
/* Objects whose keys begin like that, and how often they were read. */
unsigned s3_mem_count(struct s3_mem *s, const char *prefix, unsigned *ret_got);
/* Another bit in each of them. */
void s3_mem_flip(struct s3_mem *s, const char *prefix);
