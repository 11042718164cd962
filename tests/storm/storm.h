/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/storm/storm.h - between storm.c (rounds), storm_verbs.c (what threads do), storm_break.c
 * (what goes wrong) and storm_watch.c (no progress); for this folder only
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/lock.h"
#include "tests/storm/turns.h"
#include "tests/vm/rig.h"

#define THREADS 4
#define ROUNDS 3   /* of one seed: each has its own disturbances; the VMs stay */
#define STEPS 10   /* verbs of one thread in one round */
#define VMS_MAX 10 /* above that threads delete instead of creating */
#define KNOWN_MAX 512

/* What may go wrong in a round; the seed decides. */
struct dangers {
	bool turns;     /* threads take turns; else they run at once */
	bool faults;    /* calls fail */
	bool deaths;    /* machines die */
	bool crash;     /* pandod ends in the middle, and is started again */
	bool bad_start; /* after that crash calls fail while it recovers */
};

/* What the callers were told: to be found again whatever happened. */
enum known_state {
	KNOWN_THERE, /* its making was acknowledged */
	KNOWN_MAYBE, /* a call that may have ended it failed, or is under way */
	KNOWN_GONE,  /* its end was acknowledged */
};
struct known {
	char id[ID_SIZE];
	enum known_state state;
};

struct storm {
	uint64_t seed;
	struct rig *rig;
	struct dangers d;
	unsigned round;
	bool talks; /* prints every note at once */

	struct mutex lock; /* guards the model, short */
	struct known vms[KNOWN_MAX], snaps[KNOWN_MAX];
	size_t n_vms, n_snaps;

	atomic_bool active;   /* verbs are under way: things may go wrong */
	atomic_bool dead;     /* pandod has ended: nothing has an effect any more */
	atomic_long crash_in; /* calls until it does; negative: it does not */
	atomic_ulong verbs, failed, calls, faults, deaths, crashes, litter;
	struct {
		_Atomic(const char *) verb; /* NULL: between two */
		char object[ID_SIZE];
		_Atomic uint64_t since_ms;
	} at[THREADS];
};
extern struct storm storm;

/* storm_verbs.c: one verb, decided by the thread's generator */
void storm_step(unsigned thread);
/* Compares what callers were told with what there is; false and why. */
bool storm_recalls(char *why, size_t size);

/* storm_break.c */
void storm_break_install(void);
void storm_break_rig(struct rig *r); /* a new rig: its calls and channels */
void storm_break_reap(void);         /* the threads of channels; nobody at work */

/* storm_watch.c */
void storm_watch_start(void);
void storm_watch_stop(void);
/* A line of what happened; the last ones are printed when something is wrong. */
void storm_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The seed and how to run it again, on stderr; safe in a signal handler. */
void storm_tell_seed(void);
