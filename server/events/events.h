/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events/events.h - publish/subscribe between modules that must not depend on each other
 *
 * A module that does something worth reporting to the account publishes a line; the subscribers are
 * chosen in main.c. A subscriber is called on the publisher's thread, often under a
 * VM's lock: it must not block and must not publish.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct events;

enum event_level { EVENT_INFO, EVENT_WARN, EVENT_ERROR, EVENT_LEVEL_MAX };
const char *event_level_name(enum event_level lv); /* "info", "warn", "error" */

/* Texts belong to the publisher and are only valid during the call; NULL where there is none. */
struct event {
	int64_t at_ms; /* wall clock; 0: now */
	enum event_level level;
	const char *source;  /* where it comes from: "vm", "build", "request" */
	const char *account; /* whose it is; without one the line is dropped */
	const char *vm, *instance, *build;
	const char *request; /* NULL: the thread's current one, see events_request_set() */
	const char *message; /* may quote bytes of a guest: not necessarily UTF-8 */
};

typedef void (*event_fn)(const struct event *e, void *ctx);

struct events *events_new(void);
struct events *events_free(struct events *ev);
#define EVENTS_SUBSCRIBERS_MAX 8
/* -ENOBUFS if there are too many. */
int events_subscribe(struct events *ev, event_fn fn, void *ctx, struct err *err);
void events_unsubscribe(struct events *ev, event_fn fn, void *ctx);
/* ev NULL: does nothing. */
void events_publish(struct events *ev, const struct event *e);

/*
 * Sets the request (ri-...) that this thread works for; NULL or "": none. Everything the
 * thread publishes carries it, and builds record it.
 */
void events_request_set(const char *id);
const char *events_request(void); /* "" if there is none */
