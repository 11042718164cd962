/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_move_rows.c - the rows of a table, from one engine to the other
 *
 * Nothing here knows what a table is for: SQLite says which there are, which columns they have and
 * what they refer to, so a new one is copied without a line of code. Values travel as text, which
 * both engines write the same way, but for floating point numbers, which travel as such.
 * Sealed values stay as they are: what they are sealed for has table, column and row in it, not the
 * engine.
 *
 * A row has a SHA-256 of its values, and a table the sum of those: the order of rows does not
 * matter. It is made of what was read on one side, and again of what is read on the other.
 *
 * The connections have no other user, so no locks are taken.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/store_move_internal.h"

#define BATCH_PARAMS 90 /* of one INSERT; an engine's limit is a little higher */
#define SAY_ROWS 10000  /* between two reports */

struct sum {
	uint64_t v[4], rows;
};

/* Made anew by each database. */
static const char not_own[] =
        " WHERE key NOT IN ('cluster', 'schema_oldest', 'objects', 'moved_to')";

static const char *rows_of(const struct move_table *t)
{
	return strcmp(t->name, "meta") == 0 ? not_own : "";
}

/* ---- the catalogue ---- */

static int read_columns(struct store *file, struct move_table *t, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, file, "SELECT name, type FROM pragma_table_info($1)", err);

	if (r < 0)
		return r;
	query_bind_text(&q, t->name);
	while ((r = query_step(&q, err)) > 0) {
		struct move_col *c = &t->cols[t->n_cols];
		char type[32];

		if (t->n_cols++ == MOVE_COLS_MAX)
			return err_set(err, -E2BIG, "table %s has too many columns", t->name);
		query_read_text(&q, c->name, sizeof(c->name));
		query_read_text(&q, type, sizeof(type));
		c->real = strcmp(type, "DOUBLE PRECISION") == 0;
	}
	return r < 0 ? r : query_read_end(&q, err);
}

/* After the tables before `have`; 0: one that it refers to is not among them yet. */
static int read_references(struct store *file, struct move_table *t, const struct move_table *have,
                           size_t n, struct err *err)
{
	autoquery struct query q = { 0 };
	bool there = true;
	int r = query_begin(&q, file,
	                    "SELECT \"table\", \"from\", \"to\" FROM pragma_foreign_key_list($1)",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, t->name);
	while ((r = query_step(&q, err)) > 0) {
		char to[MOVE_NAME], column[MOVE_NAME], key[MOVE_NAME];
		bool found = false;

		query_read_text(&q, to, sizeof(to));
		query_read_text(&q, column, sizeof(column));
		query_read_text(&q, key, sizeof(key));
		for (size_t i = 0; i < n; i++)
			found |= strcmp(have[i].name, to) == 0;
		if (strcmp(to, t->name) == 0) {
			memcpy(t->parent, column, MOVE_NAME);
			memcpy(t->key, key, MOVE_NAME);
			found = true;
		}
		there &= found;
	}
	r = r < 0 ? r : query_read_end(&q, err);
	return r < 0 ? r : there;
}

static int list_names(struct store *file, struct move_table *ret, size_t *ret_n, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, file,
	                    "SELECT name, sql LIKE '%AUTOINCREMENT%' FROM sqlite_master "
	                    "WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' "
	                    "AND name <> 'migrations' ORDER BY name",
	                    err);

	*ret_n = 0;
	while (r >= 0 && (r = query_step(&q, err)) > 0) {
		struct move_table *t = &ret[*ret_n];

		if ((*ret_n)++ == MOVED_TABLES_MAX)
			return err_set(err, -E2BIG, "too many tables");
		query_read_text(&q, t->name, sizeof(t->name));
		t->counted = query_read_i64(&q, 0, 1) != 0;
	}
	return r < 0 ? r : query_read_end(&q, err);
}

int move_tables(struct store *file, struct move_table **ret, size_t *ret_n, struct err *err)
{
	autofree struct move_table *t = calloc(MOVED_TABLES_MAX + 1, sizeof(*t));
	size_t n = 0, done = 0;
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = list_names(file, t, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if ((r = read_columns(file, &t[i], err)) < 0)
			return r;
	while (done < n) {
		size_t next = done;

		while (next < n && (r = read_references(file, &t[next], t, done, err)) == 0)
			next++;
		if (r < 0)
			return r;
		if (next == n)
			return err_set(err, -ELOOP, "tables refer to each other in a circle: %s",
			               t[done].name);
		t[n] = t[next]; /* there is room for one more */
		t[next] = t[done];
		t[done++] = t[n];
	}
	*ret_n = n;
	*ret = TAKE_PTR(t);
	return 0;
}

/* ---- counting and emptying ---- */

int move_count(struct store *s, const struct move_table *t, uint64_t *ret, struct err *err)
{
	char sql[256];
	int r;

	snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM %s%s", t->name, rows_of(t));
	r = query_count(s, sql, NULL, err);
	*ret = (uint64_t)MAX(r, 0);
	return MIN(r, 0);
}

int move_empty(struct store *s, const struct move_table *t, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = n; r >= 0 && i > 0; i--) { /* those that refer to others first */
		char sql[256];

		snprintf(sql, sizeof(sql), "DELETE FROM %s%s", t[i - 1].name, rows_of(&t[i - 1]));
		r = s->db->ops->exec(s->db, sql, err);
	}
	return r;
}

