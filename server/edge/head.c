/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head.c - heads as they are forwarded: written from their parts, never copied as a whole
 *
 * To the VM: hop-by-hop fields are left out, and so is everything that says where a request came
 * from, because only the edge knows that. To the client: hop-by-hop fields are left out, and the
 * framing is the edge's own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

const char *head_reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} reasons[] = {
		{ 200, "OK" },
		{ 101, "Switching Protocols" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 421, "Misdirected Request" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 508, "Loop Detected" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Status";
}

/*
 * Fields that only the edge sets, and those that programs cannot tell from them: CGI and its
 * successors turn fields into variables, where X_Real_IP and X-Real-IP are the same.
 */
bool head_dropped(const struct h1_field *f)
{
	static const struct h1_text ours[] = { H1_TEXT("host"),
		                               H1_TEXT("content-length"),
		                               H1_TEXT("expect"),
		                               H1_TEXT("x-forwarded-for"),
		                               H1_TEXT("x-forwarded-proto"),
		                               H1_TEXT("forwarded"),
		                               H1_TEXT("x-forwarded-host"),
		                               H1_TEXT("x-forwarded-port"),
		                               H1_TEXT("x-real-ip"),
		                               H1_TEXT("x-pando-edge"),
		                               H1_TEXT("x-pando-vm"),
		                               H1_TEXT("x-pando-hops") };

	return memchr(f->name.p, '_', f->name.n) || h1_among(f->name, ours, ARRAY_SIZE(ours));
}

static inline int put_text(struct ebuf *b, const char *text)
{
	return ebuf_put(b, text, strlen(text));
}

static int put_length(struct ebuf *b, uint64_t n)
{
	char text[] = "Content-Length: 18446744073709551615\r\n";
	char *end = text + sizeof(text) - 3, *p = end;

	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	memmove(text + 16, p, (size_t)(text + sizeof(text) - 1 - p));
	return ebuf_put(b, text, (size_t)(16 + (end - p) + 2));
}

static int put_field(struct ebuf *b, const struct h1_field *f)
{
	uint8_t *p = ebuf_room(b, f->name.n + f->value.n + 4, SIZE_MAX / 4);

	if (!p)
		return -ENOMEM;
	memcpy(p, f->name.p, f->name.n);
	p += f->name.n;
	*p++ = ':';
	*p++ = ' ';
	memcpy(p, f->value.p, f->value.n);
	p += f->value.n;
	*p++ = '\r';
	*p = '\n';
	b->len += f->name.n + f->value.n + 4;
	return 0;
}

int head_begin(struct xchg *x, const char *method, const char *target, size_t n)
{
	int r;

	if ((r = ebuf_put(&x->head, method, strlen(method))) < 0 ||
	    (r = ebuf_put(&x->head, " ", 1)) < 0 || (r = ebuf_put(&x->head, target, n)) < 0)
		return r;
	return ebuf_put(&x->head, " HTTP/1.1\r\n", 11);
}

/* Programs in guests that pass requests on pass this on, too; one that does not can only make
 * requests go round until its own connections are used up. */
void head_hops(struct xchg *x, const struct h1_field *f)
{
	unsigned n = 0;

	if (!x->c->guest || !h1_is(f->name, "x-pando-hops"))
		return;
	for (size_t i = 0; i < f->value.n && n <= EDGE_HOPS_MAX; i++) {
		if (f->value.p[i] < '0' || f->value.p[i] > '9')
			break;
		n = n * 10 + (unsigned)(f->value.p[i] - '0');
	}
	x->hops = MAX(x->hops, n);
}

int head_forward(struct xchg *x)
{
	struct ebuf *b = &x->head;
	int r;

	if ((r = put_text(b, "X-Forwarded-For: ")) < 0 || (r = put_text(b, x->c->peer)) < 0 ||
	    (r = put_text(b, "\r\nX-Forwarded-Proto: ")) < 0 ||
	    (r = put_text(b, x->c->tls ? "https" : "http")) < 0 ||
	    (r = put_text(b, "\r\nX-Forwarded-Host: ")) < 0 || (r = put_text(b, x->host)) < 0)
		return r;
	if (x->c->guest && (r = ebuf_printf(b, "\r\nX-Pando-Hops: %u", x->hops + 1)) < 0)
		return r;
	return put_text(b, "\r\n");
}

/* The head must be complete, with its empty line. */
int head_sign(struct xchg *x, const char *field)
{
	int r;

	x->head.len -= 2;
	r = put_text(&x->head, field);
	return r < 0 ? r : put_text(&x->head, "\r\n");
}

int head_request(struct xchg *x, const struct h1_head *h)
{
	const struct h1_field *host = h1_find(h, "host");
	int r = head_begin(x, x->method, h->target.p, h->target.n);

	if (r == 0 && host)
		r = put_field(&x->head, host);
	for (size_t i = 0; r == 0 && i < h->n_fields; i++) {
		head_hops(x, &h->fields[i]);
		if (!head_dropped(&h->fields[i]) && !h1_hop_field(h, &h->fields[i]))
			r = put_field(&x->head, &h->fields[i]);
	}
	if (r == 0)
		r = head_forward(x);
	if (r == 0 && h->framing == H1_BODY_LENGTH)
		r = put_length(&x->head, h->length);
	if (r == 0 && h->framing == H1_BODY_CHUNKED)
		r = put_text(&x->head, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && h->upgrade)
		r = put_text(&x->head, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	return r < 0 ? r : ebuf_put(&x->head, "\r\n", 2);
}

int head_response(struct xchg *x, const struct h1_head *h, uint64_t len, struct ebuf *out)
{
	const struct h1_field *length = h1_find(h, "content-length");
	unsigned hsts = x->c->w->e->conf.hsts_s;
	char line[] = "HTTP/1.1 000 ";
	int r;

	line[9] = (char)('0' + h->status / 100 % 10);
	line[10] = (char)('0' + h->status / 10 % 10);
	line[11] = (char)('0' + h->status % 10);
	if ((r = put_text(out, line)) == 0 && (r = put_text(out, head_reason(h->status))) == 0)
		r = put_text(out, "\r\n");
	for (size_t i = 0; r == 0 && i < h->n_fields; i++) {
		const struct h1_field *f = &h->fields[i];

		if (!h1_is(f->name, "content-length") && !h1_hop_field(h, f))
			r = put_field(out, f);
	}
	if (r == 0 && hsts && x->c->tls && !h1_find(h, "strict-transport-security"))
		r = ebuf_printf(out, "Strict-Transport-Security: max-age=%u\r\n", hsts);
	if (r < 0)
		return r;
	if (h->status == 101)
		return put_text(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	if (h->framing == H1_BODY_NONE && length && (x->is_head || h->status == 304))
		r = put_field(out, length);
	else if (h->framing == H1_BODY_LENGTH)
		r = put_length(out, len);
	else if (x->resp_chunked)
		r = put_text(out, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && x->close_after)
		r = put_text(out, "Connection: close\r\n");
	else if (r == 0 && x->http10)
		r = put_text(out, "Connection: keep-alive\r\n");
	return r < 0 ? r : ebuf_put(out, "\r\n", 2);
}
