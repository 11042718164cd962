/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_demand.c - what is made ahead of need, with a clock and users of the test's own
 *
 * Each load runs twice: with the counts that were fixed before there was a plan (two of the
 * template, one of each snapshot that was used three times in ten minutes), and with the plan,
 * under the same budget. One thing is made at a time, takes REFILL_MS, and is begun only when
 * nobody has been served for QUIET_MS. Compared are hits, and hits for each MB that was held.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vm/demand.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define POINTS 200
#define TICK_MS 100
#define QUIET_MS 400
#define REFILL_MS 600
#define VM_MB 20
#define BUDGET_MB 800
#define MINUTE_MS ((uint64_t)60000)
#define HOUR_MS (60 * MINUTE_MS)

/* ---- things, with or without a plan ---- */

struct sim {
	struct demand d;
	bool planned; /* else the fixed counts */
	char names[POINTS][16];
	unsigned have[POINTS];
	unsigned used[POINTS]; /* for the fixed counts: within ten minutes of the last one */
	uint64_t last[POINTS];
	uint64_t now, quiet_from, made_at; /* made_at: of what is being made; 0: nothing is */
	int making;
	uint64_t from; /* since then: */
	double hits, asked, mb_ms;
};

static struct sim *sim_new(bool planned)
{
	struct sim *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->now = 1;
	s->planned = planned;
	s->d.conf =
	        (struct demand_conf){ .budget_mb = BUDGET_MB,
		                      .kind[AHEAD_READY] = { .most_each = 32,
		                                             .most_all = 64,
		                                             .mb = VM_MB,
		                                             .gain_ms = 120,
		                                             .refill_ms = REFILL_MS + QUIET_MS } };
	s->d.spare_mb = UINT32_MAX;
	for (int i = 0; i < POINTS; i++)
		snprintf(s->names[i], sizeof(s->names[i]), "pt-%d", i);
	demand_expect(&s->d, AHEAD_READY, s->names[0], 2, 2, s->now);
	return s;
}

static unsigned fixed_want(const struct sim *s, int p)
{
	if (p == 0)
		return 2;
	return s->used[p] >= 3 && s->now - s->last[p] < 10 * MINUTE_MS;
}

static unsigned want(struct sim *s, int p)
{
	return s->planned ? demand_want(&s->d, AHEAD_READY, s->names[p], s->now) : fixed_want(s, p);
}

static void change(struct sim *s, int p, int by)
{
	s->have[p] += (unsigned)by;
	demand_have(&s->d, AHEAD_READY, s->names[p], by);
}

static int next(struct sim *s)
{
	const struct demand_key *k = s->planned ? demand_next(&s->d, AHEAD_READY, 0, s->now) : NULL;

	for (int i = 0; i < POINTS; i++)
		if (s->planned ? k && !strcmp(k->name, s->names[i]) : s->have[i] < fixed_want(s, i))
			return i;
	return -1;
}

static uint64_t held(const struct sim *s)
{
	uint64_t mb = 0;

	for (int i = 0; i < POINTS; i++)
		mb += (uint64_t)s->have[i] * VM_MB;
	return mb;
}

/* One tick of the thread that makes them. */
static void tick(struct sim *s)
{
	s->now += TICK_MS;
	if (s->made_at && s->now >= s->made_at) {
		s->made_at = 0;
		change(s, s->making, 1);
		demand_made(&s->d, AHEAD_READY, s->names[s->making], VM_MB, REFILL_MS + QUIET_MS);
	}
	for (int i = 0; i < POINTS; i++)
		while (s->have[i] > 0 && s->have[i] > want(s, i))
			change(s, i, -1);
	if (!s->made_at && s->now >= s->quiet_from && (s->making = next(s)) >= 0)
		s->made_at = s->now + REFILL_MS;
	s->mb_ms += (double)held(s) * TICK_MS;
	assert_in_range(held(s), 0, BUDGET_MB);
}

static void run_for(struct sim *s, uint64_t ms)
{
	for (uint64_t until = s->now + ms; s->now < until;)
		tick(s);
}

static bool ask(struct sim *s, int p, const char *account)
{
	bool hit = s->have[p] > 0;

	if (s->now - s->last[p] >= 10 * MINUTE_MS)
		s->used[p] = 0;
	s->used[p]++;
	s->last[p] = s->now;
	demand_take(&s->d, AHEAD_READY, s->names[p], p ? account : "", false, s->now);
	if (hit)
		change(s, p, -1);
	s->hits += hit;
	s->asked++;
	s->quiet_from = s->now + QUIET_MS;
	return hit;
}

/* ---- loads ---- */

static void no_figures_yet(struct sim *s)
{
	s->hits = s->asked = s->mb_ms = 0;
	s->from = s->now;
}

static void burst(struct sim *s, int p, unsigned n, const char *account)
{
	for (unsigned i = 0; i < n; i++)
		ask(s, p, account);
}

