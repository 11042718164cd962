/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_claim.c - VMs at rest that go from one node to another
 *
 * What decides is the row of the VM and that of its owner, both locked by the transaction: the
 * owner is not alive (it left, or was taken over, which has made its running VMs lost), or there is
 * none. An owner that joins again at the same time comes before or after: then its own list has the
 * row, or has not.
 */
#include "store/store_claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

/* ---- what is stored ---- */

static const char count_unstored[] =
        "WITH RECURSIVE need (id) AS ("
        " SELECT mem_layer FROM points WHERE id = $1 AND mem_layer IS NOT NULL"
        " UNION SELECT disk_layer FROM points WHERE id = $1 AND disk_layer IS NOT NULL"
        " UNION SELECT id FROM layers WHERE id = $2"
        " UNION SELECT l.parent FROM layers l JOIN need ON l.id = need.id"
        " WHERE l.parent IS NOT NULL)"
        "SELECT (SELECT COUNT(*) FROM layers WHERE stored = 0 AND id IN (SELECT id FROM need))"
        " + (SELECT COUNT(*) FROM points WHERE id = $1 AND stored = 0)";

int unstored_locked(struct store *s, const char *point, const char *layer, struct err *err)
{
	autoquery struct query q = { 0 };
	int64_t n;
	int r = query_begin(&q, s, count_unstored, err);

	if (r < 0)
		return r;
	query_bind_text(&q, point);
	query_bind_text(&q, layer);
	if ((r = query_step(&q, err)) < 0)
		return r;
	n = query_read_i64(&q, 0, INT32_MAX);
	r = query_read_end(&q, err);
	return r < 0 ? r : (int)n;
}

int store_unstored(struct store *s, const char *point, const char *layer, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return unstored_locked(s, point, layer, err);
}

int unstored_vm_locked(struct store *s, const struct store_vm *v, struct err *err)
{
	struct store_point p;

	if (v->info.state == VM_SUSPENDED && row_get(s, &point_table, v->info.point, &p, NULL) < 0)
		return 1; /* whatever it is, it is not there */
	return unstored_locked(s, v->info.state == VM_SUSPENDED ? v->info.point : "",
	                       v->info.state == VM_STOPPED ? v->disk_layer : "", err);
}

/* ---- looking ---- */

int store_vm_look(struct store *s, const char *id, struct store_found *ret, struct err *err)
{
	struct store_node node;
	const char *who;
	int r;

	*ret = (struct store_found){ 0 };
	LOCK_SCOPE(&s->lock);
	if ((r = row_get(s, &vm_table, id, &ret->row, err)) < 0)
		return r;
	who = *ret->row.node ? ret->row.node : ret->row.home;
	r = *who ? row_get(s, &node_table, who, &node, err) : -ENOENT;
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0) {
		ret->owned = *ret->row.node && node.alive;
		snprintf(ret->owner, sizeof(ret->owner), "%s", node.name);
	}
	if ((r = unstored_vm_locked(s, &ret->row, err)) < 0)
		return r;
	ret->unstored = (unsigned)r;
	return 0;
}

/* ---- claiming ---- */

int node_gone_locked(struct store *s, const char *node, struct err *err)
{
	int r;

	if (!*node || strcmp(node, s->node) == 0)
		return 1;
	r = run_text(s, "UPDATE nodes SET gen = gen WHERE id = $1 AND alive = 0", &node, 1, err);
	if (r != 0)
		return r;
	r = query_count(s, "SELECT COUNT(*) FROM nodes WHERE id = $1", node, err);
	return r < 0 ? r : r == 0;
}

static int changed(const struct store_vm *v, struct err *err)
{
	return err_tag(err, -ESTALE, ERR_NODE_UNAVAILABLE,
	               "VM %s has just changed hands: try again", v->info.id);
}

/* The row becomes this node's ("": nobody's). */
static int hand_over(struct store *s, const struct store_vm *v, const char *to, const char *home,
                     struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE vms SET node = $1, home = $2, epoch = epoch + 1, slot = -1 "
	                    "WHERE id = $3 AND node = $4 AND epoch = $5 AND "
	                    "state IN ('suspended', 'stopped', 'lost')",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, to);
	query_bind_text(&q, home);
	query_bind_text(&q, v->info.id);
	query_bind_text(&q, v->node);
	query_bind_i64(&q, (int64_t)v->epoch);
	r = query_run(&q, err);
	return r == 0 ? changed(v, err) : MIN(r, 0);
}

static int not_whole(const struct store_vm *v, int n, struct err *err)
{
	return err_tag(err, -EAGAIN, ERR_NODE_UNAVAILABLE,
	               "%d files of VM %s are not in the object store", n, v->info.id);
}

int store_vm_claim(struct store *s, const struct store_vm *seen, bool whole, struct store_vm *ret,
                   struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_vm row;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_holds_locked(s, err)) < 0)
		return r;
	if ((r = node_gone_locked(s, seen->node, err)) <= 0)
		return r < 0 ? r : changed(seen, err);
	if ((r = row_get(s, &vm_table, seen->info.id, &row, err)) < 0)
		return r;
	if (whole && (r = unstored_vm_locked(s, &row, err)) != 0)
		return r < 0 ? r : not_whole(&row, r, err);
	if ((r = hand_over(s, seen, s->node, s->node, err)) < 0 ||
	    (r = row_get(s, &vm_table, seen->info.id, &row, err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = row;
	return 0;
}

int store_vm_give_up(struct store *s, const struct store_vm *v, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_owns_locked(s, v, err)) < 0)
		return r;
	if ((r = unstored_vm_locked(s, v, err)) != 0)
		return r < 0 ? r : not_whole(v, r, err);
	if ((r = hand_over(s, v, "", v->home, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- templates ---- */

int store_template_adopt(struct store *s, const char *key, char ret[ID_SIZE], struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	char any[NODE_KEY_SIZE], own[NODE_KEY_SIZE], found[ID_SIZE] = "";
	int r;

	if (!*s->node)
		return 0;
	snprintf(any, sizeof(any), "%%/%s", key);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "SELECT t.point FROM templates t JOIN points p ON p.id = t.point "
	                     "WHERE t.key LIKE $1 AND t.key NOT LIKE $2 AND p.stored = 1 "
	                     "ORDER BY p.created_ms, t.point LIMIT 1",
	                     err)) < 0)
		return r;
	query_bind_text(&q, any);
	query_bind_text(&q, node_key(s, "%", own));
	if ((r = query_step(&q, err)) <= 0)
		return r;
	query_read_text(&q, found, sizeof(found));
	if ((r = query_read_end(&q, err)) < 0)
		return r;
	query_done(&q);
	if ((r = unstored_locked(s, found, "", err)) != 0)
		return MIN(r, 0);
	r = query_begin(&q, s,
	                "INSERT INTO templates (key, point) VALUES ($1, $2) "
	                "ON CONFLICT (key) DO UPDATE SET point = excluded.point",
	                err);
	if (r < 0)
		return r;
	query_bind_text(&q, node_key(s, key, own));
	query_bind_text(&q, found);
	if ((r = query_run(&q, err)) < 0)
		return r;
	query_done(&q);
	if ((r = tx_commit(&t, err)) < 0)
		return r;
	memcpy(ret, found, ID_SIZE);
	return 1;
}
