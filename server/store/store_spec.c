/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_spec.c - cached spec layers: a content hash refers to the point that was built for it
 *
 * An entry keeps its point in use, like a snapshot does; the collector removes points that lost
 * theirs. The least recently used entries are dropped first.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

static const struct col spec_cols[] = {
	COL_AT(COL_TEXT, store_spec, key, "key"),
	COL_AT(COL_TEXT, store_spec, point, "point"),
	COL_AT(COL_TEXT, store_spec, build_id, "build_id"),
	COL_AT(COL_I64, store_spec, created_ms, "created_ms"),
	COL_AT(COL_I64, store_spec, used_ms, "used_ms"),
};
static const struct table spec_table = {
	.name = "spec_layers",
	.cols = spec_cols,
	.n_cols = ARRAY_SIZE(spec_cols),
	.row_size = sizeof(struct store_spec),
	.noun = "cached layer",
};

static int evict(struct store *s, uint32_t max, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "DELETE FROM spec_layers WHERE key NOT IN"
	                    " (SELECT key FROM spec_layers ORDER BY used_ms DESC, key LIMIT $1)",
	                    err);

	if (r < 0)
		return r;
	query_bind_i64(&q, max);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int store_spec_put(struct store *s, const struct store_spec *l, uint32_t max, struct err *err)
{
	autotx struct tx t = { 0 };
	int r = tx_begin(&t, s, err);

	if (r < 0)
		return r;
	r = row_delete(s, &spec_table, l->key, NULL);
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "replace the cached layer '%s'", l->key);
	if ((r = row_insert(s, &spec_table, l, err)) < 0 || (r = evict(s, max, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_spec_get(struct store *s, const char *key, struct store_spec *ret, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_get(s, &spec_table, key, ret, err)) < 0)
		return r;
	ret->used_ms = clock_wall_ms();
	if ((r = row_update(s, &spec_table, ret, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_spec_drop(struct store *s, const char *key, const char *point, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s, "DELETE FROM spec_layers WHERE key = $1 AND point = $2", err)) <
	            0)
		return r;
	query_bind_text(&q, key);
	query_bind_text(&q, point);
	r = query_run(&q, err);
	return r < 0 ? r : tx_commit(&t, err);
}

int store_spec_list(struct store *s, struct store_spec **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &spec_table, "ORDER BY used_ms, key", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}
