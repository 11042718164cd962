/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_claim.c - several nodes over one store and one bucket, against a model: nothing that
 * anybody needs is ever deleted
 *
 * One handle of the store is each of the nodes in turn (store_be_node()), so it runs on both
 * engines. Random creates, suspends, snapshots, uploads that stop anywhere, deaths and returns,
 * claims, drains, collections, deletions of garbage, flattening, removal of dead nodes, and time
 * that goes on in jumps. The model has the files of each node and the objects of the bucket. What
 * must hold after each step:
 *
 *   - every layer below a point that a VM at rest or a snapshot stands on is a file of the node
 * that made it, or whole in the bucket;
 *   - what the store calls stored is whole in the bucket, and a point that was stays so;
 *   - a VM that was claimed stands on what is in the bucket, all of it;
 *   - a VM has one owner, and its epoch grows with each.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "store/store_claim.h"
#include "store/store_object.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

#define NODES 3
#define STEPS 1500
#define STEPS_PG 600 /* each is many messages */
#define VMS 12
#define SNAPS 6
#define FILES 16384
#define KEEP_MS (INT64_C(3600) * 1000)

static const struct vm_quota no_quota = { QUOTA_NONE, QUOTA_NONE, QUOTA_NONE,
	                                  QUOTA_NONE, QUOTA_NONE, QUOTA_NONE };

struct file {
	char id[ID_SIZE];
	bool on[NODES]; /* a node has it */
	bool bucket;
	bool whole;      /* a point: all that it stands on was stored once */
	int64_t gone_ms; /* its row went; 0: it has one */
};
struct world {
	struct store *s;
	char node[NODES][ID_SIZE];
	uint64_t gen[NODES];
	bool alive[NODES], gone[NODES];
	int me;
	char vm[VMS][ID_SIZE]; /* "": none */
	uint64_t epoch[VMS];
	char snap[SNAPS][ID_SIZE];
	struct file f[FILES];
	size_t n;
	int64_t now;
	unsigned claims, refused, deaths, removed, collected, deleted, flat, lost;
};

static long pick(long n)
{
	return random() % n;
}

static struct file *file_of(struct world *w, const char *id)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->f[i].id, id) == 0)
			return &w->f[i];
	assert_true(w->n < FILES);
	snprintf(w->f[w->n].id, ID_SIZE, "%s", id);
	return &w->f[w->n++];
}

static void be(struct world *w, int i)
{
	w->me = i;
	store_be_node(w->s, w->node[i], w->gen[i], &no_quota);
}

/* ---- nodes ---- */

static void join(struct world *w, int i)
{
	struct store_node n = { .vcpus = 1 };
	uint64_t gen = 0;

	snprintf(n.id, sizeof(n.id), "%s", w->node[i]);
	snprintf(n.name, sizeof(n.name), "n%d-%u", i, w->removed);
	snprintf(n.address, sizeof(n.address), "192.0.2.%d:%u", i, 1 + w->removed);
	OK(store_node_register(w->s, &n, false, &gen, &err));
	OK(store_node_join(w->s, &n, gen, &w->gen[i], &err));
	w->alive[i] = true;
}

/* The first free one; -1: none is. */
static int some_node(struct world *w)
{
	for (int k = 0; k < 20; k++) {
		int i = (int)pick(NODES);

		if (w->alive[i])
			return i;
	}
	return -1;
}

static void die(struct world *w)
{
	int i = some_node(w), k = 0;
	struct store_node row;
	unsigned lost;

	for (int j = 0; j < NODES; j++)
		k += w->alive[j];
	if (i < 0 || k < 2)
		return;
	w->alive[i] = false;
	be(w, some_node(w));
	OK(store_node_find(w->s, w->node[i], &row, &err));
	assert_int_equal(store_node_reap(w->s, &row, &lost, &err), 1);
	w->lost += lost;
	w->deaths++;
}

/* Those that are dead come back with their files, or are removed and come back empty. */
static void come_back(struct world *w)
{
	int i = (int)pick(NODES);

	if (w->alive[i])
		return;
	if (pick(3) == 0) {
		int by = some_node(w);

		be(w, by);
		if (store_node_remove(w->s, w->node[i], pick(2), &err) == 0) {
			for (size_t k = 0; k < w->n; k++)
				w->f[k].on[i] = false;
			id_make(NODE_ID_PREFIX, w->node[i]);
			w->removed++;
		} else {
			if (err.tag != ERR_CONFLICT)
				fail_msg("remove: %s", err.msg);
			return; /* only it has something */
		}
	}
	join(w, i);
}

