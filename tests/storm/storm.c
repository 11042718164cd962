/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm.c - threads do random verbs on a few VMs under failures; then everything must agree
 *
 * usage: storm [--seconds N] [--seed N [--times N]] [--talk]
 *
 * One seed is one data directory and ROUNDS rounds. In a round THREADS threads do STEPS verbs each;
 * the seed decides which, on what, and which disturbances there are: threads that take turns or run
 * at once, calls that fail, machines that die, a pandod that ends at any moment (and whose
 * successor has failing calls too). After each round failures are switched off, and:
 *
 * - table, store, processes, slots, layers and files agree, no lock is held (rig_agrees());
 * - what callers were told is true: VMs and snapshots that were made are there, those that were
 *   deleted are not, and none is lost;
 * - every VM is usable: a command answers, it suspends, and answers again.
 *
 * A failing verb must have a code and a message; without disturbances it may fail only for
 * reasons like "another call deleted it". turns.h says what the same seed replays.
 *
 * Without --seed seeds are 1, 2, 3, ... for N seconds (the tests) or, with --seconds and the
 * environment variable STORM_RANDOM, from a random one on (make storm).
 */
#include "tests/storm/storm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "net/gate.h"
#include "tests/fault/fault.h"

#define AGREE_MS 10000 /* for the reaper and the keeper to notice what happened */
#define TELL_MS 60000  /* between two lines of progress */

struct storm storm = { .lock = MUTEX_INIT("test: storm model") };

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "storm: %s: %s\n", what, why);
	abort(); /* storm_watch.c tells the seed */
}

static void *thread_main(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;

	sched_join(id);
	for (unsigned i = 0; i < STEPS && !storm.dead; i++) {
		sched_step(i);
		storm_step(id);
	}
	sched_leave();
	return NULL;
}

static struct dangers dangers_of(struct rng *r)
{
	struct dangers d = { .turns = rng_below(r, 2),
		             .faults = rng_below(r, 2),
		             .deaths = rng_below(r, 2),
		             .crash = rng_below(r, 2) };

	d.bad_start = d.crash && rng_one_in(r, 3);
	return d;
}

static void start_again(struct rng *r)
{
	struct err err = { 0 };

	rig_stop(storm.rig);
	storm.dead = false;
	if (storm.d.bad_start) {
		storm.d.faults = true;
		storm.active = true;
		storm.crash_in = rng_one_in(r, 2) ? 0 : 1 + rng_below(r, 60);
		if (rig_start(storm.rig, &err) == 0) {
			storm.active = false;
			storm.dead = false;
			return;
		}
		storm.active = false;
		storm.dead = false;
		rig_stop(storm.rig);
	}
	if (rig_start(storm.rig, &err) < 0)
		fail("start after a crash", err.msg);
}

/* true: at last */
static bool agrees(unsigned ms, char *why, size_t size)
{
	uint64_t deadline = deadline_in(ms);

	do {
		rig_settle(storm.rig);
		if (rig_agrees(storm.rig, why, size))
			return true;
		usleep(20000); /* an end is noticed by a thread that tells nobody */
	} while (clock_ms() < deadline);
	return false;
}

/*
 * A machine that was made ahead of need and died is noticed when it is taken, or at the next start.
 * Files that could not be removed are removed then, too.
 */
static bool is_litter(const char *why)
{
	if (strstr(why, "belongs to nothing"))
		return storm.d.deaths || storm.d.faults || storm.d.bad_start;
	return storm.d.deaths && (strstr(why, "machines run") || strstr(why, "slots are taken"));
}

static void must_agree(void)
{
	struct err err = { 0 };
	char why[512];

	if (agrees(AGREE_MS, why, sizeof(why)))
		return;
	if (is_litter(why)) {
		storm_note("started again in good order: %s", why);
		storm.litter++;
		rig_stop(storm.rig);
		if (rig_start(storm.rig, &err) < 0)
			fail("start again", err.msg);
		if (agrees(AGREE_MS, why, sizeof(why)))
			return;
	}
	fail("after the round", why);
}

static void must_be_usable(void)
{
	for (size_t i = 0; i < storm.n_vms; i++) {
		struct err err = { 0 };

		int r;

		if (storm.vms[i].state == KNOWN_GONE)
			continue;
		/* The keeper may just suspend it, as idle. */
		for (int k = 0; k < 4; k++) {
			r = rig_usable(storm.rig, storm.vms[i].id, &err);
			if (r != -ECONNRESET)
				break;
		}
		/* One that is ephemeral goes with its first rest. */
		if (r < 0 && !(storm.vms[i].state == KNOWN_MAYBE && err.code == -ENOENT)) {
			fprintf(stderr, "storm: VM %s: %s\n", storm.vms[i].id, err.msg);
			fail("after the round", "a VM is not usable");
		}
		storm.verbs++; /* progress */
	}
}

