/* SPDX-License-Identifier: Apache-2.0 */
/* cli/stream.h - long-running requests: uploads, downloads, events, signals; for cli/ */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

struct cli;

/* ---- signals.c ---- */
/* SIGINT, SIGTERM, SIGHUP (and SIGWINCH) become readable here; nests. -1 when that fails. */
int signals_open(void);
/* The next one, or 0. */
int signals_take(int fd);
void signals_close(int fd);

/* ---- stream.c ---- */
struct cli_stream {
	const char *method, *path;
	const char *user;                                /* Linux user, or NULL */
	const char *header[2];                           /* more request headers, or NULL */
	json_t *body;                                    /* weak; or an upload: */
	ssize_t (*read)(void *ctx, void *dst, size_t n); /* 0 at the end, negative: give up */
	long long size;                                  /* of the upload; -1: not known */
	/* Bytes of a successful reply; anything but 0 ends the request with that exit status. */
	int (*data)(void *ctx, const void *p, size_t n);
	/* A signal: 0 to continue, else the exit status. NULL: 128 + signal. */
	int (*signalled)(void *ctx, int sig);
	void *ctx;
	bool keep; /* the reply is JSON: kept in reply, errors too, without a message */
	/* results */
	json_t *reply;    /* owned by the caller */
	long status;      /* of HTTP */
	long long length; /* of the reply's body, -1: not known; set before the first data */
	char mode[16];    /* X-Pando-Mode */
	bool cut;         /* the reply was cut off */
};
/* CLI_OK, or another status after an error message on stderr. */
int cli_stream(struct cli *c, struct cli_stream *s);

/* ---- sse.c ---- */
#define SSE_EVENT_MAX (48u << 20) /* a picture, in base64 */
typedef int (*sse_fn)(void *ctx, const char *event, const json_t *data);
/* Parses server-sent events from bytes as they arrive; data is parsed as JSON. */
struct sse_reader {
	sse_fn fn; /* anything but 0 is passed on */
	void *ctx;
	struct buf line, data;
	char event[32];
};
int sse_feed(struct sse_reader *r, const void *p, size_t n);
/* The same as a callback of cli_stream(), whose ctx is the reader. */
int sse_data(void *reader, const void *p, size_t n);
void sse_done(struct sse_reader *r);
/* {data, encoding} of an output event as bytes; caller frees. NULL: not an output event. */
unsigned char *sse_bytes(const json_t *data, size_t *ret_len);
/* Base64 from outside; NULL if it is invalid. Caller frees. */
unsigned char *base64_decode(const char *s, size_t *ret_len);
/* Caller frees; never NULL. */
char *base64_encode(const void *p, size_t n);
