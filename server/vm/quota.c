/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.c - how much an account may have
 *
 * What an account has is what the table of VMs shows (starting VMs included; counted there as they
 * change, table.h) and the store's snapshots, at the moment of the question. Whoever makes
 * something asks and makes it visible while holding m->quota, so calls that run at the same
 * time cannot both take the last place:
 *
 *	LOCK_SCOPE(&m->quota);
 *	r = quota_check(m, account, &(struct vm_quota){ .vms = 1, ... }, err);
 *	if (r == 0) ... vmm_insert(), vm_publish(), store_snapshot_add() ...
 *
 * That part must be short. What takes longer, the boot of a VM or the freeze of a snapshot, is held
 * first (quota_hold) and counts from then on; the hold goes in the same step in which
 * the thing can be seen, so it is never counted twice nor not at all. A resize asks for the
 * difference.
 *
 * m->quota comes after vm->lock and before m->gc and m->lock. VMs without an account are the
 * server's own and are not counted.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "store/store_account.h"
#include "store/store_feed.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"

/* One line per limit: what is said when the account's sum, or one VM alone, is over it. */
static const struct {
	size_t off;
	enum err_code sum_code, one_code;
	const char *name, *what, *unit, *setting; /* name: in /v1/accounts */
} dims[] = {
#define DIM(m) offsetof(struct vm_quota, m)
	{ DIM(vms), ERR_TOTAL_VM_LIMIT_EXCEEDED, ERR_NONE, "vms", "VMs", "", "VMS" },
	{ DIM(running), ERR_VM_LIMIT_EXCEEDED, ERR_NONE, "runningVms", "running VMs", "",
	  "RUNNING" },
	{ DIM(vcpus), ERR_VCPU_OVER_PLAN_LIMIT, ERR_VCPU_OVER_PLAN_LIMIT, "vcpus",
	  "vCPUs of running VMs", "", "VCPUS" },
	{ DIM(mem_mb), ERR_MEMORY_STORAGE_QUOTA_EXCEEDED, ERR_MEM_OVER_PLAN_LIMIT, "memoryMb",
	  "memory of running VMs", " MB", "MEM_MB" },
	{ DIM(disk_mb), ERR_ROOTFS_STORAGE_QUOTA_EXCEEDED, ERR_ROOTFS_OVER_PLAN_LIMIT, "diskMb",
	  "disk", " MB", "DISK_GB" },
	{ DIM(snapshots), ERR_SNAPSHOT_LIMIT_EXCEEDED, ERR_NONE, "snapshots", "snapshots", "",
	  "SNAPSHOTS" },
};

static int64_t *dim(struct vm_quota *q, size_t i)
{
	return (int64_t *)(void *)((char *)q + dims[i].off);
}

int vmm_usage(struct vmm *m, const char *account, struct vm_quota *ret, struct err *err)
{
	const struct vm_quota *here;
	struct vm_quota q = { 0 };
	int n = store_snapshot_count(m->store, account, err);

	if (n < 0)
		return n;
	q.snapshots = n;
	n = elsewhere_usage(m, account, &q, err);
	if (n < 0)
		return n;
	LOCK_SCOPE(&m->lock);
	here = &table_tally(&m->vms, account)->sum;
	for (size_t k = 0; k < ARRAY_SIZE(dims); k++)
		*dim(&q, k) += *dim((struct vm_quota *)here, k);
	for (size_t i = 0; i < m->n_held; i++)
		for (size_t k = 0; k < ARRAY_SIZE(dims); k++)
			if (strcmp(m->held[i].account, account) == 0)
				*dim(&q, k) += *dim(&m->held[i].q, k);
	*ret = q;
	return 0;
}

int vmm_limits(struct vmm *m, const char *account, struct vm_quota *ret, struct err *err)
{
	struct vm_quota server = m->conf.quota;
	struct store_account a;
	int r = store_account_get(m->store, account, &a, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(dims); i++)
		if (*dim(&a.quota, i) == QUOTA_DEFAULT) /* the operator's own account has none */
			*dim(&a.quota, i) = a.admin ? QUOTA_NONE : *dim(&server, i);
	*ret = a.quota;
	return 0;
}

static int refuse(struct vmm *m, const char *account, size_t i, int64_t limit, int64_t current,
                  int64_t more, struct err *err)
{
	enum err_code code = more > limit && dims[i].one_code ? dims[i].one_code : dims[i].sum_code;

	store_feed_refused(m->store, account, dims[i].name, code, limit, current, more);
	err_tag(err, -EDQUOT, code,
	        "this account may have %lld%s %s, has %lld%s and would need %lld%s more; the "
	        "operator can raise the account's quota, or PANDO_QUOTA_%s for all",
	        (long long)limit, dims[i].unit, dims[i].what, (long long)current, dims[i].unit,
	        (long long)more, dims[i].unit, dims[i].setting);
	if (strstr(err_code_name(code), "_OVER_PLAN_")) {
		err_fact(err, "got", current + more);
		err_fact(err, "max", limit);
	} else {
		err_fact(err, "limit", limit);
	}
	err_fact(err, "current", current);
	if (err && err->n_facts < ERR_FACTS_MAX)
		err_fact(err, "requested", more);
	return -EDQUOT;
}

