/* SPDX-License-Identifier: Apache-2.0 */
/* fake_internal.h - the inside of the fake vmm; for fake_vmm.c and fake_life.c */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

#include "guest/guest.h"
#include "vm/vm.h"

#define ROWS 64
#define FILES 16

struct file {
	char path[256];
	unsigned char *p;
	size_t n;
	bool used;
};

struct vmm {
	struct mutex lock;
	struct cond released;
	struct vm_info vms[ROWS];
	size_t n_vms;
	struct vm_tombstone gone[ROWS];
	size_t n_gone;
	int ticks; /* timerfd, for those who wait for a VM's end */
	struct snapshot_info snaps[ROWS];
	size_t n_snaps;
	struct file files[FILES];
	bool release;
	unsigned blocked, resets, wakes;
	int64_t clock;
};

struct err;
/* m->lock held. */
struct vm_info *fake_find(struct vmm *m, const char *account, const char *id, struct err *err);
