/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outflow.c - replies that are produced while they are sent
 *
 * The HTTP library asks for the next bytes whenever the socket has taken the last ones, on the
 * connection's own thread. If there are none, that thread waits here for the source, for the
 * client to disconnect, for the server to shut down, or until a keep-alive is due. An idle stream
 * has no deadline; one whose client does not read what is there has STALL_MS. A stream that fails
 * breaks the connection, so that a partial reply never looks complete. So does one whose caller's
 * key, token or permission has been revoked.
 *
 * A client that closes its sending half counts as gone, because a killed client looks the same.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define BLOCK_BYTES (32u << 10)  /* requested at a time */
#define UNSENT_BYTES (128 << 10) /* in the kernel, of streams that have a deadline of their own */
#define BEAT_MS 15000            /* of silence: proxies and clients give up after a minute */
#define ALLOWED_MS 1000          /* between two checks that the caller still has access */

struct outflow {
	struct request *req; /* weak; valid while the library asks for more */
	const struct outflow_ops *ops;
	void *ctx;     /* owned */
	int client_fd; /* weak: the library's */
};

static void deadline(struct outflow *o, uint64_t at)
{
	timeout_set(o->req->timeout, at);
}

enum woken { WOKEN_SOURCE, WOKEN_BEAT, WOKEN_GONE };

static enum woken wait_more(struct outflow *o)
{
	struct pollfd p[] = { { .fd = o->ops->fd ? o->ops->fd(o->ctx) : -1, .events = POLLIN },
		              { .fd = o->client_fd, .events = POLLRDHUP },
		              { .fd = o->ops->endless ? o->req->http->drain_fd : -1,
		                .events = POLLIN } };
	uint64_t beat = deadline_in(BEAT_MS);
	int n;

	do {
		n = poll(p, ARRAY_SIZE(p), MIN(deadline_left(beat), ALLOWED_MS));
		if (n == 0 && !o->req->http->app.allowed(o->req))
			return WOKEN_GONE;
	} while (n < 0 ? errno == EINTR : n == 0 && deadline_left(beat) > 0);
	if (n < 0 || p[1].revents)
		return WOKEN_GONE;
	return n == 0 ? WOKEN_BEAT : WOKEN_SOURCE;
}

/* The server is shutting down, and this stream would keep it waiting. */
static bool must_end(struct outflow *o)
{
	return o->ops->endless && atomic_load(&o->req->http->draining);
}

static ssize_t broken(struct outflow *o, const struct err *err)
{
	log_obj(LOG_LV_INFO, "request", o->req->trace, "%s %.100s: the stream broke off: %s",
	        o->req->method_text, o->req->path, err->msg);
	return MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t on_more(void *cls, uint64_t pos, char *out, size_t max)
{
	struct outflow *o = cls;
	struct err err = { 0 };

	if (!o->req->http->app.allowed(o->req)) {
		err_set(&err, -EACCES, "its key, token or permission has been revoked");
		return broken(o, &err);
	}
	for (;;) {
		ssize_t n;
		enum woken w;

		if (must_end(o))
			return o->ops->ends_well ? MHD_CONTENT_READER_END_OF_STREAM
			                         : MHD_CONTENT_READER_END_WITH_ERROR;
		n = o->ops->next(o->ctx, out, max, &err);
		if (n == -ENODATA) {
			deadline(o, deadline_in(MOVE_MS));
			return MHD_CONTENT_READER_END_OF_STREAM;
		}
		if (n < 0)
			return broken(o, &err);
		if (n == 0) {
			deadline(o, 0);
			w = wait_more(o);
			if (w == WOKEN_SOURCE || (w == WOKEN_BEAT && !o->ops->beat))
				continue;
			if (w == WOKEN_GONE)
				return MHD_CONTENT_READER_END_WITH_ERROR;
			n = snprintf(out, max, "%s", o->ops->beat);
		}
		deadline(o, deadline_in(o->ops->stall_ms ? o->ops->stall_ms(o->ctx) : STALL_MS));
		return n;
	}
}

static void outflow_free(void *cls)
{
	struct outflow *o = cls;

	o->ops->free(o->ctx);
	free(o);
}

int reply_flow(struct request *req, struct reply *res, const struct outflow_ops *ops,
               void *ctx_consume, uint64_t len, const char *type, struct err *err)
{
	int client_fd = request_client_fd(req);
	struct outflow *o = calloc(1, sizeof(*o));

	if (!o || client_fd < 0) {
		free(o);
		ops->free(ctx_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*o = (struct outflow){ .req = req, .ops = ops, .ctx = ctx_consume, .client_fd = client_fd };
	/* What the kernel holds says nothing about the client: it holds little. */
	if (ops->stall_ms)
		setsockopt(client_fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){ UNSENT_BYTES },
		           sizeof(int));
	res->stream_len = 0; /* deadlines are handled in this file */
	res->stream =
	        MHD_create_response_from_callback(len == OUTFLOW_UNKNOWN ? MHD_SIZE_UNKNOWN : len,
	                                          BLOCK_BYTES, on_more, o, outflow_free);
	if (!res->stream) {
		outflow_free(o);
		return err_set(err, -ENOMEM, "out of memory");
	}
	MHD_add_response_header(res->stream, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	return 0;
}
