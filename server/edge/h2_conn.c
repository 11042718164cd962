/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_conn.c - HTTP/2 to the client: many exchanges at a time, each of which is HTTP/1.1 to its VM
 *
 * Theory of operation: nghttp2 knows the frames and checks the fields; here a stream becomes an
 * exchange, whose head h2_head.c puts together. Bodies have flow control: the client gets more
 * window when the VM has taken what it sent, and the VM's response is read only while the stream's
 * buffer has room. Exchanges are freed when their stream closes, which happens inside
 * nghttp2_session_mem_recv() and _mem_send() and nowhere else.
 *
 * Every stream has its own deadlines (tick_stream()), because one connection can hold a hundred of
 * them, each with a socket to a VM, while it looks busy. Resets are counted whoever sends them: a
 * client can make us reset its streams as fast as it can reset them itself.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

#define NAME_MAX_BYTES 256u /* of a response field's name; fields with longer ones are left out */

struct h2 {
	nghttp2_session *s; /* owned */
	unsigned resets, answered;
	bool calm;   /* too many resets */
	size_t held; /* bytes of responses that wait for the client */
};

static struct xchg *stream_xchg(nghttp2_session *s, int32_t id)
{
	return nghttp2_session_get_stream_user_data(s, id);
}

/* ---- the request's head ---- */

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct conn *c = arg;
	struct xchg *x;

	if (f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	x = xchg_new(c);
	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	x->stream = f->hd.stream_id;
	x->state = X_OVER; /* nothing to do yet */
	x->h2_next = c->x;
	c->x = x;
	c->requests++;
	nghttp2_session_set_stream_user_data(s, x->stream, x);
	return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t nlen,
                     const uint8_t *value, size_t vlen, uint8_t flags, void *arg)
{
	struct xchg *x = stream_xchg(s, f->hd.stream_id);
	struct h1_field field = { { (const char *)name, nlen }, { (const char *)value, vlen } };

	if (!x || f->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (f->headers.cat == NGHTTP2_HCAT_REQUEST)
		return h2_head_field(x, field);
	if (!x->t.h2c || x->req_over || head_dropped(&field) || h1_hop_name(field.name))
		return 0; /* HTTP/1 has no place for trailers; they are dropped */
	return h1_token(field.name.p, field.name.n) && h1_value(field.value.p, field.value.n) &&
	                       h2_trailer_add(&x->req_trailers, field) == 0
	               ? 0
	               : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void count_reset(struct h2 *h)
{
	if (++h->resets > EDGE_H2_RESETS_MAX + h->answered)
		h->calm = true;
}

/* Our own resets; not those after an early response, nor those caused by the VM or by us. */
static int on_sent(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct conn *c = arg;
	const struct xchg *x = f->hd.stream_id ? stream_xchg(s, f->hd.stream_id) : NULL;

	/* Early response: the rest of the request is not needed. Not sooner, because what is not
	 * sent when a stream is reset never will be. */
	if (x && !x->req_ended && (f->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    (f->hd.type == NGHTTP2_DATA || f->hd.type == NGHTTP2_HEADERS))
		nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, x->stream, NGHTTP2_NO_ERROR);
	if (f->hd.type == NGHTTP2_RST_STREAM && !(x && x->reset_code) &&
	    f->rst_stream.error_code != NGHTTP2_NO_ERROR &&
	    f->rst_stream.error_code != NGHTTP2_INTERNAL_ERROR)
		count_reset(c->h2);
	return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct conn *c = arg;
	struct xchg *x = f->hd.stream_id ? stream_xchg(s, f->hd.stream_id) : NULL;
	bool ended = f->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (f->hd.type == NGHTTP2_RST_STREAM)
		count_reset(c->h2);
	if (!x)
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS && f->headers.cat == NGHTTP2_HCAT_REQUEST)
		h2_head_over(x, ended);
	else if (ended && (f->hd.type == NGHTTP2_DATA || f->hd.type == NGHTTP2_HEADERS))
		x->req_ended = true;
	return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                   void *arg)
{
	struct xchg *x = stream_xchg(s, id);

	if (!x || x->resp_over || ebuf_put(&x->req_body, p, n) < 0)
		nghttp2_session_consume(s, id, n); /* no longer needed */
	else
		x->moved_ms = x->c->w->now;
	return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t code, void *arg)
{
	struct conn *c = arg;
	struct xchg *x = stream_xchg(s, id);

	if (!x)
		return 0;
	for (struct xchg **p = &c->x; *p; p = &(*p)->h2_next) {
		if (*p == x) {
			*p = x->h2_next;
			break;
		}
	}
	if (x->resp_over && !x->resp_broken)
		c->h2->answered++;
	if (x->req_body.len)
		nghttp2_session_consume_connection(s, x->req_body.len);
	c->h2->held -= x->body.len;
	xchg_free(x);
	return 0;
}

/* ---- the response ---- */

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *buf, size_t max, uint32_t *flags,
                         nghttp2_data_source *src, void *arg)
{
	struct xchg *x = src->ptr;
	size_t n = MIN(max, x->body.len);

	if (n == 0 && !x->resp_over) {
		x->body_deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (n)
		memcpy(buf, ebuf_at(&x->body), n);
	ebuf_take(&x->body, n);
	x->c->h2->held -= n;
	x->took += n;
	if (x->took >= EDGE_DRAIN_MIN) {
		x->took = 0;
		x->took_ms = x->c->w->now;
		x->on_its_way = true;
	}
	if (x->resp_over && !x->body.len) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (x->resp_trailers.len && h2_trailers_submit(s, id, &x->resp_trailers) == 0)
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	}
	return (ssize_t)n;
}

