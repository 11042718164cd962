/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h1_conn.c - HTTP/1 to the client: one exchange after another
 *
 * Theory of operation: h1_run() makes one round: reads, parses a head if there is no exchange,
 * passes the request's body to the VM and the response to the client, and writes. Bodies are read
 * only as fast as the other side takes them, so neither end can make the edge hold more than its
 * buffers. If the response comes before the request is complete, the connection is closed after it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

/* A malformed request; nothing that follows it on the connection can be read either. */
static void refuse_head(struct conn *c, int r)
{
	struct xchg *x = xchg_new(c);

	if (!x) {
		conn_close(c);
		return;
	}
	c->x = x;
	x->close_after = true;
	x->req_over = false;
	snprintf(x->method, sizeof(x->method), "GET");
	xchg_refuse(x,
	            r == -E2BIG             ? 431
	            : r == -EPROTONOSUPPORT ? 505
	            : r == -ENOTSUP         ? 501
	                                    : 400,
	            ERR_BAD_REQUEST, "Malformed request", c->w->head.why);
}

static void copy_lower(struct h1_text t, char *ret, size_t size)
{
	size_t n = MIN(t.n, size - 1);

	for (size_t i = 0; i < n; i++)
		ret[i] = (char)(t.p[i] >= 'A' && t.p[i] <= 'Z' ? t.p[i] + 32 : t.p[i]);
	while (n && ret[n - 1] == '.')
		n--; /* a name's last dot is the root */
	ret[n] = '\0';
}

static bool may_repeat(const char *method)
{
	static const char *const words[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(method, words[i]) == 0)
			return true;
	return false;
}

void xchg_describe(struct xchg *x, const struct h1_head *h)
{
	const struct h1_field *accept = h1_find(h, "accept"), *te = h1_find(h, "te");

	snprintf(x->method, sizeof(x->method), "%.*s", (int)h->method.n, h->method.p);
	copy_lower(h->host, x->host, sizeof(x->host));
	x->is_head = strcmp(x->method, "HEAD") == 0;
	x->again_ok = may_repeat(x->method);
	x->upgrade = h->upgrade;
	x->wants_html = accept && memmem(accept->value.p, accept->value.n, "text/html", 9);
	x->te_trailers = te && h1_is(te->value, "trailers");
}

static bool take_head(struct conn *c)
{
	struct h1_head *h = &c->w->head;
	struct xchg *x;
	int r;

	while (c->scan == 0 && c->in.len >= 2 && memcmp(ebuf_at(&c->in), "\r\n", 2) == 0)
		ebuf_take(&c->in, 2); /* some clients send an empty line after a body */
	if (c->in.len == 0 || (c->in.len == 1 && *ebuf_at(&c->in) == '\r'))
		return false;
	if (!c->first_byte) {
		c->first_byte = true;
		c->deadline = c->w->now + c->w->e->conf.head_ms;
	}
	r = h1_request(ebuf_at(&c->in), c->in.len, &c->scan, h);
	if (r == 0)
		return false;
	if (r < 0) {
		refuse_head(c, r);
		return true;
	}
	x = xchg_new(c);
	if (!x) {
		conn_close(c);
		return false;
	}
	c->x = x;
	c->requests++;
	xchg_describe(x, h);
	x->http10 = h->http10;
	x->close_after = h->close;
	x->expect_100 = h->expect_100;
	x->req_framing = h->framing;
	x->req_left = h->length;
	x->req_over = h->framing == H1_BODY_NONE || (h->framing == H1_BODY_LENGTH && !h->length);
	r = head_request(x, h);
	ebuf_take(&c->in, h->len);
	c->scan = 0;
	if (r < 0)
		xchg_refuse(x, 503, ERR_UNAVAILABLE, "Out of memory", "Try again in a moment.");
	else
		xchg_begin(x);
	return true;
}

static bool pass_chunks(struct conn *c, struct xchg *x)
{
	const uint8_t *data;
	size_t n = 0;
	int64_t took = h1_chunks_feed(&x->req_chunks, ebuf_at(&c->in), MIN(c->in.len, xchg_room(x)),
	                              &data, &n);

	if (took < 0 || (n && xchg_data(x, data, n) < 0)) {
		conn_close(c); /* a broken body: the VM must see a cut connection as well */
		return false;
	}
	ebuf_take(&c->in, (size_t)took);
	if (x->req_chunks.state == CHUNK_OVER)
		xchg_data_end(x);
	return took > 0;
}

