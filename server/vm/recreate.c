/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recreate.c - VMs that are made anew
 *
 * A VM created with `recreate` outlives its content. When it is deleted, evicted, or ends as
 * an ephemeral one does, its disk and memory go; id, name, settings, policy, names and
 * grants stay, and it is stopped. The next use thaws the point it was made from, as a
 * create would: its snapshot's or its spec's, which it keeps alive (`origin`), or the
 * template of that day. A VM that is empty and deleted once more is gone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

bool vm_is_empty(const struct store_vm *row)
{
	return row->info.recreate && !*row->disk_layer && !*row->info.point &&
	       row->info.state == VM_STOPPED;
}

void vm_fill_origin(struct vm *vm, const char *point)
{
	struct vmm *m = vm->m;

	LOCK_SCOPE(&m->lock);
	vm->row.origin[0] = '\0';
	if (vm->row.info.recreate && !template_is(m, point))
		snprintf(vm->row.origin, ID_SIZE, "%s", point);
}

int vm_empty(struct vm *vm, const char *why, struct err *err)
{
	struct store_vm before = vm->row, *row = &vm->row;
	int r;

	vm_usage_look(vm);
	row->info.point[0] = row->base_point[0] = row->base_mem[0] = row->disk_layer[0] = '\0';
	row->slot = -1;
	row->grow_fs = false;
	snprintf(row->head, ID_SIZE, "%s", row->origin);
	mutex_lock(&vm->m->lock);
	vm->reaper_fd = -1; /* its end is ours to see */
	mutex_unlock(&vm->m->lock);
	if (!vm->exit_why)
		vm->exit_why = why;
	r = vm_set_state(vm, VM_STOPPED, NULL, 0, NULL, err);
	if (r < 0) {
		before.info.now = row->info.now;
		*row = before;
		vm->exit_why = NULL;
		if (vm->machine)
			reaper_add(vm);
		return r;
	}
	/* The store knows: a process that outlives us is ended by recovery. */
	vm_take_down(vm);
	vm_log(vm, LOG_LV_INFO, "emptied (%s): the next use creates it again", why);
	vm_tell(vm, EVENT_INFO, "emptied (%s): the next use creates it again", why);
	vmm_collect_soon(vm->m);
	return 0;
}

int vm_make_anew(struct vm *vm, struct err *err)
{
	struct store_vm before = vm->row;
	struct engine_point p;
	char point[ID_SIZE];
	int r;

	snprintf(point, sizeof(point), "%s", vm->row.origin);
	r = *point ? vmm_point_hold(vm->m, point, err) : template_hold(vm->m, point, err);
	if (r < 0)
		return r;
	r = point_take(vm->m, point, &p, err);
	if (r == 0) {
		vm->row.info.vcpus = p.vcpus;
		vm->row.info.mem_mb = p.mem_mb;
		vm->row.info.disk_mb = p.disk_mb;
		snprintf(vm->row.head, ID_SIZE, "%s", p.line);
		r = vm_thaw(vm, &p, err);
		point_drop(vm->m, &p);
	}
	if (r == 0)
		vm_env_again(vm);
	if (r < 0) {
		before.info.state = vm->row.info.state;
		before.info.generation = vm->row.info.generation;
		vm->row = before;
	}
	vmm_release(vm->m, point);
	return r;
}
