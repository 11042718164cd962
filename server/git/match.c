/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.c - one pattern of a search: text, regular expression or glob
 *
 * All become a PCRE2 pattern, because that is also what git grep -P uses. A match may take so many
 * steps and no more; a pattern that needs more is an error of whoever wrote it. Steps inside one
 * repeated character are not counted by PCRE2, so that "a*b" on a long row of a's takes the square
 * of its length: therefore an expression sees at most PIECE bytes at once, and the deadline is
 * looked at in between. A longer line is looked at in pieces that overlap by half.
 *
 * Lines of a text (match_line) are not tried one by one. Plain text is looked for in all of it, an
 * expression in blocks of whole lines, and the line where it was found decides. That finds every
 * line that matches by itself as long as the expression can give back what it took: not so with
 * assertions, possessive repeats and the like, which are tried line by line. (Beside a byte that is
 * not UTF-8 an expression that matches nothing at all may find less in a block, as in Git.)
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "git/git_internal.h"

#define STEPS_MAX 1000000u
#define DEPTH_MAX 10000u
#define HEAP_KIB 16384u
#define PATTERN_MAX 4096u
#define PIECE 16384u /* bytes that an expression sees at once */

struct match {
	pcre2_code *code;
	pcre2_code *scan; /* the same over many lines; NULL: line by line */
	char *text;       /* what is looked for, if that is all; or NULL */
	size_t text_len;
	bool regex;
	uint64_t deadline; /* 0: none */
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

struct match *match_free(struct match *m)
{
	if (!m)
		return NULL;
	pcre2_code_free(m->code);
	pcre2_code_free(m->scan);
	free(m->text);
	pcre2_match_data_free(m->data);
	pcre2_match_context_free(m->limits);
	free(m);
	return NULL;
}

static void put_quoted(struct buf *b, char c)
{
	if (strchr("\\^$.[]|()?*+{}#-/ ", c))
		buf_put_u8(b, '\\');
	buf_put_u8(b, (uint8_t)c);
}

/* Where the set of characters that begins at g ends, or NULL: then the bracket is a plain one. A ]
 * that comes first belongs to the set, so it is never empty. */
static const char *class_end(const char *g)
{
	g++;
	if (*g == '!' || *g == '^')
		g++;
	return *g ? strchr(g + 1, ']') : NULL;
}

/* "src" + "**" + "*.ts": * and ? stop at slashes, ** does not. Without any slash: anywhere. */
static void put_glob(struct buf *b, const char *g)
{
	const char *end;

	buf_put(b, "\\A", 2);
	if (!strchr(g, '/'))
		buf_printf(b, "(?:.*/)?");
	for (; *g; g++) {
		if (g[0] == '*' && g[1] == '*') {
			g++;
			if (g[1] == '/') {
				buf_printf(b, "(?:.*/)?");
				g++;
			} else {
				buf_put(b, ".*", 2);
			}
		} else if (*g == '*') {
			buf_printf(b, "[^/]*");
		} else if (*g == '?') {
			buf_printf(b, "[^/]");
		} else if (*g == '[' && (end = class_end(g))) {
			buf_put_u8(b, '[');
			g++;
			if (*g == '!' || *g == '^') {
				buf_put_u8(b, '^');
				g++;
			}
			for (; g < end; g++) {
				if (strchr("[]\\^", *g))
					buf_put_u8(b, '\\');
				buf_put_u8(b, (uint8_t)*g);
			}
			buf_put_u8(b, ']');
		} else {
			put_quoted(b, *g);
		}
	}
	buf_put(b, "\\z", 2);
}

static void make_pattern(struct buf *b, const char *pattern, const struct match_opts *o)
{
	if (o->whole_word)
		buf_printf(b, "(?<!\\w)(?:");
	if (o->glob)
		put_glob(b, pattern);
	else if (o->regex)
		buf_put(b, pattern, strlen(pattern));
	else
		for (const char *p = pattern; *p; p++)
			put_quoted(b, *p);
	if (o->whole_word)
		buf_printf(b, ")(?!\\w)");
}

/* Can an expression be looked for in several lines at once? See above. */
static bool may_scan(const char *p)
{
	for (; *p; p++) {
		if (p[0] == '\\' && p[1]) {
			if (strchr("AzZGKRXQE", p[1]))
				return false;
			p++;
		} else if (p[0] == '(' && (p[1] == '*' || (p[1] == '?' && p[2] != ':'))) {
			return false;
		} else if (strchr("*+?}", p[0]) && p[1] == '+') {
			return false;
		}
	}
	return true;
}

static int compile(const struct buf *b, uint32_t flags, pcre2_code **ret, struct err *err)
{
	PCRE2_UCHAR why[128];
	PCRE2_SIZE at;
	int code;

	*ret = pcre2_compile(b->p, b->len, flags, &code, &at, NULL);
	if (!*ret) {
		pcre2_get_error_message(code, why, sizeof(why));
		return err_set(err, -EINVAL, "%s at character %zu", (char *)why, (size_t)at);
	}
	pcre2_jit_compile(*ret, PCRE2_JIT_COMPLETE); /* slower without, that is all */
	return 0;
}

static int compile_all(struct match *m, const char *pattern, const struct match_opts *o,
                       struct err *err)
{
	uint32_t flags = PCRE2_NEVER_BACKSLASH_C | PCRE2_MATCH_INVALID_UTF | PCRE2_UTF;
	autobuf struct buf b = { 0 };
	int r;

