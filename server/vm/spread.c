/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spread.c - which node: for VMs that nobody has, and for forks that go to several
 *
 * The rules are cluster/placement.h's. Here the table is made for them: rows of nodes, with what
 * this node knows of itself, and whether a machine of each can continue what was frozen.
 *
 * A fork that is spread (fork.c) freezes its VM once, and has the point stored. Copies for this
 * node are brought up as always; the others are written down as VMs at rest on that point,
 * nobody's, in the same transaction, so there are all of them or none. Their home is the node that
 * they are meant for, so whoever looks for one of them finds it there, and if that node has died in
 * the meantime on another one. Whoever asked for the fork starts them by the usual way, over their
 * nodes. One that nobody has started is woken by its first use, like any VM.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cluster/placement.h"
#include "store/store_node.h"
#include "vm/elsewhere.h"
#include "vm/stored.h"

struct table_of {
	struct store_node *rows; /* owned, both */
	struct placement_node *v;
	size_t n;
};

static void table_of_done(struct table_of *t)
{
	free(t->rows);
	free(t->v);
}

/* Can a machine of that node continue what was frozen as p (NULL: needs nothing)? */
static bool kind_fits(const struct store_node *n, const struct store_point *p)
{
	return !p || (strcmp(n->qemu_version, p->qemu_version) == 0 &&
	              strcmp(n->machine, p->machine) == 0 && strcmp(n->accel, p->accel) == 0 &&
	              engine_cpu_same(n->cpu, p->cpu));
}

/* home: who has the files; or "". others: without this node. */
static bool look_around(struct vmm *m, const struct store_point *p, const char *home, bool others,
                        struct table_of *t)
{
	const char *self = store_node_id(m->store);

	if (store_node_list(m->store, &t->rows, &t->n, NULL) < 0 ||
	    !(t->v = calloc(t->n + 1, sizeof(*t->v))))
		return false;
	for (size_t i = 0; i < t->n; i++) {
		const struct store_node *n = &t->rows[i];
		bool own = strcmp(n->id, self) == 0;

		t->v[i] = (struct placement_node){ .id = n->id,
			                           .open = own ? !others && !vmm_draining(m)
			                                       : n->alive && !n->draining,
			                           .fits = kind_fits(n, p),
			                           .near = strcmp(n->id, home) == 0 ? NEAR_FILES
			                                   : own                    ? NEAR_ASKED
			                                                            : NEAR_NOT,
			                           .free_mb = own ? vmm_room_mb(m) : n->free_mb,
			                           .running = n->running };
	}
	return true;
}

bool other_node(struct vmm *m, const struct store_point *p, uint32_t mem_mb, struct store_node *ret)
{
	AUTO(table_of_done) struct table_of t = { 0 };
	size_t k;

	if (!look_around(m, p, "", /* others= */ true, &t) ||
	    (k = placement_best(t.v, t.n, vmm_need_mb(m, mem_mb), /* spread= */ false)) == SIZE_MAX)
		return false;
	*ret = t.rows[k];
	return true;
}

bool best_node(struct vmm *m, const struct store_point *p, uint32_t mem_mb, const char *home,
               char ret[ID_SIZE])
{
	AUTO(table_of_done) struct table_of t = { 0 };
	size_t k;

	if (!look_around(m, p, home, /* others= */ false, &t) ||
	    (k = placement_best(t.v, t.n, vmm_need_mb(m, mem_mb), /* spread= */ false)) == SIZE_MAX)
		return false;
	memcpy(ret, t.rows[k].id, ID_SIZE);
	return true;
}

/* ---- forks ---- */

void spread_none(struct vm_spread *s, const char *note)
{
	*s = (struct vm_spread){ 0 };
	snprintf(s->note, sizeof(s->note), "%s", note);
}

static size_t open_nodes(const struct table_of *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->v[i].open && t->v[i].fits;
	return n;
}

/* What this node freezes now. */
static void own_kind(struct vmm *m, struct store_point *ret)
{
	const struct engine_info *i = engine_info(m->engine);

	*ret = (struct store_point){ 0 };
	snprintf(ret->qemu_version, sizeof(ret->qemu_version), "%s", i->qemu_version);
	snprintf(ret->machine, sizeof(ret->machine), "%s", i->machine);
	snprintf(ret->cpu, sizeof(ret->cpu), "%s", i->cpu);
	snprintf(ret->accel, sizeof(ret->accel), "%s", accel_name(i->accel));
}

void spread_plan(struct vmm *m, const char *account, const char *vm, unsigned count,
                 struct vm_spread *ret)
{
	const char *self = store_node_id(m->store);
	AUTO(table_of_done) struct table_of t = { 0 };
	autofree size_t *at = calloc(count, sizeof(*at));
	struct store_point kind;
	struct vm_info parent;

	spread_none(ret, "");
	if (!*self)
		return spread_none(ret, "this server is a single machine");
	if (!m->stored)
		return spread_none(ret, "there is no object store (PANDO_OBJECTS)");
	own_kind(m, &kind);
	if (!at || vmm_get(m, account, vm, &parent, NULL) < 0 ||
	    !look_around(m, &kind, self, /* others= */ false, &t))
		return spread_none(ret, "the other nodes are not known just now");
	if (open_nodes(&t) < 2)
		return spread_none(ret, "no other node is alive, takes new VMs and has the same "
		                        "CPU, QEMU and accelerator");
	if (!placement_spread(t.v, t.n, vmm_need_mb(m, parent.mem_mb), count, at))
		return spread_none(ret, "the nodes together have not enough free memory");
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(t.rows[at[i]].id, self) == 0)
			continue;
		memcpy(ret->node[i], t.rows[at[i]].id, ID_SIZE);
		ret->elsewhere++;
	}
}

void spread_row(struct store_vm *row, const char *point, const char *node)
{
	row->info.state = VM_SUSPENDED;
	snprintf(row->info.point, ID_SIZE, "%s", point);
	row->node[0] = '\0';
	snprintf(row->home, ID_SIZE, "%s", node);
	row->epoch = 1;
}

bool spread_is_new(const struct store_vm *row, const char *point)
{
	return row->info.fork_count > 0 && row->info.past.run_s == 0 &&
	       strcmp(row->base_point, point) == 0;
}
