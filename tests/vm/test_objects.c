/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_objects.c - the manager with an object store: what is uploaded, fetched, shared, dropped
 *
 * Over a store in memory (s3_mem.h) and a fake host; tests/e2e/test_objects.py has the same with
 * real VMs and a real server. Last, each call into database, files and memory fails once while a VM
 * is resumed that has to be fetched: it resumes or stays suspended, and the next try works.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "tests/fault/fault.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"
#include "tests/vm/s3_mem.h"
#include "vm/stored.h"

#define PATIENCE_MS 60000
#define THREADS 4

static struct s3_mem s3;

static struct rig *begin(void)
{
	struct rig_opts o = { .objects = s3.url };

	s3_mem_start(&s3);
	return rig_new(&o);
}

static void end(struct rig *r)
{
	rig_free(r);
	s3_mem_stop(&s3);
}

/* Nothing waits to be uploaded, whatever the uploader is doing. */
static void await_stored(struct rig *r)
{
	uint64_t until = deadline_in(PATIENCE_MS);
	struct store_uploads_sum sum;

	for (;;) {
		OK(store_uploads_sum(r->store, &sum, &err));
		if (!sum.n)
			return;
		if (deadline_left(until) == 0)
			fail_msg("%llu files are not uploaded", (unsigned long long)sum.n);
		stored_soon(r->vmm);
		poll(NULL, 0, 5);
	}
}

static struct store_point point_of(struct rig *r, const char *vm)
{
	struct store_vm row;
	struct store_point p;

	OK(store_vm_get(r->store, vm, &row, &err));
	OK(store_point_get(r->store, row.info.point, &p, &err));
	return p;
}

/* The files of a directory that no VM uses are gone. */
static void lose(struct rig *r, const char *dir, const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s/%s", r->data_dir, dir, name);
	assert_int_equal(unlink(path), 0);
}

static bool is_here(struct rig *r, const char *layer)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/layers/%s", r->data_dir, layer);
	return access(path, F_OK) == 0;
}

static void empty(struct rig *r)
{
	static const char *const dirs[] = { "layers", "points" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[300];
		autodir DIR *d = NULL;
		struct dirent *de;

		snprintf(path, sizeof(path), "%s/%s", r->data_dir, dirs[i]);
		d = opendir(path);
		assert_non_null(d);
		while ((de = readdir(d)))
			if (de->d_name[0] != '.')
				lose(r, dirs[i], de->d_name);
	}
}

static void suspended(struct rig *r, struct vm_info *vm)
{
	OK(rig_create(r, NULL, vm, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm->id, vm, &err));
	await_stored(r);
}

static void what_was_uploaded_comes_back(void **state)
{
	struct rig *r = begin();
	struct store_layer l;
	struct store_point p;
	struct vm_info vm;

	suspended(r, &vm);
	p = point_of(r, vm.id);
	assert_true(p.stored && p.chunks);
	assert_string_equal(p.account, RIG_ACCOUNT);
	OK(store_layer_get(r->store, p.mem_layer, &l, &err));
	assert_true(l.stored);
	assert_string_equal(l.account, RIG_ACCOUNT);
	OK(store_layer_get(r->store, l.parent, &l, &err));
	assert_string_equal(l.account, ""); /* the template's */
	rig_stop(r);
	empty(r);
	OK(rig_start(r, &err));
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	end(r);
}

struct creator {
	struct rig *r;
	const char *snapshot;
	struct vm_info vm;
	int result;
};

static void *create_one(void *arg)
{
	struct creator *c = arg;
	struct err e = { 0 };

	c->result = rig_create(c->r, c->snapshot, &c->vm, &e);
	return NULL;
}

