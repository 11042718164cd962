/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h1.c - heads of HTTP/1 messages
 *
 * Theory of operation: first the lines are found, so that a client that sends a byte a second
 * costs a byte a second; the first malformed line ends it. Only a complete head is parsed.
 * Then the fields that decide about framing, host and connection are checked together, in
 * frame_request() and h1_response(), and nowhere else.
 */
#include "h1/h1.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"

/* Characters of a token, of RFC 9110. */
static bool tchar(unsigned char c)
{
	static const char more[] = "!#$%&'*+-.^_`|~";

	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr(more, c));
}

bool h1_token(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!tchar((unsigned char)p[i]))
			return false;
	return n > 0;
}

bool h1_value(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

bool h1_target(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c <= 0x20 || c == 0x7f)
			return false;
	}
	return n > 0;
}

bool h1_host_name(const char *p, size_t n)
{
	bool v6 = n >= 2 && p[0] == '[' && p[n - 1] == ']';

	if (n == 0 || n > H1_HOST_MAX)
		return false;
	for (size_t i = v6; i < n - v6; i++) {
		char c = p[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      c == '.' || (v6 ? c == ':' : c == '-' || c == '_')))
			return false;
	}
	return true;
}

bool h1_among(struct h1_text t, const struct h1_text *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (words[i].n == t.n && strncasecmp(words[i].p, t.p, t.n) == 0)
			return true;
	return false;
}

const struct h1_field *h1_find(const struct h1_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (h1_is(h->fields[i].name, name))
			return &h->fields[i];
	return NULL;
}

static struct h1_text trim(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct h1_text){ p, (size_t)(end - p) };
}

/* The next member of a list field; false at its end. */
static bool list_next(struct h1_text *list, struct h1_text *ret)
{
	const char *end = list->p + list->n;
	const char *comma;

	if (list->n == 0)
		return false;
	comma = memchr(list->p, ',', list->n);
	*ret = trim(list->p, comma ? comma : end);
	list->p = comma ? comma + 1 : end;
	list->n = (size_t)(end - list->p);
	return true;
}

/* Fields that Connection must not name: removing them would change the message's meaning. */
static const struct h1_text kept[] = { H1_TEXT("host"),
	                               H1_TEXT("content-length"),
	                               H1_TEXT("content-type"),
	                               H1_TEXT("authorization"),
	                               H1_TEXT("cookie"),
	                               H1_TEXT("content-encoding"),
	                               H1_TEXT("x-forwarded-for"),
	                               H1_TEXT("x-forwarded-proto"),
	                               H1_TEXT("x-forwarded-host") };
static const struct h1_text hops[] = { H1_TEXT("connection"),       H1_TEXT("keep-alive"),
	                               H1_TEXT("proxy-connection"), H1_TEXT("te"),
	                               H1_TEXT("trailer"),          H1_TEXT("upgrade"),
	                               H1_TEXT("transfer-encoding") };

bool h1_hop_name(struct h1_text name)
{
	return h1_among(name, hops, ARRAY_SIZE(hops));
}

bool h1_hop_field(const struct h1_head *h, const struct h1_field *f)
{
	return h1_hop_name(f->name) || h1_among(f->name, h->connection, h->n_connection);
}

static int bad(struct h1_head *h, int code, const char *why)
{
	h->why = why;
	return code;
}

/* 1 if the empty line is there; *scan: where the incomplete line begins. */
static int find_end(const char *p, size_t n, size_t *scan, bool lf_ok, struct h1_head *ret)
{
	size_t at = *scan;

	while (at < n) {
		const char *lf = memchr(p + at, '\n', n - at);
		size_t end, len;

		if (!lf)
			break;
		end = (size_t)(lf - p);
		if (end == at || p[end - 1] != '\r') {
			if (!lf_ok)
				return bad(ret, -EBADMSG, "a line ends without a carriage return");
			len = end - at;
		} else {
			len = end - at - 1;
		}
		at = end + 1;
		if (at > H1_HEAD_MAX)
			break;
		if (len == 0) {
			ret->len = at;
			*scan = at;
			return 1;
		}
		*scan = at;
	}
	if (n > H1_HEAD_MAX || at > H1_HEAD_MAX)
		return bad(ret, -E2BIG, "the head is larger than 32 KiB");
	return 0;
}

