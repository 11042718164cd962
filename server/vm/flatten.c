/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatten.c - keeps chains short, without stopping a VM
 *
 * Flattening writes a new layer beside the old ones that holds the same, and
 * then lets everything that stood on the old top stand on the new one: points
 * and layers in the store, and running machines (their disk by changing the
 * backing node, their memory by name only: it is mapped already). Old files go
 * when the last user has let go of them.
 *
 * The keeper flattens what has grown long in the background. A VM that is
 * frozen faster than that shortens its own chains first, before the freeze, so
 * that no point is ever made that could not be thawed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_node.h"
#include "vm/stored.h"

/* vm->lock held. */
static void change_over(struct vm *vm, const char *from, const struct engine_chain *old,
                        const struct store_layer *l)
{
	struct engine_layer to = { .bytes = l->bytes };
	struct engine_chain c = { 0 };
	struct err err = { 0 };
	int r = 0;

	if (vm->gone || !vm->machine || vm->row.info.state != VM_RUNNING)
		return;
	if (l->kind == LAYER_MEM) {
		if (strcmp(vm->row.base_mem, from) != 0)
			return;
		snprintf(vm->row.base_mem, ID_SIZE, "%s", l->id);
		r = vm_set_state(vm, VM_RUNNING, NULL, 0, NULL, &err);
		if (r < 0)
			snprintf(vm->row.base_mem, ID_SIZE, "%s", from);
	} else if (chain_load(vm->m, vm->row.disk_layer, &c, &err) == 0) {
		snprintf(to.id, sizeof(to.id), "%s", l->id);
		snprintf(to.format, sizeof(to.format), "%s", l->format);
		for (size_t k = 0; k + 1 < c.n; k++)
			if (!strcmp(c.l[k].id, l->id))
				r = machine_rebase_disk(vm->machine, c.l[k + 1].id, old, &to, &err);
	}
	if (r < 0)
		vm_log(vm, LOG_LV_WARN, "keeps its long chain, ignoring: %s", err.msg);
}

/* A busy VM is left as it is: it shortens its chains itself when they grow too long. */
static void change_over_all(struct vmm *m, struct vm *own, const char *from,
                            const struct engine_chain *old, const struct store_layer *l)
{
	size_t n;
	struct vm **v = vmm_all(m, &n);

	for (size_t i = 0; v && i < n; i++) {
		if (v[i] == own) {
			change_over(v[i], from, old, l);
		} else if (mutex_trylock(&v[i]->lock)) {
			change_over(v[i], from, old, l);
			mutex_unlock(&v[i]->lock);
		}
		vm_unref(v[i]);
	}
	free(v);
}

static int write_flat(struct vmm *m, const struct engine_chain *c, struct store_layer *l,
                      struct err *err)
{
	id_make("ly-", l->id);
	snprintf(l->parent, sizeof(l->parent), "%s", c->l[0].id); /* the bottom stays shared */
	if (l->kind == LAYER_DISK) {
		snprintf(l->format, sizeof(l->format), "qcow2");
		return engine_flatten_disk(m->engine, c, l->id, &l->bytes, err);
	}
	snprintf(l->format, sizeof(l->format), "mem");
	l->has_crc = true;
	return engine_flatten_mem(m->engine, c, /* keep_bottom= */ true, l->id, &l->bytes, &l->crc,
	                          err);
}

int flatten_layer(struct vmm *m, const char *top, enum layer_kind kind, struct vm *own,
                  char ret_id[ID_SIZE], struct err *err)
{
	struct store_layer l = { .kind = kind }, was;
	struct engine_chain c = { 0 };
	uint64_t t0 = clock_ms();
	bool added;
	int r;

	r = chain_take(m, top, &c, err);
	if (r < 0)
		return r;
	if (store_layer_get(m->store, top, &was, NULL) == 0)
		snprintf(l.account, sizeof(l.account), "%s", was.account);
	r = c.n < 3 ? err_set(err, -EINVAL, "layer %s: nothing to flatten", top)
	            : write_flat(m, &c, &l, err);
	if (r == 0) {
		rwlock_rdlock(&m->gc);
		r = vmm_hold(m, l.id, err);
		added = r == 0 && (r = store_layer_add(m->store, &l, err)) == 0;
		/* Other nodes can fetch the old ones: then the new one first, or they are left. A
		 * VM that shortens its own chain does not wait for that. */
		if (added && !own && m->stored && *store_node_id(m->store)) {
			rwlock_unlock(&m->gc);
			r = upload_layer(m, l.id, err);
			rwlock_rdlock(&m->gc);
		}
		if (added && r == 0)
			r = store_point_swap_layer(m->store, top, l.id, err);
		rwlock_unlock(&m->gc);
		if (!added) /* no collector will ever hear of it */
			engine_remove_layer(m->engine, l.id);
		if (r == 0) {
			change_over_all(m, own, top, &c, &l);
			snprintf(ret_id, ID_SIZE, "%s", l.id);
		}
		vmm_release(m, l.id);
	}
	chain_drop(m, &c);
	if (r == 0)
		log_obj(LOG_LV_INFO, "layer", l.id, "replaces %zu %s layers (%llu MB, %llu ms)",
		        c.n, kind == LAYER_MEM ? "memory" : "disk",
		        (unsigned long long)l.bytes >> 20, (unsigned long long)(clock_ms() - t0));
	return r;
}

int vm_shorten(struct vm *vm, struct err *err)
{
	struct vmm *m = vm->m;
	struct engine_chain c;
	char id[ID_SIZE];
	int r = chain_load(m, vm->row.base_mem, &c, err);

	if (r == 0 && c.n >= CHAIN_SHORTEN_AT)
		r = flatten_layer(m, vm->row.base_mem, LAYER_MEM, vm, id, err);
	if (r == 0)
		r = chain_load(m, vm->row.disk_layer, &c, err);
	if (r == 0 && c.n > CHAIN_SHORTEN_AT) /* the top is being written to: all below it */
		r = flatten_layer(m, c.l[c.n - 2].id, LAYER_DISK, vm, id, err);
	return r < 0 ? err_wrap(err, r, "shorten the chains of VM %s", vm->row.info.id) : 0;
}
