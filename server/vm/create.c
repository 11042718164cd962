/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - a new VM is the thaw of a point: the template's or a snapshot's
 *
 * Where one is ready (pool.c) the thaw was done before.
 * The row is written once, when the VM runs: a crash before that leaves a
 * process and files that nobody knows, and recovery removes both.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "store/store_note.h"
#include "vm/elsewhere.h"
#include "vm/template_own.h"
#include "vm/vm_internal.h"

int snapshot_point(struct vmm *m, const char *account, const char *id, char ret_point[ID_SIZE],
                   char ret_workdir[WORKDIR_SIZE], struct err *err)
{
	struct store_snapshot s;
	int r = snapshot_find(m, account, id, &s, err);

	if (r < 0)
		return r;
	if (!s.info.deleted && s.info.state == SNAPSHOT_BUILDING)
		return err_tag(err, -EBUSY, ERR_SOURCE_SNAPSHOT_BUILDING,
		               "snapshot '%.40s' is still being built", id);
	if (!s.info.deleted && s.info.state == SNAPSHOT_FAILED && !*s.point)
		return err_tag(err, -ENOENT, ERR_SNAPSHOT_NOT_FOUND,
		               "snapshot '%.40s' failed before there was anything to start: %.200s",
		               id, s.info.failure);
	if (!s.info.deleted && s.info.state == SNAPSHOT_LOST)
		return err_tag(err, -EEXIST, ERR_SOURCE_SNAPSHOT_LOST,
		               "snapshot '%.40s' is lost: %.200s", id, s.info.failure);
	if (s.info.deleted || !*s.point)
		return err_tag(err, -ENOENT, ERR_SOURCE_SNAPSHOT_DELETED,
		               "snapshot '%.40s' was deleted", id);
	snprintf(ret_point, ID_SIZE, "%s", s.point);
	if (ret_workdir)
		snprintf(ret_workdir, WORKDIR_SIZE, "%s", s.info.workdir);
	snapshot_used(m, &s);
	return 0;
}

void vm_fill_options(const struct vm_create_opts *o, struct store_vm *row)
{
	struct vm_info *i = &row->info;

	snprintf(i->account, sizeof(i->account), "%s", o->account);
	snprintf(i->name, sizeof(i->name), "%s", o->name ? o->name : "");
	snprintf(i->snapshot_id, sizeof(i->snapshot_id), "%s",
	         o->snapshot_id ? o->snapshot_id : "");
	snprintf(i->build_id, sizeof(i->build_id), "%s", o->build_id ? o->build_id : "");
	snprintf(i->workdir, sizeof(i->workdir), "%s", o->workdir ? o->workdir : "");
	i->created_ms = clock_wall_ms();
	i->idle_timeout_s = o->idle_timeout_s;
	i->activity_threshold = o->activity_threshold;
	i->count_exec = o->count_exec;
	i->delete_at_ms = vm_delete_at(o->delete_after_s > 0 ? o->delete_after_s : -1);
	i->recreate = o->recreate;
	i->checkpoint_every_s = o->checkpoint_every_s;
	i->self = o->self;
	i->persistence = o->persistence;
}

void vm_fill_row(const struct vm_create_opts *o, const struct engine_point *p, struct store_vm *row)
{
	struct vm_info *i = &row->info;

	*row = (struct store_vm){ .slot = -1 };
	id_make("", i->id);
	vm_fill_options(o, row);
	i->state = VM_STARTING;
	i->vcpus = p->vcpus;
	i->mem_mb = p->mem_mb;
	i->disk_mb = p->disk_mb;
	snprintf(row->base_point, sizeof(row->base_point), "%s", p->id);
	snprintf(row->head, sizeof(row->head), "%s", p->line);
	snprintf(row->base_mem, sizeof(row->base_mem), "%s",
	         p->mem.n ? p->mem.l[p->mem.n - 1].id : "");
	snprintf(row->disk_layer, sizeof(row->disk_layer), "%s",
	         p->disk.n ? p->disk.l[p->disk.n - 1].id : "");
}

const struct store_note *vm_note_of(const struct vm_create_opts *o, struct store_note *mem)
{
	*mem = (struct store_note){ .tags = o->tags, .metadata = o->metadata };
	return o->tags || o->metadata ? mem : NULL;
}

int vm_settle_new(struct vm *vm, const struct vm_create_opts *o, const struct store_layer *layer,
                  struct err *err)
{
	struct store_note note;
	struct vmm *m = vm->m;
	int r = quota_insert(m, &vm, 1, err);

