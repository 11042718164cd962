/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tree.c - lines of descent in the store, and the tree that is made of them
 *
 * A thousand points and VMs with known sizes; what one account sees of another; what happens
 * to a line when points of it are collected.
 */
#include <errno.h>
#include <pthread.h>
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
#include "store/store_internal.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/store_row.h"
#include "tests/unit/tmpdir.h"
#include "vm/tree.h"

#define MANY 1000

struct fx {
	struct tmpdir dir;
	struct store *s;
};

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));
	char path[256];

	*state = f;
	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	return store_open(db_at(&f->dir, "pando.db", path, sizeof(path)), &f->s, &err);
}

static int teardown(void **state)
{
	struct fx *f = *state;
	int r;

	store_close(f->s);
	r = tmpdir_remove(&f->dir);
	free(f);
	return r;
}

static void layer(struct fx *f, const char *id, enum layer_kind kind, const char *parent,
                  uint64_t bytes)
{
	struct store_layer l = { .kind = kind, .bytes = bytes };

	snprintf(l.id, ID_SIZE, "%s", id);
	snprintf(l.parent, ID_SIZE, "%s", parent);
	snprintf(l.format, sizeof(l.format), "raw");
	OK(store_layer_add(f->s, &l, &err));
}

/* A point `id` with layers m-id (mem bytes) and d-id (disk bytes) on those of `base`. */
static void point(struct fx *f, const char *id, enum point_kind kind, const char *parent,
                  const char *base, const char *source, int64_t at, uint64_t mem, uint64_t disk)
{
	struct store_point p = { .kind = kind, .vcpus = 1, .created_ms = at };
	char up[ID_SIZE];

	snprintf(p.id, ID_SIZE, "%s", id);
	snprintf(p.parent, ID_SIZE, "%s", parent);
	snprintf(p.source_vm, ID_SIZE, "%s", source);
	snprintf(p.mem_layer, ID_SIZE, "m-%.20s", id);
	snprintf(p.disk_layer, ID_SIZE, "d-%.20s", id);
	snprintf(up, ID_SIZE, "%s%.20s", *base ? "m-" : "", base);
	layer(f, p.mem_layer, LAYER_MEM, up, mem);
	snprintf(up, ID_SIZE, "%s%.20s", *base ? "d-" : "", base);
	layer(f, p.disk_layer, LAYER_DISK, up, disk);
	OK(store_point_add(f->s, &p, NULL, 0, &err));
}

static void vm(struct fx *f, const char *id, const char *account, const char *head, bool at_rest,
               int64_t at)
{
	struct store_vm v = { .slot = -1,
		              .info = { .state = at_rest ? VM_SUSPENDED : VM_RUNNING,
		                        .created_ms = at } };

	snprintf(v.info.id, ID_SIZE, "%s", id);
	snprintf(v.info.account, ACCOUNT_SIZE, "%s", account);
	snprintf(v.head, ID_SIZE, "%s", head);
	if (at_rest) {
		snprintf(v.info.point, ID_SIZE, "%s", head);
		snprintf(v.disk_layer, ID_SIZE, "d-%.20s", head);
	} else {
		char up[ID_SIZE];

		snprintf(v.base_point, ID_SIZE, "%s", head);
		snprintf(v.base_mem, ID_SIZE, "m-%.20s", head);
		snprintf(v.disk_layer, ID_SIZE, "w-%.20s", id);
		snprintf(up, ID_SIZE, "d-%.20s", head);
		layer(f, v.disk_layer, LAYER_DISK, up, 0);
	}
	OK(store_vm_add(f->s, &v, &err));
}

static void snapshot(struct fx *f, const char *id, const char *account, const char *pt, int64_t at)
{
	struct store_snapshot n = { .info = { .created_ms = at } };

	snprintf(n.info.id, ID_SIZE, "%s", id);
	snprintf(n.info.account, ACCOUNT_SIZE, "%s", account);
	snprintf(n.info.name, VM_NAME_MAX, "name of %s", id);
	snprintf(n.point, ID_SIZE, "%s", pt);
	OK(store_snapshot_add(f->s, &n, &err));
}

/* A layer still written to has a hundred bytes. */
static uint64_t hundred(void *ctx, const char *id, uint64_t sealed)
{
	assert_true(sealed || id[0] == 'w');
	return sealed ? sealed : 100;
}

