/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events/logs.h - the logs of an account's VMs, builds and requests; for main.c and api/
 *
 * Lines come from the store (events that were published, build logs) and, for a named
 * service of a running VM, from the journal inside the guest; those of access logs (access.h) only
 * when they are asked for. They are merged by
 * time and returned newest first, page by page.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events/access.h"
#include "store/store.h"

struct err;
struct events;
struct guest;
struct logs;

#define LOGS_PAGE_MAX 1000
#define LOGS_SERVICE_SIZE 256 /* a systemd unit's name, with the NUL */

/* Subscribes to events and stores them. Both must outlive it. */
int logs_new(struct store *store, struct events *events, struct logs **ret, struct err *err);
/* Writes the lines that are still queued. */
struct logs *logs_free(struct logs *l);
/* The access log that it shows. */
struct access *logs_access(struct logs *l);

enum log_source {
	LOG_FROM_EVENTS,
	LOG_FROM_BUILD,
	LOG_FROM_JOURNAL,
	LOG_FROM_ACCESS,
	LOG_SOURCE_MAX
};

/* A line's position among all lines: by time, then source, then number. */
struct log_place {
	int64_t at_ms;
	enum log_source from;
	int64_t seq;
};
/* A place after all lines. */
#define LOG_PLACE_END ((struct log_place){ INT64_MAX, LOG_SOURCE_MAX, INT64_MAX })
/* "1700000000000.0.17": opaque for clients. */
#define LOG_PLACE_TEXT 64
const char *log_place_text(const struct log_place *p, char buf[LOG_PLACE_TEXT]);
int log_place_parse(const char *s, struct log_place *ret); /* -EINVAL */

struct log_line {
	struct log_place place;
	char level[8], source[16];
	char vm[ID_SIZE], instance[ID_SIZE], build[ID_SIZE], request[ID_SIZE]; /* "": none */
	char service[LOGS_SERVICE_SIZE];
	char *message;              /* owned; UTF-8 */
	struct access_line *access; /* owned, or NULL */
};

struct log_query {
	const char *account;
	const char *vm, *instance, *build, *request; /* "": any */
	const char *service; /* "": any; else only lines of this service's journal */
	const char *domain;  /* "": any; else only lines of this name's access log */
	bool access;         /* only lines of access logs */
	const char *search;  /* "": any; a part of the message, ASCII case ignored */
	int64_t from_ms, to_ms;
	struct log_place before;
	size_t limit;        /* at most LOGS_PAGE_MAX */
	struct guest *guest; /* of `vm` if it is running, for `service`; else NULL */
};

struct log_page {
	struct log_line *v; /* owned; newest first */
	size_t n;
	bool more; /* there are older ones: continue before v[n - 1].place */
};
void log_page_done(struct log_page *p);
int logs_query(struct logs *l, const struct log_query *q, struct log_page *ret, struct err *err);
/* Can it be the name of a systemd unit? */
bool logs_service_valid(const char *s);
