/* SPDX-License-Identifier: Apache-2.0 */
/* store/db_pg_internal.h - shared by db_pg.c (statements) and db_pg_conn.c (the connection) */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/db_internal.h"

#define PG_ANSWER_MS 75000 /* for one answer: longer than the server's own limits below */
#define PG_STATEMENT_MS 60000
#define PG_LOCK_MS 30000 /* for other transactions to end */

struct pg_db {
	struct db db;
	struct db_conf conf; /* where: owned */
	char name[256];      /* for messages: without the password */
	PGconn *conn;        /* owned; NULL: none */
	uint64_t connection; /* how many there were: statements are prepared on each */
	unsigned n_stmts;
	unsigned answer_ms; /* for one answer; PG_ANSWER_MS but in tests */
	bool in_tx;
	const char *begin; /* the words that begin a transaction */
};

static inline struct pg_db *pg_of(struct db *d)
{
	return (struct pg_db *)d;
}

extern const struct db_ops db_pg_ops;

/* ---- db_pg.c ---- */
/* Statements without parameters; *ret: the last answer. Caller clears. */
int pg_run(struct pg_db *p, const char *sql, PGresult **ret, struct err *err);

/* ---- db_pg_conn.c ---- */
/* Replaces the connection by a new one, ready for statements. */
int pg_connect(struct pg_db *p, struct err *err);
void pg_drop(struct pg_db *p);
int pg_check(struct db *d, struct err *err);
void pg_close(struct db *d);
