/* SPDX-License-Identifier: Apache-2.0 */
/* db_fx.c - see db_fx.h */
#include <ctype.h>
#include <libpq-fe.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "tests/unit/db_fx.h"

static const char *server(void)
{
	return getenv("PANDO_TEST_DATABASE");
}

bool db_is_pg(void)
{
	return server() != NULL;
}

static bool is_url(const char *where)
{
	return strncmp(where, "postgresql://", 13) == 0;
}

static PGresult *pg_run(PGconn *c, const char *sql)
{
	PGresult *res = PQexec(c, sql);
	ExecStatusType st = PQresultStatus(res);

	if (st != PGRES_COMMAND_OK && st != PGRES_TUPLES_OK)
		fail_msg("%s: %s", sql, PQerrorMessage(c));
	return res;
}

static PGconn *pg_open(const char *where)
{
	PGconn *c = PQconnectdb(where);

	if (PQstatus(c) != CONNECTION_OK)
		fail_msg("%s: %s", where, PQerrorMessage(c));
	PQclear(pg_run(c, "SET client_min_messages = warning"));
	return c;
}

const char *db_at(const struct tmpdir *t, const char *name, char *ret, size_t size)
{
	char schema[64] = "t_", sql[128];
	const char *last = strrchr(t->path, '-');
	PGconn *c;

	if (!db_is_pg())
		return tmpdir_file(t, name, ret, size);
	/* The directory's random part; quoted nowhere, so as hexadecimal digits. */
	for (const char *p = last ? last + 1 : t->path; *p && strlen(schema) < 30; p++)
		snprintf(schema + strlen(schema), 3, "%02x", (unsigned char)*p);
	for (const char *p = name; *p && strlen(schema) < 60; p++)
		snprintf(schema + strlen(schema), 2, "%c", isalnum((unsigned char)*p) ? *p : '_');
	snprintf(sql, sizeof(sql), "CREATE SCHEMA IF NOT EXISTS %s", schema);
	c = pg_open(server());
	PQclear(pg_run(c, sql));
	PQfinish(c);
	if (snprintf(ret, size, "%s&options=-csearch_path%%3D%s", server(), schema) >= (int)size)
		fail_msg("PANDO_TEST_DATABASE is too long: %s", server());
	return ret;
}

void db_poke(const char *where, const char *sql)
{
	sqlite3 *db = NULL;

	if (is_url(where)) {
		PGconn *c = pg_open(where);

		PQclear(pg_run(c, sql));
		PQfinish(c);
		return;
	}
	assert_int_equal(sqlite3_open(where, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

void db_dump(const char *where, const char *sql, struct buf *out)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;

	if (is_url(where)) {
		PGconn *c = pg_open(where);
		PGresult *res = pg_run(c, sql);

		for (int i = 0; i < PQntuples(res); i++)
			buf_printf(out, "%s\n", PQgetvalue(res, i, 0));
		PQclear(res);
		PQfinish(c);
		return;
	}
	assert_int_equal(sqlite3_open_v2(where, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW)
		buf_printf(out, "%s\n", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	sqlite3_close(db);
}
