/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_row.c - C structs to table rows and back, by column table
 *
 * The statement texts are built from the table on each call and found in the
 * statement cache by their text.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define COLUMN_SIZE 80 /* "table.column" */

/* Text of limited size; exceeding it is a bug that sql_end() reports. */
struct sql {
	char text[STORE_SQL_MAX];
	size_t n;
};

static void sql_add(struct sql *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void sql_add(struct sql *q, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (q->n >= sizeof(q->text))
		return;
	va_start(ap, fmt);
	n = vsnprintf(q->text + q->n, sizeof(q->text) - q->n, fmt, ap);
	va_end(ap);
	q->n += n < 0 ? sizeof(q->text) : (size_t)n;
}

static int sql_begin(struct query *q, struct store *s, const struct sql *text, struct err *err)
{
	if (text->n >= sizeof(text->text))
		return err_set(err, -ENOBUFS, "statement of more than %d bytes", STORE_SQL_MAX);
	return query_begin(q, s, text->text, err);
}

/* "git_credentials.secret", and the row's key. */
static struct secret_place place(const struct table *t, const struct col *c, const void *row,
                                 char column[COLUMN_SIZE])
{
	snprintf(column, COLUMN_SIZE, "%s.%s", t->name, c->name);
	return (struct secret_place){ column, (const char *)row + t->cols[0].off };
}

static void bind_col(struct query *q, const struct table *t, const struct col *c, const void *row)
{
	char column[COLUMN_SIZE];
	const void *p = (const char *)row + c->off;

	switch (c->type) {
	case COL_TEXT:
		query_bind_text(q, p);
		break;
	case COL_REF:
		query_bind_ref(q, p);
		break;
	case COL_U32:
		query_bind_i64(q, *(const uint32_t *)p);
		break;
	case COL_INT:
		query_bind_i64(q, *(const int *)p);
		break;
	case COL_I64:
		query_bind_i64(q, *(const int64_t *)p);
		break;
	case COL_U64:
		if (*(const uint64_t *)p > INT64_MAX)
			q->failed = -ERANGE;
		query_bind_i64(q, (int64_t) * (const uint64_t *)p);
		break;
	case COL_BOOL:
		query_bind_i64(q, *(const bool *)p);
		break;
	case COL_DOUBLE:
		query_bind_double(q, *(const double *)p);
		break;
	case COL_WORD: {
		int v = *(const int *)p;

		if (v < 0 || v >= c->n_words) {
			q->failed = -EINVAL;
			v = 0;
		}
		query_bind_text(q, c->words[v]);
		break;
	}
	case COL_SECRET:
		query_bind_secret(q, place(t, c, row, column), p);
		break;
	}
}

static int read_word(struct query *q, const struct col *c)
{
	char word[32];

	query_read_text(q, word, sizeof(word));
	for (int i = 0; i < c->n_words; i++)
		if (strcmp(word, c->words[i]) == 0)
			return i;
	q->failed = -EUCLEAN;
	return 0;
}

static void read_secret(struct query *q, const struct table *t, const struct col *c, void *row)
{
	char column[COLUMN_SIZE];
	autowipe char *v = query_read_secret(q, place(t, c, row, column));
	char *p = (char *)row + c->off;

	if (v && strlen(v) < c->size)
		memcpy(p, v, strlen(v) + 1);
	else if (v)
		q->failed = -EUCLEAN;
}

static void read_col(struct query *q, const struct table *t, const struct col *c, void *row)
{
	void *p = (char *)row + c->off;

	switch (c->type) {
	case COL_TEXT:
	case COL_REF:
		query_read_text(q, p, c->size);
		break;
	case COL_U32:
		*(uint32_t *)p = (uint32_t)query_read_i64(q, 0, UINT32_MAX);
		break;
	case COL_INT:
		*(int *)p = (int)query_read_i64(q, INT32_MIN, INT32_MAX);
		break;
	case COL_I64:
		*(int64_t *)p = query_read_i64(q, INT64_MIN, INT64_MAX);
		break;
	case COL_U64:
		*(uint64_t *)p = (uint64_t)query_read_i64(q, 0, INT64_MAX);
		break;
	case COL_BOOL:
		*(bool *)p = query_read_i64(q, 0, 1) != 0;
		break;
	case COL_DOUBLE:
		*(double *)p = query_read_double(q);
		break;
	case COL_WORD:
		*(int *)p = read_word(q, c);
		break;
	case COL_SECRET:
		read_secret(q, t, c, row);
		break;
	}
}

static void sql_select(struct sql *text, const struct table *t)
{
	sql_add(text, "SELECT ");
	for (size_t i = 0; i < t->n_cols; i++)
		sql_add(text, "%s%s", i ? ", " : "", t->cols[i].name);
	sql_add(text, " FROM %s ", t->name);
}

int row_missing(const struct table *t, const char *key, struct err *err)
{
	return err_tag(err, -ENOENT, t->missing_tag, "no %s '%s'", t->noun, key);
}

int row_insert(struct store *s, const struct table *t, const void *row, struct err *err)
{
	autoquery struct query q = { 0 };
	struct sql text = { .n = 0 };
	int r;

	sql_add(&text, "INSERT INTO %s (", t->name);
	for (size_t i = 0; i < t->n_cols; i++)
		sql_add(&text, "%s%s", i ? ", " : "", t->cols[i].name);
	sql_add(&text, ") VALUES (");
	for (size_t i = 0; i < t->n_cols; i++)
		sql_add(&text, "%s$%zu", i ? ", " : "", i + 1);
	sql_add(&text, ")");
	r = sql_begin(&q, s, &text, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < t->n_cols; i++)
		bind_col(&q, t, &t->cols[i], row);
	r = query_run(&q, err);
	if (r < 0)
		return err_wrap(err, r, "add %s '%s'", t->noun, (const char *)row + t->cols[0].off);
	return 0;
}

int row_update(struct store *s, const struct table *t, const void *row, struct err *err)
{
	const char *key = (const char *)row + t->cols[0].off;
	autoquery struct query q = { 0 };
	struct sql text = { .n = 0 };
	int r;

	sql_add(&text, "UPDATE %s SET ", t->name);
	for (size_t i = 1; i < t->n_cols; i++)
		sql_add(&text, "%s%s = $%zu", i > 1 ? ", " : "", t->cols[i].name, i);
	sql_add(&text, " WHERE %s = $%zu", t->cols[0].name, t->n_cols);
	r = sql_begin(&q, s, &text, err);
	if (r < 0)
		return r;
	for (size_t i = 1; i < t->n_cols; i++)
		bind_col(&q, t, &t->cols[i], row);
	query_bind_text(&q, key);
	r = query_run(&q, err);
	if (r < 0)
		return err_wrap(err, r, "update %s '%s'", t->noun, key);
	return r == 0 ? row_missing(t, key, err) : 0;
}

int row_delete(struct store *s, const struct table *t, const char *key, struct err *err)
{
	autoquery struct query q = { 0 };
	struct sql text = { .n = 0 };
	int r;

	sql_add(&text, "DELETE FROM %s WHERE %s = $1", t->name, t->cols[0].name);
	r = sql_begin(&q, s, &text, err);
	if (r < 0)
		return r;
	query_bind_text(&q, key);
	r = query_run(&q, err);
	if (r < 0)
		return err_wrap(err, r, "delete %s '%s'", t->noun, key);
	return r == 0 ? row_missing(t, key, err) : 0;
}

int row_get(struct store *s, const struct table *t, const char *key, void *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	autowipe void *row = NULL;
	struct sql text = { .n = 0 };
	int r;

	sql_select(&text, t);
	sql_add(&text, "WHERE %s = $1", t->cols[0].name);
	r = sql_begin(&q, s, &text, err);
	if (r < 0)
		return r;
	query_bind_text(&q, key);
	r = query_step(&q, err);
	if (r < 0)
		return err_wrap(err, r, "read %s '%s'", t->noun, key);
	if (r == 0)
		return row_missing(t, key, err);
	row = calloc(1, t->row_size);
	if (!row)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < t->n_cols; i++)
		read_col(&q, t, &t->cols[i], row);
	r = query_read_end(&q, err);
	if (r < 0)
		return err_wrap(err, r, "read %s '%s'", t->noun, key);
	memcpy(ret, row, t->row_size);
	return 0;
}

