/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_node.c - nodes, and which rows are whose
 *
 * Joining, renewing and taking over are single statements on the node's row, each with the
 * generation (and beat) it is about: whatever was under way for long changes nothing. What a node
 * writes about its VMs goes through node_owns_locked(): the node's generation must still be that of
 * this process, and the VM's row must have this node and the epoch under which it is known here.
 * Both rows are locked by that until the transaction ends, so a takeover comes before or after it.
 *
 * Points, layers, templates and cached spec layers belong to the node that made them. Once they are
 * in the object store other nodes can use them; they are collected by their maker, or by who
 * removed it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "store/store_internal.h"
#include "store/store_node.h"

static const struct col node_cols[] = {
	COL_AT(COL_TEXT, store_node, id, "id"),
	COL_AT(COL_TEXT, store_node, name, "name"),
	COL_AT(COL_TEXT, store_node, address, "address"),
	COL_AT(COL_U64, store_node, gen, "gen"),
	COL_AT(COL_U64, store_node, beat, "beat"),
	COL_AT(COL_BOOL, store_node, alive, "alive"),
	COL_AT(COL_BOOL, store_node, draining, "draining"),
	COL_AT(COL_I64, store_node, joined_ms, "joined_ms"),
	COL_AT(COL_TEXT, store_node, version, "version"),
	COL_AT(COL_U32, store_node, vcpus, "vcpus"),
	COL_AT(COL_U32, store_node, mem_mb, "mem_mb"),
	COL_AT(COL_U32, store_node, free_mb, "free_mb"),
	COL_AT(COL_U32, store_node, running, "running"),
	COL_AT(COL_U32, store_node, pending, "pending"),
	COL_AT(COL_TEXT, store_node, qemu_version, "qemu_version"),
	COL_AT(COL_TEXT, store_node, machine, "machine"),
	COL_AT(COL_TEXT, store_node, cpu, "cpu"),
	COL_AT(COL_TEXT, store_node, accel, "accel"),
};
const struct table node_table = {
	.name = "nodes",
	.cols = node_cols,
	.n_cols = ARRAY_SIZE(node_cols),
	.row_size = sizeof(struct store_node),
	.missing_tag = ERR_NODE_NOT_FOUND,
	.noun = "node",
};

/* ---- what this process is ---- */

void store_be_node(struct store *s, const char *id, uint64_t gen, const struct vm_quota *quota)
{
	LOCK_SCOPE(&s->lock);

	snprintf(s->node, sizeof(s->node), "%s", id);
	s->node_gen = gen;
	s->node_quota = *quota;
}

const char *store_node_id(const struct store *s)
{
	return s->node;
}

void store_vm_own(struct store *s, struct store_vm *v)
{
	if (!*s->node || *v->node)
		return;
	memcpy(v->node, s->node, sizeof(v->node));
	memcpy(v->home, s->node, sizeof(v->home));
	v->epoch = 1;
}

const char *node_key(const struct store *s, const char *key, char ret[NODE_KEY_SIZE])
{
	snprintf(ret, NODE_KEY_SIZE, "%s%s%s", s->node, *s->node ? "/" : "", key);
	return ret;
}

void node_key_strip(const struct store *s, char *key)
{
	size_t n = strlen(s->node) + 1;

	if (*s->node && strlen(key) >= n)
		memmove(key, key + n, strlen(key + n) + 1);
}

/* An update that changes nothing locks the row, in the words of both engines. */
int node_holds_locked(struct store *s, struct err *err)
{
	autoquery struct query q = { 0 };
	int r;

	if (!*s->node)
		return 0;
	r = query_begin(&q, s,
	                "UPDATE nodes SET gen = gen WHERE id = $1 AND gen = $2 AND alive = 1", err);
	if (r < 0)
		return r;
	query_bind_text(&q, s->node);
	query_bind_i64(&q, (int64_t)s->node_gen);
	r = query_run(&q, err);
	return r != 0 ? MIN(r, 0)
	              : err_tag(err, -ESTALE, ERR_NODE_UNAVAILABLE,
	                        "the lease of this node is over: nothing is stored");
}

