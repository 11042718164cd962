/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db_sqlite.c - the store in a file, by SQLite
 *
 * The file is made with mode 0600 and verified to be a sound database (quick_check) before
 * anything is done with it. One connection, whose only user holds the store's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/db_internal.h"
#include "store/store_internal.h"

struct file_db {
	struct db db;
	sqlite3 *sqlite;              /* owned */
	char *path;                   /* owned */
	sqlite3_stmt *begin, *commit; /* owned; made when they are first needed */
};

struct file_stmt {
	struct db_stmt st;
	sqlite3_stmt *sqlite; /* owned */
};

static const char damaged[] =
        "the database '%s' is damaged (%s): restore it from a backup, or move it away to start "
        "empty";

static struct file_db *file_of(struct db *d)
{
	return (struct file_db *)d;
}

static sqlite3_stmt *stmt_of(struct db_stmt *st)
{
	return ((struct file_stmt *)st)->sqlite;
}

static int errno_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_CONSTRAINT:
		return rc == SQLITE_CONSTRAINT_FOREIGNKEY ? -ENOLINK : -EEXIST;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	default:
		return -EIO;
	}
}

static int fail(struct file_db *f, int rc, const char *what, struct err *err)
{
	return db_fail(err, errno_of(rc), what, sqlite3_errmsg(f->sqlite));
}

static int file_exec(struct db *d, const char *sql, struct err *err)
{
	struct file_db *f = file_of(d);
	int rc = sqlite3_exec(f->sqlite, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : fail(f, sqlite3_extended_errcode(f->sqlite), "database", err);
}

static const char *file_name(struct db *d)
{
	return file_of(d)->path;
}

static void file_close(struct db *d)
{
	struct file_db *f = file_of(d);

	if (!f)
		return;
	sqlite3_finalize(f->begin);
	sqlite3_finalize(f->commit);
	sqlite3_close(f->sqlite);
	free(f->path);
	free(f);
}

/* ---- opening ---- */

static int check_sound(struct file_db *f, struct err *err)
{
	sqlite3_stmt *st = NULL;
	char text[160] = "";
	int rc = sqlite3_prepare_v2(f->sqlite, "PRAGMA quick_check(1)", -1, &st, NULL), r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && sqlite3_column_text(st, 0))
		snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		r = errno_of(rc);
	if (r == -EUCLEAN)
		return err_tag(err, r, ERR_DATABASE_ERROR, damaged, f->path,
		               sqlite3_errmsg(f->sqlite));
	if (r < 0)
		return err_tag(err, r, ERR_DATABASE_ERROR, "read the database '%s': database: %s",
		               f->path, sqlite3_errmsg(f->sqlite));
	if (strcmp(text, "ok") != 0)
		return err_tag(err, -EUCLEAN, ERR_DATABASE_ERROR, damaged, f->path, text);
	return 0;
}

static int file_check(struct db *d, struct err *err)
{
	int r = check_sound(file_of(d), err);

	if (r < 0)
		return r;
	if ((r = file_exec(d, "PRAGMA journal_mode = WAL", err)) < 0 ||
	    (r = file_exec(d, "PRAGMA synchronous = FULL", err)) < 0 ||
	    (r = file_exec(d, "PRAGMA foreign_keys = ON", err)) < 0 ||
	    (r = file_exec(d, "CREATE TEMP TABLE held (id TEXT PRIMARY KEY)", err)) < 0)
		return err_wrap(err, r, "prepare the database '%s'", file_of(d)->path);
	return 0;
}

static int create_file(const char *path, struct err *err)
{
	autofd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(err, -errno, "open the database '%s'", path);
	return 0;
}

/* ---- statements ---- */

/* $1, $2, ... must be first used in that order, or SQLite and PostgreSQL number them differently.
 */
static bool params_in_order(sqlite3_stmt *st)
{
	for (int i = 1; i <= sqlite3_bind_parameter_count(st); i++) {
		const char *name = sqlite3_bind_parameter_name(st, i);
		char want[16];

		snprintf(want, sizeof(want), "$%d", i);
		if (!name || strcmp(name, want) != 0)
			return false;
	}
	return true;
}

