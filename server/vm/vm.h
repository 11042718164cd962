/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/vm.h - VM lifecycle; for api/ (and later ssh/, edge/). Fields: vm/vm_internal.h
 *
 * Callers name VMs by id and account; a VM of another account does not exist
 * for them (-ENOENT, tag VM_NOT_FOUND). Every call blocks until its effect is
 * in the store and true. Calls on one VM are serialised by its lock. Errors
 * carry a tag that is a code of the wire contract where one fits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct conf;
struct engine;
struct err;
struct guest;
struct store;
struct vmm;

#define VM_NAME_MAX 128  /* bytes of a label, with the NUL */
#define ACCOUNT_SIZE 40  /* a UUID and the NUL */
#define VM_FORK_MAX 100  /* children of one fork call */
#define WORKDIR_SIZE 256 /* a spec's working directory, with the NUL */

/*
 * enum vm_state - only vm_set_state() writes it, anyone may read it
 * @VM_STARTING: a machine is being thawed or booted. No user traffic yet.
 * @VM_RUNNING: identity confirmed, gate open.
 * @VM_SUSPENDING: freezing for good; calls wait for the lock.
 * @VM_SUSPENDED: a point with memory; no process.
 * @VM_STOPPED: disk layers only; no process.
 * @VM_LOST: its layers are damaged or gone; only delete is left.
 * @VM_BUILDING: its spec is being applied (vm/stage.h); the builder alone uses it. Others are told
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
const char *vm_state_name(enum vm_state s);
int vm_state_parse(const char *s); /* or -EINVAL */

enum vm_persist { PERSIST_STICKY, PERSIST_EPHEMERAL, PERSIST_PERSISTENT, PERSIST_MAX };
enum vm_delete_event { DELETE_ON_SUSPEND, DELETE_ON_STOP, DELETE_EVENT_MAX };
struct vm_persistence {
	enum vm_persist type;
	int priority;                      /* 0-10, sticky */
	enum vm_delete_event delete_event; /* ephemeral */
};

struct vm_info {
	char id[ID_SIZE];
	char account[ACCOUNT_SIZE];
	char name[VM_NAME_MAX]; /* "": none */
	enum vm_state state;
	char instance[ID_SIZE];     /* changes with every machine that runs it */
	char snapshot_id[ID_SIZE];  /* it was made from, or "" */
	char parent_id[ID_SIZE];    /* VM it was forked from, or "" */
	char point[ID_SIZE];        /* the point it rests on while suspended, or "" */
	int64_t created_ms;         /* wall clock */
	int64_t last_network_ms;    /* wall clock; 0: never */
	int64_t idle_timeout_s;     /* -1: disabled */
	int64_t activity_threshold; /* bytes per check */
	struct vm_persistence persistence;
	uint32_t vcpus, mem_mb, disk_mb;
	double cpu_seconds;
	uint64_t generation;
	char build_id[ID_SIZE];     /* of the build it came from, or "" */
	char workdir[WORKDIR_SIZE]; /* where commands run and relative paths begin; "": / */
};

struct vm_create_opts {
	const char *account;
	const char *name;        /* NULL: none */
	const char *snapshot_id; /* NULL: the base template */
	const char *point;       /* NULL, or a point to start from, held by the caller */
	const char *build_id;    /* NULL: none */
	const char *workdir;     /* NULL: the snapshot's */
	int64_t idle_timeout_s;  /* -1: disabled; VM_IDLE_DEFAULT when not given */
	int64_t activity_threshold;
	struct vm_persistence persistence;
};
/* How much an account may have, or has. In limits: QUOTA_NONE no limit, QUOTA_DEFAULT the server's.
 */
#define QUOTA_NONE (-1)
#define QUOTA_DEFAULT (-2)
struct vm_quota {
	int64_t vms;           /* in any state */
	int64_t running;       /* VMs with a process */
	int64_t vcpus, mem_mb; /* of VMs with a process, together */
	int64_t disk_mb;       /* root disks of all VMs, together */
	int64_t snapshots;     /* not deleted */
};

#define VM_IDLE_DEFAULT 300 /* seconds without NIC traffic */

int vmm_create(struct vmm *m, const struct vm_create_opts *o, struct vm_info *ret, struct err *err);
int vmm_get(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
            struct err *err);
/* Newest first. Caller frees. */
int vmm_list(struct vmm *m, const char *account, struct vm_info **ret, size_t *ret_n,
             struct err *err);
