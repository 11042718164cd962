/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.c - a point's disk, booted at another size
 *
 * A larger disk alone is a thaw: QEMU enlarges the layer that is written to and tells the guest,
 * which enlarges its file system. Memory that was frozen belongs to one number of vCPUs and amount
 * of memory, so another one of those means a cold boot: a new overlay of
 * the wanted length on the point's disk, and the file system grown inside the guest. The template
 * was synced before it was frozen; any other point is thawed once more and shut down, because
 * what it had not yet written is only in its memory.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

static int run(struct vm *vm, const char *command, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result res = { 0 };
	struct guest_exec_req req = { .command = command, .timeout_ms = vm->m->t.grow };
	int r = guest_exec(vm->guest, &req, &res, err);

	if (r == 0 && (res.exit_code != 0 || res.timed_out))
		r = err_set(err, -EIO, "'%s' ended with %d: %.150s", command, res.exit_code,
		            res.errout ? res.errout : "");
	return r;
}

int vm_grow_fs(struct vm *vm, struct err *err)
{
	return run(vm, "resize2fs \"$(findmnt -nvo SOURCE /)\"", err);
}

int vm_all_vcpus(struct vm *vm, struct err *err)
{
	uint32_t at_boot = engine_info(vm->m->engine)->boot_vcpus;

	if (!at_boot || vm->row.info.vcpus <= at_boot)
		return 0;
	return run(vm,
	           "for c in /sys/devices/system/cpu/cpu*/online; do read on <$c; "
	           "[ $on = 1 ] || echo 1 >$c || exit; done",
	           err);
}

/* Thaw and shut down, so that everything is on the disk. The layer it wrote is in the store, held.
 */
static int write_back(struct vm *vm, const struct engine_point *p, char ret_layer[ID_SIZE],
                      struct err *err)
{
	struct bringup b = { .point = p, .reason = GUEST_THAW, .agent_ms = vm->m->t.agent_thaw };
	struct vmm *m = vm->m;
	char path[PATH_MAX];
	struct stat st;
	int r = vm_bring_up(vm, &b, err);

	if (r < 0)
		return r;
	reaper_remove(vm);
	r = guest_shutdown(vm->guest, deadline_in(m->t.shutdown_ask), err);
	if (r == 0 && proc_wait_end(machine_proc(vm->machine), deadline_in(m->t.shutdown)) != 1)
		r = err_set(err, -ETIMEDOUT, "the guest did not shut down to be resized");
	vm_take_down(vm);
	engine_layer_path(m->engine, b.layer.id, path, sizeof(path));
	if (r == 0 && stat(path, &st) < 0)
		r = err_sys(err, -errno, "disk layer %s", b.layer.id);
	if (r == 0) {
		b.layer.bytes = (uint64_t)st.st_size;
		rwlock_rdlock(&m->gc);
		r = vmm_hold(m, b.layer.id, err);
		if (r == 0 && (r = store_layer_add(m->store, &b.layer, err)) < 0)
			vmm_release(m, b.layer.id);
		rwlock_unlock(&m->gc);
	}
	if (r < 0)
		engine_remove_layer(m->engine, b.layer.id);
	else
		snprintf(ret_layer, ID_SIZE, "%s", b.layer.id);
	return r;
}

int vm_grow_live(struct vm *vm, uint32_t disk_mb, struct err *err)
{
	int r = machine_grow_disk(vm->machine, (uint64_t)disk_mb << 20, err);

	return r < 0 ? r : vm_grow_fs(vm, err);
}

/* Only the disk is larger: nothing has to be booted. */
static int thaw_grown(struct vm *vm, const struct engine_point *p, uint32_t disk_mb,
                      struct bringup *b, struct err *err)
{
	int r;

	*b = (struct bringup){ .point = p, .reason = GUEST_THAW, .agent_ms = vm->m->t.agent_thaw };
	r = vm_bring_up(vm, b, err);
	if (r < 0)
		return r;
	vm->row.info.disk_mb = disk_mb;
	r = vm_grow_live(vm, disk_mb, err);
	if (r == 0)
		r = run(vm, "sync", err);
	if (r < 0)
		vm_bring_up_undo(vm, b);
	return r;
}

int vm_boot_sized(struct vm *vm, const struct engine_point *p, const struct stage_size *size,
                  struct bringup *b, struct err *err)
{
	bool template;
	char written[ID_SIZE] = "";
	int r;

	mutex_lock(&vm->m->lock);
	template = template_is(vm->m, p->id);
	mutex_unlock(&vm->m->lock);
	if (size->disk_mb < p->disk_mb)
		return err_tag(err, -EINVAL, ERR_CREATE_VM_ROOTFS_OUT_OF_RANGE,
		               "a disk of %u MB cannot be changed to %u MB", p->disk_mb,
		               size->disk_mb);
	if (size->vcpus == p->vcpus && size->mem_mb == p->mem_mb)
		return thaw_grown(vm, p, size->disk_mb, b, err);
	if (!template && (r = write_back(vm, p, written, err)) < 0)
		return r;
	vm->row.info.vcpus = size->vcpus;
	vm->row.info.mem_mb = size->mem_mb;
	vm->row.info.disk_mb = size->disk_mb;
	vm->row.base_point[0] = vm->row.base_mem[0] = '\0';
	*b = (struct bringup){ .reason = GUEST_BOOT, .agent_ms = vm->m->t.agent_boot };
	r = vm_bring_up(vm, b, err);
	if (r == 0) {
		r = size->disk_mb > p->disk_mb ? vm_grow_fs(vm, err) : 0;
		/* "degraded" is for the owner of the services to judge */
		if (r == 0)
			r = run(vm, "systemctl is-system-running --wait >/dev/null; sync", err);
		if (r < 0)
			vm_bring_up_undo(vm, b);
	}
	if (*written)
		vmm_release(vm->m, written);
	return r;
}
