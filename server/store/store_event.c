/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_event.c - log lines of accounts
 *
 * Bounded per account, so that one account cannot displace the lines of others, and
 * in age. Numbers are assigned under the lock and only increase.
 */
#include "store/store_internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#define SEQ_MAX (INT64_MAX / 2)

static int next_seq(struct store *s, int64_t *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT COALESCE(MAX(seq), 0) FROM events", err);

	if (r < 0 || (r = query_step(&q, err)) < 0)
		return r;
	*ret = query_read_i64(&q, 0, SEQ_MAX) + 1;
	return query_read_end(&q, err);
}

static int insert(struct store *s, const struct store_event *e, int64_t seq, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO events (seq, at_ms, account, level, source, vm, instance, "
	                    "build, request, message) "
	                    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
	                    err);

	if (r < 0)
		return r;
	query_bind_i64(&q, seq);
	query_bind_i64(&q, e->at_ms);
	query_bind_text(&q, e->account);
	query_bind_text(&q, e->level);
	query_bind_text(&q, e->source);
	query_bind_text(&q, e->vm);
	query_bind_text(&q, e->instance);
	query_bind_text(&q, e->build);
	query_bind_text(&q, e->request);
	query_bind_text(&q, e->message);
	return query_run(&q, err);
}

static int prune_old(struct store *s, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "DELETE FROM events WHERE at_ms < $1", err);

	if (r < 0)
		return r;
	query_bind_i64(&q, clock_wall_ms() - STORE_EVENTS_KEEP_MS);
	return query_run(&q, err);
}

static int prune_account(struct store *s, const char *account, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "DELETE FROM events WHERE account = $1 AND seq <= "
	                    "(SELECT seq FROM events WHERE account = $1 "
	                    "ORDER BY seq DESC LIMIT 1 OFFSET $2)",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_i64(&q, STORE_EVENTS_PER_ACCOUNT);
	return query_run(&q, err);
}

int store_event_add(struct store *s, const struct store_event *v, size_t n, struct err *err)
{
	autotx struct tx t = { 0 };
	int64_t seq = 0;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = next_seq(s, &seq, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		bool seen = false;

		if ((r = insert(s, &v[i], seq + (int64_t)i, err)) < 0)
			return r;
		for (size_t k = 0; k < i && !seen; k++)
			seen = strcmp(v[k].account, v[i].account) == 0;
		if (!seen && (r = prune_account(s, v[i].account, err)) < 0)
			return r;
	}
	if ((r = prune_old(s, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* "a%b" -> "%a\%b%", in lower case: LIKE with '\' as its escape. */
static char *like_pattern(const char *search)
{
	autobuf struct buf b = { 0 };

	buf_put_u8(&b, '%');
	for (; *search; search++) {
		if (strchr("%_\\", *search))
			buf_put_u8(&b, '\\');
		buf_put_u8(&b, (uint8_t)tolower((unsigned char)*search));
	}
	buf_put_u8(&b, '%');
	return buf_take_str(&b);
}

static void read_event(struct query *q, struct store_event *e)
{
	e->seq = query_read_i64(q, 0, SEQ_MAX);
	e->at_ms = query_read_i64(q, INT64_MIN, INT64_MAX);
	query_read_text(q, e->account, sizeof(e->account));
	query_read_text(q, e->level, sizeof(e->level));
	query_read_text(q, e->source, sizeof(e->source));
	query_read_text(q, e->vm, sizeof(e->vm));
	query_read_text(q, e->instance, sizeof(e->instance));
	query_read_text(q, e->build, sizeof(e->build));
	query_read_text(q, e->request, sizeof(e->request));
	query_read_text(q, e->message, sizeof(e->message));
}

int store_event_list(struct store *s, const struct store_event_query *w, struct store_event **ret,
                     size_t *ret_n, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	autofree char *like = like_pattern(w->search);
	autofree struct store_event *v = calloc(w->limit ? w->limit : 1, sizeof(*v));
	size_t n = 0;
	int r;

	if (!like || !v)
		return err_set(err, -ENOMEM, "out of memory");
	r = query_begin(&q, s,
	                "SELECT seq, at_ms, account, level, source, vm, instance, build, request, "
	                "message FROM events WHERE account = $1 AND at_ms >= $2 AND at_ms <= $3 "
	                "AND (at_ms < $4 OR (at_ms = $4 AND seq < $5)) "
	                "AND ($6 = '' OR vm = $6) AND ($7 = '' OR build = $7) "
	                "AND ($8 = '' OR request = $8) "
	                "AND ($9 = '' OR instance = $9) "
	                "AND ($10 = '%%' OR LOWER(message) LIKE $10 ESCAPE '\\') "
	                "ORDER BY at_ms DESC, seq DESC LIMIT $11",
	                err);
	if (r < 0)
		return r;
	query_bind_text(&q, w->account);
	query_bind_i64(&q, w->from_ms);
	query_bind_i64(&q, w->to_ms);
	query_bind_i64(&q, w->before_ms);
	query_bind_i64(&q, w->before_seq);
	query_bind_text(&q, w->vm);
	query_bind_text(&q, w->build);
	query_bind_text(&q, w->request);
	query_bind_text(&q, w->instance);
	query_bind_text(&q, like);
	query_bind_i64(&q, (int64_t)w->limit);
	while (n < w->limit && (r = query_step(&q, err)) > 0)
		read_event(&q, &v[n++]);
	if (r < 0 || (r = query_read_end(&q, err)) < 0)
		return r;
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}
