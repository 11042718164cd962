/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_move.h - all rows from a data directory's SQLite files to PostgreSQL, and back; for
 * migrate.c
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct err;

struct store_move {
	const char *data_dir, *database; /* database: postgresql://... */
	bool back;                       /* from the database to the files */
	bool check;                      /* write nothing */
	bool has_objects;                /* an object store is set: files may be only there */
	/* What is being done; of a table: its name and how far it is. NULL: nobody wants to know */
	void (*say)(void *ctx, const char *what, uint64_t done, uint64_t all);
	void *ctx;
};

enum { MOVED_TABLES_MAX = 96 };
struct store_moved {
	struct moved_table {
		char name[48];
		uint64_t rows;
		char sum[17]; /* of all rows, the same on both sides */
	} tables[MOVED_TABLES_MAX];
	size_t n_tables;
	uint64_t rows;
	unsigned suspended, stopped, lost; /* VMs */
	uint64_t only_stored;              /* files that are only in the object store */
	uint64_t missing;                  /* and those that are nowhere */
	char cluster[ID_SIZE];
	bool finished; /* an earlier run had moved the rows: what it had left was done */
};

/*
 * Afterwards all rows are on the other side and the start is refused on this one, or nothing has
 * changed. Run again after an interruption, it finishes. The server must not run.
 */
int store_move(const struct store_move *m, struct store_moved *ret, struct err *err);
