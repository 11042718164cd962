/* SPDX-License-Identifier: Apache-2.0 */
/* test_git_tar.c - tar streams as git/tar.c reports them; hostile ones are refused, in pieces of
 * any size */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "git/import.h"

#define BLOCK 512u

struct told {
	struct buf text; /* "F path 3 abc\n", "L path -> target\n", "H path -> target\n" */
	int fail_at;     /* the entry with that number, from 1, is refused */
	int n;
};

static int on_entry(void *ctx, const struct tar_entry *e, struct err *err)
{
	struct told *t = ctx;

	if (++t->n == t->fail_at)
		return err_set(err, -EDQUOT, "enough");
	if (e->type == TAR_FILE)
		buf_printf(&t->text, "%s %s %llu ", e->executable ? "X" : "F", e->path,
		           (unsigned long long)e->size);
	else
		buf_printf(&t->text, "%s %s -> %s\n", e->type == TAR_LINK ? "L" : "H", e->path,
		           e->target);
	return 0;
}

static int on_data(void *ctx, const uint8_t *p, size_t n, struct err *err)
{
	buf_put(&((struct told *)ctx)->text, p, n);
	return 0;
}

static int on_end(void *ctx, struct err *err)
{
	buf_put(&((struct told *)ctx)->text, "\n", 1);
	return 0;
}

static void pad(struct buf *b)
{
	static const char zeros[BLOCK];

	buf_put(b, zeros, (BLOCK - b->len % BLOCK) % BLOCK);
}

static void add(struct buf *b, char type, const char *name, const char *link, const char *data,
                size_t size)
{
	char h[BLOCK] = "";
	unsigned sum = 0;

	snprintf(h, 100, "%s", name);
	snprintf(h + 100, 8, "%07o", name[0] == 'x' ? 0755 : 0644);
	snprintf(h + 108, 8, "%07o", 0);
	snprintf(h + 116, 8, "%07o", 0);
	snprintf(h + 124, 12, "%011o", (unsigned)size);
	snprintf(h + 136, 12, "%011o", 0);
	memset(h + 148, ' ', 8);
	h[156] = type;
	snprintf(h + 157, 100, "%s", link);
	snprintf(h + 257, 6, "ustar");
	h[263] = h[264] = '0';
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
	buf_put(b, h, BLOCK);
	buf_put(b, data, strlen(data));
	pad(b);
}

static void add_path(struct buf *b, const char *path)
{
	char rec[8192];
	int n = (int)strlen(path) + 8, k;

	while ((k = snprintf(rec, sizeof(rec), "%d path=%s\n", n, path)) != n)
		n = k;
	add(b, 'x', "pax", "", rec, (size_t)n);
}

static void finish(struct buf *b)
{
	static const char zeros[2 * BLOCK];

	buf_put(b, zeros, sizeof(zeros));
}

static int read_pieces(const struct buf *b, size_t piece, struct told *ret, struct err *err)
{
	static const struct tar_ops ops = { on_entry, on_data, on_end };
	struct tar *t = tar_new(&ops, ret);
	int r = 0;

	assert_non_null(t);
	for (size_t i = 0; i < b->len && r == 0; i += piece)
		r = tar_feed(t, b->p + i, MIN(piece, b->len - i), err);
	if (r == 0)
		r = tar_finish(t, err);
	tar_free(t);
	return r;
}

static void expect(const struct buf *b, const char *want)
{
	static const size_t pieces[] = { 1, 511, 512, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct told told = { 0 };
		struct err err = { 0 };
		autofree char *text = NULL;

		if (read_pieces(b, pieces[i], &told, &err) < 0)
			fail_msg("refused: %s", err.msg);
		text = buf_take_str(&told.text);
		assert_string_equal(text ? text : "", want);
	}
}

static void expect_bad(const struct buf *b)
{
	struct told told = { 0 };
	struct err err = { 0 };

	assert_int_equal(read_pieces(b, 700, &told, &err), -EINVAL);
	assert_int_equal(err.tag, ERR_GIT_INVALID_REQUEST);
	buf_done(&told.text);
}

static void kinds(void **state)
{
	autobuf struct buf b = { 0 };

	add(&b, '5', "d/", "", "", 0);
	add(&b, '0', "d/a", "", "abc", 3);
	add(&b, '\0', "xrun", "", "", 0);
	add(&b, '2', "l", "../../etc/passwd", "", 0);
	add(&b, '1', "h", "d/a", "", 0);
	add(&b, '3', "dev", "", "", 0);
	add(&b, '4', "block", "", "", 0);
	add(&b, '6', "fifo", "", "", 0);
	add(&b, '0', "../up", "", "u", 1); /* the writer refuses it, by its path */
	finish(&b);
	expect(&b, "F d/a 3 abc\nX xrun 0 \nL l -> ../../etc/passwd\nH h -> d/a\nF ../up 1 u\n");
}

/* Names are bytes: neither made to another form of Unicode nor refused. */
static void names(void **state)
{
	static const char *const all[] = { "e\xcc\x81-decomposed", "\xc3\xa9-composed",
		                           "\xff\xfe-no-unicode" };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		autobuf struct buf plain = { 0 };
		autobuf struct buf pax = { 0 };
		char want[128];

		snprintf(want, sizeof(want), "F %s 1 x\n", all[i]);
		add(&plain, '0', all[i], "", "x", 1);
		finish(&plain);
		expect(&plain, want);
		add_path(&pax, all[i]);
		add(&pax, '0', "short", "", "x", 1);
		finish(&pax);
		expect(&pax, want);
	}
}

static void damaged(void **state)
{
	autobuf struct buf whole = { 0 };
	autobuf struct buf deep = { 0 };
	char path[PATH_MAX + 10];

	add(&whole, '0', "a", "", "abc", 3);
	add(&whole, '0', "b", "", "abc", 3);
	finish(&whole);
	for (size_t n = 1; n < 2 * (size_t)BLOCK; n += 100) {
		struct buf cut = { .p = whole.p, .len = n };

		expect_bad(&cut);
	}
	whole.p[2 * BLOCK + 5] ^= 1; /* the second header's sum is wrong */
	expect_bad(&whole);
	buf_reset(&whole);
	buf_printf(&whole, "no archive at all, however long it goes on; %0600d", 0);
	expect_bad(&whole);
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	add_path(&deep, path);
	add(&deep, '0', "short", "", "x", 1);
	finish(&deep);
	expect_bad(&deep);
}

/* What the caller refuses is what it gets back, and nothing is told after it. */
static void refusals(void **state)
{
	autobuf struct buf b = { 0 };

	for (int i = 0; i < 400; i++)
		add(&b, '0', "a", "", "abc", 3);
	finish(&b);
	for (int at = 1; at < 400; at += 133) {
		struct told told = { .fail_at = at };
		struct err err = { 0 };

		assert_int_equal(read_pieces(&b, 512, &told, &err), -EDQUOT);
		assert_string_equal(err.msg, "enough");
		assert_int_equal(told.n, at);
		buf_done(&told.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(names),
		cmocka_unit_test(damaged),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
