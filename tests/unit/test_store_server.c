/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_server.c - what only a database server can do: refuse, vanish, hang, be shared, belong
 * to somebody else, be newer. test_store_pg.py starts the server.
 */
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/io.h"
#include "store/db_pg_internal.h"
#include "store/store_audit.h"
#include "store/store_cluster.h"
#include "store/store_internal.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/store_row.h"
#include "tests/unit/tmpdir.h"

static bool fresh;

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
	return 0;
}

static int teardown(void **state)
{
	struct fx *f = *state;

	store_close(f->s);
	tmpdir_remove(&f->dir);
	free(f);
	return 0;
}

static const char *url(char buf[256], const char *user, const char *database)
{
	snprintf(buf, 256, "postgresql://%s@/%s?host=%s", user, database,
	         getenv("PANDO_TEST_PG_SOCKET"));
	return buf;
}

/* ---- refused at start ---- */

static void wrong_credentials_are_said(void **state)
{
	static const char *const users[] = { "guarded:hushhush", "guarded", "nobody-like-that" };
	struct store *s = NULL;
	char u[256];

	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		FAILS(-EACCES, store_open(url(u, users[i], "pando"), &s, &err));
		assert_non_null(strstr(err.msg, "credentials"));
		assert_non_null(strstr(err.msg, "PANDO_DATABASE"));
		assert_null(strstr(err.msg, "hushhush"));
	}
}

static void what_cannot_be_used_is_refused(void **state)
{
	struct store *s = NULL;
	char u[256];

	FAILS(-EINVAL, store_open(url(u, "pando", "utf8"), &s, &err));
	assert_non_null(strstr(err.msg, "UTF8"));
	assert_non_null(strstr(err.msg, "SQL_ASCII"));
	FAILS(-EINVAL, store_open(url(u, "pando", "no-such"), &s, &err));
	assert_non_null(strstr(err.msg, "CREATE DATABASE"));
	/* connects, but may not create tables */
	FAILS(-EACCES, store_open(url(u, "guarded:right", "pando"), &s, &err));
	FAILS(-ENOTCONN, store_open("postgresql://x:hushhush@/y?host=/nonexistent", &s, &err));
	assert_non_null(strstr(err.msg, "cannot reach"));
	assert_null(strstr(err.msg, "hushhush"));
	FAILS(-EINVAL, store_open("postgresql://user:hush%zzhush@host/db", &s, &err));
	assert_null(strstr(err.msg, "hush"));
}

static void another_program_is_found_by_its_tables(void **state)
{
	struct fx *f = *state;

	db_poke(f->db, "CREATE TABLE migrations (id SERIAL, name TEXT)");
	assert_true(store_open(f->db, &f->s, &err) < 0);
	assert_non_null(strstr(err.msg, "another program"));
}

