/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/storm/turns.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fault/fault.h"

#define SWITCH_ONE_IN 6 /* points at which the turn is passed on */
#define SLEEP_ONE_IN 50 /* points at which a thread sleeps, without turns */
#define SLEEP_MAX_US 3000
#define LOCK_WAIT_MS 20 /* for a lock of a thread that takes no turns */
#define WORKERS (SCHED_THREADS_MAX / 2)

#define WRAP(type, name, ...)            \
	type __wrap_##name(__VA_ARGS__); \
	type __real_##name(__VA_ARGS__)
WRAP(int, pthread_mutex_lock, pthread_mutex_t *m);
WRAP(int, pthread_mutex_clocklock, pthread_mutex_t *m, clockid_t clock,
     const struct timespec *until);
WRAP(int, pthread_rwlock_rdlock, pthread_rwlock_t *l);
WRAP(int, pthread_rwlock_wrlock, pthread_rwlock_t *l);
WRAP(int, pthread_cond_wait, pthread_cond_t *c, pthread_mutex_t *m);
WRAP(int, pthread_cond_clockwait, pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
     const struct timespec *until);
WRAP(int, pthread_create, pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
WRAP(int, pthread_join, pthread_t t, void **ret);

enum where { NOWHERE, READY, RUNS, AWAY };

struct thread {
	unsigned id;
	enum where where;
	pid_t tid;
	struct rng rng;
	unsigned born;         /* workers it started */
	pthread_t handle;      /* of a worker */
	struct thread *awaits; /* the worker whose end it waits for */
	pthread_cond_t cond;
};

static struct {
	pthread_mutex_t lock;
	struct thread t[SCHED_THREADS_MAX];
	struct thread *runs; /* has the turn; NULL: nobody does */
	uint64_t seed, order;
	unsigned expect;
	bool turns;
	unsigned long drift;
} s = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread struct thread *me;

static void lock(void)
{
	__real_pthread_mutex_lock(&s.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&s.lock);
}

void sched_begin(uint64_t seed, bool turns, unsigned expect)
{
	lock();
	for (unsigned i = 0; i < SCHED_THREADS_MAX; i++) {
		s.t[i].id = i;
		s.t[i].where = NOWHERE;
		s.t[i].born = 0;
		s.t[i].awaits = NULL;
		pthread_cond_init(&s.t[i].cond, NULL);
	}
	s.seed = seed;
	s.order = 0;
	s.turns = turns;
	s.expect = expect;
	s.runs = NULL;
	s.drift = 0;
	unlock();
}

/* Lock held, nobody has the turn: somebody who waits for it gets it. */
static void hand_out(void)
{
	struct thread *ready[SCHED_THREADS_MAX];
	struct rng first = rng_from(s.seed, 0x5c);
	unsigned n = 0;

	if (s.expect || s.runs)
		return;
	for (unsigned i = 0; i < SCHED_THREADS_MAX; i++)
		if (s.t[i].where == READY)
			ready[n++] = &s.t[i];
	if (!n)
		return;
	/* The first one: not by who happened to come last. */
	s.runs = ready[n == 1 ? 0 : rng_below(s.order ? &me->rng : &first, n)];
	s.runs->where = RUNS;
	s.order = (s.order ^ s.runs->id) * UINT64_C(0x100000001b3) + 1;
	pthread_cond_signal(&s.runs->cond);
}

/* Lock held: until it is my turn. */
static void await_turn(void)
{
	while (me->where != RUNS)
		__real_pthread_cond_wait(&me->cond, &s.lock);
}

static void give_up(enum where to)
{
	me->where = to;
	if (s.runs == me)
		s.runs = NULL;
	for (unsigned i = 0; to == NOWHERE && i < SCHED_THREADS_MAX; i++)
		if (s.t[i].awaits == me) {
			s.t[i].awaits = NULL;
			s.t[i].where = READY;
		}
	hand_out();
}

/* parent: waits until this one can be given a turn; NULL: nobody does */
static void enter(struct thread *t, struct thread *parent)
{
	lock();
	me = t;
	t->tid = gettid();
	t->where = READY;
	t->rng = rng_from(s.seed, 0x100 + t->id);
	if (!s.turns) {
		unlock();
		return;
	}
	if (s.expect && !parent)
		s.expect--;
	if (parent)
		pthread_cond_signal(&parent->cond);
	hand_out();
	await_turn();
	unlock();
}

void sched_join(unsigned id)
{
	enter(&s.t[id], NULL);
}

void sched_leave(void)
{
	lock();
	give_up(NOWHERE);
	me = NULL;
	unlock();
}

/* Without the turn for as long as the caller waits for something else. */
static void go_away(void)
{
	lock();
	give_up(AWAY);
	unlock();
}

static void come_back(void)
{
	lock();
	me->where = READY;
	hand_out();
	await_turn();
	unlock();
}

/* true: another one ran meanwhile. */
static bool pass_on(void)
{
	unsigned others = 0;

	lock();
	for (unsigned i = 0; i < SCHED_THREADS_MAX; i++)
		others += s.t[i].where == READY;
	if (others) {
		give_up(READY);
		await_turn();
	}
	unlock();
	return others;
}

static bool takes_turns(void)
{
	return me && s.turns;
}

void sched_point(void)
{
	if (!me)
		return;
	if (s.turns) {
		if (rng_one_in(&me->rng, SWITCH_ONE_IN))
			pass_on();
	} else if (rng_one_in(&me->rng, SLEEP_ONE_IN)) {
		usleep(rng_below(&me->rng, SLEEP_MAX_US));
	}
}

void sched_step(unsigned step)
{
	if (me)
		me->rng = rng_from(s.seed, ((uint64_t)me->id + 1) << 32 | step);
}

struct rng *sched_rng(void)
{
	return me ? &me->rng : NULL;
}

int sched_self(void)
{
	return me ? (int)me->id : -1;
}

uint64_t sched_order(void)
{
	uint64_t o;

	lock();
	o = s.order;
	unlock();
	return o;
}

static void drifted(void)
{
	lock();
	s.drift++;
	unlock();
}

unsigned long sched_drift(void)
{
	unsigned long n;

	lock();
	n = s.drift;
	unlock();
	return n;
}

/* ---- locks ---- */

/* glibc keeps who has a mutex. Read without a lock: a guess that is only used to wait better. */
__attribute__((no_sanitize("thread"))) static bool of_a_joined_thread(const pthread_mutex_t *m)
{
	int owner = *(const volatile int *)&m->__data.__owner;

	for (unsigned i = 0; owner && i < SCHED_THREADS_MAX; i++)
		if (s.t[i].where != NOWHERE && s.t[i].tid == owner)
			return true;
	return false;
}

static struct timespec in_ms(unsigned ms)
{
	uint64_t at = deadline_in(ms);

	return (struct timespec){ .tv_sec = (time_t)(at / 1000),
		                  .tv_nsec = (long)(at % 1000) * 1000000 };
}

static bool before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* until: CLOCK_MONOTONIC; NULL: for ever */
static int take_mutex(pthread_mutex_t *m, const struct timespec *until)
{
	for (;;) {
		int r = pthread_mutex_trylock(m);
		struct timespec soon = in_ms(LOCK_WAIT_MS);

		if (r != EBUSY)
			return r;
		if (of_a_joined_thread(m) && pass_on())
			goto again;
		r = __real_pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &soon);
		if (r != ETIMEDOUT)
			return r;
		drifted();
		pass_on();
	again:
		soon = in_ms(0);
		if (until && before(until, &soon))
			return ETIMEDOUT;
	}
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	return takes_turns() ? take_mutex(m, NULL) : __real_pthread_mutex_lock(m);
}

