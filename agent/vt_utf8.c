/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vt_utf8.c - only whole characters go further
 *
 * Programs write bytes, and a read may end within a character. libvterm's decoder has one state for
 * text that reaches it in pieces, between which there may be controls that we handle: with half a
 * character left in it, it draws one that nobody sent. So the beginning of a character waits here
 * for its rest; what turns out not to be UTF-8 becomes U+FFFD, once for each such sequence.
 */
#include <string.h>

#include "agent/vt_internal.h"
#include "base/auto.h"
#include "base/utf8.h"

#define PIECE 1024u
#define SHORT 64u /* plain text that is copied to what is around it */

static const uint8_t replacement[] = { 0xef, 0xbf, 0xbd };

/* Bytes that a character takes which begins like this; 0: none does. */
static size_t wanted(uint8_t lead)
{
	return lead < 0x80   ? 1
	       : lead < 0xc2 ? 0
	       : lead < 0xe0 ? 2
	       : lead < 0xf0 ? 3
	       : lead < 0xf5 ? 4
	                     : 0;
}

/* May it be the second byte after lead? Rules out surrogates, longer forms and what is over
 * U+10FFFF as soon as they can be told. */
static bool second(uint8_t lead, uint8_t c)
{
	uint8_t from = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
	uint8_t to = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;

	return c >= from && c <= to;
}

static bool fits(const struct vt *t, uint8_t c)
{
	return t->n_part == 1 ? second(t->part[0], c) : (c & 0xc0) == 0x80;
}

static void put(uint8_t *out, size_t *n, const void *p, size_t k)
{
	memcpy(out + *n, p, k);
	*n += k;
}

/* Takes one byte; puts up to one character and a replacement before it. */
static void take(struct vt *t, uint8_t c, uint8_t *out, size_t *n)
{
	if (t->n_part && !fits(t, c)) {
		put(out, n, replacement, sizeof(replacement));
		t->n_part = 0;
	}
	if (!t->n_part && wanted(c) == 0) {
		put(out, n, replacement, sizeof(replacement));
		return;
	}
	t->part[t->n_part++] = c;
	if (t->n_part < wanted(t->part[0]))
		return;
	put(out, n, t->part, t->n_part);
	t->n_part = 0;
}

void vt_feed(struct vt *t, const uint8_t *p, size_t n)
{
	uint8_t out[PIECE + 2 * 4];
	size_t k = 0;

	while (n) {
		size_t ascii = 0;

		while (!t->n_part && ascii < n && p[ascii] < 0x80)
			ascii++; /* nearly all of it */
		if (ascii && ascii < SHORT && k + ascii <= PIECE) {
			put(out, &k, p, ascii);
			p += ascii;
			n -= ascii;
			continue;
		}
		if (ascii) {
			modes_feed(t, out, k);
			modes_feed(t, p, ascii);
			k = 0;
			p += ascii;
			n -= ascii;
			continue;
		}
		take(t, *p, out, &k);
		p++;
		n--;
		if (k >= PIECE) {
			modes_feed(t, out, k);
			k = 0;
		}
	}
	modes_feed(t, out, k);
}
