/* SPDX-License-Identifier: Apache-2.0 */
/* store_vm.c - VMs: one row each, always written whole */
#include "store/store_internal.h"

#include <assert.h>
#include <errno.h>

#include "base/err.h"

static const char *const state_words[] = {
	[VM_STARTING] = "starting",   [VM_RUNNING] = "running", [VM_SUSPENDING] = "suspending",
	[VM_SUSPENDED] = "suspended", [VM_STOPPED] = "stopped", [VM_LOST] = "lost",
	[VM_BUILDING] = "building",
};
static_assert(ARRAY_SIZE(state_words) == VM_STATE_MAX, "state_words misses a state");

static const char *const persist_words[] = {
	[PERSIST_STICKY] = "sticky",
	[PERSIST_EPHEMERAL] = "ephemeral",
	[PERSIST_PERSISTENT] = "persistent",
};
static_assert(ARRAY_SIZE(persist_words) == PERSIST_MAX, "persist_words misses a type");

static const char *const event_words[] = {
	[DELETE_ON_SUSPEND] = "suspend",
	[DELETE_ON_STOP] = "stop",
};
static_assert(ARRAY_SIZE(event_words) == DELETE_EVENT_MAX, "event_words misses an event");

static const struct col vm_cols[] = {
	COL_AT(COL_TEXT, store_vm, info.id, "id"),
	COL_AT(COL_TEXT, store_vm, info.account, "account"),
	COL_AT(COL_TEXT, store_vm, info.name, "name"),
	COL_WORD_AT(store_vm, info.state, "state", state_words),
	COL_AT(COL_REF, store_vm, info.instance, "instance"),
	COL_AT(COL_REF, store_vm, info.snapshot_id, "snapshot_id"),
	COL_AT(COL_REF, store_vm, info.parent_id, "parent_id"),
	COL_AT(COL_REF, store_vm, info.point, "point"),
	COL_AT(COL_I64, store_vm, info.created_ms, "created_ms"),
	COL_AT(COL_I64, store_vm, info.last_network_ms, "last_network_ms"),
	COL_AT(COL_I64, store_vm, info.idle_timeout_s, "idle_timeout_s"),
	COL_AT(COL_I64, store_vm, info.activity_threshold, "activity_threshold"),
	COL_WORD_AT(store_vm, info.persistence.type, "persist", persist_words),
	COL_AT(COL_INT, store_vm, info.persistence.priority, "priority"),
	COL_WORD_AT(store_vm, info.persistence.delete_event, "delete_event", event_words),
	COL_AT(COL_U32, store_vm, info.vcpus, "vcpus"),
	COL_AT(COL_U32, store_vm, info.mem_mb, "mem_mb"),
	COL_AT(COL_U32, store_vm, info.disk_mb, "disk_mb"),
	COL_AT(COL_DOUBLE, store_vm, info.cpu_seconds, "cpu_seconds"),
	COL_AT(COL_U64, store_vm, info.generation, "generation"),
	COL_AT(COL_REF, store_vm, base_point, "base_point"),
	COL_AT(COL_REF, store_vm, base_mem, "base_mem"),
	COL_AT(COL_REF, store_vm, disk_layer, "disk_layer"),
	COL_AT(COL_INT, store_vm, slot, "slot"),
	COL_AT(COL_REF, store_vm, head, "head"),
	COL_AT(COL_REF, store_vm, info.build_id, "build_id"),
	COL_AT(COL_TEXT, store_vm, info.workdir, "workdir"),
};
const struct table vm_table = {
	.name = "vms",
	.cols = vm_cols,
	.n_cols = ARRAY_SIZE(vm_cols),
	.row_size = sizeof(struct store_vm),
	.missing_tag = "VM_NOT_FOUND",
	.noun = "VM",
};

int store_vm_add(struct store *s, const struct store_vm *v, struct err *err)
{
	return store_vm_add_many(s, v, 1, NULL, 0, err);
}

int store_vm_add_many(struct store *s, const struct store_vm *v, size_t n,
                      const struct store_layer *new_layers, size_t n_layers, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = layers_put_locked(s, new_layers, n_layers, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if ((r = row_insert(s, &vm_table, &v[i], err)) < 0)
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
	else
		r = row_list(s, &vm_table, "ORDER BY created_ms DESC, id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_vm_update(struct store *s, const struct store_vm *v, const struct store_layer *new_layers,
                    size_t n_layers, const struct store_point *new_point, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = layers_put_locked(s, new_layers, n_layers, err)) < 0 ||
	    (new_point && (r = point_add_locked(s, new_point, err)) < 0) ||
	    (r = row_update(s, &vm_table, v, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_vm_delete(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_delete(s, &vm_table, id, err)) < 0 ||
	    (r = grants_drop_locked(s, GRANT_VM, id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
