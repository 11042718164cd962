/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stall.c - VMs that stand still because the host's disk is full
 *
 * QEMU stops a machine whose disk layer cannot grow, instead of telling the guest that its disk is
 * broken: nothing is lost, and nothing moves. The keeper looks for such machines while the disk is
 * full, or was a moment ago, and lets them go on when there is room again. Whoever wants to use
 * one meanwhile is told what it waits for.
 */
#include <errno.h>
#include <sys/statvfs.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

#define STALL_ROOM (UINT64_C(32) << 20) /* bytes that must be free before it goes on */

static bool has_room(struct vmm *m)
{
	struct statvfs fs;

	return statvfs(m->conf.data_dir, &fs) == 0 &&
	       (uint64_t)fs.f_bavail * fs.f_frsize >= STALL_ROOM;
}

static void say(struct vm *vm, bool stalled)
{
	const char *text = stalled ? "is paused: the host's disk is full"
	                           : "continues: the host's disk has space again";

	vm->stalled = stalled;
	if (vm->guest)
		guest_pause(vm->guest, stalled);
	vm_log(vm, stalled ? LOG_LV_ERROR : LOG_LV_INFO, "%s", text);
	vm_tell(vm, stalled ? EVENT_ERROR : EVENT_INFO, "%s", text);
}

void vm_look_at_stall(struct vm *vm)
{
	int r;

	if (!vm->machine || (!vm->stalled && !vmm_disk_tight(vm->m)))
		return;
	r = machine_stalled(vm->machine, deadline_in(vm->m->t.look), NULL);
	if (r > 0 && !vm->stalled)
		say(vm, true);
	if (r == 0 || (r > 0 && has_room(vm->m) && machine_cont(vm->machine, NULL) == 0))
		if (vm->stalled)
			say(vm, false);
}

int vm_check_stall(struct vm *vm, struct err *err)
{
	vm_look_at_stall(vm);
	if (!vm->stalled)
		return 0;
	return err_tag(err, -ENOSPC, ERR_NO_LOCAL_STORAGE_CAPACITY,
	               "VM %s is paused because the host's disk is full, and continues when there "
	               "is space: delete VMs or snapshots",
	               vm->row.info.id);
}