/* One line without its end; false after the last one. */
static bool next_line(const char **p, const char *end, struct h1_text *ret)
{
	const char *lf = memchr(*p, '\n', (size_t)(end - *p));
	const char *stop;

	if (!lf)
		return false;
	stop = lf > *p && lf[-1] == '\r' ? lf - 1 : lf;
	*ret = (struct h1_text){ *p, (size_t)(stop - *p) };
	*p = lf + 1;
	return true;
}

static int read_fields(const char *p, const char *end, struct h1_head *h)
{
	struct h1_text line;

	while (next_line(&p, end, &line) && line.n > 0) {
		const char *colon = memchr(line.p, ':', line.n);
		struct h1_field *f;

		if (line.p[0] == ' ' || line.p[0] == '\t')
			return bad(h, -EBADMSG, "a header field is folded over two lines");
		if (!colon || !h1_token(line.p, (size_t)(colon - line.p)))
			return bad(h, -EBADMSG, "a header field has an invalid name");
		if (h->n_fields == H1_FIELDS_MAX)
			return bad(h, -E2BIG, "there are more than 128 header fields");
		f = &h->fields[h->n_fields++];
		f->name = (struct h1_text){ line.p, (size_t)(colon - line.p) };
		f->value = trim(colon + 1, line.p + line.n);
		if (!h1_value(f->value.p, f->value.n))
			return bad(h, -EBADMSG, "a header field contains a control character");
	}
	return 0;
}

static int read_length(struct h1_text v, uint64_t *ret)
{
	uint64_t n = 0;

	if (v.n == 0 || v.n > 18)
		return -EBADMSG;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return -EBADMSG;
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	*ret = n;
	return 0;
}

/* Content-Length and Transfer-Encoding: at most one of them, once. */
static int read_framing(struct h1_head *h)
{
	unsigned lengths = 0, codings = 0;

	for (size_t i = 0; i < h->n_fields; i++) {
		const struct h1_field *f = &h->fields[i];

		if (h1_is(f->name, "content-length")) {
			lengths++;
			if (read_length(f->value, &h->length) < 0)
				return bad(h, -EBADMSG, "Content-Length is not a number");
			h->framing = H1_BODY_LENGTH;
		} else if (h1_is(f->name, "transfer-encoding")) {
			codings++;
			if (!h1_is(f->value, "chunked"))
				return bad(h, -ENOTSUP,
				           "the only supported transfer coding is chunked");
			h->framing = H1_BODY_CHUNKED;
		}
	}
	if (lengths + codings > 1)
		return bad(h, -EBADMSG, "the length of the body is given more than once");
	if (codings && h->http10)
		return bad(h, -EBADMSG, "HTTP/1.0 has no transfer codings");
	return 0;
}

/* Collects the words of all Connection fields once; every other field is compared with them. */
static int list_connection(struct h1_head *h)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct h1_text list = h->fields[i].value, item;

		if (!h1_is(h->fields[i].name, "connection"))
			continue;
		while (list_next(&list, &item)) {
			if (h->n_connection == H1_CONNECTION_MAX)
				return bad(h, -E2BIG, "Connection has more than 32 words");
			h->connection[h->n_connection++] = item;
		}
	}
	return 0;
}

static int read_connection(struct h1_head *h)
{
	bool close = false, keep = false;
	int r = list_connection(h);

	for (size_t i = 0; i < h->n_connection; i++) {
		close |= h1_is(h->connection[i], "close");
		keep |= h1_is(h->connection[i], "keep-alive");
		h->upgrade |= h1_is(h->connection[i], "upgrade");
	}
	h->close = close || (h->http10 && !keep);
	return r;
}

/* "example.org:8443": host and port; port is "" if there is none. */
static int read_authority(struct h1_text v, struct h1_text *ret_host, struct h1_text *ret_port)
{
	const char *end = v.p + v.n;
	const char *colon = v.n && v.p[0] == '[' ? memchr(v.p, ']', v.n) : memchr(v.p, ':', v.n);

	*ret_port = (struct h1_text){ "", 0 };
	if (colon && *colon == ']')
		colon++;
	if (colon && colon < end) {
		if (*colon != ':' || end - colon > 6)
			return -EBADMSG;
		for (const char *p = colon + 1; p < end; p++)
			if (*p < '0' || *p > '9')
				return -EBADMSG;
		*ret_port = (struct h1_text){ colon + 1, (size_t)(end - colon - 1) };
		end = colon;
	}
	*ret_host = (struct h1_text){ v.p, (size_t)(end - v.p) };
	return h1_host_name(ret_host->p, ret_host->n) ? 0 : -EBADMSG;
}

