/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_vt.c - anything a program may write to its terminal, with resizes in between
 *
 * Byte 0 and 1 are the size; a byte 0xfe takes two more as a new size. A picture can be
 * drawn after everything, and what it draws is a picture again. A second terminal that does
 * nothing without libvterm looks the same, and says the same when it is asked something: answers
 * are control sequences or a few words of one, without a line end.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/vt.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COLS(b) (1u + (b) % 60u)
#define ROWS(b) (1u + (b) % 20u)

static size_t next_resize(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] != 0xfe)
		i++;
	return i;
}

static void on_say(void *ctx, const char *p, size_t n)
{
	buf_put(ctx, p, n);
	assert(!memchr(p, '\n', n) && !memchr(p, '\r', n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { 0 }, c = { 0 }, said = { 0 }, said_slow = { 0 };
	struct vt *t, *u, *slow;
	unsigned cols, rows;

	if (size < 2)
		return 0;
	cols = COLS(data[0]);
	rows = ROWS(data[1]);
	t = vt_new(cols, rows, on_say, &said);
	slow = vt_new(cols, rows, on_say, &said_slow);
	assert(t && slow);
	vt_plodding(slow);
	for (size_t i = 2; i < size;) {
		size_t n = next_resize(data + i, size - i);

		vt_feed(t, data + i, n);
		vt_feed(slow, data + i, n);
		i += n;
		if (i + 2 < size) {
			cols = COLS(data[i + 1]);
			rows = ROWS(data[i + 2]);
			assert(vt_resize(t, cols, rows) == 0 && vt_resize(slow, cols, rows) == 0);
		}
		i += 3;
	}
	vt_picture(t, /* with_history= */ true, &b);
	vt_picture(slow, /* with_history= */ true, &c);
	assert(!c.failed && c.len == b.len && memcmp(c.p, b.p, c.len) == 0);
	assert(said.len == said_slow.len && (!said.len || !memcmp(said.p, said_slow.p, said.len)));
	u = vt_new(cols, rows, NULL, NULL);
	assert(u && !b.failed);
	vt_feed(u, b.p, b.len);
	buf_reset(&b);
	vt_picture(u, /* with_history= */ true, &b);
	assert(b.len > 0);
	vt_free(u);
	vt_free(slow);
	vt_free(t);
	buf_done(&b);
	buf_done(&c);
	buf_done(&said);
	buf_done(&said_slow);
	return 0;
}