/* ---- VMs ---- */

static int slot_of(struct world *w, bool used)
{
	for (int k = 0; k < 30; k++) {
		int i = (int)pick(VMS);

		if (!!*w->vm[i] == used)
			return i;
	}
	return -1;
}

static int get(struct world *w, int i, struct store_vm *ret)
{
	int r = store_vm_get(w->s, w->vm[i], ret, NULL);

	if (r == -ENOENT) /* it went with its node */
		w->vm[i][0] = '\0';
	return r;
}

static struct store_layer layer(enum layer_kind kind, const char *parent)
{
	struct store_layer l = { .kind = kind, .bytes = 0 };

	id_make("ly-", l.id);
	snprintf(l.parent, ID_SIZE, "%s", parent);
	snprintf(l.format, sizeof(l.format), "%s", kind == LAYER_MEM ? "mem" : "qcow2");
	return l;
}

/* A running VM: of a snapshot's point that is within reach, or from nothing. */
static void create(struct world *w)
{
	int i = slot_of(w, false), from = (int)pick(SNAPS), me = some_node(w);
	struct store_vm v = { .slot = -1, .info = { .state = VM_RUNNING, .account = "a" } };
	struct store_snapshot sn;
	struct store_layer d;
	struct store_point p = { 0 };
	bool near = false;

	if (i < 0)
		return;
	be(w, me);
	if (*w->snap[from] && store_snapshot_get(w->s, w->snap[from], &sn, NULL) == 0 &&
	    *sn.point && store_point_get(w->s, sn.point, &p, NULL) == 0)
		near = strcmp(p.node, w->node[me]) == 0 ||
		       store_unstored(w->s, p.id, "", &err) == 0;
	id_make("", v.info.id);
	store_vm_own(w->s, &v);
	d = layer(LAYER_DISK, near ? p.disk_layer : "");
	if (near) {
		snprintf(v.base_point, ID_SIZE, "%s", p.id);
		snprintf(v.base_mem, ID_SIZE, "%s", p.mem_layer);
		snprintf(v.head, ID_SIZE, "%s", p.id);
	}
	snprintf(v.disk_layer, ID_SIZE, "%s", d.id);
	OK(store_vm_add_many(w->s, &v, 1, &d, 1, NULL, &err));
	file_of(w, d.id)->on[me] = true;
	snprintf(w->vm[i], ID_SIZE, "%s", v.info.id);
	w->epoch[i] = v.epoch;
}

static int owner_of(struct world *w, const struct store_vm *v)
{
	for (int i = 0; i < NODES; i++)
		if (strcmp(w->node[i], v->node) == 0)
			return i;
	return -1;
}

static void freeze(struct world *w, struct store_vm *v, struct store_point *p,
                   struct store_layer l[2])
{
	struct store_layer disk;

	OK(store_layer_get(w->s, v->disk_layer, &disk, &err));
	l[0] = layer(LAYER_MEM, v->base_mem);
	l[0].bytes = 1;
	l[1] = disk;
	l[1].bytes = 1;
	*p = (struct store_point){ .vcpus = 1, .kind = POINT_SUSPEND, .state_bytes = 1 };
	id_make("pt-", p->id);
	snprintf(p->mem_layer, ID_SIZE, "%s", l[0].id);
	snprintf(p->disk_layer, ID_SIZE, "%s", v->disk_layer);
	snprintf(p->parent, ID_SIZE, "%s", v->head);
	snprintf(v->head, ID_SIZE, "%s", p->id);
	file_of(w, p->id)->on[w->me] = file_of(w, l[0].id)->on[w->me] = true;
}

static void suspend(struct world *w)
{
	int i = slot_of(w, true);
	struct store_layer l[2];
	struct store_point p;
	struct store_vm v;

	if (i < 0 || get(w, i, &v) < 0 || v.info.state != VM_RUNNING || owner_of(w, &v) < 0 ||
	    !w->alive[owner_of(w, &v)])
		return;
	be(w, owner_of(w, &v));
	freeze(w, &v, &p, l);
	v.info.state = VM_SUSPENDED;
	snprintf(v.info.point, ID_SIZE, "%s", p.id);
	OK(store_vm_update(w->s, &v, l, 2, &p, &err));
}

