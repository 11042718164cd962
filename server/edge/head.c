/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head.c - heads as they are passed on: written anew, never copied whole
 *
 * Towards the VM: fields of the client's hop are left out, and so is everything that says where a
 * request came from, because only we know. Towards the client: fields of the VM's hop are left out,
 * framing is ours.
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
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Status";
}

bool head_dropped(const struct h1_field *f)
{
	static const char *const ours[] = { "host",
		                            "content-length",
		                            "expect",
		                            "x-forwarded-for",
		                            "x-forwarded-proto",
		                            "forwarded",
		                            "x-forwarded-host",
		                            "x-forwarded-port",
		                            "x-real-ip" };

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (h1_is(f->name, ours[i]))
			return true;
	return false;
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

int head_forward(struct xchg *x)
{
	return ebuf_printf(
	        &x->head,
	        "X-Forwarded-For: %s\r\nX-Forwarded-Proto: %s\r\nX-Forwarded-Host: %s\r\n",
	        x->c->peer, x->c->tls ? "https" : "http", x->host);
}

int head_request(struct xchg *x, const struct h1_head *h)
{
	const struct h1_field *host = h1_find(h, "host");
	int r = head_begin(x, x->method, h->target.p, h->target.n);

	if (r == 0 && host)
		r = put_field(&x->head, host);
	for (size_t i = 0; r == 0 && i < h->n_fields; i++)
		if (!head_dropped(&h->fields[i]) && !h1_hop_field(h, &h->fields[i]))
			r = put_field(&x->head, &h->fields[i]);
	if (r == 0)
		r = head_forward(x);
	if (r == 0 && h->framing == H1_BODY_LENGTH)
		r = ebuf_printf(&x->head, "Content-Length: %llu\r\n",
		                (unsigned long long)h->length);
	if (r == 0 && h->framing == H1_BODY_CHUNKED)
		r = ebuf_printf(&x->head, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && h->upgrade)
		r = ebuf_printf(&x->head, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	return r < 0 ? r : ebuf_put(&x->head, "\r\n", 2);
}

int head_response(struct xchg *x, const struct h1_head *h, uint64_t len, struct ebuf *out)
{
	const struct h1_field *length = h1_find(h, "content-length");
	unsigned hsts = x->c->w->e->conf.hsts_s;
	int r = ebuf_printf(out, "HTTP/1.1 %u %s\r\n", h->status, head_reason(h->status));

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
		return ebuf_printf(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	if (h->framing == H1_BODY_NONE && length && (x->is_head || h->status == 304))
		r = put_field(out, length);
	else if (h->framing == H1_BODY_LENGTH)
		r = ebuf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)len);
	else if (x->resp_chunked)
		r = ebuf_printf(out, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && x->close_after)
		r = ebuf_printf(out, "Connection: close\r\n");
	else if (r == 0 && x->http10)
		r = ebuf_printf(out, "Connection: keep-alive\r\n");
	return r < 0 ? r : ebuf_put(out, "\r\n", 2);
}
