/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - open, check and migrate the database
 *
 * Order: open it, have the engine verify that it can be used, reject one that is newer than the
 * program or another program's, then apply each missing migration in a transaction of its own
 * together with its number. A crash in the middle leaves the previous version; the next start
 * continues. Where two programs start at once, one of them waits for the other's step and goes on
 * behind it.
 *
 * A database that several machines could share (PostgreSQL) may be newer than the program: while
 * machines are upgraded one after the other, the first of them migrates it and the others go on.
 * "schema_oldest" in meta is the oldest version whose programs can still use it; it is written by
 * whoever migrates. store_schema.c has the rule that makes this safe, test_store_schema.c checks
 * it.
 */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "store/store_audit.h"
#include "store/store_internal.h"
#include "store/store_node.h"

static void store_closep(struct store **s)
{
	store_close(*s);
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	if (s->secrets)
		secrets_drop(s->secrets, s);
	for (unsigned i = 0; i < s->n_stmts; i++)
		s->db->ops->finalize(s->db, s->stmts[i]);
	if (s->db)
		s->db->ops->close(s->db);
	reserve_close(s);
	feed_close(s);
	mutex_destroy(&s->lock);
	free(s->where);
	free(s);
	return NULL;
}

bool store_is_shared(const struct store *s)
{
	return s->db->ops->shared;
}

const char *store_where(const struct store *s)
{
	return s->where;
}

/* ---- meta ---- */

int meta_put(struct store *s, const char *key, const char *value, struct err *err)
{
	const char *args[] = { key, value };
	int r = run_text(s, "DELETE FROM meta WHERE key = $1", args, 1, err);

	return r < 0 || !value
	               ? r
	               : run_text(s, "INSERT INTO meta (key, value) VALUES ($1, $2)", args, 2, err);
}

int meta_get(struct store *s, const char *key, char **ret, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT value FROM meta WHERE key = $1", err);

	if (r < 0)
		return r;
	query_bind_text(&q, key);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	*ret = query_read_strdup(&q);
	return query_read_end(&q, err);
}

/* ---- versions ---- */

/* One value; "" if there is no row. arg: its parameter, or NULL. */
static int ask(struct store *s, const char *sql, const char *arg, char *ret, size_t size,
               struct err *err)
{
	autoquery struct query q = { 0 };
	const char *v;
	int r = query_begin(&q, s, sql, err);

	ret[0] = '\0';
	if (r < 0)
		return r;
	if (arg)
		query_bind_text(&q, arg);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	v = query_peek_text(&q);
	snprintf(ret, size, "%s", v ? v : "");
	return 0;
}

static int judge_newer(struct store *s, unsigned v, struct err *err)
{
	const char *name = s->db->ops->name(s->db);
	char oldest[16] = "";
	int r = 0;

	if (s->db->ops->shared && s->log)
		return 0; /* its schema only ever expands */
	if (s->db->ops->shared)
		r = ask(s, "SELECT value FROM meta WHERE key = $1", "schema_oldest", oldest,
		        sizeof(oldest), err);
	if (r < 0)
		return r;
	if (*oldest && strtoul(oldest, NULL, 10) <= s->n_migrations) {
		log_warn("the database '%s' has schema version %u, this program knows up to %u: "
		         "a newer version of Pando uses it, too",
		         name, v, s->n_migrations);
		return 0;
	}
	return err_set(err, -ENOTSUP,
	               "the database '%s' has schema version %u, this program knows up to "
	               "%u: it was used with a newer version of Pando, start that one",
	               name, v, s->n_migrations);
}

static int read_version(struct store *s, unsigned *ret, struct err *err)
{
	char text[64], sql[96];
	int r;

	if ((r = ask(s, s->db->ops->table_named, s->ledger, text, sizeof(text), err)) < 0)
		return r;
	if (strcmp(text, "0") == 0) {
		if ((r = ask(s, s->db->ops->table_foreign, NULL, text, sizeof(text), err)) < 0)
			return r;
		if (text[0])
			return err_set(err, -EMEDIUMTYPE,
			               "'%s' is a database of another program (it has '%s')",
			               s->db->ops->name(s->db), text);
		*ret = 0;
		return 0;
	}
	snprintf(sql, sizeof(sql), "SELECT COALESCE(MAX(version), 0) FROM %s", s->ledger);
	if ((r = ask(s, sql, NULL, text, sizeof(text), err)) < 0)
		return r;
	*ret = (unsigned)strtoul(text, NULL, 10);
	return *ret > s->n_migrations ? judge_newer(s, *ret, err) : 0;
}

/* Whoever has this version applied knows what the ones before it need. */
static int put_oldest(struct store *s, unsigned version, struct err *err)
{
	char text[16];

	if (!s->db->ops->shared || s->log)
		return 0;
	snprintf(text, sizeof(text), "%u", MIN(store_schema_oldest, version));
	return meta_put(s, "schema_oldest", text, err);
}

