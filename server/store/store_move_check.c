/* SPDX-License-Identifier: Apache-2.0 */
/* store_move_check.c - what is in the way of store_move(), before anything is written */
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
#include "store/store_move_internal.h"
#include "store/store_node.h"

#define CLOCK_APART_MS 60000 /* as for nodes */
#define ROOM_FACTOR 2        /* a SQLite file, its log and some air, for each byte of rows */

const char *move_at(const struct move *v, const char *name, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%.3800s/%s", v->m->data_dir, name);
	return ret;
}

bool move_has(const struct move *v, const char *name)
{
	char path[PATH_MAX];

	return access(move_at(v, name, path), F_OK) == 0;
}

/* ---- checks ---- */

int move_text_of(struct store *s, const char *key, char ret[ID_SIZE], struct err *err)
{
	autofree char *v = NULL;
	int r = meta_get(s, key, &v, err);

	snprintf(ret, ID_SIZE, "%s", v ? v : "");
	return r;
}

/* A machine that was not stopped in the order of things has processes that nobody looks after. */
int move_check_vms(struct move *v, struct store *s, struct err *err)
{
	struct store_moved *m = v->ret;
	static const char sql[] = "SELECT COUNT(*) FROM vms WHERE state = $1";
	int n[3], busy, r;

	if ((r = n[0] = query_count(s, sql, "suspended", err)) < 0 ||
	    (r = n[1] = query_count(s, sql, "stopped", err)) < 0 ||
	    (r = n[2] = query_count(s, sql, "lost", err)) < 0 ||
	    (r = busy = query_count(s,
	                            "SELECT COUNT(*) FROM vms WHERE state NOT IN ('suspended', "
	                            "'stopped', 'lost')",
	                            NULL, err)) < 0)
		return r;
	m->suspended = (unsigned)n[0];
	m->stopped = (unsigned)n[1];
	m->lost = (unsigned)n[2];
	return busy ? err_set(err, -EBUSY,
	                      "%d VMs are not at rest, as the server was not stopped in the order "
	                      "of things: start it again, and stop it (that suspends them)",
	                      busy)
	            : 0;
}

int move_check_sealed(struct store *s, struct err *err)
{
	return store_is_sealed(s)
	               ? 0
	               : err_set(err, -EINVAL,
	                         "the secrets in '%s' are not sealed yet: start and stop this "
	                         "version of the server with it once",
	                         s->db->ops->name(s->db));
}

int move_check_clock(struct store *s, struct err *err)
{
	int64_t ahead = 0;
	int r = store_clock_ahead(s, &ahead, err);

	if (r < 0 || (ahead <= CLOCK_APART_MS && ahead >= -CLOCK_APART_MS))
		return MIN(r, 0);
	return err_set(err, -EINVAL,
	               "this machine's clock is %lld s %s that of the database: set the clocks "
	               "(NTP)",
	               (long long)(ahead < 0 ? -ahead : ahead) / 1000,
	               ahead < 0 ? "ahead of" : "behind");
}

/* Version 0 has no tables yet. */
static int has_tables(struct store *s, struct err *err)
{
	return query_count(s, s->db->ops->table_named, s->ledger, err);
}

/* PostgreSQL must be empty, or have what an interrupted run of ours put there. */
int move_check_target(struct move *v, struct err *err)
{
	char theirs[ID_SIZE], moved[ID_SIZE];
	int r = has_tables(v->base, err);

	if (r <= 0)
		return r;
	if ((r = move_text_of(v->base, "cluster", theirs, err)) < 0 ||
	    (r = move_text_of(v->base, "moved_to", moved, err)) < 0)
		return r;
	if (*theirs && (*moved || strcmp(theirs, v->wanted) != 0))
		return err_set(err, -ENOTEMPTY,
		               "the database '%s' is that of cluster %s%s: create an empty one",
		               v->base->db->ops->name(v->base->db), theirs,
		               *moved ? ", whose rows were moved away" : "");
	for (size_t i = 0; !*theirs && i < v->n_tables; i++) {
		uint64_t n;

		if ((r = move_count(v->base, &v->tables[i], &n, err)) < 0)
			return r;
		if (n > 0)
			return err_set(err, -ENOTEMPTY,
			               "the database '%s' is not empty (%s has %llu rows): create "
			               "an empty one",
			               v->base->db->ops->name(v->base->db), v->tables[i].name,
			               (unsigned long long)n);
	}
	return 0;
}

