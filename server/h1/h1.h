/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h1/h1.h - HTTP/1 messages: heads and chunks, pure functions on untrusted bytes
 *
 * For everything that forwards requests: the edge, the egress proxy of VMs (net/), the proxy of
 * jailed git programs (git/).
 *
 * Strict on purpose: a proxy that guesses lets requests be smuggled. A request
 * has one framing and one host, or it is rejected; what two parsers could read differently is
 * never passed on. Fields point into the caller's bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define H1_HEAD_MAX (32u << 10) /* bytes of request line or status line and fields */
#define H1_FIELDS_MAX 128u      /* fields of one head */
#define H1_CONNECTION_MAX 32u   /* words of all Connection fields of a head */
#define H1_METHOD_MAX 32u
#define H1_HOST_MAX 254u      /* characters of a host name */
#define H1_CHUNK_LINE_MAX 256 /* bytes of a chunk's size line with its extensions */
#define H1_TRAILERS_MAX 8192  /* bytes of all trailers; they are dropped */

struct buf;

struct h1_text {
	const char *p;
	size_t n;
};

struct h1_field {
	struct h1_text name, value;
};

enum h1_framing {
	H1_BODY_NONE,
	H1_BODY_LENGTH,
	H1_BODY_CHUNKED,
	H1_BODY_CLOSE, /* responses only: until the connection ends */
};

struct h1_head {
	size_t len; /* bytes of the head, with the empty line */
	struct h1_text method, target;
	struct h1_text host; /* of the Host field, as given, without the port */
	struct h1_text port; /* of the Host field; "": none */
	unsigned status;
	bool http10;
	bool close;      /* Connection: close, or HTTP/1.0 without keep-alive */
	bool upgrade;    /* a WebSocket: Connection: upgrade, Upgrade: websocket, GET */
	bool expect_100; /* Expect: 100-continue */
	enum h1_framing framing;
	uint64_t length; /* H1_BODY_LENGTH */
	size_t n_fields, n_connection;
	struct h1_field fields[H1_FIELDS_MAX];
	struct h1_text connection[H1_CONNECTION_MAX]; /* words of Connection fields */
	const char *why;                              /* for a rejected head: the reason */
};

/*
 * The head at the beginning of n bytes. *scan is how far an earlier call got (0 at first). 1:
 * complete; 0: more bytes are needed; -EBADMSG, -E2BIG (too large), -EPROTONOSUPPORT (version),
 * -ENOTSUP (an unsupported transfer coding, or CONNECT), with ret->why.
 */
int h1_request(const void *p, size_t n, size_t *scan, struct h1_head *ret);
/* The same for a request to a proxy: CONNECT with host and port, or a target that begins with
 * http://, which becomes a path. Host must agree. */
int h1_proxy_request(const void *p, size_t n, size_t *scan, struct h1_head *ret);
/* The same for a response. `to_head`: the request's method was HEAD. Lines may end in LF alone. */
int h1_response(const void *p, size_t n, size_t *scan, bool to_head, struct h1_head *ret);

/* Ignores case. Inline, so that the length of a literal is a constant. */
static inline bool h1_is(struct h1_text t, const char *word)
{
	return strlen(word) == t.n && strncasecmp(t.p, word, t.n) == 0;
}
#define H1_TEXT(word)                    \
	{                                \
		(word), sizeof(word) - 1 \
	}
bool h1_among(struct h1_text t, const struct h1_text *words, size_t n);
/* NULL if it is not there. */
const struct h1_field *h1_find(const struct h1_head *h, const char *name);
bool h1_hop_name(struct h1_text name);
/* Must a proxy remove the field: is it hop-by-hop, or named by Connection? */
bool h1_hop_field(const struct h1_head *h, const struct h1_field *f);
/*
 * The request as a proxy forwards it: without hop-by-hop fields and those in skip, with its
 * framing. The caller adds further fields, at least Connection, and the empty line.
 */
void h1_forward(const struct h1_head *h, const struct h1_text *skip, size_t n_skip,
                struct buf *out);
bool h1_token(const char *p, size_t n);     /* a method or a field name */
bool h1_value(const char *p, size_t n);     /* no control characters */
bool h1_target(const char *p, size_t n);    /* printable, no space */
bool h1_host_name(const char *p, size_t n); /* letters, digits, '-', '.', '_'; or [v6] */

/* ---- chunks ---- */

enum h1_chunk_state {
	CHUNK_SIZE,
	CHUNK_EXT,
	CHUNK_DATA,
	CHUNK_DATA_END,
	CHUNK_TRAILER,
	CHUNK_OVER
};
struct h1_chunks {
	enum h1_chunk_state state;
	uint64_t left; /* of the size or the data */
	unsigned line; /* bytes of this line */
	unsigned digits;
	unsigned trailers; /* bytes so far */
	bool cr;           /* the last byte was one */
};
/*
 * Takes up to n bytes: how many it took, and the data among them (at most one piece per call; call
 * again while it takes something). -EBADMSG. Nothing after the end is taken: state CHUNK_OVER.
 */
int64_t h1_chunks_feed(struct h1_chunks *c, const uint8_t *p, size_t n, const uint8_t **ret_data,
                       size_t *ret_len);
