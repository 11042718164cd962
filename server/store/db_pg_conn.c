/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db_pg_conn.c - the store in PostgreSQL: making connections, and what is refused
 *
 * Order: connect within PG_CONNECT_S, look at the server (version, encoding, collation), set the
 * session's limits, make the temporary table of garbage collection. Then, for the store of pandod,
 * take the session's locks: one pandod may use a database, or several that are all nodes, each with
 * an id of its own; others are refused. It is tried for PG_ALONE_MS, because the session of a
 * pandod that was killed may take a moment to end, and that of a machine that died a few seconds
 * (PG_NOTICE_WORDS).
 *
 * The same happens after a lost connection. A pandod that finds its database taken by another one
 * then gets errors for everything it wants to store, until that one ends.
 *
 * The encoding must be SQL_ASCII (bytes as they come): names, messages and paths of guests and of
 * Git are not always UTF-8, and a database that checks them would refuse rows that SQLite keeps.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "store/db_pg_internal.h"

#define PG_CONNECT_S "5"     /* per address of the server */
#define PG_DEAD_MS "8000"    /* without an acknowledgement of what was sent: the peer is gone */
#define PG_ALONE_MS 5000     /* for the session of an earlier pandod to end */
#define PG_NODE_IDLE_MS 5000 /* within a transaction, between two statements of it */
#define PG_VERSION_MIN 130000

/*
 * For the server's end: a machine that loses its power or its network says nothing, and its session
 * keeps its locks, without which it cannot come back. The system's defaults are two hours.
 */
#define PG_NOTICE_WORDS                                                 \
	"SET tcp_keepalives_idle = 4; SET tcp_keepalives_interval = 2;" \
	"SET tcp_keepalives_count = 2; SET tcp_user_timeout = 8000;"

/* Numbers of advisory locks; the second one is the schema's, so that each has its own. */
#define LOCK_ALONE "1346454607"
#define LOCK_TX "1346454608"
#define LOCK_LOG "1346454609"
#define LOCK_NODE "1346454610" /* the second number is the node's */
#define TX_WORDS(lock) "BEGIN; SELECT pg_advisory_xact_lock(" lock ", hashtext(current_schema()))"

static void clear_result(PGresult **r)
{
	PQclear(*r);
}

bool db_where_is_pg(const char *where)
{
	return strncmp(where, "postgresql://", 13) == 0 || strncmp(where, "postgres://", 11) == 0;
}

/* postgresql://user@host:port/database */
static void set_name(struct pg_db *p, PQconninfoOption *o)
{
	const char *host = "", *port = "", *user = "", *db = "";

	for (; o && o->keyword; o++) {
		const char *v = o->val ? o->val : "";

		if (strcmp(o->keyword, "host") == 0)
			host = v;
		else if (strcmp(o->keyword, "port") == 0)
			port = v;
		else if (strcmp(o->keyword, "user") == 0)
			user = v;
		else if (strcmp(o->keyword, "dbname") == 0)
			db = v;
	}
	snprintf(p->name, sizeof(p->name), "postgresql://%s%s%s%s%s/%s", user, *user ? "@" : "",
	         host, *port ? ":" : "", port, db);
}

static void ignore_notice(void *arg, const char *message)
{
	log_debug("database: %s", message);
}

void pg_drop(struct pg_db *p)
{
	PQfinish(p->conn);
	p->conn = NULL;
}

void pg_close(struct db *d)
{
	struct pg_db *p = pg_of(d);

	if (!p)
		return;
	pg_drop(p);
	free((char *)p->conf.where);
	free((char *)p->conf.node);
	free(p);
}

/* ---- what is refused ---- */

