/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - the transition table, and the one function that moves a VM's state */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_feed.h"
#include "vm/elsewhere.h"
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
	[VM_STOPPED]    = BIT(VM_STOPPED) | BIT(VM_STARTING) | BIT(VM_SUSPENDED) | BIT(VM_LOST),
	[VM_LOST]       = BIT(VM_STOPPED) | BIT(VM_SUSPENDED), /* emptied, to be made anew; rewound */
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

/* A machine begins or has ended: what it took is added up. */
static void settle_usage(struct store_vm *row, enum vm_state old, enum vm_state next)
{
	struct vm_info *i = &row->info;

	if (next == VM_RUNNING && (old == VM_STARTING || old == VM_BUILDING)) {
		i->now = (struct vm_usage){ 0 };
		i->machine_ms = i->used_ms = clock_wall_ms();
	} else if ((next == VM_SUSPENDED || next == VM_STOPPED) && i->machine_ms) {
		i->past = vm_usage_total(i);
		i->now = i->ahead = (struct vm_usage){ 0 };
		i->machine_ms = 0;
		i->used_ms = clock_wall_ms();
	}
}

void vm_note_exit(struct vm *vm, const char *word)
{
	LOCK_SCOPE(&vm->m->lock);

	snprintf(vm->last_exit, sizeof(vm->last_exit), "%s", word);
}

/* For those who wait for the end of a machine. */
static void note_exit(struct vm *vm, enum vm_state next)
{
	if (next == VM_SUSPENDED || next == VM_STOPPED || next == VM_LOST)
		vm_note_exit(vm, next == VM_STOPPED && vm->exit_why ? vm->exit_why
		                                                    : vm_state_str[next]);
	vm->exit_why = NULL;
}

/* Who follows the account hears of passing states, too; what is saved is told with its row. */
static void tell_passing(struct vm *vm)
{
	const struct vm_info *i = &vm->row.info;

	store_feed_note(vm->m->store, i->account, "vm.state", i->id, "vm",
	                json_pack("{s:s, s:s?, s:s}", "id", i->id, "name",
	                          *i->name ? i->name : NULL, "state", vm_state_str[i->state]));
}

/* What the store knows is the VM's state from here on. */
static void entered(struct vm *vm, const struct vm_info *now)
{
	enum vm_state old = vm->row.info.state, next = now->state;
	bool again = vm->stored == next; /* back from a passing state */

	vm->row.info = *now;
	if (state_is_saved(next)) {
		vm->stored = next;
		note_exit(vm, next);
	}
	vm_publish(vm);
	if (old != next && (!state_is_saved(next) || (!state_is_saved(old) && again)))
		tell_passing(vm);
	if (old != next && state_is_saved(next))
		vm_tell(vm, next == VM_LOST ? EVENT_ERROR : EVENT_INFO, "state: %s",
		        vm_state_str[next]);
	if (old != next)
		vm_log(vm, LOG_LV_DEBUG, "%s -> %s", vm_state_str[old], vm_state_str[next]);
}

#define LAYERS_MAX 4 /* written with one state: the one that was owed, and what a freeze makes */

int vm_set_state(struct vm *vm, enum vm_state next, const struct store_layer *new_layers,
                 size_t n_layers, const struct store_point *new_point, struct err *err)
{
	struct vmm *m = vm->m;
	enum vm_state old = vm->row.info.state;
	struct store_layer layers[LAYERS_MAX];
	struct store_vm row = vm->row;
	size_t n = 0;
	int r;

	if (!vm_may_enter(old, next))
		return err_tag(err, -EBUSY, ERR_CONFLICT, "VM %s is %s and cannot become %s",
		               vm->row.info.id, vm_state_str[old], vm_state_str[next]);
	row.info.state = next;
	snprintf(row.why, sizeof(row.why), "%s",
	         vm->exit_why ? vm->exit_why
	         : vm->why    ? vm->why
	                      : "");
	settle_usage(&row, old, next);
	if (state_is_saved(next)) {
		if (*vm->owed.id)
			layers[n++] = vm->owed;
		for (size_t i = 0; i < n_layers && n < LAYERS_MAX; i++)
			layers[n++] = new_layers[i];
		r = store_vm_update(m->store, &row, layers, n, new_point, err);
		if (r < 0 && (next != vm->stored || state_is_saved(old) || n_layers || new_point))
			return err_wrap(err, r, "VM %s", vm->row.info.id);
		if (r < 0) /* back from a passing state: the store has never heard of that */
			vm_log(vm, LOG_LV_WARN, "is %s again, which could not be saved",
			       vm_state_str[next]);
		else
			vm->owed.id[0] = '\0';
		vm->unsaved = r < 0;
		if (r < 0)
			vmm_save_later(vm->m);
	}
	entered(vm, &row.info);
	return 0;
}

void vm_enter_unsaved(struct vm *vm, enum vm_state next)
{
	enum vm_state old = vm->row.info.state, stored = vm->stored;
	struct store_vm row = vm->row;

	row.info.state = next;
	settle_usage(&row, old, next);
	entered(vm, &row.info);
	vm->stored = stored;
	vm->unsaved = true;
	vmm_save_later(vm->m);
	vmm_collect_soon(vm->m); /* the keeper */
}

void vmm_save_later(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	m->some_unsaved = true;
}

int vm_save(struct vm *vm, struct err *err)
{
	enum vm_state s = vm->row.info.state;

	if ((!vm->unsaved && !*vm->owed.id) || !state_is_saved(s))
		return 0;
	return vm_set_state(vm, s, NULL, 0, NULL, err);
}

int vm_add_running(struct vm *const *vms, const struct store_layer *layers, size_t n,
                   const struct store_note *note, struct err *err)
{
	return n ? vm_add_forks(vms[0]->m, vms, layers, n, NULL, 0, note, err) : 0;
}

int vm_add_forks(struct vmm *m, struct vm *const *vms, const struct store_layer *layers, size_t n,
                 const struct store_vm *rest, size_t n_rest, const struct store_note *note,
                 struct err *err)
{
	autofree struct store_vm *rows = calloc(n + n_rest + 1, sizeof(*rows));
	int r;

	if (!rows)
		return err_set(err, -ENOMEM, "store VMs: out of memory");
	for (size_t i = 0; i < n; i++) {
		rows[i] = vms[i]->row;
		rows[i].info.state = VM_RUNNING;
		settle_usage(&rows[i], vms[i]->row.info.state, VM_RUNNING);
	}
	for (size_t i = 0; i < n_rest; i++)
		rows[n + i] = rest[i];
	r = store_vm_add_many(m->store, rows, n + n_rest, layers, n, note, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		entered(vms[i], &rows[i].info);
	return r;
}