int row_list(struct store *s, const struct table *t, const char *tail, const char *const *args,
             size_t n_args, void **ret, size_t *ret_n, struct err *err)
{
	autoquery struct query q = { 0 };
	struct sql text = { .n = 0 };
	autowipe char *rows = NULL;
	size_t n = 0, cap = 0;
	int r;

	sql_select(&text, t);
	sql_add(&text, "%s", tail);
	r = sql_begin(&q, s, &text, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_args; i++)
		query_bind_text(&q, args[i]);
	while ((r = query_step(&q, err)) > 0) {
		if (n == cap) {
			size_t want = cap ? 2 * cap : 16;
			autowipe char *old = rows; /* realloc would leave secrets behind */
			char *p = reallocarray(NULL, want, t->row_size);

			rows = p;
			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			if (old)
				memcpy(p, old, n * t->row_size);
			cap = want;
		}
		memset(rows + n * t->row_size, 0, t->row_size);
		for (size_t i = 0; i < t->n_cols; i++)
			read_col(&q, t, &t->cols[i], rows + n * t->row_size);
		n++;
	}
	if (r < 0 || (r = query_read_end(&q, err)) < 0)
		return err_wrap(err, r, "list each %s", t->noun);
	*ret = TAKE_PTR(rows);
	*ret_n = n;
	return 0;
}