static int refuse_connection(struct pg_db *p, struct err *err)
{
	const char *said = p->conn ? PQerrorMessage(p->conn) : "out of memory";
	int needs = p->conn && PQconnectionNeedsPassword(p->conn);
	/* libpq has no code for a failed connection, only the server's words. */
	bool credentials = needs || strstr(said, "authentication failed") ||
	                   strstr(said, "no pg_hba.conf entry") ||
	                   (strstr(said, "role \"") && strstr(said, "does not exist"));
	bool missing = strstr(said, "database \"") && strstr(said, "does not exist");
	char text[200];

	snprintf(text, sizeof(text), "%s", said);
	text[strcspn(text, "\n")] = '\0';
	if (credentials)
		return err_tag(err, -EACCES, ERR_DATABASE_ERROR,
		               "the database '%s' does not accept our credentials (%s): check user "
		               "and password in PANDO_DATABASE",
		               p->name, text);
	if (missing)
		return err_tag(err, -EINVAL, ERR_DATABASE_ERROR,
		               "there is no database '%s': create it with CREATE DATABASE ... "
		               "TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C' (%s)",
		               p->name, text);
	return err_tag(err, -ENOTCONN, ERR_DATABASE_ERROR, "cannot reach the database '%s': %s",
	               p->name, text);
}

static int check_server(struct pg_db *p, struct err *err)
{
	AUTO(clear_result) PGresult *res = NULL;
	const char *encoding = PQparameterStatus(p->conn, "server_encoding");
	const char *collate;
	int r;

	if (PQserverVersion(p->conn) < PG_VERSION_MIN)
		return err_set(err, -EINVAL,
		               "the database '%s' is served by PostgreSQL %d: "
		               "use version 13 or newer",
		               p->name, PQserverVersion(p->conn) / 10000);
	r = pg_run(p,
	           "SELECT datcollate, current_schema() FROM pg_database WHERE datname = "
	           "current_database()",
	           &res, err);
	if (r < 0)
		return r;
	collate = PQntuples(res) == 1 ? PQgetvalue(res, 0, 0) : "";
	if (!encoding || strcmp(encoding, "SQL_ASCII") != 0 ||
	    (strcmp(collate, "C") != 0 && strcmp(collate, "POSIX") != 0))
		return err_set(err, -EINVAL,
		               "the database '%s' has encoding %s and collation %s, but names and "
		               "messages may be any bytes: create it with CREATE DATABASE ... "
		               "TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'",
		               p->name, encoding ? encoding : "(unknown)", collate);
	if (PQgetisnull(res, 0, 1))
		return err_set(err, -EINVAL,
		               "the database '%s' has no schema that '%s' may use: create the one "
		               "in its search_path",
		               p->name, PQuser(p->conn));
	return 0;
}

/* ---- connecting ---- */

static int set_session(struct pg_db *p, struct err *err)
{
	/* A node that is stopped in a transaction must not stop the others for long. */
	int idle_ms = p->conf.node ? PG_NODE_IDLE_MS : PG_STATEMENT_MS;
	char sql[600];

	/* A commit is on disk when it is acknowledged, whatever the server's default is; who has
	 * it wait for a standby (on, remote_apply) keeps that. */
	snprintf(sql, sizeof(sql),
	         PG_NOTICE_WORDS "SET statement_timeout = %d; SET lock_timeout = %d;"
	                         "SET idle_in_transaction_session_timeout = %d;"
	                         "SELECT set_config('synchronous_commit', 'on', false) WHERE "
	                         "current_setting('synchronous_commit') IN ('off', 'local');"
	                         "CREATE TEMP TABLE held (id TEXT PRIMARY KEY)",
	         PG_STATEMENT_MS, PG_LOCK_MS, idle_ms);
	return pg_run(p, sql, NULL, err);
}

/* 1: the session has the lock. */
static int try_lock(struct pg_db *p, const char *sql, struct err *err)
{
	AUTO(clear_result) PGresult *res = NULL;
	int r = pg_run(p, sql, &res, err);

	return r < 0 ? r : PQntuples(res) == 1 && *PQgetvalue(res, 0, 0) == 't';
}

static int wait_lock(struct pg_db *p, const char *sql, struct err *err)
{
	uint64_t until = clock_ms() + PG_ALONE_MS;
	int r;

	while ((r = try_lock(p, sql, err)) == 0 && clock_ms() < until)
		usleep(100 * 1000);
	return r;
}