static void resume(struct xchg *x)
{
	if (x->body_deferred) {
		x->body_deferred = false;
		nghttp2_session_resume_data(x->c->h2->s, x->stream);
	}
}

size_t h2_resp_room(const struct xchg *x)
{
	return ebuf_free_up_to(&x->body,
	                       x->c->h2->held > EDGE_H2_HELD_MAX ? EDGE_H2_HELD_MIN : EDGE_BUF);
}

static size_t lower(char *to, struct h1_text name)
{
	for (size_t i = 0; i < name.n; i++)
		to[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + 32 : name.p[i]);
	return name.n;
}

static nghttp2_nv nv(const char *name, size_t nlen, const char *value, size_t vlen)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
		             .value = (uint8_t *)(uintptr_t)value,
		             .namelen = nlen,
		             .valuelen = vlen };
}

int h2_resp_head(struct xchg *x, const struct h1_head *h, uint64_t len)
{
	nghttp2_nv v[H1_FIELDS_MAX + 4];
	nghttp2_data_provider body = { .source.ptr = x, .read_callback = read_body };
	char status[8], hsts[40];
	struct ebuf names = { 0 };
	size_t n = 0, total = 0;
	bool none = h->framing == H1_BODY_NONE || x->is_head;
	int r;

	for (size_t i = 0; i < h->n_fields; i++)
		total += h->fields[i].name.n;
	char *name = (char *)ebuf_room(&names, total + 1, SIZE_MAX / 4);
	if (!name)
		return -ENOMEM;
	snprintf(status, sizeof(status), "%u", h->status);
	v[n++] = nv(":status", 7, status, strlen(status));
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct h1_field *f = &h->fields[i];

		if (h1_hop_field(h, f) || f->name.n > NAME_MAX_BYTES)
			continue;
		v[n++] = nv(name, lower(name, f->name), f->value.p, f->value.n);
		name += f->name.n;
	}
	if (h->framing == H1_BODY_LENGTH && !h1_find(h, "content-length")) {
		/* a response of our own */
		snprintf(hsts, sizeof(hsts), "%llu", (unsigned long long)len);
		v[n++] = nv("content-length", 14, hsts, strlen(hsts));
	} else if (x->c->w->e->conf.hsts_s && !h1_find(h, "strict-transport-security")) {
		snprintf(hsts, sizeof(hsts), "max-age=%u", x->c->w->e->conf.hsts_s);
		v[n++] = nv("strict-transport-security", 25, hsts, strlen(hsts));
	}
	x->took_ms = x->c->w->now;
	r = nghttp2_submit_response(x->c->h2->s, x->stream, v, n, none ? NULL : &body);
	ebuf_done(&names);
	return r < 0 ? -ENOMEM : 0;
}

