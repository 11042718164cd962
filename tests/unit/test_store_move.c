/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_move.c - rows from a data directory to PostgreSQL and back. test_store_pg.py starts
 * the server.
 *
 * Every table has rows: the schema says which columns there are, so one that is added later is
 * filled, moved and compared without a line here. What was moved is compared as text of each
 * column, by other means than those of the code under test.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/io.h"
#include "store/store_audit.h"
#include "store/store_cluster.h"
#include "store/store_move_internal.h"
#include "store/store_node.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

#define ROWS 23 /* of each table: more than one INSERT has, and a rest */

struct fx {
	struct tmpdir dir;
	char file[256], audit[256], db[256];
	struct move_table *tables, *audit_tables;
	size_t n_tables, n_audit_tables;
};

static const char *in_dir(struct fx *f, const char *name, char ret[256])
{
	return tmpdir_file(&f->dir, name, ret, 256);
}

static bool there_is(struct fx *f, const char *name)
{
	char path[256];

	return access(in_dir(f, name, path), F_OK) == 0;
}

/* ---- rows for everything ---- */

static const char *special(const char *table, const char *column, unsigned i)
{
	if (!strcmp(table, "layers") && !strcmp(column, "kind"))
		return i % 2 ? "'mem'" : "'disk'";
	if (!strcmp(table, "grants") && !strcmp(column, "kind"))
		return "'vm'";
	if (!strcmp(table, "vms") && !strcmp(column, "state"))
		return i % 3 == 0 ? "'suspended'" : i % 3 == 1 ? "'stopped'" : "'lost'";
	if (!strcmp(column, "node") || !strcmp(column, "home"))
		return "''";
	if (!strcmp(column, "stored") || !strcmp(column, "epoch"))
		return "0";
	return NULL;
}

/* References lead to the row with the same number, or the one before in the same table. */
static void put_value(struct buf *b, const struct move_table *t, const char *column,
                      const char *type, bool refers, unsigned i)
{
	const char *fixed = special(t->name, column, i);

	if (fixed)
		buf_printf(b, "%s", fixed);
	else if (refers && !strcmp(t->parent, column))
		i ? buf_printf(b, "'k%u'", i - 1) : buf_printf(b, "NULL");
	else if (refers)
		buf_printf(b, "'k%u'", i);
	else if (!strcmp(type, "TEXT"))
		/* bytes as they come, quotes, and nothing */
		buf_printf(b, "CAST(x'%02x' AS TEXT) || 'k''%u %s' || CAST(x'ff0a' AS TEXT)",
		           0x80 + i, i, column);
	else if (!strcmp(type, "DOUBLE PRECISION"))
		buf_printf(b, "%u / 3.0 + 1e-17", i);
	else
		buf_printf(b, "%lld", i % 2 ? INT64_MAX - i : (long long)i);
}

static void fill_table(const char *path, const struct move_table *t)
{
	autobuf struct buf b = { 0 };
	char sql[400];
	autobuf struct buf columns = { 0 };
	char *line, *save = NULL;

	snprintf(sql, sizeof(sql),
	         "SELECT name || '|' || type || '|' || pk || '|' || EXISTS (SELECT 1 FROM "
	         "pragma_foreign_key_list('%s') f WHERE f.\"from\" = c.name) FROM "
	         "pragma_table_info('%s') c",
	         t->name, t->name);
	db_dump(path, sql, &columns);
	buf_put_u8(&columns, 0);
	buf_printf(&b, "PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON; BEGIN;");
	for (unsigned i = 0; i < ROWS; i++) {
		autofree char *text = strdup((const char *)columns.p);

		buf_printf(&b, "INSERT INTO %s VALUES (", t->name);
		for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			char name[64], type[32];
			int pk, refers;

			assert_int_equal(
			        sscanf(line, "%63[^|]|%31[^|]|%d|%d", name, type, &pk, &refers), 4);
			if (line != text)
				buf_printf(&b, ", ");
			if (pk == 1 && !strcmp(type, "TEXT") && !refers)
				buf_printf(&b, "'k%u'", i);
			else if (pk && !refers)
				buf_printf(&b, !strcmp(type, "TEXT") ? "'%u'" : "%u", i + 1);
			else
				put_value(&b, t, name, type, refers, i);
		}
		buf_printf(&b, ");");
	}
	buf_printf(&b, "COMMIT;");
	buf_put_u8(&b, 0);
	assert_false(b.failed);
	db_poke(path, (const char *)b.p);
}

