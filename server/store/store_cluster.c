/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_cluster.c - which database belongs to which data directory
 *
 * Layers, repositories and keys are files of the data directory; their rows are in the database. To
 * start with the rows of another data directory would mean to miss every file, or to collect every
 * one as garbage. With a database in the data directory that cannot happen. For one elsewhere, both
 * have the id of the cluster: "cluster" in meta, and the file <data>/cluster.
 *
 * Nodes (store_node.c) share the database and the id, each with a data directory of its own: an
 * empty one that is to be a node's takes the id of the database.
 *
 * They get it in this order: the id into the file "cluster.new", into the database, then the file
 * its name. A crash in between is finished by the next start; a data directory that was never
 * finished has nothing yet.
 */
#include "store/store_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/log.h"
#include "store/store_internal.h"

static bool there_is(const char *data_dir, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", data_dir, name);
	return access(path, F_OK) == 0;
}

int store_place(const char *data_dir, const char *database, char *ret, size_t size, struct err *err)
{
	if (there_is(data_dir, "cluster") && there_is(data_dir, "pando.db"))
		return err_set(err, -EINVAL,
		               "the data directory '%s' was being moved between its own database "
		               "(pando.db) and a PostgreSQL database: run 'pando migrate' again as "
		               "before, it finishes that",
		               data_dir);
	if (!*database && there_is(data_dir, "cluster"))
		return err_set(err, -EINVAL,
		               "the rows of the data directory '%s' are in a PostgreSQL database: "
		               "set PANDO_DATABASE, as before",
		               data_dir);
	if (*database && there_is(data_dir, "pando.db"))
		return err_set(
		        err, -EINVAL,
		        "the data directory '%s' has a database of its own (pando.db): start "
		        "without PANDO_DATABASE, or with another data directory",
		        data_dir);
	if (*database)
		snprintf(ret, size, "%s", database);
	else
		snprintf(ret, size, "%s/pando.db", data_dir);
	return 0;
}

int cluster_read(const char *data_dir, const char *name, char ret[CLUSTER_ID_SIZE], struct err *err)
{
	autofree char *text = NULL;
	char path[PATH_MAX];
	int r;

	ret[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", data_dir, name);
	r = io_read_file(AT_FDCWD, path, 256, &text, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	if (!id_valid(CLUSTER_ID_PREFIX, text))
		return err_set(err, -EINVAL,
		               "'%s' does not have the id of a cluster: restore the file, its "
		               "content is 'cluster' in the table meta of the database",
		               path);
	snprintf(ret, CLUSTER_ID_SIZE, "%s", text);
	return 0;
}

int cluster_write(const char *data_dir, const char *id, struct err *err)
{
	char path[PATH_MAX], text[CLUSTER_ID_SIZE + 1];
	int n = snprintf(text, sizeof(text), "%s\n", id);

	snprintf(path, sizeof(path), "%s/cluster.new", data_dir);
	return io_write_file(AT_FDCWD, path, text, (size_t)n, 0600, err);
}

int cluster_finish(const char *data_dir, struct err *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	int r;

	snprintf(from, sizeof(from), "%s/cluster.new", data_dir);
	snprintf(to, sizeof(to), "%s/cluster", data_dir);
	if (rename(from, to) < 0)
		return err_sys(err, -errno, "rename '%s'", from);
	r = io_sync_parent(AT_FDCWD, to);
	return r < 0 ? err_sys(err, r, "flush '%s'", to) : 0;
}

/* Gives the database the id unless it has one; *ret: the one it has then. */
static int put_id(struct store *s, const char *id, char **ret, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = meta_get(s, "cluster", ret, err)) < 0)
		return r;
	if (*ret)
		return 0;
	if ((r = meta_put(s, "cluster", id, err)) < 0)
		return r;
	*ret = strdup(id);
	return *ret ? tx_commit(&t, err) : err_set(err, -ENOMEM, "out of memory");
}

static int get_id(struct store *s, char **ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return meta_get(s, "cluster", ret, err);
}

/* 1: nodes have used the database. */
static int has_nodes(struct store *s, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	int n = query_count(s, "SELECT COUNT(*) FROM nodes", NULL, err);

	return MIN(n, 1);
}

