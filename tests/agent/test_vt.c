/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vt.c - a picture makes another terminal look the same: stress test of agent/vt*.c
 *
 * A terminal that only got the picture must look like the one that processed
 * everything (its own picture is the same), and must stay the same when both get more input.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/vt_internal.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/utf8.h"

static void feed(struct vt *t, const char *s)
{
	vt_feed(t, (const uint8_t *)s, strlen(s));
}

static struct vt *make(unsigned cols, unsigned rows)
{
	struct vt *t = vt_new(cols, rows, NULL, NULL);

	assert_non_null(t);
	return t;
}

static void picture(const struct vt *t, struct buf *b)
{
	buf_reset(b);
	vt_picture(t, /* with_history= */ true, b);
	assert_false(b->failed);
}

static void dump(const char *what, const struct buf *b)
{
	fprintf(stderr, "%s: ", what);
	for (size_t i = 0; i < b->len; i++)
		fprintf(stderr, b->p[i] < 0x20 || b->p[i] == 0x7f ? "<%02x>" : "%c", b->p[i]);
	fprintf(stderr, "\n");
}

static void assert_same(const struct vt *a, const struct vt *b, const char *why)
{
	autobuf struct buf x = { 0 }, y = { 0 };

	picture(a, &x);
	picture(b, &y);
	if (x.len != y.len || memcmp(x.p, y.p, x.len) != 0) {
		dump("one", &x);
		dump("two", &y);
		fail_msg("the pictures differ: %s", why);
	}
}

/* Another terminal that was shown the picture. */
static struct vt *shown(const struct vt *a, unsigned cols, unsigned rows)
{
	struct vt *b = make(cols, rows);
	autobuf struct buf x = { 0 };

	picture(a, &x);
	vt_feed(b, x.p, x.len);
	assert_same(a, b, "after the picture");
	return b;
}

static void check(const char *first, const char *then)
{
	struct vt *a = make(20, 6), *b;

	feed(a, first);
	b = shown(a, 20, 6);
	feed(a, then);
	feed(b, then);
	assert_same(a, b, first);
	vt_free(a);
	vt_free(b);
}

static void test_cases(void **state)
{
	static const char *const cases[] = {
		"plain",
		"two\r\nlines\r\n",
		"\x1b[31mred\x1b[1;44mbold on blue\x1b[0m.",
		"\x1b[38;5;200mindexed\x1b[48;2;1;2;3mdirect",
		"\x1b[3;4;5;7;9mall\x1b[21mdouble\x1b[24;29moff",
		"gr\xc3\xbcn \xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81 \xf0\x9f\x98\x80",
		"12345678901234567890", /* the wrap is pending */
		"123456789012345678\xe6\xbc\xa2",
		"1234567890123456789\xe6\xbc\xa2",
		"\x1b[?7l1234567890123456789012345",
		"a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\r\nh\r\ni",
		"\x1b[3;10Hhere\x1b[2;3H",
		"\x1b[2;4rregion\x1b[4;1H\n\n",
		"\x1b[2;4r\x1b[?6hx\x1b[2;2H",
		"\x1b[41m\x1b[2J\x1b[Hbackground",
		"shell$ \x1b[?1049h\x1b[2J\x1b[Hvim\x1b[5;5H\x1b[?25l",
		"one\r\ntwo\x1b[?1049halt\x1b[?1049l",
		"\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002h\x1b[?1006h",
		"\x1b(0lqqk\x1b(B text \x1b(0",
		"\x1b)0\x0exx",
		"\x1b[4hins\x1b[1Gert",
		"\x1b]2;a title\x07\x1b[3 q",
		"\xe6\xbc\xa2\xe5\xad\x97\x1b[1;2Hx", /* half of a wide one */
		"abc\x1b[1;2H\x1b[P\x1b[2@",          /* delete and insert characters */
		"1\r\n2\r\n3\x1b[2;1H\x1b[L\x1b[M\x1b[M",
		"tab\tto\tstops",
		"x\x1b[5b.\xe6\xbc\xa2\x1b[3b\x1b[99b",
		"\x1b[3b\x1b[;;;;;;;;;;;;;;;;;;;;;;;;;;1;2;3;4;5;6;7m!", /* more than libvterm has
		                                                            room for */
		"\x1b[?1049h\x1b[31mhalf a seq\x1b[",
	};
	static const char *const then[] = {
		"!",
		"\r\nmore\r\n\n\n\nlines",
		"\x1b[?1049l!",
		"\x1b[H\x1b[Ktop",
		"\x1b[6;1H\n\n\n",
		"\x1b[mplain\x1b[?7h\x1b[4l",
	};

	for (size_t i = 0; i + 1 < ARRAY_SIZE(cases); i++)
		for (size_t k = 0; k < ARRAY_SIZE(then); k++)
			check(cases[i], then[k]);
	/* In the middle of a sequence it looks the same; the rest of that sequence is undefined. */
	struct vt *a = make(20, 6);
	feed(a, cases[ARRAY_SIZE(cases) - 1]);
	vt_free(shown(a, 20, 6));
	vt_free(a);
}

