/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_build.c - from rows to nodes: parents, kinds, sizes
 *
 * Pure: everything it needs was read before. Ids are looked up in sorted tables, so a thousand
 * nodes cost a thousand searches. A layer with one user belongs to whoever stands on it, as long
 * as all above it belong to the same one; from the first shared layer down all is shared. A VM at
 * rest has no layers but those of its point: they are its point's own, and shared for the VM.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/store.h"
#include "vm/tree.h"

struct by_id {
	const char *id;
	size_t i;
};

struct build {
	const struct store_tree *s;
	tree_bytes_fn layer_bytes;
	void *ctx;
	struct vm_tree t;
	struct by_id *nodes; /* owned; sorted */
	uint8_t *counted;    /* owned; per layer: in the totals already */
	uint64_t *size;      /* owned; per layer */
};

static const char *const kind_names[] = {
	[TREE_TEMPLATE] = "template",
	[TREE_SNAPSHOT] = "snapshot",
	[TREE_FORK] = "fork",
	[TREE_SUSPEND] = "suspend",
	[TREE_VM] = "vm",
};
_Static_assert(ARRAY_SIZE(kind_names) == TREE_KIND_MAX, "kind_names misses a kind");

const char *tree_kind_name(enum tree_kind k)
{
	return kind_names[k];
}

static int cmp_by_id(const void *a, const void *b)
{
	return strcmp(((const struct by_id *)a)->id, ((const struct by_id *)b)->id);
}

static int cmp_snaps(const void *a, const void *b)
{
	const struct tree_snap *x = a, *y = b;
	int c = strcmp(x->point, y->point);

	if (c)
		return c;
	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? 1 : -1;
	return strcmp(x->id, y->id);
}

static int cmp_layer(const void *key, const void *l)
{
	return strcmp(key, ((const struct store_tree_layer *)l)->id);
}

static size_t find_node(const struct build *b, const char *id)
{
	struct by_id key = { .id = id };
	struct by_id *f =
	        *id ? bsearch(&key, b->nodes, b->s->n_points + b->s->n_vms, sizeof(key), cmp_by_id)
	            : NULL;

	return f ? f->i : SIZE_MAX;
}

static void take_snapshots(struct build *b)
{
	struct vm_tree *t = &b->t;

	for (size_t i = 0; i < b->s->n_snapshots; i++) {
		const struct store_snapshot *n = &b->s->snapshots[i];
		struct tree_snap *to = &t->snaps[t->n_snaps];

		if (!*n->point)
			continue;
		snprintf(to->id, sizeof(to->id), "%s", n->info.id);
		snprintf(to->name, sizeof(to->name), "%s", n->info.name);
		snprintf(to->point, sizeof(to->point), "%s", n->point);
		to->created_ms = n->info.created_ms;
		t->n_snaps++;
	}
	qsort(t->snaps, t->n_snaps, sizeof(*t->snaps), cmp_snaps);
}

/* Where the snapshots of a point begin, by bisection. */
static void find_snapshots(const struct vm_tree *t, struct tree_node *n)
{
	size_t lo = 0, hi = t->n_snaps;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(t->snaps[mid].point, n->id) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	n->snap_at = lo;
	while (lo + n->n_snaps < t->n_snaps && !strcmp(t->snaps[lo + n->n_snaps].point, n->id))
		n->n_snaps++;
}

static void fill_point(struct build *b, const struct store_point *p, struct tree_node *n)
{
	*n = (struct tree_node){ .created_ms = p->created_ms,
		                 .vcpus = p->vcpus,
		                 .mem_mb = p->mem_mb,
		                 .disk_mb = p->disk_mb };
	snprintf(n->id, sizeof(n->id), "%s", p->id);
	snprintf(n->parent, sizeof(n->parent), "%s", p->parent);
	snprintf(n->source_vm, sizeof(n->source_vm), "%s", p->source_vm);
	snprintf(n->mem_layer, sizeof(n->mem_layer), "%s", p->mem_layer);
	snprintf(n->disk_layer, sizeof(n->disk_layer), "%s", p->disk_layer);
	find_snapshots(&b->t, n);
	if (n->n_snaps)
		snprintf(n->name, sizeof(n->name), "%s", b->t.snaps[n->snap_at].name);
	n->kind = p->kind == POINT_TEMPLATE  ? TREE_TEMPLATE
	          : n->n_snaps               ? TREE_SNAPSHOT
	          : p->kind == POINT_SUSPEND ? TREE_SUSPEND
	                                     : TREE_FORK;
}

static void fill_vm(const struct store_vm *v, struct tree_node *n)
{
	*n = (struct tree_node){ .kind = TREE_VM,
		                 .created_ms = v->info.created_ms,
		                 .state = v->info.state,
		                 .vcpus = v->info.vcpus,
		                 .mem_mb = v->info.mem_mb,
		                 .disk_mb = v->info.disk_mb,
		                 .at_rest = *v->info.point != '\0' };
	snprintf(n->id, sizeof(n->id), "%s", v->info.id);
	snprintf(n->name, sizeof(n->name), "%s", v->info.name);
	snprintf(n->parent_vm, sizeof(n->parent_vm), "%s", v->info.parent_id);
	snprintf(n->parent, sizeof(n->parent), "%s",
	         *v->info.point ? v->info.point
	         : *v->head     ? v->head
	                        : v->base_point);
	snprintf(n->mem_layer, sizeof(n->mem_layer), "%s", v->base_mem);
	snprintf(n->disk_layer, sizeof(n->disk_layer), "%s", v->disk_layer);
}

