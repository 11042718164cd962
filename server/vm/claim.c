/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c - VMs at rest that come from another node, and those that are given up
 *
 * A VM that is not in the table is looked for in the store. If nobody runs it (its node is dead, or
 * gave it up) and all that it rests on is in the object store, it is claimed: one transaction, then
 * it is in the table like any other, suspended or stopped, and whoever asked for it goes on.
 * Nothing is fetched or started by the claim: that is the resume's, and when it fails the VM is at
 * rest here.
 *
 * Asked for one that its memory does not fit to (another QEMU, accelerator or CPU), or without
 * memory to run it, this node leaves it, and names the one that has more room.
 *
 * What was lost with its node is claimed only to be rewound or deleted: its node may come back,
 * with its disk. What is not stored can only be deleted.
 *
 * One claim at a time ("vmm claim"): the second one finds it in the table. An answer that never
 * came leaves a row with this node's name that nobody here knows, and that is claimed again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_claim.h"
#include "vm/elsewhere.h"
#include "vm/stored.h"

#define DRAIN_LOOK_MS 1000 /* for VMs that came to rest, when no upload ended */

/* ---- which node ---- */

static void kind_of(const struct store_point *p, struct engine_point *ret)
{
	*ret = (struct engine_point){ 0 };
	snprintf(ret->id, sizeof(ret->id), "%s", p->id);
	snprintf(ret->qemu_version, sizeof(ret->qemu_version), "%s", p->qemu_version);
	snprintf(ret->machine, sizeof(ret->machine), "%s", p->machine);
	snprintf(ret->cpu, sizeof(ret->cpu), "%s", p->cpu);
	snprintf(ret->accel, sizeof(ret->accel), "%s", p->accel);
}

/* Why not here: a sentence, with the node that could. */
static int not_here(struct vmm *m, const struct store_vm *row, const struct store_point *p,
                    const char *why, struct err *err)
{
	struct store_node other;
	bool there = other_node(m, p, row->info.mem_mb, &other);

	return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	               "VM %s cannot be taken over by this node: %s; %s%s%s", row->info.id, why,
	               there ? "node '" : "", there ? other.name : "no other node can, either",
	               there ? "' can: ask that one" : "");
}

static int check_fit(struct vmm *m, const struct store_vm *row, struct err *err)
{
	struct store_point p, *memory = row->info.state == VM_SUSPENDED ? &p : NULL;
	struct engine_point kind;
	struct store_node other;
	struct err why = { 0 };
	int r = memory ? store_point_get(m->store, row->info.point, &p, err) : 0;

	if (r < 0)
		return r;
	if (memory) {
		kind_of(&p, &kind);
		if (engine_point_fits(engine_info(m->engine), &kind, &why) < 0)
			return not_here(m, row, memory, why.msg, err);
	}
	if (vmm_draining(m) && other_node(m, memory, row->info.mem_mb, &other))
		return not_here(m, row, memory, "it is being drained", err);
	if (vmm_need_size(m, row->info.mem_mb, &why) < 0)
		return not_here(m, row, memory, why.msg, err);
	return 0;
}

int elsewhere_kind(struct vmm *m, struct err *err)
{
	const struct engine_info *i = engine_info(m->engine);
	struct store_node n = { 0 };

	if (!*store_node_id(m->store))
		return 0;
	snprintf(n.qemu_version, sizeof(n.qemu_version), "%s", i->qemu_version);
	snprintf(n.machine, sizeof(n.machine), "%s", i->machine);
	snprintf(n.cpu, sizeof(n.cpu), "%s", i->cpu);
	snprintf(n.accel, sizeof(n.accel), "%s", accel_name(i->accel));
	return store_node_kind(m->store, &n, err);
}

/* ---- claiming ---- */

static int cannot(const struct store_found *f, enum claim_for what, struct err *err)
{
	const char *id = f->row.info.id, *owner = *f->owner ? f->owner : "that was removed";

	if (f->row.info.state == VM_LOST && what == CLAIM_TO_USE)
		return err_tag(
		        err, -EIO, ERR_NODE_UNAVAILABLE,
		        "VM %s is lost: it was running on node '%s', which is down. When that "
		        "node is back it is stopped, with its disk; or rewind it to what is "
		        "left of its past ('pando vm rewind %s')",
		        id, owner, id);
	if (what == CLAIM_TO_USE && f->unstored)
		return err_tag(
		        err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
		        "VM %s is on node '%s', which is down, and %u of its files are not in "
		        "the object store: it can be used when that node is back",
		        id, owner, f->unstored);
	return 0;
}

