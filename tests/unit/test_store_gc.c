/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_gc.c - garbage collection against a model
 *
 * Random trees of layers, points, VMs, snapshots and holds; a plain C marking
 * says what must be left, and the store must agree exactly, every round. And what else may
 * not grow for ever: rows of deleted snapshots.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/store.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/store_row.h"
#include "tests/unit/tmpdir.h"

#define ROUNDS 60
#define LAYERS 24
#define POINTS 10
#define VMS 4

struct model {
	int parent[LAYERS];
	bool layer_live[LAYERS], layer_held[LAYERS];
	int mem[POINTS], disk[POINTS];
	bool point_live[POINTS], point_held[POINTS];
	bool point_named[POINTS];
};

static int pick(int n) /* 0..n-1, or -1 */
{
	return (int)(random() % (n + 1)) - 1;
}

static void mark_layer(struct model *m, int i)
{
	for (; i >= 0; i = m->parent[i])
		m->layer_live[i] = true;
}

static void name_of(char *dst, const char *prefix, int round, int i)
{
	if (i < 0)
		dst[0] = '\0';
	else
		snprintf(dst, ID_SIZE, "%s%d-%d", prefix, round, i);
}

static bool in(char (*ids)[ID_SIZE], size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(ids[i], id) == 0)
			return true;
	return false;
}

/* Even layers are memory, odd ones disk; a parent has the same kind and a smaller number. */
static void build(struct store *s, struct model *m, int round)
{
	struct err err = { 0 };

	for (int i = 0; i < LAYERS; i++) {
		struct store_layer l = { .kind = i % 2 ? LAYER_DISK : LAYER_MEM, .format = "raw" };

		m->parent[i] = i < 2 ? -1 : pick(i / 2);
		if (m->parent[i] >= 0)
			m->parent[i] = 2 * m->parent[i] + i % 2;
		name_of(l.id, "ly-", round, i);
		name_of(l.parent, "ly-", round, m->parent[i]);
		assert_int_equal(store_layer_add(s, &l, &err), 0);
	}
	for (int i = 0; i < POINTS; i++) {
		struct store_point p = { .vcpus = 1 };

		m->mem[i] = pick(LAYERS / 2);
		m->disk[i] = pick(LAYERS / 2);
		if (m->mem[i] >= 0)
			m->mem[i] *= 2;
		if (m->disk[i] >= 0)
			m->disk[i] = 2 * m->disk[i] + 1;
		name_of(p.id, "pt-", round, i);
		name_of(p.mem_layer, "ly-", round, m->mem[i]);
		name_of(p.disk_layer, "ly-", round, m->disk[i]);
		name_of(p.parent, "pt-", round, i - 1); /* history holds nothing */
		assert_int_equal(store_point_add(s, &p, NULL, 0, &err), 0);
	}
}

static void name_things(struct store *s, struct model *m, int round)
{
	struct err err = { 0 };

	for (int i = 0; i < VMS; i++) {
		struct store_vm v = { .slot = -1 };
		int point = pick(POINTS), base = pick(POINTS), mem = pick(LAYERS / 2),
		    disk = pick(LAYERS / 2);

		name_of(v.info.id, "vm-", round, i);
		name_of(v.info.point, "pt-", round, point);
		name_of(v.base_point, "pt-", round, base);
		mem = mem < 0 ? -1 : 2 * mem;
		disk = disk < 0 ? -1 : 2 * disk + 1;
		name_of(v.base_mem, "ly-", round, mem);
		name_of(v.disk_layer, "ly-", round, disk);
		assert_int_equal(store_vm_add(s, &v, &err), 0);
		if (point >= 0)
			m->point_named[point] = true;
		if (base >= 0)
			m->point_named[base] = true;
		mark_layer(m, mem);
		mark_layer(m, disk);
	}
	if (round % 2) {
		struct store_snapshot n = { .info = { .id = "" } };
		int point = (int)(random() % POINTS);

		name_of(n.info.id, "sc-", round, 0);
		name_of(n.point, "pt-", round, point);
		assert_int_equal(store_snapshot_add(s, &n, &err), 0);
		m->point_named[point] = true;
	}
	if (round % 3 == 0) {
		char id[ID_SIZE], key[ID_SIZE];
		int point = (int)(random() % POINTS);

		name_of(id, "pt-", round, point);
		name_of(key, "tp-", round, 0);
		assert_int_equal(store_template_set(s, key, id, &err), 0);
		m->point_named[point] = true;
	}
}

