/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c - another number of vCPUs, more or less memory, a larger disk
 *
 * A machine has its vCPUs and memory for life, so for others a running VM is shut down, changed and
 * booted again. If only its disk grows it goes on: QEMU and the guest enlarge it as it is (grow.c).
 * At rest a larger disk needs no rewriting: the layer it has is closed off and
 * the next boot puts a layer of the new size on top, whose end reads as zeros;
 * then the root file system grows in the guest.
 *
 * The way back is a point: the VM is frozen live before it is shut down. If anything
 * fails until the file system has grown, it is thawed from there, with the
 * sizes, disk and processes it had. A suspended VM has such a point. Its
 * memory is of the old size and is given up, but what only that memory knew of the
 * files is written first: it is woken and shut down, and left stopped.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

#define DISK_MAX_GB 2048

static bool power_of_two(double v)
{
	return v >= 1 && v <= UINT32_MAX && v == floor(v) && ((uint32_t)v & ((uint32_t)v - 1)) == 0;
}

static int check_vcpus(double v, struct vm_size_fault *f, struct err *err)
{
	*f = (struct vm_size_fault){ .got = v, .min = 1, .max = ENGINE_VCPUS_MAX };
	if (v < 1 || v > ENGINE_VCPUS_MAX)
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_VCPU_OUT_OF_RANGE,
		               "%g vCPUs: allowed are 1 to %d", v, ENGINE_VCPUS_MAX);
	if (!power_of_two(v))
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_VCPU_NOT_POWER_OF_TWO,
		               "%g vCPUs: the number must be a power of two", v);
	return 0;
}

static int check_memory(double gb, struct vm_size_fault *f, struct err *err)
{
	*f = (struct vm_size_fault){ .got = gb,
		                     .min = ENGINE_MEM_MIN_MB / 1024.0,
		                     .max = ENGINE_MEM_MAX_MB / 1024.0 };
	if (gb * 1024 < ENGINE_MEM_MIN_MB || gb * 1024 > ENGINE_MEM_MAX_MB)
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_MEM_OUT_OF_RANGE,
		               "%g GB of memory: allowed are %g to %g", gb, f->min, f->max);
	if (!power_of_two(gb * 1024))
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_MEM_NOT_POWER_OF_TWO,
		               "%g GB of memory: the number must be a power of two", gb);
	return 0;
}

static int check_disk(double gb, uint32_t have_mb, struct vm_size_fault *f, struct err *err)
{
	*f = (struct vm_size_fault){ .got = gb, .max = DISK_MAX_GB, .current_mb = have_mb };
	if (!(gb <= DISK_MAX_GB))
		return err_tag(err, -EINVAL, ERR_ROOTFS_SIZE_TOO_LARGE,
		               "a disk of %g GB: at most %d are possible", gb, DISK_MAX_GB);
	f->requested_mb = (int64_t)(gb * 1024);
	if (f->requested_mb < have_mb)
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED,
		               "the disk has %u MB and cannot shrink to %lld", have_mb,
		               (long long)f->requested_mb);
	return 0;
}

/* 0 asks for nothing. */
static int check(const struct vm_size *want, const struct vm_info *have, struct vm_info *ret,
                 struct vm_size_fault *f, struct err *err)
{
	int r;

	*ret = *have;
	if (want->vcpus != 0) {
		if ((r = check_vcpus(want->vcpus, f, err)) < 0)
			return r;
		ret->vcpus = (uint32_t)want->vcpus;
	}
	if (want->mem_gb != 0) {
		if ((r = check_memory(want->mem_gb, f, err)) < 0)
			return r;
		ret->mem_mb = (uint32_t)(want->mem_gb * 1024);
	}
	if (want->disk_gb != 0) {
		if ((r = check_disk(want->disk_gb, have->disk_mb, f, err)) < 0)
			return r;
		ret->disk_mb = (uint32_t)f->requested_mb;
	}
	return 0;
}

