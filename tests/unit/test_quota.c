/* SPDX-License-Identifier: Apache-2.0 */
/* test_quota.c - limits of an account, asked by many threads at once */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "store/store_account.h"
#include "store/store_feed.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"
#include "vm/vm_internal.h"

#define THREADS 8
#define TRIES 25

struct fx {
	struct tmpdir dir;
	struct store *s;
	struct vmm *m; /* a table of VMs and a store; nothing runs */
	atomic_uint made, refused;
};

static struct vm_quota unlimited(void)
{
	return (struct vm_quota){ QUOTA_NONE, QUOTA_NONE, QUOTA_NONE,
		                  QUOTA_NONE, QUOTA_NONE, QUOTA_NONE };
}

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));
	char path[256];

	if (!f || tmpdir_make(&f->dir) < 0 ||
	    store_open(db_at(&f->dir, "pando.db", path, sizeof(path)), &f->s, NULL) < 0)
		return -1;
	*state = f;
	f->m = calloc(1, sizeof(*f->m));
	f->m->store = f->s;
	f->m->conf.quota = unlimited();
	mutex_init(&f->m->lock, "vmm");
	mutex_init(&f->m->quota, "vmm quota");
	if (store_account_create(f->s, "operator", "operator", NULL) < 0)
		return -1;
	return store_account_create(f->s, "acme", "acme", NULL);
}

static int teardown(void **state)
{
	struct fx *f = *state;
	int r;

	while (f->m->vms.n)
		vmm_forget(f->m, f->m->vms.all[0]);
	table_done(&f->m->vms);
	free(f->m);
	store_close(f->s);
	r = tmpdir_remove(&f->dir);
	free(f);
	return r;
}

static void limit(struct fx *f, const char *account, struct vm_quota q)
{
	struct store_account a;

	OK(store_account_get(f->s, account, &a, &err));
	a.quota = q;
	OK(store_account_update(f->s, &a, &err));
}

static struct vm *make_vm(struct fx *f, const char *account, enum vm_state state)
{
	struct store_vm row = {
		.info = { .state = state, .vcpus = 2, .mem_mb = 1024, .disk_mb = 10240 }, .slot = -1
	};

	id_make("", row.info.id);
	snprintf(row.info.account, sizeof(row.info.account), "%s", account);
	return vm_new(f->m, &row);
}

static int add_vm(struct fx *f, const char *account, enum vm_state state, struct err *e)
{
	struct vm *vm = make_vm(f, account, state);
	int r = quota_insert(f->m, &vm, 1, e);

	vm_unref(vm);
	return r;
}

static long long fact(const char *name)
{
	for (unsigned i = 0; i < err.n_facts; i++)
		if (strcmp(err.facts[i].name, name) == 0)
			return err.facts[i].value;
	fail_msg("the error has no '%s'", name);
	return -1;
}

static void refused_with(const char *code, long long current)
{
	assert_string_equal(err_code_name(err.tag), code);
	assert_int_equal(fact("current"), current);
}

static void each_limit_has_its_code(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited();

	for (int i = 0; i < 2; i++)
		OK(add_vm(f, "acme", VM_STARTING, &err));
	q.vms = 2;
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	refused_with("TOTAL_VM_LIMIT_EXCEEDED", 2);
	assert_int_equal(fact("limit"), 2);
	assert_int_equal(fact("requested"), 1);
	q = unlimited();
	q.running = 2;
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	refused_with("VM_LIMIT_EXCEEDED", 2);
	q = unlimited();
	q.vcpus = 5;
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	refused_with("VCPU_OVER_PLAN_LIMIT", 4);
	assert_int_equal(fact("got"), 6);
	assert_int_equal(fact("max"), 5);
	q = unlimited();
	q.mem_mb = 3000;
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	refused_with("MEMORY_STORAGE_QUOTA_EXCEEDED", 2048);
	q.mem_mb = 512; /* one VM alone is over it */
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	refused_with("MEM_OVER_PLAN_LIMIT", 2048);
	q = unlimited();
	q.disk_mb = 30000;
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	refused_with("ROOTFS_STORAGE_QUOTA_EXCEEDED", 20480);
	q.disk_mb = 30720;
	limit(f, "acme", q);
	OK(add_vm(f, "acme", VM_STARTING, &err)); /* exactly full */
	q = unlimited();
	q.vms = 0;
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	OK(add_vm(f, "operator", VM_STARTING, &err)); /* others are not concerned */
}

static size_t told(struct fx *f, const char *account, struct store_feed_event **ret)
{
	size_t n = 0;

	OK(store_feed_flush(f->s, &err));
	OK(store_feed_list(f->s, account, 0, 64, ret, &n, &err));
	return n;
}