/* Live: the VM goes on with a new disk layer, the point is a checkpoint or a snapshot's. */
static void freeze_live(struct world *w)
{
	int i = slot_of(w, true), k = (int)pick(SNAPS);
	struct store_snapshot sn = { .info = { .account = "a" } };
	struct store_layer l[3];
	struct store_point p;
	struct store_vm v;

	if (i < 0 || get(w, i, &v) < 0 || v.info.state != VM_RUNNING || owner_of(w, &v) < 0 ||
	    !w->alive[owner_of(w, &v)])
		return;
	be(w, owner_of(w, &v));
	freeze(w, &v, &p, l);
	l[2] = layer(LAYER_DISK, v.disk_layer);
	snprintf(v.disk_layer, ID_SIZE, "%s", l[2].id);
	file_of(w, l[2].id)->on[w->me] = true;
	if (pick(2) && *v.checkpoint && store_unstored(w->s, v.checkpoint, "", &err) == 0)
		snprintf(v.checkpoint_before, ID_SIZE, "%s", v.checkpoint);
	snprintf(v.checkpoint, ID_SIZE, "%s", p.id);
	OK(store_vm_update(w->s, &v, l, 3, &p, &err));
	if (pick(2) == 0)
		return;
	if (*w->snap[k])
		store_snapshot_delete(w->s, w->snap[k], NULL);
	id_make("sc-", sn.info.id);
	snprintf(sn.point, ID_SIZE, "%s", p.id);
	OK(store_snapshot_add(w->s, &sn, &err));
	snprintf(w->snap[k], ID_SIZE, "%s", sn.info.id);
}

/* The owner, or whoever can claim it, has it run. */
static void resume(struct world *w)
{
	int i = slot_of(w, true), me = some_node(w), was;
	struct store_found f;
	struct store_point p;
	struct store_layer d;
	struct store_vm v;

	if (i < 0 || get(w, i, &v) < 0 || v.info.state != VM_SUSPENDED)
		return;
	be(w, me);
	OK(store_vm_look(w->s, v.info.id, &f, &err));
	was = owner_of(w, &v);
	if (was != me) {
		int r = store_vm_claim(w->s, &v, /* whole= */ true, &v, NULL);
		bool free_ = was < 0 || !w->alive[was];

		assert_int_equal(f.owned, !free_);
		assert_int_equal(r == 0, free_ && !f.unstored);
		w->refused += r < 0;
		if (r < 0)
			return;
		w->claims++;
		assert_true(v.epoch > w->epoch[i]);
		w->epoch[i] = v.epoch;
		assert_string_equal(v.node, w->node[me]);
	}
	OK(store_point_get(w->s, v.info.point, &p, &err));
	d = layer(LAYER_DISK, p.disk_layer);
	snprintf(v.base_point, ID_SIZE, "%s", p.id);
	snprintf(v.base_mem, ID_SIZE, "%s", p.mem_layer);
	snprintf(v.disk_layer, ID_SIZE, "%s", d.id);
	v.info.point[0] = '\0';
	v.info.state = VM_RUNNING;
	OK(store_vm_update(w->s, &v, &d, 1, NULL, &err));
	file_of(w, d.id)->on[me] = true;
}

/* Of one that was lost: back to a checkpoint that is stored. */
static void rewind_lost(struct world *w)
{
	int i = slot_of(w, true), me = some_node(w);
	struct store_point p;
	struct store_vm v;
	const char *to;

	if (i < 0 || get(w, i, &v) < 0 || v.info.state != VM_LOST)
		return;
	be(w, me);
	to = *v.checkpoint && store_unstored(w->s, v.checkpoint, "", &err) == 0
	             ? v.checkpoint
	             : v.checkpoint_before;
	if (!*to || store_vm_claim(w->s, &v, /* whole= */ false, &v, NULL) < 0)
		return;
	w->epoch[i] = v.epoch;
	OK(store_point_get(w->s, to, &p, &err));
	assert_int_equal(store_unstored(w->s, p.id, "", &err), 0);
	snprintf(v.info.point, ID_SIZE, "%s", p.id);
	snprintf(v.disk_layer, ID_SIZE, "%s", p.disk_layer);
	v.base_point[0] = v.base_mem[0] = '\0';
	v.info.state = VM_SUSPENDED;
	OK(store_vm_update(w->s, &v, NULL, 0, NULL, &err));
}

