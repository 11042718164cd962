/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_break.c - injects failures
 *
 * Every call into engine, helper, store, files and memory comes here (fault_on_call), so this is
 * also where threads change turns, where pandod ends and where machines die in the middle
 * of something. A participating thread throws its own dice; other threads (keeper, pool,
 * channels) get generators in the order in which they first come here.
 *
 * Once pandod has ended every call fails without effect until the storm starts the next one:
 * what a thread still does changes nothing, as if it had stopped at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "tests/fault/fault.h"
#include "tests/storm/storm.h"

/*
 * One call in so many fails. Allocations are the most frequent calls by far. Files that cannot be
 * removed are swept when pandod starts the next time, so removals fail only once it has ended.
 */
static const unsigned fails_one_in[FAULT_KINDS] = {
	[FAULT_STORE] = 400, [FAULT_STORE_MEMORY] = 0, [FAULT_AGENT] = 400,  [FAULT_FILE] = 200,
	[FAULT_REMOVE] = 0,  [FAULT_MEMORY] = 3000,    [FAULT_ENGINE] = 120, [FAULT_HELPER] = 120,
};
#define DIES_ONE_IN 250 /* calls into engine, helper and store */
#define LOST_ONE_IN 3   /* failed calls of the helper that did their work all the same */

static __thread struct rng other_rng;
static __thread bool other_known;

static struct rng *dice(void)
{
	static atomic_uint others;
	struct rng *r = sched_rng();

	if (r)
		return r;
	if (!other_known) {
		other_rng = rng_from(storm.seed, 0x10000 + others++);
		other_known = true;
	}
	return &other_rng;
}

static void somebody_dies(struct rng *r)
{
	struct fake *f = storm.rig->fake;
	unsigned first = rng_below(r, FAKE_MACHINES_MAX);
	char instance[ID_SIZE] = "";

	mutex_lock(&f->lock);
	for (unsigned i = 0; i < FAKE_MACHINES_MAX && !*instance; i++) {
		struct fake_machine *m = &f->machines[(first + i) % FAKE_MACHINES_MAX];

		/* One that was made ahead of need stands still; its end is noticed when it is
		 * taken. A seed's is noticed without that. */
		if (*m->instance && !m->ended && (m->running || m->seed))
			snprintf(instance, sizeof(instance), "%s", m->instance);
	}
	mutex_unlock(&f->lock);
	if (!*instance)
		return;
	fake_die(f, instance);
	storm.deaths++;
}

static int error_of(enum fault_kind kind, struct rng *r)
{
	static const int channel[] = { FAULT_HANG_UP, FAULT_HANG_UP, FAULT_HANG_UP, FAULT_SWALLOW };
	static const int disk[] = { EIO, ENOSPC };

	switch (kind) {
	case FAULT_AGENT:
		return channel[rng_below(r, ARRAY_SIZE(channel))];
	case FAULT_MEMORY:
	case FAULT_STORE_MEMORY:
		return ENOMEM;
	case FAULT_STORE:
	case FAULT_FILE:
		return disk[rng_below(r, ARRAY_SIZE(disk))];
	default:
		return EIO;
	}
}

/* Nothing has an effect: for memory there is nothing to undo. */
static int after_death(enum fault_kind kind)
{
	return kind == FAULT_MEMORY ? 0 : kind == FAULT_AGENT ? FAULT_HANG_UP : EIO;
}

static int on_any_call(enum fault_kind kind, const char *what, void *arg)
{
	struct rng *r;

	if (storm.dead)
		return after_death(kind);
	if (!storm.active)
		return 0;
	storm.calls++;
	if (kind != FAULT_MEMORY && kind != FAULT_AGENT)
		sched_point();
	if (storm.dead)
		return after_death(kind);
	if (kind != FAULT_MEMORY && sched_self() >= 0 && storm.crash_in > 0 &&
	    --storm.crash_in == 0) {
		storm.crashes++;
		storm.dead = true;
		return after_death(kind);
	}
	r = dice();
	if (storm.d.deaths &&
	    (kind == FAULT_ENGINE || kind == FAULT_HELPER || kind == FAULT_STORE) &&
	    rng_one_in(r, DIES_ONE_IN))
		somebody_dies(r);
	if (!storm.d.faults || !fails_one_in[kind] || !rng_one_in(r, fails_one_in[kind]))
		return 0;
	storm.faults++;
	storm_note("      [%d] %s: %s fails", sched_self(), fault_kind_name(kind), what);
	return error_of(kind, r);
}

/* The rig's hook: one more name for the same. */
static int on_call(void *ctx, enum fake_face face, const char *what, const char *object)
{
	enum fault_kind kind = face == FAKE_ENGINE ? FAULT_ENGINE : FAULT_HELPER;
	int e = fault_hit(kind, what, object);

	if (e && kind == FAULT_HELPER && !storm.dead && rng_one_in(dice(), LOST_ONE_IN))
		e |= FAKE_LOST;
	return e;
}

/* ---- channels ---- */

#define CHANNELS_MAX 4096

static struct {
	struct mutex lock;
	struct fault_agent *a[CHANNELS_MAX];
	size_t n;
} channels = { .lock = MUTEX_INIT("test: storm channels") };

static int on_agent(void *ctx, int fd)
{
	struct fault_agent *a = NULL;
	struct err err = { 0 };
	int host = -1;
	FAULT_QUIET;

	if (fault_agent_start(fd, &host, &a, &err) < 0) {
		fprintf(stderr, "storm: %s\n", err.msg);
		abort();
	}
	mutex_lock(&channels.lock);
	if (channels.n == CHANNELS_MAX)
		abort();
	channels.a[channels.n++] = a;
	mutex_unlock(&channels.lock);
	return host;
}

void storm_break_reap(void)
{
	for (size_t i = 0; i < channels.n; i++)
		fault_agent_stop(channels.a[i]);
	channels.n = 0;
}

void storm_break_rig(struct rig *r)
{
	r->on_call = on_call;
	r->fake->on_agent = on_agent;
}

void storm_break_install(void)
{
	fault_on_call(on_any_call, NULL);
}
