/* SPDX-License-Identifier: Apache-2.0 */
/* store_vm.c - VMs: one row each, always written as a whole */
#include "store/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/store_note.h"

const char *const vm_state_words[VM_STATE_MAX] = {
	[VM_STARTING] = "starting",   [VM_RUNNING] = "running", [VM_SUSPENDING] = "suspending",
	[VM_SUSPENDED] = "suspended", [VM_STOPPED] = "stopped", [VM_LOST] = "lost",
	[VM_BUILDING] = "building",
};
const char *const vm_persist_words[PERSIST_MAX] = {
	[PERSIST_STICKY] = "sticky",
	[PERSIST_EPHEMERAL] = "ephemeral",
	[PERSIST_PERSISTENT] = "persistent",
};
const char *const vm_event_words[DELETE_EVENT_MAX] = {
	[DELETE_ON_SUSPEND] = "suspend",
	[DELETE_ON_STOP] = "stop",
};

static const struct col vm_cols[] = {
	COL_AT(COL_TEXT, store_vm, info.id, "id"),
	COL_AT(COL_TEXT, store_vm, info.account, "account"),
	COL_AT(COL_TEXT, store_vm, info.name, "name"),
	COL_WORD_AT(store_vm, info.state, "state", vm_state_words),
	COL_AT(COL_REF, store_vm, info.instance, "instance"),
	COL_AT(COL_REF, store_vm, info.snapshot_id, "snapshot_id"),
	COL_AT(COL_REF, store_vm, info.parent_id, "parent_id"),
	COL_AT(COL_REF, store_vm, info.point, "point"),
	COL_AT(COL_I64, store_vm, info.created_ms, "created_ms"),
	COL_AT(COL_I64, store_vm, info.last_network_ms, "last_network_ms"),
	COL_AT(COL_I64, store_vm, info.idle_timeout_s, "idle_timeout_s"),
	COL_AT(COL_I64, store_vm, info.activity_threshold, "activity_threshold"),
	COL_WORD_AT(store_vm, info.persistence.type, "persist", vm_persist_words),
	COL_AT(COL_INT, store_vm, info.persistence.priority, "priority"),
	COL_WORD_AT(store_vm, info.persistence.delete_event, "delete_event", vm_event_words),
	COL_AT(COL_U32, store_vm, info.vcpus, "vcpus"),
	COL_AT(COL_U32, store_vm, info.mem_mb, "mem_mb"),
	COL_AT(COL_U32, store_vm, info.disk_mb, "disk_mb"),
	COL_AT(COL_BOOL, store_vm, info.count_exec, "count_exec"),
	COL_AT(COL_DOUBLE, store_vm, info.past.cpu_s, "cpu_seconds"),
	COL_AT(COL_DOUBLE, store_vm, info.past.run_s, "run_seconds"),
	COL_AT(COL_DOUBLE, store_vm, info.past.mem_gb_s, "mem_gb_seconds"),
	COL_AT(COL_U64, store_vm, info.past.net_in, "net_in"),
	COL_AT(COL_U64, store_vm, info.past.net_out, "net_out"),
	COL_AT(COL_U64, store_vm, info.past.disk_read, "disk_read"),
	COL_AT(COL_U64, store_vm, info.past.disk_write, "disk_write"),
	COL_AT(COL_DOUBLE, store_vm, info.now.cpu_s, "now_cpu_seconds"),
	COL_AT(COL_DOUBLE, store_vm, info.now.run_s, "now_run_seconds"),
	COL_AT(COL_DOUBLE, store_vm, info.now.mem_gb_s, "now_mem_gb_seconds"),
	COL_AT(COL_U64, store_vm, info.now.net_in, "now_net_in"),
	COL_AT(COL_U64, store_vm, info.now.net_out, "now_net_out"),
	COL_AT(COL_U64, store_vm, info.now.disk_read, "now_disk_read"),
	COL_AT(COL_U64, store_vm, info.now.disk_write, "now_disk_write"),
	COL_AT(COL_DOUBLE, store_vm, info.ahead.cpu_s, "ahead_cpu_seconds"),
	COL_AT(COL_U64, store_vm, info.ahead.net_in, "ahead_net_in"),
	COL_AT(COL_U64, store_vm, info.ahead.net_out, "ahead_net_out"),
	COL_AT(COL_U64, store_vm, info.ahead.disk_read, "ahead_disk_read"),
	COL_AT(COL_U64, store_vm, info.ahead.disk_write, "ahead_disk_write"),
	COL_AT(COL_I64, store_vm, info.machine_ms, "machine_ms"),
	COL_AT(COL_I64, store_vm, info.used_ms, "used_ms"),
	COL_AT(COL_U64, store_vm, info.generation, "generation"),
	COL_AT(COL_REF, store_vm, base_point, "base_point"),
	COL_AT(COL_REF, store_vm, base_mem, "base_mem"),
	COL_AT(COL_REF, store_vm, disk_layer, "disk_layer"),
	COL_AT(COL_INT, store_vm, slot, "slot"),
	COL_AT(COL_REF, store_vm, head, "head"),
	COL_AT(COL_REF, store_vm, info.build_id, "build_id"),
	COL_AT(COL_TEXT, store_vm, info.workdir, "workdir"),
	COL_AT(COL_BOOL, store_vm, grow_fs, "grow_fs"),
	COL_AT(COL_BOOL, store_vm, info.recreate, "recreate"),
	COL_AT(COL_REF, store_vm, origin, "origin"),
	COL_AT(COL_I64, store_vm, info.delete_at_ms, "delete_at_ms"),
	COL_AT(COL_U32, store_vm, info.self, "self"),
	COL_AT(COL_U32, store_vm, info.fork_index, "fork_index"),
	COL_AT(COL_U32, store_vm, info.fork_count, "fork_count"),
	COL_AT(COL_TEXT, store_vm, node, "node"),
	COL_AT(COL_U64, store_vm, epoch, "epoch"),
	COL_AT(COL_TEXT, store_vm, home, "home"),
	COL_AT(COL_I64, store_vm, info.checkpoint_every_s, "checkpoint_every_s"),
	COL_AT(COL_REF, store_vm, checkpoint, "checkpoint"),
	COL_AT(COL_REF, store_vm, checkpoint_before, "checkpoint_before"),
};
const struct table vm_table = {
	.name = "vms",
	.cols = vm_cols,
	.n_cols = ARRAY_SIZE(vm_cols),
	.row_size = sizeof(struct store_vm),
	.missing_tag = ERR_VM_NOT_FOUND,
	.noun = "VM",
};

