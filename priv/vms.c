/* SPDX-License-Identifier: Apache-2.0 */
#include "priv/vms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "priv/instance.h"
#include "priv/records.h"

struct vms *vms_new(const struct instance *in, uid_t uid_base)
{
	struct vms *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->in = in;
	v->uid_base = uid_base;
	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++)
		v->vm[i].proc = PROC_NONE;
	return v;
}

struct vms *vms_free(struct vms *v)
{
	if (!v)
		return NULL;
	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++)
		proc_close(&v->vm[i].proc);
	free(v);
	return NULL;
}

struct vm *vms_find(struct vms *v, const char *id)
{
	for (uint32_t i = 0; i < v->top; i++)
		if (v->vm[i].used && !strcmp(v->vm[i].id, id))
			return &v->vm[i];
	return NULL;
}

struct vm *vms_on_slot(struct vms *v, uint32_t slot)
{
	for (uint32_t i = 0; i < v->top; i++)
		if (v->vm[i].used && v->vm[i].slot == (int32_t)slot)
			return &v->vm[i];
	return NULL;
}

static bool uid_used(const struct vms *v, uid_t uid)
{
	for (uint32_t i = 0; i < v->top; i++)
		if (v->vm[i].used && v->vm[i].uid == uid)
			return true;
	return false;
}

static void set_uid(struct vm *vm, uid_t uid)
{
	vm->uid = uid;
	snprintf(vm->group, sizeof(vm->group), "%s.%u", vm->id, (unsigned)uid);
}

int vms_reserve(struct vms *v, const char *id, int32_t slot, struct vm **ret, struct err *err)
{
	struct vm *vm = NULL;
	uid_t uid;

	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT && !vm; i++)
		if (!v->vm[i].used)
			vm = &v->vm[i];
	if (!vm)
		return err_set(err, -ENOSPC, "%u VMs are already running, the maximum",
		               PRIV_SLOTS_LIMIT);
	/* There are as many uids as entries, so one is free; uids are not reused at once. */
	do {
		uid = v->uid_base + v->uid_next;
		v->uid_next = (v->uid_next + 1) % PRIV_SLOTS_LIMIT;
	} while (uid_used(v, uid));
	if (vms_index(v, vm) >= v->top)
		v->top = vms_index(v, vm) + 1;
	*vm = (struct vm){ .proc = PROC_NONE, .slot = slot, .child = true };
	snprintf(vm->id, sizeof(vm->id), "%s", id);
	set_uid(vm, uid);
	*ret = vm;
	return 0;
}

uint32_t vms_index(const struct vms *v, const struct vm *vm)
{
	return (uint32_t)(vm - v->vm);
}

bool vms_has_group(const char *name, void *ctx)
{
	const struct vms *v = ctx;

	for (uint32_t i = 0; i < v->top; i++)
		if (v->vm[i].used && !strcmp(v->vm[i].group, name))
			return true;
	return false;
}

static void on_record(const char *id, const struct record *rec, void *ctx)
{
	struct vms *v = ctx;
	struct vm *vm = NULL;
	struct proc proc = PROC_NONE;
	uint64_t start;

	/* The pidfd first: if the start time then matches, it is certainly the same process. */
	if (proc_open(rec->pid, &proc, NULL) < 0 || proc_start_time(rec->pid, &start) < 0 ||
	    start != rec->start || !proc_alive(&proc) ||
	    vms_reserve(v, id, rec->slot, &vm, NULL) < 0) {
		proc_close(&proc);
		record_remove(v->in, id);
		return;
	}
	vm->used = true;
	vm->child = false;
	set_uid(vm, rec->uid);
	vm->proc = proc;
	vm->limits = rec->limits;
	vm->attach_at = clock_ms(); /* it may not be under its limits yet */
	log_obj(LOG_LV_INFO, "vm", id, "still running as process %d, adopted", (int)proc.pid);
}

int vms_take_up(struct vms *v, struct err *err)
{
	return records_read(v->in, on_record, v, err);
}

void vms_finish(struct vms *v, struct vm *vm)
{
	struct vm_end *e = &v->end[v->end_next];

	vms_forget_end(v, vm->id);
	*e = (struct vm_end){ 0 };
	snprintf(e->id, sizeof(e->id), "%s", vm->id);
	if (vm->child) {
		pid_t r;

		do {
			r = waitpid(vm->proc.pid, &e->status, __WALL | WNOHANG);
		} while (r < 0 && errno == EINTR);
		e->known = r == vm->proc.pid;
	}
	v->end_next = (v->end_next + 1) % VMS_ENDED_MAX;
	record_remove(v->in, vm->id);
	proc_close(&vm->proc);
	*vm = (struct vm){ .proc = PROC_NONE };
}

const struct vm_end *vms_end_of(struct vms *v, const char *id)
{
	for (unsigned i = 0; i < VMS_ENDED_MAX; i++)
		if (v->end[i].id[0] && !strcmp(v->end[i].id, id))
			return &v->end[i];
	return NULL;
}

void vms_forget_end(struct vms *v, const char *id)
{
	for (unsigned i = 0; i < VMS_ENDED_MAX; i++)
		if (!strcmp(v->end[i].id, id))
			v->end[i] = (struct vm_end){ 0 };
}
