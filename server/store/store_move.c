/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_move.c - a data directory's rows to PostgreSQL, and back
 *
 * Layers, points, repositories and keys are files and stay where they are: only rows move. The
 * server does not run, which is made sure of and kept so: SQLite's file is locked against everybody
 * else, PostgreSQL's session is the only one of a pandod.
 *
 * To the database: the cluster's id into the file cluster.new; schema; then one transaction has all
 * rows, compared, and the id. Until it is committed nothing has happened on either side. After it
 * "cluster" is written and pando.db renamed, in this order: between the two the start is refused
 * with either setting. A run that was interrupted after the commit is known by the id in the
 * database that is in cluster.new: its rows are replaced, because pando.db was in use until it had
 * another name.
 *
 * To the files: pando.db.new and audit.db.new are made, whole, and flushed; then the database gets
 * the mark "moved_to", with which no server starts on it; then the files get their names and
 * "cluster" goes. From the mark on only this can be finished, by running it again.
 * What is only a node's (nodes, their keys, whose a row is) does not come along. So only one node
 * may be left, and it must be this one.
 */
#include "store/store_move.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "store/store_audit.h"
#include "store/store_cluster.h"
#include "store/store_move_internal.h"
#include "store/store_node.h"

static void move_done(struct move *v)
{
	store_close(v->file);
	store_close(v->audit);
	store_close(v->base);
	free(v->tables);
	free(v->audit_tables);
}

static void say(const struct move *v, const char *what)
{
	if (v->m->say)
		v->m->say(v->m->ctx, what, 0, 0);
}

static int rename_one(const struct move *v, const char *from, const char *to, struct err *err)
{
	char a[PATH_MAX], b[PATH_MAX];
	int r;

	if (rename(move_at(v, from, a), move_at(v, to, b)) < 0)
		return err_sys(err, -errno, "rename '%s' to '%s'", a, b);
	r = io_sync_parent(AT_FDCWD, b);
	return r < 0 ? err_sys(err, r, "flush '%s'", b) : 0;
}

static int remove_one(const struct move *v, const char *name, struct err *err)
{
	char path[PATH_MAX];
	int r;

	if (unlink(move_at(v, name, path)) < 0)
		return errno == ENOENT ? 0 : err_sys(err, -errno, "remove '%s'", path);
	r = io_sync_parent(AT_FDCWD, path);
	return r < 0 ? err_sys(err, r, "flush '%s'", path) : 0;
}

/* ---- copying ---- */

static int copy_tables(struct move *v, struct store *from, struct store *to,
                       const struct move_table *t, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = move_rows(v->m, from, to, &t[i], v->ret, err);
	return r;
}

static int load_tables(struct move *v, struct err *err)
{
	int r = move_tables(v->file, &v->tables, &v->n_tables, err);

	return r < 0 || !v->audit
	               ? r
	               : move_tables(v->audit, &v->audit_tables, &v->n_audit_tables, err);
}

/* ---- to the database ---- */

static int finish_forward(struct move *v, struct err *err)
{
	int r = 0;

	if (!*v->ours)
		r = cluster_finish(v->m->data_dir, err);
	if (r >= 0)
		say(v, "rename");
	if (r >= 0 && move_has(v, "audit.db"))
		r = rename_one(v, "audit.db", "audit.db.moved", err);
	return r < 0 ? r : rename_one(v, "pando.db", "pando.db.moved", err);
}

/* The bucket knows the cluster by the id that it has had. */
static int choose_id(struct move *v, struct err *err)
{
	char id[ID_SIZE];
	int r = move_text_of(v->file, "objects", id, err);

	if (r < 0 || (*id && strcmp(id, v->wanted) == 0) || (!*id && *v->wanted))
		return r;
	if (!*id)
		id_make(CLUSTER_ID_PREFIX, id);
	memcpy(v->wanted, id, ID_SIZE);
	return 0;
}

static int fill_database(struct move *v, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, v->base, err)) < 0 || (r = move_check_target(v, err)) < 0 ||
	    (r = move_empty(v->base, v->audit_tables, v->n_audit_tables, err)) < 0 ||
	    (r = move_empty(v->base, v->tables, v->n_tables, err)) < 0 ||
	    (r = copy_tables(v, v->file, v->base, v->tables, v->n_tables, err)) < 0 ||
	    (v->audit && (r = copy_tables(v, v->audit, v->base, v->audit_tables, v->n_audit_tables,
	                                  err)) < 0) ||
	    (r = meta_put(v->base, "cluster", v->wanted, err)) < 0)
		return r;
	say(v, "commit");
	return tx_commit(&t, err);
}

/* Tables of both databases, which the checks have left alone. */
static int make_schema(struct move *v, struct err *err)
{
	struct store *log = NULL;
	int r;

	v->base = store_close(v->base);
	if ((r = store_open(v->m->database, &v->base, err)) < 0 ||
	    (r = store_audit_open(v->m->database, &log, err)) < 0)
		return r;
	store_close(log);
	return 0;
}