/* Resumes or cold boots; fine when running. idle_timeout_s / threshold: INT64_MIN leaves them as
 * they are. */
int vmm_start(struct vmm *m, const char *account, const char *id, int64_t idle_timeout_s,
              int64_t activity_threshold, struct vm_info *ret, struct err *err);
/* Disk kept, memory gone: clean shutdown with a deadline, then the hard way. Fine when stopped. */
int vmm_stop(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err);
/* As vmm_stop, without asking the guest. */
int vmm_kill(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err);
/* Fine when suspended; -EINVAL VM_NOT_RUNNING when stopped. */
int vmm_suspend(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
                struct err *err);
int vmm_delete(struct vmm *m, const char *account, const char *id, struct err *err);
/* count live copies with memory; on failure none is left. Caller frees *ret. persistence NULL: as
 * the parent's. */
int vmm_fork(struct vmm *m, const char *account, const char *id, unsigned count,
             const struct vm_persistence *persistence, struct vm_info **ret, struct err *err);
/*
 * The running guest, woken if it was suspended or stopped. Caller guest_unref()s.
 * While it is held the VM may still be suspended by someone else: calls then fail with -ECONNRESET.
 */
int vmm_guest(struct vmm *m, const char *account, const char *id, struct guest **ret,
              struct err *err);

/* As vmm_guest(), but wakes nobody: -ENOTCONN VM_NOT_RUNNING. */
int vmm_guest_running(struct vmm *m, const char *account, const char *id, struct guest **ret,
                      struct err *err);

enum snapshot_state { SNAPSHOT_READY, SNAPSHOT_BUILDING, SNAPSHOT_FAILED, SNAPSHOT_STATE_MAX };
struct snapshot_info {
	char id[ID_SIZE]; /* "sc-..." */
	char account[ACCOUNT_SIZE];
	char name[VM_NAME_MAX];
	char source_vm[ID_SIZE];
	char source_instance[ID_SIZE];
	int64_t created_ms;
	bool deleted;
	bool persistent; /* else sticky with priority */
	int priority;
	uint32_t vcpus, mem_mb, disk_mb;
	enum snapshot_state
	        state;          /* failed: the state in which a build failed; it can be started */
	char build_id[ID_SIZE]; /* or "" */
	char failure[384];      /* sentence, or "" */
	char template_hash[65]; /* of the spec it was built from, or "" */
	char workdir[WORKDIR_SIZE];
};
int vmm_snapshot(struct vmm *m, const char *account, const char *vm_id, const char *name,
                 const struct vm_persistence *persistence, struct snapshot_info *ret,
                 struct err *err);
int vmm_snapshot_list(struct vmm *m, const char *account, bool include_deleted,
                      struct snapshot_info **ret, size_t *ret_n, struct err *err);
int vmm_snapshot_get(struct vmm *m, const char *account, const char *id, struct snapshot_info *ret,
                     struct err *err);
int vmm_snapshot_rename(struct vmm *m, const char *account, const char *id, const char *name,
                        struct err *err);
/* Hidden at once; its layers go when the last VM that descends from it is gone. */
int vmm_snapshot_delete(struct vmm *m, const char *account, const char *id, struct err *err);

/* ---- accounts: quota.c ---- */
/* What the account has at this moment. */
int vmm_usage(struct vmm *m, const char *account, struct vm_quota *ret, struct err *err);
/* The limits that hold for it: its own, and the server's where it has none. */
int vmm_limits(struct vmm *m, const char *account, struct vm_quota *ret, struct err *err);
/*
 * Deletes an account that has neither VMs nor snapshots (else -EBUSY); from then on nothing can be
 * made for it any more, also by requests that were let in before.
 */
int vmm_account_delete(struct vmm *m, const char *account, struct err *err);

/* What the operator sees at start and in GET /v1/health. */
struct vmm_status {
	char accel[8]; /* "kvm" or "tcg" */
	char accel_why[160];
	char qemu_version[64];
	char template_state[16]; /* "ready", "building", "failed" */
	char template_note[256]; /* progress or the failure's sentence */
	char limits[64];
	unsigned running;
	uint32_t vcpus, mem_mb, disk_mb;          /* default VM */
	unsigned pool_ready, pool_mem_mb, shells; /* made ahead of need */
	uint64_t pool_given, pool_missed;         /* creates served from the pool, and not */
};
void vmm_status(struct vmm *m, struct vmm_status *ret);
