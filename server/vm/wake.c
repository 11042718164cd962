/* SPDX-License-Identifier: Apache-2.0 */
/* wake.c - start, resume, and the running guest for those who want to talk to it */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"

int vm_thaw(struct vm *vm, const struct engine_point *p, struct err *err)
{
	struct bringup b = { .point = p, .reason = GUEST_THAW, .agent_ms = vm->m->t.agent_thaw };
	struct store_vm before = vm->row;
	struct store_vm *row = &vm->row;
	int r;

	if (spread_is_new(row, p->id))
		b.event = AGENT_EVENT_FORKED;
	r = vm_bring_up(vm, &b, err);
	if (r < 0)
		return r;
	snprintf(row->base_point, sizeof(row->base_point), "%s", p->id);
	snprintf(row->base_mem, sizeof(row->base_mem), "%s",
	         p->mem.n ? p->mem.l[p->mem.n - 1].id : "");
	row->info.point[0] = '\0';
	r = vm_set_state(vm, VM_RUNNING, &b.layer, 1, NULL, err);
	if (r < 0) {
		vm_bring_up_undo(vm, &b);
		*row = before;
	}
	return r;
}

/* Thaw of the point it rests on. */
static int resume(struct vm *vm, struct err *err)
{
	struct engine_point p;
	int r = point_take(vm->m, vm->row.info.point, &p, err);

	if (r < 0)
		return r;
	r = vm_thaw(vm, &p, err);
	point_drop(vm->m, &p);
	return r;
}

static int cold_boot(struct vm *vm, struct err *err)
{
	struct bringup b = { .reason = GUEST_BOOT, .agent_ms = vm->m->t.agent_boot };
	struct store_vm *row = &vm->row;
	struct err grow = { 0 };
	int r = vm_bring_up(vm, &b, err);

	if (r < 0)
		return r;
	row->base_point[0] = row->base_mem[0] = '\0';
	if (row->grow_fs) {
		row->grow_fs = vm_grow_fs(vm, &grow) < 0;
		if (row->grow_fs)
			vm_log(vm, LOG_LV_WARN, "%s; trying again at the next boot", grow.msg);
	}
	r = vm_set_state(vm, VM_RUNNING, &b.layer, *b.layer.id ? 1 : 0, NULL, err);
	if (r < 0)
		vm_bring_up_undo(vm, &b);
	return r;
}

/* The contract's code for a machine that did not come up. Its sockets go with it. */
static void tag_failure(enum vm_state from, int r, struct err *err)
{
	if (!err || err->tag)
		return;
	if (r == -ETIMEDOUT)
		err->tag =
		        from == VM_SUSPENDED ? ERR_RESUMED_VM_NON_RESPONSIVE : ERR_VM_START_TIMEOUT;
	else if (r == -EPIPE || r == -ECONNRESET || r == -ECONNREFUSED || r == -ENOENT)
		err->tag = ERR_VM_EXIT_DURING_START;
}

int vm_wake(struct vm *vm, struct err *err)
{
	enum vm_state from = vm->row.info.state;
	bool anew = vm_is_empty(&vm->row);
	const char *how = anew ? "made anew" : from == VM_SUSPENDED ? "resumed" : "booted";
	uint64_t t0 = clock_us(), ms;
	int r;

	if (from == VM_RUNNING)
		return 0;
	if (from == VM_LOST)
		return err_tag(
		        err, -EIO, ERR_CORRUPT_VM_RECORD,
		        "VM %s is lost: its layers are damaged or gone; it can be rewound to "
		        "what is left of its past",
		        vm->row.info.id);
	r = from == VM_SUSPENDED || from == VM_STOPPED ? drain_blocks(vm, err) : 0;
	if (r < 0 || (r = quota_start(vm, err)) < 0) {
		metrics_add(METRIC_VM_FAILURES, LABEL_OP_RESUME, 1);
		return r;
	}
	vm->idle_since_ms = 0;
	r = anew                   ? vm_make_anew(vm, err)
	    : from == VM_SUSPENDED ? resume(vm, err)
	                           : cold_boot(vm, err);
	if (r < 0) {
		bool damaged = point_fault(err, ERR_CORRUPT_VM_RECORD);

		metrics_add(METRIC_VM_FAILURES, LABEL_OP_RESUME, 1);
		tag_failure(from, r, err);
		vm_tell(vm, EVENT_ERROR, "cannot be started: %s", err ? err->msg : "");
		vm_set_state(vm, damaged ? VM_LOST : from, NULL, 0, NULL, NULL);
		return err_wrap(err, r, "start VM %s", vm->row.info.id);
	}
	ms = (clock_us() - t0) / 1000;
	if (from == VM_SUSPENDED)
		metrics_since(METRIC_VM_RESUME, 0, t0);
	vmm_collect_soon(vm->m);
	vm_tell(vm, EVENT_INFO, "%s in %llu ms", how, (unsigned long long)ms);
	vm_log(vm, LOG_LV_INFO, "%s in %llu ms", how, (unsigned long long)ms);
	return 0;
}

