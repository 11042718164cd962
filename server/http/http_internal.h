/* SPDX-License-Identifier: Apache-2.0 */
/* http/http_internal.h - the server's own parts; for http/ only */
#pragma once

#include <microhttpd.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "http/http.h"

/* Request line and headers; a path is up to 16 KiB encoded. The library clears it for each request.
 */
#define CONN_MEMORY KIB(32)
/* Threads. The HTTP library takes no more, but it does not come to that: all kinds are bounded, and
 * the rest is for those that were told to leave. */
#define CONNECTIONS_MAX(h)                                              \
	(HTTP_REQUESTS_MAX + HTTP_ANONYMOUS_MAX + HTTP_IDLE_MAX + 64u + \
	 2 * (h)->conf.limits.strangers.full)
#define SPOOL_MAX (UINT64_C(4) << 30) /* all bodies kept in files at one time */
#define DISCARD_MAX MIB(16) /* read of a rejected body, so that the client sees the reply */

struct http {
	struct http_conf conf;
	struct http_app app;
	struct route *routes; /* owned; all of the application's */
	size_t n_routes;
	struct MHD_Daemon *daemon;
	struct timeouts *timeouts; /* owned */
	struct lobby *lobby;       /* owned */
	/* owned; who has how much: limits.c */
	struct budget *requests, *anonymous, *spool, *parse, *output;
	struct rate *failures; /* owned; that are logged */
	struct rate *cpu;      /* owned; processor time of holders: heavy.c */
	int nice;              /* of threads that work for no heavy one */
	int listen_fd;         /* owned once MHD let go of it */
	char url[96];
	struct mutex lock;
	struct adopted *adopted; /* owned; lock: not yet seen as connections */
	struct http_net nodes;   /* addresses of those that other nodes have made */
	struct cond idle;        /* running became 0 while draining */
	_Atomic unsigned running;
	_Atomic bool draining;
	int drain_fd; /* owned; readable once draining: streams end */
};

/* Counts a running request; false if the server is shutting down. */
bool http_count_in(struct http *h);
void http_count_out(struct http *h); /* on a thread that the HTTP library joins before h is freed */

/* A trace id for it. */
void request_trace(char ret[33]);
/* A request for the connection, zero but for match.text; NULL: out of memory. */
struct request *request_new(struct http *h);

/* Sends the handler's result and logs failures. Nothing else does either. */
enum MHD_Result reply_send(struct request *req, struct reply *res, int r, const struct err *err);

/* ---- deadlines of connections: timeouts.c ---- */
struct timeouts;
struct timeout; /* of one connection */
int timeouts_new(struct timeouts **ret, struct err *err);
struct timeouts *timeouts_free(struct timeouts *t);
struct timeout *timeout_add(struct timeouts *t, int fd);
void timeout_remove(struct timeouts *t, struct timeout *c);
/* The connection is shut down if it makes no progress by then; 0: never. */
void timeout_set(struct timeout *c, uint64_t deadline_ms);

#define MOVE_MS 60000 /* for a body or a reply of any size, */
#define MOVE_RATE                                                                              \
	KIB(32)         /* plus this rate for large ones; a slower client (bytes/s) is cut off \
	                 */
#define STALL_MS 300000 /* a stream: for the client to take, or send, the next piece */
/* The deadline for transferring that many bytes from now on. */
uint64_t timeout_for(uint64_t bytes);

/* ---- processor time: heavy.c; both on the connection's thread ---- */
int heavy_new(struct http *h, struct err *err);
void heavy_begin(struct request *req);
void heavy_end(struct request *req);

/* ---- connections that wait: lobby.c ---- */
struct lobby;
struct visitor; /* one connection */
int lobby_new(const struct http *h, struct lobby **ret, struct err *err);
void lobby_free(struct lobby *d);
void lobby_stop(struct lobby *d); /* nobody waits to be let in any more */
/* May one more come in? Others may have to leave for it, and it may take a moment. */
bool lobby_admit(struct lobby *d, const struct sockaddr *sa);
/* It is in, as a stranger. NULL: out of memory. */
struct visitor *lobby_enter(struct lobby *d, int fd, const struct sockaddr *sa);
void lobby_leave(struct lobby *d, struct visitor *v);
/* Its headers are there; its request was admitted. False: it was told to leave. */
bool lobby_heard(struct lobby *d, struct visitor *v);
bool lobby_busy(struct lobby *d, struct visitor *v);
/* The request is over. known: it had a key. */
void lobby_over(struct lobby *d, struct visitor *v, bool known);

/* ---- addresses and networks: nets.c; http_nets_parse() is in http.h ---- */
/* The address as 16 bytes; false: it is neither IPv4 nor IPv6. */
bool net_bytes(const struct sockaddr *sa, uint8_t ret[16]);
bool net_has(const struct http_net *net, const uint8_t addr[16]);
/* The last address of an X-Forwarded-For. */
int net_forwarded(const char *value, struct sockaddr_storage *ret);

/* ---- where requests come from: remote.c ---- */
/* This host, or a proxy that the operator has named. */
bool remote_is_trusted(const struct http *h, const struct sockaddr *sa);

/* ---- what requests hold, by account or address and in all: limits.c ---- */
int limits_new(struct http *h, struct err *err);
void limits_free(struct http *h);
/* Who pays for what it takes from now on: its account, or its address. */
void request_name_holder(struct request *req);
/* A request begins, if its holder may have another. */
int limits_enter(struct request *req, struct err *err);
/* Gives back everything it has. */
void limits_leave(struct request *req);
/* Before its body is parsed; waits for a turn. Afterwards, of the same number of bytes. */
int limits_parse(struct request *req, uint64_t bytes, uint64_t values, struct err *err);
void limits_parsed(struct request *req, uint64_t bytes);
/* May this failure be logged? *ret_missed: how many could not since the last one that could. */
bool limits_log(struct request *req, bool ours, uint64_t *ret_missed);
int limits_spool(const struct body *b, uint64_t n, struct err *err);

/* ---- connections of the application: adopt.c ---- */
struct adopted;
/* Was this socket adopted? Once. ret: where it comes from; ret_node: the node, if it is one. */
bool adopted_take(struct http *h, int fd, char ret[HTTP_ORIGIN_SIZE],
                  char ret_node[HTTP_ORIGIN_SIZE]);
void adopted_init(struct http *h);

/* ---- requests that another node has passed on: node.c ---- */
/* Its trace and client are those that the node says; "": it comes from none. */
void node_headers_read(struct request *req, const char *node);

/* ---- browsers: cors.c ---- */
void cors_headers(struct request *req, struct MHD_Response *m);

/* ---- requests that the HTTP library answers itself: malformed.c ---- */
/* Finds the library's own functions; before the daemon starts. */
int malformed_init(struct err *err);
/* MHD_queue_response() for replies of ours. */
enum MHD_Result queue_reply(struct MHD_Connection *conn, unsigned status, struct MHD_Response *m);
/* To a connection that has to go before it asked for anything. */
void refuse_unheard(int fd);
/* Headers that say in two ways where the body ends, or in a way that we do not know. */
int framing_check(struct request *req, const char *version, struct err *err);