	make_pattern(&b, pattern, o);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	if (!o->case_sensitive)
		flags |= PCRE2_CASELESS;
	if (o->glob)
		flags |= PCRE2_DOTALL;
	if ((r = compile(&b, flags, &m->code, err)) < 0)
		return r;
	if (!o->lines || o->glob)
		return 0;
	if (!o->regex && o->case_sensitive && !o->whole_word) {
		m->text = strdup(pattern);
		m->text_len = strlen(pattern);
		return m->text ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	return !o->regex || may_scan(pattern)
	               ? compile(&b, flags | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX, &m->scan, err)
	               : 0;
}

int match_new(const char *pattern, const struct match_opts *o, struct match **ret, struct err *err)
{
	automatch *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "out of memory");
	if (strlen(pattern) > PATTERN_MAX)
		return err_set(err, -EINVAL, "a pattern can have at most %u bytes", PATTERN_MAX);
	if (!utf8_valid(pattern, strlen(pattern)))
		return err_set(err, -EINVAL, "a pattern must be UTF-8");
	m->regex = o->regex || o->glob;
	if ((r = compile_all(m, pattern, o, err)) < 0)
		return r;
	m->data = pcre2_match_data_create(1, NULL);
	m->limits = pcre2_match_context_create(NULL);
	if (!m->data || !m->limits)
		return err_set(err, -ENOMEM, "out of memory");
	pcre2_set_match_limit(m->limits, STEPS_MAX);
	pcre2_set_depth_limit(m->limits, DEPTH_MAX);
	pcre2_set_heap_limit(m->limits, HEAP_KIB);
	*ret = TAKE_PTR(m);
	return 0;
}

void match_until(struct match *m, uint64_t deadline_ms)
{
	m->deadline = deadline_ms;
}

static int run(struct match *m, const pcre2_code *code, const char *p, size_t n, size_t from,
               uint32_t flags, size_t *ret_start, size_t *ret_end)
{
	int k = pcre2_match(code, (PCRE2_SPTR)p, n, from, flags, m->data, m->limits);
	PCRE2_SIZE *v;

	if (k == PCRE2_ERROR_NOMATCH)
		return 0;
	if (k < 0)
		return -ELOOP;
	v = pcre2_get_ovector_pointer(m->data);
	*ret_start = v[0];
	*ret_end = MAX(v[0], v[1]);
	return 1;
}

/* The start of a character at or before at: pieces are not cut inside one. */
static size_t char_start(const char *p, size_t at)
{
	for (unsigned i = 0; i < 3 && at > 0 && ((unsigned char)p[at] & 0xc0) == 0x80; i++)
		at--;
	return at;
}

int match_find(struct match *m, const char *p, size_t n, size_t *ret_start, size_t *ret_end)
{
	size_t from = 0;
	int r;

	if (!m->regex || n <= PIECE)
		return run(m, m->code, p, n, 0, 0, ret_start, ret_end);
	for (;;) {
		size_t end = n - from <= PIECE ? n : char_start(p, from + PIECE);

		if (m->deadline && deadline_left(m->deadline) == 0)
			return -ELOOP;
		r = run(m, m->code, p, end, from, end < n ? PCRE2_NOTEOL : 0, ret_start, ret_end);
		if (r != 0 || end == n)
			return r;
		from = char_start(p, from + PIECE / 2);
	}
}

/* A place at or after from in a line that matches (2) or may match (1); 0: there is none; -ELOOP.
 */
static int next_place(struct match *m, const char *p, size_t n, size_t from, size_t *ret)
{
	while (from < n) {
		size_t end = n - (p[n - 1] == '\n'), a, b; /* after it is no line */
		int r;

		if (n - from > PIECE) {
			const char *nl = memrchr(p + from, '\n', PIECE);

			if (!nl) { /* a long line: it is looked at by itself */
				*ret = from;
				return 1;
			}
			end = (size_t)(nl - p);
		}
		if (m->deadline && deadline_left(m->deadline) == 0)
			return -ELOOP;
		r = run(m, m->scan, p + from, end - from, 0, 0, &a, &b);
		if (r != 0) {
			/* Too much for a block may still be little for a line. */
			*ret = from + (r > 0 ? a : 0);
			return r > 0 && !m->regex ? 2 : 1;
		}
		from = end + 1;
	}
	return 0;
}

int match_line(struct match *m, const char *p, size_t n, size_t from, size_t *ret_at,
               size_t *ret_len)
{
	while (from < n) {
		const char *found, *nl;
		size_t at = from, a, b;
		int r = 1;

		if (m->text) {
			found = memmem(p + from, n - from, m->text, m->text_len);
			if (!found)
				return 0;
			at = (size_t)(found - p);
			r = 2;
		} else if (m->scan && (r = next_place(m, p, n, from, &at)) <= 0) {
			return r;
		}
		nl = at > from ? memrchr(p + from, '\n', at - from) : NULL;
		*ret_at = nl ? (size_t)(nl - p) + 1 : from;
		nl = memchr(p + at, '\n', n - at);
		*ret_len = (nl ? (size_t)(nl - p) : n) - *ret_at;
		if (r == 1)
			r = match_find(m, p + *ret_at, *ret_len, &a, &b);
		if (r != 0)
			return MIN(r, 1);
		from = *ret_at + *ret_len + 1;
	}
	return 0;
}
