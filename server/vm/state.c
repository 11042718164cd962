/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - the transition table, and the one function that moves a VM's state */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

static const char *const vm_state_str[] = {
	[VM_STARTING] = "starting",   [VM_RUNNING] = "running", [VM_SUSPENDING] = "suspending",
	[VM_SUSPENDED] = "suspended", [VM_STOPPED] = "stopped", [VM_LOST] = "lost",
	[VM_BUILDING] = "building",
};
_Static_assert(ARRAY_SIZE(vm_state_str) == VM_STATE_MAX, "vm_state_str misses a state");

/* clang-format off */
static const uint32_t vm_next[VM_STATE_MAX] = {
	[VM_STARTING]   = BIT(VM_RUNNING) | BIT(VM_STOPPED) | BIT(VM_SUSPENDED) | BIT(VM_LOST),
	[VM_RUNNING]    = BIT(VM_RUNNING) | BIT(VM_SUSPENDING) | BIT(VM_STOPPED),
	[VM_SUSPENDING] = BIT(VM_SUSPENDED) | BIT(VM_RUNNING) | BIT(VM_STOPPED),
	[VM_SUSPENDED]  = BIT(VM_STARTING) | BIT(VM_SUSPENDED) | BIT(VM_STOPPED) | BIT(VM_LOST),
	[VM_STOPPED]    = BIT(VM_STARTING) | BIT(VM_SUSPENDED) | BIT(VM_LOST),
	[VM_LOST]       = 0,
	[VM_BUILDING]   = BIT(VM_BUILDING) | BIT(VM_RUNNING),
};
/* clang-format on */

const char *vm_state_name(enum vm_state s)
{
	return vm_state_str[s];
}

int vm_state_parse(const char *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(vm_state_str); i++)
		if (!strcmp(s, vm_state_str[i]))
			return (int)i;
	return -EINVAL;
}

bool vm_may_enter(enum vm_state from, enum vm_state to)
{
	return (vm_next[from] & BIT(to)) != 0;
}

/* Passing states are not worth a transaction: after a crash recovery looks at the processes anyway.
 */
static bool state_is_saved(enum vm_state s)
{
	return s != VM_STARTING && s != VM_SUSPENDING;
}

int vm_set_state(struct vm *vm, enum vm_state next, const struct store_layer *new_layers,
                 size_t n_layers, const struct store_point *new_point, struct err *err)
{
	struct vmm *m = vm->m;
	enum vm_state old = vm->row.info.state;
	struct store_vm row = vm->row;
	int r;

	if (!vm_may_enter(old, next))
		return err_tag(err, -EBUSY, "CONFLICT", "VM %s is %s and cannot become %s",
		               vm->row.info.id, vm_state_str[old], vm_state_str[next]);
	row.info.state = next;
	if (state_is_saved(next)) {
		r = store_vm_update(m->store, &row, new_layers, n_layers, new_point, err);
		if (r < 0)
			return err_wrap(err, "VM %s", vm->row.info.id);
	}
	vm->row.info.state = next;
	vm_publish(vm);
	if (old != next && state_is_saved(next))
		vm_tell(vm, next == VM_LOST ? EVENT_ERROR : EVENT_INFO, "state: %s",
		        vm_state_str[next]);
	if (old != next)
		vm_log(vm, LOG_LV_DEBUG, "%s -> %s", vm_state_str[old], vm_state_str[next]);
	return 0;
}
