/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_h1.c - any bytes as a request, a request to a proxy, an answer and a chunked body
 *
 * Checks: an accepted request has one host and one framing, and what the
 * edge would forward is read by the same parser in the same way; chunks give the same result
 * however they are split.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "h1/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void inside(const uint8_t *data, size_t size, struct h1_text t)
{
	must(t.n == 0 || (t.p >= (const char *)data && t.p + t.n <= (const char *)data + size));
}

typedef int (*parse_fn)(const void *p, size_t n, size_t *scan, struct h1_head *ret);

static int answer(const void *p, size_t n, size_t *scan, struct h1_head *ret)
{
	return h1_response(p, n, scan, false, ret);
}

/* What is passed on has one framing and the same meaning. */
static void try_forward(const struct h1_head *h)
{
	static struct h1_head again;
	autobuf struct buf out = { 0 };
	size_t scan = 0;

	h1_forward(h, NULL, 0, &out);
	buf_printf(&out, "Connection: close\r\n\r\n");
	if (out.len > H1_HEAD_MAX || h->n_fields == H1_FIELDS_MAX)
		return; /* one field more than there was */
	must(h1_request(out.p, out.len, &scan, &again) == 1 && again.len == out.len);
	must(again.framing == h->framing && again.length == h->length);
	must(again.host.n == h->host.n);
	must(!h->host.n || memcmp(again.host.p, h->host.p, h->host.n) == 0);
}

static void try_head(const uint8_t *data, size_t size, parse_fn parse, bool request)
{
	static struct h1_head h, again;
	size_t scan = 0, steps = 0;
	int r = parse(data, size, &scan, &h);

	if (r < 0) {
		must(h.why != NULL);
		return;
	}
	if (r == 0)
		return;
	must(h.len <= size && h.len <= H1_HEAD_MAX && h.n_fields <= H1_FIELDS_MAX);
	for (size_t i = 0; i < h.n_fields; i++) {
		inside(data, size, h.fields[i].name);
		inside(data, size, h.fields[i].value);
		must(h1_token(h.fields[i].name.p, h.fields[i].name.n));
		must(h1_value(h.fields[i].value.p, h.fields[i].value.n));
		(void)h1_hop_field(&h, &h.fields[i]);
	}
	if (request) {
		must(h.framing != H1_BODY_CLOSE);
		must(h1_target(h.target.p, h.target.n));
		must(h.http10 || h1_host_name(h.host.p, h.host.n));
		if (!h1_is(h.method, "CONNECT"))
			try_forward(&h);
	}
	/* Byte by byte it is the same head, and not found earlier. */
	scan = 0;
	for (size_t n = 0; n <= h.len; n++) {
		r = parse(data, n, &scan, &again);
		must(r >= 0);
		if (r > 0)
			break;
		steps++;
	}
	must(r == 1 && steps == h.len && again.len == h.len && again.framing == h.framing);
}

static size_t decode(const uint8_t *data, size_t size, size_t cut, uint8_t *out, int *ret_over)
{
	struct h1_chunks c = { 0 };
	size_t at = 0, n = 0;

	*ret_over = 0;
	while (at < size && c.state != CHUNK_OVER) {
		size_t give = cut && size - at > cut ? cut : size - at;
		const uint8_t *p;
		size_t len;
		int64_t took = h1_chunks_feed(&c, data + at, give, &p, &len);

		if (took < 0) {
			*ret_over = -1;
			return n;
		}
		must(took > 0 && (size_t)took <= give);
		must(len == 0 || (p >= data + at && p + len <= data + at + took));
		if (len)
			memcpy(out + n, p, len);
		n += len;
		at += (size_t)took;
	}
	*ret_over = c.state == CHUNK_OVER;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *a = malloc(size + 1), *b = malloc(size + 1);
	int over_a, over_b;
	size_t n, m;

	must(a && b);
	try_head(data, size, h1_request, true);
	try_head(data, size, h1_proxy_request, true);
	try_head(data, size, answer, false);
	n = decode(data, size, 0, a, &over_a);
	m = decode(data, size, 1, b, &over_b);
	must(over_a == over_b);
	if (over_a >= 0)
		must(n == m && memcmp(a, b, n) == 0);
	free(a);
	free(b);
	return 0;
}
