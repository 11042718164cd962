/* SPDX-License-Identifier: Apache-2.0 */
/* store_identity.c - identities and their access tokens (only their hashes) */
#include "store/store_internal.h"

#include <errno.h>

#include "base/err.h"

static const struct col identity_cols[] = {
	COL_AT(COL_TEXT, store_identity, id, "id"),
	COL_AT(COL_TEXT, store_identity, account, "account"),
	COL_AT(COL_BOOL, store_identity, managed, "managed"),
	COL_AT(COL_I64, store_identity, created_ms, "created_ms"),
};
static const struct table identity_table = {
	.name = "identities",
	.cols = identity_cols,
	.n_cols = ARRAY_SIZE(identity_cols),
	.row_size = sizeof(struct store_identity),
	.missing_tag = ERR_IDENTITY_NOT_FOUND,
	.noun = "identity",
};

static const struct col token_cols[] = {
	COL_AT(COL_TEXT, store_token, id, "id"),
	COL_AT(COL_TEXT, store_token, identity, "identity"),
	COL_AT(COL_TEXT, store_token, account, "account"),
	COL_AT(COL_TEXT, store_token, hash, "hash"),
	COL_AT(COL_I64, store_token, created_ms, "created_ms"),
};
static const struct table token_table = {
	.name = "identity_tokens",
	.cols = token_cols,
	.n_cols = ARRAY_SIZE(token_cols),
	.row_size = sizeof(struct store_token),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "token",
};

int store_identity_add(struct store *s, const struct store_identity *i, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &identity_table, i, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_identity_get(struct store *s, const char *id, struct store_identity *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &identity_table, id, ret, err);
}

int store_identity_list(struct store *s, const char *account, struct store_identity **ret,
                        size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &identity_table, "WHERE account = $1 ORDER BY created_ms, id", &account, 1,
	             &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_identity_delete(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM grants WHERE identity = $1", &id, 1, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM identity_tokens WHERE identity = $1", &id, 1, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM web_sessions WHERE identity = $1", &id, 1, err)) < 0 ||
	    (r = row_delete(s, &identity_table, id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_token_add(struct store *s, const struct store_token *t, struct err *err)
{
	autotx struct tx tx = { 0 };
	struct store_identity i;
	int r;

	if ((r = tx_begin(&tx, s, err)) < 0 ||
	    (r = row_get(s, &identity_table, t->identity, &i, err)) < 0 ||
	    (r = row_insert(s, &token_table, t, err)) < 0)
		return r;
	return tx_commit(&tx, err);
}

int store_token_list(struct store *s, const char *identity, struct store_token **ret, size_t *ret_n,
                     struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	if (identity)
		r = row_list(s, &token_table, "WHERE identity = $1 ORDER BY created_ms, id",
		             &identity, 1, &p, ret_n, err);
	else
		r = row_list(s, &token_table, "ORDER BY created_ms, id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_token_delete(struct store *s, const char *identity, const char *id, struct err *err)
{
	const char *args[] = { id, identity };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM identity_tokens WHERE id = $1 AND identity = $2", args, 2,
	                  err)) < 0)
		return r;
	if (r == 0)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "no such token");
	if ((r = run_text(s, "DELETE FROM web_sessions WHERE key = $1", &id, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
