/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.c - running VMs that are frozen every so often, and what a VM can go back to
 *
 * The keeper freezes a VM that asked for it as a snapshot does, live and durable, and its row names
 * the point: so it is not collected, and is uploaded if there is an object store. There is one of
 * them; two while the newer one is not stored yet, so that a node that dies in between leaves the
 * older. A VM that is lost, or stopped after a crash, is rewound to it on request, never by itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_claim.h"
#include "vm/stored.h"
#include "vm/tree.h"

static int checkpoint(struct vm *vm, struct err *err)
{
	struct vmm *m = vm->m;
	struct store_vm before = vm->row, *row = &vm->row;
	struct frozen f = { 0 };
	bool old_stored = m->stored && *row->checkpoint &&
	                  store_unstored(m->store, row->checkpoint, "", NULL) == 0;
	int r = vm_freeze_live(vm, /* durable= */ true, &f, err);

	if (r < 0)
		return r;
	if (!m->stored)
		row->checkpoint_before[0] = '\0';
	else if (old_stored)
		snprintf(row->checkpoint_before, ID_SIZE, "%s", row->checkpoint);
	snprintf(row->checkpoint, ID_SIZE, "%s", f.point);
	r = vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, err);
	if (r < 0) {
		memcpy(row->checkpoint, before.checkpoint, ID_SIZE);
		memcpy(row->checkpoint_before, before.checkpoint_before, ID_SIZE);
	}
	vmm_release(m, f.point);
	vmm_collect_soon(m);
	return r;
}

void vm_look_at_checkpoint(struct vm *vm)
{
	uint64_t every_ms = (uint64_t)vm->row.info.checkpoint_every_s * 1000, now = clock_ms();
	struct err err = { 0 };

	if (!every_ms || vm->row.info.state != VM_RUNNING || vm->stalled) {
		vm->checkpoint_ms = 0;
		return;
	}
	if (!vm->checkpoint_ms) { /* of this machine, from now on */
		vm->checkpoint_ms = now;
		return;
	}
	if (now - vm->checkpoint_ms < every_ms || vmm_disk_tight(vm->m))
		return;
	vm->checkpoint_ms = now;
	if (checkpoint(vm, &err) < 0)
		vm_log(vm, LOG_LV_WARN, "no checkpoint: %s", err.msg);
}

void vm_set_checkpoints(struct vm *vm, int64_t every_s)
{
	vm->row.info.checkpoint_every_s = every_s;
	if (!every_s)
		vm->row.checkpoint[0] = vm->row.checkpoint_before[0] = '\0';
}

/* 1: it can be thawed here. */
static int is_within_reach(struct vm *vm, const char *point, struct err *err)
{
	struct vmm *m = vm->m;
	struct store_point p;
	int r = store_point_get(m->store, point, &p, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (p.kind == POINT_TEMPLATE || !strcmp(p.id, vm->row.info.point))
		return 0;
	if (strcmp(p.node, store_node_id(m->store)) == 0)
		return 1;
	r = m->stored ? store_unstored(m->store, point, "", err) : 1;
	return r < 0 ? r : r == 0;
}

int vm_last_point(struct vm *vm, char ret[ID_SIZE], struct err *err)
{
	autofree struct store_line *line = NULL;
	size_t n = 0;
	int r = store_point_line(vm->m->store, vm->row.head, &line, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		int good = is_within_reach(vm, line[i].id, err);

		if (good <= 0) {
			r = good;
			continue;
		}
		snprintf(ret, ID_SIZE, "%s", line[i].id);
		return 0;
	}
	return r < 0 ? r
	             : err_tag(err, -ENOENT, ERR_SNAPSHOT_NOT_FOUND,
	                       "VM %s has nothing to go back to: since it was created no point of "
	                       "it "
	                       "was made by a suspend, snapshot or checkpoint that %s; "
	                       "checkpointEverySeconds makes some",
	                       vm->row.info.id,
	                       vm->m->stored ? "is still there and stored" : "is still there");
}
