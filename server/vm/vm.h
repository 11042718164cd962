/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/vm.h - VM lifecycle, the calls; what a VM is to everyone: model/vm.h. Fields: vm/vm_internal.h
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
#include "model/account.h"
#include "model/snapshot.h"
#include "model/vm.h"

struct conf;
struct engine;
struct err;
struct guest;
struct store;
struct vmm;

#define VM_FORK_MAX 100 /* children of one fork call */

const char *vm_state_name(enum vm_state s);
int vm_state_parse(const char *s); /* or -EINVAL */

struct egress;
/* The one private address a VM may have. */
struct vm_nic {
	const char *account; /* whose VPC it must be */
	const char *vpc;
	uint32_t addr; /* host byte order; 0: any that is free */
	bool is_default;
};
struct vm_create_opts {
	const char *account;
	struct egress *egress;    /* NULL: open */
	const struct vm_nic *nic; /* NULL: in no VPC */
	const char *name;         /* NULL: none */
	const char *snapshot_id;  /* NULL: the base template */
	const char *point;        /* NULL, or a point to start from, held by the caller */
	uint32_t vcpus, mem_mb;   /* of the base template; 0: as usual */
	const char *build_id;     /* NULL: none */
	const char *workdir;      /* NULL: the snapshot's */
	char *tags, *metadata;    /* JSON texts; NULL: none */
	int64_t idle_timeout_s;   /* -1: disabled; VM_IDLE_DEFAULT when not given */
	int64_t activity_threshold;
	int64_t delete_after_s;     /* from now on; <= 0: never */
	int64_t checkpoint_every_s; /* 0: no checkpoints */
	bool count_exec;            /* running work counts as activity */
	bool recreate;
	bool eager;    /* more of this point are expected: one is kept ready from now on */
	uint32_t self; /* VM_SELF_... */
	struct vm_persistence persistence;
};
#define VM_CHECKPOINT_MIN 10 /* seconds between two */
#define VM_IDLE_DEFAULT 300  /* seconds without NIC traffic */

int vmm_create(struct vmm *m, const struct vm_create_opts *o, struct vm_info *ret, struct err *err);
/*
 * A VM from the template for one use, with its guest (caller guest_unref()s); vm_once_free()
 * deletes it, whatever has happened to it.
 */
struct vm_once;
int vmm_create_once(struct vmm *m, const char *account, struct vm_once **ret,
                    struct guest **ret_guest, struct err *err);
struct vm_once *vm_once_free(struct vm_once *o);
/* As it is known: asks nobody, so that it may stand in front of every request. */
int vmm_get(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
            struct err *err);
/* With what it has used up to now, which others have to be asked for. */
int vmm_get_used(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
                 struct err *err);
/* Newest first. Caller frees. */
int vmm_list(struct vmm *m, const char *account, struct vm_info **ret, size_t *ret_n,
             struct err *err);
/*
 * A part of that, in the same order, without a look at the others; and how many of all are in which
 * state. False: some may be on other nodes, or there is no memory; vmm_list() has them or says why.
 */
struct vm_page {
	size_t offset, limit;
};
bool vmm_page(struct vmm *m, const char *account, const struct vm_page *p, struct vm_info **ret,
              size_t *ret_n, size_t ret_by_state[VM_STATE_MAX]);
/* Newest first. Caller frees. */
int vmm_list_deleted(struct vmm *m, const char *account, struct vm_tombstone **ret, size_t *ret_n,
                     struct err *err);
struct vm_start_opts {
	int64_t idle_timeout_s, activity_threshold; /* VM_LEAVE: as they are */
	int count_exec;                             /* 0, 1; -1: as it is */
};
#define VM_LEAVE INT64_MIN
/* Resumes or cold boots; fine when running. */
int vmm_start(struct vmm *m, const char *account, const char *id, const struct vm_start_opts *o,
              struct vm_info *ret, struct err *err);
/*
 * Waits until the guest's system is up, and the services (without ".service"; NULL-terminated, or
 * NULL) are active. -ETIMEDOUT VM_START_TIMEOUT, and the VM runs on.
 */
int vmm_ready(struct vmm *m, const char *account, const char *id, const char *const *services,
              unsigned timeout_s, struct err *err);
