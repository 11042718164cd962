/* SPDX-License-Identifier: Apache-2.0 */
/* http/reply.h - what a handler answers with: JSON, bytes, a file, a stream, a WebSocket */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json_field.h"

struct MHD_Response;
struct request;

#define REPLY_HEADERS_MAX 12
#define REPLY_HEADER_SIZE 512

#define WARNING_HEADER "X-Pando-Warning"

struct reply {
	unsigned status;             /* 0: 200, or the error's status */
	json_t *json;                /* owned */
	struct MHD_Response *stream; /* owned; instead of json */
	uint64_t stream_len;
	json_t *extra;  /* owned; more members for an error body */
	unsigned allow; /* methods for the Allow header, or 0 */
	struct {
		const char *name; /* static */
		char value[REPLY_HEADER_SIZE];
	} headers[REPLY_HEADERS_MAX];
	size_t n_headers;
	bool close;
};

/* ---- reply.c ---- */

/* Takes the JSON; NULL (out of memory) becomes an error. */
int reply_json(struct reply *res, json_t *json_consume, struct err *err);
/* Raw bytes; type NULL: no Content-Type, p NULL: empty. Takes p in any case. */
int reply_bytes(struct reply *res, const char *type, void *p_consume, size_t n, struct err *err);
/* Bytes that outlive every reply, such as the program's own; not copied. */
int reply_static(struct reply *res, const char *type, const void *p, size_t n, struct err *err);
/* The first len bytes of a file. Takes the descriptor in any case. */
int reply_file(struct reply *res, const char *type, int fd_consume, uint64_t len, struct err *err);
/* For any reply, including errors. name: static storage. */
void reply_header(struct reply *res, const char *name, const char *value);
/* Any field, of a reply that is bytes already; both are copied. -EINVAL: not a field. */
int reply_field(struct reply *res, const char *name, const char *value);
/* Tells the client something that is no error, in a header, and the log; cut when it is long. */
void reply_warn(struct request *req, struct reply *res, const char *text);
/* Adds a member to the body of the error that the handler is about to return. */
void reply_extra(struct reply *res, const char *name, json_t *value_consume);
/* All members of an object, or none for NULL. */
void reply_extras(struct reply *res, json_t *extra);
/* Status and JSON of the handler's result; logs failures. NULL: out of memory. */
json_t *reply_render(struct request *req, struct reply *res, int r, const struct err *err,
                     unsigned *ret_status);
void reply_done(struct reply *res);

/* Text that may not be UTF-8, cleaned. */
static inline json_t *shape_output(const void *p, size_t n)
{
	return json_text(p, n);
}
json_t *shape_base64(const void *p, size_t n);
/* The code that is sent for an error: its own, or the general one of its errno;
 * err_code_status() has its HTTP status. */
enum err_code code_of(const struct err *err);

/* ---- replies that are produced while they are sent: outflow.c ---- */

struct outflow_ops {
	/* Bytes produced; 0: none now; -ENODATA: the regular end; any other error breaks the
	 * connection.
	 */
	ssize_t (*next)(void *ctx, char *p, size_t max, struct err *err);
	int (*fd)(void *ctx); /* POLLIN: next() may have data; NULL: it always has */
	void (*free)(void *ctx);
	unsigned (*stall_ms)(void *ctx); /* for the client to take a piece; NULL: STALL_MS */
	const char *beat;                /* sent after a period of silence; NULL: nothing */
	bool endless;                    /* a server that shuts down does not wait for its end */
	bool ends_well;                  /* ending it then counts as a regular end */
};
#define OUTFLOW_UNKNOWN UINT64_MAX
/* Takes ctx in any case. len: of the whole reply, or OUTFLOW_UNKNOWN. */
int reply_flow(struct request *req, struct reply *res, const struct outflow_ops *ops,
               void *ctx_consume, uint64_t len, const char *type, struct err *err);

/* ---- server-sent events: sse.c ---- */

/* Text being produced, and how much of it was sent. */
struct sse {
	struct buf out;
	size_t sent;
};
/* Copies pending bytes: their number, 0 if there are none, -ENOMEM if they could not be produced.
 */
ssize_t sse_drain(struct sse *s, char *p, size_t max);
void sse_event(struct sse *s, const char *event, json_t *data_consume);
/* Output of one stream: split between characters; what is not UTF-8 is sent as base64. */
struct sse_text {
	uint8_t carry[4]; /* the beginning of an incomplete character */
	size_t n;
};
#define SSE_PIECE (16u << 10) /* bytes of one event at most */
/* off: of the first byte, or -1. last: nothing follows. */
void sse_output(struct sse *s, struct sse_text *t, const char *event, const uint8_t *p, size_t n,
                int64_t off, bool last);
void sse_failed(struct sse *s, const struct err *err);

/* ---- connections that become WebSockets: upgrade.c ---- */

struct upgrade {
	/* On the connection's thread, until it is over. early: bytes that came after the request.
	 */
	void (*run)(struct upgrade *u, int fd, const void *early, size_t n_early);
	void (*free)(struct upgrade *u);
};
/* Does the request open a WebSocket? Else -EINVAL. */
int upgrade_check(struct request *req, struct err *err);
/* Takes u in any case. */
int reply_upgrade(struct request *req, struct reply *res, struct upgrade *u_consume,
                  struct err *err);
