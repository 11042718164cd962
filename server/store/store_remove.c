/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_remove.c - a node that does not come back: what the object store has of it lives on
 *
 * Its VMs at rest are given up, those that were lost with it too if there is a stored point to go
 * back to; snapshots with stored points stay as they are. What is left of its points and layers
 * after that (nothing refers to the rest) becomes the remover's, who collects it one day. All else
 * is lost, and only if that was said.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"
#include "store/store_node.h"

struct removal {
	struct store *s;
	const char *node;
	bool lose;                  /* else only counted */
	unsigned vms, snaps, repos; /* that are lost */
};

/* 1: the point is there, whole, and is more than a machine that was just booted. */
static int is_past(struct store *s, const char *point, struct err *err)
{
	struct store_point p;
	int r = *point ? row_get(s, &point_table, point, &p, NULL) : -ENOENT;

	if (r == -ENOENT || (r == 0 && p.kind == POINT_TEMPLATE))
		return 0;
	r = r < 0 ? r : unstored_locked(s, point, "", err);
	return r < 0 ? r : r == 0;
}

/* Of a VM that was lost with it: only what it can go back to. 1: there is something. */
static int trim_lost(struct store *s, struct store_vm *row, struct err *err)
{
	char *const past[] = { row->checkpoint, row->checkpoint_before, row->base_point };
	int left = 0;

	row->disk_layer[0] = row->base_mem[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(past); i++) {
		int r = is_past(s, past[i], err);

		if (r < 0)
			return r;
		if (r == 0)
			past[i][0] = '\0';
		left |= r;
	}
	return left;
}

/* 1: it can live on, with *row as it is then. */
static int survives(struct store *s, struct store_vm *row, struct err *err)
{
	int r;

	if (row->info.state == VM_LOST)
		return trim_lost(s, row, err);
	r = unstored_vm_locked(s, row, err);
	return r < 0 ? r : r == 0;
}

static int remove_vms(struct removal *m, struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(m->s, &vm_table, "WHERE node = $1", &m->node, 1, &rows, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct store_vm *row = (struct store_vm *)rows + i;

		if ((r = survives(m->s, row, err)) < 0)
			return r;
		if (r == 0) {
			m->vms++;
			r = m->lose ? vm_bury_locked(m->s, row, "lost", err) : 0;
			continue;
		}
		row->node[0] = row->home[0] = '\0';
		row->epoch++;
		r = row_update(m->s, &vm_table, row, err);
	}
	return MIN(r, 0);
}

static int remove_snapshots(struct removal *m, struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(m->s, &snapshot_table,
	                 "WHERE point IN (SELECT id FROM points WHERE node = $1)", &m->node, 1,
	                 &rows, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct store_snapshot *row = (struct store_snapshot *)rows + i;

		if ((r = unstored_locked(m->s, row->point, "", err)) <= 0)
			continue;
		m->snaps++;
		if (!m->lose)
			continue;
		row->point[0] = '\0';
		row->info.state = SNAPSHOT_LOST;
		row->info.updated_ms = clock_wall_ms();
		snprintf(row->info.failure, sizeof(row->info.failure), "its node was removed");
		r = row_update(m->s, &snapshot_table, row, err);
	}
	return MIN(r, 0);
}

/* Those that are stored are nobody's; the others are files of their node, and nowhere else. */
static int remove_repos(struct removal *m, struct err *err)
{
	int r = repos_give_up_locked(m->s, m->node, err);

	if (r >= 0)
		r = query_count(m->s, "SELECT COUNT(*) FROM git_repos WHERE node = $1", m->node,
		                err);
	m->repos = (unsigned)MAX(r, 0);
	if (r <= 0 || !m->lose)
		return MIN(r, 0);
	r = repos_lose_locked(m->s, m->node, err);
	if (r >= 0) /* those that are stored lose their large files only */
		r = run_text(m->s,
		             "DELETE FROM git_lfs WHERE repo IN "
		             "(SELECT id FROM git_repos WHERE node = $1)",
		             &m->node, 1, err);
	return r < 0 ? r : repos_give_up_locked(m->s, m->node, err);
}

static int take_over_rest(struct removal *m, struct err *err)
{
	static const char *const own[] = {
		"DELETE FROM templates WHERE key LIKE CAST($1 AS TEXT) || '/%'",
		"DELETE FROM spec_layers WHERE key LIKE CAST($1 AS TEXT) || '/%'",
	};
	static const char *const to_us[] = {
		"UPDATE points SET node = $1 WHERE node = $2",
		"UPDATE layers SET node = $1 WHERE node = $2",
		"UPDATE snapshots SET node = $1 WHERE node = $2",
	};
	const char *args[] = { m->s->node, m->node };
	int r = run_fail_locked(m->s, m->node, err);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(own); i++)
		r = run_text(m->s, own[i], &m->node, 1, err);
	if (r >= 0)
		r = collect_node_locked(m->s, m->node, err);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(to_us); i++)
		r = run_text(m->s, to_us[i], args, 2, err);
	return MIN(r, 0);
}

int store_node_remove(struct store *s, const char *id, bool lose, struct err *err)
{
	struct removal m = { .s = s, .node = id, .lose = lose };
	autotx struct tx t = { 0 };
	struct store_node row;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_get(s, &node_table, id, &row, err)) < 0)
		return r;
	if (row.alive)
		return err_tag(err, -EBUSY, ERR_CONFLICT,
		               "node '%s' is alive: stop it first; if it does not answer any more, "
		               "wait until the others have seen that (%s)",
		               row.name, "'pando node list'");
	if ((r = remove_vms(&m, err)) < 0 || (r = remove_snapshots(&m, err)) < 0 ||
	    (r = remove_repos(&m, err)) < 0)
		return r;
	if ((m.vms || m.snaps || m.repos) && !lose)
		return err_tag(err, -EBUSY, ERR_CONFLICT,
		               "only node '%s' has the files of %u VMs, %u snapshots and %u "
		               "repositories: start it again, or remove it together with them",
		               row.name, m.vms, m.snaps, m.repos);
	if ((r = take_over_rest(&m, err)) < 0 || (r = row_delete(s, &node_table, id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
