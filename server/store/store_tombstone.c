/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_tombstone.c - records of deleted VMs
 *
 * A tombstone is written in the transaction that deletes the VM. Only the newest
 * of an account are kept, so a program that creates and deletes VMs all day does
 * not fill the database.
 */
#include "store/store_internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"

static const struct col tombstone_cols[] = {
	COL_AT(COL_TEXT, vm_tombstone, info.id, "id"),
	COL_AT(COL_TEXT, vm_tombstone, info.account, "account"),
	COL_AT(COL_TEXT, vm_tombstone, info.name, "name"),
	COL_WORD_AT(vm_tombstone, info.state, "state", vm_state_words),
	COL_AT(COL_REF, vm_tombstone, info.snapshot_id, "snapshot_id"),
	COL_AT(COL_REF, vm_tombstone, info.parent_id, "parent_id"),
	COL_AT(COL_I64, vm_tombstone, info.created_ms, "created_ms"),
	COL_AT(COL_I64, vm_tombstone, info.last_network_ms, "last_network_ms"),
	COL_WORD_AT(vm_tombstone, info.persistence.type, "persist", vm_persist_words),
	COL_AT(COL_INT, vm_tombstone, info.persistence.priority, "priority"),
	COL_WORD_AT(vm_tombstone, info.persistence.delete_event, "delete_event", vm_event_words),
	COL_AT(COL_U32, vm_tombstone, info.vcpus, "vcpus"),
	COL_AT(COL_U32, vm_tombstone, info.mem_mb, "mem_mb"),
	COL_AT(COL_U32, vm_tombstone, info.disk_mb, "disk_mb"),
	COL_AT(COL_DOUBLE, vm_tombstone, info.past.cpu_s, "cpu_seconds"),
	COL_AT(COL_DOUBLE, vm_tombstone, info.past.run_s, "run_seconds"),
	COL_AT(COL_DOUBLE, vm_tombstone, info.past.mem_gb_s, "mem_gb_seconds"),
	COL_AT(COL_U64, vm_tombstone, info.past.net_in, "net_in"),
	COL_AT(COL_U64, vm_tombstone, info.past.net_out, "net_out"),
	COL_AT(COL_U64, vm_tombstone, info.past.disk_read, "disk_read"),
	COL_AT(COL_U64, vm_tombstone, info.past.disk_write, "disk_write"),
	COL_AT(COL_I64, vm_tombstone, info.used_ms, "used_ms"),
	COL_AT(COL_TEXT, vm_tombstone, reason, "reason"),
	COL_AT(COL_I64, vm_tombstone, deleted_ms, "deleted_ms"),
};
static const struct table tombstone_table = {
	.name = "vm_tombstones",
	.cols = tombstone_cols,
	.n_cols = ARRAY_SIZE(tombstone_cols),
	.row_size = sizeof(struct vm_tombstone),
	.missing_tag = ERR_VM_NOT_FOUND,
	.noun = "VM",
};

static int forget_oldest(struct store *s, const char *account, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "DELETE FROM vm_tombstones WHERE account = $1 AND deleted_ms <"
	                    " (SELECT deleted_ms FROM vm_tombstones WHERE account = $1"
	                    " ORDER BY deleted_ms DESC LIMIT 1 OFFSET $2)",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_i64(&q, VM_TOMBSTONES_MAX - 1);
	return query_run(&q, err);
}

int tombstone_add_locked(struct store *s, const struct vm_info *v, const char *reason,
                         struct err *err)
{
	struct vm_tombstone t = { .info = *v, .deleted_ms = clock_wall_ms() };
	int r;

	t.info.past = vm_usage_total(v);
	snprintf(t.reason, sizeof(t.reason), "%s", reason);
	r = row_insert(s, &tombstone_table, &t, err);
	return r < 0 ? r : forget_oldest(s, v->account, err);
}

int store_tombstone_get(struct store *s, const char *id, struct vm_tombstone *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &tombstone_table, id, ret, err);
}

int store_tombstone_list(struct store *s, const char *account, struct vm_tombstone **ret,
                         size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &tombstone_table, "WHERE account = $1 ORDER BY deleted_ms DESC, id",
	             &account, 1, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}