/* ---- sums ---- */

static int add_value(struct buf *b, const struct move_table *t, size_t i, const struct db_ops *ops,
                     struct db_stmt *row, struct err *err)
{
	size_t len = 0;
	const char *v = ops->text(row, (int)i, &len);

	buf_put_u8(b, v != NULL);
	if (!v)
		return 0;
	if (t->cols[i].real) {
		double d = ops->dbl(row, (int)i);

		buf_put(b, &d, sizeof(d));
		return 0;
	}
	if (memchr(v, 0, len))
		return err_set(err, -EINVAL, "%s.%s has a zero byte in a row, which cannot be kept",
		               t->name, t->cols[i].name);
	buf_put_blob(b, v, len);
	return 0;
}

static int sum_row(struct sum *s, struct buf *b, const struct move_table *t,
                   const struct db_ops *ops, struct db_stmt *row, struct err *err)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	uint64_t part[4];
	unsigned n = 0;
	int r = 0;

	buf_reset(b);
	for (size_t i = 0; r >= 0 && i < t->n_cols; i++)
		r = add_value(b, t, i, ops, row, err);
	if (r < 0)
		return r;
	if (b->failed || EVP_Digest(b->p, b->len, md, &n, EVP_sha256(), NULL) != 1 ||
	    n != sizeof(part))
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(part, md, sizeof(part));
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		s->v[i] += part[i];
	s->rows++;
	return 0;
}

/* ---- reading and writing ---- */

static void put_columns(struct buf *b, const struct move_table *t, const char *before)
{
	for (size_t i = 0; i < t->n_cols; i++)
		buf_printf(b, "%s%s%s", i ? ", " : "", before, t->cols[i].name);
}

/* Rows that others of the table refer to come before those. */
static char *select_text(const struct move_table *t, bool in_order)
{
	autobuf struct buf b = { 0 };

	if (in_order && *t->parent) {
		buf_printf(&b,
		           "WITH RECURSIVE r (k, n) AS (SELECT %s, 0 FROM %s WHERE %s IS NULL "
		           "UNION ALL SELECT t.%s, r.n + 1 FROM %s t JOIN r ON t.%s = r.k) SELECT ",
		           t->key, t->name, t->parent, t->key, t->name, t->parent);
		put_columns(&b, t, "t.");
		buf_printf(&b, " FROM %s t JOIN r ON t.%s = r.k ORDER BY r.n", t->name, t->key);
	} else {
		buf_printf(&b, "SELECT ");
		put_columns(&b, t, "");
		buf_printf(&b, " FROM %s%s", t->name, rows_of(t));
	}
	return buf_take_str(&b);
}

static char *insert_text(const struct move_table *t, size_t rows)
{
	autobuf struct buf b = { 0 };
	size_t n = 0;

	buf_printf(&b, "INSERT INTO %s (", t->name);
	put_columns(&b, t, "");
	buf_printf(&b, ") VALUES ");
	for (size_t i = 0; i < rows; i++) {
		buf_printf(&b, "%s(", i ? ", " : "");
		for (size_t k = 0; k < t->n_cols; k++)
			buf_printf(&b, "%s$%zu", k ? ", " : "", ++n);
		buf_printf(&b, ")");
	}
	return buf_take_str(&b);
}

struct copying {
	const struct store_move *m;
	const struct move_table *t;
	struct db *from, *to;
	struct db_stmt *rows, *many, *one; /* owned */
	size_t batch;
	uint64_t all;
	struct sum sum;
	struct buf scratch;
};

static void copying_done(struct copying *c)
{
	if (c->rows)
		c->from->ops->finalize(c->from, c->rows);
	if (c->many)
		c->to->ops->finalize(c->to, c->many);
	if (c->one)
		c->to->ops->finalize(c->to, c->one);
	buf_done(&c->scratch);
}

static int begin_scan(struct db *d, const struct move_table *t, const char *what, bool in_order,
                      struct db_stmt **ret, struct err *err)
{
	autofree char *sql = select_text(t, in_order);
	char name[MOVE_NAME + 16];

