/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c - from the store's layers and points to what the engine takes */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

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
		               "layer %s stands on %zu others, at most %d are possible", layer,
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

	if (r < 0)
		return r;
	*ret = (struct engine_point){ .vcpus = p.vcpus,
		                      .mem_mb = p.mem_mb,
		                      .disk_mb = p.disk_mb,
		                      .state_crc = p.state_crc,
		                      .state_bytes = p.state_bytes };
	snprintf(ret->id, sizeof(ret->id), "%s", p.id);
	snprintf(ret->qemu_version, sizeof(ret->qemu_version), "%s", p.qemu_version);
	snprintf(ret->machine, sizeof(ret->machine), "%s", p.machine);
	snprintf(ret->cpu, sizeof(ret->cpu), "%s", p.cpu);
	snprintf(ret->accel, sizeof(ret->accel), "%s", p.accel);
	r = chain_load(m, p.mem_layer, &ret->mem, err);
	return r < 0 ? r : chain_load(m, p.disk_layer, &ret->disk, err);
}

static const char *top_of(const struct engine_chain *c)
{
	return c->n ? c->l[c->n - 1].id : NULL;
}

/*
 * The keeper may replace layers by flattened ones and collect the old ones at
 * any time: between looking the names up and holding them it is kept out.
 */
int point_take(struct vmm *m, const char *id, struct engine_point *ret, struct err *err)
{
	const char *mem, *disk;
	int r;

	pthread_rwlock_rdlock(&m->gc);
	r = point_load(m, id, ret, err);
	mem = r < 0 ? NULL : top_of(&ret->mem);
	disk = r < 0 ? NULL : top_of(&ret->disk);
	if (mem)
		r = vmm_hold(m, mem, err);
	if (r == 0 && disk && (r = vmm_hold(m, disk, err)) < 0 && mem)
		vmm_release(m, mem);
	pthread_rwlock_unlock(&m->gc);
	return r;
}

void point_drop(struct vmm *m, const struct engine_point *p)
{
	if (top_of(&p->mem))
		vmm_release(m, top_of(&p->mem));
	if (top_of(&p->disk))
		vmm_release(m, top_of(&p->disk));
}

bool layer_sealed(struct vmm *m, const char *id)
{
	struct store_layer l;

	return store_layer_get(m->store, id, &l, NULL) == 0 && l.bytes != 0;
}