/* What would be left behind: other nodes. */
static int check_alone(struct move *v, struct err *err)
{
	struct store_node *nodes = NULL;
	size_t n = 0;
	int r = store_node_list(v->base, &nodes, &n, err);

	if (r >= 0 && n == 1)
		memcpy(v->node, nodes[0].id, ID_SIZE);
	if (r >= 0 && n > 1)
		r = err_set(err, -EBUSY,
		            "the cluster has %zu nodes, '%s' and '%s' among them: a single machine "
		            "is what is left when all others are gone; drain and stop them, then "
		            "'pando node remove' each of them on this one",
		            n, nodes[0].name, nodes[1].name);
	free(nodes);
	return r;
}

/* The only node must be this one: its layers are here. */
int move_check_self(struct move *v, struct err *err)
{
	autofree char *text = NULL;
	char path[PATH_MAX];
	int r = check_alone(v, err);

	if (r < 0 || !*v->node)
		return r;
	r = io_read_file(AT_FDCWD, move_at(v, "node", path), 256, &text, NULL);
	if (text)
		text[strcspn(text, "\n")] = '\0';
	return r >= 0 && text && strcmp(text, v->node) == 0
	               ? 0
	               : err_set(err, -EINVAL,
	                         "the last node of the cluster is %s, which is not that of the "
	                         "data directory '%s': run this there",
	                         v->node, v->m->data_dir);
}

/* Files that this machine has to fetch, now or later. */
int move_check_files(struct move *v, const char *sql, const char *dir, const char *suffix,
                     struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, v->base, sql, err);

	while (r >= 0 && (r = query_step(&q, err)) > 0) {
		char id[ID_SIZE], name[96];
		bool stored;

		query_read_text(&q, id, sizeof(id));
		stored = query_read_i64(&q, 0, 1) != 0;
		snprintf(name, sizeof(name), "%s/%s%s", dir, id, suffix);
		if (move_has(v, name))
			continue;
		v->ret->only_stored += stored;
		v->ret->missing += !stored;
	}
	return r < 0 ? r : query_read_end(&q, err);
}

/* Repositories of nodes are copies of what is stored (git/shared.c); a single machine has them
 * only. */
int move_check_repos(struct move *v, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, v->base, "SELECT id, version FROM git_repos WHERE stored = 1", err);

	while (r >= 0 && (r = query_step(&q, err)) > 0) {
		char id[ID_SIZE], name[96], path[PATH_MAX];
		autofree char *text = NULL;
		uint64_t version;

		query_read_text(&q, id, sizeof(id));
		version = (uint64_t)query_read_i64(&q, 0, INT64_MAX);
		snprintf(name, sizeof(name), "git/repos/%s.git/pando-version", id);
		if (io_read_file(AT_FDCWD, move_at(v, name, path), 64, &text, NULL) < 0 ||
		    strtoull(text, NULL, 10) != version)
			return err_set(err, -EBUSY,
			               "the copy of repository %s in '%s/git' is not up to date: "
			               "start the server, clone the repository once, and stop the "
			               "server again",
			               id, v->m->data_dir);
	}
	return r < 0 ? r : query_read_end(&q, err);
}

int move_check_room(struct move *v, struct err *err)
{
	struct statvfs fs;
	int64_t bytes = 0;
	autoquery struct query q = { 0 };
	int r = query_begin(&q, v->base, v->base->db->ops->size, err);

	if (r < 0 || (r = query_step(&q, err)) < 0)
		return r;
	bytes = query_read_i64(&q, 0, INT64_MAX);
	if ((r = query_read_end(&q, err)) < 0)
		return r;
	if (statvfs(v->m->data_dir, &fs) < 0)
		return err_sys(err, -errno, "look at the disk of '%s'", v->m->data_dir);
	if ((uint64_t)fs.f_bavail * fs.f_frsize / ROOM_FACTOR < (uint64_t)bytes)
		return err_set(err, -ENOSPC,
		               "the database has %lld MB, and '%s' has %llu MB free: make room for "
		               "twice the database",
		               (long long)bytes >> 20, v->m->data_dir,
		               (unsigned long long)((uint64_t)fs.f_bavail * fs.f_frsize >> 20));
	return 0;
}
