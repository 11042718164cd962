/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_move_internal.h - shared by store_move.c (the order of things) and store_move_rows.c
 * (tables); for them only */
#pragma once

#include <limits.h>

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

struct move {
	const struct store_move *m;
	struct store *file, *audit; /* owned; pando.db and audit.db, or what becomes of them */
	struct store *base;         /* owned; PostgreSQL */
	struct move_table *tables, *audit_tables; /* owned */
	size_t n_tables, n_audit_tables;
	char ours[ID_SIZE], wanted[ID_SIZE]; /* the files cluster and cluster.new; or "" */
	char node[ID_SIZE];                  /* of a cluster: this machine's id there, or "" */
	struct store_moved *ret;
};

/* ---- store_move_check.c ---- */
/* A file of the data directory; is it there? */
const char *move_at(const struct move *v, const char *name, char ret[PATH_MAX]);
bool move_has(const struct move *v, const char *name);
int move_text_of(struct store *s, const char *key, char ret[ID_SIZE], struct err *err);
int move_check_vms(struct move *v, struct store *s, struct err *err);
int move_check_sealed(struct store *s, struct err *err);
int move_check_clock(struct store *s, struct err *err);
int move_check_target(struct move *v, struct err *err);
int move_check_self(struct move *v, struct err *err);
int move_check_files(struct move *v, const char *sql, const char *dir, const char *suffix,
                     struct err *err);
int move_check_repos(struct move *v, struct err *err);
int move_check_room(struct move *v, struct err *err);
