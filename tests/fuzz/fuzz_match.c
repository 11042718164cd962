/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_match.c - patterns of searches and triggers, and what they are matched with
 *
 * Byte 0 has the options; then come the pattern, a zero byte, and the text. What is found lies in
 * the text; a line that is found is a whole one. One option repeats the text, since long ones are
 * looked at in pieces. A glob or a text without special
 * characters matches itself.
 */
#include <errno.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "git/git_internal.h"
#include "git/trigger_internal.h"
#include "tests/fuzz/fuzz.h"

static void try_lines(struct match *m, const char *p, size_t n)
{
	size_t from = 0, at, len;

	while (from < n && match_line(m, p, n, from, &at, &len) == 1) {
		must(at >= from && at + len <= n);
		must((at == 0 || p[at - 1] == '\n') && !memchr(p + at, '\n', len));
		must(at + len == n || p[at + len] == '\n');
		from = at + len + 1;
	}
}

#define LONG 40000u /* bytes: more than two pieces */

/* The text, or many of it in a row. The caller frees it. */
static char *text_of(struct in in, bool many, size_t *ret_n)
{
	size_t n = many && in.n ? LONG : in.n;
	char *s = malloc(n ? n : 1);

	must(s != NULL);
	for (size_t i = 0; i < n; i++)
		s[i] = (char)in.p[i % in.n];
	*ret_n = n;
	return s;
}

static bool is_plain(const char *s)
{
	for (; *s; s++)
		if (strchr("*?[]!^\\", *s))
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size };
	uint8_t flags = in_u8(&in);
	autofree char *pattern = in_text(in_until(&in, 0)), *name = in_text(in);
	struct match_opts o = { .regex = flags & 1,
		                .glob = flags & 2,
		                .case_sensitive = flags & 4,
		                .whole_word = flags & 8,
		                .lines = flags & 16 };
	struct err err = { 0 };
	automatch *m = NULL;
	size_t a, b, n;
	autofree char *text = text_of(in, flags & 32, &n);
	int r;

	(void)branch_matches(pattern, name);
	must(!is_plain(pattern) || branch_matches(pattern, pattern));
	must(branch_matches("*", name));
	r = match_new(pattern, &o, &m, &err);
	if (r < 0) {
		must(err.code < 0 && err.msg[0]);
		return 0;
	}
	match_until(m, flags & 64 ? 1 : deadline_in(2000));
	r = match_find(m, text, n, &a, &b);
	must(r == 0 || r == 1 || r == -ELOOP);
	must(r != 1 || (a <= b && b <= n));
	if (o.lines)
		try_lines(m, text, n);
	if (o.glob && !o.whole_word && *pattern && is_plain(pattern))
		must(match_find(m, pattern, strlen(pattern), &a, &b) == 1);
	return 0;
}
