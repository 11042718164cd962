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
#include "base/lock.h"

#define WATCH_TICK_MS 1000

struct watched {
	struct watched *prev, *next;
	int fd;                       /* weak: the HTTP library's */
	_Atomic uint64_t deadline_ms; /* its own thread sets it, ours looks */
};

struct watch {
	struct mutex lock;
	struct cond stop_cond;
	struct watched list; /* head */
	pthread_t thread;
	bool stop;
};

static void *watch_main(void *arg)
{
	struct watch *w = arg;

	LOCK_SCOPE(&w->lock);
	while (!w->stop) {
		uint64_t now;

		cond_wait_until(&w->stop_cond, &w->lock, deadline_in(WATCH_TICK_MS));
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
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&w->lock, "api watch");
	cond_init(&w->stop_cond);
	w->list.prev = w->list.next = &w->list;
	r = pthread_create(&w->thread, NULL, watch_main, w);
	if (r != 0) {
		cond_destroy(&w->stop_cond);
		mutex_destroy(&w->lock);
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
	mutex_lock(&w->lock);
	w->stop = true;
	cond_signal(&w->stop_cond);
	mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	cond_destroy(&w->stop_cond);
	mutex_destroy(&w->lock);
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
	mutex_lock(&w->lock);
	c->prev->next = c->next;
	c->next->prev = c->prev;
	mutex_unlock(&w->lock);
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
