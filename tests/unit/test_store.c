/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store.c - the store against a real SQLite file, or a real PostgreSQL (test_store_pg.py)
 *
 * Each test gets a directory and an open store of its own. Rows are compared
 * whole, so a column that is written but not read back (or the reverse) fails.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/store_row.h"
#include "tests/unit/tmpdir.h"

struct fx {
	struct tmpdir dir;
	char db[256];
	struct store *s;
};

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	db_at(&f->dir, "pando.db", f->db, sizeof(f->db));
	*state = f;
	return store_open(f->db, &f->s, NULL);
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

static void reopen(struct fx *f)
{
	f->s = store_close(f->s);
	OK(store_open(f->db, &f->s, &err));
}

static struct store_layer layer(const char *id, enum layer_kind kind, const char *parent)
{
	struct store_layer l = { .kind = kind, .bytes = 4096 };

	snprintf(l.id, sizeof(l.id), "%s", id);
	snprintf(l.parent, sizeof(l.parent), "%s", parent);
	snprintf(l.format, sizeof(l.format), "%s", kind == LAYER_MEM ? "mem" : "qcow2");
	return l;
}

static struct store_point point(const char *id, const char *mem, const char *disk)
{
	struct store_point p = {
		.vcpus = 2,
		.mem_mb = 512,
		.disk_mb = 20480,
		.state_crc = 0xfedcba98u,
		.state_bytes = 5000,
		.created_ms = 1700000000123,
		.qemu_version = "7.2.0",
		.machine = "q35,usb=off",
		.cpu = "max",
		.accel = "tcg",
	};

	snprintf(p.id, sizeof(p.id), "%s", id);
	snprintf(p.mem_layer, sizeof(p.mem_layer), "%s", mem);
	snprintf(p.disk_layer, sizeof(p.disk_layer), "%s", disk);
	return p;
}

static struct store_vm vm(const char *id, int64_t created)
{
	struct store_vm v = {
		.info = { .account = "acct-1",
		          .name = "a 'name'; \"x\" \xc3\xa9",
		          .state = VM_SUSPENDED,
		          .instance = "inst-1",
		          .snapshot_id = "sc-1",
		          .parent_id = "par-1",
		          .last_network_ms = 77,
		          .idle_timeout_s = -1,
		          .activity_threshold = 1 << 20,
		          .persistence = { PERSIST_EPHEMERAL, 7, DELETE_ON_STOP },
		          .vcpus = 4,
		          .mem_mb = 8192,
		          .disk_mb = 20480,
		          .past.cpu_s = 12.5,
		          .generation = 1ull << 40 },
		.slot = 3,
	};

	snprintf(v.info.id, sizeof(v.info.id), "%s", id);
	v.info.created_ms = created;
	return v;
}