/* Nobody has it: neither a living node nor a machine of one that is still to be taken over. */
static bool is_free(const struct store_found *f)
{
	enum vm_state s = f->row.info.state;

	return !f->owned && (s == VM_SUSPENDED || s == VM_STOPPED || s == VM_LOST);
}

static int take(struct vmm *m, const struct store_vm *row, struct err *err)
{
	struct vm *vm = vm_new(m, row);
	int r = vm ? vm_net_load(vm, err) : err_set(err, -ENOMEM, "claim a VM: out of memory");

	if (r == 0)
		r = vmm_insert(m, vm, err);
	if (r == 0) {
		vm_log(vm, LOG_LV_INFO, "claimed: it is this node's now (epoch %llu)",
		       (unsigned long long)row->epoch);
		mutex_lock(&m->lock);
		vmm_say_changed(m, row->info.id, NULL);
		mutex_unlock(&m->lock);
	}
	vm_unref(vm);
	return r;
}

static int claim_locked(struct vmm *m, const char *account, const char *id, enum claim_for what,
                        struct err *err)
{
	struct store_found f;
	struct store_vm row;
	int r;

	if (vmm_has(m, id))
		return 1;
	r = store_vm_look(m->store, id, &f, NULL);
	if (r == -ENOENT || (r == 0 && account && strcmp(f.row.info.account, account) != 0))
		return 0;
	if (r < 0)
		return store_vm_look(m->store, id, &f, err);
	/* Ours, and not known here: an answer that never came. */
	f.owned = f.owned && strcmp(f.row.node, store_node_id(m->store)) != 0;
	if (!is_free(&f))
		return 0;
	if (what == CLAIM_TO_REWIND && f.row.info.state != VM_LOST)
		what = CLAIM_TO_USE;
	if ((r = cannot(&f, what, err)) < 0 ||
	    (what == CLAIM_TO_USE && (r = check_fit(m, &f.row, err)) < 0) ||
	    (r = store_vm_claim(m->store, &f.row, what == CLAIM_TO_USE, &row, err)) < 0)
		return r;
	r = take(m, &row, err);
	return r < 0 ? r : 1;
}

int elsewhere_claim(struct vmm *m, const char *account, const char *id, enum claim_for what,
                    struct err *err)
{
	if (!*store_node_id(m->store))
		return 0;
	LOCK_SCOPE(&m->claim);
	return claim_locked(m, account, id, what, err);
}

/* The one that placement has for it; false: nobody can, which this node then says. */
static bool has_best(struct vmm *m, const struct store_vm *row, char ret[ID_SIZE])
{
	struct store_point p, *memory = row->info.state == VM_SUSPENDED ? &p : NULL;

	return (!memory || store_point_get(m->store, row->info.point, &p, NULL) == 0) &&
	       best_node(m, memory, row->info.mem_mb, row->home, ret);
}

int vmm_claimant(struct vmm *m, const char *account, const char *id, char ret_node[ID_SIZE],
                 struct err *err)
{
	struct store_found f;
	int r;

	ret_node[0] = '\0';
	if (!*store_node_id(m->store) || vmm_has(m, id))
		return 0;
	r = store_vm_look(m->store, id, &f, err);
	if (r == -ENOENT || (r == 0 && account && strcmp(f.row.info.account, account) != 0))
		return 0;
	if (r < 0)
		return r;
	if (!is_free(&f))
		return 0;
	if (f.row.info.state != VM_LOST && !f.unstored && has_best(m, &f.row, ret_node))
		return 1;
	snprintf(ret_node, ID_SIZE, "%s", store_node_id(m->store));
	return 1;
}

/* ---- giving up ---- */

