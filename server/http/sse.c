/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sse.c - server-sent events: a command's output as JSON that any client can read
 *
 * Bytes come in pieces that may cut a character in two: the incomplete part waits for the next
 * piece. A piece that is not UTF-8 (or contains a NUL) goes out as base64, and the event says so.
 */
#include "http/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/utf8.h"

ssize_t sse_drain(struct sse *s, char *p, size_t max)
{
	size_t n = MIN(s->out.len - s->sent, max);

	if (s->out.failed)
		return -ENOMEM;
	if (n)
		memcpy(p, s->out.p + s->sent, n);
	s->sent += n;
	if (s->sent == s->out.len) {
		buf_reset(&s->out);
		s->sent = 0;
	}
	return (ssize_t)n;
}

void sse_event(struct sse *s, const char *event, json_t *data_consume)
{
	char *text = data_consume ? json_dumps(data_consume, JSON_COMPACT) : NULL;

	/* JSON text has no line breaks: one data line is enough. */
	if (text) {
		buf_printf(&s->out, "event: %s\ndata: ", event);
		buf_put(&s->out, text, strlen(text));
		buf_put(&s->out, "\n\n", 2);
	} else {
		s->out.failed = true;
	}
	free(text);
	json_decref(data_consume);
}

void sse_failed(struct sse *s, const struct err *err)
{
	sse_event(s, "error",
	          json_pack("{s:s, s:o}", "code", err_code_name(code_of(err)), "message",
	                    shape_output(err->msg, strlen(err->msg))));
}

json_t *shape_base64(const void *p, size_t n)
{
	autofree unsigned char *text = malloc((n + 2) / 3 * 4 + 1);
	int k;

	if (!text)
		return NULL;
	k = EVP_EncodeBlock(text, p, (int)n);
	return json_stringn_nocheck((char *)text, (size_t)k);
}

/* Bytes at the end that begin an incomplete character: 0 to 3. */
static size_t unfinished(const uint8_t *p, size_t n)
{
	for (size_t i = 1; i <= 3 && i <= n; i++) {
		uint8_t c = p[n - i];
		size_t need = c >= 0xf0 && c <= 0xf4   ? 4
		              : c >= 0xe0 && c <= 0xef ? 3
		              : c >= 0xc2 && c <= 0xdf ? 2
		                                       : 0;

		if (need)
			return need > i ? i : 0;
		if ((c & 0xc0) != 0x80)
			return 0;
	}
	return 0;
}

void sse_output(struct sse *s, struct sse_text *t, const char *event, const uint8_t *p, size_t n,
                int64_t off, bool last)
{
	uint8_t all[sizeof(t->carry) + SSE_PIECE];
	size_t carried = t->n, len = 0, keep;
	bool text;
	json_t *j;

	n = MIN(n, (size_t)SSE_PIECE);
	memcpy(all, t->carry, t->n);
	len = t->n;
	if (n)
		memcpy(all + len, p, n);
	len += n;
	keep = last ? 0 : unfinished(all, len);
	len -= keep;
	memcpy(t->carry, all + len, keep);
	t->n = keep;
	if (!len)
		return;
	text = !memchr(all, 0, len) && utf8_valid(all, len);
	j = json_pack("{s:o, s:s}", "data",
	              text ? json_stringn((char *)all, len) : shape_base64(all, len), "encoding",
	              text ? "utf8" : "base64");
	if (off >= 0)
		json_object_set_new(j, "offset", json_integer(off - (int64_t)carried));
	sse_event(s, event, j);
}
