/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db_pg.c - the store in PostgreSQL, by libpq: statements and transactions
 *
 * Theory of operation: values go and come as text; PostgreSQL infers the types of parameters. The
 * connection is non-blocking and every answer has a deadline, so that a server that hangs becomes
 * an error, not a thread that waits for ever; an answer that did not come in time ends the
 * connection, because nobody knows what it would answer next.
 *
 * A connection that ended is made again by the next use (db_pg_conn.c): outside of a transaction a
 * SELECT is then asked again, and so is BEGIN; nothing has happened by them. What failed inside a
 * transaction fails it. A COMMIT without an answer may or may not have happened, and says so.
 *
 * A statement that fails aborts PostgreSQL's transaction, and its COMMIT then answers ROLLBACK
 * without an error: commit looks at the answer.
 *
 * Statements are prepared where they are first executed, again on each new connection.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "store/db_pg_internal.h"

#define PARAMS_MAX 96 /* of one statement; the widest table has fewer columns */
#define NULL_AT SIZE_MAX
#define SCAN_ROWS 500 /* in one answer */

struct pg_stmt {
	struct db_stmt st;
	uint64_t made;   /* connection that it is prepared on */
	unsigned number; /* its name is s<number> */
	bool is_select, is_scan;
	struct buf values;     /* all texts, each with its NUL */
	size_t at[PARAMS_MAX]; /* offsets in values, or NULL_AT */
	PGresult *res;         /* owned */
	int row;
};

static void clear_result(PGresult **r)
{
	PQclear(*r);
}

static struct pg_stmt *stmt_of(struct db_stmt *st)
{
	return (struct pg_stmt *)st;
}

/* ---- answers ---- */

static int errno_of(const char *state)
{
	if (!state || !*state || strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0)
		return -ENOTCONN;
	if (strcmp(state, "23503") == 0)
		return -ENOLINK;
	if (strncmp(state, "23", 2) == 0)
		return -EEXIST;
	if (strncmp(state, "53", 2) == 0)
		return -ENOSPC;
	if (strncmp(state, "40", 2) == 0 || strcmp(state, "55P03") == 0)
		return -EBUSY;
	if (strcmp(state, "57014") == 0) /* statement_timeout */
		return -ETIMEDOUT;
	if (strncmp(state, "XX", 2) == 0)
		return -EUCLEAN;
	if (strcmp(state, "25006") == 0)
		return -EROFS;
	if (strncmp(state, "28", 2) == 0 || strcmp(state, "42501") == 0)
		return -EACCES;
	return -EIO;
}