/* 30 at once, and an hour later again. */
static void hourly_burst(struct sim *s)
{
	run_for(s, 5 * MINUTE_MS);
	burst(s, 0, 30, "a");
	run_for(s, HOUR_MS);
	no_figures_yet(s);
	burst(s, 0, 30, "a");
	run_for(s, MINUTE_MS);
}

static void stream(struct sim *s)
{
	run_for(s, 5 * MINUTE_MS);
	for (int i = 0; i < 600; i++) {
		if (i == 60)
			no_figures_yet(s);
		ask(s, 0, "a");
		run_for(s, 1100);
	}
}

/* Ten snapshots of ten accounts, one every six seconds, after what came before it has been used. */
static void round_robin(struct sim *s)
{
	for (int i = 0; i < 300; i++) {
		char account[8];

		snprintf(account, sizeof(account), "a%d", i % 10);
		if (i == 60)
			no_figures_yet(s);
		ask(s, 1 + i % 10, account);
		run_for(s, 6000);
	}
}

/* A day as an agent fleet has it: the template in bursts of 5 to 12 every few minutes, two
 * snapshots of one team in pairs, one that is used once a minute. */
static void a_day(struct sim *s)
{
	unsigned rng = 7;

	for (int minute = 0; minute < 8 * 60; minute++) {
		if (minute == 30)
			no_figures_yet(s);
		if (minute % 7 == 0)
			burst(s, 0, 5 + (unsigned)rand_r(&rng) % 8, "fleet");
		if (minute % 3 == 0) {
			burst(s, 1, 2, "team");
			burst(s, 2, 2, "team");
		}
		ask(s, 3, "other");
		run_for(s, MINUTE_MS);
	}
}

struct result {
	double hits, per_mb;
};

static struct result figures(const char *what, void (*load)(struct sim *s), bool planned)
{
	struct sim *s = sim_new(planned);
	struct result r;

	load(s);
	r.hits = s->hits / s->asked;
	r.per_mb = s->mb_ms > 0 ? s->hits / (s->mb_ms / (double)(s->now - s->from)) : 0;
	printf("%-14s %-7s %4.0f of %4.0f found one, %.0f %%, %.2f for each MB held\n", what,
	       planned ? "plan" : "fixed", s->hits, s->asked, 100 * r.hits, r.per_mb);
	free(s);
	return r;
}

static void a_burst_after_an_hour(void **state)
{
	struct result was = figures("burst of 30", hourly_burst, false),
	              is = figures("burst of 30", hourly_burst, true);

	assert_true(was.hits < 0.1);
	assert_true(is.hits >= 0.95);
}

static void a_steady_stream(void **state)
{
	struct result was = figures("one a second", stream, false),
	              is = figures("one a second", stream, true);

	assert_true(is.hits >= 0.95);
	assert_true(is.hits >= was.hits);
	assert_true(is.per_mb >= was.per_mb * 0.5); /* more are held than the stream needs */
}

static void ten_snapshots(void **state)
{
	struct result was = figures("ten snapshots", round_robin, false),
	              is = figures("ten snapshots", round_robin, true);

	assert_true(is.hits >= 0.95);
	assert_true(is.hits >= was.hits);
}

static void a_mixed_day(void **state)
{
	struct result was = figures("a day", a_day, false), is = figures("a day", a_day, true);

	assert_true(is.hits >= 0.9);
	assert_true(is.hits > was.hits * 1.3);
}

/* ---- fairness ---- */

/* One account asks for very many points, each often enough to be kept: others keep theirs. */
static void a_greedy_account(void **state)
{
	struct sim *s = sim_new(true);
	unsigned mine = 0, theirs = 0;

	for (int i = 0; i < 3; i++) {
		burst(s, 1, 3, "honest");
		burst(s, 2, 3, "other");
		run_for(s, MINUTE_MS);
	}
	run_for(s, MINUTE_MS);
	assert_true(want(s, 1) >= 3 && want(s, 2) >= 3);
	for (int i = 0; i < 20; i++) {
		for (int p = 10; p < POINTS; p++)
			ask(s, p, "greedy");
		run_for(s, 5000);
	}
	run_for(s, 2 * MINUTE_MS);
	for (int p = 10; p < POINTS; p++)
		theirs += want(s, p);
	mine = want(s, 1) + want(s, 2);
	assert_in_range(mine, 6, 40); /* although theirs were asked for more often */
	assert_true(want(s, 0) >= 2);
	assert_true(theirs > 0); /* what is left over */
	free(s);
}

/* Asked for once each: nothing is made of them, and nobody is forgotten for their sake. */
static void many_points_once(void **state)
{
	struct sim *s = sim_new(true);

	burst(s, 1, 3, "honest");
	run_for(s, MINUTE_MS);
	for (int p = 10; p < POINTS; p++)
		ask(s, p, "greedy");
	for (int p = 10; p < POINTS; p++)
		assert_int_equal(want(s, p), 0);
	assert_int_equal(want(s, 1), 3);
	free(s);
}

