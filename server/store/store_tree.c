/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_tree.c - lines of descent: which point a VM or point came from
 *
 * points.parent and vms.head name the previous point. They are history: they keep nothing alive, so
 * that a line of a thousand suspends does not keep a thousand memory layers. When the collector
 * deletes a point, its children get its nearest existing ancestor as parent. Rows of
 * VMs are in the server's memory too and cannot be changed here: for them, and only
 * while a VM's head names it, past_points has the parent of a collected point.
 *
 * The tree is read with a fixed number of statements under one lock: the VMs and snapshots of
 * the account, the points that lead to them, the layers below. `users` counts all references to a
 * layer, from every account: a layer with one user is used by that one alone.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* Points of the account, and what they descend from; $1: the account. */
#define MINE                                                                               \
	"mine (id) AS ("                                                                   \
	" SELECT point FROM vms WHERE account = $1 AND point IS NOT NULL"                  \
	" UNION SELECT base_point FROM vms WHERE account = $1 AND base_point IS NOT NULL"  \
	" UNION SELECT COALESCE((SELECT p.parent FROM past_points p WHERE p.id = v.head)," \
	" v.head) FROM vms v WHERE v.account = $1 AND v.head IS NOT NULL"                  \
	" UNION SELECT point FROM snapshots WHERE account = $1 AND point IS NOT NULL"      \
	" UNION SELECT p.parent FROM points p JOIN mine ON p.id = mine.id"                 \
	" WHERE p.parent IS NOT NULL)"

/* The shared template stands for what a server made of it (vm/template_own.c). */
static const char points_tail[] = "WHERE id IN (WITH RECURSIVE " MINE " SELECT id FROM mine)"
                                  " AND (kind <> 'template' OR parent IS NULL)"
                                  " ORDER BY created_ms, id";

static const char layers_sql[] =
        "WITH RECURSIVE " MINE ","
        " used (id) AS ("
        " SELECT mem_layer FROM points WHERE mem_layer IS NOT NULL AND id IN (SELECT id FROM mine)"
        " UNION SELECT disk_layer FROM points"
        " WHERE disk_layer IS NOT NULL AND id IN (SELECT id FROM mine)"
        " UNION SELECT base_mem FROM vms WHERE account = $1 AND base_mem IS NOT NULL"
        " UNION SELECT disk_layer FROM vms WHERE account = $1 AND disk_layer IS NOT NULL"
        " UNION SELECT l.parent FROM layers l JOIN used ON l.id = used.id"
        " WHERE l.parent IS NOT NULL)"
        "SELECT l.id, l.parent, l.bytes,"
        " (SELECT COUNT(*) FROM layers c WHERE c.parent = l.id)"
        " + (SELECT COUNT(*) FROM points p WHERE p.mem_layer = l.id)"
        " + (SELECT COUNT(*) FROM points p WHERE p.disk_layer = l.id)"
        " + (SELECT COUNT(*) FROM vms v WHERE v.base_mem = l.id AND v.point IS NULL)"
        " + (SELECT COUNT(*) FROM vms v WHERE v.disk_layer = l.id AND v.point IS NULL)"
        " FROM layers l WHERE l.id IN (SELECT id FROM used) ORDER BY l.id";

static const char line_sql[] =
        "WITH RECURSIVE line (id, n) AS ("
        " SELECT COALESCE((SELECT parent FROM past_points WHERE id = $1), $1), 0"
        " UNION SELECT p.parent, line.n + 1 FROM points p JOIN line ON p.id = line.id"
        " WHERE p.parent IS NOT NULL AND line.n < 100000)"
        "SELECT p.id, p.created_ms FROM line JOIN points p ON p.id = line.id ORDER BY line.n";

/* ---- repairing lines ---- */

static int run_two(struct store *s, const char *sql, const char *a, const char *b, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_ref(&q, a);
	query_bind_ref(&q, b);
	return query_run(&q, err);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct gone_point *)a)->id, ((const struct gone_point *)b)->id);
}

/* The nearest ancestor that is not being deleted too. */
static const char *living_parent(const struct gone_point *gone, size_t n, size_t i)
{
	const struct gone_point *g = &gone[i];

	for (size_t steps = 0; steps < n; steps++) {
		const struct gone_point *up =
		        bsearch((const struct gone_point *)(const void *)g->parent, gone, n,
		                sizeof(*gone), by_id);

		if (!up)
			break;
		g = up;
	}
	return g->parent;
}

