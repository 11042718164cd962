/* SPDX-License-Identifier: Apache-2.0 */
/* vm/history_internal.h - what history.c and host.c share */
#pragma once

#include "base/lock.h"
#include "vm/history.h"

struct history {
	uint64_t began_ms; /* clock_ms() */
	/* All of the rest: m->lock. */
	size_t n_rings; /* of VMs */
	struct host_sample s[HISTORY_SAMPLES];
	size_t n, at;
	double cpu, load[3];
	uint64_t busy_ticks, all_ticks;
	struct {
		uint64_t looked_ms; /* clock_ms(); 0: never */
		int r;
		char why[256];
	} ready; /* the last answer of vmm_is_ready() */
};

/* host.c: a sample of the host; sum has what all VMs did */
void host_look(struct vmm *m, struct host_sample *sum);
