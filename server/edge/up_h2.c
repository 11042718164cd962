/* SPDX-License-Identifier: Apache-2.0 */
/*
 * up_h2.c - connections to VMs that speak HTTP/2 in the clear, by prior knowledge (h2c), as gRPC
 * does
 *
 * Theory of operation: a connection carries one exchange at a time, as one of HTTP/1 does, and is
 * kept for the next. So nothing that one client does holds up another's stream, and what is known
 * about waking, retries and limits is the same for both. nghttp2 knows the frames; its callbacks
 * only note what came, and up2_run() acts on it when they are done, because acting may end the
 * connection.
 *
 * The program in the VM is not trusted. Bytes of its response are bounded by the window that it is
 * given (it gets more when the client has taken them), heads and trailers by the limits of
 * HTTP/1's, what waits to be sent by nghttp2's limit on acknowledgements, and frames that bring
 * nothing by their rate. Of these none counts as progress.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "edge/edge_internal.h"
#include "edge/h2_fields.h"

#define NOISE_MAX 1000u /* frames that bring nothing, in a second; each DATA frame allows for 4 */
#define NOISE_MS 1000u
#define FIRST_UNKNOWN 10u /* type of frames that RFC 9113 does not have */

struct up2 {
	nghttp2_session *s; /* owned */
	int32_t stream;     /* of its exchange; -1: none */
	unsigned status;
	bool head_over, head_passed;
	bool ended;       /* the response, with its trailers, has come */
	bool closed;      /* the stream; with: */
	uint32_t code;    /* why */
	bool reset;       /* the program did that */
	bool bad;         /* it sent what it must not */
	bool going;       /* it takes no more requests */
	bool deferred;    /* nghttp2 waits to be told that there is more of the body */
	bool body_over;   /* nothing follows body */
	struct ebuf body; /* of the request: what the program has not taken yet */
	struct ebuf trailers;
	struct fields head, trail;
	unsigned noise;
	uint64_t noise_ms;
};

/* ---- what the program sends ---- */

static int bad(struct up *u)
{
	u->h2->bad = true;
	return NGHTTP2_ERR_CALLBACK_FAILURE; /* nothing more of it is read */
}

static int noise(struct up *u)
{
	struct up2 *h = u->h2;

	if (u->w->now - h->noise_ms >= NOISE_MS) {
		h->noise_ms = u->w->now;
		h->noise = 0;
	}
	return ++h->noise > NOISE_MAX ? bad(u) : 0;
}

static void quiet(struct up *u)
{
	u->h2->noise -= MIN(u->h2->noise, 5u);
}

/* Of every frame, also of those that nghttp2 does not know: they are registered as extensions. */
static int on_begin_frame(nghttp2_session *s, const nghttp2_frame_hd *hd, void *arg)
{
	/* nghttp2 would reset what is promised, and a program that reads nothing could have it
	 * queue these without end. */
	return hd->type == NGHTTP2_PUSH_PROMISE ? bad(arg) : noise(arg);
}

static int on_unknown(nghttp2_session *s, void **payload, const nghttp2_frame_hd *hd, void *arg)
{
	return 0;
}