int node_owns_locked(struct store *s, const struct store_vm *v, struct err *err)
{
	autoquery struct query q = { 0 };
	int r;

	if (!*s->node)
		return 0;
	if ((r = node_holds_locked(s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "UPDATE vms SET epoch = epoch WHERE id = $1 AND node = $2 AND "
	                     "epoch = $3",
	                     err)) < 0)
		return r;
	query_bind_text(&q, v->info.id);
	query_bind_text(&q, s->node);
	query_bind_i64(&q, (int64_t)v->epoch);
	if ((r = query_run(&q, err)) != 0)
		return MIN(r, 0);
	r = query_count(s, "SELECT COUNT(*) FROM vms WHERE id = $1", v->info.id, err);
	if (r == 0)
		return row_missing(&vm_table, v->info.id, err);
	return r < 0 ? r
	             : err_tag(err, -ESTALE, ERR_NODE_UNAVAILABLE,
	                       "VM %s has another owner by now: nothing is stored", v->info.id);
}

int node_mark_locked(struct store *s, const char *sql, const char *id, struct err *err)
{
	const char *args[] = { s->node, id };
	int r = *s->node ? run_text(s, sql, args, 2, err) : 0;

	return MIN(r, 0);
}

/* ---- joining ---- */

static int refuse_twin(struct store *s, const struct store_node *n, struct err *err)
{
	autofree void *rows = NULL;
	size_t n_rows = 0;
	int r = row_list(s, &node_table, "ORDER BY name", NULL, 0, &rows, &n_rows, err);

	for (size_t i = 0; r >= 0 && i < n_rows; i++) {
		const struct store_node *o = (const struct store_node *)rows + i;

		if (strcmp(o->id, n->id) == 0)
			continue;
		if (strcmp(o->name, n->name) == 0)
			return err_set(err, -EINVAL,
			               "the cluster has a node '%s' already (%s, at %s): set "
			               "PANDO_NODE_NAME to another name, or remove that one with "
			               "'pando node remove %s' if it is gone for good",
			               o->name, o->id, o->address, o->name);
		if (strcmp(o->address, n->address) == 0)
			return err_set(err, -EINVAL,
			               "node '%s' has the address %s already: set "
			               "PANDO_NODE_ADDRESS to that of this machine",
			               o->name, o->address);
	}
	if (r >= 0 && n_rows >= NODES_MAX)
		return err_set(err, -EDQUOT, "the cluster has %zu nodes, the maximum", n_rows);
	return MIN(r, 0);
}

/* Rows of before there were nodes. */
static int adopt_rows(struct store *s, const char *id, struct err *err)
{
	static const char *const mine[] = {
		/* not those that a node gave up */
		"UPDATE vms SET node = $1, home = $1, epoch = 1 WHERE node = '' AND epoch = 0",
		"UPDATE layers SET node = $1 WHERE node = ''",
		"UPDATE points SET node = $1 WHERE node = ''",
		"UPDATE builds SET node = $1 WHERE node = ''",
		"UPDATE snapshots SET node = $1 WHERE node = ''",
		"UPDATE background_requests SET node = $1 WHERE node = ''",
		"UPDATE script_runs SET node = $1 WHERE node = ''",
		"UPDATE cron_executions SET node = $1 WHERE node = ''",
		"UPDATE deployments SET node = $1 WHERE node = ''",
		"UPDATE git_repos SET node = $1 WHERE node = '' AND epoch = 0",
		("UPDATE templates SET key = CAST($1 AS TEXT) || '/' || key "
		 "WHERE key NOT LIKE '%/%'"),
		("UPDATE spec_layers SET key = CAST($1 AS TEXT) || '/' || key "
		 "WHERE key NOT LIKE '%/%'"),
	};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(mine); i++)
		r = run_text(s, mine[i], &id, 1, err);
	return MIN(r, 0);
}

