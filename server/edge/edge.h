/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edge/edge.h - HTTP and HTTPS from the world to ports of VMs; for main.c, tests and bench/
 *
 * The edge knows nothing about VMs, domains and certificates: it depends only on struct edge_ops. A
 * few event-driven threads ("workers") serve all connections; what may block (waking a VM, making
 * a certificate) is done by other threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct edge;
struct err;
typedef struct ssl_st SSL;

#define EDGE_HOST_SIZE 256     /* of a name, with the NUL */
#define EDGE_INSIDE '@'        /* before a name: it is a guest who asks; no client can send it */
#define EDGE_ACME_TEXT_MAX 512 /* bytes of the response to an ACME challenge, with the NUL */

enum edge_kind {
	EDGE_NOWHERE, /* the name is not mapped */
	EDGE_VM,
	EDGE_ADDR, /* a server of our own, always the same one: the API */
};

/* In what the program there is spoken to. */
enum edge_speaks {
	EDGE_HTTP1,
	EDGE_H2C, /* HTTP/2 without TLS */
	EDGE_TLS, /* TLS, as the client sends it: nothing of it is read here but the first message
	           */
};

struct edge_target {
	enum edge_kind kind;
	char host[EDGE_HOST_SIZE]; /* the name as it was looked up; set by the edge */
	char vm[ID_SIZE];          /* any text that tells VMs apart */
	char instance[ID_SIZE];    /* of the machine, once known; see edge_ended() */
	uint16_t port;
	bool h2c, raw;     /* EDGE_H2C, EDGE_TLS; neither: EDGE_HTTP1 */
	unsigned fresh_ms; /* set by ops->open(): how long its programs may still be starting */
	/* The name leads to one of several machines: each request has a connection of its own,
	 * open() chooses the machine, and is told how many more requests wait. */
	bool many;
	unsigned waiting;
	uint64_t ticket;  /* set by open(): to be given back with done(); 0: none */
	uint32_t mark[2]; /* set by open(): by these look() knows whether the machine has ended */
	/* EDGE_ADDR: a field ("Name: value\r\n") by which it knows our requests; outlives the edge.
	 * NULL: none */
	const char *field;
};

enum edge_look {
	EDGE_GONE,     /* there is no such VM */
	EDGE_ASLEEP,   /* suspended or stopped */
	EDGE_STARTING, /* on its way */
	EDGE_RUNNING,
};

/* A request for a VM that is over; texts are only valid during the call. */
struct edge_line {
	int64_t at_ms;                      /* since the epoch: its end */
	const char *host, *vm;              /* as of its struct edge_target */
	const char *method, *path, *client; /* the path is without its query, and may be cut */
	uint64_t in, out;                   /* bytes of the bodies */
	unsigned ms, status;                /* status 0: there was no response */
	unsigned proto;                     /* 10, 11, 20; 0: a TLS connection, passed on */
	unsigned code;                      /* enum err_code: the edge itself responded */
	bool tls, woke, guest;
	bool left; /* the client did not wait for the end, or did not take it */
	bool cut;  /* the response could not be completed */
};

struct edge_ops {
	/* By host name in lower case, as edge_guest() says; must not block. */
	void (*route)(void *ctx, const char *host, struct edge_target *ret);
	/* Fills in t->instance when it runs; must not block. */
	enum edge_look (*look)(void *ctx, struct edge_target *t);
	/*
	 * A socket that is connected, or about to be, and t->instance; wakes the VM, may block for
	 * minutes. -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH: the VM runs, but nothing listens
	 * there yet; *t is filled in all the same.
	 */
	int (*open)(void *ctx, struct edge_target *t, int *ret_fd, struct err *err);
	/* The connection with that ticket is over; from any thread. May be NULL if there are none.
	 */
	void (*done)(void *ctx, uint64_t ticket);
	/* Gives the TLS connection a certificate for that name ("": none was asked for); must not
	 * block. -EAGAIN: cert_make() has to get it first. */
	int (*cert)(void *ctx, const char *name, SSL *ssl);
	/* May block; called by one thread, for one name at a time. */
	int (*cert_make)(void *ctx, const char *name, struct err *err);
	/* The response to an ACME challenge, or -ENOENT. */
	int (*challenge)(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX]);
	/* For the access log; NULL: what was given so far should go out now. Must not block. May be
	 * NULL itself. */
	void (*log)(void *ctx, const struct edge_line *l);
	void *ctx;
};

struct edge_conf {
	int tls_fd, http_fd; /* listening sockets; edge_start() takes them. -1: none */
	unsigned workers;    /* 0: as many as processors, at most 4 */
	unsigned wait_ms;    /* how long a request waits for its VM and its port */
	unsigned hsts_s;     /* Strict-Transport-Security; 0: none */
	/* Deadlines; 0: the default. */
	unsigned head_ms;   /* for a whole head, or a TLS handshake */
	unsigned keep_ms;   /* between requests */
	unsigned stall_ms;  /* for the client to take or send the next bytes */
	unsigned answer_ms; /* for the VM to begin its response */
	unsigned idle_ms;   /* a response or a WebSocket on which nothing moves */
	/* Of one client address, an IPv6 /64 being one; 0: no limit. */
	unsigned addr_conns, addr_requests;
	unsigned fd_reserve; /* descriptors left to the rest of the process; 0: a quarter */
};

/* Whose connection edge_guest() brings. */
struct edge_guest {
	bool tls;
	uint64_t key;              /* the same for all connections of a guest, and no other */
	char caller[64];           /* EDGE_ADDR is told this in X-Pando-Vm */
	char only[EDGE_HOST_SIZE]; /* the one name it may be used for; "": any */
};

struct edge_stats {
	uint64_t connections, requests, refused, woken;
	unsigned open;
	unsigned most, fewest; /* of one worker */
};

/* Options of a listening socket that its connections inherit; edge_start() sets them too, where
 * the process may. -1 is fine. */
int edge_listener(int fd);
int edge_start(const struct edge_conf *c, const struct edge_ops *ops, struct edge **ret,
               struct err *err);
/*
 * That machine ended: connections to it are cut. From any thread, until edge_stop(); does not
 * block. Packets would not tell, because its network is gone as well. NULL: any may have ended, all
 * are checked.
 */
void edge_ended(struct edge *e, const char *instance);
/*
 * A stream socket on which a guest of this server speaks, as if a listener had accepted it. From
 * any thread, until edge_stop(). Names are looked up with EDGE_INSIDE before them.
 */
void edge_guest(struct edge *e, const struct edge_guest *g, int fd_consume);
void edge_stats(struct edge *e, struct edge_stats *ret);
/* Cuts all connections and accepts no more. Results of ops->open() still running are dropped. */
void edge_stop(struct edge *e);
/* Waits for those to return; NULL is fine. */
struct edge *edge_free(struct edge *e);