/* Nodes share the lock that a machine by itself has alone; and each has one of its own. */
static int be_node(struct pg_db *p, struct err *err)
{
	char sql[160];
	int r = wait_lock(
	        p, "SELECT pg_try_advisory_lock_shared(" LOCK_ALONE ", hashtext(current_schema()))",
	        err);

	if (r == 0)
		return err_tag(err, -EBUSY, ERR_DATABASE_ERROR,
		               "a pandod without PANDO_NODE_ADDRESS uses the database '%s': stop "
		               "it, or make it a node",
		               p->name);
	if (r < 0)
		return r;
	/* an id has letters and digits only */
	snprintf(sql, sizeof(sql),
	         "SELECT pg_try_advisory_lock(" LOCK_NODE ", hashtext('%s' || current_schema()))",
	         p->conf.node);
	r = wait_lock(p, sql, err);
	if (r == 0)
		return err_tag(err, -EBUSY, ERR_DATABASE_ERROR,
		               "another pandod is node %s of the database '%s': stop it; a copy of "
		               "a data directory cannot be another node",
		               p->conf.node, p->name);
	return MIN(r, 0);
}

static int be_alone(struct pg_db *p, struct err *err)
{
	int r = wait_lock(
	        p, "SELECT pg_try_advisory_lock(" LOCK_ALONE ", hashtext(current_schema()))", err);

	if (r == 0)
		return err_tag(err, -EBUSY, ERR_DATABASE_ERROR,
		               "another pandod uses the database '%s': stop it, or give this one a "
		               "database of its own (machines that share one need "
		               "PANDO_NODE_ADDRESS)",
		               p->name);
	return MIN(r, 0);
}

int pg_connect(struct pg_db *p, struct err *err)
{
	/* What stands before dbname can be overridden there. */
	static const char *const names[] = { "connect_timeout",      "tcp_user_timeout",
		                             "keepalives_idle",      "application_name",
		                             "target_session_attrs", "dbname",
		                             "client_encoding",      NULL };
	const char *values[] = { p->conf.answer_ms ? "2" : PG_CONNECT_S,
		                 PG_DEAD_MS,
		                 "20",
		                 "pandod",
		                 "read-write",
		                 p->conf.where,
		                 "SQL_ASCII",
		                 NULL };
	int r;

	pg_drop(p);
	p->conn = PQconnectdbParams(names, values, /* expand_dbname= */ 1);
	if (!p->conn || PQstatus(p->conn) != CONNECTION_OK) {
		r = refuse_connection(p, err);
		pg_drop(p);
		return r;
	}
	p->connection++;
	PQsetNoticeProcessor(p->conn, ignore_notice, NULL);
	if (PQsetnonblocking(p->conn, 1) < 0)
		r = err_set(err, -EIO, "database '%s': %s", p->name, PQerrorMessage(p->conn));
	else if ((r = check_server(p, err)) >= 0 && (r = set_session(p, err)) >= 0 && p->conf.alone)
		r = p->conf.node ? be_node(p, err) : be_alone(p, err);
	if (r < 0)
		pg_drop(p);
	return r;
}

int pg_check(struct db *d, struct err *err)
{
	return pg_connect(pg_of(d), err);
}

int db_pg_open(const struct db_conf *c, struct db **ret, struct err *err)
{
	struct pg_db *p = calloc(1, sizeof(*p));
	PQconninfoOption *parsed;

	if (!p || !(p->conf.where = strdup(c->where)) ||
	    (c->node && !(p->conf.node = strdup(c->node)))) {
		if (p)
			free((char *)p->conf.where);
		free(p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	p->conf.log = c->log;
	p->conf.alone = c->alone;
	p->db.ops = &db_pg_ops;
	p->conf.answer_ms = c->answer_ms;
	p->answer_ms = c->answer_ms ? c->answer_ms : PG_ANSWER_MS;
	p->begin = c->log ? TX_WORDS(LOCK_LOG) : TX_WORDS(LOCK_TX);
	parsed = PQconninfoParse(c->where, NULL); /* its message could show the password */
	if (!parsed) {
		pg_close(&p->db);
		return err_set(err, -EINVAL,
		               "PANDO_DATABASE cannot be read: it must be like "
		               "postgresql://user:password@host:5432/database, with %%-codes for "
		               "other characters than letters and digits");
	}
	set_name(p, parsed);
	PQconninfoFree(parsed);
	*ret = &p->db;
	return 0;
}
