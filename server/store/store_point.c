/* SPDX-License-Identifier: Apache-2.0 */
/* store_point.c - points (a frozen machine: memory layer, disk layer, device state) and templates
 */
#include "store/store_internal.h"

#include <errno.h>

#include "base/err.h"

static const char *const kind_words[] = {
	[POINT_LIVE] = "live",
	[POINT_SUSPEND] = "suspend",
	[POINT_TEMPLATE] = "template",
};
_Static_assert(ARRAY_SIZE(kind_words) == POINT_KIND_MAX, "a kind is missing in kind_words");

static const struct col point_cols[] = {
	COL_AT(COL_TEXT, store_point, id, "id"),
	COL_AT(COL_REF, store_point, mem_layer, "mem_layer"),
	COL_AT(COL_REF, store_point, disk_layer, "disk_layer"),
	COL_WORD_AT(store_point, kind, "kind", kind_words),
	COL_AT(COL_REF, store_point, parent, "parent"),
	COL_AT(COL_REF, store_point, source_vm, "source_vm"),
	COL_AT(COL_U32, store_point, vcpus, "vcpus"),
	COL_AT(COL_U32, store_point, mem_mb, "mem_mb"),
	COL_AT(COL_U32, store_point, disk_mb, "disk_mb"),
	COL_AT(COL_TEXT, store_point, qemu_version, "qemu_version"),
	COL_AT(COL_TEXT, store_point, machine, "machine"),
	COL_AT(COL_TEXT, store_point, cpu, "cpu"),
	COL_AT(COL_TEXT, store_point, accel, "accel"),
	COL_AT(COL_U32, store_point, state_crc, "state_crc"),
	COL_AT(COL_U64, store_point, state_bytes, "state_bytes"),
	COL_AT(COL_I64, store_point, created_ms, "created_ms"),
	COL_AT(COL_TEXT, store_point, node, "node"),
	COL_AT(COL_TEXT, store_point, account, "account"),
	COL_AT(COL_U32, store_point, chunks, "chunks"),
	COL_AT(COL_BOOL, store_point, stored, "stored"),
};
const struct table point_table = {
	.name = "points",
	.cols = point_cols,
	.n_cols = ARRAY_SIZE(point_cols),
	.row_size = sizeof(struct store_point),
	.noun = "point",
};

int point_add_locked(struct store *s, const struct store_point *p, struct err *err)
{
	struct store_point row = *p;
	int r = line_living_locked(s, p->parent, row.parent, err);

	snprintf(row.node, sizeof(row.node), "%s", s->node);
	return r < 0 ? r : row_insert(s, &point_table, &row, err);
}

int store_point_add(struct store *s, const struct store_point *p,
                    const struct store_layer *new_layers, size_t n_layers, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = layers_put_locked(s, new_layers, n_layers, err)) < 0 ||
	    (r = point_add_locked(s, p, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_point_get(struct store *s, const char *id, struct store_point *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &point_table, id, ret, err);
}

int store_point_list(struct store *s, struct store_point **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	const char *node = s->node;

	LOCK_SCOPE(&s->lock);
	r = *node ? row_list(s, &point_table, "WHERE node = $1 ORDER BY created_ms, id", &node, 1,
	                     &p, ret_n, err)
	          : row_list(s, &point_table, "ORDER BY created_ms, id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

/* A layer can only be replaced by one of the same kind. */
static int check_same_kind(struct store *s, const char *from, const char *to, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT COUNT(*), COUNT(DISTINCT kind) FROM layers "
	                    "WHERE id = $1 OR id = $2",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, from);
	query_bind_text(&q, to);
	if ((r = query_step(&q, err)) < 0)
		return r;
	if (query_read_i64(&q, 0, INT64_MAX) != 2)
		return err_set(err, -ENOENT, "layer '%s' or '%s' does not exist", from, to);
	if (query_read_i64(&q, 0, INT64_MAX) != 1)
		return err_set(err, -EINVAL, "layers '%s' and '%s' are of different kinds", from,
		               to);
	return 0;
}

/* With nodes: their own rows only, and what others can fetch stays what they can fetch. */
#define SWAP(table, column)                                  \
	"UPDATE " table " SET " column " = $1 WHERE " column \
	" = $2 AND node = $3 AND (node = '' OR "             \
	"stored = 0 OR EXISTS (SELECT 1 FROM layers f WHERE f.id = $1 AND f.stored = 1))"

static int swap_in(struct store *s, const char *sql, const char *to, const char *from,
                   struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, to);
	query_bind_text(&q, from);
	query_bind_text(&q, s->node);
	return query_run(&q, err);
}

/* Updates the depth of the layers above id, which has moved. */
static int count_depths_from(struct store *s, const char *id, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "WITH RECURSIVE above (id, depth) AS ("
	                    " SELECT id, depth FROM layers WHERE id = $1"
	                    " UNION ALL SELECT l.id, above.depth + 1 FROM layers l"
	                    " JOIN above ON l.parent = above.id)"
	                    "UPDATE layers SET depth ="
	                    " (SELECT above.depth FROM above WHERE above.id = layers.id)"
	                    " WHERE id IN (SELECT id FROM above)",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, id);
	return query_run(&q, err);
}