/* Does the Host field agree? */
static int same_authority(struct h1_head *h, struct h1_text v, struct h1_text def)
{
	struct h1_text host, port, ours = h->port.n ? h->port : def;

	if (read_authority(v, &host, &port) < 0)
		return bad(h, -EBADMSG, "the request's target is not a host");
	if (!port.n)
		port = def;
	if (!h1_among(host, &h->host, 1) || !h1_among(port, &ours, 1))
		return bad(h, -EBADMSG, "the request's target and its Host field differ");
	return 0;
}

/* A target with scheme and authority becomes a path; the authority must match Host. */
static int read_absolute(struct h1_head *h, bool https_too)
{
	const char *end = h->target.p + h->target.n;
	const char *p = memchr(h->target.p, ':', h->target.n);
	struct h1_text scheme = { h->target.p, p ? (size_t)(p - h->target.p) : 0 };
	bool https = h1_is(scheme, "https");
	const char *slash;
	int r;

	if (!p || end - p < 4 || memcmp(p, "://", 3) != 0 ||
	    !(h1_is(scheme, "http") || (https && https_too)))
		return bad(h, -EBADMSG, "the request's target is not a path");
	p += 3;
	slash = memchr(p, '/', (size_t)(end - p));
	if (!slash)
		return bad(h, -EBADMSG, "the request's target has no path");
	r = same_authority(h, (struct h1_text){ p, (size_t)(slash - p) },
	                   https ? (struct h1_text)H1_TEXT("443") : (struct h1_text)H1_TEXT("80"));
	h->target = (struct h1_text){ slash, (size_t)(end - slash) };
	return r;
}

/* Interprets the target, once Host is known. */
static int read_target(struct h1_head *h, bool proxy)
{
	if (proxy && h1_is(h->method, "CONNECT"))
		return same_authority(h, h->target, (struct h1_text)H1_TEXT("443"));
	if (!proxy &&
	    (h->target.p[0] == '/' || (h1_is(h->target, "*") && h1_is(h->method, "OPTIONS"))))
		return 0;
	return read_absolute(h, /* https_too= */ !proxy);
}

static int frame_request(struct h1_head *h, bool proxy)
{
	const struct h1_field *host = NULL;
	const struct h1_field *f;
	int r;

	for (size_t i = 0; i < h->n_fields; i++) {
		if (!h1_is(h->fields[i].name, "host"))
			continue;
		if (host)
			return bad(h, -EBADMSG, "there is more than one Host field");
		host = &h->fields[i];
	}
	if (!host && !h->http10)
		return bad(h, -EBADMSG, "the Host field is missing");
	if (host && read_authority(host->value, &h->host, &h->port) < 0)
		return bad(h, -EBADMSG, "the Host field is not a valid host");
	if ((r = read_target(h, proxy)) < 0)
		return r;
	if ((r = read_framing(h)) < 0 || (r = read_connection(h)) < 0)
		return r;
	for (size_t i = 0; i < h->n_connection; i++)
		if (h1_among(h->connection[i], kept, ARRAY_SIZE(kept)))
			return bad(h, -EBADMSG,
			           "Connection names a field that must stay in the message");
	f = h1_find(h, "upgrade");
	h->upgrade = h->upgrade && f && h1_is(f->value, "websocket") && h1_is(h->method, "GET") &&
	             h->framing == H1_BODY_NONE && !h->http10;
	f = h1_find(h, "expect");
	h->expect_100 = f && h1_is(f->value, "100-continue") && !h->http10;
	if (f && !h1_is(f->value, "100-continue"))
		return bad(h, -EBADMSG, "the only supported expectation is 100-continue");
	return 0;
}

/* "HTTP/1.1" or "HTTP/1.0" */
static int read_version(struct h1_text v, struct h1_head *h)
{
	if (v.n != 8 || memcmp(v.p, "HTTP/", 5) != 0)
		return bad(h, -EBADMSG, "this is not HTTP");
	if (memcmp(v.p + 5, "1.1", 3) != 0 && memcmp(v.p + 5, "1.0", 3) != 0)
		return bad(h, -EPROTONOSUPPORT, "the version of HTTP is not 1.1 or 1.0");
	h->http10 = v.p[7] == '0';
	return 0;
}

/* Everything except `fields`, which would be 4 KiB to clear: n_fields is their number. */
static void head_reset(struct h1_head *h)
{
	memset(h, 0, offsetof(struct h1_head, fields));
	h->why = NULL;
}

/* Method, target and version; checked before the rest arrives, so that other protocols are
 * rejected at once. */