static void round_run(unsigned n)
{
	struct rng r = rng_from(storm.seed, n);
	pthread_t t[THREADS];
	char why[512];

	storm.round = n;
	storm.d = dangers_of(&r);
	storm.crash_in = storm.d.crash ? 1 + rng_below(&r, 1200) : 0;
	storm_note("round %u: %s%s%s%s%s", n, storm.d.turns ? "turns" : "at once",
	           storm.d.faults ? ", faults" : "", storm.d.deaths ? ", deaths" : "",
	           storm.d.crash ? ", crash" : "", storm.d.bad_start ? ", bad start" : "");
	sched_begin(rng_next(&r), storm.d.turns, THREADS);
	storm.active = true;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, thread_main, (void *)i))
			fail("round", "no thread");
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	storm.active = false;
	storm_note("round %u: order %016llx, drift %lu", n, (unsigned long long)sched_order(),
	           sched_drift());
	if (storm.dead)
		start_again(&r);
	must_agree();
	if (!storm_recalls(why, sizeof(why)))
		fail("after the round", why);
	must_be_usable();
	must_agree();
}

static char *ca; /* that guests of some seeds are told of */

static void seed_run(uint64_t seed)
{
	struct rng r = rng_from(seed, 0xff);
	struct rig_opts o = { .pool = rng_below(&r, 2) * 2,
		              .blanks = rng_below(&r, 2),
		              .prepare = storm_break_rig };

	o.ca = rng_one_in(&r, 2) ? ca : NULL;
	o.seeds = rng_below(&r, 3);
	storm.seed = seed;
	storm.n_vms = storm.n_snaps = 0;
	storm_note("seed %llu: pool %u, blank processes %u%s%s", (unsigned long long)seed, o.pool,
	           o.blanks, o.ca ? ", a template of its own" : "", o.seeds ? ", forked" : "");
	storm.rig = rig_new(&o);
	for (unsigned n = 0; n < ROUNDS; n++)
		round_run(n);
	rig_stop(storm.rig);
	storm_break_reap();
	storm.rig = rig_free(storm.rig);
}

static void tell(unsigned long seeds, uint64_t began)
{
	printf("storm: %llu s, %lu seeds, %lu verbs (%lu failed), %lu calls, %lu made to fail, "
	       "%lu machines died, pandod ended %lu times, litter %lu times\n",
	       (unsigned long long)(clock_ms() - began) / 1000, seeds, storm.verbs, storm.failed,
	       storm.calls, storm.faults, storm.deaths, storm.crashes, storm.litter);
	fflush(stdout);
}

static uint64_t number(const char *text)
{
	return strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
	uint64_t began = clock_ms(), tell_at, seed = 1, times = 0, seconds = 25;
	autofree char *key = NULL;
	unsigned long seeds = 0;
	int r;

	if (getenv("STORM_RANDOM") && getrandom(&seed, sizeof(seed), 0) == sizeof(seed))
		seed %= 1000000000;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--talk"))
			storm.talks = true;
		else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
			seconds = number(argv[++i]);
		else if (!strcmp(argv[i], "--times") && i + 1 < argc)
			times = number(argv[++i]);
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
			seed = number(argv[++i]);
			times = times ? times : 1;
		} else {
			fprintf(stderr,
			        "usage: storm [--seconds N] [--seed N [--times N]] [--talk]\n");
			return 2;
		}
	}
	r = rig_main_begin();
	if (r)
		return r;
	if (gate_ca_make("storm", &ca, &key, NULL) < 0 ||
	    fault_store_install(/* memory= */ false) < 0)
		return 1;
	storm_break_install();
	storm_watch_start();
	tell_at = clock_ms() + TELL_MS;
	while (times ? seeds < times : clock_ms() - began < seconds * 1000) {
		seed_run(times ? seed : seed + seeds);
		seeds++;
		if (clock_ms() >= tell_at) {
			tell(seeds, began);
			tell_at = clock_ms() + TELL_MS;
		}
	}
	tell(seeds, began);
	storm_watch_stop();
	rig_main_end();
	free(ca);
	return 0;
}
