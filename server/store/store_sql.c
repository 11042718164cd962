/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_sql.c - statements and transactions on the one connection
 *
 * Statements are prepared once and found again by their text: a few dozen
 * compares cost nothing beside one fsync. Binding and reading keep a sticky
 * error, so that callers bind a whole row and check once. What is done with them
 * is the engine's (db_internal.h).
 */
#include "store/store_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

int db_fail(struct err *err, int code, const char *what, const char *message)
{
	if (code == -EUCLEAN)
		return err_tag(err, code, ERR_DATABASE_ERROR, "%s: the database is damaged (%s)",
		               what, message);
	if (code == -ENOLINK)
		return err_tag(
		        err, code, ERR_DATABASE_ERROR,
		        "%s: a layer or point it refers to is missing, or it is still in use",
		        what);
	return err_tag(err, code, ERR_DATABASE_ERROR, "%s: %s", what, message);
}

int query_begin(struct query *q, struct store *s, const char *sql, struct err *err)
{
	struct db_stmt *st = NULL;
	int r;

	*q = (struct query){ .s = s };
	for (unsigned i = 0; i < s->n_stmts; i++) {
		if (strcmp(s->stmts[i]->sql, sql) == 0) {
			q->st = s->stmts[i];
			return 0;
		}
	}
	if (s->n_stmts == STORE_STMTS_MAX)
		return err_set(err, -ENOBUFS, "too many prepared statements");
	if ((r = s->db->ops->prepare(s->db, sql, &st, err)) < 0)
		return r;
	q->st = s->stmts[s->n_stmts++] = st;
	return 0;
}

void query_done(struct query *q)
{
	if (!q->st)
		return;
	q->s->db->ops->reset(q->st);
	q->st = NULL;
}

static void bound(struct query *q, int r)
{
	if (r < 0 && !q->failed)
		q->failed = r;
}

void query_bind_text(struct query *q, const char *v)
{
	bound(q, q->s->db->ops->bind_text(q->st, q->n_bound++, v));
}

void query_bind_ref(struct query *q, const char *v)
{
	query_bind_text(q, v && *v ? v : NULL);
}

void query_bind_i64(struct query *q, int64_t v)
{
	bound(q, q->s->db->ops->bind_i64(q->st, q->n_bound++, v));
}

void query_bind_double(struct query *q, double v)
{
	bound(q, q->s->db->ops->bind_double(q->st, q->n_bound++, v));
}

int query_step(struct query *q, struct err *err)
{
	if (q->failed)
		return err_tag(err, q->failed, ERR_DATABASE_ERROR, "cannot bind a value");
	if (q->n_bound != q->st->n_params)
		return err_tag(err, -EINVAL, ERR_DATABASE_ERROR, "%d values for %d parameters",
		               q->n_bound, q->st->n_params);
	q->n_read = 0;
	return q->s->db->ops->step(q->s->db, q->st, err);
}

int query_run(struct query *q, struct err *err)
{
	int r = query_step(q, err);

	return r < 0 ? r : q->s->db->ops->changes(q->s->db, q->st);
}

const char *query_peek_text(struct query *q)
{
	size_t n;

	return q->s->db->ops->text(q->st, q->n_read, &n);
}

void query_read_text(struct query *q, char *dst, size_t size)
{
	size_t n;
	const char *p = q->s->db->ops->text(q->st, q->n_read++, &n);

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
	size_t n;
	const char *p = q->s->db->ops->text(q->st, q->n_read++, &n);
	char *s = strdup(p ? p : "");

	if (!s)
		q->failed = -ENOMEM;
	return s;
}

int64_t query_read_i64(struct query *q, int64_t min, int64_t max)
{
	int64_t v = q->s->db->ops->i64(q->st, q->n_read++);

	if (v < min || v > max) {
		q->failed = -EUCLEAN;
		return min;
	}
	return v;
}

double query_read_double(struct query *q)
{
	return q->s->db->ops->dbl(q->st, q->n_read++);
}

int query_read_end(struct query *q, struct err *err)
{
	if (q->failed)
		return err_tag(err, q->failed, ERR_DATABASE_ERROR,
		               "the database is damaged (a value is out of its range)");
	return 0;
}

/* The transaction holds the lock until tx_end(), however its scope is left: clang cannot follow
 * that. */
int tx_begin(struct tx *t, struct store *s, struct err *err) NO_THREAD_SAFETY_ANALYSIS
{
	int r;

	mutex_lock(&s->lock);
	t->s = s;
	reserve_look(s);
	r = s->db->ops->begin(s->db, err);
	t->open = r >= 0;
	return r;
}

int tx_commit(struct tx *t, struct err *err)
{
	int r = t->s->db->ops->commit(t->s->db, err);

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
	if (t->open) {
		t->s->db->ops->rollback(t->s->db);
		feed_tx_over(t->s, /* committed= */ false);
	}
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
