/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_freeze.c - the one place where a VM becomes a point
 *
 * Live (snapshot, fork): the disk layer it wrote to is closed off and belongs
 * to the point; the VM goes on with a new one. The row of the VM and the point
 * are saved in one transaction. If the freeze fails after the disk was
 * switched, the VM's new disk layer is saved all the same: it is what QEMU
 * writes to.
 *
 * Suspend: the machine is left stopped and flushed, the point is saved together with
 * the state "suspended", and only then the process ends. A crash in between
 * leaves a process that recovery ends.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "vm/template_own.h"
#include "vm/vm_internal.h"

static void fill_point(struct vm *vm, const struct machine_frozen *f, const char *id,
                       enum point_kind kind, const char *mem_layer, const char *disk_layer,
                       struct store_point *p)
{
	const struct engine_info *i = engine_info(vm->m->engine);

	*p = (struct store_point){ .vcpus = vm->row.info.vcpus,
		                   .mem_mb = vm->row.info.mem_mb,
		                   .disk_mb = vm->row.info.disk_mb,
		                   .state_crc = f->state_crc,
		                   .state_bytes = f->state_bytes,
		                   .kind = kind,
		                   .created_ms = clock_wall_ms() };
	snprintf(p->id, sizeof(p->id), "%s", id);
	snprintf(p->mem_layer, sizeof(p->mem_layer), "%s", mem_layer);
	snprintf(p->disk_layer, sizeof(p->disk_layer), "%s", disk_layer);
	snprintf(p->parent, sizeof(p->parent), "%s", vm->row.head);
	snprintf(p->source_vm, sizeof(p->source_vm), "%s", vm->row.info.id);
	snprintf(p->qemu_version, sizeof(p->qemu_version), "%s", i->qemu_version);
	snprintf(p->machine, sizeof(p->machine), "%s", i->machine);
	snprintf(p->cpu, sizeof(p->cpu), "%s", i->cpu);
	snprintf(p->accel, sizeof(p->accel), "%s", accel_name(i->accel));
	snprintf(p->account, sizeof(p->account), "%s", vm->payer);
}

static struct store_layer mem_layer_row(const struct vm *vm, const char *id,
                                        const struct machine_frozen *f)
{
	struct store_layer l = {
		.kind = LAYER_MEM, .bytes = f->mem_bytes, .crc = f->mem_crc, .has_crc = true
	};

	snprintf(l.id, sizeof(l.id), "%s", id);
	snprintf(l.parent, sizeof(l.parent), "%s", vm->row.base_mem);
	snprintf(l.format, sizeof(l.format), "mem");
	snprintf(l.account, sizeof(l.account), "%s", vm->payer);
	return l;
}

/*
 * A closed disk layer gets its size now (that marks it as closed) and its checksum later, by the
 * keeper. Written in one transaction with what it is closed for: a layer that is marked as closed
 * and written to all the same would be taken for damaged.
 */
static int closed_disk(struct vmm *m, const char *id, struct store_layer *ret, struct err *err)
{
	char path[PATH_MAX];
	struct stat st;

	engine_layer_path(m->engine, id, path, sizeof(path));
	if (stat(path, &st) < 0)
		return err_sys(err, -errno, "disk layer %s", id);
	*ret = (struct store_layer){ .kind = LAYER_DISK, .bytes = (uint64_t)st.st_size };
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	snprintf(ret->format, sizeof(ret->format), "qcow2");
	return 0;
}

int vm_seal_disk(struct vmm *m, const char *id, struct err *err)
{
	struct store_layer l;
	int r = closed_disk(m, id, &l, err);

	return r < 0 ? r : store_layer_seal(m->store, id, l.bytes, 0, /* has_crc= */ false, err);
}

/*
 * No byte may be on its way to the guest while it is frozen: QEMU would write it
 * into memory that no longer belongs to the saved device state. An agent that
 * takes nothing any more loses its connection instead; the next use makes another.
 */
static void quiesce(struct vm *vm)
{
	struct err err = { 0 };

	if (vm->guest)
		guest_settle(vm->guest, deadline_in(vm->m->t.settle));
	if (!vm->guest || guest_quiesce(vm->guest, deadline_in(vm->m->t.quiesce), &err) == 0)
		return;
	vm_log(vm, LOG_LV_WARN, "its agent cannot be quiesced and is disconnected: %s", err.msg);
	guest_close(vm->guest);
}

static void unquiesce(struct vm *vm)
{
	if (vm->guest)
		guest_resume(vm->guest);
}

/*
 * After a freeze that failed. A machine that does not go on is of no use to anyone: it is ended,
 * and the reaper settles what is left of the VM.
 */
void vm_go_on(struct vm *vm)
{
	struct err err = { 0 };

	if (machine_cont_if_stopped(vm->machine, &err) == 0 ||
	    machine_cont_if_stopped(vm->machine, &err) == 0 || !machine_alive(vm->machine))
		return;
	vm_log(vm, LOG_LV_ERROR, "does not go on after a failed freeze and is ended: %s", err.msg);
	if (privc_kill(vm->m->priv, vm->row.info.instance, &err) < 0)
		debt_add(vm->m, vm->row.info.instance, /* slot= */ -1);
}

/*
 * What is below a point that is to last must last, too: a fork does not wait for the disk, so the
 * layers it wrote may not be there yet.
 */
static int flush_below(struct vm *vm, struct err *err)
{
	const char *const tops[] = { vm->row.base_mem, vm->row.disk_layer };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(tops); i++) {
		struct engine_chain c;

		r = chain_take(vm->m, tops[i], &c, err);
		if (r < 0)
			break;
		r = engine_sync_chain(vm->m->engine, &c, err);
		chain_drop(vm->m, &c);
	}
	return r;
}