	if (r < 0)
		return r;
	vm_fill_origin(vm, vm->row.base_point);
	r = vm_add_running(&vm, layer, 1, vm_note_of(o, &note), err);
	if (r < 0) {
		vm->gone = true;
		vmm_forget(m, vm);
		return r;
	}
	reaper_add(vm);
	return 0;
}

static int create_from(struct vmm *m, const struct vm_create_opts *o, const char *point,
                       struct vm_info *ret, struct err *err)
{
	struct engine_point p;
	struct store_vm row;
	struct bringup b = { .point = &p,
		             .reason = GUEST_THAW,
		             .agent_ms = m->t.agent_thaw,
		             .event = AGENT_EVENT_CREATED };
	struct vm *vm;
	int r = point_take(m, point, &p, err);

	if (r < 0)
		return r;
	vm_fill_row(o, &p, &row);
	vm = vm_new(m, &row);
	r = vm ? quota_hold_vm(m, &row.info, o->account, err)
	       : err_set(err, -ENOMEM, "create VM: out of memory");
	if (r < 0) {
		point_drop(m, &p);
		vm_unref(vm);
		return r;
	}
	mutex_lock(&vm->lock);
	r = vm_net_begin(vm, o, err);
	if (r == 0)
		r = vm_bring_up(vm, &b, err);
	if (r == 0) {
		r = vm_settle_new(vm, o, &b.layer, err);
		if (r < 0)
			vm_bring_up_undo(vm, &b);
	}
	if (r == 0)
		vm_copy_info(vm, ret);
	else
		vm_net_undo(vm);
	mutex_unlock(&vm->lock);
	quota_release(m, row.info.id);
	point_drop(m, &p);
	vm_unref(vm);
	return r;
}

static int create(struct vmm *m, const struct vm_create_opts *o, bool *ret_ready,
                  struct vm_info *ret, struct err *err)
{
	struct vm_create_opts full = *o;
	char point[ID_SIZE], workdir[WORKDIR_SIZE] = "";
	uint64_t t0 = clock_ms();
	int r = 0;

	if ((r = vmm_need_memory(m, 1, err)) < 0 || (r = vmm_need_room(m, err)) < 0)
		return err_wrap(err, r, "create VM");
	if (o->point)
		snprintf(point, sizeof(point), "%s", o->point);
	else if (o->snapshot_id)
		r = snapshot_point(m, o->account, o->snapshot_id, point, workdir, err);
	else
		r = size_hold(m, o->account, o->vcpus, o->mem_mb, point, NULL, err);
	if (r < 0)
		return r;
	if (!full.workdir)
		full.workdir = workdir;
	if ((o->point || o->snapshot_id) && (r = vmm_point_hold(m, point, err)) < 0)
		return r;
	sizes_make_way(m);
	r = pool_take(m, &full, point, ret, err);
	*ret_ready = r == 0;
	if (r == -EAGAIN)
		r = create_from(m, &full, point, ret, err);
	vmm_release(m, point);
	if (r < 0 && err && err->tag == ERR_POINT_DAMAGED && !own_forget(m, point))
		size_forget(m, point, "it is damaged");
	if (r < 0 && o->snapshot_id)
		snapshot_fault(m, o->snapshot_id, err);
	if (r < 0)
		return err_wrap(err, r, "create VM");
	vmm_tell(m, o->account, ret->id, EVENT_INFO, "created from %s in %llu ms",
	         o->snapshot_id ? o->snapshot_id : "the base template",
	         (unsigned long long)(clock_ms() - t0));
	log_obj(LOG_LV_INFO, "vm", ret->id, "created in %llu ms from %s%s",
	        (unsigned long long)(clock_ms() - t0),
	        o->point         ? o->point
	        : o->snapshot_id ? o->snapshot_id
	                         : "the template",
	        *ret_ready ? ", it was ready" : "");
	return 0;
}

int vmm_create(struct vmm *m, const struct vm_create_opts *o, struct vm_info *ret, struct err *err)
{
	uint64_t t0 = clock_us();
	bool ready = false;
	int r = drain_check(m, err);

	if (r == 0)
		r = create(m, o, &ready, ret, err);
	if (r < 0)
		metrics_add(METRIC_VM_FAILURES, LABEL_OP_CREATE, 1);
	else
		metrics_since(METRIC_VM_CREATE,
		              ready                        ? LABEL_POOL
		              : o->point || o->snapshot_id ? LABEL_SNAPSHOT
		                                           : LABEL_TEMPLATE,
		              t0);
	return r;
}
