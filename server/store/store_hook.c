/* SPDX-License-Identifier: Apache-2.0 */
/* store_hook.c - webhooks of accounts and the log of their deliveries; see store_hook.h */
#include "store/store_hook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"

static const struct col hook_cols[] = {
	COL_AT(COL_TEXT, store_hook, id, "id"),
	COL_AT(COL_TEXT, store_hook, account, "account"),
	COL_AT(COL_SECRET, store_hook, url, "url"),
	COL_AT(COL_SECRET, store_hook, secret, "secret"),
	COL_AT(COL_TEXT, store_hook, events, "events"),
	COL_AT(COL_TEXT, store_hook, vm, "vm"),
	COL_AT(COL_TEXT, store_hook, tags, "tags"),
	COL_AT(COL_TEXT, store_hook, metadata, "metadata"),
	COL_AT(COL_BOOL, store_hook, enabled, "enabled"),
	COL_AT(COL_I64, store_hook, created_ms, "created_ms"),
	COL_AT(COL_I64, store_hook, updated_ms, "updated_ms"),
	COL_AT(COL_I64, store_hook, dropped, "dropped"),
};
static const struct table hook_table = {
	.name = "hooks",
	.cols = hook_cols,
	.n_cols = ARRAY_SIZE(hook_cols),
	.row_size = sizeof(struct store_hook),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "webhook",
};

static const struct col delivery_cols[] = {
	COL_AT(COL_TEXT, store_hook_delivery, id, "id"),
	COL_AT(COL_I64, store_hook_delivery, seq, "seq"),
	COL_AT(COL_TEXT, store_hook_delivery, hook, "hook"),
	COL_AT(COL_TEXT, store_hook_delivery, account, "account"),
	COL_AT(COL_TEXT, store_hook_delivery, event, "event"),
	COL_AT(COL_TEXT, store_hook_delivery, type, "type"),
	COL_AT(COL_TEXT, store_hook_delivery, subject, "subject"),
	COL_WORD_AT(store_hook_delivery, state, "state", delivery_state_words),
	COL_AT(COL_U32, store_hook_delivery, attempts, "attempts"),
	COL_AT(COL_I64, store_hook_delivery, next_ms, "next_ms"),
	COL_AT(COL_I64, store_hook_delivery, created_ms, "created_ms"),
	COL_AT(COL_I64, store_hook_delivery, updated_ms, "updated_ms"),
	COL_AT(COL_INT, store_hook_delivery, status, "status"),
	COL_AT(COL_TEXT, store_hook_delivery, note, "note"),
};
static const struct table delivery_table = {
	.name = "hook_deliveries",
	.cols = delivery_cols,
	.n_cols = ARRAY_SIZE(delivery_cols),
	.row_size = sizeof(struct store_hook_delivery),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "delivery",
};

/* Does anyone have one? Who has none pays nothing for events. */
int hooks_any_locked(struct store *s, struct err *err)
{
	int n;

	if (s->hooks_counted)
		return s->any_hooks;
	n = query_count(s, "SELECT COUNT(*) FROM hooks", NULL, err);
	if (n < 0)
		return n;
	s->hooks_counted = true;
	s->any_hooks = n > 0;
	return s->any_hooks;
}