int __wrap_pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock,
                                   const struct timespec *until)
{
	if (!takes_turns() || clock != CLOCK_MONOTONIC)
		return __real_pthread_mutex_clocklock(m, clock, until);
	return take_mutex(m, until);
}

static int take_rwlock(pthread_rwlock_t *l, int (*try)(pthread_rwlock_t *))
{
	int r;

	while ((r = try(l)) == EBUSY)
		if (!pass_on())
			usleep(1000);
	return r;
}

int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	return takes_turns() ? take_rwlock(l, pthread_rwlock_tryrdlock)
	                     : __real_pthread_rwlock_rdlock(l);
}

int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	return takes_turns() ? take_rwlock(l, pthread_rwlock_trywrlock)
	                     : __real_pthread_rwlock_wrlock(l);
}

/* ---- waiting for somebody who takes no turns ---- */

int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                  const struct timespec *until)
{
	struct timespec grace = in_ms(SCHED_GRACE_MS);
	int r;

	if (!takes_turns() || clock != CLOCK_MONOTONIC || before(until, &grace))
		return __real_pthread_cond_clockwait(c, m, clock, until);
	r = __real_pthread_cond_clockwait(c, m, clock, &grace);
	if (r != ETIMEDOUT)
		return r;
	drifted();
	go_away();
	r = __real_pthread_cond_clockwait(c, m, clock, until);
	come_back(); /* with m held: who wants it passes its turn on */
	return r;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	int r;

	if (!takes_turns())
		return __real_pthread_cond_wait(c, m);
	go_away();
	r = __real_pthread_cond_wait(c, m);
	come_back();
	return r;
}