static void fill(struct fx *f)
{
	struct store *s = NULL, *a = NULL;

	OK(store_open_with(f->file, store_migrations, store_n_migrations, &s, &err));
	OK(move_tables(s, &f->tables, &f->n_tables, &err));
	OK(move_empty(s, f->tables, f->n_tables, &err));
	s = store_close(s);
	OK(store_audit_open(f->audit, &a, &err));
	OK(move_tables(a, &f->audit_tables, &f->n_audit_tables, &err));
	a = store_close(a);
	assert_true(f->n_tables > 50);
	for (size_t i = 0; i < f->n_tables; i++)
		fill_table(f->file, &f->tables[i]);
	for (size_t i = 0; i < f->n_audit_tables; i++)
		fill_table(f->audit, &f->audit_tables[i]);
	/* sealed: the value is only opened by who has the key */
	db_poke(f->file, "INSERT INTO meta (key, value) VALUES ('secret_check', 'sealed')");
	/* numbers that were given out and are gone */
	db_poke(f->file, "INSERT INTO feed (seq, account, at_ms, type, vm, body) VALUES (777, '', "
	                 "0, '', '', ''); DELETE FROM feed WHERE seq = 777");
}

static struct fx filled; /* what each test has a copy of */

static int fill_all(void **state)
{
	if (tmpdir_make(&filled.dir) < 0)
		return -1;
	in_dir(&filled, "pando.db", filled.file);
	in_dir(&filled, "audit.db", filled.audit);
	fill(&filled);
	return 0;
}

static int drop_all(void **state)
{
	tmpdir_remove(&filled.dir);
	free(filled.tables);
	free(filled.audit_tables);
	return 0;
}

static int setup(void **state)
{
	struct fx *f = malloc(sizeof(*f));

	if (!f)
		return -1;
	*f = filled;
	if (tmpdir_make(&f->dir) < 0)
		return -1;
	db_at(&f->dir, "cluster.db", f->db, sizeof(f->db));
	in_dir(f, "pando.db", f->file);
	in_dir(f, "audit.db", f->audit);
	if (io_copy_file(filled.file, f->file, NULL) < 0 ||
	    io_copy_file(filled.audit, f->audit, NULL) < 0)
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fx *f = *state;

	tmpdir_remove(&f->dir);
	free(f);
	return 0;
}

/* ---- comparing ---- */

/* Everything in the tables, as lines; floating point numbers with all of their bits, as whole
 * ones. */
static void dump(const char *where, const struct move_table *t, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		autobuf struct buf sql = { 0 };

		buf_printf(&sql, "SELECT '%s'", t[i].name);
		for (size_t k = 0; k < t[i].n_cols; k++)
			buf_printf(&sql,
			           t[i].cols[k].real
			                   ? " || '|' || CAST(CAST(%s * 18014398509481984.0 AS "
			                     "BIGINT) AS TEXT)"
			                   : " || '|' || COALESCE(CAST(%s AS TEXT), 'nothing')",
			           t[i].cols[k].name);
		buf_printf(&sql, " FROM %s%s ORDER BY 1", t[i].name,
		           strcmp(t[i].name, "meta") ? ""
		                                     : " WHERE key NOT IN ('cluster', "
		                                       "'schema_oldest', 'objects', 'moved_to')");
		buf_put_u8(&sql, 0);
		db_dump(where, (const char *)sql.p, out);
	}
}

static void compare(struct fx *f, const struct buf *want, const char *main, const char *audit)
{
	autobuf struct buf got = { 0 };

	dump(main, f->tables, f->n_tables, &got);
	dump(audit, f->audit_tables, f->n_audit_tables, &got);
	if (got.len != want->len || memcmp(got.p, want->p, got.len) != 0) {
		size_t i = 0;

		while (i < got.len && i < want->len && got.p[i] == want->p[i])
			i++;
		while (i > 0 && got.p[i - 1] != '\n')
			i--;
		fail_msg("not the same: %.300s\nand: %.300s", (char *)got.p + i,
		         (char *)want->p + i);
	}
}

static void dump_files(struct fx *f, struct buf *out)
{
	dump(f->file, f->tables, f->n_tables, out);
	dump(f->audit, f->audit_tables, f->n_audit_tables, out);
	assert_true(out->len > 100000);
}

static struct store_move job(struct fx *f, bool back)
{
	return (struct store_move){ .data_dir = f->dir.path, .database = f->db, .back = back };
}