bool vm_apply_opts(struct vm *vm, const struct vm_start_opts *o)
{
	struct vm_info *i = &vm->row.info;
	struct vm_info old = *i;

	if (o->idle_timeout_s != VM_LEAVE)
		i->idle_timeout_s = o->idle_timeout_s;
	if (o->activity_threshold != VM_LEAVE)
		i->activity_threshold = o->activity_threshold;
	if (o->count_exec >= 0)
		i->count_exec = o->count_exec;
	return i->idle_timeout_s != old.idle_timeout_s ||
	       i->activity_threshold != old.activity_threshold || i->count_exec != old.count_exec;
}

int vmm_start(struct vmm *m, const char *account, const char *id, const struct vm_start_opts *o,
              struct vm_info *ret, struct err *err)
{
	struct vm_info before;
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	r = vm_wake(vm, err);
	before = vm->row.info;
	if (r == 0) {
		vm->idle_since_ms = 0; /* asked for: it is not idle */
		if (vm_apply_opts(vm, o))
			r = vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, err);
		if (r < 0)
			vm->row.info = before;
	}
	if (r == 0)
		vm_copy_info(vm, ret);
	vm_unlock(vm);
	return r;
}

static int woken_guest(struct vmm *m, const char *account, const char *id, bool boot,
                       struct guest **ret, struct err *err)
{
	uint64_t t0 = clock_us();
	bool slept;
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	if (vm->row.info.state == VM_RUNNING && vm->guest && !guest_alive(vm->guest) &&
	    vm_ended(vm)) {
		/* The reaper was not here yet; it may be gone for good. */
		vm_settle_end(vm);
		vm_unlock(vm);
		r = vmm_lock(m, account, id, &vm, err);
		if (r < 0)
			return r;
	}
	slept = vm->row.info.state != VM_RUNNING;
	if (!boot && vm->row.info.state == VM_STOPPED)
		r = err_tag(err, -EHOSTDOWN, ERR_VM_NOT_RUNNING, "VM %s is stopped", id);
	else
		r = vm_wake(vm, err);
	if (r == 0)
		r = vm_check_stall(vm, err);
	if (r == 0 && (!vm->guest || !guest_alive(vm->guest))) {
		r = vm_reconnect(vm, err);
		if (r < 0)
			err_wrap(err, r, "VM %s is running, but its agent cannot be reached", id);
	}
	if (r == 0)
		*ret = guest_ref(vm->guest);
	vm_unlock(vm);
	if (r == 0 && slept)
		metrics_since(METRIC_VM_WAKE, 0, t0);
	return r;
}

int vmm_guest(struct vmm *m, const char *account, const char *id, struct guest **ret,
              struct err *err)
{
	return woken_guest(m, account, id, /* boot= */ true, ret, err);
}

int vmm_guest_thawed(struct vmm *m, const char *account, const char *id, struct guest **ret,
                     struct err *err)
{
	return woken_guest(m, account, id, /* boot= */ false, ret, err);
}

int vmm_guest_running(struct vmm *m, const char *account, const char *id, struct guest **ret,
                      struct err *err)
{
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	if (vm->row.info.state == VM_RUNNING && vm->guest && guest_alive(vm->guest))
		*ret = guest_ref(vm->guest);
	else
		r = err_tag(err, -ENOTCONN, ERR_VM_NOT_RUNNING, "VM %s is not running", id);
	vm_unlock(vm);
	return r;
}