static bool ours(const struct up *u, int32_t stream)
{
	return u->x && stream > 0 && stream == u->h2->stream;
}

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct up *u = arg;

	if (ours(u, f->hd.stream_id))
		fields_clear(u->h2->head_over ? &u->h2->trail : &u->h2->head);
	return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t nlen,
                     const uint8_t *value, size_t vlen, uint8_t flags, void *arg)
{
	struct up *u = arg;
	struct up2 *h = u->h2;
	int r;

	if (!ours(u, f->hd.stream_id))
		return 0;
	if (nlen == 7 && memcmp(name, ":status", 7) == 0) { /* three digits: nghttp2 has looked */
		h->status = 0;
		for (size_t i = 0; i < MIN(vlen, 3u); i++)
			h->status = h->status * 10 + (unsigned)(value[i] - '0') % 10;
		return 0;
	}
	if (h->head_over)
		r = fields_add(&h->trail, H1_TRAILERS_MAX, name, nlen, value, vlen);
	else
		r = fields_add(&h->head, H1_HEAD_MAX, name, nlen, value, vlen);
	return r < 0 ? bad(u) : 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	struct up *u = arg;
	struct up2 *h = u->h2;
	bool mine = ours(u, f->hd.stream_id);

	if (f->hd.type == NGHTTP2_GOAWAY)
		h->going = true;
	if (mine && f->hd.type == NGHTTP2_RST_STREAM)
		h->reset = true;
	if (mine && f->hd.type == NGHTTP2_HEADERS) {
		bool interim = !h->head_over && h->status < 200;

		h->head_over |= !interim; /* the edge sends 100 itself; 103 is not forwarded */
		h->ended |= f->hd.flags & NGHTTP2_FLAG_END_STREAM;
		u->got_any = true;
		if (!interim)
			u->x->moved_ms = u->w->now;
	}
	if (mine && f->hd.type == NGHTTP2_DATA) {
		h->ended |= f->hd.flags & NGHTTP2_FLAG_END_STREAM;
		if (f->hd.length > f->data.padlen)
			quiet(u);
	}
	return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                   void *arg)
{
	struct up *u = arg;

	if (!ours(u, id) || u->x->resp_over) {
		nghttp2_session_consume(s, id, n);
		return 0;
	}
	u->x->moved_ms = u->w->now;
	return ebuf_put(&u->in, p, n) < 0 ? bad(u) : 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t code, void *arg)
{
	struct up2 *h = ((struct up *)arg)->h2;

	if (id != h->stream)
		return 0;
	h->closed = true;
	h->code = code;
	return 0;
}

static int on_sent(nghttp2_session *s, const nghttp2_frame *f, void *arg)
{
	if (f->hd.type == NGHTTP2_DATA)
		quiet(arg);
	return 0;
}

/* ---- what it is sent ---- */

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *buf, size_t max, uint32_t *flags,
                         nghttp2_data_source *src, void *arg)
{
	struct up *u = arg;
	struct up2 *h = u->h2;
	size_t n = MIN(max, h->body.len);

	if (n == 0 && !h->body_over) {
		h->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (n)
		memcpy(buf, ebuf_at(&h->body), n);
	ebuf_take(&h->body, n);
	if (n && u->x)
		u->x->moved_ms = u->w->now;
	if (h->body_over && !h->body.len) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (h->trailers.len && h2_trailers_submit(s, id, &h->trailers) == 0)
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	}
	return (ssize_t)n;
}

static void resume(struct up2 *h)
{
	if (h->deferred) {
		h->deferred = false;
		nghttp2_session_resume_data(h->s, h->stream);
	}
}

size_t up2_room(const struct up *u)
{
	return ebuf_free_up_to(&u->h2->body, EDGE_BUF);
}

int up2_data(struct up *u, const uint8_t *p, size_t n)
{
	int r = ebuf_put(&u->h2->body, p, n);

	resume(u->h2);
	return r;
}

void up2_data_end(struct up *u)
{
	ebuf_put(&u->h2->trailers, ebuf_at(&u->x->req_trailers), u->x->req_trailers.len);
	u->h2->body_over = true;
	resume(u->h2);
}

static int submit(struct up *u, struct xchg *x)
{
	nghttp2_nv v[H1_FIELDS_MAX + 8];
	nghttp2_data_provider body = { .source.ptr = u, .read_callback = read_body };
	struct ebuf names = { 0 };
	size_t n = 0;
	int r = fields_request(x, &names, v, &n);

	if (r == 0)
		r = nghttp2_submit_request(u->h2->s, NULL, v, n, x->req_over ? NULL : &body, NULL);
	ebuf_done(&names);
	if (r <= 0)
		return -EIO;
	u->h2->stream = r;
	return 0;
}

static int open_session(struct up *u)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, EDGE_BUF },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H1_HEAD_MAX },
	};
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *opt = NULL;
	int r = -ENOMEM;

	u->h2 = calloc(1, sizeof(*u->h2));
	if (u->h2 && nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&opt) == 0) {
		nghttp2_option_set_no_auto_window_update(opt, 1);
		nghttp2_option_set_max_settings(opt, 32);
		for (unsigned type = FIRST_UNKNOWN; type < 256; type++)
			nghttp2_option_set_user_recv_extension_type(opt, (uint8_t)type);
		nghttp2_session_callbacks_set_unpack_extension_callback(cb, on_unknown);
		nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
		nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
		nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
		if (nghttp2_session_client_new2(&u->h2->s, cb, u, opt) == 0 &&
		    nghttp2_submit_settings(u->h2->s, NGHTTP2_FLAG_NONE, settings,
		                            ARRAY_SIZE(settings)) == 0)
			r = 0;
	}
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(opt);
	return r;
}