/* ---- tests ---- */

static void all_rows_go_and_come_back(void **state)
{
	struct fx *f = *state;
	struct store_move there = job(f, false), back = job(f, true);
	autobuf struct buf want = { 0 }, last = { 0 };
	struct store_moved done;
	char path[256];

	dump_files(f, &want);
	there.check = true;
	OK(store_move(&there, &done, &err));
	assert_int_equal(done.suspended, 8);
	assert_true(there_is(f, "pando.db"));
	there.check = false;
	OK(store_move(&there, &done, &err));
	assert_int_equal(done.n_tables, f->n_tables + f->n_audit_tables);
	assert_int_equal(done.rows, ROWS * done.n_tables + 1);
	assert_false(there_is(f, "pando.db"));
	assert_true(there_is(f, "cluster"));
	compare(f, &want, f->db, f->db);
	db_dump(f->db, "SELECT last_value FROM feed_seq_seq", &last);
	db_dump(f->db, "SELECT last_value FROM audit_seq_seq", &last);
	assert_memory_equal(last.p, "777\n23\n", 7);
	/* the source is as it was, under another name */
	compare(f, &want, in_dir(f, "pando.db.moved", path), f->db);

	FAILS(-ENOENT, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "already"));
	db_poke(f->db, "DELETE FROM nodes; DELETE FROM node_keys");
	buf_reset(&want);
	dump(f->db, f->tables, f->n_tables, &want);
	dump(f->db, f->audit_tables, f->n_audit_tables, &want);
	OK(store_move(&back, &done, &err));
	assert_true(there_is(f, "pando.db"));
	assert_false(there_is(f, "cluster"));
	compare(f, &want, f->file, f->audit);
	buf_reset(&last);
	db_dump(f->file, "SELECT seq FROM sqlite_sequence WHERE name = 'feed'", &last);
	assert_memory_equal(last.p, "777\n", 4);
	FAILS(-ENOENT, store_move(&back, &done, &err));
	FAILS(-ENOTEMPTY, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "moved away"));
}

/* The id of the cluster is what the bucket knows, in both directions. */
static void the_bucket_stays_ours(void **state)
{
	struct fx *f = *state;
	struct store_move there = job(f, false), back = job(f, true);
	autobuf struct buf id = { 0 };
	struct store_moved done;

	db_poke(f->file, "DELETE FROM nodes; DELETE FROM node_keys");
	db_poke(f->file,
	        "INSERT INTO meta (key, value) VALUES ('objects', 'cl-aaaaaaaaaaaaaaaaaaaa')");
	OK(store_move(&there, &done, &err));
	assert_string_equal(done.cluster, "cl-aaaaaaaaaaaaaaaaaaaa");
	OK(store_move(&back, &done, &err));
	db_dump(f->file, "SELECT value FROM meta WHERE key = 'objects'", &id);
	assert_memory_equal(id.p, "cl-aaaaaaaaaaaaaaaaaaaa\n", 24);
}

static void what_is_in_the_way_is_said(void **state)
{
	struct fx *f = *state;
	struct store_move there = job(f, false);
	struct store_moved done;
	struct store *s = NULL;
	sqlite3 *other = NULL;
	char utf8[256];

	db_poke(f->file, "UPDATE vms SET state = 'running' WHERE id = 'k3'");
	FAILS(-EBUSY, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "1 VMs are not at rest"));
	db_poke(f->file, "UPDATE vms SET state = 'stopped' WHERE id = 'k3'");

	db_poke(f->file, "DELETE FROM meta WHERE key = 'secret_check'");
	FAILS(-EINVAL, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "sealed"));
	db_poke(f->file, "INSERT INTO meta (key, value) VALUES ('secret_check', 'sealed')");

	/* somebody has it open, and does nothing */
	assert_int_equal(sqlite3_open(f->file, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "PRAGMA journal_mode = WAL; SELECT COUNT(*) FROM vms",
	                              NULL, NULL, NULL),
	                 SQLITE_OK);
	FAILS(-EBUSY, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "in use"));
	sqlite3_close(other);

	db_poke(f->file, "DELETE FROM migrations WHERE version > 30");
	FAILS(-EINVAL, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "schema version 30"));
	for (unsigned v = 31; v <= store_n_migrations; v++) {
		char sql[96];

		snprintf(sql, sizeof(sql), "INSERT INTO migrations VALUES (%u, 0)", v);
		db_poke(f->file, sql);
	}

	snprintf(utf8, sizeof(utf8), "postgresql://pando@/utf8?host=%s",
	         getenv("PANDO_TEST_PG_SOCKET"));
	there.database = utf8;
	FAILS(-EINVAL, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "SQL_ASCII"));

	there.database = f->db;
	OK(store_open(f->db, &s, &err));
	s = store_close(s);
	db_poke(f->db, "INSERT INTO accounts (id, name, created_ms) VALUES ('a', 'b', 1)");
	FAILS(-ENOTEMPTY, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "not empty"));
	db_poke(f->db, "DELETE FROM accounts");
	/* an empty one with tables is fine */
	OK(store_move(&there, &done, &err));
}

