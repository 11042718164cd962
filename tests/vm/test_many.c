/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_many.c - ten thousand VMs at rest: what is done with one costs what it costs among a hundred
 *
 * The real manager over the fake host. All VMs but a few are rows of the store, suspended, of the
 * account that is measured: the worst case. Each step is done many times in both, in turns, and the
 * medians of the processor time of the thread that does it are compared, generously: a step that
 * looks at every VM takes a hundred times as long among a hundred times as many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"
#include "vm/vm_internal.h"

#define FEW 100
#define MANY 10000
#define TIMES 31
#define TIMES_SLOW 7
#define PAGE 20
#define SLACK 6      /* times as long, and that is still the same: caches, and a busy host */
#define LEAST_US 300 /* below which nothing is compared */

struct place {
	struct rig *r;
	struct vm_info own; /* a real one, suspended */
	char (*ids)[ID_SIZE];
	size_t n;
};

static struct place few, many;

/* Suspended as the one VM that really is: the same point, another disk layer each. */
static void fill(struct place *p, size_t n)
{
	autofree struct store_vm *rows = calloc(n, sizeof(*rows));
	autofree struct store_layer *layers = calloc(n, sizeof(*layers));
	struct store_vm like;

	assert_non_null(rows);
	assert_non_null(layers);
	p->ids = calloc(n, sizeof(*p->ids));
	assert_non_null(p->ids);
	p->n = n;
	OK(store_vm_get(p->r->store, p->own.id, &like, &err));
	for (size_t i = 0; i < n; i++) {
		rows[i] = like;
		id_make("", rows[i].info.id);
		rows[i].info.created_ms -= (int64_t)i * 10 + 1;
		snprintf(rows[i].info.name, sizeof(rows[i].info.name), "rest-%zu", i);
		memcpy(p->ids[i], rows[i].info.id, ID_SIZE);
	}
	OK(store_vm_add_many(p->r->store, rows, n, layers, 0, NULL, &err));
}

static void open_place(struct place *p, size_t n)
{
	p->r = rig_new(&(struct rig_opts){ 0 });
	OK(rig_create(p->r, NULL, &p->own, &err));
	OK(vmm_suspend(p->r->vmm, RIG_ACCOUNT, p->own.id, &p->own, &err));
	fill(p, n);
	rig_stop(p->r);
	OK(rig_start(p->r, &err));
	rig_settle(p->r);
}

static int setup(void **state)
{
	(void)state;
	open_place(&few, FEW);
	open_place(&many, MANY);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_free(few.r);
	rig_free(many.r);
	free(few.ids);
	free(many.ids);
	return 0;
}

static uint64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void compare(const char *what, void (*step)(struct place *p, unsigned i), unsigned times)
{
	uint64_t took[2][TIMES];
	struct place *places[] = { &few, &many };

	for (unsigned i = 0; i < times; i++)
		for (int k = 0; k < 2; k++) {
			uint64_t t0 = cpu_us();

			step(places[k], i);
			took[k][i] = cpu_us() - t0;
		}
	for (int k = 0; k < 2; k++)
		qsort(took[k], times, sizeof(took[k][0]), by_size);
	printf("%-22s %6llu us among %d, %6llu us among %d\n", what,
	       (unsigned long long)took[0][times / 2], FEW, (unsigned long long)took[1][times / 2],
	       MANY);
	if (took[1][times / 2] > MAX(took[0][times / 2], LEAST_US) * SLACK)
		fail_msg("%s takes longer among many", what);
}

/* ---- steps ---- */

static void page(struct place *p, unsigned i)
{
	const struct vm_page q = { .offset = (size_t)i * 2, .limit = PAGE };
	size_t by_state[VM_STATE_MAX], n;
	autofree struct vm_info *v = NULL;

	assert_true(vmm_page(p->r->vmm, RIG_ACCOUNT, &q, &v, &n, by_state));
	assert_int_equal(n, PAGE);
	assert_true(by_state[VM_SUSPENDED] >= p->n);
}

static void find(struct place *p, unsigned i)
{
	struct vm_info v;

	OK(vmm_get(p->r->vmm, RIG_ACCOUNT, p->ids[((size_t)i * 7919) % p->n], &v, &err));
}

static void quota(struct place *p, unsigned i)
{
	struct vm_quota q;

	OK(vmm_usage(p->r->vmm, RIG_ACCOUNT, &q, &err));
	assert_true((size_t)q.vms > p->n);
}

static void status(struct place *p, unsigned i)
{
	struct vmm_status s;

	vmm_status(p->r->vmm, &s);
}

static void wake(struct place *p, unsigned i)
{
	static const struct vm_start_opts as_it_is = { .idle_timeout_s = VM_LEAVE,
		                                       .activity_threshold = VM_LEAVE,
		                                       .count_exec = -1 };

	OK(vmm_start(p->r->vmm, RIG_ACCOUNT, p->own.id, &as_it_is, &p->own, &err));
	OK(vmm_suspend(p->r->vmm, RIG_ACCOUNT, p->own.id, &p->own, &err));
}

static void create(struct place *p, unsigned i)
{
	struct vm_info v;

	OK(rig_create(p->r, NULL, &v, &err));
	OK(vmm_delete(p->r->vmm, RIG_ACCOUNT, v.id, NULL, &err));
}

static void fork_some(struct place *p, unsigned i)
{
	autofree struct vm_info *v = NULL;

	OK(vmm_fork(p->r->vmm, RIG_ACCOUNT, p->own.id, 3, &(struct vm_fork_opts){ 0 }, &v, &err));
	for (int k = 0; k < 3; k++)
		OK(vmm_delete(p->r->vmm, RIG_ACCOUNT, v[k].id, NULL, &err));
}

static void looks_cost_the_same(void **state)
{
	(void)state;
	compare("a page of the list", page, TIMES);
	compare("one VM", find, TIMES);
	compare("what an account has", quota, TIMES);
	compare("the server's state", status, TIMES);
}

static void verbs_cost_the_same(void **state)
{
	(void)state;
	compare("resume and suspend", wake, TIMES_SLOW);
	compare("create and delete", create, TIMES_SLOW);
	compare("fork of 3, deleted", fork_some, TIMES_SLOW);
}

/* The page is a part of the list. */
static void pages_make_up_the_list(void **state)
{
	autofree struct vm_info *all = NULL;
	autofree struct vm_info *none = NULL;
	size_t n_all, at = 0, by_state[VM_STATE_MAX];

	(void)state;
	OK(vmm_list(few.r->vmm, RIG_ACCOUNT, &all, &n_all, &err));
	assert_int_equal(n_all, FEW + 1);
	while (at < n_all) {
		const struct vm_page q = { .offset = at, .limit = 7 };
		autofree struct vm_info *v = NULL;
		size_t n;

		assert_true(vmm_page(few.r->vmm, RIG_ACCOUNT, &q, &v, &n, by_state));
		assert_int_equal(n, MIN(n_all - at, 7));
		for (size_t i = 0; i < n; i++)
			assert_string_equal(v[i].id, all[at + i].id);
		at += n;
	}
	assert_int_equal(by_state[VM_SUSPENDED], n_all);
	assert_true(vmm_page(few.r->vmm, "nobody", &(struct vm_page){ .limit = 5 }, &none, &n_all,
	                     by_state));
	assert_int_equal(n_all, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_make_up_the_list),
		cmocka_unit_test(looks_cost_the_same),
		cmocka_unit_test(verbs_cost_the_same),
	};
	int r = rig_main_begin();

	if (r == 0) {
		r = cmocka_run_group_tests(tests, setup, teardown);
		rig_main_end();
	}
	return r;
}
