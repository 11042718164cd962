/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/worker.h - slow jobs for VMs, in order, off the main thread
 *
 * Jobs run one after the other in the order of submission. A finished job waits
 * for worker_done() on the main thread; until then worker_fd() is readable.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "priv/cgroup.h"
#include "wire/priv.h"

struct err;
struct worker;

enum job_kind {
	JOB_ATTACH, /* move the VM into its cgroup */
	JOB_DROP,   /* remove its cgroup */
	JOB_STATS,  /* read its usage */
};

struct job {
	struct job *next;
	enum job_kind kind;
	char vm_id[PRIV_VM_ID_MAX + 1];
	char group[CGROUP_NAME_MAX];
	pid_t pid;
	struct cgroup_limits limits;
	uint32_t conn, req_id; /* JOB_STATS: who asked */
	int result;            /* JOB_STATS: 0 or -errno */
	uint64_t stats[3];
};

int worker_start(const struct cgroups *cg, struct worker **ret, struct err *err);
/* Finishes all jobs first. */
struct worker *worker_stop(struct worker *w);
/* Takes the job (allocated with malloc); NULL (out of memory) does nothing. */
void worker_submit(struct worker *w, struct job *j_consume);
int worker_fd(const struct worker *w);
/* The next finished job, or NULL; the caller frees it. */
struct job *worker_done(struct worker *w);