/* Its disk layer is closed, so that it can be stored; the next boot writes to one on top of it. */
static int close_disk(struct vm *vm, struct err *err)
{
	const struct store_vm *row = &vm->row;
	int r;

	if (row->info.state != VM_STOPPED || !*row->disk_layer)
		return 0;
	r = layer_sealed(vm->m, row->disk_layer, err);
	return r != 0 ? MIN(r, 0) : vm_seal_disk(vm->m, row->disk_layer, err);
}

void vm_store_disk(struct vm *vm)
{
	struct engine_chain c = { 0 };
	struct err err = { 0 };

	if (!vm->m->stored || !*store_node_id(vm->m->store))
		return;
	if (chain_load(vm->m, vm->row.disk_layer, &c, &err) == 0 && c.n >= CHAIN_SHORTEN_AT)
		return; /* boots alone do not shorten chains: its disk stays on its node */
	if (close_disk(vm, &err) < 0)
		vm_log(vm, LOG_LV_WARN, "its disk is not stored: %s", err.msg);
	stored_soon(vm->m);
}

/* 1: it is nobody's now; 0: not yet. */
static int give_up(struct vm *vm, struct err *err)
{
	struct vmm *m = vm->m;
	enum vm_state s = vm->row.info.state;
	int r;

	if (vm->gone || (s != VM_SUSPENDED && s != VM_STOPPED))
		return 0;
	if ((r = vm_save(vm, err)) < 0 || (r = close_disk(vm, err)) < 0)
		return r;
	r = store_vm_give_up(m->store, &vm->row, err);
	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	vm->gone = true;
	vm_net_forget(vm);
	mutex_lock(&m->lock);
	vm->buried = true;
	vm_wake_waiters(vm, NULL);
	mutex_unlock(&m->lock);
	vmm_forget(m, vm);
	vm_log(vm, LOG_LV_INFO, "given up: another node has it when it is used");
	return 1;
}

/* true: it is still here, and is to go. */
static bool give_up_soon(struct vm *vm)
{
	struct err err = { 0 };
	bool left;
	int r;

	if (!mutex_trylock(&vm->lock))
		return true; /* busy: the next time */
	if (!vm->gone && vm->row.info.state == VM_RUNNING) {
		vm->why = "drain";
		if (vm_suspend_locked(vm, &err) < 0)
			vm_log(vm, LOG_LV_WARN, "%s", err.msg);
		vm->why = NULL;
	}
	err = (struct err){ 0 };
	r = give_up(vm, &err);
	if (r < 0)
		vm_log(vm, LOG_LV_WARN, "not given up yet: %s", err.msg);
	left = r <= 0 && !vm->gone && vm->row.info.state != VM_LOST;
	mutex_unlock(&vm->lock);
	return left;
}

static unsigned give_up_some(struct vmm *m)
{
	size_t n = 0;
	struct vm **v = vmm_all(m, &n);
	unsigned left = 0;

	for (size_t i = 0; v && i < n; i++) {
		left += give_up_soon(v[i]);
		vm_unref(v[i]);
	}
	free(v);
	return left;
}

static bool drains(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);
	return m->draining && !m->stopping;
}

void drain_give_up(struct vmm *m)
{
	unsigned left = 1;

	if (!m->stored || !*store_node_id(m->store))
		return;
	while (drains(m) && left) {
		left = give_up_some(m);
		if (!left)
			break;
		stored_soon(m);
		mutex_lock(&m->lock);
		m->upload_ended = false;
		while (m->draining && !m->stopping && !m->upload_ended &&
		       cond_wait_until(&m->cond, &m->lock, deadline_in(DRAIN_LOOK_MS)))
			;
		mutex_unlock(&m->lock);
	}
	if (!left)
		log_info("drained: no VM is left on this node");
}

int drain_blocks(struct vm *vm, struct err *err)
{
	struct vmm *m = vm->m;
	struct vmm_objects o;
	struct store_node other;

	if (!m->stored || !vmm_draining(m))
		return 0;
	vmm_objects(m, &o);
	if (o.failing || !other_node(m, NULL, vm->row.info.mem_mb, &other))
		return 0;
	return err_tag(err, -EAGAIN, ERR_NODE_UNAVAILABLE,
	               "VM %s is on its way to another node, as this one is being drained: try "
	               "again in a few seconds",
	               vm->row.info.id);
}