int store_point_swap_layer(struct store *s, const char *from, const char *to, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = check_same_kind(s, from, to, err)) < 0 ||
	    (r = swap_in(s, SWAP("points", "mem_layer"), to, from, err)) < 0 ||
	    (r = swap_in(s, SWAP("points", "disk_layer"), to, from, err)) < 0 ||
	    (r = swap_in(s, SWAP("layers", "parent") " AND id <> $1", to, from, err)) < 0 ||
	    (r = count_depths_from(s, to, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_template_set(struct store *s, const char *key, const char *point, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	char own[NODE_KEY_SIZE];
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "INSERT INTO templates (key, point) VALUES ($1, $2) "
	                     "ON CONFLICT (key) DO UPDATE SET point = excluded.point",
	                     err)) < 0)
		return r;
	query_bind_text(&q, node_key(s, key, own));
	query_bind_text(&q, point);
	if ((r = query_run(&q, err)) < 0)
		return err_wrap(err, r, "set template '%s'", key);
	query_done(&q);
	return tx_commit(&t, err);
}

int store_template_get(struct store *s, const char *key, char ret_point[ID_SIZE], struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	char point[ID_SIZE], own[NODE_KEY_SIZE];
	int r;

	r = query_begin(&q, s, "SELECT point FROM templates WHERE key = $1", err);
	if (r < 0)
		return r;
	query_bind_text(&q, node_key(s, key, own));
	if ((r = query_step(&q, err)) < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "no template '%s'", key);
	query_read_text(&q, point, sizeof(point));
	if ((r = query_read_end(&q, err)) < 0)
		return r;
	memcpy(ret_point, point, sizeof(point));
	return 0;
}

static const struct col template_cols[] = {
	COL_AT(COL_TEXT, store_template, key, "key"),
	COL_AT(COL_TEXT, store_template, point, "point"),
};
static const struct table template_table = {
	.name = "templates",
	.cols = template_cols,
	.n_cols = ARRAY_SIZE(template_cols),
	.row_size = sizeof(struct store_template),
	.noun = "template",
};

int store_template_list(struct store *s, struct store_template **ret, size_t *ret_n,
                        struct err *err)
{
	void *p = NULL;
	int r;

	const char *own[] = { s->node };

	LOCK_SCOPE(&s->lock);
	r = *s->node ? row_list(s, &template_table,
	                        "WHERE key LIKE CAST($1 AS TEXT) || '/%' ORDER BY key", own, 1, &p,
	                        ret_n, err)
	             : row_list(s, &template_table, "ORDER BY key", NULL, 0, &p, ret_n, err);
	for (size_t i = 0; r >= 0 && i < *ret_n; i++)
		node_key_strip(s, ((struct store_template *)p)[i].key);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_template_drop(struct store *s, const char *key, const char *point, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	char own[NODE_KEY_SIZE];
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s, "DELETE FROM templates WHERE key = $1 AND point = $2", err)) <
	            0)
		return r;
	query_bind_text(&q, node_key(s, key, own));
	query_bind_text(&q, point);
	r = query_run(&q, err);
	return r < 0 ? r : tx_commit(&t, err);
}
