/* SPDX-License-Identifier: Apache-2.0 */
/* edgehost/host_internal.h - for edgehost/ only */
#pragma once

#include <stdatomic.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/proc.h"
#include "edgehost/edgehost.h"
#include "wire/edge.h"

#define HOST_JOBS_MAX \
	(EDGEW_OPENS_MAX + 2 * EDGEW_CERTS_MAX) /* also those of processes that ended */

/* What the process asked that takes time. */
struct job {
	struct job *next;
	uint64_t gen;
	uint32_t id;
	bool cert;
	unsigned waiting;
	char host[EDGEW_HOST_SIZE];
};

struct edgehost {
	struct edge_conf conf; /* the listening sockets are owned */
	struct edgehost_ops ops;
	char field[EDGEW_FIELD_SIZE];
	unsigned mem_mb;
	unsigned nofile; /* RLIMIT_NOFILE of the process */
	enum log_level log;
	int tallies_fd; /* owned; what the process maps to read */
	struct edgew_tallies *tallies;
	uint64_t place_seed, tally_seed;
	int wake; /* owned: eventfd, for the thread */
	pthread_t thread;
	bool threaded;

	/* Of the process that runs; the thread's alone. */
	struct proc proc;
	int err_fd; /* what it writes to stderr */
	int lanes[EDGEW_LANES_MAX];
	int log_fd;                   /* lines of the access log */
	uint64_t started_ms, next_ms; /* when it was started; when the next one may be */
	unsigned backoff_ms;          /* before the next one */
	uint64_t window_ms;           /* of these counts: */
	unsigned asked, lines, logged;
	uint64_t owed_ms; /* since when a message that a machine ended is owed */
	char line[512];   /* of err_fd, so far */
	size_t line_len;

	struct mutex lock;
	struct cond cond;             /* it became ready, or ended; a job ended */
	int control GUARDED_BY(lock); /* owned; -1: there is no process */
	int pid GUARDED_BY(lock);
	uint64_t gen GUARDED_BY(lock); /* of the process: answers to earlier ones are dropped */
	bool ready GUARDED_BY(lock), stopping GUARDED_BY(lock), broken GUARDED_BY(lock);
	bool owed_ended GUARDED_BY(lock); /* some machine ended, and the process was not told */
	unsigned starts GUARDED_BY(lock), ended_badly GUARDED_BY(lock);
	struct edge_stats past GUARDED_BY(lock), now GUARDED_BY(lock);
	uint64_t lines_lost GUARDED_BY(lock);
	/* Tickets of connections that the process has; owned. */
	uint64_t *tickets GUARDED_BY(lock);
	size_t n_tickets GUARDED_BY(lock), cap_tickets GUARDED_BY(lock);
	/* jobs.c */
	struct job *first GUARDED_BY(lock), *last GUARDED_BY(lock);
	unsigned n_opens GUARDED_BY(lock), n_certs GUARDED_BY(lock); /* with those under way */
	unsigned n_queued GUARDED_BY(lock), n_threads GUARDED_BY(lock), n_idle GUARDED_BY(lock);
	struct cond jobs;
};

/* spawn.c: the sockets are pandod's ends, and do not block. */
int spawn_edge(struct edgehost *h, struct proc *ret, int *ret_control, int *ret_err, int *ret_log,
               int ret_lanes[EDGEW_LANES_MAX], struct err *err);

/* jobs.c: what takes time, on threads that are started as needed. */
/* -EBUSY: too many. */
int jobs_add(struct edgehost *h, uint64_t gen, const struct edgew_msg *m);
void jobs_stop(struct edgehost *h); /* drops those that have not begun */
void jobs_wait(struct edgehost *h);

static inline uint32_t tally_of(const struct edgehost *h, const char *vm)
{
	return (uint32_t)(1 + hash_text(vm, h->tally_seed) % (EDGEW_TALLIES - 1));
}

static inline uint32_t tally(const struct edgehost *h, uint32_t i)
{
	return atomic_load_explicit(&h->tallies->tally[i], memory_order_acquire);
}

/* log.c: the next packet of lines. 0, or the process has to be ended. */
int host_lines(struct edgehost *h, struct err *err);

/* tickets.c */
/* Sends OPENED with a ticket; a process that is not there any more gives it back at once. */
void tickets_send(struct edgehost *h, uint64_t gen, const struct edgew_msg *m, int fd);
/* The process says that a connection is over; what it never had is ignored. */
void tickets_done(struct edgehost *h, uint64_t ticket);
/* All of them: there is no process any more. */
void tickets_drop(struct edgehost *h);

/* host.c */
void *host_main(void *arg); /* the thread */
/* Where a name leads, as the process may know it. */
void host_way(struct edgehost *h, const struct edgehost_way *w, struct edgew_way *ret);
/* Sends to the process of that generation, or drops it. */
void host_send(struct edgehost *h, uint64_t gen, const struct edgew_msg *m, int fd);
