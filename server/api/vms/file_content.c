/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_content.c - {"content": "...", "encoding": "base64"} without keeping it in memory twice
 *
 * File content arrives as one JSON string of up to hundreds of megabytes, and the encoding may
 * come after it. content_find() walks the (mapped) body once and notes where the string is;
 * content_read() then unescapes and decodes it piece by piece. Nothing of the size of the content
 * is ever allocated.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "base/utf8.h"

#define TAG ERR_FILES_BAD_REQUEST
#define STAGE 4096 /* bytes decoded at a time */

struct scan {
	const char *p, *end;
};

static int bad(struct err *err, const char *what)
{
	return err_tag(err, -EINVAL, TAG, "the body is not valid JSON (%s)", what);
}

static void skip_space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

static bool take(struct scan *s, char c)
{
	skip_space(s);
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

/* A string; the span is the text between the quotes, still escaped. */
static int take_string(struct scan *s, const char **ret, size_t *ret_n, struct err *err)
{
	const char *from;

	if (!take(s, '"'))
		return bad(err, "a string is missing");
	from = s->p;
	while (s->p < s->end && *s->p != '"') {
		if ((unsigned char)*s->p < 0x20)
			return bad(err, "a control character in a string");
		s->p += *s->p == '\\' ? 2 : 1;
	}
	if (s->p >= s->end)
		return bad(err, "a string does not end");
	*ret = from;
	*ret_n = (size_t)(s->p - from);
	s->p++;
	return 0;
}

/* Length of a number or a word. */
static size_t token_len(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && ((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'z') ||
	                 p[i] == '+' || p[i] == '-' || p[i] == '.' || p[i] == 'E'))
		i++;
	return i;
}

/* Skips any value. */
static int skip_value(struct scan *s, struct err *err)
{
	unsigned depth = 0;
	const char *str;
	size_t n;
	int r;

	do {
		skip_space(s);
		if (s->p == s->end)
			return bad(err, "a value does not end");
		if (*s->p == '"') {
			if ((r = take_string(s, &str, &n, err)) < 0)
				return r;
		} else if (*s->p == '{' || *s->p == '[') {
			if (++depth > JSON_DEPTH_MAX)
				return bad(err, "it is nested too deeply");
			s->p++;
		} else if (*s->p == '}' || *s->p == ']') {
			if (depth == 0)
				return bad(err, "a value is missing");
			depth--;
			s->p++;
		} else if (*s->p == ',' || *s->p == ':') {
			if (depth == 0)
				return bad(err, "a value is missing");
			s->p++;
		} else {
			n = token_len(s->p, (size_t)(s->end - s->p));
			if (n == 0)
				return bad(err, "a value is missing");
			s->p += n;
		}
	} while (depth);
	return 0;
}

static bool key_is(const char *p, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(p, name, n) == 0;
}

static int take_encoding(struct scan *s, bool *ret_base64, struct err *err)
{
	const char *p;
	size_t n;
	int r;

	skip_space(s);
	if (s->end - s->p >= 4 && memcmp(s->p, "null", 4) == 0) {
		s->p += 4;
		return 0;
	}
	if ((r = take_string(s, &p, &n, err)) < 0)
		return r;
	if (key_is(p, n, "base64"))
		*ret_base64 = true;
	else if (key_is(p, n, "utf8") || key_is(p, n, "utf-8"))
		*ret_base64 = false;
	else
		return err_tag(err, -EINVAL, TAG, "'encoding' must be utf8 or base64");
	return 0;
}

int content_find(const char *text, size_t n, struct content *ret, struct err *err)
{
	struct scan s = { text, text + n };
	struct content c = { 0 };
	const char *key;
	size_t key_n;
	int r;

	if (!take(&s, '{'))
		return err_tag(err, -EINVAL, TAG, "the body must be a JSON object");
	for (bool first = true; !take(&s, '}'); first = false) {
		if (!first && !take(&s, ','))
			return bad(err, "a comma is missing");
		if ((r = take_string(&s, &key, &key_n, err)) < 0)
			return r;
		if (!take(&s, ':'))
			return bad(err, "a colon is missing");
		if (key_is(key, key_n, "content")) {
			size_t len = 0;

			skip_space(&s);
			if (c.p || s.p == s.end || *s.p != '"')
				return err_tag(err, -EINVAL, TAG, "'content' must be one string");
			if ((r = take_string(&s, &c.p, &len, err)) < 0)
				return r;
			c.end = c.p + len;
		} else if (key_is(key, key_n, "encoding")) {
			if ((r = take_encoding(&s, &c.base64, err)) < 0)
				return r;
		} else if ((r = skip_value(&s, err)) < 0) {
			return r;
		}
	}
	skip_space(&s);
	if (s.p != s.end)
		return bad(err, "something follows the object");
	if (!c.p)
		return err_tag(err, -EINVAL, TAG, "'content' is missing");
	*ret = c;
	return 0;
}