static int check_adoption(struct store *s, bool adopt, struct err *err)
{
	int n = query_count(s,
	                    "SELECT (SELECT COUNT(*) FROM vms WHERE node = '' AND epoch = 0) + "
	                    "(SELECT COUNT(*) FROM layers WHERE node = '')",
	                    NULL, err);

	if (n <= 0 || adopt)
		return MIN(n, 0);
	return err_set(err, -EINVAL,
	               "the database '%s' belongs to a machine that is not a node yet: start that "
	               "one with PANDO_NODE_ADDRESS first",
	               s->db->ops->name(s->db));
}

int store_node_register(struct store *s, const struct store_node *n, bool adopt, uint64_t *ret_gen,
                        struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_node row;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = refuse_twin(s, n, err)) < 0 ||
	    (r = check_adoption(s, adopt, err)) < 0 ||
	    (adopt && (r = adopt_rows(s, n->id, err)) < 0))
		return r;
	r = row_get(s, &node_table, n->id, &row, NULL);
	if (r == -ENOENT) {
		row = *n;
		row.gen = row.beat = 0;
		row.alive = row.draining = false;
		r = row_insert(s, &node_table, &row, err);
	} else if (r == 0) {
		snprintf(row.name, sizeof(row.name), "%s", n->name);
		snprintf(row.address, sizeof(row.address), "%s", n->address);
		snprintf(row.version, sizeof(row.version), "%s", n->version);
		row.vcpus = n->vcpus;
		row.mem_mb = n->mem_mb;
		r = row_update(s, &node_table, &row, err);
	} else {
		err_set(err, r, "read the row of this node");
	}
	*ret_gen = row.gen;
	return r < 0 ? r : tx_commit(&t, err);
}

int store_node_join(struct store *s, const struct store_node *n, uint64_t seen, uint64_t *ret_gen,
                    struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	struct store_node row;
	int r = query_begin(&q, s,
	                    "UPDATE nodes SET gen = gen + 1, beat = beat + 1, alive = 1, "
	                    "joined_ms = $1 WHERE id = $2 AND gen = $3 RETURNING gen",
	                    err);

	if (r < 0)
		return r;
	query_bind_i64(&q, clock_wall_ms());
	query_bind_text(&q, n->id);
	query_bind_i64(&q, (int64_t)seen);
	if ((r = query_step(&q, err)) < 0)
		return r;
	if (r > 0) {
		*ret_gen = (uint64_t)query_read_i64(&q, 1, INT64_MAX);
		return query_read_end(&q, err);
	}
	query_done(&q);
	if ((r = row_get(s, &node_table, n->id, &row, err)) < 0)
		return r;
	*ret_gen = row.gen;
	return err_set(err, -ESTALE, "the node has another generation by now");
}

int store_node_renew(struct store *s, const struct store_node *n, struct store_beat *ret,
                     struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE nodes SET beat = beat + 1, free_mb = $1, running = $2, "
	                    "pending = $3 WHERE id = $4 AND gen = $5 AND alive = 1 "
	                    "RETURNING draining",
	                    err);

	*ret = (struct store_beat){ 0 };
	if (r < 0)
		return r;
	query_bind_i64(&q, n->free_mb);
	query_bind_i64(&q, n->running);
	query_bind_i64(&q, n->pending);
	query_bind_text(&q, n->id);
	query_bind_i64(&q, (int64_t)n->gen);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	ret->ours = true;
	ret->draining = query_read_i64(&q, 0, 1) != 0;
	return query_read_end(&q, err);
}

int store_node_leave(struct store *s, const struct store_node *n, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE nodes SET alive = 0, running = 0 WHERE id = $1 AND gen = $2 "
	                    "AND NOT EXISTS (SELECT 1 FROM vms WHERE vms.node = nodes.id AND "
	                    "state NOT IN ('suspended', 'stopped', 'lost'))",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, n->id);
	query_bind_i64(&q, (int64_t)n->gen);
	r = query_run(&q, err);
	return MIN(r, 0);
}