int vm_freeze_live(struct vm *vm, bool durable, struct frozen *ret, struct err *err)
{
	struct vmm *m = vm->m;
	char mem_id[ID_SIZE], disk_id[ID_SIZE], old_disk[ID_SIZE], old_head[ID_SIZE];
	struct machine_freeze req = { .point_id = ret->point,
		                      .mem_layer = mem_id,
		                      .disk_next = disk_id,
		                      .disk_bytes = (uint64_t)vm->row.info.disk_mb << 20,
		                      .keep_running = true,
		                      .durable = durable };
	struct store_layer disk, layers[2];
	struct machine_frozen f;
	struct store_point p;
	bool held;
	int r;

	id_make("pt-", ret->point);
	id_make("ly-", mem_id);
	id_make("ly-", disk_id);
	/* One layer that the store does not know is as much as can be remembered. */
	if ((r = vm_save(vm, err)) < 0 || (r = vm_shorten(vm, err)) < 0 ||
	    (durable && (r = flush_below(vm, err)) < 0))
		return r;
	snprintf(old_disk, sizeof(old_disk), "%s", vm->row.disk_layer);
	vm_learn_note(vm);
	quiesce(vm);
	req.note = vm_note(vm);
	r = machine_freeze(vm->machine, &req, &f, err);
	if (r < 0)
		vm_go_on(vm);
	unquiesce(vm);
	disk = (struct store_layer){ .kind = LAYER_DISK };
	snprintf(disk.id, ID_SIZE, "%s", disk_id);
	snprintf(disk.parent, ID_SIZE, "%s", old_disk);
	snprintf(disk.format, sizeof(disk.format), "qcow2");
	snprintf(disk.account, sizeof(disk.account), "%s", vm->payer);
	if (r == 0 || f.disk_switched) { /* what it writes to from now on, whatever comes */
		snprintf(vm->row.disk_layer, ID_SIZE, "%s", disk_id);
		vm->owed = disk;
	}
	if (r < 0) {
		if (f.disk_switched) {
			vm_seal_disk(m, old_disk, NULL);
			vm_save(vm, NULL); /* else the keeper does it */
		}
		return r;
	}
	layers[1] = mem_layer_row(vm, mem_id, &f);
	fill_point(vm, &f, ret->point, POINT_LIVE, mem_id, old_disk, &p);
	/* Until the caller's row names it the point is nobody's: held before the collector can see
	 * it. */
	rwlock_rdlock(&m->gc);
	r = closed_disk(m, old_disk, &layers[0], err);
	held = r == 0 && (r = vmm_hold(m, ret->point, err)) == 0;
	snprintf(old_head, sizeof(old_head), "%s", vm->row.head);
	if (r == 0) {
		snprintf(vm->row.head, ID_SIZE, "%s", ret->point);
		r = vm_set_state(vm, vm->row.info.state, layers, 2, &p, err);
	}
	if (r < 0)
		snprintf(vm->row.head, ID_SIZE, "%s", old_head);
	rwlock_unlock(&m->gc);
	if (r < 0) {
		vm_save(vm, NULL);
		if (held)
			vmm_release(m, ret->point);
		engine_remove_layer(m->engine, mem_id);
		engine_remove_point(m->engine, ret->point);
		return err_wrap(err, r, "freeze VM %s", vm->row.info.id);
	}
	metrics_observe(METRIC_VM_FREEZE_PAUSE, 0, f.pause_us);
	vm_log(vm, LOG_LV_INFO,
	       "frozen: pause %.1f ms (fork %.1f), %llu pages in %.0f ms, %llu free",
	       (double)f.pause_us / 1e3, (double)f.fork_us / 1e3, (unsigned long long)f.mem_pages,
	       (double)f.write_us / 1e3, (unsigned long long)f.free_pages);
	return 0;
}

int vm_freeze_suspend(struct vm *vm, struct err *err)
{
	struct vmm *m = vm->m;
	struct store_vm before;
	char point[ID_SIZE], mem_id[ID_SIZE];
	struct machine_freeze req = { .point_id = point, .mem_layer = mem_id, .durable = true };
	struct store_layer layers[2];
	struct machine_frozen f;
	struct store_point p;
	int r;

	id_make("pt-", point);
	id_make("ly-", mem_id);
	if ((r = vm_save(vm, err)) < 0 || (r = flush_below(vm, err)) < 0)
		return r;
	before = vm->row;
	vm_learn_note(vm);
	quiesce(vm);
	req.note = vm_note(vm);
	r = machine_freeze(vm->machine, &req, &f, err);
	if (r < 0) {
		vm_go_on(vm);
		unquiesce(vm);
		return r;
	}
	layers[0] = mem_layer_row(vm, mem_id, &f);
	fill_point(vm, &f, point, POINT_SUSPEND, mem_id, vm->row.disk_layer, &p);
	r = closed_disk(m, vm->row.disk_layer, &layers[1], err);
	if (r == 0) {
		snprintf(vm->row.info.point, ID_SIZE, "%s", point);
		snprintf(vm->row.head, ID_SIZE, "%s", point);
		vm->row.slot = -1;
		r = vm_set_state(vm, VM_SUSPENDED, layers, 2, &p, err);
	}
	if (r < 0) {
		vm->row = before;
		engine_remove_layer(m->engine, mem_id);
		engine_remove_point(m->engine, point);
		vm_go_on(vm);
		unquiesce(vm);
		return err_wrap(err, r, "freeze VM %s", vm->row.info.id);
	}
	vm_note_told(vm, point);
	vm_log(vm, LOG_LV_INFO, "suspended: %llu pages in %.0f ms, %llu free",
	       (unsigned long long)f.mem_pages, (double)f.write_us / 1e3,
	       (unsigned long long)f.free_pages);
	return 0;
}