static void many_share_one_fetch(void **state)
{
	struct rig *r = begin();
	struct creator c[THREADS];
	pthread_t t[THREADS];
	struct store_snapshot row;
	struct snapshot_info snap;
	struct store_point p;
	struct vm_info vm;
	char prefix[64];
	unsigned got;

	OK(rig_create(r, NULL, &vm, &err));
	OK(vmm_snapshot(r->vmm, RIG_ACCOUNT, vm.id, "s", NULL, &snap, &err));
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	await_stored(r);
	OK(store_snapshot_get(r->store, snap.id, &row, &err));
	OK(store_point_get(r->store, row.point, &p, &err));
	rig_settle(r);
	assert_true(cache_drop(r->vmm, UINT64_MAX) > 0);
	assert_false(is_here(r, p.mem_layer));
	for (int i = 0; i < THREADS; i++) {
		c[i] = (struct creator){ .r = r, .snapshot = snap.id };
		assert_int_equal(pthread_create(&t[i], NULL, create_one, &c[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(c[i].result, 0);
	}
	snprintf(prefix, sizeof(prefix), "layers/%s/", p.mem_layer);
	assert_true(s3_mem_count(&s3, prefix, &got) >= 1);
	assert_int_equal(got, s3_mem_count(&s3, prefix, NULL));
	rig_check(r);
	end(r);
}

static void the_cache_drops_what_nobody_uses(void **state)
{
	struct rig *r = begin();
	struct store_point p;
	struct vm_info running, vm;
	struct store_vm row;

	OK(rig_create(r, NULL, &running, &err));
	suspended(r, &vm);
	p = point_of(r, vm.id);
	rig_settle(r);
	OK(vmm_hold(r->vmm, p.mem_layer, &err)); /* somebody begins to use it */
	cache_drop(r->vmm, UINT64_MAX);
	assert_true(is_here(r, p.mem_layer));
	assert_false(is_here(r, p.disk_layer));
	vmm_release(r->vmm, p.mem_layer);
	cache_drop(r->vmm, UINT64_MAX);
	assert_false(is_here(r, p.mem_layer));
	OK(store_vm_get(r->store, running.id, &row, &err));
	assert_true(is_here(r, row.disk_layer) && is_here(r, row.base_mem));
	OK(rig_usable(r, running.id, &err));
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	end(r);
}

static void an_outage_fails_no_suspend(void **state)
{
	struct rig *r = begin();
	struct vmm_objects o = { 0 };
	struct store_point p;
	struct vm_info vm;
	uint64_t until = deadline_in(PATIENCE_MS);
	char out[64], prefix[64];

	OK(rig_create(r, NULL, &vm, &err));
	await_stored(r);
	atomic_store(&s3.down, true);
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &vm, &err));
	while (!o.failing || !o.pending) {
		assert_true(deadline_left(until) > 0);
		poll(NULL, 0, 5);
		vmm_objects(r->vmm, &o);
	}
	p = point_of(r, vm.id);
	assert_false(p.stored);
	OK(rig_exec(r, vm.id, "true", out, sizeof(out), &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &vm, &err));
	p = point_of(r, vm.id);
	atomic_store(&s3.down, false);
	await_stored(r);

	/* only there, and it does not answer; then it lies; then all is well */
	rig_settle(r);
	cache_drop(r->vmm, UINT64_MAX);
	atomic_store(&s3.down, true);
	assert_int_equal(rig_exec(r, vm.id, "true", out, sizeof(out), &err), -EAGAIN);
	assert_int_equal(err.tag, ERR_SERVICE_UNAVAILABLE);
	atomic_store(&s3.down, false);
	snprintf(prefix, sizeof(prefix), "layers/%s/", p.mem_layer);
	s3_mem_flip(&s3, prefix);
	err = (struct err){ 0 };
	assert_true(rig_exec(r, vm.id, "true", out, sizeof(out), &err) < 0);
	assert_int_equal(err.tag, ERR_OBJECT_DAMAGED);
	s3_mem_flip(&s3, prefix);
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	end(r);
}

/* A file that is lost here before it was stored holds nobody up. */
static void one_that_cannot_be_uploaded(void **state)
{
	struct rig *r = begin();
	struct store_point p;
	struct vm_info vm, other;
	uint64_t until = deadline_in(PATIENCE_MS);

	atomic_store(&s3.down, true);
	OK(rig_create(r, NULL, &vm, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &vm, &err));
	p = point_of(r, vm.id);
	assert_false(p.stored);
	lose(r, "layers", p.mem_layer);
	atomic_store(&s3.down, false);
	OK(rig_create(r, NULL, &other, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, other.id, &other, &err));
	while (!point_of(r, other.id).stored) {
		assert_true(deadline_left(until) > 0);
		stored_soon(r->vmm);
		poll(NULL, 0, 5);
	}
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	await_stored(r);
	end(r);
}

static void each_call_of_a_fetch_fails_once(void **state)
{
	static const unsigned kinds[] = { FAULT_BIT(FAULT_STORE), FAULT_BIT(FAULT_FILE),
		                          FAULT_BIT(FAULT_MEMORY) };
	struct rig *r = begin();
	struct store_point p;
	struct vm_info vm;
	unsigned long fired = 0;
	char out[64];

	suspended(r, &vm);
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		bool more = true;

		for (unsigned long n = 1; more && n < 400; n++) {
			struct fault_plan plan = { .kinds = kinds[k], .nth = n };
			struct engine_point e;
			struct err why = { 0 };
			int got;

			p = point_of(r, vm.id);
			rig_settle(r);
			cache_drop(r->vmm, UINT64_MAX);
			assert_false(is_here(r, p.mem_layer));
			fault_set(&plan);
			fault_arm();
			got = point_take(r->vmm, p.id, &e, &why);
			fault_disarm();
			more = fault_fired();
			fired += more;
			if (got == 0)
				point_drop(r->vmm, &e);
			else
				assert_true(*why.msg && more);
			fault_set(NULL);
			/* half of it is never there; the next one who wants it gets it */
			OK(point_take(r->vmm, p.id, &e, &err));
			assert_true(is_here(r, p.mem_layer) && is_here(r, p.disk_layer));
			point_drop(r->vmm, &e);
		}
	}
	assert_true(fired > 8);
	OK(rig_exec(r, vm.id, "true", out, sizeof(out), &err));
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	end(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_uploaded_comes_back),
		cmocka_unit_test(many_share_one_fetch),
		cmocka_unit_test(the_cache_drops_what_nobody_uses),
		cmocka_unit_test(an_outage_fails_no_suspend),
		cmocka_unit_test(one_that_cannot_be_uploaded),
		cmocka_unit_test(each_call_of_a_fetch_fails_once),
	};
	int r;

	if (rig_main_begin())
		return 1;
	fault_store_install(/* memory= */ false);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	rig_main_end();
	return r;
}
