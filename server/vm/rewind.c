/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rewind.c - a VM goes back to a snapshot of its own past
 *
 * A running VM: the machine of the past is brought up beside the present one, by the same thaw as
 * any other, and takes its place only when its agent has confirmed who it is and the store knows.
 * Until then the present one runs on behind a closed gate, so a failure costs nothing. A VM
 * that does not run is put to rest on the snapshot's point: the next use thaws it.
 *
 * Its own past is every snapshot of its ancestry and every snapshot that was taken of it: also the
 * one that a rewind kept, which is no ancestor of where the rewind led, so that it can be undone.
 *
 * Without a snapshot it goes to its newest point, which may be a suspend or checkpoint that has no
 * name: also one that was lost with its node or by damage, which then rests there. Of that one
 * nothing is kept.
 *
 * What it was before is kept as a snapshot unless the caller says otherwise. For a stopped VM
 * that means a boot, as every snapshot of a stopped VM does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/elsewhere.h"
#include "vm/tree.h"
#include "vm/vm_internal.h"

static int check_past(struct vm *vm, const char *snapshot_id, const char *point, struct err *err)
{
	autofree struct store_line *line = NULL;
	struct store_snapshot s;
	size_t n = 0;
	int r;

	if ((r = store_snapshot_get(vm->m->store, snapshot_id, &s, err)) < 0 ||
	    (r = store_point_line(vm->m->store, vm->row.head, &line, &n, err)) < 0)
		return r;
	if (!strcmp(s.info.source_vm, vm->row.info.id))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(line[i].id, point))
			return 0;
	return err_tag(err, -EINVAL, ERR_INVALID_SNAPSHOT_ID,
	               "snapshot %s is not in the ancestry of VM %s: a VM can only be rewound to "
	               "its own history; create a VM from the snapshot instead",
	               snapshot_id, vm->row.info.id);
}

/* The row as it is at the point. Name, grants and settings stay; sizes are the past's. */
static void row_at(const struct vm *vm, const struct engine_point *p, struct store_vm *row)
{
	*row = vm->row;
	row->info.vcpus = p->vcpus;
	row->info.mem_mb = p->mem_mb;
	row->info.disk_mb = p->disk_mb;
	snprintf(row->head, ID_SIZE, "%s", p->id);
	snprintf(row->disk_layer, ID_SIZE, "%s", p->disk.n ? p->disk.l[p->disk.n - 1].id : "");
}

/* Process, agent, slot and row of the two change places. */
static void change_places(struct vm *a, struct vm *b)
{
	struct machine *machine = a->machine;
	struct guest *guest = a->guest;
	struct priv_slot slot = a->slot;
	struct store_vm row = a->row;
	bool has_slot = a->has_slot;

	a->machine = b->machine;
	a->guest = b->guest;
	a->slot = b->slot;
	a->row = b->row;
	a->has_slot = b->has_slot;
	b->machine = machine;
	b->guest = guest;
	b->slot = slot;
	b->row = row;
	b->has_slot = has_slot;
}

static int take_over(struct vm *vm, const struct engine_point *p, const char *snapshot_id,
                     struct err *err)
{
	struct bringup b = { .point = p,
		             .reason = GUEST_THAW,
		             .agent_ms = vm->m->t.agent_thaw,
		             .event = AGENT_EVENT_REWOUND,
		             .snapshot = snapshot_id };
	struct store_vm row;
	struct vm *past;
	int r;

	row_at(vm, p, &row);
	row.slot = -1;
	row.info.point[0] = '\0';
	snprintf(row.base_point, ID_SIZE, "%s", p->id);
	snprintf(row.base_mem, ID_SIZE, "%s", p->mem.n ? p->mem.l[p->mem.n - 1].id : "");
	past = vm_new(vm->m, &row);
	if (!past)
		return err_set(err, -ENOMEM, "out of memory");
	/* In no table: nobody else can lock it, so we need not either. */
	r = vm_net_share(&past->net, &vm->net, err);
	if (r == 0)
		r = vm_bring_up(past, &b, err);
	if (r == 0) {
		vm_usage_look(vm);
		past->row.info.past = vm_usage_total(&vm->row.info);
		past->row.info.now = past->row.info.ahead = (struct vm_usage){ 0 };
		past->row.info.machine_ms = clock_wall_ms();
		vm_note_exit(vm, "rewound");
		reaper_remove(vm);
		change_places(vm, past);
		r = vm_set_state(vm, VM_RUNNING, &b.layer, 1, NULL, err);
		if (r < 0) {
			change_places(vm, past);
			vm_bring_up_undo(past, &b);
		} else {
			vm_take_down(past); /* what was the present */
			vm->idle_since_ms = 0;
		}
		reaper_add(vm);
	}
	vm_unref(past);
	return r;
}

