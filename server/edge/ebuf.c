/* SPDX-License-Identifier: Apache-2.0 */
/* ebuf.c - a byte queue: appended at the end, consumed from the front, no memory while empty */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

uint8_t *ebuf_room(struct ebuf *b, size_t n, size_t max)
{
	size_t cap = b->cap ? b->cap : 4096;
	uint8_t *p;

	if (b->len + n > max)
		return NULL;
	if (b->off + b->len + n <= b->cap)
		return b->p + b->off + b->len;
	if (b->len + n <= b->cap) {
		memmove(b->p, b->p + b->off, b->len);
		b->off = 0;
		return b->p + b->len;
	}
	while (cap < b->len + n)
		cap *= 2;
	cap = MIN(cap, MAX(max, b->len + n));
	p = malloc(cap);
	if (!p)
		return NULL;
	if (b->len)
		memcpy(p, b->p + b->off, b->len);
	free(b->p);
	b->p = p;
	b->off = 0;
	b->cap = cap;
	return p + b->len;
}

int ebuf_put(struct ebuf *b, const void *p, size_t n)
{
	uint8_t *to;

	if (n == 0)
		return 0;
	to = ebuf_room(b, n, SIZE_MAX / 4);
	if (!to)
		return -ENOMEM;
	memcpy(to, p, n);
	b->len += n;
	return 0;
}

int ebuf_printf(struct ebuf *b, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -ENOBUFS;
	return ebuf_put(b, text, (size_t)n);
}

void ebuf_take(struct ebuf *b, size_t n)
{
	b->off += n;
	b->len -= n;
	if (b->len == 0)
		b->off = 0;
}

void ebuf_done(struct ebuf *b)
{
	free(b->p);
	*b = (struct ebuf){ 0 };
}
