/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease.c - the rules of leases one by one; test_sim.c has them all at once */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "cluster/lease.h"

static const struct lease_conf conf = {
	.lease_ms = 15000, .renew_ms = 3000, .margin_ms = 3000, .retry_ms = 2000
};

static struct lease joined(uint64_t at)
{
	struct lease l;

	lease_init(&l, &conf);
	assert_int_equal(lease_next(&l, at), LEASE_JOIN);
	lease_joined(&l, lease_sent(&l, at), 4, at + 10);
	assert_int_equal(l.state, LEASE_HELD);
	return l;
}

static void a_lease_is_counted_from_before_the_request(void **state)
{
	struct lease l = joined(100000);

	assert_int_equal(l.deadline, 112000);
	assert_true(lease_valid(&l, 111999));
	assert_false(lease_valid(&l, 112000));
	assert_int_equal(lease_next(&l, 102999), LEASE_NOTHING);
	assert_int_equal(lease_wakeup(&l, 102000), 103000);
	assert_int_equal(lease_next(&l, 103000), LEASE_RENEW);
	lease_renewed(&l, lease_sent(&l, 103000), true, 109000);
	assert_int_equal(l.deadline, 115000);
}

static void what_is_over_stays_over_until_vms_are_gone(void **state)
{
	struct lease l = joined(100000);
	uint64_t n;

	assert_int_equal(lease_next(&l, 103000), LEASE_RENEW);
	n = lease_sent(&l, 103000);
	assert_int_equal(lease_next(&l, 112000), LEASE_FENCE);
	lease_renewed(&l, n, true, 112001); /* too late */
	assert_int_equal(lease_next(&l, 112002), LEASE_FENCE);
	assert_false(lease_valid(&l, 112002));
	lease_fenced(&l);
	assert_int_equal(lease_next(&l, 112003), LEASE_JOIN);
	/* the same if nobody looked in between */
	l = joined(100000);
	n = lease_sent(&l, 103000);
	lease_renewed(&l, n, true, 112000);
	assert_int_equal(l.state, LEASE_OVER);
}

static void a_new_generation_ends_ours(void **state)
{
	struct lease l = joined(100000);

	lease_renewed(&l, lease_sent(&l, 103000), false, 103010);
	assert_int_equal(lease_next(&l, 103011), LEASE_FENCE);
}

static void only_the_last_request_counts(void **state)
{
	struct lease l = joined(100000);
	uint64_t first = lease_sent(&l, 103000), second;

	assert_int_equal(lease_next(&l, 104999), LEASE_NOTHING);
	assert_int_equal(lease_next(&l, 105000), LEASE_RENEW);
	second = lease_sent(&l, 105000);
	lease_renewed(&l, first, false, 105010); /* ignored, whatever it says */
	assert_int_equal(l.state, LEASE_HELD);
	lease_renewed(&l, second, true, 105020);
	assert_int_equal(l.deadline, 117000);
	lease_renewed(&l, second, false, 105030); /* a second time */
	assert_int_equal(l.state, LEASE_HELD);
	/* a join that took longer than a lease */
	lease_init(&l, &conf);
	first = lease_sent(&l, 1000);
	lease_joined(&l, first, 9, 13000);
	assert_int_equal(l.state, LEASE_OVER);
}

static void an_epoch_is_used_once(void **state)
{
	struct lease l = joined(100000);
	uint64_t next = 0;

	assert_false(lease_grant(&l, 3, 7, &next, 101000)); /* claimed by an earlier generation */
	assert_true(lease_grant(&l, 4, 7, &next, 101000));
	assert_false(lease_grant(&l, 4, 7, &next, 101000));
	assert_false(lease_grant(&l, 4, 6, &next, 101000));
	assert_true(lease_grant(&l, 4, 8, &next, 101000));
	assert_false(lease_grant(&l, 4, 9, &next, 112000)); /* the lease is over */
	assert_int_equal(next, 9);
}

static void others_are_dead_when_nothing_changed_for_a_lease(void **state)
{
	struct watch w = { 0 };

	assert_false(watch_dead(&w, &conf, UINT64_MAX));
	watch_saw(&w, 2, 5, 1000);
	watch_saw(&w, 2, 5, 9000);
	assert_false(watch_dead(&w, &conf, 15999));
	assert_true(watch_dead(&w, &conf, 16000));
	watch_saw(&w, 2, 6, 15500);
	assert_false(watch_dead(&w, &conf, 30499));
	assert_true(watch_dead(&w, &conf, 30500));
	watch_saw(&w, 3, 6, 30500);
	assert_false(watch_dead(&w, &conf, 30501));
}

static void the_fence_falls_by_itself(void **state)
{
	struct fence f = { 0 };

	assert_true(fence_due(&f, 0));
	fence_extend(&f, 5000);
	fence_extend(&f, 4000);
	assert_false(fence_due(&f, 4999));
	assert_true(fence_due(&f, 5000));
	fence_extend(&f, 9000);
	fence_clear(&f);
	assert_true(fence_due(&f, 1));
}

static void settings_must_leave_time(void **state)
{
	struct lease_conf c = conf;

	assert_true(lease_conf_valid(&lease_default));
	assert_true(lease_conf_valid(&c));
	c.renew_ms = 5001;
	assert_false(lease_conf_valid(&c));
	c.renew_ms = 0;
	assert_false(lease_conf_valid(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lease_is_counted_from_before_the_request),
		cmocka_unit_test(what_is_over_stays_over_until_vms_are_gone),
		cmocka_unit_test(a_new_generation_ends_ours),
		cmocka_unit_test(only_the_last_request_counts),
		cmocka_unit_test(an_epoch_is_used_once),
		cmocka_unit_test(others_are_dead_when_nothing_changed_for_a_lease),
		cmocka_unit_test(the_fence_falls_by_itself),
		cmocka_unit_test(settings_must_leave_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
