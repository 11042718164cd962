/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/db_internal.h - what a database engine does for the store; for store/ only
 *
 * Theory of operation: everything above store_sql.c is written once, in SQL that SQLite and
 * PostgreSQL both understand. Below it are two engines with the operations listed here: db_sqlite.c
 * (a file, the default) and db_pg.c (a server, by libpq). Every call is made with the store's lock
 * held. The place tells them apart: postgresql://... or postgres://... is the latter, all else a
 * path.
 *
 * A transaction means the same on both: nobody else writes between its begin and its end. SQLite's
 * BEGIN IMMEDIATE does that by itself; on PostgreSQL it is an advisory lock that every transaction
 * of the store takes first (decision 0025 has what that costs and what is to replace it).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct db {
	const struct db_ops *ops;
};

/* A prepared statement: at most one execution at a time. */
struct db_stmt {
	char *sql;    /* owned */
	int n_params; /* $1 ... */
};

struct db_conf {
	const char *where;
	bool log; /* of requests (store_audit.h): shares a PostgreSQL database with the store */
	/* PostgreSQL: no other process may have it open like this, unless both are nodes. */
	bool alone;
	const char *node;   /* weak; with alone: the id of this node, which no other process has */
	bool as_it_is;      /* no step of the schema is applied */
	bool empty_too;     /* with that: a database without any is fine, too */
	unsigned answer_ms; /* for an answer, and for a connection; 0: the default */
};

/* What was overwritten or deleted must not be left behind. */
enum db_scrub {
	DB_SCRUB_ON,  /* from now on */
	DB_SCRUB_LOG, /* in the log of changes */
	DB_SCRUB_ALL, /* in places that are free now */
};

/* Numbers of parameters and columns begin with 0. -errno and a message on failure. */
struct db_ops {
	bool shared; /* several machines could reach it */
	/* Statements that differ: is there a table of this name; any table of another program */
	const char *table_named, *table_foreign;
	/* The last number that feed.seq got, or no row. */
	const char *feed_last;
	/* Milliseconds since the epoch by the database's clock; NULL: it has none of its own. */
	const char *clock;

	void (*close)(struct db *d);
	/* The name for messages: a path, or a URL without its password. */
	const char *(*name)(struct db *d);
	/* Verifies that it can be used at all; then settings of the connection. */
	int (*check)(struct db *d, struct err *err);
	/* Statements without parameters whose rows nobody reads. */
	int (*exec)(struct db *d, const char *sql, struct err *err);
	/* A step of the schema, in the words of the engine. */
	int (*define)(struct db *d, const char *sql, struct err *err);
	int (*scrub)(struct db *d, enum db_scrub what, struct err *err);

	int (*prepare)(struct db *d, const char *sql, struct db_stmt **ret, struct err *err);
	void (*finalize)(struct db *d, struct db_stmt *st);
	int (*bind_text)(struct db_stmt *st, int i, const char *v); /* NULL: NULL */
	int (*bind_i64)(struct db_stmt *st, int i, int64_t v);
	int (*bind_double)(struct db_stmt *st, int i, double v);
	/* 1: there is a row, 0: no more. */
	int (*step)(struct db *d, struct db_stmt *st, struct err *err);
	int (*changes)(struct db *d, struct db_stmt *st);
	/* Of the present row; valid until the next step. NULL: NULL. */
	const char *(*text)(struct db_stmt *st, int i, size_t *ret_n);
	int64_t (*i64)(struct db_stmt *st, int i);
	double (*dbl)(struct db_stmt *st, int i);
	void (*reset)(struct db_stmt *st); /* no row, nothing bound */

	/*
	 * For copying whole databases (store_move_rows.c). The transaction that this begins has
	 * the database to itself: -EBUSY if somebody else has it open.
	 */
	int (*seize)(struct db *d, struct err *err);
	/*
	 * In a transaction: the rows of a SELECT one after the other, however many there are.
	 * name: of letters, its own. *ret ends with finalize().
	 */
	int (*scan)(struct db *d, const char *name, const char *select, struct db_stmt **ret,
	            struct err *err);
	const char *size; /* bytes of all of it */
	/* The last number that the table's AUTOINCREMENT gave out; 0: none yet. */
	int (*last_number)(struct db *d, const char *table, int64_t *ret, struct err *err);
	int (*set_last_number)(struct db *d, const char *table, int64_t last, struct err *err);

	int (*begin)(struct db *d, struct err *err);
	int (*commit)(struct db *d, struct err *err);
	void (*rollback)(struct db *d); /* nothing if there is no transaction any more */
};

bool db_where_is_pg(const char *where);
int db_sqlite_open(const struct db_conf *c, struct db **ret, struct err *err);
int db_pg_open(const struct db_conf *c, struct db **ret, struct err *err);

/* The sentences that both engines say. what: what was being done. */
int db_fail(struct err *err, int code, const char *what, const char *message);