/* Those who follow the account hear which one it was; a loop that asks again and again is one
 * event. */
static void a_refusal_is_told_once_in_a_while(void **state)
{
	struct fx *f = *state;
	struct store_feed_event *v = NULL;
	struct vm_quota q = unlimited();
	size_t n;

	q.vms = 0;
	limit(f, "acme", q);
	for (int i = 0; i < 100; i++)
		FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	n = told(f, "acme", &v);
	assert_int_equal(n, 1);
	assert_string_equal(v[0].type, "quota.refused");
	assert_non_null(strstr(v[0].text, "\"name\":\"vms\""));
	assert_non_null(strstr(v[0].text, "\"code\":\"TOTAL_VM_LIMIT_EXCEEDED\""));
	assert_non_null(strstr(v[0].text, "\"limit\":0,\"current\":0,\"requested\":1"));
	store_feed_free(v, n);
	/* Another quota, and another account, are told for themselves. */
	q = unlimited();
	q.disk_mb = 1;
	limit(f, "acme", q);
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	limit(f, "operator", q);
	FAILS(-EDQUOT, add_vm(f, "operator", VM_STARTING, &err));
	n = told(f, "acme", &v);
	assert_int_equal(n, 2);
	assert_non_null(strstr(v[1].text, "\"name\":\"diskMb\""));
	store_feed_free(v, n);
	n = told(f, "operator", &v);
	assert_int_equal(n, 1);
	store_feed_free(v, n);
}

static void defaults_are_for_all_but_the_operator(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited();

	f->m->conf.quota.vms = 1;
	OK(add_vm(f, "acme", VM_STARTING, &err));
	FAILS(-EDQUOT, add_vm(f, "acme", VM_STARTING, &err));
	for (int i = 0; i < 3; i++)
		OK(add_vm(f, "operator", VM_STARTING, &err));
	limit(f, "acme", q); /* no limit is not the same as the default */
	OK(add_vm(f, "acme", VM_STARTING, &err));
	q.vms = 3;
	limit(f, "operator", q);
	FAILS(-EDQUOT, add_vm(f, "operator", VM_STARTING, &err));
}

static void vms_at_rest_take_disk_only(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited(), usage;

	OK(add_vm(f, "acme", VM_SUSPENDED, &err));
	OK(add_vm(f, "acme", VM_STOPPED, &err));
	OK(add_vm(f, "acme", VM_LOST, &err));
	OK(vmm_usage(f->m, "acme", &usage, &err));
	assert_int_equal(usage.vms, 3);
	assert_int_equal(usage.running, 0);
	assert_int_equal(usage.mem_mb, 0);
	assert_int_equal(usage.disk_mb, 30720);
	q.running = 1;
	limit(f, "acme", q);
	OK(add_vm(f, "acme", VM_STARTING, &err));
	/* Waking one more is rejected, and it stays as it was. */
	mutex_lock(&f->m->vms.all[0]->lock);
	FAILS(-EDQUOT, quota_start(f->m->vms.all[0], &err));
	assert_int_equal(f->m->vms.all[0]->row.info.state, VM_SUSPENDED);
	mutex_unlock(&f->m->vms.all[0]->lock);
	refused_with("VM_LIMIT_EXCEEDED", 1);
}

static void less_is_always_fine(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited();

	OK(add_vm(f, "acme", VM_RUNNING, &err)); /* 2 vCPUs, 1024 MB, 10240 MB of disk */
	q.vcpus = q.mem_mb = q.disk_mb = 1;      /* the limits were lowered */
	limit(f, "acme", q);
	OK(quota_check(f->m, "acme", &(struct vm_quota){ .vcpus = -1, .mem_mb = -512 }, &err));
	FAILS(-EDQUOT, quota_check(f->m, "acme", &(struct vm_quota){ .vcpus = 1 }, &err));
	FAILS(-EDQUOT, quota_check(f->m, "acme", &(struct vm_quota){ .disk_mb = 1 }, &err));
}

static void a_fork_fits_as_a_whole_or_not_at_all(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited(), usage;
	struct vm *kids[4];

	q.vms = 3;
	limit(f, "acme", q);
	for (int i = 0; i < 4; i++)
		kids[i] = make_vm(f, "acme", VM_STARTING);
	FAILS(-EDQUOT, quota_insert(f->m, kids, 4, &err));
	assert_int_equal(fact("requested"), 4);
	OK(vmm_usage(f->m, "acme", &usage, &err));
	assert_int_equal(usage.vms, 0);
	OK(quota_insert(f->m, kids, 3, &err));
	for (int i = 0; i < 4; i++)
		vm_unref(kids[i]);
}

