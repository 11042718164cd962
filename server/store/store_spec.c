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

/* A node has entries of its own: their points are in its files. */
struct spec_row {
	char key[NODE_KEY_SIZE];
	struct store_spec l;
};

static const struct col spec_cols[] = {
	COL_AT(COL_TEXT, spec_row, key, "key"),
	COL_AT(COL_TEXT, spec_row, l.point, "point"),
	COL_AT(COL_TEXT, spec_row, l.build_id, "build_id"),
	COL_AT(COL_I64, spec_row, l.created_ms, "created_ms"),
	COL_AT(COL_I64, spec_row, l.used_ms, "used_ms"),
};
static const struct table spec_table = {
	.name = "spec_layers",
	.cols = spec_cols,
	.n_cols = ARRAY_SIZE(spec_cols),
	.row_size = sizeof(struct spec_row),
	.noun = "cached layer",
};

static int evict(struct store *s, uint32_t max, struct err *err)
{
	autoquery struct query q = { 0 };
	char own[NODE_KEY_SIZE];
	int r = query_begin(&q, s,
	                    "DELETE FROM spec_layers WHERE key LIKE $1 AND key NOT IN"
	                    " (SELECT key FROM spec_layers WHERE key LIKE $1"
	                    " ORDER BY used_ms DESC, key LIMIT $2)",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, node_key(s, "%", own));
	query_bind_i64(&q, max);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int store_spec_put(struct store *s, const struct store_spec *l, uint32_t max, struct err *err)
{
	autotx struct tx t = { 0 };
	struct spec_row row = { .l = *l };
	int r = tx_begin(&t, s, err);

	if (r < 0)
		return r;
	node_key(s, l->key, row.key);
	r = row_delete(s, &spec_table, row.key, NULL);
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "replace the cached layer '%s'", l->key);
	if ((r = row_insert(s, &spec_table, &row, err)) < 0 || (r = evict(s, max, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_spec_get(struct store *s, const char *key, struct store_spec *ret, struct err *err)
{
	autotx struct tx t = { 0 };
	char own[NODE_KEY_SIZE];
	struct spec_row row;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_get(s, &spec_table, node_key(s, key, own), &row, err)) < 0)
		return r;
	row.l.used_ms = clock_wall_ms();
	if ((r = row_update(s, &spec_table, &row, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = row.l;
	snprintf(ret->key, sizeof(ret->key), "%s", key);
	return 0;
}

int store_spec_drop(struct store *s, const char *key, const char *point, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	char own[NODE_KEY_SIZE];
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s, "DELETE FROM spec_layers WHERE key = $1 AND point = $2", err)) <
	            0)
		return r;
	query_bind_text(&q, node_key(s, key, own));
	query_bind_text(&q, point);
	r = query_run(&q, err);
	return r < 0 ? r : tx_commit(&t, err);
}

int store_spec_list(struct store *s, struct store_spec **ret, size_t *ret_n, struct err *err)
{
	autofree struct store_spec *list = NULL;
	autofree void *rows = NULL;
	char own[NODE_KEY_SIZE];
	const char *arg = node_key(s, "%", own);
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &spec_table, "WHERE key LIKE $1 ORDER BY used_ms, key", &arg, 1, &rows,
	             ret_n, err);
	if (r < 0)
		return r;
	list = calloc(*ret_n + 1, sizeof(*list));
	if (!list)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < *ret_n; i++) {
		struct spec_row *row = (struct spec_row *)rows + i;

		node_key_strip(s, row->key);
		list[i] = row->l;
		snprintf(list[i].key, sizeof(list[i].key), "%.*s", SPEC_KEY_SIZE - 1, row->key);
	}
	*ret = TAKE_PTR(list);
	return 0;
}
