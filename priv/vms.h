/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/vms.h - running VMs, and the exit status of the latest ended ones
 *
 * A plain table for the main thread only. A running VM has a record (records.h) as
 * long as it is in here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"
#include "priv/cgroup.h"
#include "wire/priv.h"

struct err;
struct instance;

#define VM_WAITERS_MAX 8u  /* kills waiting for the end of one VM */
#define VMS_ENDED_MAX 512u /* exit statuses kept */

struct vm {
	bool used;
	char id[PRIV_VM_ID_MAX + 1];
	struct proc proc; /* owned */
	uid_t uid;
	char group[CGROUP_NAME_MAX]; /* unique, even for successive VMs with the same id */
	int32_t slot;
	bool child;         /* our child, to be reaped; else adopted from an earlier process */
	bool ended;         /* its process is gone, but jobs are still running */
	uint64_t attach_at; /* clock_ms() at which it is put under its limits; 0: done */
	struct cgroup_limits limits;
	unsigned jobs; /* of the worker; it is not reaped before they are done */
	unsigned n_waiters;
	struct {
		uint32_t gen, req_id;
	} waiters[VM_WAITERS_MAX];
};

struct vm_end {
	char id[PRIV_VM_ID_MAX + 1]; /* "": none */
	bool known;
	int status; /* as from waitpid(2) */
};

struct vms {
	const struct instance *in; /* borrowed */
	uid_t uid_base;            /* PRIV_SLOTS_LIMIT of them are ours */
	uint32_t uid_next;         /* offset to try first */
	uint32_t top;              /* entries from here on have never been used */
	struct vm vm[PRIV_SLOTS_LIMIT];
	struct vm_end end[VMS_ENDED_MAX];
	unsigned end_next;
};

struct vms *vms_new(const struct instance *in, uid_t uid_base);
struct vms *vms_free(struct vms *v); /* processes and records stay */

struct vm *vms_find(struct vms *v, const char *id);
struct vm *vms_on_slot(struct vms *v, uint32_t slot);
/* A free entry with a uid that no running VM has; -ENOSPC. Not used before vms_commit(). */
int vms_reserve(struct vms *v, const char *id, int32_t slot, struct vm **ret, struct err *err);
uint32_t vms_index(const struct vms *v, const struct vm *vm);
/* ctx is the table: does the cgroup belong to a running VM? */
bool vms_has_group(const char *name, void *ctx);
/* Adopts the processes of an earlier pando-priv that are still running; removes the records of
 * others. */
int vms_take_up(struct vms *v, struct err *err);
/* Reaps it, removes the record, keeps the exit status, and clears the entry. */
void vms_finish(struct vms *v, struct vm *vm);

const struct vm_end *vms_end_of(struct vms *v, const char *id);
void vms_forget_end(struct vms *v, const char *id);