static int forward(struct move *v, struct err *err)
{
	char path[PATH_MAX];
	int r;

	if (!move_has(v, "pando.db"))
		return err_set(err, -ENOENT, "'%s' has no database of its own (pando.db): %s",
		               v->m->data_dir,
		               *v->ours ? "its rows are in a PostgreSQL database already"
		                        : "name the data directory of a server that was used");
	say(v, "check");
	if ((r = store_open_still(move_at(v, "pando.db", path), false, false, &v->file, err)) < 0 ||
	    (r = v->file->db->ops->seize(v->file->db, err)) < 0 ||
	    (r = move_check_sealed(v->file, err)) < 0 || (r = move_check_vms(v, v->file, err)) < 0)
		return r;
	if (move_has(v, "audit.db") && ((r = store_open_still(move_at(v, "audit.db", path), true,
	                                                      false, &v->audit, err)) < 0 ||
	                                (r = v->audit->db->ops->seize(v->audit->db, err)) < 0))
		return r;
	if ((r = store_open_still(v->m->database, false, true, &v->base, err)) < 0 ||
	    (r = load_tables(v, err)) < 0 || (r = move_check_target(v, err)) < 0 ||
	    (r = move_check_clock(v->base, err)) < 0 || (r = choose_id(v, err)) < 0)
		return r;
	if (v->m->check)
		return 0;
	if ((r = make_schema(v, err)) < 0 ||
	    (r = cluster_write(v->m->data_dir, v->wanted, err)) < 0 ||
	    (r = fill_database(v, err)) < 0)
		return r;
	say(v, "committed");
	memcpy(v->ret->cluster, v->wanted, ID_SIZE);
	return finish_forward(v, err);
}

/* ---- back ---- */

static int finish_back(struct move *v, struct err *err)
{
	int r = 0;

	/* the last of the two by which the start decides */
	if (move_has(v, "audit.db.new"))
		r = rename_one(v, "audit.db.new", "audit.db", err);
	if (r >= 0 && move_has(v, "pando.db.new"))
		r = rename_one(v, "pando.db.new", "pando.db", err);
	if (r >= 0)
		say(v, "rename");
	return r < 0 ? r : remove_one(v, "cluster", err);
}

/* Whose a row is is said by nodes only. */
static int forget_nodes(struct move *v, struct err *err)
{
	struct db *d = v->file->db;
	char sql[256];
	int r = 0;

	for (size_t i = 0; r >= 0 && i < v->n_tables; i++) {
		const struct move_table *t = &v->tables[i];

		for (size_t k = 0; r >= 0 && k < t->n_cols; k++) {
			if (strcmp(t->cols[k].name, "node") != 0)
				continue;
			snprintf(sql, sizeof(sql), "UPDATE %s SET node = ''", t->name);
			r = d->ops->exec(d, sql, err);
		}
	}
	if (r < 0 || (r = d->ops->exec(d,
	                               "UPDATE vms SET home = '', epoch = 0;"
	                               "UPDATE git_repos SET stored = 0, epoch = 0;"
	                               "DELETE FROM nodes; DELETE FROM node_keys",
	                               err)) < 0)
		return r;
	snprintf(sql, sizeof(sql),
	         "UPDATE templates SET key = substr(key, %zu) WHERE substr(key, 1, %zu) = '%s/';"
	         "UPDATE spec_layers SET key = substr(key, %zu) WHERE substr(key, 1, %zu) = '%s/'",
	         strlen(v->node) + 2, strlen(v->node) + 1, v->node, strlen(v->node) + 2,
	         strlen(v->node) + 1, v->node);
	return *v->node ? d->ops->exec(d, sql, err) : 0;
}

static int fill_file(struct move *v, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, v->file, err)) < 0 ||
	    (r = move_empty(v->file, v->tables, v->n_tables, err)) < 0 ||
	    (r = copy_tables(v, v->base, v->file, v->tables, v->n_tables, err)) < 0 ||
	    (r = forget_nodes(v, err)) < 0 || (r = meta_put(v->file, "objects", v->ours, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int fill_audit(struct move *v, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, v->audit, err)) < 0 ||
	    (r = copy_tables(v, v->base, v->audit, v->audit_tables, v->n_audit_tables, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* Whole and on the disk, with no log beside them. */
static int close_files(struct move *v, struct err *err)
{
	static const char *const names[] = { "pando.db.new", "audit.db.new" };
	struct store *s[] = { v->file, v->audit };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(s); i++)
		r = s[i]->db->ops->scrub(s[i]->db, DB_SCRUB_LOG, err);
	v->file = store_close(v->file);
	v->audit = store_close(v->audit);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(names); i++) {
		char path[PATH_MAX];
		autofd int fd = open(move_at(v, names[i], path), O_RDWR | O_CLOEXEC);

		if (fd < 0 || fsync(fd) < 0)
			return err_sys(err, -errno, "flush '%s'", path);
		r = io_sync_parent(AT_FDCWD, path);
	}
	return r < 0 ? err_sys(err, r, "flush the data directory") : 0;
}

static int make_files(struct move *v, struct err *err)
{
	static const char *const left[] = {
		"pando.db.new", "pando.db.new-wal", "pando.db.new-shm",
		"audit.db.new", "audit.db.new-wal", "audit.db.new-shm"
	};
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(left); i++)
		r = remove_one(v, left[i], err);
	if (r < 0 ||
	    (r = store_open_with(move_at(v, "pando.db.new", path), store_migrations,
	                         store_n_migrations, &v->file, err)) < 0 ||
	    (r = store_audit_open(move_at(v, "audit.db.new", path), &v->audit, err)) < 0)
		return r;
	return load_tables(v, err);
}

