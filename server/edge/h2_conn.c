/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_conn.c - HTTP/2 to the client: many exchanges at a time, each of which is HTTP/1.1 to its VM
 *
 * Theory of operation: nghttp2 knows the frames and checks the fields; here a stream becomes an
 * exchange, whose head is put together as its fields arrive and checked once more as HTTP/1 text,
 * because that is what the VM will read. Bodies have credit (windows): the client gets more when
 * the VM has taken what it sent, and the VM's answer is read only while the stream's buffer has
 * room. Exchanges are freed when their stream closes, which happens inside nghttp2's calls and
 * nowhere else.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

#define NAME_MAX_BYTES 256u /* of a field of an answer; longer ones are left out */

struct h2 {
	nghttp2_session *s; /* owned */
	unsigned resets, answered;
	bool calm; /* the client resets too much */
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

static int keep(struct ebuf *b, const char *p, size_t n)
{
	return b->len ? -EBADMSG : ebuf_put(b, p, n);
}

static int add_cookie(struct xchg *x, struct h1_text v)
{
	if (x->cookie.len && ebuf_put(&x->cookie, "; ", 2) < 0)
		return -ENOMEM;
	return ebuf_put(&x->cookie, v.p, v.n);
}

static int add_length(struct xchg *x, struct h1_text v)
{
	uint64_t n = 0;

	if (x->has_length || v.n == 0 || v.n > 18)
		return -EBADMSG;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return -EBADMSG;
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	x->has_length = true;
	x->req_left = n;
	return 0;
}

static int add_field(struct xchg *x, struct h1_field f)
{
	if (h1_is(f.name, ":method")) {
		if (x->method[0] || f.value.n > H1_METHOD_MAX || !h1_token(f.value.p, f.value.n))
			return -EBADMSG;
		memcpy(x->method, f.value.p, f.value.n);
		return 0;
	}
	if (h1_is(f.name, ":path"))
		return h1_target(f.value.p, f.value.n) ? keep(&x->target, f.value.p, f.value.n)
		                                       : -EBADMSG;
	if (h1_is(f.name, ":authority"))
		return keep(&x->authority, f.value.p, f.value.n);
	if (h1_is(f.name, ":scheme"))
		return 0;
	if (!h1_token(f.name.p, f.name.n) || !h1_value(f.value.p, f.value.n))
		return -EBADMSG;
	if (h1_is(f.name, "cookie"))
		return add_cookie(x, f.value);
	if (h1_is(f.name, "content-length"))
		return add_length(x, f.value);
	if (h1_is(f.name, "host")) {
		if (!x->authority.len)
			return keep(&x->authority, f.value.p, f.value.n);
		return x->authority.len == f.value.n &&
		                       memcmp(ebuf_at(&x->authority), f.value.p, f.value.n) == 0
		               ? 0
		               : -EBADMSG;
	}
	if (h1_is(f.name, "accept"))
		x->wants_html = memmem(f.value.p, f.value.n, "text/html", 9) != NULL;
	if (head_dropped(&f) || h1_hop_name(f.name))
		return 0;
	if (ebuf_put(&x->fields, f.name.p, f.name.n) < 0 || ebuf_put(&x->fields, ": ", 2) < 0 ||
	    ebuf_put(&x->fields, f.value.p, f.value.n) < 0)
		return -ENOMEM;
	return ebuf_put(&x->fields, "\r\n", 2);
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t nlen,
                     const uint8_t *value, size_t vlen, uint8_t flags, void *arg)
{
	struct xchg *x = stream_xchg(s, f->hd.stream_id);
	struct h1_field field = { { (const char *)name, nlen }, { (const char *)value, vlen } };

	if (!x || f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0; /* trailers are dropped */
	x->head_bytes += nlen + vlen + 4;
	if (x->head_bytes > H1_HEAD_MAX)
		return 0; /* counted on; refused when it is whole */
	if (add_field(x, field) < 0)
		x->head_bad = true;
	return 0;
}

/* Host, through the parser that HTTP/1 has. */
static int read_authority(struct xchg *x)
{
	struct h1_head *h = &x->c->w->head;
	struct ebuf text = { 0 };
	size_t scan = 0;
	int r;

	if (ebuf_put(&text, "GET / HTTP/1.1\r\nHost: ", 22) < 0 ||
	    ebuf_put(&text, ebuf_at(&x->authority), x->authority.len) < 0 ||
	    ebuf_put(&text, "\r\n\r\n", 4) < 0) {
		ebuf_done(&text);
		return -ENOMEM;
	}
	r = h1_request(ebuf_at(&text), text.len, &scan, h);
	if (r > 0 && (size_t)h->len == text.len) {
		char method[H1_METHOD_MAX + 1];
		bool html = x->wants_html;

		memcpy(method, x->method, sizeof(method));
		h->method = (struct h1_text){ method, strlen(method) };
		xchg_describe(x, h);
		x->wants_html = html;
	} else {
		r = -EBADMSG;
	}
	ebuf_done(&text);
	return r < 0 ? r : 0;
}

static int build_head(struct xchg *x, bool ended)
{
	int r;

	if (x->head_bad || !x->method[0] || !x->target.len || !x->authority.len)
		return -EBADMSG;
	if (*ebuf_at(&x->target) != '/' && strcmp(x->method, "OPTIONS") != 0)
		return -EBADMSG;
	if ((r = read_authority(x)) < 0)
		return r;
	x->req_framing = x->has_length ? H1_BODY_LENGTH : ended ? H1_BODY_NONE : H1_BODY_CHUNKED;
	if ((r = head_begin(x, x->method, (const char *)ebuf_at(&x->target), x->target.len)) < 0 ||
	    (r = ebuf_put(&x->head, "Host: ", 6)) < 0 ||
	    (r = ebuf_put(&x->head, ebuf_at(&x->authority), x->authority.len)) < 0 ||
	    (r = ebuf_put(&x->head, "\r\n", 2)) < 0 ||
	    (r = ebuf_put(&x->head, ebuf_at(&x->fields), x->fields.len)) < 0)
		return r;
	if (x->cookie.len && ((r = ebuf_put(&x->head, "Cookie: ", 8)) < 0 ||
	                      (r = ebuf_put(&x->head, ebuf_at(&x->cookie), x->cookie.len)) < 0 ||
	                      (r = ebuf_put(&x->head, "\r\n", 2)) < 0))
		return r;
	if ((r = head_forward(x)) < 0)
		return r;
	if (x->has_length)
		r = ebuf_printf(&x->head, "Content-Length: %llu\r\n",
		                (unsigned long long)x->req_left);
	else if (!ended)
		r = ebuf_printf(&x->head, "Transfer-Encoding: chunked\r\n");
	return r < 0 ? r : ebuf_put(&x->head, "\r\n", 2);
}

static void request_begins(struct xchg *x, bool ended)
{
	int r = x->head_bytes > H1_HEAD_MAX ? -E2BIG : build_head(x, ended);

	ebuf_done(&x->fields);
	ebuf_done(&x->cookie);
	ebuf_done(&x->target);
	ebuf_done(&x->authority);
	x->req_ended = x->req_over = ended;
	if (r == -E2BIG)
		xchg_refuse(x, 431, ERR_BAD_REQUEST, "Not a proper request",
		            "the head is larger than 32 KiB");
	else if (r == -ENOMEM)
		xchg_refuse(x, 503, ERR_UNAVAILABLE, "Out of memory", "Try again in a moment.");
	else if (r < 0)
		xchg_refuse(x, 400, ERR_BAD_REQUEST, "Not a proper request",
		            "a field of the request is not what HTTP allows");
	else
		xchg_begin(x);
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct conn *c = arg;
	struct xchg *x = f->hd.stream_id ? stream_xchg(s, f->hd.stream_id) : NULL;
	bool ended = f->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (f->hd.type == NGHTTP2_RST_STREAM &&
	    ++c->h2->resets > EDGE_H2_RESETS_MAX + c->h2->answered)
		c->h2->calm = true;
	if (!x)
		return 0;
	if (f->hd.type == NGHTTP2_HEADERS && f->headers.cat == NGHTTP2_HCAT_REQUEST)
		request_begins(x, ended);
	else if (ended && (f->hd.type == NGHTTP2_DATA || f->hd.type == NGHTTP2_HEADERS))
		x->req_ended = true;
	return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                   void *arg)
{
	struct xchg *x = stream_xchg(s, id);

	if (!x || x->resp_over || ebuf_put(&x->req_body, p, n) < 0)
		nghttp2_session_consume(s, id, n); /* nobody wants it any more */
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
	xchg_free(x);
	return 0;
}

/* ---- the answer ---- */

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
	if (x->resp_over && !x->body.len) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (!x->req_ended) /* answered early: the rest of the request is not wanted */
			nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
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
	return ebuf_free_up_to(&x->body, EDGE_BUF);
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
		/* an answer of our own */
		snprintf(hsts, sizeof(hsts), "%llu", (unsigned long long)len);
		v[n++] = nv("content-length", 14, hsts, strlen(hsts));
	} else if (x->c->w->e->conf.hsts_s && !h1_find(h, "strict-transport-security")) {
		snprintf(hsts, sizeof(hsts), "max-age=%u", x->c->w->e->conf.hsts_s);
		v[n++] = nv("strict-transport-security", 25, hsts, strlen(hsts));
	}
	r = nghttp2_submit_response(x->c->h2->s, x->stream, v, n, none ? NULL : &body);
	ebuf_done(&names);
	if (none && !x->req_ended)
		nghttp2_submit_rst_stream(x->c->h2->s, NGHTTP2_FLAG_NONE, x->stream,
		                          NGHTTP2_NO_ERROR);
	return r < 0 ? -ENOMEM : 0;
}

int h2_resp_data(struct xchg *x, const uint8_t *p, size_t n)
{
	int r = ebuf_put(&x->body, p, n);

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
	                          NGHTTP2_INTERNAL_ERROR);
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

bool h2_idle(const struct conn *c)
{
	return c->x == NULL;
}

/* The request's body towards the VM, and credit for as much. */
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
	if (n < 0 || c->h2->calm) {
		if (c->h2->calm)
			nghttp2_session_terminate_session(c->h2->s, NGHTTP2_ENHANCE_YOUR_CALM);
		c->closing = true;
		ebuf_take(&c->in, c->in.len);
	} else {
		ebuf_take(&c->in, (size_t)n);
	}
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
	n = conn_flush(c);
	if (n < 0 || (c->eof && !moved)) {
		conn_close(c);
		return false;
	}
	if (!nghttp2_session_want_read(c->h2->s) && !nghttp2_session_want_write(c->h2->s))
		c->closing = true;
	return moved || n > 0;
}
