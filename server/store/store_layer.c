/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_layer.c - memory and disk layers, trees by parent
 *
 * A layer's depth is computed when it is added, and again when flattening puts
 * it on another parent (store_point.c). Chains are read with one recursive query.
 */
#include "store/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"

static const char *const kind_words[] = { [LAYER_MEM] = "mem", [LAYER_DISK] = "disk" };
static_assert(ARRAY_SIZE(kind_words) == LAYER_KIND_MAX, "a kind is missing in kind_words");

static const struct col layer_cols[] = {
	COL_AT(COL_TEXT, store_layer, id, "id"),
	COL_WORD_AT(store_layer, kind, "kind", kind_words),
	COL_AT(COL_REF, store_layer, parent, "parent"),
	COL_AT(COL_TEXT, store_layer, format, "format"),
	COL_AT(COL_U64, store_layer, bytes, "bytes"),
	COL_AT(COL_U32, store_layer, crc, "crc"),
	COL_AT(COL_BOOL, store_layer, has_crc, "has_crc"),
	COL_AT(COL_U32, store_layer, depth, "depth"),
	COL_AT(COL_TEXT, store_layer, node, "node"),
	COL_AT(COL_TEXT, store_layer, account, "account"),
	COL_AT(COL_U32, store_layer, chunks, "chunks"),
	COL_AT(COL_BOOL, store_layer, stored, "stored"),
};
const struct table layer_table = {
	.name = "layers",
	.cols = layer_cols,
	.n_cols = ARRAY_SIZE(layer_cols),
	.row_size = sizeof(struct store_layer),
	.noun = "layer",
};

int layer_add_locked(struct store *s, const struct store_layer *l, struct err *err)
{
	struct store_layer row = *l, parent;
	int r;

	row.depth = 0;
	snprintf(row.node, sizeof(row.node), "%s", s->node);
	if (row.parent[0]) {
		r = row_get(s, &layer_table, row.parent, &parent, err);
		if (r < 0)
			return err_wrap(err, r, "add layer '%s' on its parent", row.id);
		if (parent.kind != row.kind)
			return err_set(err, -EINVAL, "layer '%s' is %s, its parent '%s' is %s",
			               row.id, kind_words[row.kind], row.parent,
			               kind_words[parent.kind]);
		row.depth = parent.depth + 1;
	}
	return row_insert(s, &layer_table, &row, err);
}

static int seal_locked(struct store *s, const char *id, uint64_t bytes, uint32_t crc, bool has_crc,
                       struct err *err)
{
	struct store_layer row;
	int r = row_get(s, &layer_table, id, &row, err);

	if (r < 0)
		return r;
	row.bytes = bytes;
	row.crc = has_crc ? crc : 0;
	row.has_crc = has_crc;
	return row_update(s, &layer_table, &row, err);
}

static int layer_exists(struct store *s, const char *id, struct err *err)
{
	struct store_layer row;
	int r = row_get(s, &layer_table, id, &row, err);

	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static const struct store_layer *find_in(const struct store_layer *l, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(l[i].id, id) == 0)
			return &l[i];
	return NULL;
}

/* left: how deep the parents inside the array may nest; more is a loop. */
static int put_one(struct store *s, const struct store_layer *all, size_t n,
                   const struct store_layer *l, size_t left, struct err *err)
{
	int r = layer_exists(s, l->id, err);

	if (r < 0)
		return r;
	if (r > 0)
		return seal_locked(s, l->id, l->bytes, l->crc, l->has_crc, err);
	if (l->parent[0]) {
		const struct store_layer *p = find_in(all, n, l->parent);

		if (p) {
			if (left == 0)
				return err_set(err, -ELOOP, "layer '%s' is its own ancestor",
				               l->id);
			r = put_one(s, all, n, p, left - 1, err);
			if (r < 0)
				return r;
		}
	}
	return layer_add_locked(s, l, err);
}

int layers_put_locked(struct store *s, const struct store_layer *l, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = put_one(s, l, n, &l[i], n, err);

		if (r < 0)
			return r;
	}
	return 0;
}

int store_layer_add(struct store *s, const struct store_layer *l, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = layer_add_locked(s, l, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_layer_get(struct store *s, const char *id, struct store_layer *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &layer_table, id, ret, err);
}

int store_layer_seal(struct store *s, const char *id, uint64_t bytes, uint32_t crc, bool has_crc,
                     struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = seal_locked(s, id, bytes, crc, has_crc, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_layer_chain(struct store *s, const char *id, struct store_layer **ret, size_t *ret_n,
                      struct err *err)
{
	autofree struct store_layer *rows = NULL;
	const char *args[] = { id };
	void *p = NULL;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&s->lock);
	/* UNION, not UNION ALL: a loop in a damaged database must not run for ever. */
	r = row_list(s, &layer_table,
	             "WHERE id IN (WITH RECURSIVE chain (id, parent) AS ("
	             " SELECT id, parent FROM layers WHERE id = $1"
	             " UNION SELECT l.id, l.parent FROM layers l JOIN chain c ON l.id = c.parent)"
	             " SELECT id FROM chain) ORDER BY depth",
	             args, 1, &p, &n, err);
	if (r < 0)
		return r;
	rows = p;
	if (n == 0)
		return row_missing(&layer_table, id, err);
	for (size_t i = 0; i < n; i++)
		if (rows[i].depth != i || strcmp(rows[i].parent, i ? rows[i - 1].id : "") != 0)
			return err_tag(err, -EUCLEAN, ERR_DATABASE_ERROR,
			               "the chain of layer '%s' is broken at '%s'", id, rows[i].id);
	*ret = TAKE_PTR(rows);
	*ret_n = n;
	return 0;
}

int store_layer_list(struct store *s, struct store_layer **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	const char *node = s->node;

	LOCK_SCOPE(&s->lock);
	r = *node ? row_list(s, &layer_table, "WHERE node = $1 ORDER BY depth, id", &node, 1, &p,
	                     ret_n, err)
	          : row_list(s, &layer_table, "ORDER BY depth, id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}