static void give_up(struct world *w)
{
	int i = slot_of(w, true);
	struct store_vm v;

	if (i < 0 || get(w, i, &v) < 0 || v.info.state != VM_SUSPENDED || owner_of(w, &v) < 0 ||
	    !w->alive[owner_of(w, &v)])
		return;
	be(w, owner_of(w, &v));
	if (store_vm_give_up(w->s, &v, NULL) == 0)
		w->epoch[i] = v.epoch; /* and one more */
}

static void delete_vm(struct world *w)
{
	int i = slot_of(w, true), was, me = some_node(w);
	struct store_vm v;

	if (i < 0 || get(w, i, &v) < 0)
		return;
	was = owner_of(w, &v);
	be(w, was >= 0 && w->alive[was] ? was : me);
	if ((was < 0 || !w->alive[was]) && store_vm_claim(w->s, &v, false, &v, NULL) < 0)
		return;
	OK(store_vm_bury(w->s, &v, "deleted", &err));
	w->vm[i][0] = '\0';
}

/* ---- the bucket ---- */

static void upload(struct world *w)
{
	autofree struct store_upload *u = NULL;
	size_t n = 0;

	be(w, some_node(w));
	OK(store_uploads(w->s, 16, &u, &n, &err));
	for (size_t i = 0; i < n; i++) {
		struct file *f = file_of(w, u[i].id);

		assert_true(f->on[w->me]); /* nobody is asked for what he does not have */
		if (pick(6) == 0)
			continue;
		OK(store_upload_begin(w->s, u[i].kind, u[i].id, 1, &err));
		if (pick(8) == 0)
			continue; /* a crash, an outage */
		f->bucket = true;
		OK(store_upload_done(w->s, u[i].kind, u[i].id, &err));
	}
}

static void collect(struct world *w)
{
	AUTO(store_garbage_done) struct store_garbage g = { 0 };

	be(w, some_node(w));
	OK(store_collect_at(w->s, NULL, 0, NULL, 0, w->now, &g, &err));
	for (size_t i = 0; i < g.n_points + g.n_layers; i++) {
		struct file *f =
		        file_of(w, i < g.n_points ? g.points[i] : g.layers[i - g.n_points]);

		f->on[w->me] = false;
		w->collected++;
	}
}

static void delete_garbage(struct world *w)
{
	autofree struct store_object_garbage *g = NULL;
	size_t n = 0;

	be(w, some_node(w));
	OK(store_object_garbage(w->s, w->now - KEEP_MS, 8, &g, &n, &err));
	for (size_t i = 0; i < n; i++) {
		file_of(w, strchr(g[i].object, '/') + 1)->bucket = false;
		OK(store_object_garbage_done(w->s, g[i].object, &err));
		w->deleted++;
	}
}

/* As flatten.c: what is stored changes over only if the new layer is stored. */
static void flatten(struct world *w)
{
	autofree struct store_point *p = NULL;
	autofree struct store_layer *c = NULL;
	struct store_layer l;
	size_t n = 0, k = 0;

	be(w, some_node(w));
	OK(store_point_list(w->s, &p, &n, &err));
	if (!n)
		return;
	n = (size_t)pick((long)n);
	OK(store_layer_chain(w->s, p[n].mem_layer, &c, &k, &err));
	if (k < 3)
		return;
	l = layer(LAYER_MEM, c[0].id);
	l.bytes = 1;
	OK(store_layer_add(w->s, &l, &err));
	file_of(w, l.id)->on[w->me] = true;
	if (pick(2)) {
		OK(store_upload_begin(w->s, OBJECT_LAYER, l.id, 1, &err));
		file_of(w, l.id)->bucket = true;
		OK(store_upload_done(w->s, OBJECT_LAYER, l.id, &err));
	}
	OK(store_point_swap_layer(w->s, p[n].mem_layer, l.id, &err));
	w->flat++;
}

