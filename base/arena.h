/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/arena.h - memory that is freed all at once: for results made of many strings and arrays
 *
 * The caller that wants a result owns the arena, and frees it once it is done with the result.
 * Running out of memory is remembered: strings are then "", arrays NULL, and arena_check() fails.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;
struct err;

struct arena {
	struct arena_chunk *last; /* owned; with those before it */
	bool failed;              /* out of memory once */
};

void arena_done(struct arena *a);
#define autoarena __attribute__((cleanup(arena_done))) struct arena
/* n elements, all zeros; NULL when out of memory, never for n = 0. */
void *arena_array(struct arena *a, size_t n, size_t size);
/* Of an array of n elements (NULL for none): one with room for one more. NULL when out of memory.
 */
void *arena_more(struct arena *a, void *v, size_t n, size_t size);
/* A copy of n bytes with a NUL behind them; "" when out of memory. */
const char *arena_copy(struct arena *a, const void *p, size_t n);
const char *arena_str(struct arena *a, const char *s);
const char *arena_printf(struct arena *a, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));
/* 0, or -ENOMEM when one of the above has failed. */
int arena_check(const struct arena *a, struct err *err);

/* Everything since a mark is given back. */
struct arena_mark {
	struct arena_chunk *chunk;
	size_t used;
};
struct arena_mark arena_mark(const struct arena *a);
void arena_back(struct arena *a, struct arena_mark m);
