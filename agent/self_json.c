/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_json.c - just enough JSON for `pando self`
 *
 * A value is a piece of the text. Every step is bounded by its end, and nesting by DEPTH_MAX; what
 * is not JSON has no members and no elements.
 */
#include "agent/self_json.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

#define DEPTH_MAX 32

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && strchr(" \t\r\n", *p) && *p)
		p++;
	return p;
}

/* Behind the string that begins at p, or NULL. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		if (*p == '"')
			return p + 1;
		p += *p == '\\';
	}
	return NULL;
}

/* Behind the value that begins at p, or NULL. */
static const char *skip_value(const char *p, const char *end, int depth)
{
	char open = '\0';
	bool object;

	if (p < end)
		open = *p;
	object = open == '{';
	if (open == '"')
		return skip_string(p, end);
	if (open != '{' && open != '[') {
		const char *from = p;

		while (p < end && (isalnum((unsigned char)*p) || (*p && strchr("+-.", *p))))
			p++;
		return p > from ? p : NULL;
	}
	if (!depth)
		return NULL;
	p = skip_space(p + 1, end);
	if (p < end && *p == (object ? '}' : ']'))
		return p + 1;
	while (p && p < end) {
		if (object) {
			p = *p == '"' ? skip_string(p, end) : NULL;
			p = p ? skip_space(p, end) : NULL;
			if (!p || p == end || *p != ':')
				return NULL;
			p = skip_space(p + 1, end);
		}
		p = skip_value(p, end, depth - 1);
		p = p ? skip_space(p, end) : NULL;
		if (!p || p == end)
			return NULL;
		if (*p == (object ? '}' : ']'))
			return p + 1;
		if (*p != ',')
			return NULL;
		p = skip_space(p + 1, end);
	}
	return NULL;
}

struct jval jval_of(const char *text, size_t n)
{
	const char *end = text + n, *p = skip_space(text, end),
	           *past = skip_value(p, end, DEPTH_MAX);

	if (!past || skip_space(past, end) != end)
		return (struct jval){ 0 };
	return (struct jval){ p, (size_t)(past - p) };
}

/* The container was checked when it was made: here everything is in its place. */
struct jval jval_get(struct jval object, const char *name)
{
	const char *end = object.p + object.n, *p = object.p;

	if (!p || *p != '{')
		return (struct jval){ 0 };
	p = skip_space(p + 1, end);
	while (p && p < end && *p == '"') {
		const char *key = p + 1, *past = skip_string(p, end), *value;
		bool hit = (size_t)(past - key) == strlen(name) + 1 &&
		           memcmp(key, name, strlen(name)) == 0;

		value = skip_space(skip_space(past, end) + 1, end);
		past = skip_value(value, end, DEPTH_MAX);
		if (hit || !past)
			return (struct jval){ past ? value : NULL,
				              past ? (size_t)(past - value) : 0 };
		p = skip_space(past, end);
		p = skip_space(p + (p < end), end); /* the comma, or the end */
	}
	return (struct jval){ 0 };
}

struct jval jval_next(struct jval array, size_t *at)
{
	const char *end = array.p + array.n, *p, *past;

	if (!array.p || *array.p != '[' || *at >= array.n)
		return (struct jval){ 0 };
	p = skip_space(array.p + (*at ? *at : 1), end);
	if (p == end || *p == ']')
		return (struct jval){ 0 };
	past = skip_value(p, end, DEPTH_MAX);
	if (!past)
		return (struct jval){ 0 };
	*at = (size_t)(skip_space(past, end) + 1 - array.p);
	return (struct jval){ p, (size_t)(past - p) };
}

static void put_utf8(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_put_u8(b, (uint8_t)c);
	} else if (c < 0x800) {
		buf_put_u8(b, (uint8_t)(0xc0 | c >> 6));
		buf_put_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
	} else if (c < 0x10000) {
		buf_put_u8(b, (uint8_t)(0xe0 | c >> 12));
		buf_put_u8(b, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
		buf_put_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
	} else {
		buf_put_u8(b, (uint8_t)(0xf0 | c >> 18));
		buf_put_u8(b, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
		buf_put_u8(b, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
		buf_put_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
	}
}

/* The four digits at p; 0xfffd if they are none. */
static uint32_t hex4(const char *p, const char *end)
{
	char digits[5] = "";

	if (end - p < 4)
		return 0xfffd;
	memcpy(digits, p, 4);
	return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (uint32_t)strtoul(digits, NULL, 16)
	                                                     : 0xfffd;
}

bool jval_text(struct jval v, struct buf *ret)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *end = v.p + v.n - 1;

	if (!v.p || v.n < 2 || *v.p != '"')
		return false;
	for (const char *p = v.p + 1; p < end; p++) {
		const char *hit;
		uint32_t c;

		if (*p != '\\') {
			buf_put(ret, p, 1);
			continue;
		}
		p++;
		if (*p != 'u') {
			hit = *p ? strchr(from, *p) : NULL;
			buf_put(ret, hit ? &to[hit - from] : p, 1);
			continue;
		}
		c = hex4(p + 1, end);
		p += MIN((ptrdiff_t)4, end - p - 1);
		if (c >= 0xd800 && c < 0xdc00 && end - p > 6 && p[1] == '\\' && p[2] == 'u') {
			c = 0x10000 + ((c - 0xd800) << 10) + ((hex4(p + 3, end) - 0xdc00) & 0x3ff);
			p += 6;
		}
		put_utf8(ret, c);
	}
	return !ret->failed;
}

const char *jval_word(struct jval v, char *ret, size_t size)
{
	autobuf struct buf b = { 0 };
	size_t n = jval_text(v, &b) ? MIN(b.len, size - 1) : 0;

	if (n)
		memcpy(ret, b.p, n);
	ret[n] = '\0';
	return ret;
}

long jval_number(struct jval v, long otherwise)
{
	char text[24] = "";

	if (!v.p || !v.n || v.n >= sizeof(text) || !strchr("-0123456789", *v.p))
		return otherwise;
	memcpy(text, v.p, v.n);
	return strtol(text, NULL, 10);
}

void json_quote(struct buf *b, const char *s)
{
	buf_put_u8(b, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_printf(b, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			buf_printf(b, "\\u%04x", (unsigned)*s);
		else
			buf_put(b, s, 1);
	}
	buf_put_u8(b, '"');
}