/* ---- workers of a joined thread ---- */

struct birth {
	struct thread *t, *parent;
	void *(*fn)(void *);
	void *arg;
};

static void *worker_main(void *arg)
{
	struct birth b = *(struct birth *)arg;
	void *ret;

	free(arg);
	enter(b.t, b.parent);
	ret = b.fn(b.arg);
	sched_leave();
	return ret;
}

/* The place of a worker: the same whenever its parent does the same. */
static struct thread *worker_place(void)
{
	struct thread *t = NULL;

	lock();
	for (unsigned i = 0; !t && i < WORKERS; i++) {
		struct thread *o = &s.t[WORKERS + (me->id * 7 + me->born + i) % WORKERS];

		if (o->where == NOWHERE)
			t = o;
	}
	if (t) {
		t->where = AWAY;
		me->born++;
	}
	unlock();
	return t;
}

static void place_done(struct thread *t, const pthread_t *handle)
{
	lock();
	if (handle)
		t->handle = *handle;
	else
		t->where = NOWHERE;
	/* Until it can be given a turn: from then on the seed decides when. */
	while (handle && t->where == AWAY)
		__real_pthread_cond_wait(&me->cond, &s.lock);
	unlock();
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	int detached = PTHREAD_CREATE_JOINABLE, r;
	struct thread *place;
	struct birth *b;

	if (!takes_turns() || fault_is_quiet()) /* quiet: a thread of the test's own */
		return __real_pthread_create(t, a, fn, arg);
	FAULT_QUIET;
	if (a)
		pthread_attr_getdetachstate(a, &detached);
	place = me->id < WORKERS && detached == PTHREAD_CREATE_JOINABLE ? worker_place() : NULL;
	if (!place)
		return __real_pthread_create(t, a, fn, arg);
	b = malloc(sizeof(*b));
	if (!b)
		abort();
	*b = (struct birth){ place, me, fn, arg };
	r = __real_pthread_create(t, a, worker_main, b);
	if (r)
		free(b);
	place_done(place, r ? NULL : t);
	return r;
}

int __wrap_pthread_join(pthread_t t, void **ret)
{
	if (!takes_turns())
		return __real_pthread_join(t, ret);
	lock();
	for (unsigned i = WORKERS; i < SCHED_THREADS_MAX; i++)
		if (s.t[i].where != NOWHERE && pthread_equal(s.t[i].handle, t)) {
			me->awaits = &s.t[i];
			give_up(AWAY);
			await_turn();
			break;
		}
	unlock();
	return __real_pthread_join(t, ret); /* it is over but for its last steps */
}
