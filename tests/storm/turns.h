/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/storm/turns.h - threads that take turns, in an order that a seed decides
 *
 * In turns mode exactly one of the threads that joined runs; all others wait for theirs. A turn
 * is passed on at sched_point(), which the storm calls at every call into engine, helper, store and
 * files, at a lock that another one of them holds, in pthread_join(), and when a thread leaves. Who
 * is next comes from the seed. So two verbs overlap at the points where they call something, and
 * the same seed overlaps them in the same way.
 *
 * What is replayed: which thread does which verb on what, in which order, and where turns are
 * passed on. What is not: threads that never joined (keeper, reaper, pool, readers of agent
 * channels), the agents themselves, and time. A thread that waits for one of these keeps its
 * turn for SCHED_GRACE_MS; only if it takes longer does the turn go on without it, and
 * sched_drift() counts that. A run with no drift is repeated exactly, as far as the joined threads
 * go.
 *
 * Without turns mode the kernel schedules threads, and sched_point() sleeps now and then.
 *
 * The program is linked with turns_wrap_dep: locks, conditions, pthread_create() and pthread_join()
 * of our objects come here first. A thread that a joined thread starts and later joins (a worker
 * of a fork) joins by itself, with a generator of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHED_THREADS_MAX 64
#define SCHED_GRACE_MS 400

/* splitmix64: small, and the same everywhere. */
struct rng {
	uint64_t s;
};
static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}
static inline unsigned rng_below(struct rng *r, unsigned n)
{
	return (unsigned)(rng_next(r) % n);
}
static inline bool rng_one_in(struct rng *r, unsigned n)
{
	return rng_below(r, n) == 0;
}
/* A generator that depends on both, and on nothing else. */
static inline struct rng rng_from(uint64_t seed, uint64_t what)
{
	struct rng r = { seed * UINT64_C(0xd1342543de82ef95) + what };

	rng_next(&r);
	return r;
}

/* Before the threads start: expect so many of them; nobody gets a turn until all have joined. */
void sched_begin(uint64_t seed, bool turns, unsigned expect);
void sched_join(unsigned id); /* id < SCHED_THREADS_MAX / 2; returns with the turn */
void sched_leave(void);
void sched_point(void); /* the turn may go to another one here */
/*
 * Restarts the thread's generator: its decisions in this step do not depend on how many
 * dice were thrown in earlier steps.
 */
void sched_step(unsigned step);
struct rng *sched_rng(void); /* of the calling thread; NULL: it did not join */
int sched_self(void); /* its id; -1: it did not join. Workers of n: SCHED_THREADS_MAX / 2 and up */
uint64_t sched_order(void); /* a hash over all turns so far */
unsigned long sched_drift(void);