static bool pass_body(struct conn *c, struct xchg *x)
{
	size_t n = MIN(c->in.len, xchg_room(x));

	if (n == 0)
		return false;
	if (x->state == X_TUNNEL) {
		if (xchg_data(x, ebuf_at(&c->in), n) < 0)
			return false;
		ebuf_take(&c->in, n);
		return true;
	}
	if (x->req_over)
		return false;
	if (x->req_framing == H1_BODY_CHUNKED)
		return pass_chunks(c, x);
	n = (size_t)MIN((uint64_t)n, x->req_left);
	if (xchg_data(x, ebuf_at(&c->in), n) < 0) {
		conn_close(c);
		return false;
	}
	ebuf_take(&c->in, n);
	x->req_left -= n;
	if (x->req_left == 0)
		xchg_data_end(x);
	return true;
}

/* The client may send its body now. */
static void say_continue(struct conn *c, struct xchg *x)
{
	if (!x->expect_100 || x->state != X_ACTIVE || x->resp_begun)
		return;
	x->expect_100 = false;
	if (!x->req_over && c->in.len == 0)
		ebuf_printf(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

static bool finish(struct conn *c, struct xchg *x)
{
	if (!x->resp_over)
		return false;
	if (x->close_after || !x->req_over || x->resp_broken || c->eof)
		c->closing = true;
	c->x = NULL;
	xchg_free(x);
	c->first_byte = false;
	c->scan = 0;
	c->busy_ms = c->w->now;
	c->deadline = c->w->now + c->w->e->conf.keep_ms;
	return true;
}

/* The client sends no more, or is gone. */
static void at_eof(struct conn *c)
{
	struct xchg *x = c->x;

	if (!x) {
		if (c->in.len == 0 || !c->out.len)
			c->closing = true;
		return;
	}
	if (x->state == X_TUNNEL) {
		struct up *u = x->up;

		if (c->in.len == 0 && u && !u->out.len && !u->shut) {
			u->shut = true;
			shutdown(u->io.fd, SHUT_WR);
		}
		return;
	}
	/* TLS clients do not half-close. A request that can never become complete is dropped. */
	if (c->ssl || c->io.hup || (!x->req_over && c->in.len == 0))
		conn_close(c);
}

bool h1_run(struct conn *c)
{
	bool moved = false;
	int n;

	if (!c->eof && !c->closing && c->in.len < EDGE_BUF && conn_readable(c)) {
		n = conn_read(c);
		c->eof = n < 0;
		moved |= n != 0;
	}
	if (!c->x && !c->closing)
		moved |= take_head(c);
	if (!c->dead && c->x) {
		say_continue(c, c->x);
		moved |= pass_body(c, c->x);
	}
	if (!c->dead && c->x && c->x->up)
		moved |= up_run(c->x->up);
	if (!c->dead && c->x)
		moved |= finish(c, c->x);
	if (c->dead)
		return false;
	n = conn_flush(c);
	if (n < 0) {
		conn_close(c);
		return false;
	}
	moved |= n > 0;
	if (c->eof && !moved)
		at_eof(c);
	return moved && !c->dead;
}

/* ---- the response ---- */

size_t resp_room(const struct xchg *x)
{
	size_t unsent = conn_unsent(x->c);

	if (x->c->h2)
		return h2_resp_room(x);
	return unsent < EDGE_BUF ? EDGE_BUF - unsent : 0;
}

struct ebuf *resp_direct(const struct xchg *x)
{
	return x->c->h2 || x->resp_chunked ? NULL : &x->c->out;
}

int resp_head(struct xchg *x, const struct h1_head *h, uint64_t len)
{
	bool body = h->framing != H1_BODY_NONE;

	x->resp_begun = true;
	x->status = h->status;
	ebuf_done(&x->head);
	if (x->c->h2)
		return h2_resp_head(x, h, len);
	if (body && len == UINT64_MAX) {
		if (x->http10)
			x->close_after = true;
		else
			x->resp_chunked = true;
	}
	if (!x->req_over)
		x->close_after = true;
	return head_response(x, h, len, &x->c->out);
}

int resp_data(struct xchg *x, const uint8_t *p, size_t n)
{
	struct ebuf *out = &x->c->out;

	x->bytes_out += n;
	if (x->c->h2)
		return h2_resp_data(x, p, n);
	if (!x->resp_chunked)
		return ebuf_put(out, p, n);
	if (ebuf_printf(out, "%zx\r\n", n) < 0 || ebuf_put(out, p, n) < 0)
		return -ENOMEM;
	return ebuf_put(out, "\r\n", 2);
}

void resp_end(struct xchg *x)
{
	if (x->c->h2)
		h2_resp_end(x);
	else if (x->resp_chunked) {
		ebuf_put(&x->c->out, "0\r\n", 3);
		if (x->te_trailers)
			ebuf_put(&x->c->out, ebuf_at(&x->resp_trailers), x->resp_trailers.len);
		ebuf_put(&x->c->out, "\r\n", 2);
	}
	x->resp_over = true;
}

void resp_break(struct xchg *x)
{
	if (x->c->h2)
		h2_resp_break(x);
	x->resp_broken = x->resp_over = true;
}
