/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http/http.h - an HTTP server on libmicrohttpd; for api/ and mcp/
 *
 * Connections, requests, replies, bodies, streams, deadlines, limits, CORS and upgrades to
 * WebSockets. The application decides what the routes do, who may call them and what is
 * recorded: it passes its routes and a few functions to http_start(). One thread
 * per connection, so a handler that runs for ten minutes blocks nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "http/reply.h"
#include "http/request.h"
#include "http/route.h"

struct http;

/* Requests at a time, each with a connection and a thread. */
#define HTTP_REQUESTS_MAX 512  /* with a key; one account may have three quarters */
#define HTTP_ANONYMOUS_MAX 128 /* without one, */
#define HTTP_ANONYMOUS_EACH 32 /* and from one address */
#define HTTP_IDLE_MAX 512      /* connections that had a request with a key, and may have another */

#define HTTP_ANONYMOUS_BODY MIB(1)    /* a body without a key, where its route allows more */
#define HTTP_PARSE_DEFAULT MIB(1536)  /* memory for JSON bodies: a commit of 352 MiB takes 1056 */
#define HTTP_OUTPUT_DEFAULT MIB(1024) /* output that is collected, and replies */

/* Connections that have shown no key: lobby.c. */
struct http_strangers {
	unsigned start, rate, full; /* from so many on, with that many percent, up to so many */
	unsigned each;              /* of one address */
};
#define HTTP_STRANGERS_DEFAULT ((struct http_strangers){ 64, 30, 128, 32 })
#define HTTP_STRANGERS_MAX 4096

#define HTTP_PROXIES_MAX 16
struct http_net { /* IPv4 is ::ffff:a.b.c.d */
	uint8_t addr[16];
	unsigned bits;
};
/* "192.0.2.0/24 2001:db8::1": -EINVAL for anything else, or too many. */
int http_nets_parse(const char *text, struct http_net *ret, size_t max, size_t *ret_n);

struct http_limits { /* 0: the default */
	uint64_t parse_bytes, output_bytes;
	struct http_strangers strangers;
	/* Whose X-Forwarded-For is believed, and who may have any number of strangers. */
	struct http_net proxies[HTTP_PROXIES_MAX];
	size_t n_proxies;
};

struct http_conf { /* strings are weak */
	int listen_fd;
	const char *spool_dir;    /* large bodies are kept here, in files without a name */
	const char *cors_origins; /* web pages that may read replies; "" or "*": any */
	/* The secret that our own proxy sends in X-Pando-Edge: with it, X-Forwarded-For
	 * says where a request comes from. NULL: there is no such proxy */
	const char *edge_secret;
	unsigned header_ms; /* from a connection to whole headers; 0: the default */
	struct http_limits limits;
};

struct http_app {
	void *ctx; /* weak: req->app */
	const struct route *routes, *more_routes;
	size_t n_routes, n_more_routes;
	size_t request_bytes; /* of req->own */
	/* Headers and route are known: identifies the caller and checks permission. */
	int (*admit)(struct request *req, struct err *err);
	/* No route takes it, or it is a preflight: counts it. -EAGAIN: there are too many. */
	int (*turned_away)(struct request *req, struct err *err);
	/* May it continue? Checked repeatedly while a body or a stream is transferred. */
	bool (*allowed)(struct request *req);
	/* Who takes the body while it arrives, of a route with an intake: sets *intake if it is
	 * another. NULL: always the route's */
	void (*intake)(struct request *req, const struct intake **intake);
	/* Called instead of the route's handler, so that the application can wrap it. */
	int (*run)(struct request *req, struct reply *res, struct err *err);
	/* Adds to an error's body what it is about. */
	void (*describe)(struct request *req, enum err_code code, json_t *body);
	/* A reply is about to be sent; code: of the error, or NULL. */
	void (*replied)(struct request *req, const struct reply *res, unsigned status,
	                const char *code);
	/* Masks secrets in text that is logged. */
	void (*mask)(char *text);
};

/* Starts answering. Takes ownership of the listening socket in any case. */
int http_start(const struct http_conf *conf, const struct http_app *app, struct http **ret,
               struct err *err);
/*
 * Accepts no new connections or requests and waits up to drain_ms for running ones. 0: all
 * are done, everything is freed. -EBUSY: some still run; end what they wait for and call again.
 */
int http_stop(struct http *h, unsigned drain_ms, struct err *err);
/*
 * A connected stream socket becomes a connection with one request, which came from there:
 * request_origin(), up to HTTP_ORIGIN_SIZE bytes; what follows a slash is not counted by (adopt.c).
 * Takes the socket in any case; the reply closes it.
 */
int http_adopt(struct http *h, int fd_consume, const char *origin, struct err *err);
/*
 * The same for requests that another node of the cluster passes on: any number of them, one after
 * the other. Whom they come from is what their headers say: NODE_CLIENT and so on (node.c).
 */
int http_adopt_node(struct http *h, int fd_consume, const char *node, struct err *err);
/* Which of the application's routes it has, more_routes after the others; -1: none. */
int http_route_index(const struct request *req);
/* "http://127.0.0.1:8787", with the real port. */
const char *http_url(const struct http *h);
/* Ends the count of a request on a thread that http_stop() does not join; it must not touch h
 * afterwards. */
void http_count_out_last(struct http *h);
/* Is the origin named in cors_origins? "*" names no origin. */
bool cors_listed(const struct http *h, const char *origin);