static void build(struct fx *f, const char *account, const char *of, struct vm_tree *t)
{
	AUTO(store_tree_done) struct store_tree s = { 0 };

	OK(store_tree_load(f->s, account, &s, &err));
	OK(tree_build(&s, of, hundred, NULL, t, &err));
}

/* One with an empty id when there is none. */
static const struct tree_node *node(const struct vm_tree *t, const char *id)
{
	static const struct tree_node none;

	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->nodes[i].id, id) == 0)
			return &t->nodes[i];
	return &none;
}

static void size_is(const struct tree_node *n, uint64_t mem_own, uint64_t mem_shared,
                    uint64_t disk_own, uint64_t disk_shared)
{
	assert_string_not_equal(n->id, "");
	if (n->mem.own != mem_own || n->mem.shared != mem_shared || n->disk.own != disk_own ||
	    n->disk.shared != disk_shared)
		fail_msg("%s: memory %llu+%llu, disk %llu+%llu", n->id,
		         (unsigned long long)n->mem.own, (unsigned long long)n->mem.shared,
		         (unsigned long long)n->disk.own, (unsigned long long)n->disk.shared);
}

/* template -> s1 (snapshot twice) -> fk (fork) -> two children; s1 -> sleeper's suspend */
static void family(struct fx *f)
{
	point(f, "tp", POINT_TEMPLATE, "", "", "", 1000, 10, 20);
	OK(store_template_set(f->s, "key", "tp", &err));
	point(f, "s1", POINT_LIVE, "tp", "tp", "gone", 2000, 1, 2);
	point(f, "fk", POINT_LIVE, "s1", "s1", "sleeper", 3000, 3, 4);
	point(f, "su", POINT_SUSPEND, "s1", "s1", "sleeper", 4000, 5, 6);
	snapshot(f, "sc-1", "a", "s1", 2500);
	snapshot(f, "sc-2", "a", "s1", 2600);
	vm(f, "kid1", "a", "fk", false, 5000);
	vm(f, "kid2", "a", "fk", false, 5001);
	vm(f, "sleeper", "a", "su", true, 1500);
	vm(f, "plain", "a", "tp", false, 6000);
	vm(f, "alien", "b", "tp", false, 7000);
}

static void shape(void **state)
{
	struct fx *f = *state;
	AUTO(vm_tree_done) struct vm_tree t = { 0 };
	const struct tree_node *n;

	family(f);
	build(f, "a", NULL, &t);
	assert_int_equal(t.n, 8);
	assert_string_equal(node(&t, "alien")->id, "");
	n = node(&t, "tp");
	assert_int_equal(n->kind, TREE_TEMPLATE);
	assert_string_equal(n->parent, "");
	size_is(n, 0, 10, 0, 20);
	n = node(&t, "s1");
	assert_int_equal(n->kind, TREE_SNAPSHOT);
	assert_int_equal(n->n_snaps, 2);
	assert_string_equal(t.snaps[n->snap_at].id, "sc-2");
	assert_string_equal(n->name, "name of sc-2");
	assert_string_equal(n->parent, "tp");
	assert_string_equal(n->source_vm, ""); /* it is gone */
	size_is(n, 0, 11, 0, 22);
	n = node(&t, "fk");
	assert_int_equal(n->kind, TREE_FORK);
	assert_string_equal(n->source_vm, "sleeper");
	n = node(&t, "su");
	assert_int_equal(n->kind, TREE_SUSPEND);
	size_is(n, 5, 11, 6, 22);
	n = node(&t, "sleeper"); /* has nothing but its point */
	assert_string_equal(n->parent, "su");
	size_is(n, 0, 16, 0, 28);
	n = node(&t, "kid1");
	assert_int_equal(n->kind, TREE_VM);
	assert_string_equal(n->parent, "fk");
	size_is(n, 0, 14, 100, 26);
	assert_int_equal(t.mem_bytes, 10 + 1 + 3 + 5);
	assert_int_equal(t.disk_bytes, 20 + 2 + 4 + 6 + 3 * 100);
	for (size_t i = 0; i < t.n; i++) /* parents come first */
		assert_true(t.nodes[i].up == SIZE_MAX || t.nodes[i].up < i);
}

