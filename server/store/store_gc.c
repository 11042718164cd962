/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_gc.c - deletes points and layers that nothing refers to
 *
 * One transaction: held names go into a temporary table; unreferenced points are deleted; then
 * everything reachable downwards from the remaining points, VMs and held layers is
 * marked by a recursive query and all other layers are deleted in one statement. The foreign
 * keys are a second check: a layer that is still referenced cannot be deleted.
 *
 * A node collects the points and layers that it made, and no others: what it holds is in its
 * memory. Those that other nodes made it uses by name, so a row of it refers to them from the
 * moment in which anybody was told that they are used; until then a collection by their maker makes
 * its transaction fail, and nothing is lost. Their files are copies, which cache.c drops.
 *
 * What may have objects in the object store leaves a row of garbage (store_object.c) in the same
 * transaction: once the row of a layer is gone nobody else knows of its objects.
 *
 * The caller removes the files after this returned: a crash in between
 * leaves orphans on disk that the next start finds, never a row without its file.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_object.h"

static const char delete_points[] =
        "DELETE FROM points WHERE"
        " NOT EXISTS (SELECT 1 FROM vms WHERE vms.point = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM vms WHERE vms.base_point = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM vms WHERE vms.origin = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM vms WHERE vms.checkpoint = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM vms WHERE vms.checkpoint_before = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM snapshots WHERE snapshots.point = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM templates WHERE templates.point = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM spec_layers WHERE spec_layers.point = points.id)"
        " AND NOT EXISTS (SELECT 1 FROM held WHERE held.id = points.id)"
        " AND node = $1"
        " RETURNING id, parent, chunks";

static const char delete_layers[] =
        "WITH RECURSIVE live (id) AS ("
        " SELECT mem_layer FROM points WHERE mem_layer IS NOT NULL"
        " UNION SELECT disk_layer FROM points WHERE disk_layer IS NOT NULL"
        " UNION SELECT base_mem FROM vms WHERE base_mem IS NOT NULL"
        " UNION SELECT disk_layer FROM vms WHERE disk_layer IS NOT NULL"
        " UNION SELECT id FROM held"
        " UNION SELECT c.parent FROM layers c JOIN layers p ON c.parent = p.id"
        " WHERE c.node <> $1 AND p.node = $1" /* as long as that node has not collected it */
        " UNION SELECT l.parent FROM layers l JOIN live ON l.id = live.id"
        " WHERE l.parent IS NOT NULL)"
        "DELETE FROM layers WHERE NOT EXISTS"
        " (SELECT 1 FROM live WHERE live.id = layers.id)"
        " AND node = $1"
        " RETURNING id, chunks";

static int run(struct store *s, const char *sql, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	return r < 0 ? r : query_run(&q, err);
}

static int hold(struct store *s, const char *const *ids, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		autoquery struct query q = { 0 };
		int r = query_begin(
		        &q, s, "INSERT INTO held (id) VALUES ($1) ON CONFLICT DO NOTHING", err);

		if (r < 0)
			return r;
		query_bind_text(&q, ids[i]);
		if ((r = query_run(&q, err)) < 0)
			return r;
	}
	return 0;
}

/* Objects of what is deleted, noted while the rows are read and written after that. */
struct objects_left {
	struct object_left {
		char id[ID_SIZE];
		uint32_t chunks;
	} * v; /* owned */
	size_t n, cap;
};

static void objects_left_done(struct objects_left *o)
{
	free(o->v);
}

static int leave(struct objects_left *o, const char *id, uint32_t chunks, struct err *err)
{
	if (!chunks)
		return 0;
	if (o->n == o->cap) {
		size_t want = o->cap ? 2 * o->cap : 16;
		void *p = reallocarray(o->v, want, sizeof(*o->v));

		if (!p)
			return err_set(err, -ENOMEM, "out of memory");
		o->v = p;
		o->cap = want;
	}
	memcpy(o->v[o->n].id, id, ID_SIZE);
	o->v[o->n++].chunks = chunks;
	return 0;
}

static int write_left(struct store *s, const struct objects_left *o, const char *dir,
                      int64_t now_ms, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < o->n; i++) {
		char name[STORE_OBJECT_SIZE];

		snprintf(name, sizeof(name), "%s/%s", dir, o->v[i].id);
		r = object_garbage_locked(s, name, o->v[i].chunks, now_ms, err);
	}
	return r;
}

