/* SPDX-License-Identifier: Apache-2.0 */
/* test_budget.c - what is counted by holder and in all; how often somebody may do something; the
 * log */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/rate.h"
#include "base/sock.h"
#include "tests/unit/tmpdir.h"

static struct budget *made(uint64_t all, uint64_t each, bool greedy)
{
	struct budget *b = NULL;

	assert_int_equal(budget_new(&(struct budget_conf){ all, each, greedy }, &b, NULL), 0);
	return b;
}

static void one_alone_gets_three_quarters(void **state)
{
	struct budget *b = made(512, 0, false);
	unsigned n = 0;

	assert_int_equal(budget_share(b), 384);
	while (budget_take(b, "a", 1) == 0)
		n++;
	assert_int_equal(n, 384);
	assert_int_equal(budget_take(b, "a", 1), -EDQUOT);
	assert_int_equal(budget_take(b, "a", 385), -E2BIG);
	assert_int_equal(budget_take(b, "b", 1), 0); /* there is always something for another */
	assert_int_equal(budget_used(b, NULL), 385);
	budget_give(b, "a", 384);
	assert_int_equal(budget_used(b, "a"), 0);
	assert_int_equal(budget_take(b, "a", 100), 0);
	budget_give(b, "a", 100);
	budget_give(b, "b", 1);
	budget_free(b);
}

/* However many take what they can get, all get the same, and the next one gets something. */
static void many_share(void **state)
{
	struct budget *b = made(10000, 0, false);
	char name[16];
	uint64_t least = UINT64_MAX, most = 0;
	bool any = true;

	while (any) {
		any = false;
		for (int i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "h%d", i);
			any |= budget_take(b, name, 1) == 0;
		}
	}
	for (int i = 0; i < 100; i++) {
		uint64_t used;

		snprintf(name, sizeof(name), "h%d", i);
		used = budget_used(b, name);
		least = used < least ? used : least;
		most = used > most ? used : most;
	}
	assert_true(least >= 90 && most - least <= 1);
	assert_int_equal(budget_take(b, "late", 1), 0);
	budget_give(b, "late", 1);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		budget_give(b, name, budget_used(b, name));
	}
	assert_int_equal(budget_used(b, NULL), 0);
	budget_free(b);
}

static void limits_of_each_and_of_all(void **state)
{
	struct budget *b = made(10, 4, true);

	assert_int_equal(budget_share(b), 4);
	assert_int_equal(budget_take(b, "a", 5), -E2BIG);
	assert_int_equal(budget_take(b, "a", 4), 0);
	assert_int_equal(budget_take(b, "a", 1), -EDQUOT);
	assert_int_equal(budget_take(b, "b", 4), 0);
	assert_int_equal(budget_take(b, "c", 3), -EAGAIN);
	assert_int_equal(budget_take(b, "c", 2), 0);
	assert_int_equal(budget_take(b, "c", UINT64_MAX), -E2BIG);
	assert_int_equal(budget_take(b, "d", 0), 0); /* leaves no trace */
	budget_give(b, "a", 4);
	budget_give(b, "b", 4);
	budget_give(b, "c", 2);
	budget_free(b);
}

/* More names than the table began with, taken away in another order. */
static void the_table_grows(void **state)
{
	struct budget *b = made(1000000, 0, true);
	char name[100];

	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "account-%d", i);
		assert_int_equal(budget_take(b, name, 1 + (uint64_t)i % 7), 0);
	}
	for (int i = 4999; i >= 0; i--) {
		snprintf(name, sizeof(name), "account-%d", i);
		assert_int_equal(budget_used(b, name), 1 + (uint64_t)i % 7);
		budget_give(b, name, 1 + (uint64_t)i % 7);
	}
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(budget_take(b, name, 1), 0); /* a long name is cut the same way always */
	budget_give(b, name, 1);
	assert_int_equal(budget_used(b, NULL), 0);
	budget_free(b);
}

static void *give_back(void *arg)
{
	budget_give(arg, "a", 4);
	return NULL;
}

static void waiting_ends_when_something_is_given_back(void **state)
{
	struct budget *b = made(4, 0, true);
	pthread_t t;

	assert_int_equal(budget_take(b, "a", 4), 0);
	assert_int_equal(budget_wait(b, "b", 2, deadline_in(20)), -EAGAIN);
	assert_int_equal(budget_wait(b, "b", 5, deadline_in(600000)), -E2BIG);
	assert_int_equal(pthread_create(&t, NULL, give_back, b), 0);
	assert_int_equal(budget_wait(b, "b", 2, deadline_in(600000)), 0);
	pthread_join(t, NULL);
	budget_give(b, "b", 2);
	budget_free(b);
}

