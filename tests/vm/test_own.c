/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own.c - a server's own template: guests thawed from it need not be told of the server
 *
 * The files of a fake guest do not outlive its machine. So a guest that has the CA's file was told
 * since its machine was started, and one without was not.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "net/gate.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"
#include "vm/sizes.h"
#include "vm/template_own.h"
#include "vm/tree.h"
#include "vm/vm_internal.h"

#define PATIENCE_MS 60000
#define DOMAIN "pando.localhost"

static char *cas[2]; /* two authorities */

static int make_cas(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(cas); i++) {
		autofree char *key = NULL;

		if (gate_ca_make("test", &cas[i], &key, NULL) < 0)
			return 1;
	}
	return 0;
}

/* The point that default VMs are thawed from; is it the server's own? */
static bool is_own(struct rig *r, char ret_point[ID_SIZE])
{
	struct vmm *m = r->vmm;
	LOCK_SCOPE(&m->lock);

	memcpy(ret_point, template_now(m), ID_SIZE);
	return *m->own.told && strcmp(template_now(m), m->template_shared) != 0 &&
	       !own_pending(m, &m->own);
}

static void await_own(struct rig *r, char ret_point[ID_SIZE])
{
	uint64_t until = deadline_in(PATIENCE_MS);

	while (!is_own(r, ret_point)) {
		if (clock_ms() > until)
			fail_msg("there is no template of the server's own");
		poll(NULL, 0, 2);
	}
}

static bool was_told(struct rig *r, const char *id)
{
	char path[400];
	struct vm *vm;

	OK(vmm_find(r->vmm, RIG_ACCOUNT, id, &vm, &err));
	mutex_lock(&vm->lock);
	assert_true(vm->trusts);
	snprintf(path, sizeof(path),
	         "%s/run/%s/guest/usr/local/share/ca-certificates/pando-local.crt", r->data_dir,
	         vm->row.info.instance);
	mutex_unlock(&vm->lock);
	vm_unref(vm);
	return access(path, F_OK) == 0;
}

static void suspend(struct rig *r, const char *id)
{
	struct vm_info i;

	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, id, &i, &err));
}

static void restart(struct rig *r, const char *ca)
{
	rig_crash(r);
	OK(rig_start(r, &err));
	OK(vmm_trust(r->vmm, ca, DOMAIN, &err));
}

static void guests_of_it_are_not_told(void **state)
{
	struct rig *r = rig_new(NULL);
	struct vm_info a, b, c;
	char own[ID_SIZE], again[ID_SIZE];

	(void)state;
	OK(rig_create(r, NULL, &a, &err)); /* nobody knows a CA yet */
	assert_false(is_own(r, own));
	OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
	await_own(r, own);
	OK(rig_create(r, NULL, &b, &err));
	assert_false(was_told(r, b.id));
	OK(rig_usable(r, b.id, &err));
	assert_false(was_told(r, b.id)); /* nor when it was resumed */
	suspend(r, a.id);
	OK(rig_usable(r, a.id, &err)); /* told, suspended as that, resumed */
	assert_false(was_told(r, a.id));
	rig_check(r);

	/* The next start has it; but of VMs it knows nothing. */
	suspend(r, a.id);
	restart(r, cas[0]);
	await_own(r, again);
	assert_string_equal(own, again);
	OK(rig_exec(r, a.id, "true", NULL, 0, &err));
	assert_true(was_told(r, a.id));
	OK(rig_create(r, NULL, &c, &err));
	assert_false(was_told(r, c.id));
	rig_check(r);
	rig_free(r);
}

static void another_ca_means_another(void **state)
{
	struct rig *r = rig_new(&(struct rig_opts){ .pool = 1, .blanks = 1 });
	struct vm_info a;
	struct store_point p;
	char own[ID_SIZE], other[ID_SIZE];

	(void)state;
	OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
	await_own(r, own);
	OK(rig_create(r, NULL, &a, &err));
	suspend(r, a.id);
	restart(r, cas[1]);
	await_own(r, other);
	assert_string_not_equal(own, other);
	OK(rig_exec(r, a.id, "true", NULL, 0, &err));
	assert_true(was_told(r, a.id));
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, a.id, NULL, &err));
	rig_settle(r); /* nothing stands on the first one any more */
	FAILS(-ENOENT, store_point_get(r->store, own, &p, &err));
	OK(rig_create(r, NULL, &a, &err));
	OK(rig_usable(r, a.id, &err));
	rig_check(r);
	rig_free(r);
}

/* ---- other sizes ---- */

#define SIZE_VCPUS 2
#define SIZE_MB 1024

