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

	memcpy(ret_point, m->template_point, ID_SIZE);
	return *m->own_told && strcmp(m->template_point, m->template_shared) != 0 &&
	       !own_pending(m);
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
static void disturb_each(bool crash)
{
	for (int n = 1;; n++) {
		struct rig *r = rig_new(NULL);
		struct trouble t = { .r = r, .left = n, .crash = crash };
		uint64_t until = deadline_in(PATIENCE_MS);
		char own[ID_SIZE];
		struct vm_info vm;
		bool hit;

		rig_settle(r);
		r->ctx = &t;
		r->on_call = disturb;
		OK(vmm_trust(r->vmm, cas[0], DOMAIN, &err));
		while (!is_own(r, own) && t.left > 0 && clock_ms() < until)
			poll(NULL, 0, 1);
		hit = t.left <= 0;
		r->on_call = NULL;
		if (hit && crash)
			restart(r, cas[0]);
		OK(rig_create(r, NULL, &vm, &err)); /* whether there is one or not */
		await_own(r, own);
		OK(rig_usable(r, vm.id, &err));
		rig_check(r);
		rig_free(r);
		if (!hit) {
			assert_true(n > 4);
			return;
		}
	}
}

static void each_call_fails_once(void **state)
{
	(void)state;
	disturb_each(/* crash= */ false);
}

static void it_dies_at_each_call(void **state)
{
	(void)state;
	disturb_each(/* crash= */ true);
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
