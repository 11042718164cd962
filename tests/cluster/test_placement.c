/* SPDX-License-Identifier: Apache-2.0 */
/* test_placement.c - tables of nodes in, the choice out */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "cluster/placement.h"

#define N(id_, near_, free_, running_)                                                  \
	{                                                                               \
		.id = id_, .open = true, .fits = true, .near = near_, .free_mb = free_, \
		.running = running_                                                     \
	}
#define DRAINED(id_, free_)                               \
	{                                                 \
		.id = id_, .fits = true, .free_mb = free_ \
	}
#define OTHER_CPU(id_, free_)                             \
	{                                                 \
		.id = id_, .open = true, .free_mb = free_ \
	}

static void the_best_node_for_one(void **state)
{
	static const struct {
		const char *why, *want; /* want: "" for none */
		uint64_t need_mb;
		struct placement_node v[4];
		size_t n;
	} t[] = {
		{ "there is none", "", 1, { DRAINED("a", 1) }, 0 },
		{ "drained", "b", 100, { DRAINED("a", 9000), N("b", NEAR_NOT, 5000, 0) }, 2 },
		{ "all are drained", "", 100, { DRAINED("a", 9000), DRAINED("b", 9000) }, 2 },
		{ "another CPU", "b", 100, { OTHER_CPU("a", 9000), N("b", NEAR_NOT, 200, 0) }, 2 },
		{ "no memory", "", 4000, { N("a", NEAR_FILES, 3999, 0) }, 1 },
		{ "just enough", "a", 4000, { N("a", NEAR_NOT, 4000, 0) }, 1 },
		{ "more memory",
		  "b",
		  100,
		  { N("a", NEAR_NOT, 5000, 0), N("b", NEAR_NOT, 5001, 9) },
		  2 },
		{ "who was asked, whoever has more",
		  "a",
		  100,
		  { N("a", NEAR_ASKED, 5000, 0), N("b", NEAR_NOT, 90000, 0) },
		  2 },
		{ "who has the files, not who was asked",
		  "b",
		  100,
		  { N("a", NEAR_ASKED, 50000, 0), N("b", NEAR_FILES, 5000, 0) },
		  2 },
		{ "it has the files, but would be short of memory",
		  "a",
		  4000,
		  { N("a", NEAR_NOT, 5000, 0), N("b", NEAR_FILES, 4511, 0) },
		  2 },
		{ "all are short: the nearest",
		  "b",
		  4000,
		  { N("a", NEAR_NOT, 4500, 0), N("b", NEAR_FILES, 4100, 0) },
		  2 },
		{ "the same memory",
		  "b",
		  1,
		  { N("a", NEAR_NOT, 900, 3), N("b", NEAR_NOT, 900, 2) },
		  2 },
		{ "the same of all",
		  "a",
		  1,
		  { N("b", NEAR_NOT, 900, 3), N("a", NEAR_NOT, 900, 3) },
		  2 },
		{ "nothing is known of what it needs",
		  "b",
		  0,
		  { N("a", NEAR_ASKED, 400, 0), N("b", NEAR_NOT, 600, 0) },
		  2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		size_t k = placement_best(t[i].v, t[i].n, t[i].need_mb, false);
		const char *got = k == SIZE_MAX ? "" : t[i].v[k].id;

		if (strcmp(got, t[i].want) != 0)
			fail_msg("%s: '%s', not '%s'", t[i].why, got, t[i].want);
	}
}

static void forks_are_spread(void **state)
{
	static const struct {
		const char *why, *want; /* the node of each, a letter; "" : not all have one */
		uint64_t need_mb;
		struct placement_node v[4];
		size_t n;
	} t[] = {
		{ "one each, then again",
		  "abcabc",
		  100,
		  { N("a", NEAR_FILES, 9000, 0), N("b", NEAR_NOT, 8000, 0),
		    N("c", NEAR_NOT, 7000, 0) },
		  3 },
		{ "one alone", "aaa", 100, { N("a", NEAR_FILES, 9000, 0) }, 1 },
		{ "without the drained and the other CPU",
		  "cc",
		  100,
		  { DRAINED("a", 9000), OTHER_CPU("b", 9000), N("c", NEAR_NOT, 9000, 0) },
		  3 },
		{ "a full one gets no more",
		  "abaaa",
		  1000,
		  { N("a", NEAR_FILES, 9000, 0), N("b", NEAR_NOT, 1900, 0) },
		  2 },
		{ "not enough for all",
		  "",
		  1000,
		  { N("a", NEAR_FILES, 2500, 0), N("b", NEAR_NOT, 1900, 0) },
		  2 },
		{ "the roomiest of the others first",
		  "acb",
		  1000,
		  { N("a", NEAR_FILES, 2500, 0), N("b", NEAR_NOT, 1900, 0),
		    N("c", NEAR_NOT, 9000, 0) },
		  3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct placement_node v[4];
		size_t at[8] = { 0 };
		char got[9] = "";
		unsigned count = *t[i].want ? (unsigned)strlen(t[i].want) : 4;

		memcpy(v, t[i].v, sizeof(v));
		if (placement_spread(v, t[i].n, t[i].need_mb, count, at))
			for (unsigned k = 0; k < count; k++)
				got[k] = *v[at[k]].id;
		if (strcmp(got, t[i].want) != 0)
			fail_msg("%s: '%s', not '%s'", t[i].why, got, t[i].want);
	}
}

/* Of random tables: whoever asks, the order of the nodes does not matter, and nobody gets more than
 * fits. */
static void the_order_of_nodes_does_not_matter(void **state)
{
	unsigned seed = 1;

	for (int round = 0; round < 2000; round++) {
		static const char *const ids[] = { "a", "b", "c", "d" };
		struct placement_node v[4], w[4];
		size_t at[6], other[6], n = 1 + (size_t)rand_r(&seed) % 4;
		uint64_t need = (uint64_t)rand_r(&seed) % 4000;
		unsigned count = 1 + (unsigned)rand_r(&seed) % 6;
		uint32_t before[4];
		bool all;

		for (size_t i = 0; i < n; i++) {
			v[i] = (struct placement_node){ .id = ids[i],
				                        .open = rand_r(&seed) % 4,
				                        .fits = rand_r(&seed) % 4,
				                        .near = (enum placement_near)(
				                                rand_r(&seed) % 3),
				                        .free_mb = (uint32_t)rand_r(&seed) % 9000,
				                        .running = (uint32_t)rand_r(&seed) % 3 };
			before[i] = v[i].free_mb;
		}
		for (size_t i = 0; i < n; i++)
			w[i] = v[n - 1 - i];
		all = placement_spread(v, n, need, count, at);
		assert_int_equal(placement_spread(w, n, need, count, other), all);
		for (unsigned k = 0; all && k < count; k++)
			assert_string_equal(v[at[k]].id, w[other[k]].id);
		for (size_t i = 0; i < n; i++) {
			assert_true(v[i].siblings * need <= before[i]);
			assert_true(v[i].siblings == 0 || (v[i].open && v[i].fits));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_node_for_one),
		cmocka_unit_test(forks_are_spread),
		cmocka_unit_test(the_order_of_nodes_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
