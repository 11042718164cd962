/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeouts.c - shuts down connections that make no progress in time
 *
 * An idle timeout is not enough: a client that sends a byte now and then is never idle. So each
 * connection has a deadline for the phase it is in (headers, body, reply, waiting for the next
 * request), and none while a handler works for it. One thread checks once a second and shuts down
 * the sockets that are late; the connection's own thread then sees the end and cleans up. The
 * socket is closed only after timeout_remove(), so its number cannot belong to another connection
 * meanwhile.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/lock.h"

#define TICK_MS 1000

struct timeout {
	struct timeout *prev, *next;
	int fd;                       /* weak: the HTTP library's */
	_Atomic uint64_t deadline_ms; /* set by the connection's thread, read by ours */
};

struct timeouts {
	struct mutex lock;
	struct cond stop_cond;
	struct timeout list GUARDED_BY(lock); /* head */
	pthread_t thread;
	bool stop GUARDED_BY(lock);
};

static void *timeouts_main(void *arg)
{
	struct timeouts *t = arg;

	LOCK_SCOPE(&t->lock);
	while (!t->stop) {
		uint64_t now;

		cond_wait_until(&t->stop_cond, &t->lock, deadline_in(TICK_MS));
		now = clock_ms();
		for (struct timeout *c = t->list.next; c != &t->list; c = c->next) {
			uint64_t deadline =
			        atomic_load_explicit(&c->deadline_ms, memory_order_relaxed);

			/* Only if it has not made progress since. */
			if (deadline && now >= deadline &&
			    atomic_compare_exchange_strong(&c->deadline_ms, &deadline, 0))
				shutdown(c->fd, SHUT_RDWR);
		}
	}
	return NULL;
}

int timeouts_new(struct timeouts **ret, struct err *err)
{
	struct timeouts *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&t->lock, "http timeouts");
	cond_init(&t->stop_cond);
	mutex_unshared(&t->lock);
	t->list.prev = t->list.next = &t->list;
	r = pthread_create(&t->thread, NULL, timeouts_main, t);
	if (r != 0) {
		cond_destroy(&t->stop_cond);
		mutex_destroy(&t->lock);
		free(t);
		return err_sys(err, -r, "start a thread");
	}
	*ret = t;
	return 0;
}

struct timeouts *timeouts_free(struct timeouts *t)
{
	if (!t)
		return NULL;
	mutex_lock(&t->lock);
	t->stop = true;
	cond_signal(&t->stop_cond);
	mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	cond_destroy(&t->stop_cond);
	mutex_destroy(&t->lock);
	free(t);
	return NULL;
}

struct timeout *timeout_add(struct timeouts *t, int fd)
{
	struct timeout *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	LOCK_SCOPE(&t->lock);
	c->next = &t->list;
	c->prev = t->list.prev;
	c->prev->next = c->next->prev = c;
	return c;
}

void timeout_remove(struct timeouts *t, struct timeout *c)
{
	if (!c)
		return;
	mutex_lock(&t->lock);
	c->prev->next = c->next;
	c->next->prev = c->prev;
	mutex_unlock(&t->lock);
	free(c);
}

void timeout_set(struct timeout *c, uint64_t deadline_ms)
{
	if (c)
		atomic_store_explicit(&c->deadline_ms, deadline_ms, memory_order_relaxed);
}

uint64_t timeout_for(uint64_t bytes)
{
	return clock_ms() + MOVE_MS + bytes / MOVE_RATE * 1000;
}