int store_hook_add(struct store *s, const struct store_hook *h, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_count(s, "SELECT COUNT(*) FROM hooks WHERE account = $1", h->account, err)) <
	            0)
		return r;
	if (r >= HOOKS_MAX)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "an account has at most %d webhooks: delete one first", HOOKS_MAX);
	s->hooks_counted = false;
	if ((r = row_insert(s, &hook_table, h, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int get_locked(struct store *s, const struct table *t, const char *tail, const char *owner,
                      const char *id, void *ret, struct err *err)
{
	const char *args[] = { owner, id };
	autowipe void *rows = NULL;
	size_t n = 0;
	int r = row_list(s, t, tail, args, 2, &rows, &n, err);

	if (r < 0)
		return r;
	if (n == 0)
		return row_missing(t, id, err);
	memcpy(ret, rows, t->row_size);
	return 0;
}

static int hook_locked(struct store *s, const char *account, const char *id, struct store_hook *ret,
                       struct err *err)
{
	return get_locked(s, &hook_table, "WHERE account = $1 AND id = $2", account, id, ret, err);
}

int store_hook_get(struct store *s, const char *account, const char *id, struct store_hook *ret,
                   struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return hook_locked(s, account, id, ret, err);
}

int hooks_of_locked(struct store *s, const char *account, struct store_hook **ret, size_t *ret_n,
                    struct err *err)
{
	void *p = NULL;
	int r = row_list(s, &hook_table, "WHERE account = $1 ORDER BY created_ms, id", &account, 1,
	                 &p, ret_n, err);

	if (r >= 0)
		*ret = p;
	return r;
}

int store_hook_list(struct store *s, const char *account, struct store_hook **ret, size_t *ret_n,
                    struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return hooks_of_locked(s, account, ret, ret_n, err);
}

int store_hook_update(struct store *s, const struct store_hook *h, struct err *err)
{
	autowipe struct store_hook *row = calloc(1, sizeof(*row));
	autotx struct tx t = { 0 };
	int64_t dropped;
	int r;

	if (!row)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = tx_begin(&t, s, err)) < 0 || (r = hook_locked(s, h->account, h->id, row, err)) < 0)
		return r;
	dropped = row->dropped;
	*row = *h;
	row->dropped = dropped;
	row->updated_ms = clock_wall_ms();
	if ((r = row_update(s, &hook_table, row, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_hook_delete(struct store *s, const char *account, const char *id, struct err *err)
{
	const char *args[] = { account, id };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM hooks WHERE account = $1 AND id = $2", args, 2, err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&hook_table, id, err);
	s->hooks_counted = false;
	if ((r = run_text(s, "DELETE FROM hook_deliveries WHERE hook = $1", &id, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- deliveries ---- */

int hook_delivery_add_locked(struct store *s, struct store_hook_delivery *d, const char *body,
                             struct err *err)
{
	const char *args[] = { body, d->id };
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT COALESCE(MAX(seq), 0) FROM hook_deliveries", err);

	if (r < 0 || (r = query_step(&q, err)) < 0)
		return r;
	d->seq = query_read_i64(&q, 0, INT64_MAX / 2) + 1;
	if ((r = query_read_end(&q, err)) < 0)
		return r;
	query_done(&q);
	if ((r = row_insert(s, &delivery_table, d, err)) < 0)
		return r;
	return MIN(run_text(s, "UPDATE hook_deliveries SET body = $1 WHERE id = $2", args, 2, err),
	           0);
}

int store_hook_claim(struct store *s, int64_t now_ms, unsigned per_account,
                     struct store_hook_delivery *ret, struct err *err)
{
	char now[24], most[12];
	const char *args[] = { now, most };
	autofree struct store_hook_delivery *rows = NULL;
	autotx struct tx t = { 0 };
	void *p = NULL;
	size_t n = 0;
	int r;

	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	snprintf(most, sizeof(most), "%u", per_account);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_list(s, &delivery_table,
	                  "WHERE state = 'pending' AND next_ms <= CAST($1 AS BIGINT) "
	                  "AND (SELECT COUNT(*) FROM hook_deliveries AS x WHERE "
	                  "x.account = hook_deliveries.account AND x.state = 'active') < "
	                  "CAST($2 AS BIGINT) "
	                  "AND NOT EXISTS (SELECT 1 FROM hook_deliveries AS y WHERE "
	                  "y.hook = hook_deliveries.hook AND y.subject = hook_deliveries.subject "
	                  "AND y.seq < hook_deliveries.seq AND y.state IN ('pending', 'active')) "
	                  "ORDER BY next_ms, seq LIMIT 1",
	                  args, 2, &p, &n, err)) < 0)
		return r;
	rows = p;
	if (n == 0)
		return -ENOENT;
	rows->state = DELIVERY_ACTIVE;
	rows->attempts++;
	rows->updated_ms = now_ms;
	if ((r = row_update(s, &delivery_table, rows, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = *rows;
	return 0;
}

/* Those behind one that waits are not due, whatever their rows say. */
int store_hook_next(struct store *s, int64_t *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT COALESCE(MIN(next_ms), 9223372036854775807) FROM "
	                    "hook_deliveries WHERE state = 'pending' AND NOT EXISTS "
	                    "(SELECT 1 FROM hook_deliveries AS y WHERE "
	                    "y.hook = hook_deliveries.hook AND y.subject = hook_deliveries.subject "
	                    "AND y.seq < hook_deliveries.seq AND y.state IN ('pending', 'active'))",
	                    err);

	if (r < 0 || (r = query_step(&q, err)) < 0)
		return r;
	*ret = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

int store_hook_settle(struct store *s, const struct store_hook_delivery *d, struct err *err)
{
	char most[12];
	const char *args[] = { d->hook, most };
	autotx struct tx t = { 0 };
	int r;

	snprintf(most, sizeof(most), "%d", HOOK_KEPT);
	if ((r = tx_begin(&t, s, err)) < 0)
		return r;
	r = row_update(s, &delivery_table, d, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0 || (r = run_text(s,
	                           "DELETE FROM hook_deliveries WHERE hook = $1 AND "
	                           "state IN ('delivered', 'failed') AND id NOT IN "
	                           "(SELECT id FROM hook_deliveries WHERE hook = $1 AND "
	                           "state IN ('delivered', 'failed') "
	                           "ORDER BY seq DESC LIMIT CAST($2 AS BIGINT))",
	                           args, 2, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_hook_recover(struct store *s, struct err *err)
{
	autotx struct tx t = { 0 };
	int r, n;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (n = r = run_text(s,
	                      "UPDATE hook_deliveries SET state = 'pending' WHERE state = 'active'",
	                      NULL, 0, err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	return n;
}

int store_hook_log(struct store *s, const char *hook, int64_t limit, int64_t offset,
                   struct store_hook_delivery **ret, size_t *ret_n, struct err *err)
{
	char lim[24], off[24];
	const char *args[] = { hook, lim, off };
	void *p = NULL;
	int r;

	snprintf(lim, sizeof(lim), "%lld", (long long)limit);
	snprintf(off, sizeof(off), "%lld", (long long)offset);
	LOCK_SCOPE(&s->lock);
	r = row_list(s, &delivery_table,
	             "WHERE hook = $1 ORDER BY seq DESC "
	             "LIMIT CAST($2 AS BIGINT) OFFSET CAST($3 AS BIGINT)",
	             args, 3, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_hook_delivery(struct store *s, const char *hook, const char *id,
                        struct store_hook_delivery *ret, char **ret_body, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = get_locked(s, &delivery_table, "WHERE hook = $1 AND id = $2", hook, id, ret, err);

	if (r < 0 || !ret_body)
		return r;
	if ((r = query_begin(&q, s, "SELECT body FROM hook_deliveries WHERE id = $1", err)) < 0)
		return r;
	query_bind_text(&q, id);
	if ((r = query_step(&q, err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&delivery_table, id, err);
	*ret_body = query_read_strdup(&q);
	r = query_read_end(&q, err);
	if (r < 0)
		free(TAKE_PTR(*ret_body));
	return r;
}

void store_hook_notify(struct store *s, void (*fn)(void *ctx), void *ctx)
{
	LOCK_SCOPE(&s->lock);
	s->hook_fn = fn;
	s->hook_ctx = ctx;
}