/* A layer is the account's whose VM brings it, unless somebody said otherwise. */
static int put_layers(struct store *s, const struct store_layer *layers, size_t n,
                      const char *account, struct err *err)
{
	autofree struct store_layer *own = n ? calloc(n, sizeof(*own)) : NULL;

	if (n && !own)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		own[i] = layers[i];
		if (!*own[i].account)
			snprintf(own[i].account, sizeof(own[i].account), "%s", account);
	}
	return layers_put_locked(s, own, n, err);
}

int store_vm_add_many(struct store *s, const struct store_vm *v, size_t n,
                      const struct store_layer *new_layers, size_t n_layers,
                      const struct store_note *note, struct err *err)
{
	struct store_note own = note ? *note : (struct store_note){ 0 };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_holds_locked(s, err)) < 0 ||
	    (r = put_layers(s, new_layers, n_layers, n ? v[0].info.account : "", err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		snprintf(own.vm_id, sizeof(own.vm_id), "%s", v[i].info.id);
		snprintf(own.account, sizeof(own.account), "%s", v[i].info.account);
		if ((r = row_insert(s, &vm_table, &v[i], err)) < 0 ||
		    (note && (r = note_put_locked(s, &own, err)) < 0) ||
		    (*v[i].info.parent_id &&
		     (r = ports_fork_locked(s, v[i].info.parent_id, v[i].info.id, err)) < 0))
			return r;
	}
	if ((r = outbox_added_locked(s, v, n, err)) < 0 ||
	    (n && (r = node_quota_locked(s, v->info.account, err)) < 0))
		return r;
	return tx_commit(&t, err);
}

