/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - open, check and migrate the database
 *
 * Order: create the file with mode 0600, open it, verify that it is a sound database
 * (quick_check), reject one that is newer than the program or another program's, then apply each
 * missing migration in a transaction of its own together with its number. A
 * crash in the middle leaves the previous version; the next start continues.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"

static const char damaged[] =
        "the database '%s' is damaged (%s): restore it from a backup, or move it away to start "
        "empty";

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
		sqlite3_finalize(s->stmts[i]);
	sqlite3_close(s->db);
	reserve_close(s);
	feed_close(s);
	mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static int exec(struct store *s, const char *sql, struct err *err)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0
	                       : store_fail(s, sqlite3_extended_errcode(s->db), err, "database");
}

/* One value; "" if there is no row. */
static int ask(struct store *s, const char *sql, char *ret, size_t size, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);

	ret[0] = '\0';
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && sqlite3_column_text(st, 0))
		snprintf(ret, size, "%s", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	if (rc == SQLITE_ROW || rc == SQLITE_DONE)
		return 0;
	return store_fail(s, rc, err, "database");
}

static int create_file(const char *path, struct err *err)
{
	autofd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(err, -errno, "open the database '%s'", path);
	return 0;
}

static int check_sound(struct store *s, const char *path, struct err *err)
{
	struct err why = { 0 };
	char text[160];
	int r = ask(s, "PRAGMA quick_check(1)", text, sizeof(text), &why);

	if (r == -EUCLEAN)
		return err_tag(err, r, ERR_DATABASE_ERROR, damaged, path, sqlite3_errmsg(s->db));
	if (r < 0)
		return err_tag(err, r, ERR_DATABASE_ERROR, "read the database '%s': %s", path,
		               why.msg);
	if (strcmp(text, "ok") != 0)
		return err_tag(err, -EUCLEAN, ERR_DATABASE_ERROR, damaged, path, text);
	return 0;
}

static int read_version(struct store *s, const char *path, unsigned *ret, struct err *err)
{
	char text[64];
	unsigned v;
	int r;

	if ((r = ask(s, "SELECT COUNT(*) FROM sqlite_master WHERE name = 'migrations'", text,
	             sizeof(text), err)) < 0)
		return r;
	if (strcmp(text, "0") == 0) {
		if ((r = ask(s, "SELECT name FROM sqlite_master LIMIT 1", text, sizeof(text),
		             err)) < 0)
			return r;
		if (text[0])
			return err_set(err, -EMEDIUMTYPE,
			               "'%s' is a database of another program (it has '%s')", path,
			               text);
		*ret = 0;
		return 0;
	}
	if ((r = ask(s, "SELECT COALESCE(MAX(version), 0) FROM migrations", text, sizeof(text),
	             err)) < 0)
		return r;
	v = (unsigned)strtoul(text, NULL, 10);
	if (v > s->n_migrations)
		return err_set(err, -ENOTSUP,
		               "the database '%s' has schema version %u, this program knows up to "
		               "%u: it was used with a newer version of Pando, start that one",
		               path, v, s->n_migrations);
	*ret = v;
	return 0;
}

static int apply(struct store *s, unsigned from, struct err *err)
{
	autotx struct tx t = { 0 };
	char sql[128];
	int r;

	snprintf(sql, sizeof(sql), "INSERT INTO migrations (version, applied_ms) VALUES (%u, %lld)",
	         from + 1, (long long)clock_wall_ms());
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = exec(s,
	              "CREATE TABLE IF NOT EXISTS migrations"
	              " (version BIGINT PRIMARY KEY, applied_ms BIGINT NOT NULL)",
	              err)) < 0 ||
	    (r = exec(s, s->migrations[from], err)) < 0 || (r = exec(s, sql, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int migrate(struct store *s, const char *path, struct err *err)
{
	unsigned v = 0;
	int r = read_version(s, path, &v, err);

	for (; r >= 0 && v < s->n_migrations; v++) {
		r = apply(s, v, err);
		if (r < 0)
			err_wrap(err, r, "migrate the database '%s' to version %u", path, v + 1);
	}
	return r;
}

int store_open(const char *path, struct store **ret, struct err *err)
{
	int r = store_open_with(path, store_migrations, store_n_migrations, ret, err);

	if (r == 0)
		reserve_open(*ret, path);
	return r;
}

int store_open_with(const char *path, const char *const *migrations, unsigned n_migrations,
                    struct store **ret, struct err *err)
{
	AUTO(store_closep) struct store *s = NULL;
	int r = create_file(path, err), rc;

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->migrations = migrations;
	s->n_migrations = n_migrations;
	s->reserve_fd = -1;
	mutex_init(&s->feed_lock, "store feed");
	mutex_init(&s->lock, "store");
	/* SQLite needs no mutex of its own: ours is held around every use. */
	rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		return err_set(err, -EIO, "open the database '%s': %s", path,
		               s->db ? sqlite3_errmsg(s->db) : "out of memory");
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, STORE_BUSY_MS);
	if ((r = check_sound(s, path, err)) < 0)
		return r;
	if ((r = exec(s, "PRAGMA journal_mode = WAL", err)) < 0 ||
	    (r = exec(s, "PRAGMA synchronous = FULL", err)) < 0 ||
	    (r = exec(s, "PRAGMA foreign_keys = ON", err)) < 0 ||
	    (r = exec(s, "CREATE TEMP TABLE held (id TEXT PRIMARY KEY)", err)) < 0)
		return err_wrap(err, r, "prepare the database '%s'", path);
	if ((r = migrate(s, path, err)) < 0 || (r = secret_look(s, err)) < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}
