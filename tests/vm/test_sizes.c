/* SPDX-License-Identifier: Apache-2.0 */
/* test_sizes.c - templates of other sizes: made once, joined, evicted, ahead of need, after
 * failures */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"

#define PATIENCE_MS 60000

struct counts {
	struct rig *r;
	atomic_int boots, thaws; /* machines that were started, without and with a state */
	atomic_int fail_boots;   /* so many more fail */
	atomic_bool hold_boots;  /* a boot waits while this is set */
};

static int count_calls(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct counts *c = ctx;
	struct fake_machine fm;

	if (face != FAKE_ENGINE || strcmp(what, "cont") != 0 ||
	    !fake_find(c->r->fake, object, &fm) || fm.freezes)
		return 0;
	if (*fm.token) {
		c->thaws++;
	} else {
		c->boots++;
		while (c->hold_boots)
			poll(NULL, 0, 1);
		if (c->fail_boots > 0) {
			c->fail_boots--;
			return EIO;
		}
	}
	return 0;
}

static void watch(struct rig *r, struct counts *c)
{
	c->r = r;
	r->ctx = c;
	r->on_call = count_calls;
}

static int create_for(struct rig *r, const char *account, uint32_t vcpus, uint32_t mem_mb,
                      struct vm_info *ret, struct err *e)
{
	return vmm_create(r->vmm,
	                  &(struct vm_create_opts){ .account = account,
	                                            .vcpus = vcpus,
	                                            .mem_mb = mem_mb,
	                                            .idle_timeout_s = -1 },
	                  ret, e);
}

static int create(struct rig *r, uint32_t vcpus, uint32_t mem_mb, struct vm_info *ret,
                  struct err *e)
{
	return create_for(r, RIG_ACCOUNT, vcpus, mem_mb, ret, e);
}

static void drop(struct rig *r, const char *id)
{
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, id, NULL, &err));
}

/* "ready", "building", ...; "": nobody asked for it */
static const char *state_of(struct rig *r, uint32_t vcpus, uint32_t mem_mb)
{
	static struct vmm_status st;

	vmm_status(r->vmm, &st);
	for (size_t i = 0; i < st.n_sizes; i++)
		if (st.sizes[i].vcpus == vcpus && st.sizes[i].mem_mb == mem_mb)
			return st.sizes[i].state;
	return "";
}

static void await_state(struct rig *r, uint32_t vcpus, uint32_t mem_mb, const char *state)
{
	uint64_t until = deadline_in(PATIENCE_MS);

	while (strcmp(state_of(r, vcpus, mem_mb), state) != 0) {
		if (clock_ms() > until)
			fail_msg("%u x %u is %s and does not become %s", vcpus, mem_mb,
			         state_of(r, vcpus, mem_mb), state);
		poll(NULL, 0, 2);
	}
}

static void the_second_use_is_a_thaw(void **state)
{
	struct rig *r = rig_new(NULL);
	struct counts c = { 0 };
	struct vm_info a, b;

	(void)state;
	watch(r, &c);
	OK(create(r, 4, 2048, &a, &err));
	assert_int_equal(c.boots, 1);
	assert_int_equal(a.vcpus, 4);
	assert_int_equal(a.mem_mb, 2048);
	OK(create(r, 4, 2048, &b, &err));
	assert_int_equal(c.boots, 1);
	assert_int_equal(c.thaws, 2);
	OK(rig_usable(r, a.id, &err));
	rig_check(r);
	/* the next server has it as well, and needs no boot either */
	rig_crash(r);
	OK(rig_start(r, &err));
	assert_string_equal(state_of(r, 4, 2048), "ready");
	drop(r, b.id);
	OK(create(r, 4, 2048, &b, &err));
	assert_int_equal(c.boots, 1);
	OK(rig_usable(r, b.id, &err));
	/* a default one is still that */
	drop(r, a.id);
	OK(create(r, 0, 0, &a, &err));
	assert_int_not_equal(a.mem_mb, 2048);
	rig_check(r);
	r->on_call = NULL;
	rig_free(r);
}

struct asker {
	struct rig *r;
	uint32_t vcpus, mem_mb;
	int result;
	struct err err;
	struct vm_info vm;
};

static void *asker_main(void *arg)
{
	struct asker *a = arg;

	a->result = create(a->r, a->vcpus, a->mem_mb, &a->vm, &a->err);
	return NULL;
}

#define ASKERS 4

static void ask_all(struct rig *r, struct counts *c, uint32_t vcpus, uint32_t mem_mb,
                    struct asker a[ASKERS])
{
	pthread_t t[ASKERS];

	c->hold_boots = true;
	for (int i = 0; i < ASKERS; i++) {
		a[i] = (struct asker){ .r = r, .vcpus = vcpus, .mem_mb = mem_mb };
		assert_int_equal(pthread_create(&t[i], NULL, asker_main, &a[i]), 0);
	}
	await_state(r, vcpus, mem_mb, "building");
	poll(NULL, 0, 50); /* so that most have joined; those who come later find the same */
	c->hold_boots = false;
	for (int i = 0; i < ASKERS; i++)
		pthread_join(t[i], NULL);
}

