/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c - from the store's layers and points to what the engine takes */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "vm/elsewhere.h"
#include "vm/stored.h"

int chain_load(struct vmm *m, const char *layer, struct engine_chain *ret, struct err *err)
{
	autofree struct store_layer *l = NULL;
	size_t n = 0;
	int r;

	*ret = (struct engine_chain){ 0 };
	if (!*layer)
		return 0;
	r = store_layer_chain(m->store, layer, &l, &n, err);
	if (r < 0)
		return r;
	if (n > ENGINE_CHAIN_MAX)
		return err_set(err, -E2BIG,
		               "layer %s is on top of %zu others, at most %d are possible", layer,
		               n - 1, ENGINE_CHAIN_MAX - 1);
	for (size_t i = 0; i < n; i++) {
		struct engine_layer *e = &ret->l[ret->n++];

		snprintf(e->id, sizeof(e->id), "%s", l[i].id);
		snprintf(e->format, sizeof(e->format), "%s", l[i].format);
		e->bytes = l[i].bytes;
		e->crc = l[i].crc;
		e->has_crc = l[i].has_crc;
	}
	return 0;
}

static int point_load(struct vmm *m, const char *id, struct engine_point *ret, struct err *err)
{
	struct store_point p;
	int r = store_point_get(m->store, id, &p, err);

	if (r < 0 || (r = layers_need(m, id, p.node, err)) < 0)
		return r;
	*ret = (struct engine_point){ .vcpus = p.vcpus,
		                      .mem_mb = p.mem_mb,
		                      .disk_mb = p.disk_mb,
		                      .state_crc = p.state_crc,
		                      .state_bytes = p.state_bytes };
	snprintf(ret->id, sizeof(ret->id), "%s", p.id);
	/* A template of a template is this server's own: template_own.c. */
	snprintf(ret->line, sizeof(ret->line), "%s",
	         p.kind == POINT_TEMPLATE && *p.parent ? p.parent : p.id);
	snprintf(ret->qemu_version, sizeof(ret->qemu_version), "%s", p.qemu_version);
	snprintf(ret->machine, sizeof(ret->machine), "%s", p.machine);
	snprintf(ret->cpu, sizeof(ret->cpu), "%s", p.cpu);
	snprintf(ret->accel, sizeof(ret->accel), "%s", p.accel);
	r = chain_load(m, p.mem_layer, &ret->mem, err);
	return r < 0 ? r : chain_load(m, p.disk_layer, &ret->disk, err);
}

static int hold_all(struct vmm *m, const struct engine_chain *c, struct err *err)
{
	for (size_t i = 0; i < c->n; i++) {
		int r = vmm_hold(m, c->l[i].id, err);

		while (r < 0 && i > 0)
			vmm_release(m, c->l[--i].id);
		if (r < 0)
			return r;
	}
	return 0;
}

void chain_drop(struct vmm *m, const struct engine_chain *c)
{
	for (size_t i = 0; i < c->n; i++)
		vmm_release(m, c->l[i].id);
}

/*
 * The keeper may replace layers by flattened ones, also in the middle of a
 * chain, and collect the old ones at any time: between looking the names up and
 * holding every one of them it is kept out. What is held is not dropped from the
 * cache either: files that are only in the object store are fetched then.
 */
int chain_take(struct vmm *m, const char *layer, struct engine_chain *ret, struct err *err)
{
	int r;

	rwlock_rdlock(&m->gc);
	r = chain_load(m, layer, ret, err);
	if (r == 0)
		r = hold_all(m, ret, err);
	rwlock_unlock(&m->gc);
	if (r == 0 && (r = fetch_chain(m, ret, err)) < 0)
		chain_drop(m, ret);
	return r;
}

int point_take(struct vmm *m, const char *id, struct engine_point *ret, struct err *err)
{
	int r;

	rwlock_rdlock(&m->gc);
	r = point_load(m, id, ret, err);
	if (r == 0)
		r = hold_all(m, &ret->mem, err);
	if (r == 0 && (r = hold_all(m, &ret->disk, err)) < 0)
		chain_drop(m, &ret->mem);
	rwlock_unlock(&m->gc);
	if (r == 0 && (r = fetch_point(m, ret, err)) < 0)
		point_drop(m, ret);
	return r;
}

void point_drop(struct vmm *m, const struct engine_point *p)
{
	chain_drop(m, &p->mem);
	chain_drop(m, &p->disk);
}

bool point_fault(struct err *err, enum err_code tag)
{
	bool damaged;

	if (!err || !err->tag || (err->tag != ERR_POINT_DAMAGED && err->tag != ERR_POINT_MISMATCH))
		return false;
	damaged = err->tag == ERR_POINT_DAMAGED;
	err->tag = tag;
	return damaged;
}

int layer_sealed(struct vmm *m, const char *id, struct err *err)
{
	struct store_layer l;
	int r = store_layer_get(m->store, id, &l, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return l.bytes != 0;
}