static void a_second_process_is_refused(void **state)
{
	struct fx *f = *state;
	int status;
	pid_t pid;

	OK(store_open(f->db, &f->s, &err));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *s = NULL;
		struct err e = { 0 };
		int r = store_open(f->db, &s, &e);

		_exit(r == -EBUSY && strstr(e.msg, "another pandod") ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* its end lets the next one in */
	f->s = store_close(f->s);
	OK(store_open(f->db, &f->s, &err));
}

/* ---- which cluster ---- */

static void a_database_and_a_data_directory_belong_together(void **state)
{
	struct fx *f = *state;
	char one[CLUSTER_ID_SIZE], two[CLUSTER_ID_SIZE], other[256], place[512];
	struct tmpdir second;
	struct store *s = NULL;

	assert_int_equal(tmpdir_make(&second), 0);
	OK(store_open(f->db, &f->s, &err));
	OK(store_cluster_join(f->s, f->dir.path, false, one, &fresh, &err));
	assert_true(id_valid(CLUSTER_ID_PREFIX, one));
	OK(store_cluster_join(f->s, f->dir.path, false, two, &fresh, &err));
	assert_string_equal(one, two);
	/* another data directory, another database */
	FAILS(-EINVAL, store_cluster_join(f->s, second.path, false, two, &fresh, &err));
	assert_non_null(strstr(err.msg, one));
	OK(store_open(db_at(&second, "pando.db", other, sizeof(other)), &s, &err));
	FAILS(-EINVAL, store_cluster_join(s, f->dir.path, false, two, &fresh, &err));
	assert_non_null(strstr(err.msg, "is empty"));
	OK(store_cluster_join(s, second.path, false, two, &fresh, &err));
	assert_string_not_equal(one, two);
	FAILS(-EINVAL, store_cluster_join(s, f->dir.path, false, two, &fresh, &err));
	assert_non_null(strstr(err.msg, "belongs to cluster"));
	store_close(s);
	/* neither without it, nor with a data directory that has its own */
	FAILS(-EINVAL, store_place(f->dir.path, "", place, sizeof(place), &err));
	assert_non_null(strstr(err.msg, "set PANDO_DATABASE"));
	OK(store_place(f->dir.path, f->db, place, sizeof(place), &err));
	assert_string_equal(place, f->db);
	OK(io_write_file(AT_FDCWD, tmpdir_file(&second, "pando.db", place, sizeof(place)), "x", 1,
	                 0600, &err));
	FAILS(-EINVAL, store_place(second.path, f->db, place, sizeof(place), &err));
	assert_non_null(strstr(err.msg, "'pando migrate' again"));
	OK(unlink(tmpdir_file(&second, "cluster", place, sizeof(place))));
	FAILS(-EINVAL, store_place(second.path, f->db, place, sizeof(place), &err));
	assert_non_null(strstr(err.msg, "of its own"));
	assert_int_equal(tmpdir_remove(&second), 0);
}

/* As if the machine had stopped before the file got its name. */
static void joining_goes_on_where_it_stopped(void **state)
{
	struct fx *f = *state;
	char one[CLUSTER_ID_SIZE], two[CLUSTER_ID_SIZE], a[256], b[256];

	OK(store_open(f->db, &f->s, &err));
	OK(store_cluster_join(f->s, f->dir.path, false, one, &fresh, &err));
	assert_int_equal(rename(tmpdir_file(&f->dir, "cluster", a, sizeof(a)),
	                        tmpdir_file(&f->dir, "cluster.new", b, sizeof(b))),
	                 0);
	OK(store_cluster_join(f->s, f->dir.path, false, two, &fresh, &err));
	assert_string_equal(one, two);
	assert_int_equal(access(a, F_OK), 0);
	/* and before the database got the id */
	assert_int_equal(rename(a, b), 0);
	db_poke(f->db, "DELETE FROM meta WHERE key = 'cluster'");
	OK(store_cluster_join(f->s, f->dir.path, false, two, &fresh, &err));
	assert_string_equal(one, two);
}

/* ---- lost connections ---- */

static void end_sessions(const struct fx *f)
{
	db_poke(f->db, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
	               "application_name = 'pandod'");
}

static void lost_connections_are_made_again(void **state)
{
	struct fx *f = *state;
	struct store_account a;

	OK(store_open(f->db, &f->s, &err));
	OK(store_account_create(f->s, "a1", "one", &err));
	end_sessions(f);
	OK(store_account_get(f->s, "a1", &a, &err)); /* a SELECT is asked again */
	end_sessions(f);
	OK(store_account_create(f->s, "a2", "two", &err)); /* and a BEGIN */
	end_sessions(f);
	{
		struct store_garbage g = { 0 };

		OK(store_collect(f->s, NULL, 0, NULL, 0, &g, &err)); /* with its temporary table */
		store_garbage_done(&g);
	}
	{
		autotx struct tx t = { 0 };

		OK(tx_begin(&t, f->s, &err));
		OK(meta_put(f->s, "x", "1", &err));
		end_sessions(f);
		FAILS(-ENOTCONN, meta_put(f->s, "x", "2", &err));
		assert_true(tx_commit(&t, &err) < 0);
	}
	{
		autotx struct tx t = { 0 };
		autofree char *x = NULL;

		OK(tx_begin(&t, f->s, &err));
		OK(meta_get(f->s, "x", &x, &err));
		assert_null(x);
	}
}

static void a_failed_statement_fails_the_transaction(void **state)
{
	struct fx *f = *state;
	const char *args[] = { "k", "v" };
	autofree char *x = NULL;

	OK(store_open(f->db, &f->s, &err));
	{
		autotx struct tx t = { 0 };

		OK(tx_begin(&t, f->s, &err));
		OK(meta_put(f->s, "k", "1", &err));
		FAILS(-EEXIST, run_text(f->s, "INSERT INTO meta (key, value) VALUES ($1, $2)", args,
		                        2, &err));
		FAILS(-EIO, tx_commit(&t, &err));
	}
	LOCK_SCOPE(&f->s->lock);
	OK(meta_get(f->s, "k", &x, &err));
	assert_null(x);
}

static void a_server_that_hangs_is_an_error(void **state)
{
	struct fx *f = *state;
	struct store_account a;
	pid_t backend;
	int r;

	OK(store_open(f->db, &f->s, &err));
	OK(store_account_create(f->s, "a1", "one", &err));
	backend = PQbackendPID(pg_of(f->s->db)->conn);
	pg_of(f->s->db)->answer_ms = 300;
	assert_int_equal(kill(backend, SIGSTOP), 0);
	{
		autotx struct tx t = { 0 };

		r = tx_begin(&t, f->s, &err); /* tried on a new connection, too: that one works */
	}
	pg_of(f->s->db)->answer_ms = PG_ANSWER_MS;
	assert_int_equal(kill(backend, SIGCONT), 0);
	/* The stopped session still had the lock of the only process. */
	assert_int_equal(r, -EBUSY);
	OK(store_account_get(f->s, "a1", &a, &err));
}

/* What the server does with it is seen by tests/cluster-e2e: a socket file has no keep-alives. */
static void the_server_is_told_to_notice_dead_machines(void **state)
{
	struct fx *f = *state;
	PGresult *r;

	OK(store_open(f->db, &f->s, &err));
	r = PQexec(pg_of(f->s->db)->conn,
	           "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name IN "
	           "('tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count', "
	           "'tcp_user_timeout')");
	assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
	assert_string_equal(PQgetvalue(r, 0, 0), "4");
	PQclear(r);
}

/* ---- several at once ---- */

static void *count_up(void *arg)
{
	struct store *s = NULL;

	OK(store_open_with(arg, store_migrations, store_n_migrations, &s, &err));
	for (int i = 0; i < 40; i++) {
		autotx struct tx t = { 0 };
		autofree char *v = NULL;
		char text[16];

		OK(tx_begin(&t, s, &err));
		OK(meta_get(s, "count", &v, &err));
		snprintf(text, sizeof(text), "%lu", (v ? strtoul(v, NULL, 10) : 0) + 1);
		OK(meta_put(s, "count", text, &err));
		OK(tx_commit(&t, &err));
	}
	store_close(s);
	return NULL;
}

/* Both migrate the empty database, then read and write one row in turn: nothing is lost. */
static void transactions_of_two_processes_do_not_mix(void **state)
{
	struct fx *f = *state;
	autofree char *v = NULL;
	pthread_t th[3];

	for (size_t i = 0; i < ARRAY_SIZE(th); i++)
		assert_int_equal(pthread_create(&th[i], NULL, count_up, f->db), 0);
	for (size_t i = 0; i < ARRAY_SIZE(th); i++)
		pthread_join(th[i], NULL);
	OK(store_open(f->db, &f->s, &err));
	LOCK_SCOPE(&f->s->lock);
	OK(meta_get(f->s, "count", &v, &err));
	assert_string_equal(v, "120");
}

/* ---- upgrades ---- */

/* The program after this one adds a table and columns; this one goes on beside it. */
static void programs_of_the_version_before_go_on(void **state)
{
	const char *next[64];
	char sql[96];
	struct fx *f = *state;
	struct store *s = NULL;
	struct store_vm v = { .slot = -1 }, back;

	memcpy(next, store_migrations, store_n_migrations * sizeof(*next));
	next[store_n_migrations] = "ALTER TABLE vms ADD COLUMN extra BIGINT NOT NULL DEFAULT 0;"
	                           "ALTER TABLE vms ADD COLUMN owner TEXT;"
	                           "CREATE TABLE extras (id TEXT PRIMARY KEY);"
	                           "CREATE INDEX vms_extra ON vms (extra);";
	OK(store_open(f->db, &f->s, &err));
	f->s = store_close(f->s);
	OK(store_open_with(f->db, next, store_n_migrations + 1, &s, &err));
	OK(store_open(f->db, &f->s, &err));
	snprintf(v.info.id, sizeof(v.info.id), "vm-1");
	OK(store_vm_add(f->s, &v, &err));
	OK(store_vm_get(s, "vm-1", &back, &err));
	OK(store_account_create(f->s, "a1", "one", &err));
	f->s = store_close(f->s);
	/* One that took something away says from which version on programs do without. */
	snprintf(sql, sizeof(sql), "UPDATE meta SET value = '%u' WHERE key = 'schema_oldest'",
	         (unsigned)store_n_migrations + 1);
	db_poke(f->db, sql);
	FAILS(-ENOTSUP, store_open(f->db, &f->s, &err));
	assert_non_null(strstr(err.msg, "newer"));
	store_close(s);
}

static void *add_record(void *log)
{
	struct audit_record a = { .at_ms = 5, .method = "GET", .route = "/v1/vms", .status = 200 };

	OK(store_audit_add(log, &a, 1, NULL, 0, &err));
	return NULL;
}

static void the_log_of_requests_has_its_own_tables(void **state)
{
	struct fx *f = *state;
	struct audit_filter all = {
		.before = INT64_MAX, .until = INT64_MAX, .since = -1, .limit = 10
	};
	autofree struct audit_record *list = NULL;
	struct store *log = NULL;
	pthread_t th;
	size_t n = 0;

	OK(store_open(f->db, &f->s, &err));
	OK(store_audit_open(f->db, &log, &err));
	{
		autotx struct tx t = { 0 }; /* does not wait for the store's */

		OK(tx_begin(&t, f->s, &err));
		assert_int_equal(pthread_create(&th, NULL, add_record, log), 0);
		pthread_join(th, NULL);
	}
	OK(store_audit_list(log, &all, &list, &n, &err));
	assert_int_equal(n, 1);
	store_close(log);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(wrong_credentials_are_said),
		T(what_cannot_be_used_is_refused),
		T(another_program_is_found_by_its_tables),
		T(a_second_process_is_refused),
		T(a_database_and_a_data_directory_belong_together),
		T(joining_goes_on_where_it_stopped),
		T(lost_connections_are_made_again),
		T(a_failed_statement_fails_the_transaction),
		T(a_server_that_hangs_is_an_error),
		T(the_server_is_told_to_notice_dead_machines),
		T(transactions_of_two_processes_do_not_mix),
		T(programs_of_the_version_before_go_on),
		T(the_log_of_requests_has_its_own_tables),
	};

	if (!db_is_pg()) {
		fprintf(stderr, "run me by test_store_pg.py: I need a PostgreSQL server\n");
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
