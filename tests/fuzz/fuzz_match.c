/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_match.c - patterns of searches and triggers, and what they are matched with
 *
 * Byte 0 has the options; then come the pattern, a zero byte, and the text. What is found lies in
 * the text; a line that is found is a whole one. A glob or a text without special
 * characters matches itself.
 */
#include <errno.h>

#include "base/auto.h"
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
	size_t a, b;
	int r;

	(void)branch_matches(pattern, name);
	must(!is_plain(pattern) || branch_matches(pattern, pattern));
	must(branch_matches("*", name));
	r = match_new(pattern, &o, &m, &err);
	if (r < 0) {
		must(err.code < 0 && err.msg[0]);
		return 0;
	}
	r = match_find(m, (const char *)in.p, in.n, &a, &b);
	must(r == 0 || r == 1 || r == -ELOOP);
	must(r != 1 || (a <= b && b <= in.n));
	if (o.lines)
		try_lines(m, (const char *)in.p, in.n);
	if (o.glob && !o.whole_word && *pattern && is_plain(pattern))
		must(match_find(m, pattern, strlen(pattern), &a, &b) == 1);
	return 0;
}