int h2_resp_data(struct xchg *x, const uint8_t *p, size_t n)
{
	int r = ebuf_put(&x->body, p, n);

	if (r == 0)
		x->c->h2->held += n;
	resume(x);
	return r;
}

void h2_resp_end(struct xchg *x)
{
	x->resp_over = true;
	resume(x);
}

void h2_resp_break(struct xchg *x)
{
	nghttp2_submit_rst_stream(x->c->h2->s, NGHTTP2_FLAG_NONE, x->stream,
	                          x->reset_code ? x->reset_code : NGHTTP2_INTERNAL_ERROR);
}

/* ---- the connection ---- */

static int settings(struct conn *c)
{
	nghttp2_settings_entry s[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, EDGE_H2_STREAMS },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, EDGE_H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H1_HEAD_MAX },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
	};

	if (nghttp2_submit_settings(c->h2->s, NGHTTP2_FLAG_NONE, s, ARRAY_SIZE(s)) < 0 ||
	    nghttp2_session_set_local_window_size(c->h2->s, NGHTTP2_FLAG_NONE, 0,
	                                          EDGE_H2_CONN_WINDOW) < 0)
		return -ENOMEM;
	return 0;
}

int h2_open(struct conn *c)
{
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *opt = NULL;
	int r = -ENOMEM;

	c->h2 = calloc(1, sizeof(*c->h2));
	if (c->h2 && nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&opt) == 0) {
		nghttp2_option_set_no_auto_window_update(opt, 1);
		nghttp2_option_set_peer_max_concurrent_streams(opt, EDGE_H2_STREAMS);
		nghttp2_option_set_max_settings(opt, 32);
		nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
		nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
		if (nghttp2_session_server_new2(&c->h2->s, cb, c, opt) == 0)
			r = settings(c);
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(opt);
	return r;
}

void h2_close(struct conn *c)
{
	struct xchg *x = c->x;

	c->x = NULL;
	while (x) {
		struct xchg *next = x->h2_next;

		if (c->h2->s)
			nghttp2_session_set_stream_user_data(c->h2->s, x->stream, NULL);
		xchg_free(x);
		x = next;
	}
	nghttp2_session_del(c->h2->s);
	free(c->h2);
	c->h2 = NULL;
}

/* Sends GOAWAY, then shuts our end down. */
static void say_goodbye(struct conn *c, uint32_t why)
{
	nghttp2_session_terminate_session(c->h2->s, why);
	c->closing = true;
}

/* ---- deadlines ---- */

static void cut(struct xchg *x)
{
	nghttp2_submit_rst_stream(x->c->h2->s, NGHTTP2_FLAG_NONE, x->stream, NGHTTP2_CANCEL);
	x->cut = x->resp_broken = true;
}

/* Has the client not read what waits for it for too long? */
static bool left_lying(struct xchg *x)
{
	uint64_t now = x->c->w->now, stall = conn_stall_ms(x->c);

	if (!x->resp_begun || (!x->body.len && !x->resp_over)) {
		x->took_ms = now;
		x->took = 0;
		return false;
	}
	x->moved_ms = now;
	if (x->on_its_way && conn_arrived(x->c)) {
		x->on_its_way = false;
		x->took_ms = now;
	}
	return now - x->took_ms > (x->on_its_way ? EDGE_SLOW_FACTOR * stall : stall);
}

/* A stream of gRPC may be open for long before either end has something to say: it has the time
 * that a response has, unless descriptors are few. */
static uint64_t body_stall_ms(const struct xchg *x)
{
	const struct edge *e = x->c->w->e;

	if (!x->t.h2c || guard_tight(e->guard))
		return conn_stall_ms(x->c);
	return x->resp_begun ? e->conf.idle_ms : e->conf.answer_ms;
}

