/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeouts.c - connections that do not move on in time are shut down
 *
 * An idle timeout is not enough: a client that sends one byte now and then is never
 * idle. So each connection has a deadline for the phase it is in (headers, body,
 * reply, waiting for the next request), and none while a handler works for it. One
 * thread wakes every second at most and shuts down the sockets that are late; the
 * connection's own thread then sees the end and cleans up. The socket is only
 * closed after watch_remove(), so the number cannot be another's meanwhile.
 */
#include "api/call.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"

#define WATCH_TICK_MS 1000

struct watched {
	struct watched *prev, *next;
	int fd;                       /* weak: the HTTP library's */
	_Atomic uint64_t deadline_ms; /* its own thread sets it, ours looks */
};

struct watch {
	pthread_mutex_t lock;
	pthread_cond_t stop_cond;
	struct watched list; /* head */
	pthread_t thread;
	bool stop;
};

static void *watch_main(void *arg)
{
	struct watch *w = arg;

	LOCK_SCOPE(&w->lock);
	while (!w->stop) {
		struct timespec ts = deadline_timespec(deadline_in(WATCH_TICK_MS));
		uint64_t now;

		pthread_cond_timedwait(&w->stop_cond, &w->lock, &ts);
		now = clock_ms();
		for (struct watched *c = w->list.next; c != &w->list; c = c->next) {
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

int watch_new(struct watch **ret, struct err *err)
{
	struct watch *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->stop_cond, &attr);
	pthread_condattr_destroy(&attr);
	w->list.prev = w->list.next = &w->list;
	r = pthread_create(&w->thread, NULL, watch_main, w);
	if (r != 0) {
		pthread_cond_destroy(&w->stop_cond);
		pthread_mutex_destroy(&w->lock);
		free(w);
		return err_sys(err, -r, "start a thread");
	}
	*ret = w;
	return 0;
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->stop_cond);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->stop_cond);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

struct watched *watch_add(struct watch *w, int fd)
{
	struct watched *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	LOCK_SCOPE(&w->lock);
	c->next = &w->list;
	c->prev = w->list.prev;
	c->prev->next = c->next->prev = c;
	return c;
}

void watch_remove(struct watch *w, struct watched *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&w->lock);
	c->prev->next = c->next;
	c->next->prev = c->prev;
	pthread_mutex_unlock(&w->lock);
	free(c);
}

void watch_deadline(struct watch *w, struct watched *c, uint64_t deadline_ms)
{
	if (c)
		atomic_store_explicit(&c->deadline_ms, deadline_ms, memory_order_relaxed);
}

uint64_t watch_move(uint64_t bytes)
{
	return clock_ms() + API_MOVE_MS + bytes / API_MOVE_RATE * 1000;
}