static void one_round(struct store *s, int round)
{
	struct model m = { 0 };
	char held_p[3][ID_SIZE], held_l[3][ID_SIZE];
	const char *hp[3], *hl[3];
	struct store_garbage g;
	struct err err = { 0 };
	size_t gone_p = 0, gone_l = 0;

	build(s, &m, round);
	name_things(s, &m, round);
	for (int i = 0; i < 2; i++) {
		int p = (int)(random() % POINTS), l = (int)(random() % LAYERS);

		m.point_named[p] = true;
		mark_layer(&m, l);
		name_of(held_p[i], "pt-", round, p);
		name_of(held_l[i], "ly-", round, l);
		hp[i] = held_p[i];
		hl[i] = held_l[i];
	}
	hp[2] = hl[2] = "not-stored-yet"; /* a name only a thread knows */
	for (int i = 0; i < POINTS; i++) {
		m.point_live[i] = m.point_named[i];
		if (m.point_live[i]) {
			mark_layer(&m, m.mem[i]);
			mark_layer(&m, m.disk[i]);
		}
	}
	if (store_collect(s, hp, 3, hl, 3, &g, &err) < 0)
		fail_msg("collect: %s", err.msg);
	for (int i = 0; i < POINTS; i++) {
		struct store_point p;
		char id[ID_SIZE];

		name_of(id, "pt-", round, i);
		assert_int_equal(in(g.points, g.n_points, id), !m.point_live[i]);
		assert_int_equal(store_point_get(s, id, &p, &err) == 0, m.point_live[i]);
		gone_p += !m.point_live[i];
	}
	for (int i = 0; i < LAYERS; i++) {
		struct store_layer l;
		char id[ID_SIZE];

		name_of(id, "ly-", round, i);
		assert_int_equal(in(g.layers, g.n_layers, id), !m.layer_live[i]);
		assert_int_equal(store_layer_get(s, id, &l, &err) == 0, m.layer_live[i]);
		gone_l += !m.layer_live[i];
	}
	assert_true(g.n_points >= gone_p && g.n_layers >= gone_l);
	store_garbage_done(&g);
}

static void collect_agrees_with_the_model(void **state)
{
	struct tmpdir d;
	struct store *s = NULL;
	struct err err = { 0 };
	struct store_garbage g;
	char db[256];

	srandom(20240607);
	assert_int_equal(tmpdir_make(&d), 0);
	if (store_open(db_at(&d, "gc.db", db, sizeof(db)), &s, &err) < 0)
		fail_msg("%s", err.msg);
	for (int i = 0; i < ROUNDS; i++)
		one_round(s, i);
	/* Without holds a second run frees what only holds kept; a third finds nothing. */
	assert_int_equal(store_collect(s, NULL, 0, NULL, 0, &g, &err), 0);
	store_garbage_done(&g);
	assert_int_equal(store_collect(s, NULL, 0, NULL, 0, &g, &err), 0);
	assert_int_equal(g.n_points + g.n_layers, 0);
	store_garbage_done(&g);
	store_close(s);
	assert_int_equal(tmpdir_remove(&d), 0);
}

static void deleted_snapshots_leave_a_bounded_trace(void **state)
{
	autofree struct store_snapshot *mine = NULL, *others = NULL;
	struct store_snapshot n = { .info = { .id = "sc-kept", .account = "acct-1" } };
	struct tmpdir d;
	struct store *s = NULL;
	struct err err = { 0 };
	size_t n_mine = 0, n_others = 0, kept = 0;
	char db[256];

	assert_int_equal(tmpdir_make(&d), 0);
	if (store_open(db_at(&d, "snaps.db", db, sizeof(db)), &s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(store_snapshot_add(s, &n, &err), 0);
	snprintf(n.info.account, sizeof(n.info.account), "acct-2");
	snprintf(n.info.id, sizeof(n.info.id), "sc-other");
	assert_int_equal(store_snapshot_add(s, &n, &err), 0);
	assert_int_equal(store_snapshot_delete(s, "sc-other", &err), 0);
	snprintf(n.info.account, sizeof(n.info.account), "acct-1");
	for (int i = 0; i < SNAPSHOTS_GONE_MAX + 20; i++) {
		name_of(n.info.id, "sc-", 0, i);
		assert_int_equal(store_snapshot_add(s, &n, &err), 0);
		assert_int_equal(store_snapshot_delete(s, n.info.id, &err), 0);
	}
	assert_int_equal(store_snapshot_list(s, "acct-1", true, &mine, &n_mine, &err), 0);
	assert_int_equal(store_snapshot_list(s, "acct-2", true, &others, &n_others, &err), 0);
	/* The one that was not deleted; and several may fall into the last millisecond. */
	assert_in_range(n_mine, SNAPSHOTS_GONE_MAX + 1, SNAPSHOTS_GONE_MAX + 20);
	for (size_t i = 0; i < n_mine; i++)
		kept += !strcmp(mine[i].info.id, "sc-kept") || !strcmp(mine[i].info.id, n.info.id);
	assert_int_equal(kept, 2); /* and the newest of the others */
	assert_int_equal(n_others, 1);
	store_close(s);
	assert_int_equal(tmpdir_remove(&d), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collect_agrees_with_the_model),
		cmocka_unit_test(deleted_snapshots_leave_a_bounded_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