static int create_sized(struct rig *r, struct vm_info *ret)
{
	return vmm_create(r->vmm,
	                  &(struct vm_create_opts){ .account = RIG_ACCOUNT,
	                                            .vcpus = SIZE_VCPUS,
	                                            .mem_mb = SIZE_MB,
	                                            .idle_timeout_s = -1 },
	                  ret, &err);
}

/* The same for VMs of that size. */
static bool is_own_size(struct rig *r, char ret_point[ID_SIZE])
{
	struct vmm *m = r->vmm;
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < m->sizes->n; i++) {
		const struct size *s = &m->sizes->s[i];

		memcpy(ret_point, s->own.point, ID_SIZE);
		if (s->vcpus == SIZE_VCPUS && s->mem_mb == SIZE_MB)
			return *s->own.point && !own_pending(m, &s->own);
	}
	return false;
}

static void await_own_size(struct rig *r, char ret_point[ID_SIZE])
{
	uint64_t until = deadline_in(PATIENCE_MS);

	while (!is_own_size(r, ret_point)) {
		if (clock_ms() > until)
			fail_msg("the size has no template of the server's own");
		poll(NULL, 0, 2);
	}
}

static void a_size_in_use_has_one(void **state)
{
	struct rig *r = rig_new(NULL);
	struct vm_info a, b, c;
	struct store_point p;
	char own[ID_SIZE], size[ID_SIZE], again[ID_SIZE];

	(void)state;
	OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
	await_own(r, own);
	assert_false(is_own_size(r, size));
	OK(create_sized(r, &a));
	assert_true(was_told(r, a.id)); /* the first one */
	await_own_size(r, size);
	assert_string_not_equal(own, size);
	OK(create_sized(r, &b));
	assert_false(was_told(r, b.id));
	assert_int_equal(b.mem_mb, SIZE_MB);
	OK(rig_usable(r, b.id, &err));
	rig_check(r);

	restart(r, cas[0]);
	OK(create_sized(r, &c)); /* in use again */
	await_own_size(r, again);
	assert_string_equal(size, again);

	restart(r, cas[1]);
	OK(create_sized(r, &c));
	await_own_size(r, again);
	assert_string_not_equal(size, again);
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, b.id, NULL, &err));
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, c.id, NULL, &err));
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, a.id, NULL, &err));
	rig_settle(r);
	FAILS(-ENOENT, store_point_get(r->store, size, &p, &err));
	rig_check(r);
	rig_free(r);
}

static void await_gone(struct rig *r, const char *point)
{
	uint64_t until = deadline_in(PATIENCE_MS);
	struct store_point p;

	while (store_point_get(r->store, point, &p, NULL) != -ENOENT) {
		if (clock_ms() > until)
			fail_msg("point %s stays", point);
		poll(NULL, 0, 2);
	}
}

/* A size that goes takes its own template along, and one that is damaged is made again. */
static void it_goes_with_its_size(void **state)
{
	struct rig *r = rig_new(&(struct rig_opts){ .pool = 1, .blanks = 1 });
	char size[ID_SIZE], next[ID_SIZE], shared[ID_SIZE];
	struct vm_info a;

	(void)state;
	OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
	OK(create_sized(r, &a));
	await_own_size(r, size);
	rig_settle(r); /* one of it is ready */
	assert_true(own_forget(r->vmm, size));
	await_own_size(r, next);
	assert_string_not_equal(size, next);
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, a.id, NULL, &err));
	OK(create_sized(r, &a));
	assert_false(was_told(r, a.id));
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, a.id, NULL, &err));
	mutex_lock(&r->vmm->lock);
	memcpy(shared, r->vmm->sizes->s[0].point, sizeof(shared));
	mutex_unlock(&r->vmm->lock);
	assert_true(size_forget(r->vmm, shared, "the test says so"));
	rig_settle(r);
	await_gone(r, shared);
	await_gone(r, next); /* the ready VM that stood on it is ended beside */
	rig_check(r);
	rig_free(r);
}

static void there_is_one_template_for_users(void **state)
{
	struct rig *r = rig_new(NULL);
	char own[ID_SIZE], shared[ID_SIZE];
	struct vm_info a, b;
	struct vm_tree t;

	(void)state;
	OK(rig_create(r, NULL, &a, &err));
	OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
	await_own(r, own);
	memcpy(shared, r->vmm->template_shared, sizeof(shared));
	OK(rig_create(r, NULL, &b, &err));
	OK(vmm_tree(r->vmm, RIG_ACCOUNT, NULL, &t, &err));
	assert_int_equal(t.n, 3);
	assert_string_equal(t.nodes[0].id, shared);
	assert_int_equal(t.nodes[0].kind, TREE_TEMPLATE);
	for (size_t i = 1; i < t.n; i++)
		assert_string_equal(t.nodes[i].parent, shared);
	vm_tree_done(&t);
	rig_check(r);
	rig_free(r);
}

