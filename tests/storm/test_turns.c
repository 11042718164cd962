/* SPDX-License-Identifier: Apache-2.0 */
/* test_turns.c - the same seed gives the same order of turns, locks and workers included */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/lock.h"
#include "tests/storm/turns.h"

#define THREADS 5
#define STEPS 40

static struct {
	struct mutex a, b;
	struct rwlock rw;
	char log[THREADS * STEPS * 8]; /* written by whoever has the turn */
	size_t n;
} w = { .a = MUTEX_INIT("test: a"), .b = MUTEX_INIT("test: b") };

static void note(char c)
{
	if (w.n < sizeof(w.log))
		w.log[w.n++] = c;
}

static void *helper(void *arg)
{
	for (int i = 0; i < 3; i++) {
		LOCK_SCOPE(&w.a);
		note((char)('a' + sched_self() % 26));
		sched_point();
	}
	return NULL;
}

static void *thread_main(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;

	sched_join(id);
	for (int i = 0; i < STEPS; i++) {
		note((char)('0' + id));
		switch (rng_below(sched_rng(), 4)) {
		case 0: {
			LOCK_SCOPE(&w.a);
			sched_point();
			sched_point();
			break;
		}
		case 1: {
			LOCK_SCOPE(&w.b);
			sched_point();
			break;
		}
		case 2:
			if (rng_one_in(sched_rng(), 2))
				rwlock_wrlock(&w.rw);
			else
				rwlock_rdlock(&w.rw);
			sched_point();
			rwlock_unlock(&w.rw);
			break;
		default:
			if (rng_one_in(sched_rng(), 5)) {
				pthread_t t[2];

				for (int k = 0; k < 2; k++)
					assert_int_equal(pthread_create(&t[k], NULL, helper, NULL),
					                 0);
				for (int k = 0; k < 2; k++)
					pthread_join(t[k], NULL);
			}
			sched_point();
		}
	}
	sched_leave();
	return NULL;
}

static uint64_t run(uint64_t seed, char *log, size_t size)
{
	pthread_t t[THREADS];

	memset(w.log, 0, sizeof(w.log));
	w.n = 0;
	sched_begin(seed, /* turns= */ true, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, thread_main, (void *)i), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	memcpy(log, w.log, size);
	return sched_order();
}

static void the_same_seed_gives_the_same_order(void **state)
{
	static char first[sizeof(w.log)], again[sizeof(w.log)], other[sizeof(w.log)];

	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t order = run(seed, first, sizeof(first));

		for (int i = 0; i < 5; i++) {
			assert_int_equal(run(seed, again, sizeof(again)), order);
			assert_string_equal(again, first);
		}
		assert_true(run(seed + 1000, other, sizeof(other)) != order);
		assert_string_not_equal(first, other);
	}
	assert_int_equal(sched_drift(), 0);
}

int main(void)
{
	rwlock_init(&w.rw, "test: rw");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_seed_gives_the_same_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