static void one_family(void **state)
{
	struct fx *f = *state;
	AUTO(vm_tree_done) struct vm_tree t = { 0 }, p = { 0 };
	AUTO(store_tree_done) struct store_tree s = { 0 };
	struct vm_tree none;

	family(f);
	build(f, "a", "kid1", &t);
	assert_int_equal(t.n, 7);
	assert_string_equal(node(&t, "plain")->id, "");
	assert_string_equal(node(&t, "sleeper")->id, "sleeper");
	for (size_t i = 0; i < t.n; i++)
		assert_string_equal(t.nodes[i].parent,
		                    t.nodes[i].up == SIZE_MAX ? "" : t.nodes[t.nodes[i].up].id);
	build(f, "a", "plain", &p);
	assert_int_equal(p.n, 2);
	OK(store_tree_load(f->s, "a", &s, &err));
	assert_int_equal(tree_build(&s, "alien", NULL, NULL, &none, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_VM_NOT_FOUND);
}

static void collect(struct fx *f)
{
	struct store_garbage g = { 0 };

	OK(store_collect(f->s, NULL, 0, NULL, 0, &g, &err));
	store_garbage_done(&g);
}

static void lines_are_mended(void **state)
{
	struct fx *f = *state;
	autofree struct store_line *line = NULL;
	struct store_vm v;
	struct store_point p;
	size_t n = 0;

	point(f, "tp", POINT_TEMPLATE, "", "", "", 1, 1, 1);
	OK(store_template_set(f->s, "key", "tp", &err));
	/* a line of three that nobody names, below a point that is named */
	point(f, "a", POINT_LIVE, "tp", "tp", "", 2, 1, 1);
	point(f, "b", POINT_LIVE, "a", "a", "", 3, 1, 1);
	point(f, "c", POINT_LIVE, "b", "b", "", 4, 1, 1);
	point(f, "named", POINT_LIVE, "c", "tp", "", 5, 1, 1);
	snapshot(f, "sc-1", "x", "named", 6);
	/* a VM whose last point will go while it runs from another */
	vm(f, "vm", "x", "tp", false, 7);
	OK(store_vm_get(f->s, "vm", &v, &err));
	snprintf(v.head, ID_SIZE, "b");
	OK(store_vm_update(f->s, &v, NULL, 0, NULL, &err));
	collect(f);
	OK(store_point_get(f->s, "named", &p, &err));
	assert_string_equal(p.parent, "tp");
	assert_int_equal(store_point_get(f->s, "b", &p, &err), -ENOENT);
	OK(store_point_line(f->s, "b", &line, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(line[0].id, "tp");
	/* a point frozen from it continues from what is left */
	point(f, "next", POINT_LIVE, "b", "tp", "vm", 8, 1, 1);
	snapshot(f, "sc-2", "x", "next", 9);
	OK(store_point_get(f->s, "next", &p, &err));
	assert_string_equal(p.parent, "tp");
	{
		AUTO(vm_tree_done) struct vm_tree t = { 0 };

		build(f, "x", NULL, &t);
		assert_string_equal(node(&t, "vm")->parent, "tp");
	}
	/* what is remembered of the past is forgotten when nobody asks any more */
	OK(store_vm_delete(f->s, "vm", &err));
	collect(f);
	free(TAKE_PTR(line));
	OK(store_point_line(f->s, "b", &line, &n, &err));
	assert_int_equal(n, 0);
}

#define READERS 4
#define READS 3000

struct reader {
	struct store *s;
	const char *head;
	size_t length; /* of its line */
};

static void *read_lines(void *arg)
{
	struct reader *r = arg;

	for (unsigned i = 0; i < READS; i++) {
		struct store_line *line = NULL;
		size_t n = 0;

		if (store_point_line(r->s, r->head, &line, &n, &err) < 0 || n != r->length) {
			fprintf(stderr, "the line of %s: %zu points, not %zu: %s\n", r->head, n,
			        r->length, err.msg);
			free(line);
			return r;
		}
		free(line);
	}
	return NULL;
}

/* A statement is given back before the lock is. */
static void lines_are_read_at_once(void **state)
{
	struct fx *f = *state;
	struct reader r[READERS];
	pthread_t t[READERS];

	point(f, "tp", POINT_TEMPLATE, "", "", "", 1, 1, 1);
	point(f, "a", POINT_LIVE, "tp", "tp", "", 2, 1, 1);
	point(f, "b", POINT_LIVE, "a", "a", "", 3, 1, 1);
	for (size_t i = 0; i < READERS; i++) {
		r[i] = (struct reader){ f->s, i % 2 ? "b" : "tp", i % 2 ? 3 : 1 };
		assert_int_equal(pthread_create(&t[i], NULL, read_lines, &r[i]), 0);
	}
	for (size_t i = 0; i < READERS; i++) {
		void *bad;

		assert_int_equal(pthread_join(t[i], &bad), 0);
		assert_null(bad);
	}
}

/* A database from before there was a tree. */
static void older_database(void **state)
{
	static const char rows[] =
	        "INSERT INTO points VALUES ('tp', NULL, NULL, NULL, NULL, 1, 1, 1, '', '', '', '', "
	        "0, 0, 1),"
	        " ('su', NULL, NULL, 'tp', 'v1', 1, 1, 1, '', '', '', '', 0, 0, 2);"
	        "INSERT INTO templates VALUES ('key', 'tp');"
	        "INSERT INTO vms VALUES"
	        " ('v1', 'a', '', 'suspended', NULL, NULL, NULL, 'su', 1, 0, -1, 0, 'sticky', 5, "
	        "  'suspend', 1, 1, 1, 0, 1, 'tp', NULL, NULL, -1),"
	        " ('v2', 'a', '', 'running', NULL, NULL, NULL, NULL, 2, 0, -1, 0, 'sticky', 5, "
	        "  'suspend', 1, 1, 1, 0, 1, 'tp', NULL, NULL, -1);";
	struct fx *f = *state;
	AUTO(vm_tree_done) struct vm_tree t = { 0 };
	char path[256];
	struct store *old;

	f->s = store_close(f->s);
	db_at(&f->dir, "old.db", path, sizeof(path));
	OK(store_open_with(path, store_migrations, 1, &old, &err));
	store_close(old);
	db_poke(path, rows);
	OK(store_open(path, &f->s, &err));
	build(f, "a", NULL, &t);
	assert_int_equal(node(&t, "tp")->kind, TREE_TEMPLATE);
	assert_int_equal(node(&t, "su")->kind, TREE_SUSPEND);
	assert_string_equal(node(&t, "su")->parent, "tp");
	assert_string_equal(node(&t, "v1")->parent, "su");
	assert_string_equal(node(&t, "v2")->parent, "tp");
}

static void a_thousand(void **state)
{
	struct fx *f = *state;
	AUTO(vm_tree_done) struct vm_tree t = { 0 };
	struct store_vm *v = calloc(MANY, sizeof(*v));
	struct store_layer *l = calloc(MANY, sizeof(*l));

	assert_non_null(v);
	assert_non_null(l);
	point(f, "tp", POINT_TEMPLATE, "", "", "", 1, 1, 1);
	point(f, "s0", POINT_LIVE, "tp", "tp", "", 2, 1, 1);
	snapshot(f, "sc-0", "a", "s0", 3);
	for (int i = 0; i < MANY; i++) {
		v[i] = (struct store_vm){ .slot = -1,
			                  .info = { .state = VM_RUNNING, .created_ms = 10 + i } };
		snprintf(v[i].info.id, ID_SIZE, "vm%04d", i);
		snprintf(v[i].info.account, ACCOUNT_SIZE, "%s", i % 10 ? "a" : "b");
		snprintf(v[i].head, ID_SIZE, "%s", i % 10 ? "s0" : "tp");
		snprintf(v[i].base_point, ID_SIZE, "%s", v[i].head);
		snprintf(v[i].base_mem, ID_SIZE, "m-%s", i % 10 ? "s0" : "tp");
		l[i] = (struct store_layer){ .kind = LAYER_DISK, .bytes = 7 };
		snprintf(l[i].id, ID_SIZE, "w-%04d", i);
		snprintf(l[i].parent, ID_SIZE, "d-%s", i % 10 ? "s0" : "tp");
		snprintf(l[i].format, sizeof(l[i].format), "qcow2");
		snprintf(v[i].disk_layer, ID_SIZE, "%s", l[i].id);
	}
	OK(store_vm_add_many(f->s, v, MANY, l, MANY, NULL, &err));
	free(v);
	free(l);
	build(f, "a", NULL, &t);
	assert_int_equal(t.n, MANY * 9 / 10 + 2);
	for (size_t i = 0; i < t.n; i++)
		if (t.nodes[i].kind == TREE_VM)
			size_is(&t.nodes[i], 0, 2, 7, 2);
	assert_int_equal(t.disk_bytes, 2 + MANY * 9 / 10 * 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shape, setup, teardown),
		cmocka_unit_test_setup_teardown(one_family, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_are_mended, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_are_read_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(older_database, setup, teardown),
		cmocka_unit_test_setup_teardown(a_thousand, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
