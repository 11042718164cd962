/* SPDX-License-Identifier: Apache-2.0 */
/* test_cron.c - cron expressions and time zones; expected moments are date(1)'s */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "serverless/cron.h"
#include "tests/unit/check.h"

static int64_t at(const char *text)
{
	int64_t ms;

	assert_int_equal(clock_rfc3339_parse(text, &ms), 0);
	return ms;
}

static void next_is(const char *zone, const char *text, const char *after, const char *want)
{
	AUTO(tz_freep) struct tz *z = NULL;
	char got[CLOCK_RFC3339_LEN], wanted[CLOCK_RFC3339_LEN];
	struct cron c;
	int64_t ms;

	OK(tz_load(TZ_DIR, zone, &z, &err));
	OK(cron_parse(text, &c, &err));
	ms = cron_next(&c, z, at(after));
	if (!want) {
		assert_int_equal(ms, 0);
		return;
	}
	if (ms != at(want))
		fail_msg("%s in %s after %s: %s, not %s", text, zone, after, clock_rfc3339(ms, got),
		         clock_rfc3339(at(want), wanted));
}

static void fields_lists_ranges_and_steps(void **state)
{
	next_is("UTC", "* * * * *", "2026-11-18T20:00:00Z", "2026-11-18T20:01:00Z");
	next_is("UTC", "* * * * *", "2026-11-18T20:00:59Z", "2026-11-18T20:01:00Z");
	next_is("UTC", "*/15 * * * *", "2026-11-18T20:01:00Z", "2026-11-18T20:15:00Z");
	next_is("UTC", "5-7,50 * * * *", "2026-11-18T20:07:00Z", "2026-11-18T20:50:00Z");
	next_is("UTC", "10/20 * * * *", "2026-11-18T20:31:00Z", "2026-11-18T20:50:00Z");
	next_is("UTC", "0 9 * * MON-FRI", "2026-11-20T09:00:00Z", "2026-11-23T09:00:00Z");
	next_is("UTC", "0 9 * * 7", "2026-11-18T09:00:00Z", "2026-11-22T09:00:00Z");
	next_is("UTC", "0 0 1 jan *", "2026-11-18T09:00:00Z", "2027-01-01T00:00:00Z");
	next_is("UTC", "0 0 29 2 *", "2026-11-18T09:00:00Z", "2028-02-29T00:00:00Z");
	next_is("UTC", "0 0 30 2 *", "2026-11-18T09:00:00Z", NULL);
	next_is("UTC", "0 0 13 * 5", "2026-11-18T09:00:00Z", "2026-11-20T00:00:00Z");
	next_is("UTC", "0 0 */2 * 5", "2026-11-18T09:00:00Z", "2026-11-27T00:00:00Z");
	next_is("UTC", "@hourly", "2026-12-31T23:30:00Z", "2027-01-01T00:00:00Z");
	next_is("UTC", "@weekly", "2026-11-18T09:00:00Z", "2026-11-22T00:00:00Z");
}

static void zones_and_their_clocks(void **state)
{
	next_is("Europe/Berlin", "30 8 * * *", "2026-11-18T09:00:00Z", "2026-11-19T07:30:00Z");
	next_is("Europe/Berlin", "30 8 * * *", "2026-07-18T09:00:00Z", "2026-07-19T06:30:00Z");
	next_is("Asia/Kolkata", "0 0 * * *", "2026-11-18T00:00:00Z", "2026-11-18T18:30:00Z");
	next_is("America/New_York", "0 17 * * 5", "2026-11-18T00:00:00Z", "2026-11-20T22:00:00Z");
	/* beyond what the file lists one by one */
	next_is("Europe/Berlin", "0 12 1 7 *", "2060-01-01T00:00:00Z", "2060-07-01T10:00:00Z");
	next_is("Europe/Berlin", "0 12 1 1 *", "2060-02-01T00:00:00Z", "2061-01-01T11:00:00Z");
	next_is("Australia/Sydney", "0 12 1 1 *", "2060-02-01T00:00:00Z", "2061-01-01T01:00:00Z");
	next_is("America/Santiago", "0 12 1 6 *", "2055-02-01T00:00:00Z", "2055-06-01T16:00:00Z");
}

/* 29 March 2026: 2:00 becomes 3:00. 25 October 2026: 3:00 becomes 2:00. */
static void a_change_of_the_clock_neither_loses_nor_repeats(void **state)
{
	next_is("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z");
	next_is("Europe/Berlin", "30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z");
	next_is("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z");
	next_is("Europe/Berlin", "30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z");
	next_is("Europe/Berlin", "30 * * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z");
	next_is("Europe/Berlin", "*/30 * * * *", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z");
	next_is("Europe/Berlin", "0 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z");
	next_is("Europe/Berlin", "0 3 * * *", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z");
}

static void what_is_not_an_expression(void **state)
{
	static const char *const bad[] = { "",           "* * * *",     "* * * * * *",
		                           "60 * * * *", "* 24 * * *",  "* * 0 * *",
		                           "* * * 13 *", "* * * * 8",   "a * * * *",
		                           "1- * * * *", "5-1 * * * *", "*/0 * * * *",
		                           ", * * * *",  "1,, * * * *", "@never",
		                           "1x * * * *" };
	static const char *const zones[] = {
		"", "Europe/Nowhere", "../etc/passwd", "/etc/passwd", "zone.tab", "Europe"
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err e = { 0 };
		struct cron c;

		assert_int_equal(cron_parse(bad[i], &c, &e), -EINVAL);
		assert_non_null(strstr(e.msg, "'cron'"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(zones); i++) {
		struct err e = { 0 };
		struct tz *z = NULL;

		if (tz_load(TZ_DIR, zones[i], &z, &e) != -EINVAL)
			fail_msg("'%s' is a zone", zones[i]);
		assert_non_null(strstr(e.msg, "'timezone'"));
	}
}

/* Every beginning of a file, and each with a byte that differs: never more than an error. */
static void damaged_zones_are_rejected(void **state)
{
	uint8_t p[8192];
	FILE *f = fopen(TZ_DIR "/Europe/Berlin", "r");
	size_t n;

	assert_non_null(f);
	n = fread(p, 1, sizeof(p), f);
	fclose(f);
	for (size_t k = 0; k < n; k++) {
		struct err e = { 0 };
		struct tz *z = NULL;

		tz_parse(p, k, &z, &e);
		tz_free(z);
		z = NULL;
		p[k] ^= 0xff;
		if (tz_parse(p, n, &z, &e) == 0)
			tz_offset(z, 1800000000);
		tz_free(z);
		p[k] ^= 0xff;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_lists_ranges_and_steps),
		cmocka_unit_test(zones_and_their_clocks),
		cmocka_unit_test(a_change_of_the_clock_neither_loses_nor_repeats),
		cmocka_unit_test(what_is_not_an_expression),
		cmocka_unit_test(damaged_zones_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