/* ---- the rest ---- */

static void what_nobody_asks_for_ends(void **state)
{
	struct sim *s = sim_new(true);

	burst(s, 0, 20, "a");
	burst(s, 1, 5, "a");
	run_for(s, HOUR_MS);
	assert_int_equal(s->have[0], 20);
	assert_int_equal(s->have[1], 5);
	run_for(s, 4 * HOUR_MS);
	assert_int_equal(s->have[0], 2); /* the least */
	assert_int_equal(s->have[1], 0);
	free(s);
}

static void a_small_host(void **state)
{
	struct sim *s = sim_new(true);

	burst(s, 0, 30, "a");
	run_for(s, MINUTE_MS);
	assert_int_equal(s->have[0], 30);
	demand_spare(&s->d, 200); /* and 600 are held: a quarter of both is 200 */
	assert_int_equal(demand_budget(&s->d), 200);
	run_for(s, TICK_MS);
	assert_in_range(s->have[0], 2, 10);
	demand_spare(&s->d, 1 << 20);
	run_for(s, MINUTE_MS);
	assert_int_equal(s->have[0], 30);
	free(s);
}

static void bounds_of_a_kind(void **state)
{
	struct sim *s = sim_new(true);

	s->d.conf.kind[AHEAD_READY].most_each = 4;
	burst(s, 0, 30, "a");
	burst(s, 1, 30, "a");
	assert_int_equal(want(s, 0), 4);
	assert_int_equal(want(s, 1), 4);
	s->d.conf.kind[AHEAD_READY].most_mb = 5 * VM_MB;
	demand_spare(&s->d, UINT32_MAX);
	assert_int_equal(want(s, 0) + want(s, 1), 5);
	s->d.conf.kind[AHEAD_READY].most_all = 3;
	demand_spare(&s->d, UINT32_MAX);
	assert_int_equal(want(s, 0) + want(s, 1), 3);
	s->d.conf.budget_mb = 0;
	demand_spare(&s->d, UINT32_MAX);
	assert_int_equal(want(s, 0) + want(s, 1), 0);
	free(s);
}

/* Another template in the place of the one before: what is known of it goes with it. */
static void a_point_is_replaced(void **state)
{
	struct sim *s = sim_new(true);

	burst(s, 0, 10, "a");
	run_for(s, MINUTE_MS);
	demand_rename(&s->d, s->names[0], s->names[5]);
	assert_int_equal(want(s, 0), 0); /* those that are there are of the old one */
	assert_int_equal(want(s, 5), 10);
	run_for(s, MINUTE_MS);
	assert_int_equal(s->have[0], 0);
	assert_int_equal(s->have[5], 10);
	demand_forget(&s->d, s->names[5]);
	assert_int_equal(want(s, 5), 0);
	free(s);
}

/* What is used without being used up needs one, as long as it is used. */
static void a_seed(void **state)
{
	struct demand *d = calloc(1, sizeof(*d));
	uint64_t now = 1;

	assert_non_null(d);
	d->spare_mb = UINT32_MAX;
	d->conf.budget_mb = 1000;
	d->conf.kind[AHEAD_SEED] = (struct demand_kind){
		.most_each = 1, .most_all = 2, .mb = 200, .gain_ms = 150, .stays = true
	};
	demand_expect(d, AHEAD_SEED, "2x2048", 1, 1, now);
	demand_take(d, AHEAD_SEED, "1x1024", "", true, now);
	for (int i = 0; i < 50; i++)
		demand_take(d, AHEAD_SEED, "4x4096", "", true, now);
	assert_int_equal(demand_want(d, AHEAD_SEED, "2x2048", now), 1);
	assert_int_equal(demand_want(d, AHEAD_SEED, "4x4096", now), 1);
	assert_int_equal(demand_want(d, AHEAD_SEED, "1x1024", now), 0);
	now += 24 * HOUR_MS;
	assert_int_equal(demand_want(d, AHEAD_SEED, "2x2048", now), 1);
	assert_int_equal(demand_want(d, AHEAD_SEED, "4x4096", now), 0);
	free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_after_an_hour),
		cmocka_unit_test(a_steady_stream),
		cmocka_unit_test(ten_snapshots),
		cmocka_unit_test(a_mixed_day),
		cmocka_unit_test(a_greedy_account),
		cmocka_unit_test(many_points_once),
		cmocka_unit_test(what_nobody_asks_for_ends),
		cmocka_unit_test(a_small_host),
		cmocka_unit_test(bounds_of_a_kind),
		cmocka_unit_test(a_point_is_replaced),
		cmocka_unit_test(a_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
