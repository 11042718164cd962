/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - points that have a name and stay */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "vm/vm_internal.h"

static int snapshot_save(struct vm *vm, const char *point, const char *name,
                         const struct vm_persistence *persistence, struct snapshot_info *ret,
                         struct err *err)
{
	int64_t now = clock_wall_ms();
	struct store_snapshot s = { .info = { .created_ms = now,
		                              .updated_ms = now,
		                              .used_ms = now,
		                              .priority = 5,
		                              .vcpus = vm->row.info.vcpus,
		                              .mem_mb = vm->row.info.mem_mb,
		                              .disk_mb = vm->row.info.disk_mb } };
	int r;

	id_make("sc-", s.info.id);
	snprintf(s.info.account, sizeof(s.info.account), "%s", vm->row.info.account);
	snprintf(s.info.name, sizeof(s.info.name), "%s", name ? name : "");
	snprintf(s.info.source_vm, ID_SIZE, "%s", vm->row.info.id);
	snprintf(s.info.source_instance, ID_SIZE, "%s", vm->row.info.instance);
	snprintf(s.info.workdir, sizeof(s.info.workdir), "%s", vm->row.info.workdir);
	if (persistence) {
		s.info.persistent = persistence->type == PERSIST_PERSISTENT;
		s.info.priority = persistence->priority;
	}
	snprintf(s.point, ID_SIZE, "%s", point);
	r = quota_store_snapshot(vm->m, s.info.source_vm, &s, err);
	if (r == 0)
		*ret = s.info;
	return r;
}

static int freeze_and_save(struct vm *vm, const char *name,
                           const struct vm_persistence *persistence, struct snapshot_info *ret,
                           struct err *err)
{
	struct frozen f = { 0 };
	int r;

	if (vm->row.info.state == VM_SUSPENDED)
		return snapshot_save(vm, vm->row.info.point, name, persistence, ret, err);
	r = vm_wake(vm, err);
	if (r == 0)
		r = vm_freeze_live(vm, /* durable= */ true, &f, err);
	if (r == 0) {
		r = snapshot_save(vm, f.point, name, persistence, ret, err);
		vmm_release(vm->m, f.point);
	}
	return r;
}

int vm_snapshot_locked(struct vm *vm, const char *name, const struct vm_persistence *persistence,
                       struct snapshot_info *ret, struct err *err)
{
	uint64_t t0 = clock_us();
	int r = quota_hold(vm->m, vm->row.info.id, vm->row.info.account,
	                   &(struct vm_quota){ .snapshots = 1 }, err);

	if (r == 0) {
		r = freeze_and_save(vm, name, persistence, ret, err);
		quota_release(vm->m, vm->row.info.id);
	}
	if (r < 0)
		metrics_add(METRIC_VM_FAILURES, LABEL_OP_SNAPSHOT, 1);
	else
		metrics_since(METRIC_VM_SNAPSHOT, 0, t0);
	return r;
}

int vmm_snapshot(struct vmm *m, const char *account, const char *vm_id, const char *name,
                 const struct vm_persistence *persistence, struct snapshot_info *ret,
                 struct err *err)
{
	struct vm *vm;
	int r = vmm_need_room(m, err);

	if (r < 0 || (r = vmm_lock(m, account, vm_id, &vm, err)) < 0)
		return r;
	r = vm_snapshot_locked(vm, name, persistence, ret, err);
	if (r == 0)
		vm_tell(vm, EVENT_INFO, "snapshot %s taken", ret->id);
	vm_unlock(vm);
	vmm_collect_soon(m);
	return r < 0 ? err_wrap(err, r, "snapshot VM %s", vm_id) : 0;
}

#define USED_SAVE_MS 60000 /* a snapshot in use is not worth a transaction more often */

void snapshot_used(struct vmm *m, const struct store_snapshot *s)
{
	if (clock_wall_ms() - s->info.used_ms >= USED_SAVE_MS)
		store_snapshot_used(m->store, s->info.id, NULL);
}

void snapshot_fault(struct vmm *m, const char *id, struct err *err)
{
	struct err lose = { 0 };

	if (!point_fault(err, ERR_SOURCE_SNAPSHOT_LOST))
		return;
	log_obj(LOG_LV_ERROR, "snapshot", id, "is lost: %s", err->msg);
	if (store_snapshot_lose(m->store, id, "its layers are damaged", &lose) < 0)
		log_obj(LOG_LV_WARN, "snapshot", id, "%s", lose.msg);
}

int snapshot_find(struct vmm *m, const char *account, const char *id, struct store_snapshot *ret,
                  struct err *err)
{
	int r = store_snapshot_get(m->store, id, ret, err);

	if (r == 0 && strcmp(ret->info.account, account) != 0)
		r = -ENOENT;
	return r == -ENOENT ? err_tag(err, r, ERR_SNAPSHOT_NOT_FOUND, "no snapshot '%.40s'", id)
	                    : r;
}

int vmm_snapshot_list(struct vmm *m, const char *account, bool include_deleted,
                      struct snapshot_info **ret, size_t *ret_n, struct err *err)
{
	autofree struct store_snapshot *rows = NULL;
	struct snapshot_info *v;
	size_t n = 0;
	int r = store_snapshot_list(m->store, account, include_deleted, &rows, &n, err);

	if (r < 0)
		return r;
	v = calloc(n ? n : 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "list snapshots: out of memory");
	for (size_t i = 0; i < n; i++)
		v[i] = rows[i].info;
	*ret = v;
	*ret_n = n;
	return 0;
}

int vmm_snapshot_get(struct vmm *m, const char *account, const char *id, struct snapshot_info *ret,
                     struct err *err)
{
	struct store_snapshot s;
	int r = snapshot_find(m, account, id, &s, err);

	if (r == 0)
		*ret = s.info;
	return r;
}

int vmm_snapshot_rename(struct vmm *m, const char *account, const char *id, const char *name,
                        struct err *err)
{
	struct store_snapshot s;
	int r = snapshot_find(m, account, id, &s, err);

	return r < 0 ? r : store_snapshot_rename(m->store, id, name, err);
}

int vmm_snapshot_delete(struct vmm *m, const char *account, const char *id, struct err *err)
{
	struct store_snapshot s;
	int r = snapshot_find(m, account, id, &s, err);

	if (r < 0)
		return r;
	if (s.info.deleted)
		return err_tag(err, -EEXIST, ERR_SNAPSHOT_ALREADY_DELETED,
		               "snapshot '%s' is already deleted", id);
	r = store_snapshot_delete(m->store, id, err);
	if (r == 0) {
		if (s.info.state == SNAPSHOT_BUILDING)
			stage_cancel_snapshot(m, id);
		pool_forget(m, s.point);
		vmm_collect_soon(m);
	}
	return r;
}