/* ---- nodes ---- */

static void only_the_last_node_goes_back(void **state)
{
	struct fx *f = *state;
	struct store_move there = job(f, false), back = job(f, true);
	autobuf struct buf got = { 0 }, want = { 0 };
	struct store_moved done;
	char path[256];

	db_poke(f->file, "DELETE FROM nodes; DELETE FROM node_keys");
	dump_files(f, &want);
	OK(store_move(&there, &done, &err));
	db_poke(f->db,
	        "INSERT INTO nodes (id, name, address, gen, beat, alive, draining, joined_ms, "
	        "version, vcpus, mem_mb, free_mb, running) VALUES "
	        "('nd-one', 'one', '192.0.2.1:1', 1, 1, 0, 0, 0, '', 1, 1, 1, 0),"
	        "('nd-two', 'two', '192.0.2.2:1', 1, 1, 0, 0, 0, '', 1, 1, 1, 0)");
	FAILS(-EBUSY, store_move(&back, &done, &err));
	assert_non_null(strstr(err.msg, "2 nodes"));
	db_poke(f->db, "DELETE FROM nodes WHERE id = 'nd-two'");
	FAILS(-EINVAL, store_move(&back, &done, &err));
	assert_non_null(strstr(err.msg, "run this there"));
	OK(io_write_file(AT_FDCWD, in_dir(f, "node", path), "nd-one\n", 7, 0600, &err));
	/* as a node leaves them */
	db_poke(f->db, "UPDATE vms SET node = 'nd-one', home = 'nd-one', epoch = 3; "
	               "UPDATE layers SET node = 'nd-one'; UPDATE points SET node = 'nd-one'; "
	               "UPDATE templates SET key = 'nd-one/' || key; "
	               "UPDATE spec_layers SET key = 'nd-one/' || key");
	db_poke(f->db, "UPDATE layers SET stored = 1 WHERE id = 'k1'; UPDATE layers SET stored = 0 "
	               "WHERE id <> 'k1'; UPDATE points SET stored = 0");
	db_poke(f->db, "UPDATE vms SET state = 'running' WHERE id = 'k4'");
	FAILS(-EBUSY, store_move(&back, &done, &err));
	db_poke(f->db, "UPDATE vms SET state = 'stopped' WHERE id = 'k4'");
	FAILS(-EINVAL, store_move(&back, &done, &err));
	assert_non_null(strstr(err.msg, "only in the object store"));
	back.has_objects = true;
	db_poke(f->db, "UPDATE git_repos SET stored = 1, version = 7, epoch = 2 WHERE id = 'k1'");
	FAILS(-EBUSY, store_move(&back, &done, &err));
	assert_non_null(strstr(err.msg, "not up to date"));
	OK(io_mkdirs(in_dir(f, "git/repos/k1.git", path), 0700, &err));
	OK(io_write_file(AT_FDCWD, in_dir(f, "git/repos/k1.git/pando-version", path), "6\n", 2,
	                 0600, &err));
	FAILS(-EBUSY, store_move(&back, &done, &err));
	OK(io_write_file(AT_FDCWD, in_dir(f, "git/repos/k1.git/pando-version", path), "7\n", 2,
	                 0600, &err));
	OK(store_move(&back, &done, &err));
	assert_int_equal(done.only_stored, 1);
	db_poke(f->file, "UPDATE layers SET stored = (SELECT stored FROM layers WHERE id = 'k1')");
	db_dump(f->file,
	        "SELECT (SELECT COUNT(*) FROM nodes) || ' ' || (SELECT COUNT(*) FROM vms WHERE "
	        "node "
	        "<> '' OR epoch <> 0 OR home <> '') || ' ' || (SELECT COUNT(*) FROM templates "
	        "WHERE key LIKE '%/%') || ' ' || (SELECT COUNT(*) FROM layers WHERE node <> '') || "
	        "' ' "
	        "|| (SELECT COUNT(*) FROM git_repos WHERE stored <> 0 OR epoch <> 0)",
	        &got);
	assert_memory_equal(got.p, "0 0 0 0 0\n", 10);
}

