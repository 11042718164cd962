/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - a short list of subscribers, called in turn
 *
 * Subscribing and unsubscribing happen at start and end; publishing takes the lock
 * for reading only, so publishers do not wait for one another.
 */
#include "events/events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/lock.h"

struct events {
	struct rwlock lock;
	struct {
		event_fn fn;
		void *ctx;
	} who[EVENTS_SUBSCRIBERS_MAX] GUARDED_BY(lock);
	unsigned n GUARDED_BY(lock);
};

static const char *const level_names[] = {
	[EVENT_INFO] = "info", [EVENT_WARN] = "warn", [EVENT_ERROR] = "error"
};
_Static_assert(ARRAY_SIZE(level_names) == EVENT_LEVEL_MAX, "a level is missing in level_names");

static __thread char thread_request[ID_SIZE];

const char *event_level_name(enum event_level lv)
{
	return level_names[lv];
}

struct events *events_new(void)
{
	struct events *ev = calloc(1, sizeof(*ev));

	if (ev)
		rwlock_init(&ev->lock, "events");
	return ev;
}

struct events *events_free(struct events *ev)
{
	if (!ev)
		return NULL;
	rwlock_destroy(&ev->lock);
	free(ev);
	return NULL;
}

int events_subscribe(struct events *ev, event_fn fn, void *ctx, struct err *err)
{
	int r = 0;

	rwlock_wrlock(&ev->lock);
	if (ev->n == EVENTS_SUBSCRIBERS_MAX) {
		r = err_set(err, -ENOBUFS, "too many subscribers to events");
	} else {
		ev->who[ev->n].fn = fn;
		ev->who[ev->n++].ctx = ctx;
	}
	rwlock_unlock(&ev->lock);
	return r;
}

void events_unsubscribe(struct events *ev, event_fn fn, void *ctx)
{
	rwlock_wrlock(&ev->lock);
	for (unsigned i = 0; i < ev->n; i++) {
		if (ev->who[i].fn != fn || ev->who[i].ctx != ctx)
			continue;
		ev->who[i] = ev->who[--ev->n];
		break;
	}
	rwlock_unlock(&ev->lock);
}

void events_publish(struct events *ev, const struct event *e)
{
	struct event full = *e;

	if (!ev || !e->account || !*e->account)
		return;
	if (!full.at_ms)
		full.at_ms = clock_wall_ms();
	if (!full.request)
		full.request = thread_request;
	rwlock_rdlock(&ev->lock);
	for (unsigned i = 0; i < ev->n; i++)
		ev->who[i].fn(&full, ev->who[i].ctx);
	rwlock_unlock(&ev->lock);
}

void events_request_set(const char *id)
{
	snprintf(thread_request, sizeof(thread_request), "%s", id ? id : "");
}

const char *events_request(void)
{
	return thread_request;
}