/* ---- what must hold ---- */

static bool is_somewhere(struct world *w, const char *id, const char *maker, bool stored)
{
	const struct file *f = file_of(w, id);

	if (stored)
		assert_true(f->bucket);
	for (int i = 0; i < NODES; i++)
		if (f->on[i] && strcmp(w->node[i], maker) == 0)
			return true;
	return f->bucket;
}

static void check_chain(struct world *w, const char *top)
{
	autofree struct store_layer *c = NULL;
	size_t n = 0;

	if (!*top)
		return;
	OK(store_layer_chain(w->s, top, &c, &n, &err));
	for (size_t i = 0; i < n; i++)
		assert_true(is_somewhere(w, c[i].id, c[i].node, c[i].stored));
}

static void check_point(struct world *w, const char *id)
{
	struct store_point p;
	int n;

	OK(store_point_get(w->s, id, &p, &err));
	assert_true(is_somewhere(w, id, p.node, p.stored));
	check_chain(w, p.mem_layer);
	check_chain(w, p.disk_layer);
	n = store_unstored(w->s, id, "", &err);
	assert_true(n == 0 || (n > 0 && !file_of(w, id)->whole));
	file_of(w, id)->whole = n == 0;
}

static void check(struct world *w)
{
	struct store_snapshot sn;
	struct store_vm v;

	for (int i = 0; i < VMS; i++) {
		if (!*w->vm[i] || get(w, i, &v) < 0)
			continue;
		assert_true(v.epoch >= w->epoch[i]);
		if (v.info.state == VM_SUSPENDED)
			check_point(w, v.info.point);
		if (v.info.state == VM_RUNNING) {
			check_chain(w, v.base_mem);
			check_chain(w, v.disk_layer);
		}
		if (v.info.state != VM_LOST && *v.checkpoint)
			check_point(w, v.checkpoint);
		if (*v.checkpoint_before)
			check_point(w, v.checkpoint_before);
	}
	for (int i = 0; i < SNAPS; i++)
		if (*w->snap[i] && store_snapshot_get(w->s, w->snap[i], &sn, NULL) == 0 &&
		    *sn.point)
			check_point(w, sn.point);
}

static bool enough(const struct world *w)
{
	return w->claims > 0 && w->refused > 2 && w->deaths > 2 && w->lost > 2 &&
	       w->collected > 20 && w->deleted > 5 &&
	       (db_is_pg() || (w->claims > 4 && w->removed > 1 && w->flat > 1));
}

static void nothing_that_is_needed_is_deleted(void **state)
{
	static void (*const steps[])(struct world *) = {
		create,  create,  suspend, suspend,   suspend,     freeze_live, freeze_live,
		resume,  resume,  resume,  resume,    resume,      upload,      upload,
		upload,  upload,  upload,  collect,   collect,     flatten,     delete_garbage,
		give_up, give_up, die,     come_back, rewind_lost, delete_vm,   delete_vm,
		resume,  resume,  resume,  come_back,
	};
	static struct world w;
	struct tmpdir dir;
	char path[256];

	srandom(20261119);
	w = (struct world){ .now = 1000000 };
	assert_int_equal(tmpdir_make(&dir), 0);
	OK(store_open(db_at(&dir, "o.db", path, sizeof(path)), &w.s, &err));
	OK(store_account_create(w.s, "a", "a", &err));
	for (int i = 0; i < NODES; i++) {
		id_make(NODE_ID_PREFIX, w.node[i]);
		join(&w, i);
	}
	/* Ids are random, and so is what is found first: go on until enough has happened. */
	for (int i = 0; i < (db_is_pg() ? STEPS_PG : STEPS) || (i < 8 * STEPS && !enough(&w));
	     i++) {
		steps[pick(ARRAY_SIZE(steps))](&w);
		w.now += pick(KEEP_MS / 3);
		check(&w);
	}
	print_message(
	        "%u claims, %u refused, %u deaths, %u removed, %u lost, %u collected, %u objects "
	        "deleted, %u flattened\n",
	        w.claims, w.refused, w.deaths, w.removed, w.lost, w.collected, w.deleted, w.flat);
	assert_true(enough(&w));
	w.s = store_close(w.s);
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_that_is_needed_is_deleted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
