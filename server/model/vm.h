/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model/vm.h - VMs, as all modules know them: state, persistence, usage
 *
 * Types only, for every module of the server. The calls are in vm/vm.h, the rows in store/store.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"

#define VM_NAME_MAX 128  /* bytes of a label, with the NUL */
#define WORKDIR_SIZE 256 /* a spec's working directory, with the NUL */

/*
 * enum vm_state - only vm_set_state() writes it, anyone may read it
 * @VM_STARTING: a machine is being thawed or booted. No user traffic yet.
 * @VM_RUNNING: identity confirmed, gate open.
 * @VM_SUSPENDING: being frozen to be suspended; calls wait for the lock.
 * @VM_SUSPENDED: a point with memory; no process.
 * @VM_STOPPED: disk layers only; no process.
 * @VM_LOST: its layers are damaged or gone, or its node is; it can be deleted, or rewound to a
 *point that is left of its past.
 * @VM_BUILDING: its spec is being applied (vm/stage.h); only the builder uses it. Others get
 *	STILL_CREATING, delete cancels the build. Next: RUNNING, or gone.
 */
enum vm_state {
	VM_STARTING,
	VM_RUNNING,
	VM_SUSPENDING,
	VM_SUSPENDED,
	VM_STOPPED,
	VM_LOST,
	VM_BUILDING,
	VM_STATE_MAX,
};

enum vm_persist { PERSIST_STICKY, PERSIST_EPHEMERAL, PERSIST_PERSISTENT, PERSIST_MAX };
enum vm_delete_event { DELETE_ON_SUSPEND, DELETE_ON_STOP, DELETE_EVENT_MAX };
struct vm_persistence {
	enum vm_persist type;
	int priority;                      /* 0-10, sticky */
	enum vm_delete_event delete_event; /* ephemeral */
};

/* A VM's use of the host's resources. */
struct vm_usage {
	double cpu_s;                   /* of QEMU, all threads */
	double run_s;                   /* seconds with a machine */
	double mem_gb_s;                /* its memory size in GiB, times run_s */
	uint64_t net_in, net_out;       /* bytes to and from the guest's NIC */
	uint64_t disk_read, disk_write; /* bytes of the guest's disk requests */
};

/* Self access (docs/SELF.md): the verbs are those of wire/agent_self.h. */
#define VM_SELF_VERBS 0xffffu
#define VM_SELF_INHERIT (1u << 16) /* its copies have it too */
#define VM_SELF_CHILD (1u << 17)   /* the VM that it was forked from asked for it */

struct vm_info {
	char id[ID_SIZE];
	char account[ACCOUNT_SIZE];
	char name[VM_NAME_MAX]; /* "": none */
	enum vm_state state;
	char instance[ID_SIZE];     /* changes with every machine */
	char snapshot_id[ID_SIZE];  /* it was created from, or "" */
	char parent_id[ID_SIZE];    /* VM it was forked from, or "" */
	char point[ID_SIZE];        /* the point it rests on while suspended, or "" */
	int64_t created_ms;         /* wall clock */
	int64_t last_network_ms;    /* wall clock; 0: never */
	int64_t delete_at_ms;       /* wall clock; 0: never */
	int64_t idle_timeout_s;     /* -1: disabled */
	int64_t checkpoint_every_s; /* 0: no checkpoints */
	int64_t activity_threshold; /* in bytes per check */
	struct vm_persistence persistence;
	uint32_t vcpus, mem_mb, disk_mb;
	bool count_exec;       /* running work (exec, files, terminals) counts as activity */
	struct vm_usage past;  /* of earlier machines */
	struct vm_usage now;   /* of the current machine, as last measured */
	struct vm_usage ahead; /* of the current machine, before it was handed to this VM */
	int64_t machine_ms;    /* wall clock at its start; 0: none is running */
	int64_t used_ms;       /* wall clock: when it last started or stopped running */
	uint64_t generation;
	uint32_t self;                   /* VM_SELF_...: what it may do to itself */
	uint32_t fork_index, fork_count; /* it is copy 1 to count of its parent; 0: no copy */
	bool recreate;                   /* a delete empties it, the next use recreates it */
	char build_id[ID_SIZE];          /* of the build it came from, or "" */
	char workdir[WORKDIR_SIZE];      /* where commands run and relative paths start; "": / */
};
/* All machines of the VM together. */
static inline struct vm_usage vm_usage_total(const struct vm_info *v)
{
	return (struct vm_usage){ .cpu_s = v->past.cpu_s + v->now.cpu_s,
		                  .run_s = v->past.run_s + v->now.run_s,
		                  .mem_gb_s = v->past.mem_gb_s + v->now.mem_gb_s,
		                  .net_in = v->past.net_in + v->now.net_in,
		                  .net_out = v->past.net_out + v->now.net_out,
		                  .disk_read = v->past.disk_read + v->now.disk_read,
		                  .disk_write = v->past.disk_write + v->now.disk_write };
}

/* A deleted VM; only the newest VM_TOMBSTONES_MAX of an account are kept. */
#define VM_TOMBSTONES_MAX 500
struct vm_tombstone {
	struct vm_info info; /* at the time; without machine, point and layers */
	char reason[16];     /* "deleted", "ephemeral", "evicted" */
	int64_t deleted_ms;
};