static void file_is_private_and_survives(void **state)
{
	struct fx *f = *state;
	struct stat st;
	char first[ACCOUNT_SIZE];

	if (!db_is_pg()) {
		assert_int_equal(stat(f->db, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
	}
	FAILS(-ENOENT, store_account_first(f->s, first, &err));
	OK(store_account_create(f->s, "acct-1", "one", &err));
	reopen(f);
	OK(store_account_first(f->s, first, &err));
	assert_string_equal(first, "acct-1");
}

static void keys_are_found_by_hash_until_revoked(void **state)
{
	struct fx *f = *state;
	char acct[ACCOUNT_SIZE];

	FAILS(-ENOENT, store_account_first(f->s, acct, &err));
	assert_int_equal(store_key_count(f->s, NULL), 0);
	OK(store_account_create(f->s, "acct-1", "main", &err));
	FAILS(-EEXIST, store_account_create(f->s, "acct-1", "again", &err));
	OK(store_key_add(f->s, "acct-1", "key-1", "first", "00ff", &err));
	FAILS(-EEXIST, store_key_add(f->s, "acct-1", "key-2", "same hash", "00ff", &err));
	FAILS(-ENOLINK, store_key_add(f->s, "nobody", "key-3", "x", "0102", &err));
	OK(store_key_find(f->s, "00ff", acct, &err));
	assert_string_equal(acct, "acct-1");
	FAILS(-ENOENT, store_key_find(f->s, "00FF", acct, &err));
	assert_int_equal(store_key_count(f->s, NULL), 1);
	FAILS(-ENOENT, store_key_revoke(f->s, "other", "key-1", &err));
	OK(store_key_revoke(f->s, "acct-1", "key-1", &err));
	FAILS(-ENOENT, store_key_find(f->s, "00ff", acct, &err));
	assert_int_equal(store_key_count(f->s, NULL), 0);
	OK(store_account_first(f->s, acct, &err));
	assert_string_equal(acct, "acct-1");
}

static void layers_know_their_depth_and_chain(void **state)
{
	struct fx *f = *state;
	autofree struct store_layer *c = NULL;
	struct store_layer l = layer("ly-a", LAYER_DISK, "");
	size_t n = 0;

	l.depth = 99; /* computed, not taken */
	OK(store_layer_add(f->s, &l, &err));
	FAILS(-EEXIST, store_layer_add(f->s, &l, &err));
	l = layer("ly-b", LAYER_DISK, "ly-a");
	OK(store_layer_add(f->s, &l, &err));
	l = layer("ly-c", LAYER_DISK, "ly-b");
	OK(store_layer_add(f->s, &l, &err));
	l = layer("ly-x", LAYER_MEM, "ly-c");
	FAILS(-EINVAL, store_layer_add(f->s, &l, &err));
	l = layer("ly-y", LAYER_DISK, "ly-nowhere");
	FAILS(-ENOENT, store_layer_add(f->s, &l, &err));
	OK(store_layer_seal(f->s, "ly-b", 123456789012345ull, 0xffffffffu, true, &err));
	FAILS(-ENOENT, store_layer_seal(f->s, "ly-nowhere", 1, 1, true, &err));
	reopen(f);
	OK(store_layer_chain(f->s, "ly-c", &c, &n, &err));
	assert_int_equal(n, 3);
	assert_string_equal(c[0].id, "ly-a");
	assert_string_equal(c[1].id, "ly-b");
	assert_string_equal(c[2].id, "ly-c");
	assert_int_equal(c[0].depth, 0);
	assert_int_equal(c[2].depth, 2);
	assert_true(c[1].has_crc && c[1].crc == 0xffffffffu && c[1].bytes == 123456789012345ull);
	assert_false(c[2].has_crc);
	assert_string_equal(c[2].format, "qcow2");
	FAILS(-ENOENT, store_layer_chain(f->s, "ly-nowhere", &c, &n, &err));
	OK(store_layer_get(f->s, "ly-c", &l, &err));
	assert_string_equal(l.parent, "ly-b");
	FAILS(-ENOENT, store_layer_get(f->s, "' OR 1=1 --", &l, &err));
}

static void a_point_and_its_layers_are_one_fact(void **state)
{
	struct fx *f = *state;
	struct store_layer l[3] = { layer("ly-d2", LAYER_DISK,
		                          "ly-d1"), /* child before its parent */
		                    layer("ly-d1", LAYER_DISK, ""), layer("ly-m1", LAYER_MEM, "") };
	struct store_point p, back;
	struct store_layer got;
	autofree struct store_point *all = NULL;
	size_t n = 0;

	p = point("pt-1", "ly-none", "ly-d2");
	FAILS(-ENOLINK, store_point_add(f->s, &p, l, 3, &err));
	FAILS(-ENOENT, store_layer_get(f->s, "ly-d1", &got, &err)); /* rolled back together */
	p = point("pt-1", "ly-m1", "ly-d2");
	snprintf(p.parent, sizeof(p.parent), "pt-0"); /* history: need not exist */
	snprintf(p.source_vm, sizeof(p.source_vm), "vm-1");
	OK(store_point_add(f->s, &p, l, 3, &err));
	OK(store_layer_get(f->s, "ly-d2", &got, &err));
	assert_int_equal(got.depth, 1);
	OK(store_point_get(f->s, "pt-1", &back, &err));
	assert_memory_equal(&back, &p, sizeof(p));
	/* A known layer is sealed, not added twice. */
	l[0].has_crc = true;
	l[0].crc = 5;
	p = point("pt-2", "ly-m1", "ly-d2");
	OK(store_point_add(f->s, &p, l, 1, &err));
	OK(store_layer_get(f->s, "ly-d2", &got, &err));
	assert_true(got.has_crc && got.crc == 5 && got.depth == 1);
	OK(store_point_list(f->s, &all, &n, &err));
	assert_int_equal(n, 2);
	/* A loop among new layers is refused. */
	l[0] = layer("ly-l1", LAYER_DISK, "ly-l2");
	l[1] = layer("ly-l2", LAYER_DISK, "ly-l1");
	p = point("pt-3", "ly-m1", "ly-l1");
	FAILS(-ELOOP, store_point_add(f->s, &p, l, 2, &err));
	FAILS(-ENOENT, store_point_get(f->s, "pt-3", &back, &err));
}

static void flattening_moves_points_to_the_new_layer(void **state)
{
	struct fx *f = *state;
	struct store_layer l[3] = { layer("ly-m", LAYER_MEM, ""), layer("ly-d", LAYER_DISK, ""),
		                    layer("ly-flat", LAYER_DISK, "") };
	struct store_point p = point("pt-1", "ly-m", "ly-d");

	OK(store_point_add(f->s, &p, l, 3, &err));
	FAILS(-EINVAL, store_point_swap_layer(f->s, "ly-m", "ly-flat", &err));
	FAILS(-ENOENT, store_point_swap_layer(f->s, "ly-d", "ly-none", &err));
	OK(store_point_swap_layer(f->s, "ly-d", "ly-flat", &err));
	OK(store_point_get(f->s, "pt-1", &p, &err));
	assert_string_equal(p.disk_layer, "ly-flat");
	assert_string_equal(p.mem_layer, "ly-m");
}

static void templates_name_existing_points(void **state)
{
	struct fx *f = *state;
	struct store_layer l = layer("ly-m", LAYER_MEM, "");
	struct store_point p = point("pt-1", "ly-m", "");
	char id[ID_SIZE];

	OK(store_point_add(f->s, &p, &l, 1, &err));
	FAILS(-ENOLINK, store_template_set(f->s, "base", "pt-none", &err));
	FAILS(-ENOENT, store_template_get(f->s, "base", id, &err));
	OK(store_template_set(f->s, "base", "pt-1", &err));
	OK(store_template_set(f->s, "base", "pt-1", &err));
	OK(store_template_get(f->s, "base", id, &err));
	assert_string_equal(id, "pt-1");
}

static void vms_come_back_as_written(void **state)
{
	struct fx *f = *state;
	struct store_layer l[2] = { layer("ly-m", LAYER_MEM, ""), layer("ly-d", LAYER_DISK, "") };
	struct store_point p = point("pt-1", "ly-m", "ly-d");
	struct store_vm v = vm("vm-1", 1000), w[3], back;
	autofree struct store_vm *list = NULL, *mine = NULL;
	size_t n = 0;

	OK(store_vm_add(f->s, &v, &err));
	assert_int_equal(store_vm_add(f->s, &v, &err), -EEXIST);
	OK(store_vm_get(f->s, "vm-1", &back, &err));
	assert_memory_equal(&back, &v, sizeof(v));

	/* Suspend: layers, point and the row in one step. */
	v.info.state = VM_SUSPENDED;
	snprintf(v.info.point, sizeof(v.info.point), "pt-1");
	snprintf(v.base_point, sizeof(v.base_point), "pt-1");
	snprintf(v.base_mem, sizeof(v.base_mem), "ly-m");
	snprintf(v.disk_layer, sizeof(v.disk_layer), "ly-d");
	v.slot = -1;
	OK(store_vm_update(f->s, &v, l, 2, &p, &err));
	reopen(f);
	OK(store_vm_get(f->s, "vm-1", &back, &err));
	assert_memory_equal(&back, &v, sizeof(v));

	assert_int_equal(store_vm_get(f->s, "vm-2", &back, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_VM_NOT_FOUND);
	w[0] = vm("vm-2", 5);
	assert_int_equal(store_vm_update(f->s, &w[0], NULL, 0, NULL, &err), -ENOENT);

	/* Fork: all or none. */
	w[0] = vm("vm-2", 2000);
	w[1] = vm("vm-3", 3000);
	w[2] = vm("vm-1", 4000);
	l[0] = layer("ly-n", LAYER_DISK, "ly-d");
	assert_int_equal(store_vm_add_many(f->s, w, 3, l, 1, NULL, &err), -EEXIST);
	assert_int_equal(store_vm_get(f->s, "vm-2", &back, &err), -ENOENT);
	assert_int_equal(store_layer_get(f->s, "ly-n", &l[1], &err), -ENOENT);
	OK(store_vm_add_many(f->s, w, 2, l, 1, NULL, &err));
	w[2] = vm("vm-4", 9000);
	snprintf(w[2].info.account, sizeof(w[2].info.account), "acct-2");
	OK(store_vm_add(f->s, &w[2], &err));
	OK(store_vm_list(f->s, "acct-1", &mine, &n, &err));
	assert_int_equal(n, 3);
	assert_string_equal(mine[0].info.id, "vm-3"); /* newest first */
	assert_string_equal(mine[2].info.id, "vm-1");
	OK(store_vm_list(f->s, NULL, &list, &n, &err));
	assert_int_equal(n, 4);
	OK(store_vm_bury(f->s, &w[2], "evicted", &err));
	FAILS(-ENOENT, store_vm_bury(f->s, &w[2], "evicted", &err));
	/* Values that do not fit the columns are rejected, not changed. */
	v = vm("vm-9", 1);
	v.info.state = VM_STATE_MAX;
	FAILS(-EINVAL, store_vm_add(f->s, &v, &err));
	v = vm("vm-9", 1);
	v.info.generation = UINT64_MAX;
	FAILS(-ERANGE, store_vm_add(f->s, &v, &err));
}

static void usage_is_saved_for_the_machine_it_is_of(void **state)
{
	struct fx *f = *state;
	struct store_vm v = vm("vm-1", 1000), back;
	struct vm_usage u;

	v.info.state = VM_RUNNING;
	v.info.count_exec = true;
	v.info.machine_ms = 500;
	v.grow_fs = true;
	OK(store_vm_add(f->s, &v, &err));
	v.info.now = (struct vm_usage){ 1.5, 60, 120, 10, 20, 30, 40 };
	v.info.last_network_ms = 1234;
	v.info.vcpus = 1; /* not a matter of usage: stays */
	OK(store_vm_usage(f->s, &v.info, 1, &err));
	reopen(f);
	OK(store_vm_get(f->s, "vm-1", &back, &err));
	u = vm_usage_total(&back.info);
	assert_true(u.cpu_s == 14.0 && u.run_s == 60 && u.mem_gb_s == 120);
	assert_true(u.net_in == 10 && u.net_out == 20 && u.disk_read == 30 && u.disk_write == 40);
	assert_int_equal(back.info.last_network_ms, 1234);
	assert_int_equal(back.info.vcpus, 4);
	assert_true(back.info.count_exec && back.grow_fs);
	/* A machine that ended meanwhile has been added up already. */
	snprintf(v.info.instance, sizeof(v.info.instance), "inst-0");
	v.info.now.cpu_s = 99;
	OK(store_vm_usage(f->s, &v.info, 1, &err));
	OK(store_vm_get(f->s, "vm-1", &back, &err));
	assert_true(back.info.now.cpu_s == 1.5);
}

static void deleted_vms_leave_a_bounded_trace(void **state)
{
	struct fx *f = *state;
	autofree struct vm_tombstone *list = NULL, *other = NULL;
	autofree struct store_vm *many = calloc(VM_TOMBSTONES_MAX + 20, sizeof(*many));
	struct vm_tombstone t;
	struct store_vm v = vm("vm-1", 1000);
	size_t n = 0;

	assert_non_null(many);
	v.info.now.cpu_s = 1;
	OK(store_vm_add(f->s, &v, &err));
	FAILS(-ENOENT, store_tombstone_get(f->s, "vm-1", &t, &err));
	OK(store_vm_bury(f->s, &v, "evicted", &err));
	OK(store_tombstone_get(f->s, "vm-1", &t, &err));
	assert_string_equal(t.reason, "evicted");
	assert_string_equal(t.info.name, v.info.name);
	assert_true(t.info.past.cpu_s == 13.5 && t.deleted_ms > 0);
	assert_int_equal(t.info.persistence.priority, 7);
	for (int i = 0; i < VM_TOMBSTONES_MAX + 20; i++) {
		char id[ID_SIZE];

		snprintf(id, sizeof(id), "vm-n%d", i);
		many[i] = vm(id, 2000 + i);
	}
	OK(store_vm_add_many(f->s, many, VM_TOMBSTONES_MAX + 20, NULL, 0, NULL, &err));
	for (int i = 0; i < VM_TOMBSTONES_MAX + 20; i++)
		OK(store_vm_bury(f->s, &many[i], "deleted", &err));
	OK(store_tombstone_list(f->s, "acct-1", &list, &n, &err));
	/* Several may fall into the last millisecond that is kept. */
	assert_in_range(n, VM_TOMBSTONES_MAX, VM_TOMBSTONES_MAX + 19);
	OK(store_tombstone_list(f->s, "acct-2", &other, &n, &err));
	assert_int_equal(n, 0);
}

static void a_lost_snapshot_lets_go_and_stays_listed(void **state)
{
	struct fx *f = *state;
	struct store_layer l = layer("ly-m", LAYER_MEM, "");
	struct store_point p = point("pt-1", "ly-m", "");
	struct store_snapshot n = { .info = { .id = "sc-1", .account = "acct-1" },
		                    .point = "pt-1" };
	struct store_snapshot back;

	OK(store_point_add(f->s, &p, &l, 1, &err));
	OK(store_snapshot_add(f->s, &n, &err));
	OK(store_snapshot_used(f->s, "sc-1", &err));
	OK(store_snapshot_lose(f->s, "sc-1", "evicted", &err));
	reopen(f);
	OK(store_snapshot_get(f->s, "sc-1", &back, &err));
	assert_true(back.info.state == SNAPSHOT_LOST && !back.info.deleted);
	assert_true(back.info.used_ms > 0 && back.info.updated_ms > 0);
	assert_string_equal(back.info.failure, "evicted");
	assert_string_equal(back.point, "");
	FAILS(-ENOENT, store_snapshot_lose(f->s, "sc-2", "x", &err));
}

static void snapshots_let_go_of_their_point(void **state)
{
	struct fx *f = *state;
	struct store_layer l = layer("ly-m", LAYER_MEM, "");
	struct store_point p = point("pt-1", "ly-m", "");
	struct store_snapshot n = { .info = { .id = "sc-1",
		                              .account = "acct-1",
		                              .name = "n",
		                              .source_vm = "vm-1",
		                              .source_instance = "i",
		                              .created_ms = 5,
		                              .priority = 5,
		                              .vcpus = 1,
		                              .mem_mb = 512,
		                              .disk_mb = 1 },
		                    .point = "pt-1" },
	                      back;
	autofree struct store_snapshot *a = NULL, *b = NULL, *c = NULL, *d = NULL;
	struct store_garbage g;
	char longname[VM_NAME_MAX + 1];
	size_t count;

	OK(store_point_add(f->s, &p, &l, 1, &err));
	OK(store_snapshot_add(f->s, &n, &err));
	OK(store_snapshot_get(f->s, "sc-1", &back, &err));
	assert_memory_equal(&back, &n, sizeof(n));
	OK(store_snapshot_rename(f->s, "sc-1", "new", &err));
	memset(longname, 'x', sizeof(longname));
	longname[VM_NAME_MAX] = '\0';
	FAILS(-EINVAL, store_snapshot_rename(f->s, "sc-1", longname, &err));
	OK(store_snapshot_list(f->s, "acct-1", false, &a, &count, &err));
	assert_int_equal(count, 1);
	assert_string_equal(a[0].info.name, "new");
	OK(store_snapshot_list(f->s, "acct-2", true, &b, &count, &err));
	assert_int_equal(count, 0);
	OK(store_collect(f->s, NULL, 0, NULL, 0, &g, &err));
	assert_int_equal(g.n_points + g.n_layers, 0);
	store_garbage_done(&g);

	OK(store_snapshot_delete(f->s, "sc-1", &err));
	assert_int_equal(store_snapshot_delete(f->s, "sc-1", &err), -EALREADY);
	assert_int_equal(err.tag, ERR_SNAPSHOT_ALREADY_DELETED);
	FAILS(-ENOENT, store_snapshot_rename(f->s, "sc-1", "x", &err));
	OK(store_snapshot_list(f->s, "acct-1", false, &c, &count, &err));
	assert_int_equal(count, 0);
	OK(store_snapshot_list(f->s, "acct-1", true, &d, &count, &err));
	assert_true(count == 1 && d[0].info.deleted && d[0].point[0] == '\0');
	OK(store_collect(f->s, NULL, 0, NULL, 0, &g, &err));
	assert_true(g.n_points == 1 && g.n_layers == 1);
	assert_string_equal(g.points[0], "pt-1");
	store_garbage_done(&g);
	assert_int_equal(store_snapshot_delete(f->s, "sc-2", &err), -ENOENT);
	assert_int_equal(err.tag, ERR_SNAPSHOT_NOT_FOUND);
}

static void newer_schema_is_refused(void **state)
{
	struct fx *f = *state;
	struct store *s = NULL;

	f->s = store_close(f->s);
	/* PostgreSQL: and the newer one has taken away what this program uses. */
	db_poke(f->db, "INSERT INTO migrations VALUES (1000, 0);"
	               "UPDATE meta SET value = '999' WHERE key = 'schema_oldest'");
	assert_int_equal(store_open(f->db, &s, &err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "newer"));
	assert_non_null(strstr(err.msg, "1000"));
}

static void foreign_database_is_refused(void **state)
{
	struct fx *f = *state;
	struct store *s = NULL;
	char path[256];

	db_at(&f->dir, "other.db", path, sizeof(path));
	db_poke(path, "CREATE TABLE places (x TEXT)");
	assert_int_equal(store_open(path, &s, &err), -EMEDIUMTYPE);
	assert_non_null(strstr(err.msg, "places"));
}

static void damage_is_said_in_a_sentence(void **state)
{
	struct fx *f = *state;
	struct store *s = NULL;
	struct stat st;
	FILE *file;

	if (db_is_pg())
		skip(); /* it overwrites SQLite's file; PostgreSQL's belong to its server */
	for (int i = 0; i < 200; i++) {
		struct store_vm v = vm("", i);

		snprintf(v.info.id, sizeof(v.info.id), "vm-%d", i);
		OK(store_vm_add(f->s, &v, &err));
	}
	f->s = store_close(f->s);
	/* Rubbish over the middle of the file. */
	assert_int_equal(stat(f->db, &st), 0);
	assert_true(st.st_size > 65536);
	file = fopen(f->db, "r+");
	assert_non_null(file);
	fseek(file, 4096, SEEK_SET);
	for (off_t i = 4096; i < st.st_size; i++)
		fputc((int)(i * 7 % 251), file);
	fclose(file);
	assert_int_equal(store_open(f->db, &s, &err), -EUCLEAN);
	assert_non_null(strstr(err.msg, "is damaged"));
	assert_non_null(strstr(err.msg, f->db));
	assert_non_null(strstr(err.msg, "backup"));
	/* Not a database at all. */
	file = fopen(f->db, "w");
	assert_non_null(file);
	for (int i = 0; i < 4096; i++)
		fputs("this is not a database\n", file);
	fclose(file);
	assert_int_equal(store_open(f->db, &s, &err), -EUCLEAN);
	assert_non_null(strstr(err.msg, "is damaged"));
	/* No directory. */
	assert_int_equal(store_open("/nonexistent/pando.db", &s, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/nonexistent/pando.db"));
}

static void *writer(void *arg)
{
	static _Atomic int next;
	struct fx *f = arg;

	for (int i = 0; i < 25; i++) {
		struct store_vm v = vm("", 1), back;
		int r;

		snprintf(v.info.id, sizeof(v.info.id), "vm-%d", next++);
		if ((r = store_vm_add(f->s, &v, &err)) < 0 ||
		    (r = store_vm_get(f->s, v.info.id, &back, &err)) < 0)
			return (void *)(intptr_t)r;
	}
	return NULL;
}

static void threads_may_call_at_once(void **state)
{
	struct fx *f = *state;
	autofree struct store_vm *all = NULL;
	pthread_t t[4];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, writer, f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		void *r = NULL;

		assert_int_equal(pthread_join(t[i], &r), 0);
		assert_null(r);
	}
	OK(store_vm_list(f->s, NULL, &all, &n, &err));
	assert_int_equal(n, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(file_is_private_and_survives),
		T(keys_are_found_by_hash_until_revoked),
		T(layers_know_their_depth_and_chain),
		T(a_point_and_its_layers_are_one_fact),
		T(flattening_moves_points_to_the_new_layer),
		T(templates_name_existing_points),
		T(vms_come_back_as_written),
		T(usage_is_saved_for_the_machine_it_is_of),
		T(deleted_vms_leave_a_bounded_trace),
		T(a_lost_snapshot_lets_go_and_stays_listed),
		T(snapshots_let_go_of_their_point),
		T(newer_schema_is_refused),
		T(foreign_database_is_refused),
		T(damage_is_said_in_a_sentence),
		T(threads_may_call_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