static void on_say(void *ctx, const char *p, size_t n)
{
	buf_put(ctx, p, n);
}

static uint32_t seed = 1;
static unsigned any(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static void random_piece(struct buf *b)
{
	static const char *const words[] = {
		"text ",        "\r\n",        "\n",      "\b",        "\t",
		"\xe6\xbc\xa2", "\xc3\xbc",    "\x1b[0m", "\x1b[K",    "\x1b[J",
		"\x1b[2J",      "\x1bM",       "\033D",   "\x1b[?25l", "\x1b[?25h",
		"\x1b[?1049h",  "\x1b[?1049l", "\x1b[r",  "\x1b[?7l",  "\x1b[?7h",
		"\x1b[?2004h",  "\x1b(0",      "\x1b(B",  "\x1b[4h",   "\x1b[4l",
		"\x1b[!p",      "\x1b[1K",     "\xff",    "\xc3",      "\x1b[38;2;9;8;7m"
	};
	static const char finals[] = "ABCDHLMPX@STdGmr";

	switch (any(4)) {
	case 0:
		buf_printf(b, "\x1b[%u;%u%c", any(12), any(30), finals[any(sizeof(finals) - 1)]);
		break;
	case 1:
		buf_printf(b, "\x1b[%um", any(110));
		break;
	default: {
		const char *w = words[any(ARRAY_SIZE(words))];

		buf_put(b, w, strlen(w));
	}
	}
}

/* Whole pieces, in whatever chunks: both must look the same after each round. */
static void test_random(void **state)
{
	for (unsigned round = 0; round < 400; round++) {
		struct vt *a, *b;
		autobuf struct buf s = { 0 };

		seed = round + 1;
		a = make(20, 6);
		for (unsigned i = 0; i < 150; i++)
			random_piece(&s);
		buf_put(&s, "\x1b[m", 3); /* no character is left half */
		for (size_t off = 0, n; off < s.len; off += n) {
			n = 1 + any(40); /* MIN() looks twice */
			n = MIN(s.len - off, n);
			vt_feed(a, s.p + off, n);
		}
		b = shown(a, 20, 6);
		vt_free(a);
		vt_free(b);
	}
}

/* The path without libvterm has the same result as the one with it. */
static void test_straight(void **state)
{
	static const char *const words[] = {
		"the quick brown fox jumps",
		" over the lazy dog and on ",
		"\r\n",
		"\r\n",
		"\n",
		"\r",
		"\x1b[1;31mred\x1b[0m",
		"e\xcc\x81",
		"\xcc\x81",
		"\x1b[?69h",
		"\x1b[?69l",
		"\x1b[20h",
		"\x1b[20l",
		"\x1b[3g",
		"\x1bH",
		"\0337",
		"\0338",
		"\x1b[6n",
		"\x1bN",
		"\x1b*0\x1bn",
		"\x0e",
		"\x0f",
		"\x1b(A",
		"\x1b(B",
		"\033c",
		"a\x1b[7b",
		"\x1b[1;3s",
		"\x1b[2;4r",
		"\x1b[1;6r",
		"\a",
		"\xc3",
		"\x1b[38;5;99m\x1b[48;2;1;2;3m",
		"\x1b[38;5m",
		"\x1b[4:3m",
		"\x1b[2;22;24m",
		"\x1b[97;100m",
		"\v",
		"\x7f",
	};

	for (unsigned round = 0; round < 1500; round++) {
		autobuf struct buf s = { 0 };
		struct buf said[2] = { { 0 }, { 0 } };
		struct vt *a = vt_new(20, 6, on_say, &said[0]),
		          *b = vt_new(20, 6, on_say, &said[1]);

		assert_true(a && b);
		vt_plodding(b);
		seed = round + 1;
		for (unsigned i = 0; i < 100; i++) {
			const char *w = words[any(ARRAY_SIZE(words))];

			if (any(4))
				buf_put(&s, w, strlen(w));
			else
				random_piece(&s);
		}
		for (size_t off = 0, n; off < s.len; off += n) {
			n = 1 + any(120);
			n = MIN(s.len - off, n);
			vt_feed(a, s.p + off, n);
			vt_feed(b, s.p + off, n);
			if (any(20) == 0) {
				unsigned cols = 1 + any(30), rows = 1 + any(8);

				assert_int_equal(vt_resize(a, cols, rows), 0);
				assert_int_equal(vt_resize(b, cols, rows), 0);
			}
			assert_same(a, b, "without libvterm and with it");
		}
		assert_int_equal(said[0].len, said[1].len);
		assert_true(!said[0].len || !memcmp(said[0].p, said[1].p, said[0].len));
		vt_free(a);
		vt_free(b);
		buf_done(&said[0]);
		buf_done(&said[1]);
	}
}

/* Characters in pieces, cut off, and bytes that are none. */
static void test_whole_characters(void **state)
{
	static const struct {
		const char *in, *shown;
		size_t n;
	} cases[] = {
		{ "a\xc3\xa9z", "a\xc3\xa9z", 4 },
		{ "\xe6\0\xff\xff\xff"
		  "8\tx",
		  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
		  "8   x",
		  8 },
		{ "\xe6\x97"
		  "A",
		  "\xef\xbf\xbd"
		  "A",
		  3 },
		{ "\xf0\x9f\x98\x80.", "\xf0\x9f\x98\x80.", 5 },
		{ "\xed\xa0\x80.", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.", 4 },
		{ "\xf4\x90\x80\x80.", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.", 5 },
		{ "\xc3\xc3\xa9\x80", "\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd", 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t piece = 1; piece <= cases[i].n; piece++) {
			struct vt *t = make(40, 2);
			autobuf struct buf b = { 0 };

			for (size_t off = 0; off < cases[i].n; off += piece)
				vt_feed(t, (const uint8_t *)cases[i].in + off,
				        MIN(piece, cases[i].n - off));
			picture(t, &b);
			assert_true(utf8_valid(b.p, b.len));
			buf_put_u8(&b, 0);
			if (!strstr((char *)b.p, cases[i].shown))
				fail_msg("case %zu, by %zu bytes: %s", i, piece, (char *)b.p);
			vt_free(t);
		}
}

static void test_history(void **state)
{
	struct vt *t = make(80, 24);
	autobuf struct buf b = { 0 };

	for (unsigned i = 0; i < VT_LINES_MAX + 100; i++) {
		char line[64];

		snprintf(line, sizeof(line), "\x1b[3%um%u\x1b[m\r\n", i % 8, i);
		feed(t, line);
	}
	assert_int_equal(t->h_n, VT_LINES_MAX);
	picture(t, &b);
	buf_put_u8(&b, 0);
	assert_null(strstr((char *)b.p, "m76\x1b")); /* the oldest was dropped */
	assert_non_null(strstr((char *)b.p, "\x1b[0;35m77\x1b[0m\r\n"));
	assert_non_null(strstr((char *)b.p, "m10099\x1b"));
	vt_free(shown(t, 80, 24));
	buf_reset(&b);
	vt_picture(t, /* with_history= */ false, &b);
	assert_true(b.len < 2000);
	vt_free(t);
}

/* Every cell in another colour: the most a line can cost. */
static void test_memory_is_bounded(void **state)
{
	struct vt *many[40];
	size_t all = 0;

	for (size_t k = 0; k < ARRAY_SIZE(many); k++) {
		many[k] = make(200, 24);
		for (unsigned i = 0; i < 3000; i++) {
			char cell[48];

			snprintf(cell, sizeof(cell), "\x1b[38;2;%u;%u;1mx\x1b[48;2;%u;9;%umy",
			         i % 256, i / 256, i % 200, i % 99);
			for (unsigned c = 0; c < 20; c++)
				feed(many[k], cell);
			feed(many[k], "\r\n");
		}
		assert_true(many[k]->h_bytes <= VT_BYTES_MAX + 65536);
		all += many[k]->h_bytes;
	}
	assert_true(all <= VT_TOTAL_MAX + 65536);
	for (size_t k = 0; k < ARRAY_SIZE(many); k++)
		vt_free(many[k]);
}

static void test_resize(void **state)
{
	struct vt *t = make(20, 6);
	autobuf struct buf b = { 0 };

	feed(t, "1\r\n2\r\n3\r\n4\r\n5\r\nprompt \xe6\xbc\xa2");
	assert_int_equal(vt_resize(t, 8, 3), 0); /* cuts the wide one in two */
	assert_int_equal(t->h_n, 3);
	picture(t, &b);
	buf_put_u8(&b, 0);
	assert_non_null(strstr((char *)b.p, "1\r\n2\r\n3\r\n4\r\n5\r\nprompt \r\n")
	                        ?: strstr((char *)b.p, "1\r\n2\r\n3\r\n4\r\n5\r\nprompt"));
	vt_free(shown(t, 8, 3));
	feed(t, "\x1b[?1049h\x1b[2Jalt");
	assert_int_equal(vt_resize(t, 40, 10), 0);
	feed(t, "\x1b[10;30Hcorner");
	vt_free(shown(t, 40, 10));
	for (unsigned i = 0; i < 300; i++) {
		autobuf struct buf s = { 0 };
		unsigned cols = 1 + any(40), rows = 1 + any(12);

		random_piece(&s);
		vt_feed(t, s.p, s.len);
		assert_int_equal(vt_resize(t, cols, rows), 0);
	}
	vt_free(t);
}

static void test_answers(void **state)
{
	autobuf struct buf said = { 0 };
	struct vt *t = vt_new(80, 24, on_say, &said);

	feed(t, "\x1b[5;7H\x1b[6n");
	assert_int_equal(said.len, 6);
	assert_memory_equal(said.p, "\x1b[5;7R", 6);
	vt_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),    cmocka_unit_test(test_random),
		cmocka_unit_test(test_straight), cmocka_unit_test(test_whole_characters),
		cmocka_unit_test(test_history),  cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_resize),   cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
