/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cross_reply.c - what another node answers becomes the reply to the client
 *
 * Status and fields are the owner's, but for those that every reply of this server gets anyway. A
 * short body is read whole; anything else is a stream that is read as fast as the client takes it.
 * A body whose end does not come breaks the client's connection, too: part of a reply never looks
 * complete. A connection whose reply was read to its end is kept for the next request.
 *
 * A terminal is bytes in both directions once the owner has said 101.
 */
#include "api/cross.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"

#define READ_BYTES (16u << 10)
#define WHOLE_MAX KIB(64)      /* a body that is read before the reply begins */
#define COLLECTED_MAX MIB(256) /* of a request without a connection; counted as output before */
#define TYPE_SIZE 256

struct cross *cross_free(struct cross *f)
{
	if (!f)
		return NULL;
	if (f->c && f->over && f->at == f->in.len)
		peer_put(f->c);
	else
		peer_drop(f->c);
	buf_done(&f->in);
	buf_done(&f->text);
	free(f);
	return NULL;
}

void cross_freep(struct cross **f)
{
	cross_free(*f);
}

static int broken(struct cross *f, const char *what, struct err *err)
{
	return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	               "node %s %s: what was asked of it may or may not have been done", f->node,
	               what);
}

/* More of the reply: its bytes, or 0 for nothing yet. */
static ssize_t more(struct cross *f, struct err *err)
{
	uint8_t *p;
	ssize_t n;

	if (f->at) {
		memmove(f->in.p, f->in.p + f->at, f->in.len - f->at);
		f->in.len -= f->at;
		f->at = 0;
	}
	p = buf_reserve(&f->in, READ_BYTES);
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	n = peer_read(f->c, p, READ_BYTES, err);
	if (n > 0) {
		f->in.len += (size_t)n;
		f->heard = true;
	}
	return n == -ENODATA ? broken(f, "has ended the connection", err) : n;
}

/* Until the owner says something, or it is known to be dead. A client that leaves is told on. */
static int wait_more(struct cross *f, struct err *err)
{
	int client = f->left ? -1 : request_client_fd(f->req);
	struct pollfd p[2] = { { .fd = peer_fd(f->c), .events = POLLIN },
		               { .fd = client, .events = POLLRDHUP } };
	int n = poll(p, 2, CROSS_LOOK_MS);

	if (n > 0 && p[1].revents) {
		f->left = true;
		peer_finish(f->c);
	}
	return n != 0 || peer_alive(f->c, err) ? 0 : -EHOSTUNREACH;
}

int cross_head(struct cross *f, struct err *err)
{
	bool to_head = strcmp(f->req->method_text, "HEAD") == 0;

	for (;;) {
		int r = f->in.len > f->at ? h1_response(f->in.p + f->at, f->in.len - f->at,
		                                        &f->scan, to_head, &f->head)
		                          : 0;
		ssize_t n;

		if (r < 0)
			return broken(f, "gave an answer that is not HTTP", err);
		if (r == 1 && f->head.status >= 200)
			break;
		if (r == 1 && f->head.status == 101)
			break;
		if (r == 1) { /* 100: the real one follows */
			f->at += f->head.len;
			f->scan = 0;
			if (f->expects)
				return 1;
			continue;
		}
		if ((n = more(f, err)) < 0)
			return (int)n;
		if (n == 0 && (r = wait_more(f, err)) < 0)
			return r;
	}
	/* Kept, because what it points into moves when more comes. */
	buf_put(&f->text, f->in.p + f->at, f->head.len);
	f->at += f->head.len;
	f->scan = 0;
	if (f->text.failed || h1_response(f->text.p, f->text.len, &f->scan, to_head, &f->head) != 1)
		return err_set(err, -ENOMEM, "out of memory");
	f->framing = f->head.framing;
	f->length = f->head.length;
	f->over = f->framing == H1_BODY_NONE ||
	          (f->framing == H1_BODY_LENGTH && (f->length == 0 || to_head));
	/* Its end would be that of the connection, which might as well have broken. */
	if (f->framing == H1_BODY_CLOSE && f->head.status != 101)
		return broken(f, "gave an answer without an end", err);
	return 0;
}

