/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - what targets share: checks, and pieces of an input */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must(bool ok)
{
	if (!ok)
		abort();
}

/* What is left of an input. */
struct in {
	const uint8_t *p;
	size_t n;
};

static inline uint8_t in_u8(struct in *i)
{
	if (!i->n)
		return 0;
	i->n--;
	return *i->p++;
}

static inline uint16_t in_u16(struct in *i)
{
	uint8_t high = in_u8(i);

	return (uint16_t)(high << 8 | in_u8(i));
}

/* Up to n bytes, or as many as there are. */
static inline struct in in_take(struct in *i, size_t n)
{
	struct in r = { i->p, n < i->n ? n : i->n };

	i->p += r.n;
	i->n -= r.n;
	return r;
}

/* Up to the next byte of that value, which is skipped; else all. */
static inline struct in in_until(struct in *i, uint8_t end)
{
	const uint8_t *e = i->n ? memchr(i->p, end, i->n) : NULL;
	struct in r = in_take(i, e ? (size_t)(e - i->p) : i->n);

	if (e)
		in_take(i, 1);
	return r;
}

/* As a string in a block of exactly its size, up to the first NUL. The caller frees it. */
static inline char *in_text(struct in i)
{
	size_t n = i.n ? strnlen((const char *)i.p, i.n) : 0;
	char *s = malloc(n + 1);

	must(s != NULL);
	if (n)
		memcpy(s, i.p, n);
	s[n] = '\0';
	return s;
}