/* The lease and the id of a node are of no use to a machine by itself, and the reverse. */
static int check_nodes(struct store *s, bool node, struct err *err)
{
	int r = node ? 0 : has_nodes(s, err);

	return r > 0 ? err_set(err, -EINVAL,
	                       "the database '%s' is shared by nodes: set PANDO_NODE_ADDRESS, too",
	                       s->db->ops->name(s->db))
	             : r;
}

/* The rows are in a data directory again. */
static int check_moved(struct store *s, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autofree char *to = NULL;
	int r = meta_get(s, "moved_to", &to, err);

	return r < 0 || !to ? MIN(r, 0)
	                    : err_set(err, -EINVAL,
	                              "what was in the database '%s' has been moved to %s ('pando "
	                              "migrate'): start the server there, without PANDO_DATABASE; "
	                              "if that was interrupted, run it again",
	                              s->db->ops->name(s->db), to);
}

int store_cluster_join(struct store *s, const char *data_dir, bool node, char ret[CLUSTER_ID_SIZE],
                       bool *ret_new, struct err *err)
{
	char ours[CLUSTER_ID_SIZE], wanted[CLUSTER_ID_SIZE];
	const char *name = s->db->ops->name(s->db);
	autofree char *theirs = NULL;
	int r;

	ret[0] = '\0';
	*ret_new = false;
	if (!store_is_shared(s))
		return 0;
	if ((r = check_moved(s, err)) < 0 || (r = check_nodes(s, node, err)) < 0 ||
	    (r = cluster_read(data_dir, "cluster", ours, err)) < 0 ||
	    (r = cluster_read(data_dir, "cluster.new", wanted, err)) < 0 ||
	    (r = get_id(s, &theirs, err)) < 0)
		return r;
	if (*ours && !theirs)
		return err_set(err, -EINVAL,
		               "the database '%s' is empty, but the data directory '%s' belongs to "
		               "cluster %s: set PANDO_DATABASE to that one's database",
		               name, data_dir, ours);
	if (*ours && strcmp(ours, theirs) != 0)
		return err_set(err, -EINVAL,
		               "the database '%s' is that of cluster %s, but the data directory "
		               "'%s' belongs to cluster %s: set PANDO_DATABASE to that one's "
		               "database",
		               name, theirs, data_dir, ours);
	if (!*ours && theirs && !node && strcmp(wanted, theirs) != 0)
		return err_set(err, -EINVAL,
		               "the database '%s' is that of cluster %s, which has another data "
		               "directory than '%s': set PANDO_NODE_ADDRESS on each machine that "
		               "is to share it, or create one for this machine",
		               name, theirs, data_dir);
	if (!*ours && theirs && node) { /* an empty data directory becomes another node's */
		snprintf(wanted, sizeof(wanted), "%s", theirs);
		*ret_new = true;
		if ((r = cluster_write(data_dir, wanted, err)) < 0 ||
		    (r = cluster_finish(data_dir, err)) < 0)
			return r;
	} else if (!*ours) {
		if (!*wanted) {
			id_make(CLUSTER_ID_PREFIX, wanted);
			if ((r = cluster_write(data_dir, wanted, err)) < 0)
				return r;
		}
		free(theirs);
		theirs = NULL;
		if ((r = put_id(s, wanted, &theirs, err)) < 0)
			return r;
		if (strcmp(wanted, theirs) != 0) /* another one was quicker */
			return err_set(err, -EAGAIN,
			               "another machine began to use the database "
			               "'%s' at the same time",
			               name);
		if ((r = cluster_finish(data_dir, err)) < 0)
			return r;
		log_info("the database '%s' and the data directory '%s' are cluster %s now", name,
		         data_dir, theirs);
	}
	snprintf(ret, CLUSTER_ID_SIZE, "%s", theirs);
	return 0;
}

int store_start(const char *data_dir, const char *database, const char *node, struct store **ret,
                bool *ret_new, struct err *err)
{
	char where[PATH_MAX], cluster[CLUSTER_ID_SIZE];
	struct store *s = NULL;
	int r;

	if ((r = store_place(data_dir, database, where, sizeof(where), err)) < 0 ||
	    (r = store_open_as(where, node, &s, err)) < 0)
		return r;
	if ((r = store_cluster_join(s, data_dir, node != NULL, cluster, ret_new, err)) < 0)
		s = store_close(s);
	*ret = s;
	return r;
}
