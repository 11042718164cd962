/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events/events.h - publish/subscribe between modules that must not know each other
 *
 * Whoever does something worth telling its account publishes a line; who listens is
 * decided in main.c. A subscriber is called on the publisher's thread, often under a
 * VM's lock: it must not block and must not publish.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct events;

enum event_level { EVENT_INFO, EVENT_WARN, EVENT_ERROR, EVENT_LEVEL_MAX };
const char *event_level_name(enum event_level lv); /* "info", "warn", "error" */

/* Texts are the publisher's and only valid during the call; NULL where there is none. */
struct event {
	int64_t at_ms; /* wall clock; 0: now */
	enum event_level level;
	const char *source;  /* who says so: "vm", "build", "request" */
	const char *account; /* whose it is; without one nobody is told */
	const char *vm, *instance, *build;
	const char *request; /* NULL: what the thread works for, see events_request_set() */
	const char *message; /* may quote bytes of a guest: not necessarily UTF-8 */
};

typedef void (*event_fn)(const struct event *e, void *ctx);

struct events *events_new(void);
struct events *events_free(struct events *ev);
#define EVENTS_SUBSCRIBERS_MAX 8
/* -ENOBUFS when there are too many. */
int events_subscribe(struct events *ev, event_fn fn, void *ctx, struct err *err);
void events_unsubscribe(struct events *ev, event_fn fn, void *ctx);
/* ev NULL: nobody is told. */
void events_publish(struct events *ev, const struct event *e);

/*
 * The request (ri-...) that this thread works for from now on; NULL or "": none. Everything the
 * thread publishes carries it, and a build may note it down.
 */
void events_request_set(const char *id);
const char *events_request(void); /* "" when there is none */