static void file_finalize(struct db *d, struct db_stmt *st)
{
	struct file_stmt *s = (struct file_stmt *)st;

	if (!s)
		return;
	sqlite3_finalize(s->sqlite);
	free(s->st.sql);
	free(s);
}

static int file_prepare(struct db *d, const char *sql, struct db_stmt **ret, struct err *err)
{
	struct file_db *f = file_of(d);
	struct file_stmt *s = calloc(1, sizeof(*s));
	int rc;

	if (!s || !(s->st.sql = strdup(sql))) {
		free(s);
		return err_set(err, -ENOMEM, "out of memory");
	}
	rc = sqlite3_prepare_v3(f->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->sqlite, NULL);
	if (rc != SQLITE_OK) {
		file_finalize(d, &s->st);
		return fail(f, rc, "prepare a statement", err);
	}
	if (!params_in_order(s->sqlite)) {
		file_finalize(d, &s->st);
		return err_set(err, -EINVAL, "parameters out of order in: %.200s", sql);
	}
	s->st.n_params = sqlite3_bind_parameter_count(s->sqlite);
	*ret = &s->st;
	return 0;
}

static int bound(int rc)
{
	return rc == SQLITE_OK ? 0 : rc == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
}

static int file_bind_text(struct db_stmt *st, int i, const char *v)
{
	/* Transient: the text may be freed before the statement is done. */
	return bound(v ? sqlite3_bind_text(stmt_of(st), i + 1, v, -1, SQLITE_TRANSIENT)
	               : sqlite3_bind_null(stmt_of(st), i + 1));
}

static int file_bind_i64(struct db_stmt *st, int i, int64_t v)
{
	return bound(sqlite3_bind_int64(stmt_of(st), i + 1, v));
}

static int file_bind_double(struct db_stmt *st, int i, double v)
{
	return bound(sqlite3_bind_double(stmt_of(st), i + 1, v));
}

static int file_step(struct db *d, struct db_stmt *st, struct err *err)
{
	struct file_db *f = file_of(d);
	int rc = sqlite3_step(stmt_of(st));

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	return fail(f, sqlite3_extended_errcode(f->sqlite), "database", err);
}

static int file_changes(struct db *d, struct db_stmt *st)
{
	return sqlite3_changes(file_of(d)->sqlite);
}

static const char *file_text(struct db_stmt *st, int i, size_t *ret_n)
{
	const char *p = (const char *)sqlite3_column_text(stmt_of(st), i);

	*ret_n = p ? (size_t)sqlite3_column_bytes(stmt_of(st), i) : 0;
	return p;
}

static int64_t file_i64(struct db_stmt *st, int i)
{
	return sqlite3_column_int64(stmt_of(st), i);
}

static double file_dbl(struct db_stmt *st, int i)
{
	return sqlite3_column_double(stmt_of(st), i);
}

static void file_reset(struct db_stmt *st)
{
	sqlite3_reset(stmt_of(st));
	sqlite3_clear_bindings(stmt_of(st));
}

/* ---- transactions ---- */

static int word(struct file_db *f, sqlite3_stmt **st, const char *sql, struct err *err)
{
	int rc = *st ? SQLITE_OK
	             : sqlite3_prepare_v3(f->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, st, NULL);

	if (rc == SQLITE_OK) {
		rc = sqlite3_step(*st);
		sqlite3_reset(*st);
	}
	return rc == SQLITE_DONE ? 0
	                         : fail(f, sqlite3_extended_errcode(f->sqlite), "database", err);
}

static int file_begin(struct db *d, struct err *err)
{
	return word(file_of(d), &file_of(d)->begin, "BEGIN IMMEDIATE", err);
}

static int file_commit(struct db *d, struct err *err)
{
	return word(file_of(d), &file_of(d)->commit, "COMMIT", err);
}

