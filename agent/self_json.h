/* SPDX-License-Identifier: Apache-2.0 */
/* agent/self_json.h - just enough JSON for `pando self`; for agent/ only */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* A value in a text; p NULL: there is none. */
struct jval {
	const char *p;
	size_t n;
};

/* The value of the text, if it is one and nothing else. */
struct jval jval_of(const char *text, size_t n);
/* The object's member of that name. */
struct jval jval_get(struct jval object, const char *name);
/* The next element of the array; *at is 0 at first. p NULL: there is none left. */
struct jval jval_next(struct jval array, size_t *at);
/* The string's text, appended; false if it is no string. */
bool jval_text(struct jval v, struct buf *ret);
/* The same with a NUL, cut to size; "" if it is no string. */
const char *jval_word(struct jval v, char *ret, size_t size);
long jval_number(struct jval v, long otherwise);
/* Appends the text as a JSON string. */
void json_quote(struct buf *b, const char *s);