struct content_reader {
	struct content c;
	EVP_ENCODE_CTX *decoder; /* owned; NULL for text */
	uint8_t stage[STAGE];
	size_t n, off; /* bytes in stage, and how many were returned */
	bool ended;
};

int content_open(const struct content *c, struct content_reader **ret, struct err *err)
{
	struct content_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	r->c = *c;
	if (c->base64) {
		r->decoder = EVP_ENCODE_CTX_new();
		if (!r->decoder) {
			free(r);
			return err_set(err, -ENOMEM, "out of memory");
		}
		EVP_DecodeInit(r->decoder);
	}
	*ret = r;
	return 0;
}

struct content_reader *content_close(struct content_reader *r)
{
	if (!r)
		return NULL;
	EVP_ENCODE_CTX_free(r->decoder);
	free(r);
	return NULL;
}

static int take_hex4(struct content *c, uint32_t *ret)
{
	uint32_t v = 0;

	if (c->end - c->p < 4)
		return -EINVAL;
	for (int i = 0; i < 4; i++) {
		char h = c->p[i];

		v = v << 4;
		if (h >= '0' && h <= '9')
			v |= (uint32_t)(h - '0');
		else if ((h | 32) >= 'a' && (h | 32) <= 'f')
			v |= (uint32_t)((h | 32) - 'a' + 10);
		else
			return -EINVAL;
	}
	c->p += 4;
	*ret = v;
	return 0;
}

/* After "\u": one character, of a surrogate pair if need be. */
static int take_unicode(struct content *c, struct buf *out)
{
	uint32_t cp, low;

	if (take_hex4(c, &cp) < 0 || (cp >= 0xdc00 && cp <= 0xdfff))
		return -EINVAL;
	if (cp >= 0xd800 && cp <= 0xdbff) {
		if (c->end - c->p < 6 || c->p[0] != '\\' || c->p[1] != 'u')
			return -EINVAL;
		c->p += 2;
		if (take_hex4(c, &low) < 0 || low < 0xdc00 || low > 0xdfff)
			return -EINVAL;
		cp = 0x10000 + ((cp - 0xd800) << 10 | (low - 0xdc00));
	}
	utf8_put_char(out, cp);
	return 0;
}

/* Up to max bytes (and the rest of one character) of the string, unescaped. */
static int unescape(struct content *c, struct buf *out, size_t max)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

	while (c->p < c->end && out->len < max) {
		const char *e;

		if (*c->p != '\\') {
			size_t run = MIN((size_t)(c->end - c->p), max - out->len);
			const char *stop = memchr(c->p, '\\', run);

			run = stop ? (size_t)(stop - c->p) : run;
			buf_put(out, c->p, run);
			c->p += run;
			continue;
		}
		c->p++;
		if (c->p == c->end)
			return -EINVAL;
		if (*c->p == 'u') {
			c->p++;
			if (take_unicode(c, out) < 0)
				return -EINVAL;
			continue;
		}
		e = memchr(from, *c->p, sizeof(from) - 1);
		if (!e)
			return -EINVAL;
		buf_put_u8(out, (uint8_t)to[e - from]);
		c->p++;
	}
	return out->failed ? -ENOMEM : 0;
}

static bool is_base64(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!((p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= 'a' && p[i] <= 'z') ||
		      (p[i] >= '0' && p[i] <= '9') || p[i] == '+' || p[i] == '/' || p[i] == '='))
			return false;
	return true;
}

static int refill(struct content_reader *r, struct err *err)
{
	autobuf struct buf raw = { 0 };
	int got = 0, k;

	r->n = r->off = 0;
	if (r->ended)
		return 0;
	k = unescape(&r->c, &raw, STAGE / 2);
	if (k < 0)
		return k == -ENOMEM ? err_set(err, k, "out of memory")
		                    : err_tag(err, k, TAG, "'content' has a bad escape sequence");
	if (!r->decoder) {
		if (raw.len)
			memcpy(r->stage, raw.p, raw.len);
		r->n = raw.len;
		r->ended = raw.len == 0;
		return 0;
	}
	if (!is_base64(raw.p, raw.len) ||
	    (raw.len && EVP_DecodeUpdate(r->decoder, r->stage, &got, raw.p, (int)raw.len) < 0))
		return err_tag(err, -EINVAL, TAG, "'content' is not valid base64");
	r->n = (size_t)got;
	if (r->c.p == r->c.end) {
		r->ended = true;
		if (EVP_DecodeFinal(r->decoder, r->stage + r->n, &got) < 0)
			return err_tag(err, -EINVAL, TAG, "'content' is not valid base64");
		r->n += (size_t)got;
	}
	return 0;
}

ssize_t content_read(struct content_reader *r, uint8_t *p, size_t n, struct err *err)
{
	while (r->off == r->n) {
		int k = refill(r, err);

		if (k < 0)
			return k;
		if (r->n == 0 && r->ended)
			return 0;
	}
	n = MIN(n, r->n - r->off);
	memcpy(p, r->stage + r->off, n);
	r->off += n;
	return (ssize_t)n;
}
