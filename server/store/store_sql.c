/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_sql.c - statements and transactions on the one connection
 *
 * Statements are prepared once and found again by their text: a few dozen
 * compares cost nothing beside one fsync. Binding and reading keep a sticky
 * error, so that callers bind a whole row and check once.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static int errno_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_CONSTRAINT:
		return rc == SQLITE_CONSTRAINT_FOREIGNKEY ? -ENOLINK : -EEXIST;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	default:
		return -EIO;
	}
}

int store_fail(struct store *s, int rc, struct err *err, const char *what)
{
	int code = errno_of(rc);

	if (code == -EUCLEAN)
		return err_tag(err, code, ERR_DATABASE_ERROR, "%s: the database is damaged (%s)",
		               what, sqlite3_errmsg(s->db));
	if (code == -ENOLINK)
		return err_tag(
		        err, code, ERR_DATABASE_ERROR,
		        "%s: a layer or point it refers to is missing, or it is still in use",
		        what);
	return err_tag(err, code, ERR_DATABASE_ERROR, "%s: %s", what, sqlite3_errmsg(s->db));
}

/* $1, $2, ... must be first used in that order, or SQLite and PostgreSQL number them differently.
 */
static bool params_in_order(sqlite3_stmt *st)
{
	for (int i = 1; i <= sqlite3_bind_parameter_count(st); i++) {
		const char *name = sqlite3_bind_parameter_name(st, i);
		char want[16];

		snprintf(want, sizeof(want), "$%d", i);
		if (!name || strcmp(name, want) != 0)
			return false;
	}
	return true;
}

int query_begin(struct query *q, struct store *s, const char *sql, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc;

	*q = (struct query){ .s = s };
	for (unsigned i = 0; i < s->n_stmts; i++) {
		if (strcmp(sqlite3_sql(s->stmts[i]), sql) == 0) {
			q->st = s->stmts[i];
			return 0;
		}
	}
	if (s->n_stmts == STORE_STMTS_MAX)
		return err_set(err, -ENOBUFS, "too many prepared statements");
	rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL);
	if (rc != SQLITE_OK)
		return store_fail(s, rc, err, "prepare a statement");
	if (!params_in_order(st)) {
		sqlite3_finalize(st);
		return err_set(err, -EINVAL, "parameters out of order in: %.200s", sql);
	}
	q->st = s->stmts[s->n_stmts++] = st;
	return 0;
}

void query_done(struct query *q)
{
	if (!q->st)
		return;
	sqlite3_reset(q->st);
	sqlite3_clear_bindings(q->st);
	q->st = NULL;
}

static void bound(struct query *q, int rc)
{
	if (rc != SQLITE_OK && !q->failed)
		q->failed = rc == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
}

void query_bind_text(struct query *q, const char *v)
{
	/* Transient: the text may be freed before the statement is done. */
	bound(q, v ? sqlite3_bind_text(q->st, ++q->n_bound, v, -1, SQLITE_TRANSIENT)
	           : sqlite3_bind_null(q->st, ++q->n_bound));
}

void query_bind_ref(struct query *q, const char *v)
{
	query_bind_text(q, v && *v ? v : NULL);
}

void query_bind_i64(struct query *q, int64_t v)
{
	bound(q, sqlite3_bind_int64(q->st, ++q->n_bound, v));
}

void query_bind_double(struct query *q, double v)
{
	bound(q, sqlite3_bind_double(q->st, ++q->n_bound, v));
}

int query_step(struct query *q, struct err *err)
{
	int rc;

	if (q->failed)
		return err_tag(err, q->failed, ERR_DATABASE_ERROR, "cannot bind a value");
	if (q->n_bound != sqlite3_bind_parameter_count(q->st))
		return err_tag(err, -EINVAL, ERR_DATABASE_ERROR, "%d values for %d parameters",
		               q->n_bound, sqlite3_bind_parameter_count(q->st));
	rc = sqlite3_step(q->st);
	q->n_read = 0;
	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	return store_fail(q->s, sqlite3_extended_errcode(q->s->db), err, "database");
}

int query_run(struct query *q, struct err *err)
{
	int r = query_step(q, err);

	return r < 0 ? r : sqlite3_changes(q->s->db);
}

void query_read_text(struct query *q, char *dst, size_t size)
{
	int i = q->n_read++;
	const unsigned char *p = sqlite3_column_text(q->st, i);
	size_t n = p ? (size_t)sqlite3_column_bytes(q->st, i) : 0;

	dst[0] = '\0';
	if (!p)
		return;
	if (n >= size || memchr(p, 0, n)) {
		q->failed = -EUCLEAN;
		return;
	}
	memcpy(dst, p, n);
	dst[n] = '\0';
}

char *query_read_strdup(struct query *q)
{
	const unsigned char *p = sqlite3_column_text(q->st, q->n_read++);
	char *s = strdup(p ? (const char *)p : "");

	if (!s)
		q->failed = -ENOMEM;
	return s;
}

int64_t query_read_i64(struct query *q, int64_t min, int64_t max)
{
	int64_t v = sqlite3_column_int64(q->st, q->n_read++);

	if (v < min || v > max) {
		q->failed = -EUCLEAN;
		return min;
	}
	return v;
}

double query_read_double(struct query *q)
{
	return sqlite3_column_double(q->st, q->n_read++);
}

int query_read_end(struct query *q, struct err *err)
{
	if (q->failed)
		return err_tag(err, q->failed, ERR_DATABASE_ERROR,
		               "the database is damaged (a value is out of its range)");
	return 0;
}

static int tx_word(struct store *s, const char *word, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, word, err);

	return r < 0 ? r : query_step(&q, err);
}

/* The transaction holds the lock until tx_end(), however its scope is left: clang cannot follow
 * that. */
int tx_begin(struct tx *t, struct store *s, struct err *err) NO_THREAD_SAFETY_ANALYSIS
{
	int r;

	mutex_lock(&s->lock);
	t->s = s;
	reserve_look(s);
	r = tx_word(s, "BEGIN IMMEDIATE", err); /* PostgreSQL: BEGIN */
	t->open = r >= 0;
	return r;
}

int tx_commit(struct tx *t, struct err *err)
{
	int r = tx_word(t->s, "COMMIT", err);

	if (r >= 0) {
		t->open = false;
		feed_tx_over(t->s, /* committed= */ true);
	}
	return r;
}

void tx_end(struct tx *t) NO_THREAD_SAFETY_ANALYSIS
{
	if (!t->s)
		return;
	/* After some failures (disk full) SQLite has rolled back by itself. */
	if (t->open && !sqlite3_get_autocommit(t->s->db))
		(void)tx_word(t->s, "ROLLBACK", NULL);
	if (t->open)
		feed_tx_over(t->s, /* committed= */ false);
	mutex_unlock(&t->s->lock);
	t->s = NULL;
}

int query_count(struct store *s, const char *sql, const char *arg, struct err *err)
{
	autoquery struct query q = { 0 };
	int64_t n;
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	if (arg)
		query_bind_text(&q, arg);
	if ((r = query_step(&q, err)) < 0)
		return r;
	n = query_read_i64(&q, 0, INT32_MAX);
	r = query_read_end(&q, err);
	return r < 0 ? r : (int)n;
}