/* ---- trouble ---- */

struct trouble {
	struct rig *r;
	atomic_int left; /* calls until it happens */
	bool crash;      /* the server dies; else the call fails */
};

static int disturb(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct trouble *t = ctx;

	(void)face, (void)what, (void)object;
	if (atomic_fetch_sub(&t->left, 1) != 1)
		return 0;
	if (t->crash)
		__atomic_store_n(&t->r->dead, true, __ATOMIC_RELEASE);
	return t->crash ? 0 : EIO;
}

/* One call after the other, until it is made undisturbed. */
static void fail_each(bool sized)
{
	bool (*is_there)(struct rig *, char *) = sized ? is_own_size : is_own;
	struct rig *r = rig_new(NULL);
	struct trouble t = { .r = r };
	char own[ID_SIZE], other[ID_SIZE];
	struct vm_info vm;

	OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
	await_own(r, own);
	if (sized) {
		OK(create_sized(r, &vm));
		await_own_size(r, own);
	}
	for (int n = 1; t.left <= 0; n++) {
		uint64_t until = deadline_in(PATIENCE_MS);

		rig_settle(r);
		t.left = n;
		r->ctx = &t;
		r->on_call = disturb;
		assert_true(own_forget(r->vmm, own));
		while (!is_there(r, other) && t.left > 0 && clock_ms() < until)
			poll(NULL, 0, 1);
		r->on_call = NULL;
		OK(sized ? create_sized(r, &vm) : rig_create(r, NULL, &vm, &err)); /* even if not */
		(sized ? await_own_size : await_own)(r, other);
		assert_string_not_equal(own, other);
		memcpy(own, other, sizeof(own));
		OK(rig_usable(r, vm.id, &err));
		rig_check(r);
		OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
		assert_true(t.left <= 0 || n > 4);
	}
	rig_free(r);
}

static void each_call_fails_once(void **state)
{
	(void)state;
	fail_each(/* sized= */ false);
	fail_each(/* sized= */ true);
}

static void it_dies_at_each_call(void **state)
{
	bool hit = true;

	(void)state;
	for (int n = 1; hit; n++) {
		struct rig *r = rig_new(NULL);
		struct trouble t = { .r = r, .left = n, .crash = true };
		uint64_t until = deadline_in(PATIENCE_MS);
		char own[ID_SIZE];
		struct vm_info vm;

		rig_settle(r);
		r->ctx = &t;
		r->on_call = disturb;
		OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
		while (!is_own(r, own) && t.left > 0 && clock_ms() < until)
			poll(NULL, 0, 1);
		hit = t.left <= 0;
		r->on_call = NULL;
		if (hit)
			restart(r, cas[0]);
		OK(rig_create(r, NULL, &vm, &err)); /* whether there is one or not */
		await_own(r, own);
		OK(rig_usable(r, vm.id, &err));
		rig_check(r);
		rig_free(r);
		assert_true(hit || n > 4);
	}
}

static void a_damaged_one_is_made_again(void **state)
{
	struct rig *r = rig_new(NULL);
	char own[ID_SIZE], next[ID_SIZE];
	struct vm_info vm;

	(void)state;
	OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
	await_own(r, own);
	own_forget(r->vmm, "pt-other");
	assert_true(is_own(r, next));
	own_forget(r->vmm, own);
	OK(rig_create(r, NULL, &vm, &err)); /* at once, of whichever there is */
	await_own(r, next);
	assert_string_not_equal(own, next);
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guests_of_it_are_not_told),
		cmocka_unit_test(another_ca_means_another),
		cmocka_unit_test(a_size_in_use_has_one),
		cmocka_unit_test(it_goes_with_its_size),
		cmocka_unit_test(there_is_one_template_for_users),
		cmocka_unit_test(each_call_fails_once),
		cmocka_unit_test(it_dies_at_each_call),
		cmocka_unit_test(a_damaged_one_is_made_again),
	};
	int r = rig_main_begin();

	if (r == 0) {
		r = make_cas();
		if (r == 0)
			r = cmocka_run_group_tests(tests, NULL, NULL);
		rig_main_end();
	}
	for (size_t i = 0; i < ARRAY_SIZE(cas); i++)
		free(cas[i]);
	return r;
}
