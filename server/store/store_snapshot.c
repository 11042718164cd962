/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_snapshot.c - points that a user keeps under an id and a name
 *
 * A deleted or lost snapshot stays as a row (it can be listed) and releases its point. Only the
 * newest of an account are kept, so that the list stays short for accounts that create and delete
 * many.
 */
#include "store/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

static const char *const state_words[] = {
	[SNAPSHOT_READY] = "ready",
	[SNAPSHOT_BUILDING] = "building",
	[SNAPSHOT_FAILED] = "failed",
	[SNAPSHOT_LOST] = "lost",
};
static_assert(ARRAY_SIZE(state_words) == SNAPSHOT_STATE_MAX, "a state is missing in state_words");

static const struct col snapshot_cols[] = {
	COL_AT(COL_TEXT, store_snapshot, info.id, "id"),
	COL_AT(COL_TEXT, store_snapshot, info.account, "account"),
	COL_AT(COL_TEXT, store_snapshot, info.name, "name"),
	COL_AT(COL_REF, store_snapshot, info.source_vm, "source_vm"),
	COL_AT(COL_REF, store_snapshot, info.source_instance, "source_instance"),
	COL_AT(COL_I64, store_snapshot, info.created_ms, "created_ms"),
	COL_AT(COL_BOOL, store_snapshot, info.deleted, "deleted"),
	COL_AT(COL_BOOL, store_snapshot, info.persistent, "persistent"),
	COL_AT(COL_INT, store_snapshot, info.priority, "priority"),
	COL_AT(COL_U32, store_snapshot, info.vcpus, "vcpus"),
	COL_AT(COL_U32, store_snapshot, info.mem_mb, "mem_mb"),
	COL_AT(COL_U32, store_snapshot, info.disk_mb, "disk_mb"),
	COL_AT(COL_REF, store_snapshot, point, "point"),
	COL_WORD_AT(store_snapshot, info.state, "state", state_words),
	COL_AT(COL_REF, store_snapshot, info.build_id, "build_id"),
	COL_AT(COL_TEXT, store_snapshot, info.failure, "failure"),
	COL_AT(COL_TEXT, store_snapshot, info.template_hash, "template_hash"),
	COL_AT(COL_TEXT, store_snapshot, info.workdir, "workdir"),
	COL_AT(COL_I64, store_snapshot, info.updated_ms, "updated_ms"),
	COL_AT(COL_I64, store_snapshot, info.used_ms, "used_ms"),
};
const struct table snapshot_table = {
	.name = "snapshots",
	.cols = snapshot_cols,
	.n_cols = ARRAY_SIZE(snapshot_cols),
	.row_size = sizeof(struct store_snapshot),
	.missing_tag = ERR_SNAPSHOT_NOT_FOUND,
	.noun = "snapshot",
};