/*
 * The read clock runs while response bytes wait for the client, and restarts whenever it has taken
 * EDGE_DRAIN_MIN bytes (read_body()). The client cannot take more before those have arrived, so
 * that time does not count unless it is very long (EDGE_SLOW_FACTOR). The clock for a request body
 * that is still to come restarts with any byte in either direction. While we wait for the client,
 * the VM's clock stands still (xchg_late()).
 */
static bool tick_stream(struct xchg *x)
{
	if (x->cut)
		return false;
	if (left_lying(x)) {
		cut(x);
		return true;
	}
	if (!x->req_ended && !x->resp_over && !x->req_body.len && xchg_room(x) > 0 &&
	    x->c->w->now - x->moved_ms > body_stall_ms(x)) {
		cut(x);
		return true;
	}
	return xchg_late(x);
}

void h2_tick(struct conn *c)
{
	const struct edge *e = c->w->e;
	uint64_t now = c->w->now;
	unsigned keep =
	        guard_tight(e->guard) ? MIN(e->conf.keep_ms, EDGE_TIGHT_IDLE_MS) : e->conf.keep_ms;
	bool any = false;

	if (c->closing)
		return; /* conn_tick() sees to what is unsent */
	for (struct xchg *x = c->x; x; x = x->h2_next) {
		if (!x->head_over && now - x->since > e->conf.head_ms) {
			conn_close(c); /* nothing can follow an unfinished head */
			return;
		}
		any |= tick_stream(x);
	}
	if (c->x) {
		c->busy_ms = now;
	} else if (now - c->busy_ms > keep) {
		say_goodbye(c, NGHTTP2_NO_ERROR);
		any = true;
	}
	if (any)
		conn_run(c);
}

/* Passes the request's body to the VM, and gives the client credit for as much. */
static bool pass_body(struct xchg *x)
{
	size_t n = MIN(x->req_body.len, xchg_room(x));

	if (x->resp_over)
		n = x->req_body.len; /* dropped */
	if (n) {
		if (!x->resp_over && xchg_data(x, ebuf_at(&x->req_body), n) < 0)
			return false;
		ebuf_take(&x->req_body, n);
		nghttp2_session_consume(x->c->h2->s, x->stream, n);
	}
	if (x->req_ended && !x->req_over && !x->req_body.len && x->state == X_ACTIVE) {
		xchg_data_end(x);
		return true;
	}
	return n > 0;
}

static bool write_frames(struct conn *c)
{
	bool moved = false;

	while (conn_unsent(c) < EDGE_BUF) {
		const uint8_t *p;
		ssize_t n = nghttp2_session_mem_send(c->h2->s, &p);

		if (n <= 0 || ebuf_put(&c->out, p, (size_t)n) < 0)
			break;
		moved = true;
	}
	return moved;
}

static bool read_frames(struct conn *c)
{
	ssize_t n;
	int r;

	if (c->eof || c->closing || !conn_readable(c))
		return false;
	r = conn_read(c);
	if (r < 0) {
		c->eof = true;
		return true;
	}
	if (!c->in.len)
		return false;
	n = nghttp2_session_mem_recv(c->h2->s, ebuf_at(&c->in), c->in.len);
	if (n < 0)
		c->closing = true;
	ebuf_take(&c->in, n < 0 ? c->in.len : (size_t)n);
	return true;
}

bool h2_run(struct conn *c)
{
	bool moved = read_frames(c);
	int n;

	for (struct xchg *x = c->x, *next; x; x = next) {
		next = x->h2_next;
		moved |= pass_body(x);
		if (x->up)
			moved |= up_run(x->up);
		if (x->resp_over && x->up)
			up_release(x->up);
	}
	moved |= write_frames(c);
	if (c->h2->calm && !c->closing) {
		say_goodbye(c, NGHTTP2_ENHANCE_YOUR_CALM);
		moved = true;
	}
	n = conn_flush(c);
	if (n < 0 || (c->eof && !moved)) {
		conn_close(c);
		return false;
	}
	if (!nghttp2_session_want_read(c->h2->s) && !nghttp2_session_want_write(c->h2->s))
		c->closing = true;
	return moved || n > 0;
}