int vm_rest_at(struct vm *vm, const struct engine_point *p, struct err *err)
{
	struct store_vm before = vm->row, row;
	int r = engine_point_check(vm->m->engine, p, err);

	if (r < 0)
		return r;
	row_at(vm, p, &row);
	row.base_point[0] = row.base_mem[0] = '\0';
	snprintf(row.info.point, ID_SIZE, "%s", p->id);
	vm->row = row;
	r = vm_set_state(vm, VM_SUSPENDED, NULL, 0, NULL, err);
	if (r < 0)
		vm->row = before;
	return r;
}

static void set_gate(struct vm *vm, bool open)
{
	struct err err = { 0 };

	if (vm->has_slot && privc_slot_gate(vm->m->priv, vm->slot.idx, open, &err) < 0)
		vm_log(vm, LOG_LV_ERROR, "network stays %s: %s", open ? "closed" : "open", err.msg);
}

static int keep_present(struct vm *vm, struct vm_rewind *ret, struct err *err)
{
	struct vm_persistence p = { .type = PERSIST_STICKY, .priority = 5 };
	struct snapshot_info n;
	int r = vm_snapshot_locked(vm, "before rewind", &p, &n, err);

	if (r == 0)
		snprintf(ret->previous, sizeof(ret->previous), "%s", n.id);
	return r;
}

/* The point is held by the caller. */
static int rewind_locked(struct vm *vm, const char *point, const char *snapshot_id, bool keep,
                         struct vm_rewind *ret, struct err *err)
{
	enum vm_state from = vm->row.info.state;
	struct engine_point p;
	int r = 0;

	if (from == VM_LOST)
		keep = false; /* there is no present */
	else if (from != VM_RUNNING && from != VM_SUSPENDED && from != VM_STOPPED)
		return err_tag(err, -EBUSY, ERR_CONFLICT, "VM %s is %s and cannot be rewound",
		               vm->row.info.id, vm_state_name(from));
	if (from == VM_RUNNING)
		set_gate(vm, /* open= */ false);
	if (keep)
		r = keep_present(vm, ret, err);
	if (from == VM_STOPPED && vm->row.info.state == VM_RUNNING) {
		struct err e = { 0 };
		int k = vm_stop_locked(vm, /* ask= */ true, r < 0 ? &e : err);

		if (r == 0)
			r = k;
	}
	if (r == 0)
		r = point_take(vm->m, point, &p, err);
	if (r == 0) {
		vm->why = "rewound";
		r = from == VM_RUNNING ? take_over(vm, &p, snapshot_id, err)
		                       : vm_rest_at(vm, &p, err);
		vm->why = NULL;
		point_drop(vm->m, &p);
	}
	if (r < 0 && from == VM_RUNNING)
		set_gate(vm, /* open= */ true);
	if (r < 0 && *ret->previous) {
		store_snapshot_delete(vm->m->store, ret->previous, NULL);
		ret->previous[0] = '\0';
	}
	return r;
}

int vmm_rewind(struct vmm *m, const char *account, const char *id, const char *snapshot_id,
               bool keep, struct vm_rewind *ret, struct err *err)
{
	uint64_t t0 = clock_ms();
	char point[ID_SIZE];
	struct vm *vm;
	int r = elsewhere_claim(m, account, id, CLAIM_TO_REWIND, err);

	if (r < 0 || (r = vmm_lock(m, account, id, &vm, err)) < 0)
		return r;
	*ret = (struct vm_rewind){ 0 };
	if (!snapshot_id)
		r = vm_last_point(vm, point, err);
	else if ((r = snapshot_point(m, account, snapshot_id, point, NULL, err)) == 0)
		r = check_past(vm, snapshot_id, point, err);
	if (r == 0 && (r = vmm_point_hold(m, point, err)) == 0) {
		r = rewind_locked(vm, point, snapshot_id, keep, ret, err);
		vmm_release(m, point);
	}
	if (r == 0) {
		vm_copy_info(vm, &ret->vm);
		vm_log(vm, LOG_LV_INFO, "rewound to %s in %llu ms",
		       snapshot_id ? snapshot_id : point, (unsigned long long)(clock_ms() - t0));
	}
	vm_unlock(vm);
	vmm_collect_soon(m);
	if (r < 0 && err && err->tag &&
	    (err->tag == ERR_POINT_DAMAGED || err->tag == ERR_POINT_MISMATCH))
		err->tag = ERR_SOURCE_SNAPSHOT_LOST;
	return r < 0 ? err_wrap(err, r, "rewind VM %s", id) : 0;
}
