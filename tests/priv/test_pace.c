/* SPDX-License-Identifier: Apache-2.0 */
/* test_pace.c - how fast pando-priv takes requests; time is an argument */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "priv/pace.h"

static unsigned taken(struct pace *p, uint64_t now)
{
	unsigned n = 0;

	while (pace_take(p, now))
		n++;
	return n;
}

static void test_burst_then_rate(void **state)
{
	struct pace p = PACE_FULL;

	(void)state;
	assert_int_equal(taken(&p, 5000),
	                 PACE_BURST); /* a hundred forks need about a quarter of it */
	assert_int_equal(pace_next(&p), 5001);
	assert_false(pace_take(&p, 5000));
	assert_int_equal(taken(&p, 6000), PACE_PER_S);
	assert_int_equal(taken(&p, 6500), PACE_PER_S / 2);
}

static void test_it_fills_up_and_no_further(void **state)
{
	struct pace p = PACE_FULL;

	(void)state;
	taken(&p, 1);
	assert_int_equal(taken(&p, UINT64_MAX / 2), PACE_BURST);
	assert_int_equal(taken(&p, 7), 0); /* a clock that went back gives nothing */
}

static void test_steady_work_never_waits(void **state)
{
	struct pace p = PACE_FULL;

	(void)state;
	for (uint64_t ms = 1; ms < 60000; ms++) { /* two a millisecond, just below the rate */
		assert_true(pace_take(&p, ms));
		assert_true(pace_take(&p, ms));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst_then_rate),
		cmocka_unit_test(test_it_fills_up_and_no_further),
		cmocka_unit_test(test_steady_work_never_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
