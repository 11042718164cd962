/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - chunks of memory, each twice as large as the one before it, up to a limit */
#include "base/arena.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

#define CHUNK_FIRST 4096u
#define CHUNK_MAX (256u << 10) /* larger things have a chunk of their own */

struct arena_chunk {
	struct arena_chunk *before;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

void arena_done(struct arena *a)
{
	arena_back(a, (struct arena_mark){ 0 });
	a->failed = false;
}

/* A place for n bytes; align is a power of two. */
static void *take(struct arena *a, size_t n, size_t align)
{
	struct arena_chunk *c = a->last;
	size_t at = c ? (c->used + align - 1) & ~(align - 1) : 0, size;

	if (!c || at > c->size || n > c->size - at) {
		size = c ? MIN(c->size * 2, (size_t)CHUNK_MAX) : CHUNK_FIRST;
		size = MAX(size, n);
		c = size < SIZE_MAX / 2 ? malloc(sizeof(*c) + size) : NULL;
		if (!c) {
			a->failed = true;
			return NULL;
		}
		*c = (struct arena_chunk){ .before = a->last, .size = size };
		a->last = c;
		at = 0;
	}
	c->used = at + n;
	return c->bytes + at;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		a->failed = true;
		return NULL;
	}
	p = take(a, MAX(bytes, (size_t)1), _Alignof(max_align_t));
	return p ? memset(p, 0, bytes) : NULL;
}

void *arena_more(struct arena *a, void *v, size_t n, size_t size)
{
	void *p;

	if (n & (n - 1)) /* room for the next power of two is there already */
		return v;
	p = arena_array(a, n ? 2 * n : 1, size);
	return p && n ? memcpy(p, v, n * size) : p;
}

const char *arena_copy(struct arena *a, const void *p, size_t n)
{
	char *s = n < SIZE_MAX ? take(a, n + 1, 1) : NULL;

	if (!s)
		return "";
	if (n)
		memcpy(s, p, n);
	s[n] = '\0';
	return s;
}

const char *arena_str(struct arena *a, const char *s)
{
	return arena_copy(a, s, strlen(s));
}

const char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	char *s = NULL;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n >= 0 && (s = take(a, (size_t)n + 1, 1)))
		vsnprintf(s, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return s ? s : "";
}

int arena_check(const struct arena *a, struct err *err)
{
	return a->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

struct arena_mark arena_mark(const struct arena *a)
{
	return (struct arena_mark){ a->last, a->last ? a->last->used : 0 };
}

void arena_back(struct arena *a, struct arena_mark m)
{
	while (a->last != m.chunk) {
		struct arena_chunk *c = a->last;

		a->last = c->before;
		free(c);
	}
	if (a->last)
		a->last->used = m.used;
}
