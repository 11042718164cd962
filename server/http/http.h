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

#define HTTP_CONNECTIONS_MAX 512 /* threads; more wait in the listen queue */

struct http_conf { /* strings are weak */
	int listen_fd;
	const char *spool_dir;    /* large bodies are kept here, in files without a name */
	const char *cors_origins; /* web pages that may read replies; "" or "*": any */
	/* The secret that our own proxy sends in X-Pando-Edge: with it, X-Forwarded-For
	 * says where a request comes from. NULL: there is no such proxy */
	const char *edge_secret;
	unsigned header_ms; /* from a connection to complete headers; 0: the default */
};

struct http_app {
	void *ctx; /* weak: req->app */
	const struct route *routes, *more_routes;
	size_t n_routes, n_more_routes;
	size_t request_bytes; /* of req->own */
	/* Headers and route are known: identifies the caller and checks permission. */
	int (*admit)(struct request *req, struct err *err);
	/* May it continue? Checked repeatedly while a body or a stream is transferred. */
	bool (*allowed)(struct request *req);
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
/* "http://127.0.0.1:8787", with the real port. */
const char *http_url(const struct http *h);
/* Ends the count of a request on a thread that http_stop() does not join; it must not touch h
 * afterwards. */
void http_count_out_last(struct http *h);
/* Is the origin named in cors_origins? "*" names no origin. */
bool cors_listed(const struct http *h, const char *origin);