/* In a transaction of the database, which is rolled back: it only reads. */
static int copy_back(struct move *v, struct err *err)
{
	struct db *d = v->base->db;
	int r = d->ops->seize(d, err);

	if (r < 0)
		return r;
	r = fill_file(v, err);
	if (r >= 0)
		r = fill_audit(v, err);
	d->ops->rollback(d);
	return r < 0 ? r : close_files(v, err);
}

static int mark_moved(struct move *v, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	say(v, "commit");
	if ((r = tx_begin(&t, v->base, err)) < 0 ||
	    (r = meta_put(v->base, "moved_to", v->m->data_dir, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int back(struct move *v, struct err *err)
{
	struct store_moved *m = v->ret;
	char theirs[ID_SIZE];
	int r;

	if (!*v->ours)
		return err_set(err, -ENOENT, "the rows of '%s' are not in a PostgreSQL database",
		               v->m->data_dir);
	say(v, "check");
	if ((r = store_open_still(v->m->database, false, false, &v->base, err)) < 0 ||
	    (r = move_text_of(v->base, "cluster", theirs, err)) < 0)
		return r;
	if (strcmp(theirs, v->ours) != 0)
		return err_set(err, -EINVAL,
		               "the database '%s' is that of cluster %s, but the data directory "
		               "'%s' belongs to cluster %s: set PANDO_DATABASE to that one's",
		               v->base->db->ops->name(v->base->db), *theirs ? theirs : "(none)",
		               v->m->data_dir, v->ours);
	if ((r = move_check_self(v, err)) < 0 || (r = move_check_sealed(v->base, err)) < 0 ||
	    (r = move_check_vms(v, v->base, err)) < 0 ||
	    (r = move_check_files(v, "SELECT id, stored FROM layers", "layers", "", err)) < 0 ||
	    (r = move_check_files(v, "SELECT id, stored FROM points WHERE stored = 1", "points",
	                          ".state", err)) < 0 ||
	    (r = move_check_repos(v, err)) < 0 || (r = move_check_room(v, err)) < 0)
		return r;
	if (m->only_stored && !v->m->has_objects)
		return err_set(err, -EINVAL,
		               "%llu files of VMs and snapshots are only in the object store: set "
		               "PANDO_OBJECTS, which a single machine can use, too",
		               (unsigned long long)m->only_stored);
	if (v->m->check)
		return 0;
	if ((r = make_files(v, err)) < 0 || (r = copy_back(v, err)) < 0 ||
	    (r = mark_moved(v, err)) < 0)
		return r;
	say(v, "committed");
	memcpy(m->cluster, v->ours, ID_SIZE);
	return finish_back(v, err);
}

/* ---- an end that was not reached ---- */

/* Both pando.db and cluster are there: the rows are where the database says. */
static int finish_only(struct move *v, struct err *err)
{
	char theirs[ID_SIZE], moved[ID_SIZE];
	bool is_back;
	int r;

	if ((r = store_open_still(v->m->database, false, false, &v->base, err)) < 0 ||
	    (r = move_text_of(v->base, "cluster", theirs, err)) < 0 ||
	    (r = move_text_of(v->base, "moved_to", moved, err)) < 0)
		return r;
	if (strcmp(theirs, v->ours) != 0)
		return err_set(err, -EINVAL,
		               "the database '%s' is not that of cluster %s, between which and "
		               "'%s' rows were being moved",
		               v->base->db->ops->name(v->base->db), v->ours, v->m->data_dir);
	is_back = *moved != '\0';
	if (is_back != v->m->back)
		return err_set(err, -EINVAL,
		               "an earlier run was moving the rows %s, and was interrupted: finish "
		               "that first ('pando migrate --to %s')",
		               is_back ? "to the files" : "to the database",
		               is_back ? "file" : "database");
	if (v->m->check)
		return 0;
	memcpy(v->ret->cluster, v->ours, ID_SIZE);
	v->ret->finished = true;
	return is_back ? finish_back(v, err) : finish_forward(v, err);
}

int store_move(const struct store_move *m, struct store_moved *ret, struct err *err)
{
	AUTO(move_done) struct move v = { .m = m, .ret = ret };
	int r;

	*ret = (struct store_moved){ 0 };
	if (!db_where_is_pg(m->database))
		return err_set(err, -EINVAL,
		               "name the PostgreSQL database: postgresql://user@host/database");
	if ((r = cluster_read(m->data_dir, "cluster", v.ours, err)) < 0 ||
	    (r = cluster_read(m->data_dir, "cluster.new", v.wanted, err)) < 0)
		return r;
	if (*v.ours && move_has(&v, "pando.db"))
		return finish_only(&v, err);
	return m->back ? back(&v, err) : forward(&v, err);
}