/* ---- the others ---- */

int store_node_list(struct store *s, struct store_node **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &node_table, "ORDER BY name, id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_node_find(struct store *s, const char *name, struct store_node *ret, struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &node_table, "WHERE id = $1 OR name = $1", &name, 1, &rows, &n, err);
	if (r < 0)
		return r;
	if (n == 0)
		return err_tag(err, -ENOENT, ERR_NODE_NOT_FOUND, "no node '%.64s'", name);
	*ret = *(struct store_node *)rows;
	return 0;
}

/* Its process is gone with its memory; the disk is with its node. */
static int lose_vm(struct store *s, const struct store_vm *v, struct err *err)
{
	struct store_vm row = *v;
	struct vm_info *i = &row.info;
	int r;

	i->state = VM_LOST;
	i->instance[0] = '\0';
	row.slot = -1;
	row.epoch++;
	i->past.cpu_s += i->now.cpu_s;
	i->past.run_s += i->now.run_s;
	i->past.mem_gb_s += i->now.mem_gb_s;
	i->past.net_in += i->now.net_in;
	i->past.net_out += i->now.net_out;
	i->past.disk_read += i->now.disk_read;
	i->past.disk_write += i->now.disk_write;
	i->now = i->ahead = (struct vm_usage){ 0 };
	i->machine_ms = 0;
	i->used_ms = clock_wall_ms();
	snprintf(row.why, sizeof(row.why), "node");
	r = outbox_update_locked(s, &row, err);
	return r < 0 ? r : row_update(s, &vm_table, &row, err);
}

static int lose_running(struct store *s, const char *node, unsigned *ret, struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(s, &vm_table,
	                 "WHERE node = $1 AND state NOT IN ('suspended', 'stopped', 'lost')", &node,
	                 1, &rows, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = lose_vm(s, (const struct store_vm *)rows + i, err);
	*ret = (unsigned)n;
	return MIN(r, 0);
}

int store_node_reap(struct store *s, const struct store_node *seen, unsigned *ret_lost,
                    struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	const char *id = seen->id;
	int r;

	*ret_lost = 0;
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "UPDATE nodes SET gen = gen + 1, alive = 0, running = 0 "
	                     "WHERE id = $1 AND gen = $2 AND beat = $3 AND alive = 1",
	                     err)) < 0)
		return r;
	query_bind_text(&q, id);
	query_bind_i64(&q, (int64_t)seen->gen);
	query_bind_i64(&q, (int64_t)seen->beat);
	if ((r = query_run(&q, err)) <= 0)
		return r;
	query_done(&q);
	if ((r = lose_running(s, id, ret_lost, err)) < 0 ||
	    (r = build_fail_locked(s, id, "its node is gone", err)) < 0 ||
	    (r = cron_fail_locked(s, id, "its node is gone", err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	return 1;
}

int store_node_drain(struct store *s, const char *id, bool drain, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	int r = run_text(s,
	                 drain ? "UPDATE nodes SET draining = 1 WHERE id = $1"
	                       : "UPDATE nodes SET draining = 0 WHERE id = $1",
	                 &id, 1, err);

	return r < 0 ? r : r == 0 ? row_missing(&node_table, id, err) : 0;
}

int store_node_kind(struct store *s, const struct store_node *kind, struct err *err)
{
	const char *args[] = { kind->qemu_version, kind->machine, kind->cpu, kind->accel, s->node };
	LOCK_SCOPE(&s->lock);
	int r = run_text(s,
	                 "UPDATE nodes SET qemu_version = $1, machine = $2, cpu = $3, accel = $4 "
	                 "WHERE id = $5",
	                 args, ARRAY_SIZE(args), err);

	return MIN(r, 0);
}

int store_node_vms(struct store *s, const char *id, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return query_count(s, "SELECT COUNT(*) FROM vms WHERE node = $1", id, err);
}
