/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.c - the way from the host to a port of a VM
 *
 * A socket made in the VM's network slot: what passes through it is traffic of the VM's NIC and
 * keeps it from being idle, as everything else does. The socket belongs to one machine: when that
 * machine is gone nothing will ever come through it again.
 */
#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/clock.h"
#include "net/gate.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"

#define BOOTED_MS 60000 /* services of a VM that was booted are up after so long */
#define THAWED_MS 5000  /* and those of one that was thawed were up before */

int vmm_socket(struct vmm *m, const char *account, const char *id, struct vm_socket *ret,
               struct err *err)
{
	struct vm *vm;
	int64_t age;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	r = vm_wake(vm, err);
	if (r == 0 && !vm->has_slot)
		r = err_tag(err, -ENOTCONN, ERR_VM_NOT_RUNNING, "VM %s has no network", id);
	if (r == 0)
		r = privc_slot_socket(m->priv, vm->slot.idx, ret->udp, &ret->fd, err);
	if (r == 0) {
		age = clock_wall_ms() - vm->row.info.machine_ms;
		snprintf(ret->instance, sizeof(ret->instance), "%s", vm->row.info.instance);
		ret->fresh_ms =
		        (unsigned)MAX((*vm->row.base_point ? THAWED_MS : BOOTED_MS) - age, 0);
	}
	vm_unlock(vm);
	return r;
}

int vmm_caller(struct vmm *m, const char *caller, char ret_vm[ID_SIZE])
{
	return gates_caller(m->conf.gates, caller, ret_vm);
}

int vmm_owner(struct vmm *m, const char *id, char ret_account[ACCOUNT_SIZE], struct err *err)
{
	struct vm_info i;
	struct vm *vm;
	int r = vmm_find(m, NULL, id, &vm, err);

	if (r < 0 && !elsewhere_rests(m, NULL, id, &i))
		return r;
	if (r == 0) {
		vm_copy_info(vm, &i);
		vm_unref(vm);
	}
	snprintf(ret_account, ACCOUNT_SIZE, "%s", i.account);
	return 0;
}