static void others_join_the_first(void **state)
{
	struct rig *r = rig_new(NULL);
	struct asker a[ASKERS];
	struct counts c = { 0 };

	(void)state;
	watch(r, &c);
	ask_all(r, &c, 8, 2048, a);
	for (int i = 0; i < ASKERS; i++) {
		if (a[i].result < 0)
			fail_msg("%s", a[i].err.msg);
		assert_int_equal(a[i].vm.vcpus, 8);
	}
	assert_int_equal(c.boots, 1);
	rig_check(r);
	r->on_call = NULL;
	rig_free(r);
}

static void a_failure_is_told_and_tried_again(void **state)
{
	struct rig *r = rig_new(NULL);
	struct counts c = { .fail_boots = 1000 };
	struct asker a[ASKERS];
	struct vm_info vm;

	(void)state;
	watch(r, &c);
	ask_all(r, &c, 16, 2048, a);
	for (int i = 0; i < ASKERS; i++) {
		assert_true(a[i].result < 0);
		assert_non_null(strstr(a[i].err.msg, "template"));
	}
	assert_string_equal(state_of(r, 16, 2048), "failed");
	rig_check(r);
	c.fail_boots = 0;
	OK(create(r, 16, 2048, &vm, &err));
	OK(rig_usable(r, vm.id, &err));
	assert_string_equal(state_of(r, 16, 2048), "ready");
	rig_check(r);
	r->on_call = NULL;
	rig_free(r);
}

static void the_longest_unused_goes(void **state)
{
	/* No budget: only the one that was made last stays. */
	struct rig *r = rig_new(&(struct rig_opts){ .no_sizes_disk = true });
	struct counts c = { 0 };
	struct vm_info a, b;

	(void)state;
	watch(r, &c);
	OK(create(r, 2, 8192, &a, &err));
	assert_string_equal(state_of(r, 2, 8192), "ready");
	OK(create(r, 4, 8192, &b, &err));
	assert_string_equal(state_of(r, 4, 8192), "ready");
	assert_string_equal(state_of(r, 2, 8192), "none");
	OK(rig_usable(r, a.id, &err)); /* it has what it stands on */
	drop(r, a.id);
	rig_check(r); /* and now that is gone */
	r->on_call = NULL;
	rig_free(r);
}

static void what_does_not_fit_the_quota_boots_nothing(void **state)
{
	struct rig *r = rig_new(&(struct rig_opts){ .quota_vcpus = 8 });
	struct counts c = { 0 };
	struct vm_info vm;

	(void)state;
	watch(r, &c);
	OK(store_account_create(r->store, "guests", "guests",
	                        &err)); /* the first one has no limits */
	FAILS(-EDQUOT, create_for(r, "guests", 32, 512, &vm, &err));
	assert_int_equal(c.boots, 0);
	assert_string_equal(state_of(r, 32, 512), "");
	FAILS(-ENOMEM, create(r, 1, 1u << 31, &vm, &err)); /* no host has so much */
	assert_int_equal(c.boots, 0);
	rig_check(r);
	r->on_call = NULL;
	rig_free(r);
}

static struct counts ahead;

static void prepare_ahead(struct rig *r)
{
	watch(r, &ahead);
}

/* The default template is in the cache by now: the first boot is that of the size. */
static void listed_ones_are_made_ahead_and_make_way(void **state)
{
	struct rig *r;
	struct vm_info vm;

	(void)state;
	ahead.hold_boots = true;
	r = rig_new(&(struct rig_opts){
	        .size_vcpus = 16, .size_mem_mb = 1024, .prepare = prepare_ahead });
	while (ahead.boots < 1)
		poll(NULL, 0, 1);
	assert_string_equal(state_of(r, 16, 1024), "building");
	/* Somebody needs a VM, and has it at once: what nobody waits for is ended. */
	OK(rig_create(r, NULL, &vm, &err));
	assert_int_equal(ahead.boots, 1);
	ahead.hold_boots = false;
	await_state(r, 16, 1024, "ready");
	assert_int_equal(ahead.boots, 2);
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	r->on_call = NULL;
	rig_free(r);
}

/* Whoever asks for the very size that is made ahead of need gets that one. */
static void one_that_is_made_ahead_is_joined(void **state)
{
	struct rig *r;
	struct asker a[ASKERS];

	(void)state;
	ahead = (struct counts){ .hold_boots = true };
	r = rig_new(&(struct rig_opts){
	        .size_vcpus = 32, .size_mem_mb = 1024, .prepare = prepare_ahead });
	while (ahead.boots < 1)
		poll(NULL, 0, 1);
	ask_all(r, &ahead, 32, 1024, a);
	for (int i = 0; i < ASKERS; i++)
		if (a[i].result < 0)
			fail_msg("%s", a[i].err.msg);
	assert_int_equal(ahead.boots, 1);
	rig_check(r);
	r->on_call = NULL;
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_use_is_a_thaw),
		cmocka_unit_test(others_join_the_first),
		cmocka_unit_test(a_failure_is_told_and_tried_again),
		cmocka_unit_test(the_longest_unused_goes),
		cmocka_unit_test(what_does_not_fit_the_quota_boots_nothing),
		cmocka_unit_test(listed_ones_are_made_ahead_and_make_way),
		cmocka_unit_test(one_that_is_made_ahead_is_joined),
	};
	int r = rig_main_begin();

	if (r == 0) {
		r = cmocka_run_group_tests(tests, NULL, NULL);
		rig_main_end();
	}
	return r;
}