/* ---- killed ---- */

struct kill_at {
	const char *what;
	uint64_t done;
};

static void die(void *ctx, const char *what, uint64_t done, uint64_t all)
{
	const struct kill_at *k = ctx;

	if (strcmp(what, k->what) == 0 && done >= k->done)
		raise(SIGKILL);
}

static void run_killed(struct store_move m, const struct kill_at *k)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct store_moved done;
		struct err e = { 0 };

		m.say = die;
		m.ctx = (void *)k;
		(void)store_move(&m, &done, &e);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail_msg("was not killed at %s", k->what);
}

/* What pandod would say of the data directory, with and without the database. */
static int starts(struct fx *f, bool with)
{
	struct store *s = NULL;
	struct err e = { 0 };
	bool fresh;
	int r = store_start(f->dir.path, with ? f->db : "", NULL, &s, &fresh, &e);

	store_close(s);
	return r;
}

static void a_killed_run_there_costs_nothing(void **state)
{
	static const struct kill_at early[] = { { "check", 0 }, { "vms", ROWS }, { "commit", 0 } };
	static const struct kill_at late[] = { { "committed", 0 }, { "rename", 0 } };
	struct fx *f = *state;
	struct store_move there = job(f, false);
	autobuf struct buf want = { 0 }, changed = { 0 };
	struct store_moved done;

	dump_files(f, &want);
	for (size_t i = 0; i < ARRAY_SIZE(early); i++) {
		run_killed(there, &early[i]);
		compare(f, &want, f->file, f->audit);
		assert_int_equal(starts(f, true), -EINVAL); /* pando.db is there */
	}
	run_killed(there, &late[0]);
	compare(f, &want, f->file, f->audit);
	/* the source can still be used, and that counts */
	OK(starts(f, false));
	db_poke(f->file, "UPDATE accounts SET name = 'changed meanwhile' WHERE id = 'k2'");
	dump_files(f, &changed);
	run_killed(there, &late[1]);
	compare(f, &changed, f->file, f->audit);
	assert_int_equal(starts(f, true), -EINVAL);
	assert_int_equal(starts(f, false), -EINVAL);
	there.back = true;
	FAILS(-EINVAL, store_move(&there, &done, &err));
	assert_non_null(strstr(err.msg, "finish that first"));
	there.back = false;
	OK(store_move(&there, &done, &err));
	assert_true(done.finished);
	compare(f, &changed, f->db, f->db);
	assert_int_equal(starts(f, false), -EINVAL);
	db_poke(f->db, "DELETE FROM nodes"); /* the rows of the test, not of nodes */
	OK(starts(f, true));
}

static void a_killed_run_back_is_finished(void **state)
{
	static const struct kill_at early[] = { { "check", 0 }, { "vms", ROWS }, { "commit", 0 } };
	static const struct kill_at late[] = { { "committed", 0 }, { "rename", 0 } };
	struct fx *f = *state;
	struct store_move there = job(f, false), back = job(f, true);
	autobuf struct buf want = { 0 };
	struct store_moved done;

	db_poke(f->file, "DELETE FROM nodes; DELETE FROM node_keys");
	dump_files(f, &want);
	OK(store_move(&there, &done, &err));
	for (size_t i = 0; i < ARRAY_SIZE(early); i++) {
		run_killed(back, &early[i]);
		OK(starts(f, true));
		compare(f, &want, f->db, f->db);
	}
	for (size_t i = 0; i < ARRAY_SIZE(late); i++) {
		run_killed(back, &late[i]);
		assert_int_equal(starts(f, true), -EINVAL);
		assert_int_equal(starts(f, false), -EINVAL);
	}
	OK(store_move(&back, &done, &err));
	assert_true(done.finished);
	compare(f, &want, f->file, f->audit);
	assert_int_equal(starts(f, true), -EINVAL);
	OK(starts(f, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_rows_go_and_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(the_bucket_stays_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_in_the_way_is_said, setup, teardown),
		cmocka_unit_test_setup_teardown(only_the_last_node_goes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_run_there_costs_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_run_back_is_finished, setup, teardown),
	};

	return cmocka_run_group_tests(tests, fill_all, drop_all);
}
