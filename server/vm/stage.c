/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.c - VMs that are being built
 *
 * The builder owns the VM without holding its lock: everyone else is turned away by the state
 * (vmm_lock() says STILL_CREATING), so steps in the guest may take minutes. Only the calls here
 * take the lock. Cancelling ends the process; the builder's next step fails and it asks why.
 */
#include "vm/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "net/egress.h"
#include "store/store_note.h"
#include "vm/vm_internal.h"

struct vm_stage {
	struct vm *vm; /* ref'd */
};

static int sized(const struct vm_stage_opts *o, const struct engine_point *p)
{
	return (o->vcpus && o->vcpus != p->vcpus) || (o->mem_mb && o->mem_mb != p->mem_mb) ||
	       (o->disk_mb && o->disk_mb != p->disk_mb);
}

static int bring_up(struct vm *vm, const struct vm_stage_opts *o, const struct engine_point *p,
                    struct err *err)
{
	struct bringup b = { .point = p, .reason = GUEST_THAW, .agent_ms = vm->m->t.agent_thaw };
	struct stage_size size = { o->vcpus ? o->vcpus : p->vcpus,
		                   o->mem_mb ? o->mem_mb : p->mem_mb,
		                   o->disk_mb ? o->disk_mb : p->disk_mb };
	struct store_note note;
	int r = sized(o, p) ? vm_boot_sized(vm, p, &size, &b, err) : vm_bring_up(vm, &b, err);

	if (r < 0)
		return r;
	snprintf(b.layer.account, sizeof(b.layer.account), "%s", vm->payer);
	r = store_vm_add_many(vm->m->store, &vm->row, 1, &b.layer, 1, vm_note_of(&o->vm, &note),
	                      err);
	if (r < 0)
		vm_bring_up_undo(vm, &b);
	else
		vm_publish(vm);
	return r;
}

/* It counts for its account from here on: one in nobody's list stays held, others are in the table.
 */
static int make_known(struct vmm *m, const struct vm_stage_opts *o, struct vm *vm, struct err *err)
{
	struct vm_info want = vm->row.info;
	int r;

	want.vcpus = o->vcpus ? o->vcpus : want.vcpus;
	want.mem_mb = o->mem_mb ? o->mem_mb : want.mem_mb;
	want.disk_mb = o->disk_mb ? o->disk_mb : want.disk_mb;
	r = quota_hold_vm(m, &want, o->payer, err);
	if (r < 0)
		return r;
	r = *want.account ? quota_insert(m, &vm, 1, err) : vmm_insert(m, vm, err);
	if (r < 0)
		quota_release(m, want.id);
	return r;
}

int vmm_stage_begin(struct vmm *m, const struct vm_stage_opts *o, struct vm_stage **ret,
                    struct err *err)
{
	autofree struct vm_stage *s = calloc(1, sizeof(*s));
	struct engine_point p;
	struct store_vm row;
	struct vm *vm;
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "build: out of memory");
	if ((r = vmm_need_memory(m, 1, err)) < 0 || (r = vmm_need_room(m, err)) < 0)
		return err_wrap(err, r, "build");
	r = point_take(m, o->vm.point, &p, err);
	if (r < 0)
		return r;
	vm_fill_row(&o->vm, &p, &row);
	row.info.state = VM_BUILDING;
	vm = vm_new(m, &row);
	if (vm && !*row.info.account && o->payer)
		snprintf(vm->payer, sizeof(vm->payer), "%s", o->payer);
	if (vm && o->snapshot)
		snprintf(vm->builds, sizeof(vm->builds), "%s", o->snapshot);
	r = vm ? make_known(m, o, vm, err) : err_set(err, -ENOMEM, "build: out of memory");
	if (r < 0) {
		point_drop(m, &p);
		vm_unref(vm);
		return r;
	}
	mutex_lock(&vm->lock);
	r = vm_net_begin(vm, &o->vm, err);
	/* Its builder needs the network, whatever the VM may reach that comes out. */
	vm->net.waits = true;
	if (r == 0)
		r = bring_up(vm, o, &p, err);
	if (r < 0) {
		vm->gone = true;
		vm_net_undo(vm);
	}
	mutex_unlock(&vm->lock);
	point_drop(m, &p);
	if (r < 0) {
		bool cancelled;

		mutex_lock(&m->lock);
		cancelled = vm->cancelled;
		mutex_unlock(&m->lock);
		if (cancelled) /* its process was ended while it came up */
			r = err_set(err, -ECANCELED, "deleted before it was started");
		quota_release(m, row.info.id);
		vmm_forget(m, vm);
		vm_unref(vm);
		return r;
	}
	s->vm = vm;
	*ret = TAKE_PTR(s);
	return 0;
}

int vmm_stage_guest(struct vm_stage *s, struct guest **ret, struct err *err)
{
	struct vm *vm = s->vm;
	int r = 0;
	LOCK_SCOPE(&vm->lock);

	if (!vm->machine || !machine_alive(vm->machine))
		return err_set(err, -ECONNRESET, "the VM ended while it was being built");
	if (!vm->guest || !guest_alive(vm->guest))
		r = vm_reconnect(vm, err);
	if (r == 0)
		*ret = guest_ref(vm->guest);
	return r;
}