static int read_request_line(struct h1_text line, bool proxy, struct h1_head *h)
{
	const char *sp1 = memchr(line.p, ' ', line.n);
	const char *sp2 = sp1 ? memchr(sp1 + 1, ' ', line.n - (size_t)(sp1 + 1 - line.p)) : NULL;

	if (!sp2)
		return bad(h, -EBADMSG, "the request line does not have three parts");
	h->method = (struct h1_text){ line.p, (size_t)(sp1 - line.p) };
	h->target = (struct h1_text){ sp1 + 1, (size_t)(sp2 - sp1 - 1) };
	if (!h1_token(h->method.p, h->method.n) || h->method.n > H1_METHOD_MAX)
		return bad(h, -EBADMSG, "the method is not a valid token");
	if (!h1_target(h->target.p, h->target.n))
		return bad(h, -EBADMSG, "the request's target has a space or control character");
	if (!proxy && h1_is(h->method, "CONNECT"))
		return bad(h, -ENOTSUP, "this is not a proxy for other hosts");
	return read_version((struct h1_text){ sp2 + 1, line.n - (size_t)(sp2 + 1 - line.p) }, h);
}

static int request(const char *p, size_t n, size_t *scan, bool proxy, struct h1_head *ret)
{
	struct h1_text line;
	const char *end;
	int whole, r;

	head_reset(ret);
	if (n && !tchar((unsigned char)p[0]))
		return bad(ret, -EBADMSG, "this is not HTTP");
	whole = find_end(p, n, scan, false, ret);
	if (whole < 0)
		return whole;
	end = p + *scan;
	if (!next_line(&p, end, &line))
		return 0;
	r = read_request_line(line, proxy, ret);
	if (r < 0 || !whole)
		return r;
	if ((r = read_fields(p, end, ret)) < 0 || (r = frame_request(ret, proxy)) < 0)
		return r;
	return 1;
}

int h1_request(const void *p, size_t n, size_t *scan, struct h1_head *ret)
{
	return request(p, n, scan, /* proxy= */ false, ret);
}

int h1_proxy_request(const void *p, size_t n, size_t *scan, struct h1_head *ret)
{
	return request(p, n, scan, /* proxy= */ true, ret);
}

void h1_forward(const struct h1_head *h, const struct h1_text *skip, size_t n_skip, struct buf *out)
{
	buf_put(out, h->method.p, h->method.n);
	buf_put(out, " ", 1);
	buf_put(out, h->target.p, h->target.n);
	buf_printf(out, " HTTP/1.%c\r\n", h->http10 ? '0' : '1');
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct h1_field *f = &h->fields[i];

		if (h1_hop_field(h, f) || h1_among(f->name, skip, n_skip))
			continue;
		buf_put(out, f->name.p, f->name.n);
		buf_put(out, ": ", 2);
		buf_put(out, f->value.p, f->value.n);
		buf_put(out, "\r\n", 2);
	}
	if (h->framing == H1_BODY_CHUNKED)
		buf_printf(out, "Transfer-Encoding: chunked\r\n");
}

int h1_response(const void *bytes, size_t n, size_t *scan, bool to_head, struct h1_head *ret)
{
	const char *p = bytes;
	struct h1_text line;
	int r;

	head_reset(ret);
	r = find_end(p, n, scan, true, ret);
	if (r <= 0)
		return r;
	const char *end = p + ret->len;
	if (!next_line(&p, end, &line) || line.n < 12 || line.p[8] != ' ')
		return bad(ret, -EBADMSG, "the response has no status line");
	r = read_version((struct h1_text){ line.p, 8 }, ret);
	if (r < 0)
		return r;
	for (size_t i = 9; i < 12; i++) {
		if (line.p[i] < '0' || line.p[i] > '9')
			return bad(ret, -EBADMSG, "the response's status is not a number");
		ret->status = ret->status * 10 + (unsigned)(line.p[i] - '0');
	}
	if (ret->status < 100 || (line.n > 12 && line.p[12] != ' ') || !h1_value(line.p, line.n))
		return bad(ret, -EBADMSG, "the response has an invalid status line");
	if ((r = read_fields(p, end, ret)) < 0 || (r = read_framing(ret)) < 0 ||
	    (r = read_connection(ret)) < 0)
		return r; /* fields that Connection names are removed, whatever they are */
	if (to_head || ret->status < 200 || ret->status == 204 || ret->status == 304)
		ret->framing = H1_BODY_NONE;
	else if (ret->framing == H1_BODY_NONE)
		ret->framing = H1_BODY_CLOSE;
	return 1;
}