/* The body's next bytes, as outflow_ops.next. */
static ssize_t body_next(struct cross *f, char *p, size_t max, struct err *err)
{
	for (;;) {
		const uint8_t *data = f->in.p + f->at;
		size_t have = f->in.len - f->at, len = 0;
		int64_t took;
		ssize_t n;

		if (f->over)
			return -ENODATA;
		if (have && f->framing == H1_BODY_LENGTH) {
			len = MIN(MIN(have, max), f->length);
			memcpy(p, data, len);
			f->at += len;
			f->length -= len;
			f->over = f->length == 0;
			return (ssize_t)len;
		}
		if (have) {
			took = h1_chunks_feed(&f->chunks, data, MIN(have, max), &data, &len);
			if (took < 0)
				return broken(f, "gave an answer that is not HTTP", err);
			f->at += (size_t)took;
			f->over = f->chunks.state == CHUNK_OVER;
			if (len) {
				memcpy(p, data, len);
				return (ssize_t)len;
			}
			continue;
		}
		if ((n = more(f, err)) <= 0)
			return n;
	}
}

/* ---- streams ---- */

static ssize_t flow_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct cross *f = ctx;
	ssize_t n = body_next(f, p, max, err);

	/* Nobody else looks: the server may end, or the owner be dead without a word. */
	return n == 0 && !peer_alive(f->c, err) ? -EHOSTUNREACH : n;
}

static int flow_fd(void *ctx)
{
	return peer_fd(((struct cross *)ctx)->c);
}

static void flow_free(void *ctx)
{
	struct cross *f = ctx;

	metrics_since(METRIC_FORWARD, LABEL_FORWARD_STREAM, f->since_us);
	cross_free(f);
}

static const struct outflow_ops flow_ops = { .next = flow_next, .fd = flow_fd, .free = flow_free };
static const struct outflow_ops events_ops = {
	.next = flow_next, .fd = flow_fd, .free = flow_free, .endless = true, .ends_well = true
};

/* ---- the reply ---- */

static const char *field(const struct cross *f, const char *name, char *dst, size_t size)
{
	const struct h1_field *v = h1_find(&f->head, name);

	if (!v || v->value.n >= size)
		return NULL;
	snprintf(dst, size, "%.*s", (int)v->value.n, v->value.p);
	return dst;
}

/* Fields that this server's replies have anyway, or that belong to the connection. */
static bool is_ours(const struct h1_head *h, const struct h1_field *v)
{
	static const struct h1_text ours[] = {
		H1_TEXT("Content-Length"),
		H1_TEXT("Content-Type"),
		H1_TEXT("Date"),
		H1_TEXT("Cache-Control"),
		H1_TEXT("X-Freestyle-Trace-Id"),
		H1_TEXT("X-Content-Type-Options"),
		H1_TEXT("Sec-WebSocket-Accept"),
		H1_TEXT(NODE_MOVED),
		H1_TEXT("Vary"),
	};

	return h1_hop_field(h, v) || h1_among(v->name, ours, ARRAY_SIZE(ours)) ||
	       (v->name.n > 15 && strncasecmp(v->name.p, "Access-Control-", 15) == 0);
}

static int copy_fields(const struct cross *f, struct reply *res, struct err *err)
{
	for (size_t i = 0; i < f->head.n_fields; i++) {
		const struct h1_field *v = &f->head.fields[i];
		autofree char *name = NULL, *value = NULL;

		if (is_ours(&f->head, v))
			continue;
		name = strndup(v->name.p, v->name.n);
		value = strndup(v->value.p, v->value.n);
		if (!name || !value)
			return err_set(err, -ENOMEM, "out of memory");
		reply_field(res, name, value);
	}
	return 0;
}

/* All of the body, of a request that waits for it. */
static int collect(struct cross *f, struct buf *ret, struct err *err)
{
	for (;;) {
		char piece[READ_BYTES];
		ssize_t n = body_next(f, piece, sizeof(piece), err);
		int r;

		if (n == -ENODATA)
			return 0;
		if (n < 0)
			return (int)n;
		if (n == 0 && (r = wait_more(f, err)) < 0)
			return r;
		if (ret->len + (size_t)n > WHOLE_MAX &&
		    (r = request_hold_output(f->req, (uint64_t)n, err)) < 0)
			return r;
		if (ret->len + (size_t)n > COLLECTED_MAX)
			return broken(f, "gave an answer that is too large", err);
		buf_put(ret, piece, (size_t)n);
		if (ret->failed)
			return err_set(err, -ENOMEM, "out of memory");
	}
}

