/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_head.c - the head of an HTTP/2 request: put together as its fields arrive, and checked once
 * more as HTTP/1 text, because that is what the VM will read
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

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
	/* Anything else has been used to make servers read another URL from the parts. */
	if (h1_is(f.name, ":scheme")) {
		if (x->has_scheme || !h1_is(f.value, x->c->tls ? "https" : "http"))
			return -EBADMSG;
		x->has_scheme = true;
		return 0;
	}
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
	if (h1_is(f.name, "te"))
		x->te_trailers = h1_is(f.value, "trailers"); /* nghttp2 lets no other through */
	if (h1_is(f.name, "content-type"))
		x->grpc = f.value.n >= 16 && strncasecmp(f.value.p, "application/grpc", 16) == 0;
	if (h1_is(f.name, "accept"))
		x->wants_html = memmem(f.value.p, f.value.n, "text/html", 9) != NULL;
	head_hops(x, &f);
	if (head_dropped(&f) || h1_hop_name(f.name))
		return 0;
	if (ebuf_put(&x->fields, f.name.p, f.name.n) < 0 || ebuf_put(&x->fields, ": ", 2) < 0 ||
	    ebuf_put(&x->fields, f.value.p, f.value.n) < 0)
		return -ENOMEM;
	return ebuf_put(&x->fields, "\r\n", 2);
}

int h2_head_field(struct xchg *x, struct h1_field f)
{
	x->head_bytes += f.name.n + f.value.n + 4;
	if (x->head_bytes > H1_HEAD_MAX)
		return 0; /* refused when the head is complete */
	if (add_field(x, f) < 0)
		x->head_bad = true;
	return 0;
}

/* Reads the host with the HTTP/1 parser. */
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
		bool html = x->wants_html, te = x->te_trailers;

		memcpy(method, x->method, sizeof(method));
		h->method = (struct h1_text){ method, strlen(method) };
		xchg_describe(x, h);
		x->wants_html = html;
		x->te_trailers = te;
	} else {
		r = -EBADMSG;
	}
	ebuf_done(&text);
	return r < 0 ? r : 0;
}

static int build_head(struct xchg *x, bool ended)
{
	int r;

	if (x->head_bad || !x->has_scheme || !x->method[0] || !x->target.len || !x->authority.len)
		return -EBADMSG;
	if (*ebuf_at(&x->target) != '/' && (strcmp(x->method, "OPTIONS") != 0 ||
	                                    x->target.len != 1 || *ebuf_at(&x->target) != '*'))
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

void h2_head_over(struct xchg *x, bool ended)
{
	int r = x->head_bytes > H1_HEAD_MAX ? -E2BIG : build_head(x, ended);

	x->head_over = true;
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
