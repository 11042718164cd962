/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c - see lock.h; the order in which locks are taken is recorded in lock_order.c */
#include "base/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/lock_order.h"
#include "base/log.h"

#ifdef LOCK_ANALYSIS
#pragma clang diagnostic ignored "-Wthread-safety-analysis" /* the functions here implement what \
                                                               the annotations describe */
#endif

/* These calls only fail through a bug of ours: a lock that was not initialised, or that another
 * thread holds. */
static void must(int r, const char *call, const char *name)
{
	if (r == 0)
		return;
	log_error("%s of the lock '%s' failed: error %d", call, name ? name : "(no name)", r);
	abort();
}

static struct timespec timespec_of(uint64_t deadline_ms)
{
	return (struct timespec){ .tv_sec = (time_t)(deadline_ms / 1000),
		                  .tv_nsec = (long)(deadline_ms % 1000) * 1000000 };
}

void mutex_init(struct mutex *m, const char *name)
{
	*m = (struct mutex){ .name = name };
	must(pthread_mutex_init(&m->m, NULL), "init", name);
}

void mutex_destroy(struct mutex *m)
{
	must(pthread_mutex_destroy(&m->m), "destroy", m->name);
}

void mutex_lock(struct mutex *m)
{
	ORDER_WANT(m);
	must(pthread_mutex_lock(&m->m), "lock", m->name);
	ORDER_TOOK(m);
}

void mutex_unlock(struct mutex *m)
{
	const char *name = m->name; /* once it is released, whoever takes it next may free it */

	ORDER_GAVE(m);
	must(pthread_mutex_unlock(&m->m), "unlock", name);
}

bool mutex_trylock(struct mutex *m)
{
	int r = pthread_mutex_trylock(&m->m);

	if (r == EBUSY)
		return false;
	must(r, "trylock", m->name);
	ORDER_TOOK(m); /* it cannot have waited, so the order does not matter */
	return true;
}

bool mutex_lock_until(struct mutex *m, uint64_t deadline_ms)
{
	struct timespec until = timespec_of(deadline_ms);
	int r;

	ORDER_WANT(m);
	r = pthread_mutex_clocklock(&m->m, CLOCK_MONOTONIC, &until);
	if (r == ETIMEDOUT)
		return false;
	must(r, "timed lock", m->name);
	ORDER_TOOK(m);
	return true;
}

void cond_init(struct cond *c)
{
	must(pthread_cond_init(&c->c, NULL), "init", "condition variable");
}

void cond_destroy(struct cond *c)
{
	must(pthread_cond_destroy(&c->c), "destroy", "condition variable");
}

void cond_signal(struct cond *c)
{
	must(pthread_cond_signal(&c->c), "signal", "condition variable");
}

void cond_broadcast(struct cond *c)
{
	must(pthread_cond_broadcast(&c->c), "broadcast", "condition variable");
}

void cond_wait(struct cond *c, struct mutex *m)
{
	ORDER_GAVE(m);
	ORDER_WANT(m);
	must(pthread_cond_wait(&c->c, &m->m), "wait", m->name);
	ORDER_TOOK(m);
}

bool cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ms)
{
	struct timespec until = timespec_of(deadline_ms);
	int r;

	ORDER_GAVE(m);
	ORDER_WANT(m);
	r = pthread_cond_clockwait(&c->c, &m->m, CLOCK_MONOTONIC, &until);
	if (r != ETIMEDOUT)
		must(r, "timed wait", m->name);
	ORDER_TOOK(m);
	return r == 0;
}

void rwlock_init(struct rwlock *l, const char *name)
{
	*l = (struct rwlock){ .name = name };
	must(pthread_rwlock_init(&l->l, NULL), "init", name);
}

void rwlock_destroy(struct rwlock *l)
{
	must(pthread_rwlock_destroy(&l->l), "destroy", l->name);
}

void rwlock_rdlock(struct rwlock *l)
{
	ORDER_WANT(l);
	must(pthread_rwlock_rdlock(&l->l), "read lock", l->name);
	ORDER_TOOK(l);
}

void rwlock_wrlock(struct rwlock *l)
{
	ORDER_WANT(l);
	must(pthread_rwlock_wrlock(&l->l), "write lock", l->name);
	ORDER_TOOK(l);
}

bool rwlock_wrlock_until(struct rwlock *l, uint64_t deadline_ms)
{
	struct timespec until = timespec_of(deadline_ms);
	int r;

	ORDER_WANT(l);
	r = pthread_rwlock_clockwrlock(&l->l, CLOCK_MONOTONIC, &until);
	if (r == ETIMEDOUT)
		return false;
	must(r, "timed write lock", l->name);
	ORDER_TOOK(l);
	return true;
}

void rwlock_unlock(struct rwlock *l)
{
	ORDER_GAVE(l);
	must(pthread_rwlock_unlock(&l->l), "unlock", l->name);
}
