/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/records.h - which VMs run, for the next pando-priv
 *
 * One file per VM in the run directory: "pid start-ticks uid
 * slot memory-MB vcpus". A record
 * exists before QEMU's program starts and is removed after its process was reaped.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "priv/cgroup.h"

struct err;
struct instance;

struct record {
	pid_t pid;
	uint64_t start; /* ticks since boot: tells a reused pid apart */
	uid_t uid;
	int32_t slot; /* -1: none */
	struct cgroup_limits limits;
};

int record_write(const struct instance *in, const char *id, const struct record *r,
                 struct err *err);
void record_remove(const struct instance *in, const char *id);
/* Calls fn for every readable record; others are removed. */
int records_read(const struct instance *in,
                 void (*fn)(const char *id, const struct record *r, void *ctx), void *ctx,
                 struct err *err);