int store_snapshot_add(struct store *s, const struct store_snapshot *n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &snapshot_table, n, err)) < 0 ||
	    (r = node_mark_locked(s, "UPDATE snapshots SET node = $1 WHERE id = $2", n->info.id,
	                          err)) < 0 ||
	    (r = outbox_snapshot_locked(s, NULL, n, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* A snapshot that was deleted while it was being built stays deleted: -ENOENT. Its name stays the
 * one its owner gave it last. */
int store_snapshot_settle(struct store *s, const struct store_snapshot *n, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_snapshot old, row = *n;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_get(s, &snapshot_table, n->info.id, &old, err)) < 0)
		return r;
	if (old.info.deleted)
		return row_missing(&snapshot_table, n->info.id, err);
	memcpy(row.info.name, old.info.name, sizeof(row.info.name));
	row.info.updated_ms = clock_wall_ms();
	if ((r = outbox_snapshot_locked(s, &old, &row, err)) < 0 ||
	    (r = row_update(s, &snapshot_table, &row, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_snapshot_get(struct store *s, const char *id, struct store_snapshot *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &snapshot_table, id, ret, err);
}

int store_snapshot_list(struct store *s, const char *account, bool include_deleted,
                        struct store_snapshot **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	const char *node = s->node;

	LOCK_SCOPE(&s->lock);
	if (account)
		r = row_list(s, &snapshot_table,
		             include_deleted ? "WHERE account = $1 ORDER BY created_ms DESC, id"
		                             : "WHERE account = $1 AND deleted = 0 "
		                               "ORDER BY created_ms DESC, id",
		             &account, 1, &p, ret_n, err);
	else
		r = row_list(s, &snapshot_table,
		             include_deleted ? "WHERE node = $1 ORDER BY created_ms DESC, id"
		                             : "WHERE deleted = 0 AND node = $1 "
		                               "ORDER BY created_ms DESC, id",
		             &node, 1, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_snapshot_rename(struct store *s, const char *id, const char *name, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_snapshot n, old;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_get(s, &snapshot_table, id, &n, err)) < 0)
		return r;
	old = n;
	if (n.info.deleted)
		return row_missing(&snapshot_table, id, err);
	if (strlen(name) >= sizeof(n.info.name))
		return err_set(err, -EINVAL, "a name has at most %zu bytes",
		               sizeof(n.info.name) - 1);
	snprintf(n.info.name, sizeof(n.info.name), "%s", name);
	n.info.updated_ms = clock_wall_ms();
	if ((r = outbox_snapshot_locked(s, &old, &n, err)) < 0 ||
	    (r = row_update(s, &snapshot_table, &n, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int forget_oldest(struct store *s, const char *account, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "DELETE FROM snapshots WHERE account = $1"
	                    " AND (deleted = 1 OR state = 'lost')"
	                    " AND updated_ms < (SELECT updated_ms FROM snapshots"
	                    " WHERE account = $1 AND (deleted = 1 OR state = 'lost')"
	                    " ORDER BY updated_ms DESC LIMIT 1 OFFSET $2)",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_i64(&q, SNAPSHOTS_GONE_MAX - 1);
	return query_run(&q, err);
}

int store_snapshot_delete(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_snapshot n, old;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_get(s, &snapshot_table, id, &n, err)) < 0)
		return r;
	old = n;
	if (n.info.deleted)
		return err_tag(err, -EALREADY, ERR_SNAPSHOT_ALREADY_DELETED,
		               "snapshot '%s' is already deleted", id);
	r = query_count(s, "SELECT COUNT(*) FROM deployments WHERE snapshot = $1", id, err);
	if (r < 0)
		return r;
	if (r > 0)
		return err_tag(
		        err, -EBUSY, ERR_CONFLICT,
		        "snapshot '%s' is what a deployment starts from: delete the deployment",
		        id);
	n.info.deleted = true;
	n.info.updated_ms = clock_wall_ms();
	n.point[0] = '\0';
	if ((r = outbox_snapshot_locked(s, &old, &n, err)) < 0 ||
	    (r = row_update(s, &snapshot_table, &n, err)) < 0 ||
	    (r = forget_oldest(s, n.info.account, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_snapshot_lose(struct store *s, const char *id, const char *reason, struct err *err)
{
	autotx struct tx t = { 0 };
	char before[sizeof(((struct store_snapshot *)0)->info.failure)];
	struct store_snapshot n, old;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_get(s, &snapshot_table, id, &n, err)) < 0)
		return r;
	old = n;
	n.info.state = SNAPSHOT_LOST;
	n.info.updated_ms = clock_wall_ms();
	memcpy(before, n.info.failure, sizeof(before)); /* for a failed build: the reason */
	snprintf(n.info.failure, sizeof(n.info.failure), "%s%s%.300s", reason,
	         *before ? "; its build had failed: " : "", before);
	n.point[0] = '\0';
	if ((r = outbox_snapshot_locked(s, &old, &n, err)) < 0 ||
	    (r = row_update(s, &snapshot_table, &n, err)) < 0 ||
	    (r = forget_oldest(s, n.info.account, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_snapshot_used(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_snapshot n;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_get(s, &snapshot_table, id, &n, err)) < 0)
		return r;
	n.info.used_ms = clock_wall_ms();
	if ((r = row_update(s, &snapshot_table, &n, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
