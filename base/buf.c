/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_MIN 256 /* bytes of the first allocation */

void buf_done(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ 0 };
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : BUF_MIN;
	uint8_t *p;

	if (b->failed || n > SIZE_MAX / 4 || b->len > SIZE_MAX / 4) {
		b->failed = true;
		return NULL;
	}
	if (b->p && b->cap - b->len >= n)
		return b->p + b->len;
	while (cap - b->len < n)
		cap *= 2;
	p = realloc(b->p, cap);
	if (!p) {
		b->failed = true;
		return NULL;
	}
	b->p = p;
	b->cap = cap;
	return p + b->len;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *d = buf_reserve(b, n);

	if (!d)
		return;
	if (n)
		memcpy(d, p, n);
	b->len += n;
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	buf_put(b, &v, 1);
}

void buf_put_u16(struct buf *b, uint16_t v)
{
	uint8_t t[2];

	put_be16(t, v);
	buf_put(b, t, sizeof(t));
}

void buf_put_u32(struct buf *b, uint32_t v)
{
	uint8_t t[4];

	put_be32(t, v);
	buf_put(b, t, sizeof(t));
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	buf_put_u32(b, (uint32_t)(v >> 32));
	buf_put_u32(b, (uint32_t)v);
}

void buf_put_blob(struct buf *b, const void *p, size_t n)
{
	if (n > UINT32_MAX) {
		b->failed = true;
		return;
	}
	buf_put_u32(b, (uint32_t)n);
	buf_put(b, p, n);
}

void buf_put_str(struct buf *b, const char *s)
{
	buf_put_blob(b, s ? s : "", s ? strlen(s) : 0);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	uint8_t *d;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !(d = buf_reserve(b, (size_t)n + 1)))
		return;
	va_start(ap, fmt);
	vsnprintf((char *)d, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

char *buf_take_str(struct buf *b)
{
	char *s;

	buf_put_u8(b, 0);
	if (b->failed) {
		buf_done(b);
		return NULL;
	}
	s = (char *)b->p;
	*b = (struct buf){ 0 };
	return s;
}

static const uint8_t *rd_take(struct rd *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || c->left < n) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	c->left -= n;
	return p;
}

int rd_bytes(struct rd *c, void *dst, size_t n)
{
	const uint8_t *p = rd_take(c, n);

	if (!p)
		return -EBADMSG;
	memcpy(dst, p, n);
	return 0;
}

int rd_u8(struct rd *c, uint8_t *ret)
{
	return rd_bytes(c, ret, 1);
}

int rd_u16(struct rd *c, uint16_t *ret)
{
	const uint8_t *p = rd_take(c, 2);

	if (!p)
		return -EBADMSG;
	*ret = get_be16(p);
	return 0;
}

int rd_u32(struct rd *c, uint32_t *ret)
{
	const uint8_t *p = rd_take(c, 4);

	if (!p)
		return -EBADMSG;
	*ret = get_be32(p);
	return 0;
}

int rd_u64(struct rd *c, uint64_t *ret)
{
	const uint8_t *p = rd_take(c, 8);

	if (!p)
		return -EBADMSG;
	*ret = (uint64_t)get_be32(p) << 32 | get_be32(p + 4);
	return 0;
}

int rd_blob(struct rd *c, size_t max, const uint8_t **ret, size_t *ret_len)
{
	const uint8_t *p;
	uint32_t n;

	if (rd_u32(c, &n) < 0)
		return -EBADMSG;
	if (n > max) {
		c->bad = true;
		return -EBADMSG;
	}
	p = rd_take(c, n);
	if (!p)
		return -EBADMSG;
	*ret = p;
	*ret_len = n;
	return 0;
}

int rd_str(struct rd *c, char *dst, size_t size)
{
	const uint8_t *p;
	size_t n;

	if (rd_blob(c, size - 1, &p, &n) < 0)
		return -EBADMSG;
	if (n && memchr(p, 0, n)) {
		c->bad = true;
		return -EBADMSG;
	}
	if (n)
		memcpy(dst, p, n);
	dst[n] = '\0';
	return 0;
}

int rd_end(struct rd *c)
{
	return c->bad || c->left ? -EBADMSG : 0;
}
