/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_move_internal.h - shared by store_move.c (the order of things) and store_move_rows.c
 * (tables); for them only */
#pragma once

#include "store/store_internal.h"
#include "store/store_move.h"

#define MOVE_COLS_MAX 96
#define MOVE_NAME 48

/* What the schema says of a table. */
struct move_table {
	char name[MOVE_NAME];
	struct move_col {
		char name[MOVE_NAME];
		bool real; /* DOUBLE PRECISION: engines write it differently */
	} cols[MOVE_COLS_MAX];
	size_t n_cols;
	char parent[MOVE_NAME], key[MOVE_NAME]; /* a column that refers to the same table's key */
	bool counted;                           /* seq is given out by the database */
};

/* The tables of a SQLite database, each behind those that it refers to. The caller frees. */
int move_tables(struct store *file, struct move_table **ret, size_t *ret_n, struct err *err);
/* Rows of tables that are to be empty; those of meta that each side has of its own do not count. */
int move_count(struct store *s, const struct move_table *t, uint64_t *ret, struct err *err);
int move_empty(struct store *s, const struct move_table *t, size_t n, struct err *err);
/* Copies all rows, and compares them afterwards: adds a line to *ret. In transactions of both. */
int move_rows(const struct store_move *m, struct store *from, struct store *to,
              const struct move_table *t, struct store_moved *ret, struct err *err);
