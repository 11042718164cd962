/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/history.h - the last hour of VMs and of the host, and what the host has now; for api/
 *
 * None of these wakes a VM, waits for one or asks anybody: they show what was seen last.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/vm.h"

struct err;
struct vmm;

#define HISTORY_STEP_S 10    /* between two samples */
#define HISTORY_SAMPLES 360  /* an hour */
#define HISTORY_VMS_MAX 4096 /* VMs with a history, of 13 KB each; others have none */

struct history_sample {
	uint32_t at_s; /* wall clock */
	float cpu;     /* percent of one processor, since the sample before */
	float disk_read, disk_write, net_rx,
	        net_tx;              /* bytes a second, likewise; rx: to the guest */
	uint32_t mem_kb, private_kb; /* of QEMU: resident; of that, its own */
	uint8_t state;               /* enum vm_state */
};
/* Oldest first; *ret is NULL when there are none. Caller frees. */
int vmm_history(struct vmm *m, const char *account, const char *id, struct history_sample **ret,
                size_t *ret_n, struct err *err);

/* Memory of the host in bytes. free + private + shared + cache + other is total. */
struct host_memory {
	uint64_t total, free, available;
	uint64_t private; /* anonymous memory of VMs, those of the pool included */
	/* Pages of files that VMs have mapped, each counted once: what the kernel says of all
	 * processes, and no more than the sum of all VMs. */
	uint64_t shared;
	uint64_t mapped; /* the same, counted once for each VM that has it: what sharing saves */
	uint64_t cache;  /* other pages of files: the kernel drops them when memory is needed */
	uint64_t other;  /* the kernel, pandod, other programs */
};

struct host_sample {
	uint32_t at_s;
	float cpu;  /* percent of all processors */
	float load; /* of the last minute */
	uint32_t running;
	uint64_t mem_free, mem_private, mem_shared, mem_cache; /* bytes */
	uint64_t disk_free;
	float net_rx, net_tx, disk_read, disk_write; /* of all VMs, bytes a second */
};
/* Oldest first. Caller frees. */
int vmm_host_history(struct vmm *m, struct host_sample **ret, size_t *ret_n, struct err *err);

struct host_state { /* VMs in one state */
	unsigned n;
	uint64_t given;             /* bytes of memory that their guests have */
	uint64_t resident, private; /* of their processes */
};

struct vmm_host {
	unsigned cores;
	double cpu;     /* percent of all processors, in the last interval */
	double load[3]; /* 1, 5, 15 minutes */
	struct host_memory mem;
	struct host_state by_state[VM_STATE_MAX];
	uint64_t disk_size, disk_free;   /* file system of the data directory */
	uint64_t layer_bytes;            /* layers and points */
	uint64_t disk_budget, disk_over; /* 0: no budget; above what is allowed */
	uint64_t disk_floor;             /* that must stay free */
	unsigned layers;
	uint64_t uptime_s;  /* of this server */
	int64_t newest_ms;  /* wall clock when the newest VM was created; 0: there is none */
	unsigned pool_want; /* ready VMs that there should be */
	bool pool_stuck;    /* the last attempt to make one failed, and why: */
	char pool_why[160];
	bool kvm_there;     /* /dev/kvm can be opened */
	uint32_t slots_max; /* VMs that can run at one time */
};
void vmm_host(struct vmm *m, struct vmm_host *ret);

/*
 * Is all there that a create needs? 0, or -EAGAIN with the reasons, one after the other, in err.
 * Asks pando-priv and writes to the store, at most every few seconds.
 */
int vmm_is_ready(struct vmm *m, struct err *err);
