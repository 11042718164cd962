/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sim.c - 100 nodes and 10,000 VMs for ten seconds, and rules that were left out
 *
 * Seeds 1, 2, 3, ... until SIM_SECONDS (10) have passed. The variants without a rule must be
 * caught, or the checks are worth nothing. SIM_SEED=N runs that seed only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/cluster/sim.h"

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *v = getenv(name);

	return v ? strtoull(v, NULL, 10) : otherwise;
}

static void show(uint64_t seed, const struct sim_result *r)
{
	printf("seed %llu: %llu events, %llu VMs started, %llu stored, %llu late writes refused, "
	       "%llu fences, %llu takeovers; %llu deaths, %llu hangs, %llu cuts, %llu jumps; "
	       "ran twice %llu, stale %llu, lost %llu, stuck %llu\n",
	       (unsigned long long)seed, (unsigned long long)r->events,
	       (unsigned long long)r->claims, (unsigned long long)r->suspends,
	       (unsigned long long)r->refused, (unsigned long long)r->fences,
	       (unsigned long long)r->takeovers, (unsigned long long)r->deaths,
	       (unsigned long long)r->hangs, (unsigned long long)r->cuts,
	       (unsigned long long)r->jumps, (unsigned long long)r->twice,
	       (unsigned long long)r->stale, (unsigned long long)r->lost,
	       (unsigned long long)r->stuck);
	fflush(stdout);
}

static bool is_wrong(const struct sim_result *r)
{
	return r->twice || r->stale || r->lost || r->stuck;
}

static void nothing_runs_twice_and_nothing_is_lost(void **state)
{
	struct sim_conf c = {
		.seed = from_env("SIM_SEED", 1), .nodes = 100, .vms = 10000, .seconds = 120
	};
	uint64_t until = clock_ms() + from_env("SIM_SECONDS", 10) * 1000;

	do {
		struct sim_result r;

		sim_run(&c, &r);
		show(c.seed, &r);
		if (is_wrong(&r))
			fail_msg("SIM_SEED=%llu repeats it", (unsigned long long)c.seed);
		/* a run in which nothing happened proves nothing */
		assert_true(r.claims > 5000 && r.suspends > 2000 && r.refused > 0);
		assert_true(r.fences > 20 && r.takeovers > 20 && r.deaths > 10 && r.hangs > 20);
		assert_true(r.cuts > 20 && r.jumps > 0);
		c.seed++;
	} while (!getenv("SIM_SEED") && clock_ms() < until);
}

static void same_seed_same_run(void **state)
{
	struct sim_conf c = { .seed = 7, .nodes = 20, .vms = 200, .seconds = 40 };
	struct sim_result a, b;

	sim_run(&c, &a);
	sim_run(&c, &b);
	assert_memory_equal(&a, &b, sizeof(a));
}

/* Small and long: a variant has to be caught within a few seeds. */
static void caught(enum sim_mutant m, const char *name)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct sim_conf c = {
			.seed = seed, .nodes = 20, .vms = 60, .seconds = 240, .mutant = m
		};
		struct sim_result r;

		sim_run(&c, &r);
		if (r.twice || r.stale || r.lost) {
			printf("%s: ", name);
			show(seed, &r);
			return;
		}
	}
	fail_msg("%s: nothing noticed it", name);
}

static void without_self_fencing_it_fails(void **state)
{
	caught(SIM_NO_FENCE, "no self-fencing");
}

static void counted_from_the_answer_it_fails(void **state)
{
	caught(SIM_FROM_ANSWER, "lease counted from the answer");
}

static void without_epochs_it_fails(void **state)
{
	caught(SIM_NO_EPOCH, "no epochs");
}

static void by_the_servers_clock_it_fails(void **state)
{
	caught(SIM_SERVER_CLOCK, "the database's wall clock");
}

/* The small, long runs are right as well. */
static void the_variants_differ_by_their_rule_only(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct sim_conf c = { .seed = seed, .nodes = 20, .vms = 60, .seconds = 240 };
		struct sim_result r;

		sim_run(&c, &r);
		if (is_wrong(&r)) {
			show(seed, &r);
			fail_msg("seed %llu", (unsigned long long)seed);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_seed_same_run),
		cmocka_unit_test(the_variants_differ_by_their_rule_only),
		cmocka_unit_test(without_self_fencing_it_fails),
		cmocka_unit_test(counted_from_the_answer_it_fails),
		cmocka_unit_test(without_epochs_it_fails),
		cmocka_unit_test(by_the_servers_clock_it_fails),
		cmocka_unit_test(nothing_runs_twice_and_nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
