/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outflow.c - replies that are made while they are sent
 *
 * The HTTP library asks for the next bytes whenever the socket has taken the last
 * ones, on the connection's own thread. When there are none, that thread waits here for
 * the source, for the client to leave, for the server's end, or for the time of a
 * sign of life. A stream that idles has no deadline; one whose client does not take
 * what there is has API_STALL_MS. A stream that fails breaks the connection, so that
 * what was sent never looks whole. So does one whose client's key, token or
 * permission was revoked meanwhile.
 *
 * A client that closes its sending half has left: its end of file is how a killed
 * client looks.
 */
#include "api/call.h"

#include <errno.h>
#include <poll.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "guest/guest.h"

#define BLOCK_BYTES (32u << 10) /* asked for at a time */
#define BEAT_MS 15000           /* without a byte: proxies and clients give up after a minute */
#define LEASE_MS 1000           /* between two looks whether the client may still have it */

struct outflow {
	struct api *api; /* weak: outlives its requests */
	struct watched *watched;
	const struct outflow_ops *ops;
	void *ctx;     /* owned */
	int client_fd; /* weak: the library's */
	char trace[33], path[128];
	struct auth_lease lease;
};

static void deadline(struct outflow *o, uint64_t at)
{
	watch_deadline(o->api->watch, o->watched, at);
}

enum woken { WOKEN_SOURCE, WOKEN_BEAT, WOKEN_GONE };

static enum woken wait_more(struct outflow *o)
{
	struct pollfd p[] = { { .fd = o->ops->fd(o->ctx), .events = POLLIN },
		              { .fd = o->client_fd, .events = POLLRDHUP },
		              { .fd = o->ops->endless ? o->api->drain_fd : -1, .events = POLLIN } };
	uint64_t beat = deadline_in(BEAT_MS);
	int n;

	do {
		n = poll(p, ARRAY_SIZE(p), MIN(deadline_left(beat), LEASE_MS));
		if (n == 0 && !auth_lease_holds(o->api->deps.auth, &o->lease))
			return WOKEN_GONE;
	} while (n < 0 ? errno == EINTR : n == 0 && deadline_left(beat) > 0);
	if (n < 0 || p[1].revents)
		return WOKEN_GONE;
	return n == 0 ? WOKEN_BEAT : WOKEN_SOURCE;
}

/* The server shuts down, and this one would keep it waiting. */
static bool must_end(struct outflow *o)
{
	LOCK_SCOPE(&o->api->lock);
	return o->ops->endless && o->api->draining;
}

static ssize_t broken(struct outflow *o, const struct err *err)
{
	log_obj(LOG_LV_INFO, "request", o->trace, "%s: the stream broke off: %s", o->path,
	        err->msg);
	return MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t on_more(void *cls, uint64_t pos, char *out, size_t max)
{
	struct outflow *o = cls;
	struct err err = { 0 };

	if (!auth_lease_holds(o->api->deps.auth, &o->lease)) {
		err_set(&err, -EACCES, "its key, token or permission was revoked");
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
			deadline(o, deadline_in(API_MOVE_MS));
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
		deadline(o, deadline_in(API_STALL_MS));
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
	const union MHD_ConnectionInfo *ci =
	        MHD_get_connection_info(req->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct outflow *o = calloc(1, sizeof(*o));

	if (!o || !ci) {
		free(o);
		ops->free(ctx_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*o = (struct outflow){ .api = req->api,
		               .watched = req->watched,
		               .ops = ops,
		               .ctx = ctx_consume,
		               .client_fd = ci->connect_fd };
	request_lease(req, &o->lease);
	snprintf(o->trace, sizeof(o->trace), "%s", req->trace);
	snprintf(o->path, sizeof(o->path), "%s %.100s", req->method_text, req->path);
	res->stream_len = 0; /* deadlines are this file's business */
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

/* ---- a flow from the guest, byte by byte as it comes ---- */

static int flow_fd(void *ctx)
{
	return guest_flow_fd(ctx);
}

static void flow_free(void *ctx)
{
	guest_flow_close(ctx);
}

static ssize_t flow_next(void *ctx, char *p, size_t max, struct err *err)
{
	ssize_t k = guest_flow_read(ctx, NULL, (uint8_t *)p, max, err);
	int r;

	if (k != -ENODATA)
		return k;
	r = guest_flow_result(ctx, err);
	return r < 0 ? r : -ENODATA;
}

const struct outflow_ops guest_flow_ops = { .next = flow_next, .fd = flow_fd, .free = flow_free };