int store_vm_get(struct store *s, const char *id, struct store_vm *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &vm_table, id, ret, err);
}

int store_vm_list(struct store *s, const char *account, struct store_vm **ret, size_t *ret_n,
                  struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	if (account)
		r = row_list(s, &vm_table, "WHERE account = $1 ORDER BY created_ms DESC, id",
		             &account, 1, &p, ret_n, err);
	else {
		const char *node = s->node;

		r = *node ? row_list(s, &vm_table, "WHERE node = $1 ORDER BY created_ms DESC, id",
		                     &node, 1, &p, ret_n, err)
		          : row_list(s, &vm_table, "ORDER BY created_ms DESC, id", NULL, 0, &p,
		                     ret_n, err);
	}
	if (r >= 0)
		*ret = p;
	return r;
}

int store_vm_update(struct store *s, const struct store_vm *v, const struct store_layer *new_layers,
                    size_t n_layers, const struct store_point *new_point, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_point p;
	int r;

	if (new_point) {
		p = *new_point;
		if (!*p.account)
			snprintf(p.account, sizeof(p.account), "%s", v->info.account);
	}
	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_owns_locked(s, v, err)) < 0 ||
	    (r = put_layers(s, new_layers, n_layers, v->info.account, err)) < 0 ||
	    (new_point && (r = point_add_locked(s, &p, err)) < 0) ||
	    (r = outbox_update_locked(s, v, err)) < 0 || (r = row_update(s, &vm_table, v, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* Only these columns: the rest of the row may be changing. */
int store_vm_usage(struct store *s, const struct vm_info *v, size_t n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r = tx_begin(&t, s, err);

	if (r >= 0)
		r = node_holds_locked(s, err);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		autoquery struct query q = { 0 };

		r = query_begin(&q, s,
		                "UPDATE vms SET now_cpu_seconds = $1, now_run_seconds = $2,"
		                " now_mem_gb_seconds = $3, now_net_in = $4, now_net_out = $5,"
		                " now_disk_read = $6, now_disk_write = $7, last_network_ms = $8"
		                " WHERE id = $9 AND instance = $10 AND node = $11",
		                err);
		if (r < 0)
			return r;
		query_bind_double(&q, v[i].now.cpu_s);
		query_bind_double(&q, v[i].now.run_s);
		query_bind_double(&q, v[i].now.mem_gb_s);
		query_bind_i64(&q, (int64_t)v[i].now.net_in);
		query_bind_i64(&q, (int64_t)v[i].now.net_out);
		query_bind_i64(&q, (int64_t)v[i].now.disk_read);
		query_bind_i64(&q, (int64_t)v[i].now.disk_write);
		query_bind_i64(&q, v[i].last_network_ms);
		query_bind_text(&q, v[i].id);
		query_bind_text(&q, v[i].instance);
		query_bind_text(&q, s->node);
		r = query_run(&q, err);
	}
	return r < 0 ? r : tx_commit(&t, err);
}

int vm_bury_locked(struct store *s, const struct store_vm *v, const char *reason, struct err *err)
{
	int r;

	if ((r = outbox_bury_locked(s, v, reason, err)) < 0 ||
	    (r = row_delete(s, &vm_table, v->info.id, err)) < 0 ||
	    (r = grants_drop_locked(s, GRANT_VM, v->info.id, err)) < 0 ||
	    (r = mappings_drop_locked(s, v->info.id, err)) < 0 ||
	    (r = net_drop_locked(s, v->info.id, err)) < 0 ||
	    (r = notes_drop_locked(s, v->info.id, err)) < 0 ||
	    (r = ports_drop_locked(s, v->info.id, err)) < 0)
		return r;
	return reason ? tombstone_add_locked(s, &v->info, reason, err) : 0;
}

int store_vm_bury(struct store *s, const struct store_vm *v, const char *reason, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_owns_locked(s, v, err)) < 0 ||
	    (r = vm_bury_locked(s, v, reason, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_vm_delete(struct store *s, const char *id, struct err *err)
{
	struct store_vm v;
	int r = store_vm_get(s, id, &v, err);

	return r < 0 ? r : store_vm_bury(s, &v, "deleted", err);
}
