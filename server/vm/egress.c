/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress.c - look at and change what a VM may reach
 *
 * A change is in the kernel, then in the store, then answered; when the store
 * fails the old policy is put back. Whoever crashes in between leaves a running
 * VM with a policy nobody was promised; the next start applies the stored one.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "net/egress.h"
#include "net/gate.h"
#include "vm/network.h"
#include "vm/vm_internal.h"

int vmm_egress_get(struct vmm *m, const char *account, const char *id, struct egress **ret,
                   struct err *err)
{
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	*ret = egress_ref(vm->net.policy);
	vm_unlock(vm);
	return 0;
}

/* vm->lock held */
static int change(struct vm *vm, struct egress *next, struct err *err)
{
	struct egress *before = vm->net.policy;
	bool live = vm->row.info.state == VM_RUNNING && vm->has_slot;
	int r = vm_net_ca(vm, next, err);

	if (r < 0)
		return r;
	/* Before connections are taken over: the guest would refuse them. */
	if (live && next->n_inject)
		vm_net_trust(vm);
	vm->net.policy = next;
	if (live)
		r = vm_net_apply(vm, err);
	if (r == 0)
		r = vm_net_save(vm, next, err);
	if (r < 0) {
		struct err undo = { 0 };

		vm->net.policy = before;
		if (live && vm_net_apply(vm, &undo) < 0) {
			/* Neither is known to hold: nothing passes until one does. */
			vm_log(vm, LOG_LV_ERROR, "its network is closed: %s", undo.msg);
			privc_slot_gate(vm->m->priv, vm->slot.idx, /* open= */ false, NULL);
		}
		return r;
	}
	egress_ref(next);
	egress_unref(before);
	return 0;
}

int vmm_egress_set(struct vmm *m, const char *account, const char *id, struct egress *e,
                   struct err *err)
{
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	r = egress_keep_secrets(e, vm->net.policy, err);
	if (r == 0)
		r = change(vm, e, err);
	vm_unlock(vm);
	if (r < 0)
		return err_wrap(err, r, "egress of VM %s", id);
	vmm_tell(m, account, id, EVENT_INFO, "egress policy changed");
	return 0;
}

int vmm_egress_blocked(struct vmm *m, const char *account, const char *id,
                       struct gate_blocked **ret, size_t *ret_n, struct err *err)
{
	struct gate_log *log;
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	if (vm->has_slot)
		gate_collect(m->conf.gates, vm->slot.idx);
	log = gate_log_ref(vm->net.log);
	vm_unlock(vm);
	*ret = calloc(GATE_LOG_MAX, sizeof(**ret));
	if (*ret)
		*ret_n = gate_log_list(log, *ret);
	gate_log_unref(log);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}
