/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.c - what a VM is told of itself, what it may ask for, and which VMs are its descendants
 *
 * A guest learns who it is with its greeting (wire/agent_self.h): its id, the VM it was forked
 * from, which of how many copies it is, and what it may ask for about itself. What it may do is
 * checked when it asks (api/self_check.c); what its agent was told only decides whether there is a
 * socket.
 *
 * A VM's descendants are the copies that it made itself, and theirs: each has the flag
 * VM_SELF_CHILD, and is linked to the VM it was forked from. The link ends where a VM in between
 * was deleted, as for processes: what is left behind belongs to the account alone.
 */
#include "vm/self.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

#define GENERATIONS_MAX 256 /* that are looked at upwards; more are possible, and not reached */

static uint8_t event_of(const struct vm *vm, const struct bringup *b)
{
	if (!b)
		return AGENT_EVENT_RECONNECTED;
	if (b->hidden || vm->row.info.state == VM_BUILDING)
		return AGENT_EVENT_HIDDEN;
	if (b->event)
		return b->event;
	return b->reason == GUEST_BOOT ? AGENT_EVENT_BOOTED : AGENT_EVENT_RESUMED;
}

void vm_who(const struct vm *vm, const struct bringup *b, struct agent_who *ret)
{
	const struct vm_info *i = &vm->row.info;
	const char *snapshot = b && b->snapshot ? b->snapshot : "";

	*ret = (struct agent_who){ .event = event_of(vm, b),
		                   .index = i->fork_index,
		                   .count = i->fork_count,
		                   .call = b ? b->call : 0 };
	if (ret->event != AGENT_EVENT_HIDDEN)
		ret->allow = i->self & VM_SELF_VERBS;
	if (ret->event == AGENT_EVENT_CREATED)
		snapshot = i->snapshot_id;
	snprintf(ret->vm, sizeof(ret->vm), "%s", i->id);
	snprintf(ret->parent, sizeof(ret->parent), "%s", i->parent_id);
	snprintf(ret->snapshot, sizeof(ret->snapshot), "%s", snapshot);
}

static void no_self(struct vm *vm, const char *why)
{
	vm_log(vm, LOG_LV_WARN, "no self access: %s; create it anew", why);
	vm_tell(vm, EVENT_WARN, "no self access: %s; create it anew", why);
}

void vm_who_known(struct vm *vm, const struct agent_who *w)
{
	if (w->allow && !guest_knows_who(vm->guest))
		no_self(vm, "its agent is of an older version, from before self access");
}

void vm_tell_who(struct vm *vm, uint8_t event)
{
	struct err err = { 0 };
	struct agent_who w;
	int r;

	if (!vm->guest)
		return;
	vm_who(vm, NULL, &w);
	w.event = event;
	if (event == AGENT_EVENT_CREATED)
		snprintf(w.snapshot, sizeof(w.snapshot), "%s", vm->row.info.snapshot_id);
	r = guest_tell_who(vm->guest, &w, &err);
	if (r < 0 && w.allow)
		no_self(vm, err.msg);
}

/* On the thread of the guest's connection, with no lock of ours. */
bool vm_rang(void *ctx, struct guest *g)
{
	struct vmm *m = ctx;
	LOCK_SCOPE(&m->lock);

	return m->on_ring && m->on_ring(m->on_ring_ctx, g);
}

void vmm_on_ring(struct vmm *m, guest_ring_fn fn, void *ctx)
{
	LOCK_SCOPE(&m->lock);
	m->on_ring = fn;
	m->on_ring_ctx = ctx;
}

/* Is it the VM's, over any number of generations? i: the one that may be. */
static bool descends(struct vmm *m, const char *vm_id, const struct vm_info *i) REQUIRES(&m->lock)
{
	for (unsigned k = 0; i && k < GENERATIONS_MAX; k++) {
		const struct vm *up;

		if (!(i->self & VM_SELF_CHILD))
			return false;
		if (strcmp(i->parent_id, vm_id) == 0)
			return true;
		up = table_find(&m->vms, i->parent_id);
		i = up && strcmp(up->shown.account, i->account) == 0 ? &up->shown : NULL;
	}
	return false;
}

bool vmm_self_descends(struct vmm *m, const char *account, const char *vm_id, const char *child)
{
	const struct vm *vm;
	LOCK_SCOPE(&m->lock);

	vm = table_find(&m->vms, child);
	return vm && strcmp(vm->shown.account, account) == 0 && descends(m, vm_id, &vm->shown);
}

int vmm_self_children(struct vmm *m, const char *account, const char *vm_id, struct vm_info **ret,
                      size_t *ret_n, struct err *err)
{
	struct vm_info *v;
	size_t n = 0;
	LOCK_SCOPE(&m->lock);

	v = calloc(table_count(&m->vms, account) + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (const struct vm *vm = table_first(&m->vms, account); vm; vm = table_next(vm))
		if (vm->shown.self & VM_SELF_CHILD && descends(m, vm_id, &vm->shown))
			v[n++] = vm->shown;
	qsort(v, n, sizeof(*v), vm_cmp_newest);
	*ret = v;
	*ret_n = n;
	return 0;
}