int quota_check(struct vmm *m, const char *account, const struct vm_quota *more, struct err *err)
{
	struct vm_quota ask = *more, limits, usage;
	int r;

	if (!*account)
		return 0;
	r = vmm_limits(m, account, &limits, err);
	if (r == -ENOENT)
		return err_tag(err, -EACCES, ERR_FORBIDDEN, "this account was deleted");
	if (r < 0 || (r = vmm_usage(m, account, &usage, err)) < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(dims); i++) {
		int64_t limit = *dim(&limits, i), has = *dim(&usage, i), want = *dim(&ask, i);

		/* An account over a limit that was lowered may go on with what takes no more of it.
		 */
		if (limit >= 0 && want > 0 && has + want > limit)
			return refuse(m, account, i, limit, has, want, err);
	}
	return 0;
}

static struct vm_quota vms_ask(const struct vm_info *v, int64_t n)
{
	return (struct vm_quota){ .vms = n,
		                  .running = n,
		                  .vcpus = n * v->vcpus,
		                  .mem_mb = n * v->mem_mb,
		                  .disk_mb = n * v->disk_mb };
}

int quota_check_vms(struct vmm *m, const struct vm_info *v, unsigned n, struct err *err)
{
	struct vm_quota ask = vms_ask(v, n);

	LOCK_SCOPE(&m->quota);
	return quota_check(m, v->account, &ask, err);
}

/* m->quota and m->lock held, and there is room. */
static void hold(struct vmm *m, const char *id, const char *account, const struct vm_quota *q)
        REQUIRES(&m->lock)
{
	struct quota_held *h = &m->held[m->n_held++];

	h->q = *q;
	snprintf(h->id, sizeof(h->id), "%s", id);
	snprintf(h->account, sizeof(h->account), "%s", account);
}

int quota_hold(struct vmm *m, const char *id, const char *account, const struct vm_quota *more,
               struct err *err)
{
	int r;

	LOCK_SCOPE(&m->quota);
	r = quota_check(m, account, more, err);
	if (r < 0)
		return r;
	LOCK_SCOPE(&m->lock);
	if (m->n_held == QUOTA_HELD_MAX)
		return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
		               "too many operations at once");
	hold(m, id, account, more);
	return 0;
}

int quota_hold_vms(struct vmm *m, struct vm *const *vms, size_t n, struct err *err)
{
	const struct vm_info *v = &vms[0]->row.info;
	struct vm_quota all = vms_ask(v, (int64_t)n), one = vms_ask(v, 1);
	int r;

	LOCK_SCOPE(&m->quota);
	r = quota_check(m, v->account, &all, err);
	if (r < 0)
		return r;
	LOCK_SCOPE(&m->lock);
	if (m->n_held + n > QUOTA_HELD_MAX)
		return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
		               "too many operations at once");
	for (size_t i = 0; i < n; i++)
		hold(m, vms[i]->row.info.id, v->account, &one);
	return 0;
}

int quota_hold_vm(struct vmm *m, const struct vm_info *v, const char *account, struct err *err)
{
	struct vm_quota ask = vms_ask(v, 1);

	return quota_hold(m, v->id, account, &ask, err);
}

/* True: it was held. */
static bool let_go(struct vmm *m, const char *id)
{
	LOCK_SCOPE(&m->lock);
	for (size_t i = 0; i < m->n_held; i++) {
		if (strcmp(m->held[i].id, id) != 0)
			continue;
		m->held[i] = m->held[--m->n_held];
		return true;
	}
	return false;
}

void quota_release(struct vmm *m, const char *id)
{
	LOCK_SCOPE(&m->quota);
	let_go(m, id);
}

int quota_insert(struct vmm *m, struct vm *const *vms, size_t n, struct err *err)
{
	int64_t unheld = 0;
	struct vm_quota ask;
	int r;

	LOCK_SCOPE(&m->quota);
	for (size_t i = 0; i < n; i++)
		unheld += !let_go(m, vms[i]->row.info.id);
	if (!unheld) {
		r = 0;
	} else {
		ask = vms_ask(&vms[0]->row.info, unheld);
		r = quota_check(m, vms[0]->row.info.account, &ask, err);
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		vm_publish(vms[i]); /* whose it is: one from the pool was nobody's */
		r = vmm_insert(m, vms[i], err);
		for (size_t k = 0; r < 0 && k < i; k++)
			vmm_forget(m, vms[k]);
	}
	return r;
}

int quota_start(struct vm *vm, struct err *err)
{
	const struct vm_info *v = &vm->row.info;
	struct vm_quota ask = { .running = 1, .vcpus = v->vcpus, .mem_mb = v->mem_mb };
	int r;

	LOCK_SCOPE(&vm->m->quota);
	r = quota_check(vm->m, v->account, &ask, err);
	return r < 0 ? r : vm_set_state(vm, VM_STARTING, NULL, 0, NULL, err);
}

int quota_store_snapshot(struct vmm *m, const char *vm_id, const struct store_snapshot *s,
                         struct err *err)
{
	LOCK_SCOPE(&m->quota);
	let_go(m, vm_id);
	return store_snapshot_add(m->store, s, err);
}

int vmm_account_delete(struct vmm *m, const char *account, struct err *err)
{
	struct vm_quota usage;
	int r;

	LOCK_SCOPE(&m->quota);
	if ((r = vmm_usage(m, account, &usage, err)) < 0)
		return r;
	if (usage.vms || usage.snapshots)
		return err_tag(
		        err, -EBUSY, ERR_CONFLICT,
		        "the account still has %lld VMs and %lld snapshots: delete them first",
		        (long long)usage.vms, (long long)usage.snapshots);
	return store_account_delete(m->store, account, err);
}
