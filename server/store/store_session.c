/* SPDX-License-Identifier: Apache-2.0 */
/* store_session.c - see store_session.h */
#include "store/store_session.h"

#include <errno.h>

#include "store/store_internal.h"

static const struct col session_cols[] = {
	COL_AT(COL_TEXT, store_session, id, "id"),
	COL_AT(COL_TEXT, store_session, hash, "hash"),
	COL_AT(COL_TEXT, store_session, account, "account"),
	COL_AT(COL_TEXT, store_session, key, "key"),
	COL_AT(COL_REF, store_session, identity, "identity"),
	COL_AT(COL_REF, store_session, acting, "acting"),
	COL_AT(COL_I64, store_session, created_ms, "created_ms"),
	COL_AT(COL_I64, store_session, used_ms, "used_ms"),
	COL_AT(COL_TEXT, store_session, remote, "remote"),
	COL_AT(COL_TEXT, store_session, client, "client"),
};
static const struct table session_table = {
	.name = "web_sessions",
	.cols = session_cols,
	.n_cols = ARRAY_SIZE(session_cols),
	.row_size = sizeof(struct store_session),
	.noun = "session",
};

int store_session_add(struct store *s, const struct store_session *n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &session_table, n, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_session_list(struct store *s, struct store_session **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &session_table, "ORDER BY created_ms, id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_session_update(struct store *s, const struct store_session *v, size_t n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r = tx_begin(&t, s, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		autoquery struct query q = { 0 };

		r = query_begin(&q, s,
		                "UPDATE web_sessions SET used_ms = $1, acting = $2 WHERE id = $3",
		                err);
		if (r < 0)
			return r;
		query_bind_i64(&q, v[i].used_ms);
		query_bind_ref(&q, v[i].acting);
		query_bind_text(&q, v[i].id);
		r = query_run(&q, err);
	}
	return r < 0 ? r : tx_commit(&t, err);
}

int store_session_delete(struct store *s, const char (*ids)[ID_SIZE], size_t n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r = tx_begin(&t, s, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		const char *id = ids[i];

		r = run_text(s, "DELETE FROM web_sessions WHERE id = $1", &id, 1, err);
	}
	return r < 0 ? r : tx_commit(&t, err);
}