static int answer_whole(struct cross *f, struct reply *res, const char *type, struct err *err)
{
	autobuf struct buf b = { 0 };
	int r = collect(f, &b, err);
	char *p;

	if (r < 0)
		return r;
	if (!f->req->conn) { /* of a tool, or in the background: they want JSON */
		json_t *j = NULL;

		r = b.len ? json_text_load((const char *)b.p, b.len, &j, err) : 0;
		return r < 0 ? r : j ? reply_json(res, j, err) : 0;
	}
	p = malloc(b.len + 1);
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(p, b.p ? b.p : (const uint8_t *)"", b.len);
	return reply_bytes(res, type, p, b.len, err);
}

int cross_refusal(struct cross *f, struct err *err)
{
	autobuf struct buf b = { 0 };
	autojson json_t *body = NULL;
	enum err_code code = ERR_NONE;
	const char *name = NULL, *why = NULL;
	int r = collect(f, &b, err);

	if (r < 0)
		return r;
	if (b.len && json_text_load((const char *)b.p, b.len, &body, err) == 0) {
		name = json_string_value(json_object_get(body, "code"));
		why = json_string_value(json_object_get(body, "message"));
	}
	if (name)
		code = err_code_parse(name);
	if (!why || !err_code_status(code))
		return broken(f, "does not take the body", err);
	return err_tag(err, -EINVAL, code, "%s", why);
}

/* ---- terminals ---- */

struct terminal_way {
	struct upgrade up; /* first */
	struct cross *f;   /* owned */
};

static void terminal_run(struct upgrade *u, int fd, const void *early, size_t n_early)
{
	struct terminal_way *x = (struct terminal_way *)u;
	struct cross *f = x->f;
	struct err err = { 0 };
	size_t n = f->in.len - f->at;

	if (n_early && peer_write(f->c, early, n_early, &err) < 0)
		return;
	/* What the owner sent right after its 101: little, and the socket is new. */
	if (n && send(fd, f->in.p + f->at, n, MSG_NOSIGNAL) != (ssize_t)n)
		return;
	peer_relay(f->c, fd);
}

static void terminal_free(struct upgrade *u)
{
	struct terminal_way *x = (struct terminal_way *)u;

	metrics_since(METRIC_FORWARD, LABEL_FORWARD_STREAM, x->f->since_us);
	x->f->c = peer_drop(x->f->c);
	cross_free(x->f);
	free(x);
}

static int answer_upgrade(struct cross *f_consume, struct reply *res, struct err *err)
{
	AUTO(cross_freep) struct cross *f = f_consume;
	struct terminal_way *x = calloc(1, sizeof(*x));
	struct request *req = f->req;

	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	x->up = (struct upgrade){ terminal_run, terminal_free };
	x->f = TAKE_PTR(f);
	return reply_upgrade(req, res, &x->up, err);
}

static int answer_stream(struct cross *f_consume, struct reply *res, const char *type,
                         struct err *err)
{
	bool events = strncasecmp(type, "text/event-stream", 17) == 0;

	return reply_flow(f_consume->req, res, events ? &events_ops : &flow_ops, f_consume,
	                  f_consume->framing == H1_BODY_LENGTH ? f_consume->length
	                                                       : OUTFLOW_UNKNOWN,
	                  type, err);
}

int cross_answer(struct cross *f_consume, struct reply *res, struct err *err)
{
	AUTO(cross_freep) struct cross *f = f_consume;
	struct cross *weak = f;
	char text[TYPE_SIZE], cache[TYPE_SIZE];
	const char *type = field(f, "Content-Type", text, sizeof(text));
	bool whole = !f->req->conn || f->framing == H1_BODY_NONE ||
	             (f->framing == H1_BODY_LENGTH && f->length <= WHOLE_MAX);
	int r;

	if (strcmp(f->req->method_text, "HEAD") == 0 && f->head.length && f->req->conn) {
		f->framing = H1_BODY_LENGTH; /* which is said, and never sent */
		f->length = f->head.length;
		whole = false;
	}
	if (f->head.status == 101)
		return answer_upgrade(TAKE_PTR(f), res, err);
	if (whole && (r = answer_whole(f, res, type, err)) < 0)
		return r;
	if (!whole && (r = answer_stream(TAKE_PTR(f), res, type ? type : "application/octet-stream",
	                                 err)) < 0)
		return r;
	res->status = weak->head.status;
	if (field(weak, "Cache-Control", cache, sizeof(cache)))
		reply_header(res, "Cache-Control", cache);
	if (!whole)
		return copy_fields(weak, res, err);
	metrics_since(METRIC_FORWARD, LABEL_FORWARD_WHOLE, f->since_us);
	return res->stream ? copy_fields(f, res, err) : 0;
}