static void a_burst_then_no_more(void **state)
{
	struct rate_answer a;
	struct rate *r;

	/* One in 10,000 s: time does not help within this test. */
	assert_int_equal(rate_new(&(struct rate_conf){ .0001, 5, 64 }, &r, NULL), 0);
	for (int i = 0; i < 5; i++) {
		assert_true(rate_take(r, "key", &a));
		assert_int_equal(a.missed, 0);
	}
	for (int i = 0; i < 7; i++) {
		assert_false(rate_take(r, "key", &a));
		assert_int_equal(a.wait_s, 3600);
	}
	assert_true(rate_take(r, "another", NULL));
	rate_free(r);
}

static void what_could_not_be_done_is_counted(void **state)
{
	uint64_t end = deadline_in(60000);
	struct rate_answer a = { 0 };
	struct rate *r;
	unsigned missed = 0;

	assert_int_equal(rate_new(&(struct rate_conf){ 100, 1, 1 }, &r, NULL), 0);
	assert_true(rate_take(r, "key", &a));
	while (!rate_take(r, "key", &a) && clock_ms() < end) {
		assert_int_equal(a.wait_s, 1);
		missed++;
	}
	assert_int_equal(a.missed, missed);
	rate_free(r);
}

static void addresses_are_counted_by_network(void **state)
{
	static const struct {
		const char *addr, *want;
	} cases[] = { { "192.0.2.7", "192.0.2.7" },
		      { "::ffff:192.0.2.7", "192.0.2.7" },
		      { "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64" },
		      { "::1", "::/64" } };
	char text[SOCK_NET_SIZE];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sockaddr_in6 a6 = { .sin6_family = AF_INET6 };
		struct sockaddr_in a4 = { .sin_family = AF_INET };
		bool v4 = inet_pton(AF_INET, cases[i].addr, &a4.sin_addr) == 1;

		assert_true(v4 || inet_pton(AF_INET6, cases[i].addr, &a6.sin6_addr) == 1);
		sock_net_text(v4 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6, text);
		assert_string_equal(text, cases[i].want);
	}
	assert_string_equal(sock_net_text(NULL, text), "unknown");
}

/* What comes through log.c in one go, into a file that is replaced when it is full. */
static void the_log_is_bounded(void **state)
{
	enum { TRIES = 40000, MAX = 100000 };
	struct tmpdir dir;
	char path[160], old[160];
	int kept = dup(STDERR_FILENO);
	struct stat st = { 0 }, st_old = { 0 };
	uint64_t bytes = 0;

	assert_int_equal(tmpdir_make(&dir), 0);
	tmpdir_file(&dir, "log", path, sizeof(path));
	tmpdir_file(&dir, "log.1", old, sizeof(old));
	log_init("test", LOG_LV_INFO);
	assert_int_equal(log_file_open(path, UINT64_C(1) << 40, NULL), 0);
	for (int i = 0; i < TRIES; i++)
		log_info("line %d", i);
	stat(path, &st);
	bytes = (uint64_t)st.st_size;
	/* Two minutes at most, and at least one whole one. */
	assert_true(bytes >= UINT64_C(20) * LOG_LINES_MINUTE &&
	            bytes <= UINT64_C(80) * (2 * LOG_LINES_MINUTE + 2));
	assert_int_equal(log_file_open(path, MAX, NULL), 0);
	for (int i = 0; i < TRIES; i++)
		log_error("errors are always written: %d", i);
	dup2(kept, STDERR_FILENO);
	close(kept);
	log_on_written(NULL);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(stat(old, &st_old), 0);
	assert_true(st.st_size <= MAX + 4096 && st_old.st_size <= MAX + 4096);
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_alone_gets_three_quarters),
		cmocka_unit_test(many_share),
		cmocka_unit_test(limits_of_each_and_of_all),
		cmocka_unit_test(the_table_grows),
		cmocka_unit_test(waiting_ends_when_something_is_given_back),
		cmocka_unit_test(a_burst_then_no_more),
		cmocka_unit_test(what_could_not_be_done_is_counted),
		cmocka_unit_test(addresses_are_counted_by_network),
		cmocka_unit_test(the_log_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