/* The version after it: another program may have been quicker. */
static int apply(struct store *s, unsigned from, unsigned *ret, struct err *err)
{
	autotx struct tx t = { 0 };
	const struct db_ops *ops = s->db->ops;
	char sql[160];
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = read_version(s, ret, err)) < 0 || *ret > from)
		return r;
	snprintf(sql, sizeof(sql),
	         "CREATE TABLE IF NOT EXISTS %s"
	         " (version BIGINT PRIMARY KEY, applied_ms BIGINT NOT NULL)",
	         s->ledger);
	if ((r = ops->exec(s->db, sql, err)) < 0 ||
	    (r = ops->define(s->db, s->migrations[from], err)) < 0)
		return r;
	snprintf(sql, sizeof(sql), "INSERT INTO %s (version, applied_ms) VALUES (%u, %lld)",
	         s->ledger, from + 1, (long long)clock_wall_ms());
	if ((r = ops->exec(s->db, sql, err)) < 0 || (r = put_oldest(s, from + 1, err)) < 0)
		return r;
	*ret = from + 1;
	return tx_commit(&t, err);
}

static int migrate(struct store *s, struct err *err)
{
	unsigned v = 0;
	int r;

	mutex_lock(&s->lock);
	r = read_version(s, &v, err);
	mutex_unlock(&s->lock);
	while (r >= 0 && v < s->n_migrations) {
		unsigned from = v;

		r = apply(s, from, &v, err);
		if (r < 0)
			err_wrap(err, r, "migrate the database '%s' to version %u",
			         s->db->ops->name(s->db), from + 1);
	}
	return r;
}

/* ---- opening ---- */

/* Only with the present schema, or with none. */
static int look_version(struct store *s, bool empty_too, struct err *err)
{
	unsigned v = 0;
	int r;

	mutex_lock(&s->lock);
	r = read_version(s, &v, err);
	mutex_unlock(&s->lock);
	if (r < 0 || v == s->n_migrations || (v == 0 && empty_too))
		return r;
	return err_set(err, -EINVAL,
	               "the database '%s' has schema version %u, this program's is %u: start and "
	               "stop this version of the server with it once",
	               s->db->ops->name(s->db), v, s->n_migrations);
}

static int open_at(const struct db_conf *c, const char *const *migrations, unsigned n_migrations,
                   struct store **ret, struct err *err)
{
	AUTO(store_closep) struct store *s = calloc(1, sizeof(*s));
	bool pg = db_where_is_pg(c->where);
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->migrations = migrations;
	s->n_migrations = n_migrations;
	s->log = c->log;
	s->ledger = pg && c->log ? "audit_migrations" : "migrations";
	s->reserve_fd = -1;
	mutex_init(&s->feed_lock, "store feed");
	mutex_init(&s->lock, "store");
	s->where = strdup(c->where);
	if (!s->where)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = feed_refusals_open(s, err)) < 0 ||
	    (r = pg ? db_pg_open(c, &s->db, err) : db_sqlite_open(c, &s->db, err)) < 0 ||
	    (r = s->db->ops->check(s->db, err)) < 0 ||
	    (r = c->as_it_is ? look_version(s, c->empty_too, err) : migrate(s, err)) < 0 ||
	    (!c->empty_too && (r = secret_look(s, err)) < 0))
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

int store_open_with(const char *where, const char *const *migrations, unsigned n_migrations,
                    struct store **ret, struct err *err)
{
	struct db_conf c = { .where = where };

	return open_at(&c, migrations, n_migrations, ret, err);
}

int store_open_log(const char *where, const char *const *migrations, unsigned n_migrations,
                   struct store **ret, struct err *err)
{
	struct db_conf c = { .where = where, .log = true };

	return open_at(&c, migrations, n_migrations, ret, err);
}

int store_open_still(const char *where, bool log, bool empty_too, struct store **ret,
                     struct err *err)
{
	struct db_conf c = {
		.where = where, .log = log, .alone = !log, .as_it_is = true, .empty_too = empty_too
	};

	return log ? open_at(&c, audit_migrations, audit_n_migrations, ret, err)
	           : open_at(&c, store_migrations, store_n_migrations, ret, err);
}

int store_open_as(const char *where, const char *node, struct store **ret, struct err *err)
{
	struct db_conf c = { .where = where, .alone = true, .node = node };
	int r = open_at(&c, store_migrations, store_n_migrations, ret, err);

	if (r == 0 && !store_is_shared(*ret))
		reserve_open(*ret, where);
	return r;
}

int store_open(const char *where, struct store **ret, struct err *err)
{
	return store_open_as(where, NULL, ret, err);
}

int store_open_beside(const char *where, unsigned answer_ms, struct store **ret, struct err *err)
{
	struct db_conf c = { .where = where, .answer_ms = answer_ms };

	return open_at(&c, store_migrations, store_n_migrations, ret, err);
}
