/* SPDX-License-Identifier: Apache-2.0 */
/* sse.c - server-sent events, read: lines "event: x", "data: y", an empty line ends one */
#include <errno.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/stream.h"

static int deliver(struct sse_reader *r)
{
	autojson json_t *data = NULL;
	int status = 0;

	if (r->data.len) {
		data = json_loadb((const char *)r->data.p, r->data.len, JSON_DECODE_ANY, NULL);
		status = r->fn(r->ctx, r->event, data);
	}
	buf_reset(&r->data);
	r->event[0] = '\0';
	return status;
}

static int take_line(struct sse_reader *r)
{
	const char *p = (const char *)r->line.p;
	size_t n = r->line.len;

	if (n && p[n - 1] == '\r')
		n--;
	if (!n)
		return deliver(r);
	if (n > 6 && memcmp(p, "event:", 6) == 0) {
		p += 6 + (p[6] == ' ');
		n -= (size_t)(p - (const char *)r->line.p);
		n = MIN(n, sizeof(r->event) - 1);
		memcpy(r->event, p, n);
		r->event[n] = '\0';
	} else if (n > 5 && memcmp(p, "data:", 5) == 0) {
		size_t skip = 5 + (p[5] == ' ');

		buf_put(&r->data, p + skip, n - skip);
	}
	return 0;
}

int sse_feed(struct sse_reader *r, const void *bytes, size_t n)
{
	const char *p = bytes, *end = p + n;
	int status;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t k = (size_t)((nl ? nl : end) - p);

		buf_put(&r->line, p, k);
		if (r->line.len + r->data.len > SSE_EVENT_MAX || r->line.failed || r->data.failed)
			return cli_fail(CLI_UNREACHABLE,
			                "the server sent an event that is too long");
		p += k + (nl != NULL);
		if (!nl)
			break;
		status = take_line(r);
		buf_reset(&r->line);
		if (status)
			return status;
	}
	return 0;
}

int sse_data(void *reader, const void *p, size_t n)
{
	return sse_feed(reader, p, n);
}

void sse_done(struct sse_reader *r)
{
	buf_done(&r->line);
	buf_done(&r->data);
}

unsigned char *base64_decode(const char *s, size_t *ret_len)
{
	size_t n = strlen(s), pad = 0;
	autofree unsigned char *out = NULL;
	int k;

	while (pad < 2 && pad < n && s[n - pad - 1] == '=')
		pad++;
	if (n % 4 || n > SSE_EVENT_MAX || !(out = malloc(n / 4 * 3 + 1)))
		return NULL;
	k = EVP_DecodeBlock(out, (const unsigned char *)s, (int)n);
	if (k < 0 || (size_t)k < pad)
		return NULL;
	*ret_len = (size_t)k - pad;
	return TAKE_PTR(out);
}

char *base64_encode(const void *p, size_t n)
{
	unsigned char *out = malloc((n + 2) / 3 * 4 + 1);

	if (!out)
		cli_oom();
	EVP_EncodeBlock(out, p, (int)n);
	return (char *)out;
}

unsigned char *sse_bytes(const json_t *data, size_t *ret_len)
{
	const json_t *text = json_object_get(data, "data");
	unsigned char *copy;

	if (!json_is_string(text))
		return NULL;
	if (strcmp(cli_str(data, "encoding"), "base64") == 0)
		return base64_decode(json_string_value(text), ret_len);
	*ret_len = json_string_length(text);
	copy = malloc(*ret_len + 1);
	if (!copy)
		cli_oom();
	memcpy(copy, json_string_value(text), *ret_len);
	return copy;
}