	snprintf(name, sizeof(name), "%s_%s", what, t->name);
	return sql ? d->ops->scan(d, name, sql, ret, err) : err_set(err, -ENOMEM, "out of memory");
}

static int prepare_insert(struct db *d, const struct move_table *t, size_t rows,
                          struct db_stmt **ret, struct err *err)
{
	autofree char *sql = insert_text(t, rows);

	return sql ? d->ops->prepare(d, sql, ret, err) : err_set(err, -ENOMEM, "out of memory");
}

static int bind_row(struct copying *c, struct db_stmt *to, size_t at)
{
	const struct db_ops *in = c->from->ops, *out = c->to->ops;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < c->t->n_cols; i++) {
		int k = (int)(at * c->t->n_cols + i);
		size_t len;
		const char *v = in->text(c->rows, (int)i, &len);

		r = v && c->t->cols[i].real ? out->bind_double(to, k, in->dbl(c->rows, (int)i))
		                            : out->bind_text(to, k, v);
	}
	return r;
}

static int insert(struct copying *c, struct db_stmt *st, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		if ((r = c->from->ops->step(c->from, c->rows, err)) < 0)
			return r;
		if (r == 0)
			return err_set(err, -EIO,
			               "of %llu rows only %llu could be put in an order: rows "
			               "refer to some that are missing",
			               (unsigned long long)c->all, (unsigned long long)c->sum.rows);
		if ((r = sum_row(&c->sum, &c->scratch, c->t, c->from->ops, c->rows, err)) < 0)
			return r;
		if ((r = bind_row(c, st, i)) < 0)
			return err_set(err, r, "cannot bind a value");
	}
	r = c->to->ops->step(c->to, st, err);
	c->to->ops->reset(st);
	return MIN(r, 0);
}

static void say(const struct copying *c, uint64_t before)
{
	if (c->m->say && (c->sum.rows == c->all || c->sum.rows / SAY_ROWS != before / SAY_ROWS))
		c->m->say(c->m->ctx, c->t->name, c->sum.rows, c->all);
}

static int copy_rows(struct copying *c, struct err *err)
{
	int r = 0;

	while (r >= 0 && c->sum.rows < c->all) {
		uint64_t before = c->sum.rows;
		bool many = c->all - before >= c->batch;

		r = insert(c, many ? c->many : c->one, many ? c->batch : 1, err);
		if (r >= 0)
			say(c, before);
	}
	return r;
}

/* What the other side has now. */
static int sum_table(struct db *d, const struct move_table *t, struct sum *ret, struct err *err)
{
	AUTO(copying_done) struct copying c = { .from = d };
	int r = begin_scan(d, t, "look", false, &c.rows, err);

	*ret = (struct sum){ 0 };
	while (r >= 0 && (r = d->ops->step(d, c.rows, err)) > 0)
		r = sum_row(ret, &c.scratch, t, d->ops, c.rows, err);
	return r;
}

int move_rows(const struct store_move *m, struct store *from, struct store *to,
              const struct move_table *t, struct store_moved *ret, struct err *err)
{
	AUTO(copying_done)
	struct copying c = {
		.m = m, .t = t, .from = from->db, .to = to->db, .batch = BATCH_PARAMS / t->n_cols
	};
	struct moved_table *line = &ret->tables[ret->n_tables];
	struct sum there;
	int64_t last = 0;
	int r;

	c.batch = MAX(c.batch, 1);
	if (ret->n_tables == MOVED_TABLES_MAX)
		return err_set(err, -E2BIG, "too many tables");
	if ((r = move_count(from, t, &c.all, err)) < 0 ||
	    (r = begin_scan(c.from, t, "copy", true, &c.rows, err)) < 0 ||
	    (r = prepare_insert(c.to, t, c.batch, &c.many, err)) < 0 ||
	    (r = prepare_insert(c.to, t, 1, &c.one, err)) < 0 || (r = copy_rows(&c, err)) < 0 ||
	    (t->counted && ((r = c.from->ops->last_number(c.from, t->name, &last, err)) < 0 ||
	                    (r = c.to->ops->set_last_number(c.to, t->name, last, err)) < 0)) ||
	    (r = sum_table(c.to, t, &there, err)) < 0)
		return err_wrap(err, r, "table %s", t->name);
	if (memcmp(&there, &c.sum, sizeof(there)) != 0)
		return err_set(err, -EIO,
		               "table %s: %llu rows were written, and the %llu that were read "
		               "again are not the same",
		               t->name, (unsigned long long)c.sum.rows,
		               (unsigned long long)there.rows);
	snprintf(line->name, sizeof(line->name), "%s", t->name);
	snprintf(line->sum, sizeof(line->sum), "%016llx", (unsigned long long)there.v[0]);
	line->rows = there.rows;
	ret->rows += there.rows;
	ret->n_tables++;
	return 0;
}
