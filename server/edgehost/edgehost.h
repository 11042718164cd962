/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edgehost/edgehost.h - runs the edge as a process of its own, pando-edge, and answers what it asks
 *
 * The process is started again when it ends. The listening sockets stay open here, so clients wait
 * in their queues meanwhile. What the process asks is answered through struct edgehost_ops; it may
 * have been taken over, so nothing it sends is trusted and nothing here waits for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/log.h"
#include "edge/edge.h"

struct buf;
struct edgehost;
struct err;
struct starter_kind;

/* Where a name leads. */
struct edgehost_way {
	enum edge_kind kind;
	enum edge_look look;
	char vm[ID_SIZE], instance[ID_SIZE];
	uint16_t port;
	enum edge_speaks speaks;
	unsigned fresh_ms; /* of open() only: how long its programs may still be starting */
	/* To one of several machines: vm is then what stands for all of them, and open() fills in
	 * the VM of the one it chose and a ticket, which is given back with done(). */
	bool many;
	unsigned waiting;      /* for open(): requests that wait behind this one */
	char machine[ID_SIZE]; /* the VM; its tally, read by open() before it looked at the VM: */
	uint32_t mark;
	uint64_t ticket; /* 0: none */
	uint64_t cert; /* number of its certificate, which never changes; 0: cert() has to get it */
};

struct edgehost_ops {
	/* Where a name leads: a host name in lower case, or "". Must not block. A guest's question,
	 * here and below, has EDGE_INSIDE before the name. */
	void (*way)(void *ctx, const char *host, struct edgehost_way *ret);
	/* Whether its VM runs, and as which instance. Must not block. */
	void (*look)(void *ctx, struct edgehost_way *w);
	/* As edge_ops.open(), by name. */
	int (*open)(void *ctx, const char *host, struct edgehost_way *ret, int *ret_fd,
	            struct err *err);
	/* A connection is over, or never came to be. Must not block. NULL: there are no tickets. */
	void (*done)(void *ctx, uint64_t ticket);
	/* Key and certificates of a name, leaf first, as DER with a length before each
	 * (buf_put_blob()). May block. */
	int (*cert)(void *ctx, const char *name, struct buf *ret, uint64_t *ret_number,
	            struct err *err);
	/* The response to an ACME challenge, or -ENOENT. */
	int (*challenge)(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX]);
	/* A line of the access log of that VM, to which the line's host leads; a request for
	 * another one was not. What the line says the process may have made up. Must not block.
	 * May be NULL. */
	void (*line)(void *ctx, const char *vm, const struct edge_line *l);
	void *ctx;
};

struct edgehost_conf {
	const char *field;     /* borrowed until edgehost_start() returns: "Name: value\r\n" for
	                          requests to EDGE_ADDR, or NULL */
	struct edge_conf edge; /* the listening sockets are taken */
	unsigned mem_mb;       /* of private memory; 0: no limit */
	enum log_level log;
};

struct edgehost_status {
	struct edge_stats stats; /* of all processes there were; the state is that of this one */
	int pid;                 /* -1: none at the moment */
	unsigned starts;
	unsigned ended_badly; /* those that ended by themselves, or not well when they were told to
	                       */
	uint64_t lines_lost;  /* of the access log: they came too fast */
};

/* For starter_open(), after edgehost_kind_init(): the only way the process is started. path: of the
 * program; NULL: it is beside this one, or where it is installed. */
extern const struct starter_kind edgehost_kind;
int edgehost_kind_init(const char *path, struct err *err);

/* Returns when the process is ready, or could not be started. */
int edgehost_start(const struct edgehost_conf *c, const struct edgehost_ops *ops,
                   struct edgehost **ret, struct err *err);
/*
 * Answers about that VM, or (NULL) about all names and certificates, are no longer what they were.
 * Called with the change, before anybody is told of it. From any thread; never blocks.
 */
void edgehost_changed(struct edgehost *h, const char *vm);
/* What the counter of that VM says now, for edgehost_way.mark. */
uint32_t edgehost_mark(const struct edgehost *h, const char *vm);
/* As edge_ended(). */
void edgehost_ended(struct edgehost *h, const char *instance);
/* A guest's connection to a name of this server. */
struct edgehost_guest {
	const char *vm;     /* its id: the process gets a hash of it */
	const char *caller; /* what X-Pando-Vm says to the API */
	const char *only;   /* the one name it may be used for; "": any */
	bool tls;
};
/* Passes it to the process; -EAGAIN: there is none, or it is behind. From any thread; never blocks.
 */
int edgehost_guest(struct edgehost *h, const struct edgehost_guest *g, int fd_consume);
void edgehost_status(struct edgehost *h, struct edgehost_status *ret);
/* Ends the process, and with it all connections. NULL is fine, and so is calling it twice. */
void edgehost_stop(struct edgehost *h);
/* Waits for ops->open() that are still under way; NULL is fine. */
struct edgehost *edgehost_free(struct edgehost *h);
