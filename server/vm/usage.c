/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.c - what a VM takes of the host, kept for good
 *
 * Counters of a machine begin at zero with its process and stay readable while
 * it runs, also across a restart of the server: `now` is always the whole of
 * the current machine, read anew, so nothing is counted twice. A machine from
 * the pool had run before it was anyone's: that is `ahead`, and not counted. When the machine
 * ends, vm_set_state() adds `now` to `past`. In between it is saved once a minute:
 * that much is lost if host and server die together.
 */
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

#define DISK_RETRY_MS 10000 /* a QEMU that does not answer is left alone for so long */

void vm_disk_counters(struct vm *vm, struct machine_disk_stats *ret)
{
	struct machine_disk_stats d;

	if (clock_ms() < vm->disk_look_ms)
		return;
	if (machine_disk_stats(vm->machine, deadline_in(vm->m->t.look), &d, NULL) < 0) {
		vm->disk_look_ms = clock_ms() + DISK_RETRY_MS;
		return;
	}
	*ret = d;
}

/* All counters of the machine since its process began; what cannot be read stays as it is. */
static void read_counters(struct vm *vm, struct vm_usage *u, struct priv_vm_stats *ret_st)
{
	struct machine_disk_stats disk = { u->disk_read, u->disk_write };
	struct priv_slot_stats net;

	if (privc_vm_stats(vm->m->priv, vm->row.info.instance, ret_st, NULL) == 0)
		u->cpu_s = (double)ret_st->cpu_us / 1e6;
	if (vm->has_slot && privc_slot_stats(vm->m->priv, vm->slot.idx, &net, NULL) == 0) {
		u->net_in = net.to_guest_bytes;
		u->net_out = net.from_guest_bytes;
	}
	vm_disk_counters(vm, &disk);
	u->disk_read = disk.read_bytes;
	u->disk_write = disk.write_bytes;
}

void vm_usage_ahead(struct vm *vm)
{
	struct vm_usage u = { 0 };
	struct priv_vm_stats st = { 0 };

	read_counters(vm, &u, &st);
	vm->row.info.ahead = u;
}

#define SINCE(all, ahead, now) MAX((all) > (ahead) ? (all) - (ahead) : 0, (now))

void usage_until(struct vm_info *i, int64_t wall_ms)
{
	if (!i->machine_ms)
		return;
	i->now.run_s = MAX(i->now.run_s, (double)(wall_ms - i->machine_ms) / 1e3);
	i->now.mem_gb_s = i->now.run_s * i->mem_mb / 1024;
}

void vm_usage_look(struct vm *vm)
{
	struct vm_info *i = &vm->row.info;
	const struct vm_usage *a = &i->ahead;
	struct vm_usage u = { 0 };
	struct priv_vm_stats st = { 0 };
	int64_t wall = clock_wall_ms();

	if (vm->gone || !vm->machine || (i->state != VM_RUNNING && i->state != VM_SUSPENDING))
		return;
	if (!i->machine_ms)
		i->machine_ms = wall; /* adopted from a server that died while it made it */
	usage_until(i, wall);
	read_counters(vm, &u, &st);
	i->now.cpu_s = SINCE(u.cpu_s, a->cpu_s, i->now.cpu_s);
	i->now.net_in = SINCE(u.net_in, a->net_in, i->now.net_in);
	i->now.net_out = SINCE(u.net_out, a->net_out, i->now.net_out);
	i->now.disk_read = SINCE(u.disk_read, a->disk_read, i->now.disk_read);
	i->now.disk_write = SINCE(u.disk_write, a->disk_write, i->now.disk_write);
	vm_publish(vm);
	LOCK_SCOPE(&vm->m->lock);
	vm->seen = st;
	vm->seen_ms = wall;
}

bool vm_guest_used(struct vm *vm)
{
	uint64_t marks = 0;
	bool open = vm->guest && guest_activity(vm->guest, &marks);
	bool used = open || marks != vm->guest_marks;

	vm->guest_marks = marks;
	return used;
}

void vmm_usage_save(struct vmm *m)
{
	struct err err = { 0 };
	size_t n, k = 0;
	struct vm **v = vmm_all(m, &n);
	autofree struct vm_info *rows = calloc(n ? n : 1, sizeof(*rows));

	for (size_t i = 0; v && i < n; i++) {
		if (rows && mutex_trylock(&v[i]->lock)) {
			vm_usage_look(v[i]);
			if (!v[i]->gone && v[i]->row.info.state == VM_RUNNING)
				rows[k++] = v[i]->row.info;
			mutex_unlock(&v[i]->lock);
		}
		vm_unref(v[i]);
	}
	free(v);
	if (k && store_vm_usage(m->store, rows, k, &err) < 0)
		log_warn("usage was not saved, trying again in a minute: %s", err.msg);
}

int vmm_sample(struct vmm *m, const char *account, const char *id, struct vm_sample *ret,
               struct err *err)
{
	struct vm *vm;
	int r = vmm_find(m, account, id, &vm, err);

	if (r < 0)
		return r;
	if (mutex_trylock(&vm->lock)) {
		vm_usage_look(vm);
		mutex_unlock(&vm->lock);
	}
	mutex_lock(&m->lock);
	*ret = (struct vm_sample){ .state = vm->shown.state,
		                   .at_ms = vm->shown.machine_ms && vm->seen_ms ? vm->seen_ms
		                                                                : clock_wall_ms(),
		                   .total = vm_usage_total(&vm->shown) };
	if (vm->shown.machine_ms) {
		ret->mem_bytes = vm->seen.mem_bytes;
		ret->private_bytes = vm->seen.private_bytes;
	}
	mutex_unlock(&m->lock);
	vm_unref(vm);
	return 0;
}

void vmm_touch(struct vmm *m, const char *account, const char *id)
{
	struct vm *vm;

	if (vmm_find(m, account, id, &vm, NULL) < 0)
		return;
	atomic_store(&vm->touched_ms, clock_ms());
	vm_unref(vm);
}