/* libpq's sentences end with newlines, and some have several lines. */
static int fail(struct pg_db *p, const PGresult *res, const char *what, struct err *err)
{
	char text[256];
	size_t n;

	snprintf(text, sizeof(text), "%s", res ? PQresultErrorMessage(res) : "");
	if (!*text)
		snprintf(text, sizeof(text), "%s", PQerrorMessage(p->conn));
	for (char *c = text; *c; c++)
		if (*c == '\n')
			*c = ' ';
	for (n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
		text[n - 1] = '\0';
	return db_fail(err, errno_of(res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL), what,
	               text);
}

static bool is_good(const PGresult *res)
{
	ExecStatusType st = PQresultStatus(res);

	return st == PGRES_COMMAND_OK || st == PGRES_TUPLES_OK;
}

static int lose(struct pg_db *p, struct err *err)
{
	pg_drop(p);
	return db_fail(err, -ETIMEDOUT, "database", "the server did not answer in time");
}

/* Sends what libpq has buffered and reads until there is a whole answer. */
static int wait_answer(struct pg_db *p, uint64_t deadline, struct err *err)
{
	for (;;) {
		int unsent = PQflush(p->conn);
		struct pollfd f = { .fd = PQsocket(p->conn),
			            .events = (short)(POLLIN | (unsent > 0 ? POLLOUT : 0)) };
		uint64_t now = clock_ms();

		if (unsent < 0)
			return fail(p, NULL, "database", err);
		if (unsent == 0 && !PQisBusy(p->conn))
			return 0;
		if (now >= deadline)
			return lose(p, err);
		if (poll(&f, 1, (int)(deadline - now)) > 0 && (f.revents & ~POLLOUT) &&
		    !PQconsumeInput(p->conn))
			return fail(p, NULL, "database", err);
	}
}

/* The answer to what was sent: of several the first that failed, or the last. */
static int answer(struct pg_db *p, PGresult **ret, struct err *err)
{
	uint64_t deadline = clock_ms() + p->answer_ms;
	AUTO(clear_result) PGresult *kept = NULL;
	int r;

	for (;;) {
		PGresult *res;

		if ((r = wait_answer(p, deadline, err)) < 0)
			return r;
		res = PQgetResult(p->conn);
		if (!res)
			break;
		if (kept && !is_good(kept)) {
			PQclear(res);
			continue;
		}
		PQclear(kept);
		kept = res;
	}
	if (!kept || !is_good(kept))
		return fail(p, kept, "database", err);
	*ret = TAKE_PTR(kept);
	return 0;
}

int pg_run(struct pg_db *p, const char *sql, PGresult **ret, struct err *err)
{
	AUTO(clear_result) PGresult *res = NULL;
	int r;

	if (!p->conn)
		return db_fail(err, -ENOTCONN, "database", "there is no connection to the server");
	if (!PQsendQuery(p->conn, sql))
		return fail(p, NULL, "database", err);
	r = answer(p, &res, err);
	if (r >= 0 && ret)
		*ret = TAKE_PTR(res);
	return r;
}

static bool is_lost(const struct pg_db *p)
{
	return !p->conn || PQstatus(p->conn) != CONNECTION_OK;
}

/* Not inside of a transaction, which a new connection would not have. */
static int connected(struct pg_db *p, struct err *err)
{
	return p->in_tx || !is_lost(p) ? 0 : pg_connect(p, err);
}

static int pg_exec(struct db *d, const char *sql, struct err *err)
{
	int r = connected(pg_of(d), err);

	return r < 0 ? r : pg_run(pg_of(d), sql, NULL, err);
}

/* The one word of the schema that differs. */
static int pg_define(struct db *d, const char *sql, struct err *err)
{
	static const char theirs[] = "INTEGER PRIMARY KEY AUTOINCREMENT";
	static const char ours[] = "BIGSERIAL PRIMARY KEY";
	autobuf struct buf b = { 0 };
	const char *at;

	while ((at = strstr(sql, theirs))) {
		buf_put(&b, sql, (size_t)(at - sql));
		buf_put(&b, ours, strlen(ours));
		sql = at + strlen(theirs);
	}
	buf_put(&b, sql, strlen(sql) + 1);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return pg_exec(d, (const char *)b.p, err);
}

/* Secrets are sealed before the first of them is stored: a PostgreSQL database begins empty. */
static int pg_scrub(struct db *d, enum db_scrub what, struct err *err)
{
	return 0;
}

static const char *pg_name(struct db *d)
{
	return pg_of(d)->name;
}

/* ---- statements ---- */

static int count_params(const char *sql)
{
	int most = 0;

	for (; *sql; sql++)
		if (*sql == '$' && sql[1] >= '1' && sql[1] <= '9')
			most = MAX(most, (int)strtol(sql + 1, NULL, 10));
	return most;
}

static void pg_reset(struct db_stmt *st)
{
	struct pg_stmt *s = stmt_of(st);

	PQclear(s->res);
	s->res = NULL;
	buf_reset(&s->values);
}

static void pg_finalize(struct db *d, struct db_stmt *st)
{
	struct pg_stmt *s = stmt_of(st);

	if (!s)
		return;
	pg_reset(st);
	buf_done(&s->values);
	free(s->st.sql);
	free(s);
}

static int pg_prepare(struct db *d, const char *sql, struct db_stmt **ret, struct err *err)
{
	struct pg_stmt *s = calloc(1, sizeof(*s));

	if (!s || !(s->st.sql = strdup(sql))) {
		free(s);
		return err_set(err, -ENOMEM, "out of memory");
	}
	s->st.n_params = count_params(sql);
	if (s->st.n_params > PARAMS_MAX) {
		pg_finalize(d, &s->st);
		return err_set(err, -E2BIG, "more than %d parameters in: %.200s", PARAMS_MAX, sql);
	}
	s->number = ++pg_of(d)->n_stmts;
	s->is_select = strncmp(sql, "SELECT ", 7) == 0;
	*ret = &s->st;
	return 0;
}

static int pg_bind_text(struct db_stmt *st, int i, const char *v)
{
	struct pg_stmt *s = stmt_of(st);

	if (i >= st->n_params)
		return -EINVAL;
	s->at[i] = v ? s->values.len : NULL_AT;
	if (v)
		buf_put(&s->values, v, strlen(v) + 1);
	return s->values.failed ? -ENOMEM : 0;
}

static int pg_bind_i64(struct db_stmt *st, int i, int64_t v)
{
	char t[32];

	snprintf(t, sizeof(t), "%" PRId64, v);
	return pg_bind_text(st, i, t);
}

static int pg_bind_double(struct db_stmt *st, int i, double v)
{
	char t[40];

	snprintf(t, sizeof(t), "%.17g", v);
	return pg_bind_text(st, i, t);
}

static int execute_once(struct pg_db *p, struct pg_stmt *s, struct err *err)
{
	AUTO(clear_result) PGresult *made = NULL;
	const char *v[PARAMS_MAX];
	char name[16];
	int r;

	if (is_lost(p))
		return db_fail(err, -ENOTCONN, "database", "the connection to the server ended");
	snprintf(name, sizeof(name), "s%u", s->number);
	if (s->made != p->connection) {
		if (!PQsendPrepare(p->conn, name, s->st.sql, 0, NULL))
			return fail(p, NULL, "prepare a statement", err);
		if ((r = answer(p, &made, err)) < 0)
			return err_wrap(err, r, "prepare a statement");
		s->made = p->connection;
	}
	for (int i = 0; i < s->st.n_params; i++)
		v[i] = s->at[i] == NULL_AT ? NULL : (const char *)s->values.p + s->at[i];
	if (!PQsendQueryPrepared(p->conn, name, s->st.n_params, v, NULL, NULL, 0))
		return fail(p, NULL, "database", err);
	s->row = 0;
	return answer(p, &s->res, err);
}

static int pg_step(struct db *d, struct db_stmt *st, struct err *err)
{
	struct pg_db *p = pg_of(d);
	struct pg_stmt *s = stmt_of(st);
	int r;

	if (s->res && s->row + 1 < PQntuples(s->res)) {
		s->row++;
		return 1;
	}
	if (s->res && (!s->is_scan || PQntuples(s->res) == 0))
		return 0;
	PQclear(s->res); /* of a scan: the next rows */
	s->res = NULL;
	if ((r = connected(p, err)) < 0)
		return r;
	r = execute_once(p, s, err);
	if (r < 0 && is_lost(p) && !p->in_tx && s->is_select && (r = pg_connect(p, err)) >= 0)
		r = execute_once(p, s, err);
	return r < 0 ? r : PQntuples(s->res) > 0;
}

static int pg_changes(struct db *d, struct db_stmt *st)
{
	return (int)strtol(PQcmdTuples(stmt_of(st)->res), NULL, 10);
}

static const char *pg_text(struct db_stmt *st, int i, size_t *ret_n)
{
	struct pg_stmt *s = stmt_of(st);

	*ret_n = 0;
	if (!s->res || s->row >= PQntuples(s->res) || PQgetisnull(s->res, s->row, i))
		return NULL;
	*ret_n = (size_t)PQgetlength(s->res, s->row, i);
	return PQgetvalue(s->res, s->row, i);
}

static int64_t pg_i64(struct db_stmt *st, int i)
{
	size_t n;
	const char *v = pg_text(st, i, &n);

	if (n == 1 && (*v == 't' || *v == 'f')) /* a comparison; SQLite has numbers there */
		return *v == 't';
	return v ? strtoll(v, NULL, 10) : 0;
}

static double pg_dbl(struct db_stmt *st, int i)
{
	size_t n;
	const char *v = pg_text(st, i, &n);

	return v ? strtod(v, NULL) : 0;
}

/* ---- transactions ---- */

static int pg_begin(struct db *d, struct err *err)
{
	struct pg_db *p = pg_of(d);
	int r = connected(p, err);

	if (r < 0)
		return r;
	r = pg_run(p, p->begin, NULL, err);
	if (r < 0 && is_lost(p) && (r = pg_connect(p, err)) >= 0)
		r = pg_run(p, p->begin, NULL, err);
	p->in_tx = r >= 0;
	if (r < 0 && !is_lost(p)) /* the lock was not granted */
		(void)pg_run(p, "ROLLBACK", NULL, NULL);
	return r;
}

static int pg_commit(struct db *d, struct err *err)
{
	AUTO(clear_result) PGresult *res = NULL;
	struct pg_db *p = pg_of(d);
	struct err why = { 0 };
	int r;

	if (is_lost(p)) { /* before it was asked to: then it rolls back */
		p->in_tx = false;
		return db_fail(err, -ENOTCONN, "database", "the connection to the server ended");
	}
	r = pg_run(p, "COMMIT", &res, &why);
	p->in_tx = false;
	if (r < 0 && is_lost(p))
		return err_tag(err, r, ERR_DATABASE_ERROR,
		               "the database went away while it was asked to keep a change: it may "
		               "or may not have been made (%s)",
		               why.msg);
	if (r < 0)
		return err_tag(err, r, ERR_DATABASE_ERROR, "%s", why.msg);
	if (strcmp(PQcmdStatus(res), "COMMIT") != 0)
		return db_fail(err, -EIO, "database", "a statement of the transaction had failed");
	return 0;
}

/* Opened alone: others have no session (db_pg_conn.c). */
static int pg_seize(struct db *d, struct err *err)
{
	return pg_begin(d, err);
}

/* A SELECT's answer would come as a whole, and may be larger than memory. */
static int pg_scan(struct db *d, const char *name, const char *select, struct db_stmt **ret,
                   struct err *err)
{
	autobuf struct buf b = { 0 };
	char fetch[128];
	int r;

	buf_printf(&b, "DECLARE scan_%s NO SCROLL CURSOR FOR %s", name, select);
	buf_put_u8(&b, 0);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(fetch, sizeof(fetch), "FETCH FORWARD %d FROM scan_%s", SCAN_ROWS, name);
	if ((r = pg_run(pg_of(d), (const char *)b.p, NULL, err)) < 0 ||
	    (r = pg_prepare(d, fetch, ret, err)) < 0)
		return r;
	((struct pg_stmt *)*ret)->is_scan = true;
	return 0;
}

static int pg_last_number(struct db *d, const char *table, int64_t *ret, struct err *err)
{
	AUTO(clear_result) PGresult *res = NULL;
	char sql[160];
	int r;

	snprintf(sql, sizeof(sql), "SELECT last_value FROM %s_seq_seq WHERE is_called", table);
	r = pg_run(pg_of(d), sql, &res, err);
	*ret = r >= 0 && PQntuples(res) == 1 ? strtoll(PQgetvalue(res, 0, 0), NULL, 10) : 0;
	return r;
}

static int pg_set_last_number(struct db *d, const char *table, int64_t last, struct err *err)
{
	char sql[160];

	snprintf(sql, sizeof(sql), "SELECT setval('%s_seq_seq', %" PRId64 ")", table, last);
	return last ? pg_run(pg_of(d), sql, NULL, err) : 0;
}

static void pg_rollback(struct db *d)
{
	struct pg_db *p = pg_of(d);

	if (p->in_tx && !is_lost(p))
		(void)pg_run(p, "ROLLBACK", NULL, NULL);
	p->in_tx = false;
}

const struct db_ops db_pg_ops = {
	.shared = true,
	/* Many programs have a table "migrations": ours is known by its columns, too. */
	.table_named = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = "
	               "current_schema() AND table_name = $1 AND column_name = 'applied_ms'",
	.table_foreign = "SELECT tablename FROM pg_tables t WHERE schemaname = current_schema() "
	                 "AND NOT EXISTS (SELECT 1 FROM information_schema.columns o WHERE "
	                 "o.table_schema = t.schemaname AND o.column_name = 'applied_ms' AND "
	                 "o.table_name IN ('migrations', 'audit_migrations')) LIMIT 1",
	.clock = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
	.feed_last = "SELECT last_value FROM feed_seq_seq WHERE is_called",
	.close = pg_close,
	.name = pg_name,
	.check = pg_check,
	.exec = pg_exec,
	.define = pg_define,
	.scrub = pg_scrub,
	.prepare = pg_prepare,
	.finalize = pg_finalize,
	.bind_text = pg_bind_text,
	.bind_i64 = pg_bind_i64,
	.bind_double = pg_bind_double,
	.step = pg_step,
	.changes = pg_changes,
	.text = pg_text,
	.i64 = pg_i64,
	.dbl = pg_dbl,
	.reset = pg_reset,
	.seize = pg_seize,
	.scan = pg_scan,
	.size = "SELECT pg_database_size(current_database())",
	.last_number = pg_last_number,
	.set_last_number = pg_set_last_number,
	.begin = pg_begin,
	.commit = pg_commit,
	.rollback = pg_rollback,
};