static void *create_many(void *arg)
{
	struct fx *f = arg;

	for (int i = 0; i < TRIES; i++)
		atomic_fetch_add(add_vm(f, "acme", VM_STARTING, NULL) == 0 ? &f->made : &f->refused,
		                 1);
	return NULL;
}

static void *snapshot_many(void *arg)
{
	struct fx *f = arg;

	for (int i = 0; i < TRIES; i++) {
		struct store_snapshot s = { .info = { .created_ms = 1 } };
		char vm[ID_SIZE];

		id_make("", vm);
		if (quota_hold(f->m, vm, "acme", &(struct vm_quota){ .snapshots = 1 }, NULL) < 0) {
			atomic_fetch_add(&f->refused, 1);
			continue;
		}
		if (i % 3 == 0) { /* the freeze failed */
			quota_release(f->m, vm);
			continue;
		}
		id_make("sc-", s.info.id);
		snprintf(s.info.account, sizeof(s.info.account), "acme");
		if (quota_store_snapshot(f->m, vm, &s, NULL) == 0)
			atomic_fetch_add(&f->made, 1);
	}
	return NULL;
}

/* As create does it: held while it boots, then in the table; some do not come up. */
static void *boot_many(void *arg)
{
	struct fx *f = arg;

	for (int i = 0; i < TRIES; i++) {
		struct vm *vm = make_vm(f, "acme", VM_STARTING);
		const struct vm_info *v = &vm->row.info;

		if (quota_hold_vm(f->m, v, "acme", NULL) < 0)
			atomic_fetch_add(&f->refused, 1);
		else if (i % 4 == 0)
			quota_release(f->m, v->id);
		else if (quota_insert(f->m, &vm, 1, NULL) == 0)
			atomic_fetch_add(&f->made, 1);
		vm_unref(vm);
	}
	return NULL;
}

static void run(struct fx *f, void *(*fn)(void *))
{
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, fn, f), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

static void creates_at_the_same_time_do_not_overshoot(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited(), usage;

	q.vms = 57;
	limit(f, "acme", q);
	run(f, create_many);
	OK(vmm_usage(f->m, "acme", &usage, &err));
	assert_int_equal(usage.vms, 57);
	assert_int_equal(f->made, 57); /* nor does anyone get less than there is */
	assert_int_equal(f->refused, THREADS * TRIES - 57);
}

static void snapshots_at_the_same_time_do_not_overshoot(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited(), usage;

	q.snapshots = 11;
	limit(f, "acme", q);
	run(f, snapshot_many);
	OK(vmm_usage(f->m, "acme", &usage, &err));
	assert_int_equal(usage.snapshots, 11);
	assert_int_equal(f->made, 11);
	assert_int_equal(f->m->n_held, 0);
	FAILS(-EDQUOT, quota_hold(f->m, "x", "acme", &(struct vm_quota){ .snapshots = 1 }, &err));
	refused_with("SNAPSHOT_LIMIT_EXCEEDED", 11);
}

static void what_boots_counts_already(void **state)
{
	struct fx *f = *state;
	struct vm_quota q = unlimited(), usage;

	q.vms = 40;
	limit(f, "acme", q);
	run(f, boot_many);
	OK(vmm_usage(f->m, "acme", &usage, &err));
	assert_int_equal(usage.vms, 40);
	assert_int_equal(f->made, 40);
	assert_int_equal(f->m->n_held, 0);
}

static void nothing_is_made_for_a_deleted_account(void **state)
{
	struct fx *f = *state;

	OK(add_vm(f, "acme", VM_STARTING, &err));
	FAILS(-EBUSY, vmm_account_delete(f->m, "acme", &err));
	assert_int_equal(err.tag, ERR_CONFLICT);
	vmm_forget(f->m, f->m->vms.all[0]);
	OK(vmm_account_delete(f->m, "acme", &err));
	FAILS(-EACCES, add_vm(f, "acme", VM_STARTING, &err)); /* a request that was let in before */
	FAILS(-ENOENT, vmm_account_delete(f->m, "acme", &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(each_limit_has_its_code),
		T(a_refusal_is_told_once_in_a_while),
		T(defaults_are_for_all_but_the_operator),
		T(vms_at_rest_take_disk_only),
		T(less_is_always_fine),
		T(a_fork_fits_as_a_whole_or_not_at_all),
		T(creates_at_the_same_time_do_not_overshoot),
		T(snapshots_at_the_same_time_do_not_overshoot),
		T(what_boots_counts_already),
		T(nothing_is_made_for_a_deleted_account),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