static void make_nodes(struct build *b)
{
	struct vm_tree *t = &b->t;

	for (size_t i = 0; i < b->s->n_points; i++)
		fill_point(b, &b->s->points[i], &t->nodes[t->n++]);
	for (size_t i = b->s->n_vms; i-- > 0;) /* rows come newest first */
		fill_vm(&b->s->vms[i], &t->nodes[t->n++]);
	for (size_t i = 0; i < t->n; i++)
		b->nodes[i] = (struct by_id){ t->nodes[i].id, i };
	qsort(b->nodes, t->n, sizeof(*b->nodes), cmp_by_id);
	for (size_t i = 0; i < t->n; i++) {
		struct tree_node *n = &t->nodes[i];

		n->up = find_node(b, n->parent);
		if (n->up == SIZE_MAX)
			n->parent[0] = '\0';
		/* Whose VM it was is told only while it is the account's own. */
		if (find_node(b, n->source_vm) == SIZE_MAX)
			n->source_vm[0] = '\0';
		/* A VM at rest uses the layers of its point, as they are now. */
		if (n->at_rest && n->up != SIZE_MAX) {
			memcpy(n->mem_layer, t->nodes[n->up].mem_layer, ID_SIZE);
			memcpy(n->disk_layer, t->nodes[n->up].disk_layer, ID_SIZE);
		}
	}
}

static struct tree_size chain_size(struct build *b, const struct tree_node *n, const char *top,
                                   uint64_t *total)
{
	const struct store_tree *s = b->s;
	struct tree_size z = { 0 };
	bool own = !n->at_rest;

	for (size_t steps = 0; *top && steps <= s->n_layers; steps++) {
		const struct store_tree_layer *l =
		        bsearch(top, s->layers, s->n_layers, sizeof(*l), cmp_layer);
		size_t i;

		if (!l)
			break;
		i = (size_t)(l - s->layers);
		if (!b->counted[i]) {
			b->counted[i] = 1;
			b->size[i] =
			        b->layer_bytes ? b->layer_bytes(b->ctx, l->id, l->bytes) : l->bytes;
			*total += b->size[i];
		}
		own = own && l->users <= 1;
		*(own ? &z.own : &z.shared) += b->size[i];
		top = l->parent;
	}
	return z;
}

/* The nodes of one VM's family stay; order and indices are kept right. */
static int keep_family(struct vm_tree *t, size_t of, struct err *err)
{
	autofree size_t *moved = calloc(t->n ? t->n : 1, sizeof(*moved));
	size_t top = of, root, n = 0;

	if (!moved)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t steps = 0; steps < t->n; steps++) {
		size_t up = t->nodes[top].up;

		if (up == SIZE_MAX || t->nodes[up].kind == TREE_TEMPLATE)
			break;
		top = up;
	}
	root = t->nodes[top].up;
	for (size_t i = 0; i < t->n; i++) {
		size_t k = i;

		for (size_t steps = 0; steps < t->n && k != top && k != SIZE_MAX; steps++)
			k = t->nodes[k].up;
		moved[i] = k == top || i == root ? n++ : SIZE_MAX;
	}
	for (size_t i = 0; i < t->n; i++) {
		if (moved[i] == SIZE_MAX)
			continue;
		if (t->nodes[i].up != SIZE_MAX)
			t->nodes[i].up = moved[t->nodes[i].up];
		t->nodes[moved[i]] = t->nodes[i];
	}
	t->n = n;
	return 0;
}

int tree_build(const struct store_tree *s, const char *vm_id, tree_bytes_fn layer_bytes, void *ctx,
               struct vm_tree *ret, struct err *err)
{
	size_t n = s->n_points + s->n_vms, of;
	autofree struct by_id *nodes = calloc(n + 1, sizeof(*nodes));
	autofree uint8_t *counted = calloc(s->n_layers + 1, 1);
	autofree uint64_t *size = calloc(s->n_layers + 1, sizeof(*size));
	struct build b = { .s = s,
		           .layer_bytes = layer_bytes,
		           .ctx = ctx,
		           .nodes = nodes,
		           .counted = counted,
		           .size = size };
	int r = 0;

	b.t.nodes = calloc(n + 1, sizeof(*b.t.nodes));
	b.t.snaps = calloc(s->n_snapshots + 1, sizeof(*b.t.snaps));
	if (!nodes || !counted || !size || !b.t.nodes || !b.t.snaps)
		r = err_set(err, -ENOMEM, "out of memory for a tree of %zu nodes", n);
	if (r == 0) {
		take_snapshots(&b);
		make_nodes(&b);
		of = vm_id ? find_node(&b, vm_id) : 0;
		if (of == SIZE_MAX)
			r = err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%.40s'", vm_id);
		else if (vm_id)
			r = keep_family(&b.t, of, err);
	}
	for (size_t i = 0; r == 0 && i < b.t.n; i++) {
		struct tree_node *v = &b.t.nodes[i];

		v->mem = chain_size(&b, v, v->mem_layer, &b.t.mem_bytes);
		v->disk = chain_size(&b, v, v->disk_layer, &b.t.disk_bytes);
	}
	if (r < 0) {
		vm_tree_done(&b.t);
		return r;
	}
	*ret = b.t;
	return 0;
}

void vm_tree_done(struct vm_tree *t)
{
	free(t->nodes);
	free(t->snaps);
	*t = (struct vm_tree){ 0 };
}