static void clear(struct up2 *h)
{
	fields_clear(&h->head);
	fields_clear(&h->trail);
	ebuf_done(&h->body);
	ebuf_done(&h->trailers);
	h->stream = -1;
	h->status = 0;
	h->head_over = h->head_passed = h->ended = h->closed = h->reset = false;
	h->deferred = h->body_over = false;
	h->code = 0;
}

void up2_assign(struct up *u, struct xchg *x)
{
	if (!u->h2 && open_session(u) < 0) {
		if (u->h2)
			u->h2->bad = true;
		return; /* up2_run() says so */
	}
	clear(u->h2);
	u->h2->body_over = x->req_over;
	if (submit(u, x) < 0)
		u->h2->bad = true;
}

void up2_free(struct up2 *h)
{
	if (!h)
		return;
	clear(h);
	nghttp2_session_del(h->s);
	free(h);
}

/* ---- bytes ---- */

static bool read_some(struct up *u)
{
	struct up2 *h = u->h2;
	uint8_t *p = u->w->scratch;
	size_t size = sizeof(u->w->scratch);
	ssize_t n;

	if (!u->io.readable || u->eof || h->bad)
		return false;
	n = recv(u->io.fd, p, size, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		u->io.readable = errno == EINTR;
		return false;
	}
	if (n <= 0) {
		u->eof = true;
		return true;
	}
	if ((size_t)n < size && !u->io.ended)
		u->io.readable = false;
	if (nghttp2_session_mem_recv(h->s, p, (size_t)n) != n)
		h->bad = true;
	return true;
}

static bool write_some(struct up *u)
{
	struct up2 *h = u->h2;
	bool moved = false;
	ssize_t n;

	while (u->out.len < EDGE_BUF) {
		const uint8_t *p;

		n = nghttp2_session_mem_send(h->s, &p);
		if (n < 0)
			h->bad = true;
		if (n <= 0 || ebuf_put(&u->out, p, (size_t)n) < 0)
			break;
		moved = true;
	}
	if (!u->out.len || !u->io.writable)
		return moved;
	n = send(u->io.fd, ebuf_at(&u->out), u->out.len, MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		u->io.writable = errno == EINTR;
		return moved;
	}
	if (n < 0) { /* there may be a response it sent before closing */
		ebuf_done(&u->out);
		u->io.writable = false;
		return moved;
	}
	ebuf_take(&u->out, (size_t)n);
	return true;
}

/* ---- the response ---- */

static enum h1_framing framing_of(const struct up *u, struct h1_head *h)
{
	const struct h1_field *f = h1_find(h, "content-length");

	if (u->x->is_head || h->status == 204 || h->status == 304)
		return H1_BODY_NONE;
	if (u->h2->ended && !u->in.len &&
	    !u->h2->trail.n) /* for HTTP/2 the head is the end: gRPC wants it so */
		return u->x->c->h2 ? H1_BODY_NONE : H1_BODY_LENGTH;
	if (!f || f->value.n == 0 || f->value.n > 18)
		return H1_BODY_CHUNKED;
	for (size_t i = 0; i < f->value.n; i++) /* nghttp2 has looked that these are digits */
		h->length = h->length * 10 + (uint64_t)(f->value.p[i] - '0') % 10;
	return H1_BODY_LENGTH;
}

static int pass_head(struct up *u)
{
	struct h1_head *h = &u->w->head;

	*h = (struct h1_head){ .status = u->h2->status };
	fields_take(&u->h2->head, h);
	h->framing = framing_of(u, h);
	u->h2->head_passed = true;
	u->framing = h->framing;
	return resp_head(u->x, h, h->framing == H1_BODY_LENGTH ? h->length : UINT64_MAX);
}

