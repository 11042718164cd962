/* SPDX-License-Identifier: Apache-2.0 */
/* store_credential.c - an account's passwords for other Git servers, one per server */
#include "store/store_credential.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

static const struct col credential_cols[] = {
	COL_AT(COL_TEXT, store_credential, id, "id"),
	COL_AT(COL_TEXT, store_credential, account, "account"),
	COL_AT(COL_TEXT, store_credential, server, "server"),
	COL_AT(COL_SECRET, store_credential, secret, "secret"),
	COL_AT(COL_TEXT, store_credential, app_id, "app_id"),
	COL_AT(COL_TEXT, store_credential, installation, "installation"),
	COL_AT(COL_TEXT, store_credential, api_url, "api_url"),
	COL_AT(COL_I64, store_credential, created_ms, "created_ms"),
};
static const struct table credential_table = {
	.name = "git_credentials",
	.cols = credential_cols,
	.n_cols = ARRAY_SIZE(credential_cols),
	.row_size = sizeof(struct store_credential),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "credential",
};

static int drop(struct store *s, const char *account, const char *server, struct err *err)
{
	const char *args[] = { account, server };

	return run_text(s, "DELETE FROM git_credentials WHERE account = $1 AND server = $2", args,
	                2, err);
}

int store_credential_put(struct store *s, const struct store_credential *c, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = drop(s, c->account, c->server, err)) < 0 ||
	    (r = row_insert(s, &credential_table, c, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_credential_get(struct store *s, const char *account, const char *server,
                         struct store_credential *ret, struct err *err)
{
	const char *args[] = { account, server };
	autowipe void *rows = NULL;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &credential_table, "WHERE account = $1 AND server = $2", args, 2, &rows, &n,
	             err);
	if (r < 0)
		return r;
	if (n == 0)
		return row_missing(&credential_table, server, err);
	memcpy(ret, rows, sizeof(*ret));
	return 0;
}

int store_credential_list(struct store *s, const char *account, struct store_credential **ret,
                          size_t *ret_n, struct err *err)
{
	void *rows = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &credential_table, "WHERE account = $1 ORDER BY server", &account, 1, &rows,
	             ret_n, err);
	if (r >= 0)
		*ret = rows;
	return r;
}

int store_credential_delete(struct store *s, const char *account, const char *server,
                            struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = drop(s, account, server, err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&credential_table, server, err);
	return tx_commit(&t, err);
}
