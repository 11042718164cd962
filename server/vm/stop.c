/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.c - stop and kill: the disk stays, memory goes
 *
 * What a guest wrote to its files may still be in its memory alone. A stop asks it to
 * shut down, which writes that; a suspended VM is woken for it, if it can be: memory that was
 * frozen with another QEMU is dropped, and the VM starts from its disk. A kill drops memory as it
 * is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"

/* Somebody who would rather kill it may do so meanwhile. */
static void set_asked(struct vm *vm, bool asked)
{
	LOCK_SCOPE(&vm->m->lock);

	vm->asked = asked;
}

static void ask_guest(struct vm *vm)
{
	struct err err = { 0 };
	int r = -ENOTCONN;

	if (!vm->guest || !guest_alive(vm->guest))
		vm_reconnect(vm, &err);
	if (vm->guest)
		r = guest_shutdown(vm->guest, deadline_in(vm->m->t.shutdown_ask), &err);
	if (r == 0 && proc_wait_end(machine_proc(vm->machine), deadline_in(vm->m->t.shutdown)) == 1)
		return;
	vm_log(vm, LOG_LV_WARN, "did not shut down; ending it%s%s", *err.msg ? ": " : "", err.msg);
}

int vm_stop_locked(struct vm *vm, bool ask, struct err *err)
{
	struct store_vm *row = &vm->row;
	int r;

	if (row->info.state == VM_STOPPED || row->info.state == VM_LOST)
		return 0;
	if (vm->machine) {
		mutex_lock(&vm->m->lock);
		vm->reaper_fd = -1; /* its end is ours to see now */
		mutex_unlock(&vm->m->lock);
		vm_usage_look(vm);
		if (ask && machine_alive(vm->machine)) {
			set_asked(vm, true);
			ask_guest(vm);
			set_asked(vm, false);
		}
		vm_usage_look(vm); /* and what the way down took, as far as it can still be seen */
		vm_take_down(vm);
	}
	row->info.point[0] = row->base_point[0] = row->base_mem[0] = '\0';
	vmm_collect_soon(vm->m);
	r = vm_set_state(vm, VM_STOPPED, NULL, 0, NULL, err);
	if (r < 0) /* its machine is gone either way */
		vm_enter_unsaved(vm, VM_STOPPED);
	else
		vm_store_disk(vm);
	return r;
}

/* Only for want of something is it left asleep: kill drops its memory then. */
static int wake_to_stop(struct vm *vm, struct err *err)
{
	struct err why = { 0 };
	int r = vm_wake(vm, &why);

	if (r == 0 ||
	    (r != -EDQUOT && r != -ENOSPC && r != -ENOMEM && vm->row.info.state == VM_SUSPENDED)) {
		if (r < 0)
			vm_log(vm, LOG_LV_WARN, "its memory is dropped: %s", why.msg);
		return 0;
	}
	if (err)
		*err = why;
	return r;
}

static int stop(struct vmm *m, const char *account, const char *id, bool ask, struct vm_info *ret,
                struct err *err)
{
	struct vm *vm;
	int r = ask ? vmm_lock(m, account, id, &vm, err) : vmm_lock_soon(m, account, id, &vm, err);

	if (r < 0)
		return r;
	if (ask && vm->row.info.state == VM_SUSPENDED &&
	    vm->row.info.persistence.type != PERSIST_EPHEMERAL) /* nothing of that one stays */
		r = wake_to_stop(vm, err);
	if (r == 0) {
		vm->exit_why = ask ? "stopped" : "killed";
		r = vm_stop_locked(vm, ask, err);
	}
	if (r == 0) {
		vm_copy_info(vm, ret);
		if (ret->persistence.type == PERSIST_EPHEMERAL)
			r = vm_delete_locked(vm, "ephemeral", err);
	}
	vm_unlock(vm);
	return r;
}

int vmm_stop(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err)
{
	return stop(m, account, id, /* ask= */ true, ret, err);
}

int vmm_kill(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err)
{
	return stop(m, account, id, /* ask= */ false, ret, err);
}