static int pass_trailers(const struct up *u)
{
	struct h1_head *h = &u->w->head;
	int r = 0;

	fields_take(&u->h2->trail, h);
	h->n_connection = 0;
	for (size_t i = 0; r == 0 && i < h->n_fields; i++)
		if (!h1_hop_field(h, &h->fields[i]) && !h1_is(h->fields[i].name, "content-length"))
			r = h2_trailer_add(&u->x->resp_trailers, h->fields[i]);
	return r;
}

static bool over(struct up *u)
{
	u->state = UP_OVER;
	if (pass_trailers(u) < 0)
		resp_break(u->x);
	else
		resp_end(u->x);
	return true;
}

static bool pass(struct up *u)
{
	struct up2 *h = u->h2;
	bool moved = false;
	size_t n;

	if (!h->head_over || u->state == UP_OVER)
		return false;
	if (!h->head_passed) {
		moved = true;
		if (pass_head(u) < 0) {
			resp_break(u->x);
			u->state = UP_OVER;
			h->bad = true;
			return true;
		}
	}
	n = MIN(u->in.len, resp_room(u->x));
	if (n && u->framing == H1_BODY_NONE) { /* nghttp2 lets none through; not to be sure of */
		h->bad = true;
	} else if (n) {
		if (resp_data(u->x, ebuf_at(&u->in), n) < 0)
			h->bad = true;
		ebuf_take(&u->in, n);
		nghttp2_session_consume(h->s, h->stream, n);
		moved = true;
	}
	if (h->ended && !u->in.len && !h->bad)
		return over(u);
	return moved;
}

/* Why the response cannot come to its end; 0: it still can. */
static int trouble(const struct up *u)
{
	const struct up2 *h = u->h2;

	if (h->bad)
		return EBADMSG;
	if (h->ended)
		return 0;
	if (h->closed)
		return h->reset || h->going ? ECONNRESET : EBADMSG;
	if (u->eof)
		return ECONNRESET;
	return nghttp2_session_want_read(h->s) || nghttp2_session_want_write(h->s) ? 0 : EBADMSG;
}

/* The stream or the connection ended before the response did; what came of it is passed on first.
 */
static bool failed(struct up *u)
{
	struct up2 *h = u->h2;
	struct xchg *x = u->x;
	int why = u->state == UP_OVER ? 0 : trouble(u);

	if (!why || (u->in.len && h->head_passed && !h->bad))
		return false;
	u->keep = false;
	/* The program has not seen it: another connection may do. */
	if (!h->bad && h->closed && h->code == NGHTTP2_REFUSED_STREAM && !x->resp_begun &&
	    !x->req_begun && !x->refused) {
		x->refused = true;
		up_close(u);
		xchg_again(x);
		return true;
	}
	if (why == ECONNRESET && h->reset && x->c->h2) { /* the client sees the same */
		x->reset_code = h->code ? h->code : NGHTTP2_CANCEL;
		resp_break(x);
		return true;
	}
	xchg_up_failed(x, why);
	return true;
}

bool up2_run(struct up *u)
{
	bool moved;

	if (!u->h2 || !u->h2->s || u->h2->stream < 0) {
		xchg_up_failed(u->x, ENOMEM);
		return true;
	}
	moved = read_some(u);
	moved |= pass(u);
	moved |= write_some(u);
	return failed(u) || moved;
}

bool up2_rest(struct up *u)
{
	struct up2 *h = u->h2;

	if (!h || !h->s || h->stream < 0 || h->bad || h->going || u->eof || !u->connected)
		return false;
	if (!h->closed)
		nghttp2_submit_rst_stream(h->s, NGHTTP2_FLAG_NONE, h->stream, NGHTTP2_CANCEL);
	if (u->in.len)
		nghttp2_session_consume(h->s, h->stream, u->in.len);
	ebuf_done(&u->in);
	write_some(u);
	if (!h->closed || h->bad || !nghttp2_session_want_read(h->s))
		return false;
	clear(h);
	return true;
}

bool up2_idle(struct up *u)
{
	while (read_some(u))
		;
	write_some(u);
	return !u->eof && !u->h2->bad && !u->h2->going && nghttp2_session_want_read(u->h2->s);
}
