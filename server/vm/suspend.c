/* SPDX-License-Identifier: Apache-2.0 */
/* suspend.c - freeze and end the process; idle suspend is the same code */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

/* Which of the contract's codes: the VM goes on, or it is gone. A full disk says so itself. */
static void tag_failure(struct vm *vm, int r, struct err *err)
{
	if (!err || err->tag || r == -ENOSPC || r == -EDQUOT)
		return;
	err->tag = machine_alive(vm->machine) ? ERR_SUSPEND_FAILED_VM_RESUMED
	                                      : ERR_SUSPEND_FAILED_AND_STOPPED;
}

static int suspend(struct vm *vm, struct err *err)
{
	struct vm_info *i = &vm->row.info;
	int r;

	if (i->state != VM_RUNNING)
		return err_tag(err, -EINVAL, ERR_VM_NOT_RUNNING,
		               "VM %s is %s: only a running VM can be suspended", i->id,
		               vm_state_name(i->state));
	/* Shortened while it runs: one that is being suspended does not change to other layers. */
	if ((r = vm_check_stall(vm, err)) < 0 || (r = vm_save(vm, err)) < 0 ||
	    (r = vm_shorten(vm, err)) < 0 ||
	    (r = vm_set_state(vm, VM_SUSPENDING, NULL, 0, NULL, err)) < 0)
		return r;
	/* No byte may arrive between the freeze and the end: it would be acknowledged and lost. */
	r = privc_slot_gate(vm->m->priv, vm->slot.idx, /* open= */ false, err);
	if (r == 0) {
		vm_usage_look(vm);
		r = vm_freeze_suspend(vm, err);
	}
	if (r < 0) {
		struct err gate = { 0 };

		tag_failure(vm, r, err);
		if (machine_alive(vm->machine)) {
			if (privc_slot_gate(vm->m->priv, vm->slot.idx, /* open= */ true, &gate) < 0)
				vm_log(vm, LOG_LV_ERROR, "network stays closed: %s", gate.msg);
			vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, NULL);
		} else {
			vm_settle_end(vm); /* before anyone else finds it like this */
		}
		return err_wrap(err, r, "suspend VM %s", i->id);
	}
	vm_take_down(vm);
	return 0;
}

int vm_suspend_locked(struct vm *vm, struct err *err)
{
	uint64_t t0 = clock_us();
	const char *why = vm->why ? vm->why : "";
	int r;

	if (vm->row.info.state == VM_SUSPENDED)
		return 0;
	r = suspend(vm, err);
	if (r < 0)
		metrics_add(METRIC_VM_FAILURES, LABEL_OP_SUSPEND, 1);
	else
		metrics_since(METRIC_VM_SUSPEND,
		              strcmp(why, "requested") == 0 ? LABEL_REQUESTED
		              : strcmp(why, "idle") == 0    ? LABEL_IDLE
		                                            : LABEL_OTHER,
		              t0);
	return r;
}

int vmm_suspend(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
                struct err *err)
{
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	vm->why = "requested";
	r = vm_suspend_locked(vm, err);
	vm->why = NULL;
	if (r == 0) {
		vm_copy_info(vm, ret);
		if (ret->persistence.type == PERSIST_EPHEMERAL &&
		    ret->persistence.delete_event == DELETE_ON_SUSPEND)
			r = vm_delete_locked(vm, "ephemeral", err);
	}
	vm_unlock(vm);
	vmm_collect_soon(m);
	return r;
}

/* Those that run now, one after the other. Builds are cancelled if asked. */
static void suspend_each(struct vmm *m, const char *why, bool builds)
{
	struct vm **v;
	size_t n = 0;

	mutex_lock(&m->lock);
	v = calloc(m->vms.n ? m->vms.n : 1, sizeof(*v));
	for (size_t i = 0; v && i < m->vms.n; i++)
		if (m->vms.all[i]->shown.state == VM_RUNNING ||
		    (builds && m->vms.all[i]->shown.state == VM_BUILDING)) {
			v[n] = m->vms.all[i];
			v[n++]->refs++;
		}
	mutex_unlock(&m->lock);
	for (size_t i = 0; v && i < n; i++) {
		struct vm *vm = v[i];
		struct err err = { 0 };
		struct vm_info info;

		vm_copy_info(vm, &info);
		if (info.state == VM_BUILDING) { /* half a build is no use to anyone */
			vm_cancel_build(vm);
			vm_unref(vm);
			continue;
		}
		vm_lock(vm);
		vm->why = why;
		if (!vm->gone && vm->row.info.state == VM_RUNNING &&
		    vm_suspend_locked(vm, &err) < 0) {
			vm_log(vm, LOG_LV_ERROR, "could not be suspended and is stopped: %s",
			       err.msg);
			vm_stop_locked(vm, /* ask= */ false, NULL);
		}
		vm_unlock(vm);
	}
	free(v);
}

void vmm_suspend_all(struct vmm *m)
{
	knock_stop(m); /* or the last that runs would wake the first */
	mutex_lock(&m->lock);
	m->stopping = true; /* nothing is made ahead of need any more */
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	suspend_each(m, "shutdown", /* builds= */ true);
	hidden_end_all(m);
	sizes_stop(m);
}

void vmm_drain(struct vmm *m, bool on)
{
	mutex_lock(&m->lock);
	m->draining = on;
	cond_broadcast(&m->cond); /* ends the last one */
	mutex_unlock(&m->lock);
	if (!on)
		return;
	suspend_each(m, "drain", /* builds= */ false);
	drain_give_up(m);
}