/* Disk kept, memory gone: clean shutdown with a deadline, then the hard way. Fine when stopped. */
int vmm_stop(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err);
/* As vmm_stop, without asking the guest. */
int vmm_kill(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err);
/* Fine when suspended; -EINVAL VM_NOT_RUNNING when stopped. */
int vmm_suspend(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
                struct err *err);
/* *ret_kept (or NULL): it is to be made anew, and was only emptied. */
int vmm_delete(struct vmm *m, const char *account, const char *id, bool *ret_kept, struct err *err);

/* New sizes; 0 leaves one as it is. */
struct vm_size {
	double vcpus, mem_gb, disk_gb; /* as asked for: checked here */
};
/* The numbers a refusal is about. */
struct vm_size_fault {
	double got, min, max;
	int64_t current_mb, requested_mb;
};
/*
 * A running VM is shut down, changed and booted, unless only its disk grows; a suspended one loses
 * its memory and is stopped; a stopped one stays so. All or nothing.
 */
int vmm_resize(struct vmm *m, const char *account, const char *id, const struct vm_size *want,
               struct vm_size_fault *ret_fault, struct err *err);
/* Gives free disk blocks back and shortens its chains; wakes nothing. message: what was done. */
int vmm_optimize(struct vmm *m, const char *account, const char *id, char *message, size_t size,
                 struct err *err);

/* Waits for the end of the machine that runs now, without a lock and without waking it. */
struct vm_wait;
int vmm_wait_new(struct vmm *m, const char *account, const char *id, struct vm_wait **ret,
                 struct err *err);
/* 1 when it ended, with a word ("stopped", "suspended", "deleted", ...); 0: not yet. */
#define VM_EXIT_MAX 16
int vmm_wait_over(struct vm_wait *w, char ret_status[VM_EXIT_MAX]);
int vmm_wait_fd(const struct vm_wait *w); /* readable: look again */
struct vm_wait *vmm_wait_free(struct vm_wait *w);
/*
 * fn hears of every VM whose state or machine changes, or that is deleted, and of the machine that
 * ended with that (its instance; NULL: none did): on the thread that changed it and under the
 * manager's lock, so it must neither block nor call the manager. Up to VM_LISTENERS_MAX listen.
 * vmm_off_changed(): from now on not this one, and no call is under way any more.
 */
#define VM_LISTENERS_MAX 2
typedef void (*vm_changed_fn)(void *ctx, const char *vm, const char *ended);
void vmm_on_changed(struct vmm *m, vm_changed_fn fn, void *ctx);
void vmm_off_changed(struct vmm *m, const void *ctx);

/* Somebody uses it from outside by other ways than its NIC: it is not idle. Waits for nobody. */
void vmm_touch(struct vmm *m, const char *account, const char *id);

/* One look at a VM; wakes nothing, waits for nobody. While it is busy: what was seen last. */
struct vm_sample {
	enum vm_state state;
	int64_t at_ms; /* wall clock of the numbers */
	struct vm_usage total;
	uint64_t mem_bytes, private_bytes; /* of QEMU, now */
};
int vmm_sample(struct vmm *m, const char *account, const char *id, struct vm_sample *ret,
               struct err *err);
/* Copies on several nodes: what was asked for, and what became of it. */
struct vm_spread {
	/* Of each copy: the node that is to have it; "": this one. The others are at rest until
	 * they are used, which the caller sees to. Where, says vmm_claimant(). */
	char node[VM_FORK_MAX][ID_SIZE];
	unsigned elsewhere; /* how many are not here */
	char note[200];     /* why they are all here; "" */
};
struct vm_fork_opts {
	struct vm_spread *spread;                 /* NULL: all of them here */
	const struct vm_persistence *persistence; /* NULL: as the parent's */
	int64_t delete_after_s; /* > 0: from now on; 0: when the parent is; -1: never */
	bool fresh_address; /* of a VM in a VPC: each copy gets a free one; else it is refused */
	bool no_self;       /* the copies have no self access, whatever the VM has */
	bool by_itself;     /* the VM asked for it, */
	uint64_t call;      /* with this request of its agent */
};
/* count live copies with memory and policy; on failure none is left. Caller frees *ret. */
int vmm_fork(struct vmm *m, const char *account, const char *id, unsigned count,
             const struct vm_fork_opts *o, struct vm_info **ret, struct err *err);
