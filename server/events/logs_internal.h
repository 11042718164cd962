/* SPDX-License-Identifier: Apache-2.0 */
/* events/logs_internal.h - for record.c, query.c and journal.c only */
#pragma once

#include <pthread.h>

#include "base/lock.h"
#include "events/logs.h"

#define QUEUE_MAX 4096      /* lines waiting for the store; more are counted and dropped */
#define QUEUE_BATCH 256     /* lines of one transaction */
#define QUEUE_LINGER_MS 500 /* time to collect lines, so that a burst is one transaction */
#define QUEUE_FLUSH_MS 5000 /* how long a reader waits for queued lines */
#define JOURNAL_MS 20000    /* for journalctl in the guest */
#define JOURNAL_OUT (4u << 20)

struct logs {
	struct store *store;   /* weak, both */
	struct events *events; /* weak */
	struct access *access; /* owned */
	struct mutex lock;
	struct cond cond;                           /* something was queued, requested or written */
	struct store_event *queue GUARDED_BY(lock); /* owned; [n_queue] of [cap_queue] */
	size_t n_queue GUARDED_BY(lock), cap_queue GUARDED_BY(lock);
	uint64_t queued GUARDED_BY(lock), written GUARDED_BY(lock); /* lines in total */
	uint64_t dropped GUARDED_BY(lock);
	unsigned flushers GUARDED_BY(lock); /* waiting readers */
	bool stop GUARDED_BY(lock);
	pthread_t thread;
};

/* record.c */
void logs_flush(struct logs *l);
/* query.c: grows the page by one line, zeroed. */
struct log_line *log_page_add(struct log_page *p);
/* Translates `place` for one source: lines older than (*ret_ms, *ret_seq). */
void log_place_for(const struct log_place *place, enum log_source from, int64_t *ret_ms,
                   int64_t *ret_seq);
/* Does text contain part, ignoring ASCII case? "" is always contained. */
bool log_holds(const char *text, const char *part);

/* access_query.c */
int access_query(struct access *a, const struct log_query *q, struct log_page *ret,
                 struct err *err);

/* journal.c */
int journal_read(const struct log_query *q, struct log_page *ret, struct err *err);
