/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_json_content.c - file content found in and pulled out of any body
 *
 * What the scanner accepts must be read to its end without surprise; where jansson accepts
 * the document too, both must see the same text.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/vms/shared.h"
#include "base/buf.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static bool read_all(const struct content *c, struct buf *out)
{
	struct content_reader *r = NULL;
	struct err err = { 0 };
	ssize_t n;

	must(content_open(c, &r, &err) == 0);
	do {
		uint8_t *room = buf_reserve(out, 61);

		must(room != NULL);
		n = content_read(r, room, 61, &err);
		must(n <= 61);
		if (n > 0)
			out->len += (size_t)n;
	} while (n > 0);
	content_close(r);
	must(n == 0 || err.msg[0]);
	return n == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autobuf struct buf out = { 0 };
	autojson json_t *doc = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
	const json_t *text = doc ? json_object_get(doc, "content") : NULL;
	struct content c = { 0 };
	struct err err = { 0 };

	if (content_find((const char *)data, size, &c, &err) < 0) {
		must(err.code < 0 && err.msg[0]);
		return 0;
	}
	must(c.p && c.p <= c.end && (const uint8_t *)c.p >= data &&
	     (const uint8_t *)c.end <= data + size);
	if (!read_all(&c, &out))
		return 0;
	must(out.len <= (size_t)(c.end - c.p));
	if (!c.base64 && json_is_string(text)) {
		must(out.len == json_string_length(text));
		must(out.len == 0 || memcmp(out.p, json_string_value(text), out.len) == 0);
	}
	return 0;
}
