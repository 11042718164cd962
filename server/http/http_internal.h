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
#define SPOOL_MAX (UINT64_C(4) << 30) /* all bodies kept in files at one time */
#define DISCARD_MAX MIB(16) /* read of a rejected body, so that the client sees the reply */

struct http {
	struct http_conf conf;
	struct http_app app;
	struct route *routes; /* owned; all of the application's */
	size_t n_routes;
	struct MHD_Daemon *daemon;
	struct timeouts *timeouts; /* owned */
	struct share *share;       /* owned; open requests by account */
	int listen_fd;             /* owned once MHD has released it */
	char url[96];
	struct mutex lock;
	struct cond idle; /* running became 0 while draining */
	_Atomic unsigned running;
	_Atomic bool draining;
	uint64_t spooled GUARDED_BY(lock);
	int drain_fd; /* owned; readable once draining: streams end */
};

/* Counts a running request; false if the server is shutting down. */
bool http_count_in(struct http *h);
void http_count_out(struct http *h); /* on a thread that the HTTP library joins before h is freed */

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

/* ---- an account's share of the connections: share.c ---- */
struct share;
int share_new(struct share **ret, struct err *err);
void share_free(struct share *s);
/* Begins a request of the account, unless it has too many; ends one. */
int share_in(struct share *s, const char *account, struct err *err);
void share_out(struct share *s, const char *account);

/* ---- browsers: cors.c ---- */
void cors_headers(struct request *req, struct MHD_Response *m);

/* ---- requests that the HTTP library answers itself: malformed.c ---- */
/* Finds the library's own functions; before the daemon starts. */
int malformed_init(struct err *err);
/* MHD_queue_response() for replies of ours. */
enum MHD_Result queue_reply(struct MHD_Connection *conn, unsigned status, struct MHD_Response *m);
/* Rejects headers that give the body's length twice, or in an unsupported way. */
int framing_check(struct request *req, const char *version, struct err *err);