/* At rest: the new sizes, in the store. The VM is stopped afterwards. */
static int change(struct vm *vm, const struct vm_info *to, struct err *err)
{
	struct store_vm before = vm->row;
	struct store_vm *row = &vm->row;
	bool grows = to->disk_mb > row->info.disk_mb;
	int r = 0;

	LOCK_SCOPE(&vm->m->quota); /* until the new size can be seen */
	if (grows)
		r = quota_check(vm->m, row->info.account,
		                &(struct vm_quota){ .disk_mb = to->disk_mb - row->info.disk_mb },
		                err);
	if (r == 0 && grows && *row->disk_layer &&
	    (r = layer_sealed(vm->m, row->disk_layer, err)) == 0)
		r = vm_seal_disk(vm->m, row->disk_layer, err);
	if (r < 0)
		return r;
	row->info.vcpus = to->vcpus;
	row->info.mem_mb = to->mem_mb;
	row->info.disk_mb = to->disk_mb;
	row->grow_fs |= grows;
	row->info.point[0] = row->base_point[0] = row->base_mem[0] = '\0';
	r = vm_set_state(vm, VM_STOPPED, NULL, 0, NULL, err);
	if (r < 0)
		*row = before;
	return r;
}

/* It did not come up with its new sizes: everything as it was at the point. */
static void go_back(struct vm *vm, const char *point, bool grow_fs, bool run)
{
	struct err err = { 0 };
	struct engine_point p;
	int r = vm_stop_locked(vm, /* ask= */ false, &err);

	vm->row.grow_fs = grow_fs;
	if (r == 0 && (r = point_take(vm->m, point, &p, &err)) == 0) {
		r = vm_rest_at(vm, &p, &err);
		point_drop(vm->m, &p);
	}
	if (r == 0 && run)
		r = vm_wake(vm, &err);
	if (r < 0)
		vm_log(vm, LOG_LV_ERROR, "cannot be restored after a failed resize: %s", err.msg);
}

/* Before it is shut down for nothing. The boot asks again. */
static int check_quota(struct vm *vm, const struct vm_info *to, struct err *err)
{
	const struct vm_info *have = &vm->row.info;

	LOCK_SCOPE(&vm->m->quota);
	return quota_check(vm->m, have->account,
	                   &(struct vm_quota){ .vcpus = (int64_t)to->vcpus - have->vcpus,
	                                       .mem_mb = (int64_t)to->mem_mb - have->mem_mb,
	                                       .disk_mb = (int64_t)to->disk_mb - have->disk_mb },
	                   err);
}

static void tag_failure(int r, struct err *err)
{
	if (err && r != -ENOSPC && r != -EDQUOT) /* those have codes of their own */
		err->tag = ERR_RESIZE_FAILED;
}

/* Shut down, changed, booted, grown. */
static int change_running(struct vm *vm, const struct vm_info *to, struct err *err)
{
	int r = vm_stop_locked(vm, /* ask= */ true, err);

	if (r == 0)
		r = change(vm, to, err);
	if (r == 0)
		r = vm_wake(vm, err);
	if (r == 0 && vm->row.grow_fs) /* asked once more, for the sentence */
		r = vm_grow_fs(vm, err);
	if (r < 0)
		return r;
	vm->row.grow_fs = false;
	return vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, err);
}

/*
 * Only the disk grows: the VM goes on. The store knows first: if the server ends in between, the
 * next layer is large enough for either disk.
 */
