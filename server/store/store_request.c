/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_request.c - calls that outlive their connection, and their results
 *
 * A row is written before the client gets its id, so an id that was returned is still
 * known after a restart. Results are kept for a day, up to a limit per account.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

#define COLUMNS "id, account, route, idem_key, idem_hash, created_ms, done_ms, status"

static struct secret_place body_of(const char *id)
{
	return (struct secret_place){ "background_requests.body", id };
}

static int prune(struct store *s, const char *account, struct err *err)
{
	autoquery struct query old = { 0 }, many = { 0 };
	int r;

	r = query_begin(&old, s,
	                "DELETE FROM background_requests WHERE done_ms > 0 AND created_ms < $1",
	                err);
	if (r < 0)
		return r;
	query_bind_i64(&old, clock_wall_ms() - STORE_REQUEST_KEEP_MS);
	if ((r = query_run(&old, err)) < 0)
		return r;
	r = query_begin(&many, s,
	                "DELETE FROM background_requests WHERE done_ms > 0 AND account = $1 "
	                "AND created_ms <= (SELECT created_ms FROM background_requests "
	                "WHERE account = $1 ORDER BY created_ms DESC LIMIT 1 OFFSET $2)",
	                err);
	if (r < 0)
		return r;
	query_bind_text(&many, account);
	query_bind_i64(&many, STORE_REQUESTS_PER_ACCOUNT);
	return query_run(&many, err);
}

int store_request_add(struct store *s, const struct store_request *v, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = prune(s, v->account, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "INSERT INTO background_requests (" COLUMNS ", body, node) "
	                     "VALUES ($1, $2, $3, $4, $5, $6, 0, 0, '', $7)",
	                     err)) < 0)
		return r;
	query_bind_text(&q, v->id);
	query_bind_text(&q, v->account);
	query_bind_text(&q, v->route);
	query_bind_text(&q, v->idem_key);
	query_bind_text(&q, v->idem_hash);
	query_bind_i64(&q, v->created_ms);
	query_bind_text(&q, s->node);
	if ((r = query_run(&q, err)) < 0)
		return err_wrap(err, r, "keep request '%s'", v->id);
	query_done(&q);
	return tx_commit(&t, err);
}

int store_request_finish(struct store *s, const char *id, unsigned status, const char *body,
                         struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "UPDATE background_requests SET done_ms = $1, status = $2, body = $3 "
	                     "WHERE id = $4",
	                     err)) < 0)
		return r;
	query_bind_i64(&q, clock_wall_ms());
	query_bind_i64(&q, status);
	query_bind_secret(&q, body_of(id), body); /* it may be a new key */
	query_bind_text(&q, id);
	if ((r = query_run(&q, err)) < 0)
		return err_wrap(err, r, "keep the result of request '%s'", id);
	if (r == 0)
		return err_set(err, -ENOENT, "no request '%s'", id);
	query_done(&q);
	return tx_commit(&t, err);
}

/* Plain while it runs, and if the server was restarted: a constant. */
static char *query_read_body(struct query *q, const char *id)
{
	const char *v = query_peek_text(q);

	return v && secret_is_sealed(v) ? query_read_secret(q, body_of(id)) : query_read_strdup(q);
}

/* The row that the query finds. */
static int read_one(struct query *q, struct store_request *ret, char **ret_body, struct err *err)
{
	autowipe char *body = NULL;
	int r = query_step(q, err);

	if (r <= 0)
		return r < 0 ? r : err_set(err, -ENOENT, "no such request");
	query_read_text(q, ret->id, sizeof(ret->id));
	query_read_text(q, ret->account, sizeof(ret->account));
	query_read_text(q, ret->route, sizeof(ret->route));
	query_read_text(q, ret->idem_key, sizeof(ret->idem_key));
	query_read_text(q, ret->idem_hash, sizeof(ret->idem_hash));
	ret->created_ms = query_read_i64(q, INT64_MIN, INT64_MAX);
	ret->done_ms = query_read_i64(q, 0, INT64_MAX);
	ret->status = (uint32_t)query_read_i64(q, 0, 999);
	body = query_read_body(q, ret->id);
	if ((r = query_read_end(q, err)) < 0)
		return r;
	if (ret_body)
		*ret_body = TAKE_PTR(body);
	return 0;
}

int store_request_get(struct store *s, const char *id, struct store_request *ret, char **ret_body,
                      struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT " COLUMNS ", body FROM background_requests WHERE id = $1", err);

	if (r < 0)
		return r;
	query_bind_text(&q, id);
	return read_one(&q, ret, ret_body, err);
}

int store_request_find(struct store *s, const char *account, const char *idem_key,
                       struct store_request *ret, char **ret_body, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT " COLUMNS ", body FROM background_requests "
	                    "WHERE account = $1 AND idem_key = $2 "
	                    "ORDER BY created_ms DESC, id LIMIT 1",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_text(&q, idem_key);
	return read_one(&q, ret, ret_body, err);
}

int store_request_lost(struct store *s, unsigned status, const char *body, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int n, r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "UPDATE background_requests SET done_ms = $1, status = $2, body = $3 "
	                     "WHERE done_ms = 0 AND node = $4",
	                     err)) < 0)
		return r;
	query_bind_i64(&q, clock_wall_ms());
	query_bind_i64(&q, status);
	query_bind_text(&q, body);
	query_bind_text(&q, s->node);
	if ((n = query_run(&q, err)) < 0)
		return n;
	query_done(&q);
	r = tx_commit(&t, err);
	return r < 0 ? r : n;
}
