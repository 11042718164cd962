/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/lock.h - mutexes, condition variables and read-write locks whose rules can be checked
 *
 * Theory of operation: thin wrappers of the pthread locks; nothing else in the tree calls those
 * (tools/check-locks). Two checks come with them:
 *
 *   - Who may touch what. GUARDED_BY on a field, REQUIRES on a function and the like are read by
 * clang's thread-safety analysis in tools/check-locks, which defines LOCK_ANALYSIS. For every other
 * compiler they are empty.
 *   - In which order locks are taken. Each lock is given the name of its class at init. In builds
 * with a sanitizer (LOCK_CHECK) every thread's order is recorded, and the first one that
 * contradicts an earlier one aborts, whether or not it would have deadlocked that time.
 * docs/ARCHITECTURE.md has the table of all classes.
 *
 * Time is CLOCK_MONOTONIC throughout; a deadline is a clock_ms() value (base/clock.h).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef LOCK_ANALYSIS
#define LOCK_ATTR_(x) __attribute__((x))
#else
#define LOCK_ATTR_(x)
#endif

/*
 * On a field, after its name: only accessed with that lock held. The lock is an earlier field of
 * the same struct. In C clang has no "this", so it accepts the lock of any object of that type;
 * REQUIRES tells objects apart.
 */
#define GUARDED_BY(lock) LOCK_ATTR_(guarded_by(&lock))
#define PT_GUARDED_BY(lock) LOCK_ATTR_(pt_guarded_by(&lock)) /* what the pointer points to */
/* On a function, with the lock as the caller writes it: REQUIRES(&m->lock). */
#define REQUIRES(...) LOCK_ATTR_(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) LOCK_ATTR_(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) LOCK_ATTR_(locks_excluded(__VA_ARGS__))    /* takes it itself */
#define ACQUIRE(...) LOCK_ATTR_(acquire_capability(__VA_ARGS__)) /* returns with it */
#define ACQUIRE_SHARED(...) LOCK_ATTR_(acquire_shared_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) \
	LOCK_ATTR_(try_acquire_capability(__VA_ARGS__)) /* (value that means success, lock) */
#define RELEASE(...) LOCK_ATTR_(release_capability(__VA_ARGS__))
#define RELEASE_GENERIC(...) LOCK_ATTR_(release_generic_capability(__VA_ARGS__))
#define ASSERT_HELD(...) LOCK_ATTR_(assert_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS LOCK_ATTR_(no_thread_safety_analysis) /* say why */

struct LOCK_ATTR_(capability("mutex")) mutex {
	pthread_mutex_t m;
	const char *name;
#ifdef LOCK_CHECK
	unsigned class_id;
#endif
};

struct LOCK_ATTR_(capability("rwlock")) rwlock {
	pthread_rwlock_t l;
	const char *name;
#ifdef LOCK_CHECK
	unsigned class_id;
#endif
};

struct cond {
	pthread_cond_t c;
};

#define MUTEX_INIT(class_name)                                       \
	{                                                            \
		.m = PTHREAD_MUTEX_INITIALIZER, .name = (class_name) \
	}
#define COND_INIT                             \
	{                                     \
		.c = PTHREAD_COND_INITIALIZER \
	}

/* The name, a string literal, is the lock's class in the table of docs/ARCHITECTURE.md. */
void mutex_init(struct mutex *m, const char *name);
void mutex_destroy(struct mutex *m);
void mutex_lock(struct mutex *m) ACQUIRE(m);
void mutex_unlock(struct mutex *m) RELEASE(m);
bool mutex_trylock(struct mutex *m) TRY_ACQUIRE(true, m);
/* False if the deadline passed while another thread held it. */
bool mutex_lock_until(struct mutex *m, uint64_t deadline_ms) TRY_ACQUIRE(true, m);

void cond_init(struct cond *c);
void cond_destroy(struct cond *c);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);
/* Both may return early: call them in a loop that checks the condition. */
void cond_wait(struct cond *c, struct mutex *m) REQUIRES(m);
/* False if the deadline passed. */
bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ms) REQUIRES(m);

void rwlock_init(struct rwlock *l, const char *name);
void rwlock_destroy(struct rwlock *l);
void rwlock_rdlock(struct rwlock *l) ACQUIRE_SHARED(l);
void rwlock_wrlock(struct rwlock *l) ACQUIRE(l);
/* False if the deadline passed while another thread held it. */
bool rwlock_wrlock_until(struct rwlock *l, uint64_t deadline_ms) TRY_ACQUIRE(true, l);
void rwlock_unlock(struct rwlock *l) RELEASE_GENERIC(l);

/*
 * No other thread can reach what the lock guards: its object is being created, or its last user is
 * gone. Does nothing; the analysis treats the lock as held from here on.
 */
static inline void mutex_unshared(struct mutex *m) ASSERT_HELD(m);
static inline void mutex_unshared(struct mutex *m)
{
	(void)m;
}
static inline void rwlock_unshared(struct rwlock *l) ASSERT_HELD(l);
static inline void rwlock_unshared(struct rwlock *l)
{
	(void)l;
}

/* LOCK_SCOPE(&x->lock): takes the mutex and holds it until the end of the scope. */
#ifdef LOCK_ANALYSIS
/* clang does not see that the variable is another name for the lock; a function local to this scope
 * can name the lock itself. */
#define LOCK_SCOPE_2(mu, n)                                                                       \
	void lock_scope_end_##n(struct mutex *const *) RELEASE(mu);                               \
	mutex_lock(mu);                                                                           \
	__attribute__((cleanup(lock_scope_end_##n), unused)) struct mutex *const lock_scope_##n = \
	        (mu)
#define LOCK_SCOPE_1(mu, n) LOCK_SCOPE_2(mu, n)
#define LOCK_SCOPE(mu) LOCK_SCOPE_1(mu, __COUNTER__)
#else
static inline struct mutex *lock_scope_(struct mutex *m)
{
	mutex_lock(m);
	return m;
}

static inline void lock_scope_end_(struct mutex *const *m)
{
	mutex_unlock(*m);
}

#define LOCK_SCOPE_2(mu, line)                                                                    \
	__attribute__((cleanup(lock_scope_end_), unused)) struct mutex *const lock_scope_##line = \
	        lock_scope_(mu)
#define LOCK_SCOPE_1(mu, line) LOCK_SCOPE_2(mu, line)
#define LOCK_SCOPE(mu) LOCK_SCOPE_1(mu, __LINE__)
#endif