static int delete_returning(struct store *s, const char *node, const char *sql,
                            char (**ret_ids)[ID_SIZE], size_t *ret_n, struct objects_left *left,
                            struct err *err)
{
	autoquery struct query q = { 0 };
	size_t cap = 0;
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, node);
	while ((r = query_step(&q, err)) > 0) {
		if (*ret_n == cap) {
			size_t want = cap ? 2 * cap : 16;
			void *p = reallocarray(*ret_ids, want, ID_SIZE);

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			*ret_ids = p;
			cap = want;
		}
		query_read_text(&q, (*ret_ids)[*ret_n], ID_SIZE);
		r = leave(left, (*ret_ids)[(*ret_n)++], (uint32_t)query_read_i64(&q, 0, UINT32_MAX),
		          err);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : query_read_end(&q, err);
}

static int delete_points_mending(struct store *s, const char *node, struct store_garbage *g,
                                 struct objects_left *left, struct err *err)
{
	autofree struct gone_point *gone = NULL;
	autoquery struct query q = { 0 };
	size_t n = 0, cap = 0;
	int r = query_begin(&q, s, delete_points, err);

	if (r < 0)
		return r;
	query_bind_text(&q, node);
	while ((r = query_step(&q, err)) > 0) {
		if (n == cap) {
			void *p = reallocarray(gone, cap ? 2 * cap : 16, sizeof(*gone));

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			gone = p;
			cap = cap ? 2 * cap : 16;
		}
		query_read_text(&q, gone[n].id, ID_SIZE);
		query_read_text(&q, gone[n].parent, ID_SIZE);
		r = leave(left, gone[n++].id, (uint32_t)query_read_i64(&q, 0, UINT32_MAX), err);
		if (r < 0)
			return r;
	}
	if (r < 0 || (r = query_read_end(&q, err)) < 0)
		return r;
	query_done(&q);
	g->points = n ? calloc(n, ID_SIZE) : NULL;
	if (n && !g->points)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		memcpy(g->points[g->n_points++], gone[i].id, ID_SIZE);
	return line_mend_locked(s, gone, n, err);
}

void store_garbage_done(struct store_garbage *g)
{
	free(g->points);
	free(g->layers);
	*g = (struct store_garbage){ 0 };
}

static int collect(struct store *s, const char *node, int64_t now_ms, struct store_garbage *g,
                   struct err *err)
{
	AUTO(objects_left_done) struct objects_left points = { 0 };
	AUTO(objects_left_done) struct objects_left layers = { 0 };
	int r;

	if ((r = delete_points_mending(s, node, g, &points, err)) < 0 ||
	    (r = delete_returning(s, node, delete_layers, &g->layers, &g->n_layers, &layers, err)) <
	            0 ||
	    (r = write_left(s, &points, "points", now_ms, err)) < 0)
		return r;
	return write_left(s, &layers, "layers", now_ms, err);
}

int collect_node_locked(struct store *s, const char *node, struct err *err)
{
	AUTO(store_garbage_done) struct store_garbage g = { 0 };
	int r = run(s, "DELETE FROM held", err);

	return r < 0 ? r : collect(s, node, clock_wall_ms(), &g, err);
}

int store_collect_at(struct store *s, const char *const *held_points, size_t n_points,
                     const char *const *held_layers, size_t n_layers, int64_t now_ms,
                     struct store_garbage *ret, struct err *err)
{
	AUTO(store_garbage_done) struct store_garbage g = { 0 };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = run(s, "DELETE FROM held", err)) < 0 ||
	    (r = hold(s, held_points, n_points, err)) < 0 ||
	    (r = hold(s, held_layers, n_layers, err)) < 0 ||
	    (r = collect(s, s->node, now_ms, &g, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return err_wrap(err, r, "collect unused layers");
	*ret = g;
	g = (struct store_garbage){ 0 };
	return 0;
}

int store_collect(struct store *s, const char *const *held_points, size_t n_points,
                  const char *const *held_layers, size_t n_layers, struct store_garbage *ret,
                  struct err *err)
{
	return store_collect_at(s, held_points, n_points, held_layers, n_layers, clock_wall_ms(),
	                        ret, err);
}