/*
 * The running guest, woken if it was suspended or stopped. Caller guest_unref()s.
 * While it is held the VM may still be suspended by someone else: calls then fail with -ECONNRESET.
 */
int vmm_guest(struct vmm *m, const char *account, const char *id, struct guest **ret,
              struct err *err);

/* As vmm_guest(), for what lives in memory only: a stopped VM is not booted, -EHOSTDOWN. */
int vmm_guest_thawed(struct vmm *m, const char *account, const char *id, struct guest **ret,
                     struct err *err);
/* As vmm_guest(), but wakes nobody: -ENOTCONN VM_NOT_RUNNING. */
int vmm_guest_running(struct vmm *m, const char *account, const char *id, struct guest **ret,
                      struct err *err);

/* ---- from the host to a port of a VM: reach.c ---- */
#define VM_GUEST_ADDR "10.0.0.2" /* of every VM, in its own network */
struct vm_socket {
	bool udp;               /* wanted: a socket for datagrams; else for TCP */
	int fd;                 /* the caller's, to be connected to VM_GUEST_ADDR */
	char instance[ID_SIZE]; /* of the machine it belongs to */
	unsigned fresh_ms;      /* the VM's programs may still be starting, for so long */
};
/* Wakes the VM. */
int vmm_socket(struct vmm *m, const char *account, const char *id, struct vm_socket *ret,
               struct err *err);
/* Whose VM it is; for those who were given nothing but its name. */
/* The VM that a guest's connection to this server came from (net/gate.h), or -ENOENT. */
int vmm_caller(struct vmm *m, const char *caller, char ret_vm[ID_SIZE]);
/* The CA that guests trust from their next start or thaw on, as PEM, and as struct guest_ca the
 * domain. Call it once, before VMs are handed out. */
int vmm_trust(struct vmm *m, const char *ca_pem, const char *domain, struct err *err);
/* What guests are told of the site they run at; texts of the operator's settings, "" where there is
 * none. All copied. */
struct vm_site {
	const char *ca_file;            /* read again when it changes */
	bool proxy;                     /* the gateway's port leads to one */
	const char *no_proxy;           /* names that are not asked of it, separated by commas */
	const char *apt, *apt_security; /* URLs */
	const char *npm, *pip;
};
/* From their next start or thaw on. Call it once, as vmm_trust(). */
int vmm_site(struct vmm *m, const struct vm_site *s, struct err *err);
int vmm_owner(struct vmm *m, const char *id, char ret_account[ACCOUNT_SIZE], struct err *err);

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

/* The template of another size than the default one. */
struct vmm_size_status {
	uint32_t vcpus, mem_mb, disk_mb; /* disk_mb: what it takes */
	bool listed;                     /* made ahead of need */
	char point[ID_SIZE];
	char state[12]; /* "ready", "building", "failed", "none" */
	char note[160];
};
#define SIZES_MAX 48 /* powers of two: 1 to 32 vCPUs, 512 to 65536 MB */

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
	unsigned pool_ready, pool_mem_mb, blanks; /* made ahead of need */
	unsigned pool_want, blanks_want, seeds_want;
	unsigned ahead_budget_mb, blanks_mem_mb, seeds_mem_mb;
	uint64_t pool_given, pool_missed; /* creates served from the pool, and not */
	const char *seed;                 /* "off", "making", "ready" */
	unsigned seeds;                   /* of all sizes, that have passed their trial */
	uint64_t forked;                  /* VMs that were forked from a seed */
	struct vmm_size_status sizes[SIZES_MAX];
	size_t n_sizes;
};
void vmm_status(struct vmm *m, struct vmm_status *ret);

/* The object store that layers are uploaded to. */
struct vmm_objects {
	bool on;                         /* there is one; the rest is zero if not */
	bool asked, failing;             /* it was asked; the last request failed */
	int64_t since_ms;                /* wall clock: since when that is so */
	char where[128], error[256];     /* bucket and endpoint; why it fails */
	uint64_t pending, pending_bytes; /* layers and states that are to be uploaded */
	uint64_t garbage;                /* deleted ones whose objects are to go */
	uint32_t cache_mb;               /* bound of the files here; 0: none */
};
void vmm_objects(struct vmm *m, struct vmm_objects *ret);
