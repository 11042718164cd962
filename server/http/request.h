/* SPDX-License-Identifier: Apache-2.0 */
/* http/request.h - a request as handlers see it: headers, query, body */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_field.h"
#include "http/route.h"

struct MHD_Connection;
struct request;
struct http;
struct timeout;
struct upgrade;
struct visitor;

/* ---- bodies: body.c ---- */

#define BODY_MEM_MAX MIB(1) /* larger bodies are kept in a file, not in memory */

struct body {
	struct http *http; /* weak; who keeps it, and for whom: body_begin() */
	char holder[BUDGET_HOLDER_SIZE];
	struct buf mem; /* up to BODY_MEM_MAX */
	int fd;         /* owned; a file without a name, once it is larger; else -1 */
	uint64_t len;
	void *map; /* of fd */
};
#define BODY_EMPTY ((struct body){ .fd = -1 })
/* An empty one that the request's account or address pays for. */
void body_begin(struct request *req, struct body *b);
int body_add(struct body *b, const void *p, size_t n, struct err *err);
/* The whole body as one piece; valid until body_done(). */
int body_view(struct body *b, const char **ret, size_t *ret_n, struct err *err);
void body_done(struct body *b);

/* ---- requests: request.c ---- */

enum value_kind { VALUE_HEADER, VALUE_QUERY };
struct request_value { /* a header or a query value of a request without a connection */
	enum value_kind kind;
	char *name, *value; /* owned */
};

#define REQUEST_ACCOUNT_SIZE 64
#define HTTP_ORIGIN_SIZE 64

struct request {
	struct http *http;
	void *app; /* weak: the application's, from struct http_app */
	void *own; /* the application's part of this request, zero at first: app.request_bytes */
	struct request *outer;        /* weak; for a call inside another request, that request */
	struct MHD_Connection *conn;  /* NULL: it has none */
	struct sockaddr_storage peer; /* of request_remote(), if it came through a proxy */
	struct request_value *values; /* owned; without a connection: its headers and query */
	size_t n_values;
	struct timeout *timeout;
	struct visitor *visitor; /* weak; of the connection */
	const char *method_text;
	struct body body;
	json_t *json; /* owned; the parsed body, once asked for */
	char trace[33];
	char origin[HTTP_ORIGIN_SIZE]; /* of an adopted connection, or "" */
	char node[HTTP_ORIGIN_SIZE];   /* that has passed it on, or "" */
	char path[256];                /* raw, truncated: for the log */
	uint64_t start_ms, start_us;
	/* Set by the application when it admits the request: */
	char account[REQUEST_ACCOUNT_SIZE]; /* whose share of the connections it takes, or "" */
	const char *challenge;              /* static; WWW-Authenticate of a refusal, or NULL */
	bool quiet; /* one of too many failed attempts: answered 429 and not logged */

	char holder[BUDGET_HOLDER_SIZE];  /* who pays: the account, or the address */
	uint64_t parse_held, output_held; /* bytes it has of those budgets */
	uint64_t cpu_us;                  /* of its thread, when it began; heavy.c */
	int *nice;                        /* weak; of its connection; heavy.c */
	bool counted;                     /* among the running ones */
	bool shared;                      /* among those of its holder */
	bool preflight;                   /* an OPTIONS request */
	int refused; /* -errno found before the body was there: it is read and dropped */
	unsigned refused_status;
	uint64_t dropped; /* bytes of a refused body */
	struct err refusal;
	const struct intake *taker; /* static; of a body that is passed on, once it is opened */
	void *intake;               /* owned: what it opened */
	struct upgrade *upgrade;    /* owned; takes over the connection once 101 was sent */
	struct route_match match;   /* last: its text is large and not cleared, see request.c */
};

/* The decoded argument for "{vm_id}" in the route's pattern, or NULL. */
const char *request_arg(const struct request *req, const char *param);
const char *request_header(struct request *req, const char *name);
/* Each header field of the request; fn returns false to stop. */
void request_headers(struct request *req,
                     bool (*fn)(void *ctx, const char *name, const char *value), void *ctx);
/* Decoded query value; NULL when absent. Caller frees *ret. -EINVAL for bad encoding. */
int request_query(struct request *req, const char *name, char **ret, struct err *err);
int request_query_u32(struct request *req, const char *name, uint32_t max, uint32_t *ret,
                      struct err *err);
int request_query_bool(struct request *req, const char *name, bool *ret, struct err *err);
/* limit and offset of a list of n things: the first one and the one after the last. */
int request_page(struct request *req, size_t n, size_t *ret_first, size_t *ret_end,
                 uint32_t *ret_offset, struct err *err);
/* The body as an object, into dst by table. tag: the code of an error. */
int request_fields(struct request *req, enum err_code tag, const struct json_field *fields,
                   size_t n, void *dst, struct err *err);
/* The body as text that may be parsed: its values were counted, and memory for them is reserved. */
int request_text(struct request *req, const char **ret, size_t *ret_n, struct err *err);
/*
 * Reserves n more bytes of memory for output until the request is over; 0, or -EAGAIN when its
 * account, or the server, has too much on its way: then keep no more of it.
 */
int request_hold_output(struct request *req, uint64_t n, struct err *err);
/* The parsed body (borrowed). */
int request_json(struct request *req, enum err_code tag, json_t **ret, struct err *err);
/* Where it came from, or NULL. */
const struct sockaddr *request_remote(struct request *req);
/* By what a guest of this server is known that sent it through the edge; NULL: it is none. */
const char *request_caller(struct request *req);
/* Where an adopted connection comes from (http_adopt()); NULL: it was accepted. */
const char *request_origin(const struct request *req);
/* What a request to another node needs of this one: node.c. */
#define NODE_CLIENT "X-Pando-Node-Client" /* address of the client */
#define NODE_TRACE "X-Pando-Node-Trace"
#define NODE_VM "X-Pando-Node-Vm"           /* the VM that sent it through the edge */
#define NODE_SESSION "X-Pando-Node-Session" /* of an MCP client: by which a call is cancelled */
#define NODE_MOVED "X-Pando-Node-Moved"     /* in a reply: this node does not have it any more */
/* Path and query, encoded anew. */
void request_target_text(struct request *req, struct buf *out);
/* All header fields; without a connection those that it was given. */
void request_each_header(struct request *req,
                         void (*fn)(void *ctx, const char *name, const char *value), void *ctx);
/* The client's socket, to see it leave (POLLRDHUP); -1: there is none. */
int request_client_fd(struct request *req);

/*
 * A copy that needs no connection: headers and query are copied, body and JSON are moved from req.
 * It counts as running until request_free(), or until http_count_out_last() by whoever has cleared
 * `counted`.
 */
int request_detach(struct request *req, struct request **ret, struct err *err);
/* A call on the route inside another request, without headers or a body yet. NULL: out of memory */
struct request *request_inner(struct request *outer, const struct route *route);
int request_add_value(struct request *req, enum value_kind kind, const char *name,
                      const char *value, struct err *err);
struct request *request_free(struct request *req);