int line_mend_locked(struct store *s, struct gone_point *gone, size_t n, struct err *err)
{
	autoquery struct query q = { 0 };
	int r;

	if (n)
		qsort(gone, n, sizeof(*gone), by_id);
	for (size_t i = 0; i < n; i++) {
		const char *to = living_parent(gone, n, i);

		if ((r = run_two(s, "UPDATE points SET parent = $1 WHERE parent = $2", to,
		                 gone[i].id, err)) < 0 ||
		    (r = run_two(s, "UPDATE past_points SET parent = $1 WHERE parent = $2", to,
		                 gone[i].id, err)) < 0 ||
		    (r = run_two(s,
		                 "INSERT INTO past_points (parent, id) SELECT $1, $2"
		                 " WHERE EXISTS (SELECT 1 FROM vms WHERE vms.head = $2)",
		                 to, gone[i].id, err)) < 0)
			return err_wrap(err, r, "repair the ancestry of point '%s'", gone[i].id);
	}
	if ((r = query_begin(&q, s,
	                     "DELETE FROM past_points WHERE NOT EXISTS"
	                     " (SELECT 1 FROM vms WHERE vms.head = past_points.id)",
	                     err)) < 0)
		return r;
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int line_living_locked(struct store *s, const char *id, char ret[ID_SIZE], struct err *err)
{
	autoquery struct query q = { 0 };
	char found[ID_SIZE];
	int r;

	snprintf(found, sizeof(found), "%s", id);
	if (!*id) {
		ret[0] = '\0';
		return 0;
	}
	r = query_begin(&q, s, "SELECT parent FROM past_points WHERE id = $1", err);
	if (r < 0)
		return r;
	query_bind_text(&q, id);
	r = query_step(&q, err);
	if (r > 0)
		query_read_text(&q, found, sizeof(found));
	if (r < 0 || (r = query_read_end(&q, err)) < 0)
		return r;
	memcpy(ret, found, sizeof(found));
	return 0;
}

int store_point_line(struct store *s, const char *head, struct store_line **ret, size_t *ret_n,
                     struct err *err)
{
	autofree struct store_line *line = NULL;
	size_t n = 0, cap = 0;
	int r;

	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 }; /* after the lock: it is done before the lock is free */
	r = query_begin(&q, s, line_sql, err);
	if (r < 0)
		return r;
	query_bind_ref(&q, head);
	while ((r = query_step(&q, err)) > 0) {
		if (n == cap) {
			void *p = reallocarray(line, cap ? 2 * cap : 16, sizeof(*line));

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			line = p;
			cap = cap ? 2 * cap : 16;
		}
		query_read_text(&q, line[n].id, ID_SIZE);
		line[n++].created_ms = query_read_i64(&q, INT64_MIN, INT64_MAX);
	}
	if (r < 0 || (r = query_read_end(&q, err)) < 0)
		return err_wrap(err, r, "read the ancestry of point '%s'", head);
	*ret = TAKE_PTR(line);
	*ret_n = n;
	return 0;
}

/* ---- the whole tree ---- */

static int load_layers(struct store *s, const char *account, struct store_tree *t, struct err *err)
{
	autoquery struct query q = { 0 };
	size_t cap = 0;
	int r = query_begin(&q, s, layers_sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	while ((r = query_step(&q, err)) > 0) {
		struct store_tree_layer *l;

		if (t->n_layers == cap) {
			void *p = reallocarray(t->layers, cap ? 2 * cap : 64, sizeof(*l));

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			t->layers = p;
			cap = cap ? 2 * cap : 64;
		}
		l = &t->layers[t->n_layers++];
		query_read_text(&q, l->id, ID_SIZE);
		query_read_text(&q, l->parent, ID_SIZE);
		l->bytes = (uint64_t)query_read_i64(&q, 0, INT64_MAX);
		l->users = (uint32_t)query_read_i64(&q, 0, UINT32_MAX);
	}
	return r < 0 ? r : query_read_end(&q, err);
}

static int load_heads(struct store *s, const char *account, struct store_tree *t, struct err *err)
{
	autoquery struct query q = { 0 };
	size_t i = 0;
	int r = query_begin(&q, s,
	                    "SELECT v.id, p.parent FROM vms v JOIN past_points p ON p.id = v.head"
	                    " WHERE v.account = $1 ORDER BY v.created_ms DESC, v.id",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	while ((r = query_step(&q, err)) > 0) { /* in the order of t->vms */
		char id[ID_SIZE];

		query_read_text(&q, id, sizeof(id));
		while (i < t->n_vms && strcmp(t->vms[i].info.id, id) != 0)
			i++;
		if (i == t->n_vms)
			break;
		query_read_text(&q, t->vms[i].head, ID_SIZE);
	}
	return r < 0 ? r : query_read_end(&q, err);
}

int store_tree_load(struct store *s, const char *account, struct store_tree *ret, struct err *err)
{
	AUTO(store_tree_done) struct store_tree t = { 0 };
	void *vms = NULL, *snapshots = NULL, *points = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &vm_table, "WHERE account = $1 ORDER BY created_ms DESC, id", &account, 1,
	             &vms, &t.n_vms, err);
	t.vms = vms;
	if (r == 0)
		r = row_list(s, &snapshot_table,
		             "WHERE account = $1 AND deleted = 0 ORDER BY created_ms DESC, id",
		             &account, 1, &snapshots, &t.n_snapshots, err);
	t.snapshots = snapshots;
	if (r == 0)
		r = row_list(s, &point_table, points_tail, &account, 1, &points, &t.n_points, err);
	t.points = points;
	if (r == 0)
		r = load_heads(s, account, &t, err);
	if (r == 0)
		r = load_layers(s, account, &t, err);
	if (r < 0)
		return err_wrap(err, r, "read the tree");
	*ret = t;
	t = (struct store_tree){ 0 };
	return 0;
}

void store_tree_done(struct store_tree *t)
{
	free(t->vms);
	free(t->snapshots);
	free(t->points);
	free(t->layers);
	*t = (struct store_tree){ 0 };
}
