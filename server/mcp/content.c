/* SPDX-License-Identifier: Apache-2.0 */
/*
 * content.c - blocks of a tool's result: text, images, and truncated output
 *
 * A model pays for every byte it reads, and errors are mostly at the end: of output that is too
 * long, the beginning and the end are kept, half each.
 */
#include "mcp/mcp_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

json_t *mcp_text(const void *p, size_t n)
{
	return json_pack("{s:s, s:o}", "type", "text", "text", shape_output(p, n));
}

void mcp_add_text(json_t *content, const char *label, const json_t *text)
{
	autobuf struct buf b = { 0 };

	if (!json_string_length(text))
		return;
	buf_printf(&b, "%s", label);
	buf_put(&b, json_string_value(text), json_string_length(text));
	if (!b.failed)
		json_array_append_new(content, mcp_text(b.p, b.len));
}

json_t *mcp_image(const char *base64, const char *mime)
{
	return json_pack("{s:s, s:s, s:s}", "type", "image", "data", base64, "mimeType", mime);
}

json_t *mcp_tool_result(json_t *content, json_t *structured, bool failed)
{
	json_t *j = json_pack("{s:o}", "content", content ? content : json_array());

	if (!j) {
		json_decref(structured);
		return NULL;
	}
	if (structured)
		json_object_set_new(j, "structuredContent", structured);
	if (failed)
		json_object_set_new(j, "isError", json_true());
	return j;
}

void mcp_clip_put(struct mcp_clip *c, const void *p, size_t n)
{
	size_t half = c->max / 2, k = MIN(n, half - MIN(half, c->head.len));

	c->total += n;
	buf_put(&c->head, p, k);
	p = (const uint8_t *)p + k;
	n -= k;
	if (n > half) {
		p = (const uint8_t *)p + (n - half);
		n = half;
	}
	buf_put(&c->tail, p, n);
	if (c->tail.len > 2 * half) { /* not for each piece: moving is expensive */
		memmove(c->tail.p, c->tail.p + (c->tail.len - half), half);
		c->tail.len = half;
	}
}

bool mcp_clip_cut(const struct mcp_clip *c)
{
	return c->total > c->max / 2 * 2;
}

static bool continues(uint8_t b)
{
	return (b & 0xc0) == 0x80;
}

json_t *mcp_clip_text(struct mcp_clip *c)
{
	autobuf struct buf b = { 0 };
	size_t half = c->max / 2, from = 0, to = c->head.len;

	if (c->head.failed || c->tail.failed)
		return NULL;
	if (!mcp_clip_cut(c)) {
		buf_put(&b, c->head.p, c->head.len);
		buf_put(&b, c->tail.p, c->tail.len);
		return b.failed ? NULL : shape_output(b.p, b.len);
	}
	from = c->tail.len - MIN(half, c->tail.len);
	for (int i = 0; i < 3 && from < c->tail.len && continues(c->tail.p[from]); i++)
		from++;
	for (int i = 0; i < 3 && to && continues(c->head.p[to - 1]); i++)
		to--;
	to -= to && c->head.p[to - 1] >= 0xc0; /* the first byte of a truncated character */
	buf_put(&b, c->head.p, to);
	buf_printf(&b, "\n[... %" PRIu64 " bytes left out ...]\n",
	           c->total - to - (c->tail.len - from));
	buf_put(&b, c->tail.p + from, c->tail.len - from);
	return b.failed ? NULL : shape_output(b.p, b.len);
}

void mcp_clip_done(struct mcp_clip *c)
{
	buf_done(&c->head);
	buf_done(&c->tail);
}
