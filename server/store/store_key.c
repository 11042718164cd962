/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_key.c - API keys (only their hashes) and named values
 */
#include "store/store_internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

/* The first column of the first row, as text. */
static int read_text(struct query *q, char *ret, size_t size, struct err *err)
{
	int r = query_step(q, err);

	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	query_read_text(q, ret, size);
	return query_read_end(q, err);
}

int store_key_add(struct store *s, const char *account, const char *key_id, const char *name,
                  const char *hash_hex, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "INSERT INTO api_keys (id, account, name, hash, created_ms) "
	                     "VALUES ($1, $2, $3, $4, $5)",
	                     err)) < 0)
		return r;
	query_bind_text(&q, key_id);
	query_bind_text(&q, account);
	query_bind_text(&q, name);
	query_bind_text(&q, hash_hex);
	query_bind_i64(&q, clock_wall_ms());
	if ((r = query_run(&q, err)) < 0)
		return err_wrap(err, r, "add API key '%s'", key_id);
	query_done(&q);
	return tx_commit(&t, err);
}

int store_key_find(struct store *s, const char *hash_hex, char ret_account[ACCOUNT_SIZE],
                   struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r;

	r = query_begin(&q, s,
	                "SELECT account FROM api_keys WHERE hash = $1 AND revoked_ms IS NULL", err);
	if (r < 0)
		return r;
	query_bind_text(&q, hash_hex);
	r = read_text(&q, ret_account, ACCOUNT_SIZE, err);
	return r == -ENOENT ? err_set(err, r, "no such API key") : r;
}

int store_key_count(struct store *s, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int64_t n;
	int r;

	r = query_begin(&q, s, "SELECT COUNT(*) FROM api_keys WHERE revoked_ms IS NULL", err);
	if (r < 0 || (r = query_step(&q, err)) < 0)
		return r;
	n = query_read_i64(&q, 0, INT32_MAX);
	r = query_read_end(&q, err);
	return r < 0 ? r : (int)n;
}

int store_key_revoke(struct store *s, const char *account, const char *key_id, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "UPDATE api_keys SET revoked_ms = $1 "
	                     "WHERE id = $2 AND account = $3 AND revoked_ms IS NULL",
	                     err)) < 0)
		return r;
	query_bind_i64(&q, clock_wall_ms());
	query_bind_text(&q, key_id);
	query_bind_text(&q, account);
	if ((r = query_run(&q, err)) < 0)
		return err_wrap(err, r, "revoke API key '%s'", key_id);
	if (r == 0)
		return err_set(err, -ENOENT, "no API key '%s'", key_id);
	query_done(&q);
	if ((r = run_text(s, "DELETE FROM web_sessions WHERE key = $1", &key_id, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static const struct col key_cols[] = {
	COL_AT(COL_TEXT, store_key, id, "id"),
	COL_AT(COL_TEXT, store_key, account, "account"),
	COL_AT(COL_TEXT, store_key, name, "name"),
	COL_AT(COL_TEXT, store_key, hash, "hash"),
	COL_AT(COL_I64, store_key, created_ms, "created_ms"),
};
static const struct table key_table = {
	.name = "api_keys",
	.cols = key_cols,
	.n_cols = ARRAY_SIZE(key_cols),
	.row_size = sizeof(struct store_key),
	.noun = "API key",
};

int store_key_list(struct store *s, const char *account, struct store_key **ret, size_t *ret_n,
                   struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	if (account)
		r = row_list(s, &key_table,
		             "WHERE revoked_ms IS NULL AND account = $1 ORDER BY created_ms, id",
		             &account, 1, &p, ret_n, err);
	else
		r = row_list(s, &key_table, "WHERE revoked_ms IS NULL ORDER BY created_ms, id",
		             NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}
