/* SPDX-License-Identifier: Apache-2.0 */
/* delete.c - the VM goes; layers others stand on stay */
#include "base/auto.h"
#include "vm/vm_internal.h"

int vm_delete_locked(struct vm *vm, struct err *err)
{
	int r = store_vm_delete(vm->m->store, vm->row.info.id, err);

	if (r < 0)
		return r;
	/* From here on it is gone, whatever happens to the process: recovery ends what nobody owns.
	 */
	vm->gone = true;
	vm_take_down(vm);
	vm_log(vm, LOG_LV_INFO, "deleted");
	vm_tell(vm, EVENT_INFO, "deleted");
	vmm_forget(vm->m, vm);
	vmm_collect_soon(vm->m);
	return 0;
}

int vmm_delete(struct vmm *m, const char *account, const char *id, struct err *err)
{
	struct vm_info i;
	struct vm *vm;
	int r = vmm_find(m, account, id, &vm, err);

	if (r < 0)
		return r;
	vm_copy_info(vm, &i);
	if (i.state == VM_BUILDING)
		vm_cancel_build(vm); /* its builder removes it and tells who waits for it */
	vm_unref(vm);
	if (i.state == VM_BUILDING)
		return 0;
	if ((r = vmm_lock(m, account, id, &vm, err)) < 0)
		return r;
	r = vm_delete_locked(vm, err);
	vm_unlock(vm);
	return r;
}