int vmm_stage_freeze(struct vm_stage *s, char ret_point[ID_SIZE], struct err *err)
{
	struct frozen f = { 0 };
	int r;
	LOCK_SCOPE(&s->vm->lock);

	if (!s->vm->machine || !machine_alive(s->vm->machine))
		return err_set(err, -ECONNRESET, "the VM ended while it was being built");
	r = vm_freeze_live(s->vm, /* durable= */ true, &f, err);
	if (r == 0)
		snprintf(ret_point, ID_SIZE, "%s", f.point);
	return r;
}

void vmm_stage_info(struct vm_stage *s, struct vm_info *ret)
{
	vm_copy_info(s->vm, ret);
}

bool vmm_stage_cancelled(struct vm_stage *s)
{
	LOCK_SCOPE(&s->vm->m->lock);

	return s->vm->cancelled;
}

void vm_cancel_build(struct vm *vm)
{
	char instance[ID_SIZE];

	mutex_lock(&vm->m->lock);
	vm->cancelled = true;
	snprintf(instance, sizeof(instance), "%s", vm->shown.instance);
	mutex_unlock(&vm->m->lock);
	if (*instance)
		privc_kill(vm->m->priv, instance, NULL);
}

void stage_cancel_snapshot(struct vmm *m, const char *snapshot)
{
	struct vm *vm = NULL;

	mutex_lock(&m->lock);
	for (size_t i = 0; i < m->vms.n && !vm; i++)
		if (m->vms.all[i]->shown.state == VM_BUILDING &&
		    !strcmp(m->vms.all[i]->builds, snapshot)) {
			vm = m->vms.all[i];
			vm->refs++;
		}
	mutex_unlock(&m->lock);
	if (vm)
		vm_cancel_build(vm);
	vm_unref(vm);
}

void vmm_stage_abort(struct vm_stage *s_consume)
{
	struct err err = { 0 };
	struct vm *vm;

	if (!s_consume)
		return;
	vm = s_consume->vm;
	vm_lock(vm);
	if (vm_delete_locked(vm, /* reason= */ NULL, &err) < 0)
		vm_log(vm, LOG_LV_ERROR, "was not removed; the next start removes it: %s", err.msg);
	quota_release(vm->m, vm->row.info.id);
	vm_unlock(vm);
	free(s_consume);
}

int vmm_stage_finish(struct vm_stage *s_consume, const char *snapshot_id, const char *build_id,
                     const char *workdir, struct vm_info *ret, struct err *err)
{
	struct vm *vm = s_consume->vm;
	struct vm_info *i = &vm->row.info;
	int r;

	if (vmm_stage_cancelled(s_consume)) {
		vmm_stage_abort(s_consume);
		return err_tag(err, -ECANCELED, ERR_VM_DELETED,
		               "the VM was deleted while it was being built");
	}
	mutex_lock(&vm->lock);
	snprintf(i->snapshot_id, sizeof(i->snapshot_id), "%s", snapshot_id);
	snprintf(i->build_id, sizeof(i->build_id), "%s", build_id);
	snprintf(i->workdir, sizeof(i->workdir), "%s", workdir);
	vm->net.waits = false;
	vm_fill_origin(vm, vm->row.head); /* the last layer, frozen */
	r = egress_is_default(vm->net.policy) ? 0 : vm_net_apply(vm, err);
	if (r == 0)
		r = vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, err);
	if (r == 0)
		vm_tell_who(vm, AGENT_EVENT_CREATED);
	if (r == 0)
		vm_copy_info(vm, ret);
	mutex_unlock(&vm->lock);
	if (r < 0) {
		vmm_stage_abort(s_consume);
		return r;
	}
	vm_unref(vm);
	free(s_consume);
	return 0;
}

int vmm_template_hold(struct vmm *m, char ret_point[ID_SIZE], char ret_key[32], struct err *err)
{
	int r = template_hold(m, ret_point, err);

	if (r == 0)
		snprintf(ret_key, 32, "%s", m->template_key);
	return r;
}

int vmm_size_hold(struct vmm *m, const char *account, uint32_t vcpus, uint32_t mem_mb,
                  char ret_point[ID_SIZE], char ret_key[32], struct err *err)
{
	return size_hold(m, account, vcpus, mem_mb, ret_point, ret_key, err);
}

int vmm_point_hold(struct vmm *m, const char *point, struct err *err)
{
	struct store_point p;
	int r;

	rwlock_rdlock(&m->gc);
	r = store_point_get(m->store, point, &p, err);
	if (r == 0)
		r = vmm_hold(m, point, err);
	rwlock_unlock(&m->gc);
	return r;
}

void vmm_point_release(struct vmm *m, const char *point)
{
	vmm_release(m, point);
}

int vmm_point_size(struct vmm *m, const char *point, struct stage_size *ret, struct err *err)
{
	struct store_point p;
	int r = store_point_get(m->store, point, &p, err);

	if (r == 0)
		*ret = (struct stage_size){ p.vcpus, p.mem_mb, p.disk_mb };
	return r;
}

int vmm_snapshot_hold(struct vmm *m, const char *account, const char *id, char ret_point[ID_SIZE],
                      char ret_workdir[WORKDIR_SIZE], struct err *err)
{
	int r = snapshot_point(m, account, id, ret_point, ret_workdir, err);

	return r < 0 ? r : vmm_point_hold(m, ret_point, err);
}

int vmm_snapshot_add(struct vmm *m, const struct store_snapshot *s, struct err *err)
{
	int r;

	LOCK_SCOPE(&m->quota);
	r = quota_check(m, s->info.account, &(struct vm_quota){ .snapshots = 1 }, err);
	return r < 0 ? r : store_snapshot_add(m->store, s, err);
}
