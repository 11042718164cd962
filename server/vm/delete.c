/* SPDX-License-Identifier: Apache-2.0 */
/* delete.c - the VM goes; layers others stand on stay */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "metrics/metrics.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"

int vm_delete_locked(struct vm *vm, const char *reason, struct err *err)
{
	bool asked = !reason || !strcmp(reason, "deleted");
	int r;

	if (reason && vm->row.info.recreate && !vm_is_empty(&vm->row))
		return vm_empty(vm, reason, err);
	vm_usage_look(vm);
	r = store_vm_bury(vm->m->store, &vm->row, reason, err);
	if (r < 0)
		return r;
	/* From here on it is gone, whatever happens to the process: recovery ends what nobody owns.
	 */
	vm->gone = true;
	metrics_add(METRIC_VM_DELETES, 0, 1);
	vm_take_down(vm);
	if (*vm->owed.id) /* no collector will ever hear of it */
		engine_remove_layer(vm->m->engine, vm->owed.id);
	vm_net_forget(vm);
	vm_log(vm, LOG_LV_INFO, "deleted%s%s", asked ? "" : ": ", asked ? "" : reason);
	vm_tell(vm, EVENT_INFO, "deleted%s%s", asked ? "" : ": ", asked ? "" : reason);
	mutex_lock(&vm->m->lock);
	vm->buried = true;
	vm_wake_waiters(vm, NULL);
	mutex_unlock(&vm->m->lock);
	vmm_forget(vm->m, vm);
	vmm_collect_soon(vm->m);
	return 0;
}

static int not_there(const char *id, struct err *err)
{
	return err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%.40s'", id);
}

int vmm_delete(struct vmm *m, const char *account, const char *id, bool *ret_kept, struct err *err)
{
	struct vm_info i;
	struct vm *vm;
	int r = vmm_find(m, account, id, &vm, err);

	if (ret_kept)
		*ret_kept = false;
	if (r == -ENOENT) {
		r = elsewhere_claim(m, account, id, CLAIM_TO_DELETE, err);
		if (r < 0)
			return r;
		r = r ? vmm_find(m, account, id, &vm, err) : not_there(id, err);
	}
	if (r < 0)
		return elsewhere_error(m, account, id, r, err);
	vm_copy_info(vm, &i);
	if (i.state == VM_BUILDING)
		vm_cancel_build(vm); /* its builder removes it and tells who waits for it */
	vm_unref(vm);
	if (i.state == VM_BUILDING)
		return 0;
	r = vmm_lock_soon(m, account, id, &vm, err);
	if (r == -ENOENT) /* whoever deletes twice finds nothing */
		return not_there(id, err);
	if (r < 0)
		return r;
	r = vm_delete_locked(vm, "deleted", err);
	if (r == 0 && ret_kept)
		*ret_kept = !vm->gone;
	vm_unlock(vm);
	return r;
}