static void file_rollback(struct db *d)
{
	/* After some failures (disk full) SQLite has rolled back by itself. */
	if (!sqlite3_get_autocommit(file_of(d)->sqlite))
		(void)file_exec(d, "ROLLBACK", NULL);
}

/* Who else has the file open holds a lock that leaving WAL cannot get. The next check() enters it
 * again. */
static int file_seize(struct db *d, struct err *err)
{
	int r = file_exec(d, "PRAGMA journal_mode = DELETE", err);

	if (r == 0)
		r = file_exec(d, "BEGIN EXCLUSIVE", err);
	return r == -EBUSY ? err_tag(err, r, ERR_DATABASE_ERROR,
	                             "the database '%s' is in use: stop the server first",
	                             file_of(d)->path)
	                   : r;
}

static int file_scan(struct db *d, const char *name, const char *select, struct db_stmt **ret,
                     struct err *err)
{
	return file_prepare(d, select, ret, err);
}

static int file_last_number(struct db *d, const char *table, int64_t *ret, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(file_of(d)->sqlite,
	                            "SELECT seq FROM sqlite_sequence WHERE name = $1", -1, &st,
	                            NULL);

	*ret = 0;
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 1, table, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return rc == SQLITE_ROW || rc == SQLITE_DONE
	               ? 0
	               : fail(file_of(d), rc, "read the last number", err);
}

static int file_set_last_number(struct db *d, const char *table, int64_t last, struct err *err)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
	         "DELETE FROM sqlite_sequence WHERE name = '%s';"
	         "INSERT INTO sqlite_sequence (name, seq) VALUES ('%s', %lld)",
	         table, table, (long long)last);
	return file_exec(d, sql, err);
}

static int file_scrub(struct db *d, enum db_scrub what, struct err *err)
{
	static const char *const sql[] = { [DB_SCRUB_ON] = "PRAGMA secure_delete = ON",
		                           [DB_SCRUB_LOG] = "PRAGMA wal_checkpoint(TRUNCATE)",
		                           [DB_SCRUB_ALL] = "VACUUM" };

	return file_exec(d, sql[what], err);
}

static const struct db_ops file_ops = {
	.table_named = "SELECT COUNT(*) FROM sqlite_master WHERE name = $1",
	.table_foreign = "SELECT name FROM sqlite_master LIMIT 1",
	.feed_last = "SELECT seq FROM sqlite_sequence WHERE name = 'feed'",
	.close = file_close,
	.name = file_name,
	.check = file_check,
	.exec = file_exec,
	.define = file_exec,
	.scrub = file_scrub,
	.prepare = file_prepare,
	.finalize = file_finalize,
	.bind_text = file_bind_text,
	.bind_i64 = file_bind_i64,
	.bind_double = file_bind_double,
	.step = file_step,
	.changes = file_changes,
	.text = file_text,
	.i64 = file_i64,
	.dbl = file_dbl,
	.reset = file_reset,
	.seize = file_seize,
	.scan = file_scan,
	.size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
	.last_number = file_last_number,
	.set_last_number = file_set_last_number,
	.begin = file_begin,
	.commit = file_commit,
	.rollback = file_rollback,
};

int db_sqlite_open(const struct db_conf *c, struct db **ret, struct err *err)
{
	int r = create_file(c->where, err), rc;
	struct file_db *f;

	if (r < 0)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f || !(f->path = strdup(c->where))) {
		free(f);
		return err_set(err, -ENOMEM, "out of memory");
	}
	f->db.ops = &file_ops;
	/* SQLite needs no mutex of its own: ours is held around every use. */
	rc = sqlite3_open_v2(c->where, &f->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
	                     NULL);
	if (rc != SQLITE_OK) {
		err_set(err, -EIO, "open the database '%s': %s", c->where,
		        f->sqlite ? sqlite3_errmsg(f->sqlite) : "out of memory");
		file_close(&f->db);
		return -EIO;
	}
	sqlite3_extended_result_codes(f->sqlite, 1);
	sqlite3_busy_timeout(f->sqlite, STORE_BUSY_MS);
	*ret = &f->db;
	return 0;
}
