/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeouts.c - connections that do not move on in time are shut down
 *
 * An idle timeout is not enough: a client that sends one byte now and then is never
 * idle. So each connection has a deadline for the phase it is in (headers, body,
 * reply, waiting for the next request), and none while a handler works for it. One
 * thread wakes every second at most and shuts down the sockets that are late; the
 * connection's own thread then sees the end and cleans up. The socket is only
 * closed after timeout_remove(), so the number cannot be another's meanwhile.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"

#define TICK_MS 1000

struct timeout {
	struct timeout *prev, *next;
	int fd;                       /* weak: the HTTP library's */
	_Atomic uint64_t deadline_ms; /* its own thread sets it, ours looks */
};

struct timeouts {
	pthread_mutex_t lock;
	pthread_cond_t stop_cond;
	struct timeout list; /* head */
	pthread_t thread;
	bool stop;
};

static void *timeouts_main(void *arg)
{
	struct timeouts *t = arg;

	LOCK_SCOPE(&t->lock);
	while (!t->stop) {
		struct timespec ts = deadline_timespec(deadline_in(TICK_MS));
		uint64_t now;

		pthread_cond_timedwait(&t->stop_cond, &t->lock, &ts);
		now = clock_ms();
		for (struct timeout *c = t->list.next; c != &t->list; c = c->next) {
			uint64_t deadline =
			        atomic_load_explicit(&c->deadline_ms, memory_order_relaxed);

			/* Only if it has not just moved on. */
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
	pthread_condattr_t attr;
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->stop_cond, &attr);
	pthread_condattr_destroy(&attr);
	t->list.prev = t->list.next = &t->list;
	r = pthread_create(&t->thread, NULL, timeouts_main, t);
	if (r != 0) {
		pthread_cond_destroy(&t->stop_cond);
		pthread_mutex_destroy(&t->lock);
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
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->stop_cond);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->stop_cond);
	pthread_mutex_destroy(&t->lock);
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
	pthread_mutex_lock(&t->lock);
	c->prev->next = c->next;
	c->next->prev = c->prev;
	pthread_mutex_unlock(&t->lock);
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