static int grow_running(struct vm *vm, const struct vm_info *to, struct err *err)
{
	struct store_vm *row = &vm->row;
	int r;

	mutex_lock(&vm->m->quota); /* until the new size can be seen */
	r = quota_check(vm->m, row->info.account,
	                &(struct vm_quota){ .disk_mb = to->disk_mb - row->info.disk_mb }, err);
	if (r == 0) {
		uint32_t before = row->info.disk_mb;
		bool grow_fs = row->grow_fs;

		row->info.disk_mb = to->disk_mb;
		row->grow_fs = true;
		r = vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, err);
		if (r < 0) {
			row->info.disk_mb = before;
			row->grow_fs = grow_fs;
		}
	}
	mutex_unlock(&vm->m->quota);
	if (r == 0)
		r = vm_grow_live(vm, to->disk_mb, err);
	if (r < 0)
		return r;
	row->grow_fs = false;
	return vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, err);
}

static int resize_running(struct vm *vm, const struct vm_info *to, struct err *err)
{
	bool grow_fs = vm->row.grow_fs;
	struct frozen f;
	int r = check_quota(vm, to, err);

	if (r < 0)
		return r;
	r = vm_freeze_live(vm, /* durable= */ false, &f, err);
	if (r < 0) {
		tag_failure(r, err);
		return r;
	}
	if (to->vcpus == vm->row.info.vcpus && to->mem_mb == vm->row.info.mem_mb)
		r = grow_running(vm, to, err);
	else
		r = change_running(vm, to, err);
	if (r < 0) {
		go_back(vm, f.point, grow_fs, /* run= */ true);
		tag_failure(r, err);
	}
	vmm_release(vm->m, f.point);
	return r;
}

static int resize_suspended(struct vm *vm, const struct vm_info *to, struct err *err)
{
	bool grow_fs = vm->row.grow_fs;
	char point[ID_SIZE];
	int r;

	snprintf(point, sizeof(point), "%s", vm->row.info.point);
	if ((r = vmm_hold(vm->m, point, err)) < 0)
		return r;
	r = vm_wake(vm, err);
	if (r == 0) {
		r = vm_stop_locked(vm, /* ask= */ true, err);
		if (r == 0)
			r = change(vm, to, err);
		if (r < 0)
			go_back(vm, point, grow_fs, /* run= */ false);
	}
	if (r < 0)
		tag_failure(r, err);
	vmm_release(vm->m, point);
	return r;
}

int vmm_resize(struct vmm *m, const char *account, const char *id, const struct vm_size *want,
               struct vm_size_fault *ret_fault, struct err *err)
{
	struct vm_info to;
	struct vm *vm;
	int r;

	if (want->vcpus == 0 && want->mem_gb == 0 && want->disk_gb == 0)
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_EMPTY_REQUEST,
		               "nothing to change: give vcpuCount, memSizeGb or rootfsSizeGb");
	r = vmm_lock(m, account, id, &vm, err);
	if (r < 0)
		return r;
	if (vm_is_empty(&vm->row)) /* the size is that of what it is made from: that first */
		r = vm_wake(vm, err);
	if (r == 0)
		r = check(want, &vm->row.info, &to, ret_fault, err);
	if (r == 0 && to.mem_mb > vm->row.info.mem_mb)
		r = vmm_need_size(m, to.mem_mb, err);
	if (r == 0 && vm->row.info.state == VM_LOST)
		r = err_tag(err, -EIO, ERR_CORRUPT_VM_RECORD, "VM %s is lost", id);
	if (r == 0 && (to.vcpus != vm->row.info.vcpus || to.mem_mb != vm->row.info.mem_mb ||
	               to.disk_mb != vm->row.info.disk_mb)) {
		r = vm->row.info.state == VM_RUNNING     ? resize_running(vm, &to, err)
		    : vm->row.info.state == VM_SUSPENDED ? resize_suspended(vm, &to, err)
		                                         : change(vm, &to, err);
		if (r == 0)
			vm_log(vm, LOG_LV_INFO, "resized: %u vCPUs, %u MB memory, %u MB disk",
			       to.vcpus, to.mem_mb, to.disk_mb);
		vmm_collect_soon(m);
	}
	vm_unlock(vm);
	return r < 0 ? err_wrap(err, r, "resize VM %s", id) : 0;
}
