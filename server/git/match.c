/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.c - one pattern of a search: text, regular expression or glob
 *
 * All become a PCRE2 pattern, because that is also what git grep -P uses. A match may take so many
 * steps and no more; a pattern that needs more is an error of whoever wrote it.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "git/git_internal.h"

#define STEPS_MAX 1000000u
#define DEPTH_MAX 10000u
#define HEAP_KIB 16384u
#define PATTERN_MAX 4096u

struct match {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

struct match *match_free(struct match *m)
{
	if (!m)
		return NULL;
	pcre2_code_free(m->code);
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

/* "src" + "**" + "*.ts": * and ? stop at slashes, ** does not. Without any slash: anywhere. */
static void put_glob(struct buf *b, const char *g)
{
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
		} else if (*g == '[' && strchr(g + 1, ']')) {
			const char *end = strchr(g + 2, ']');

			buf_put_u8(b, '[');
			g++;
			if (*g == '!' || *g == '^') {
				buf_put_u8(b, '^');
				g++;
			}
			for (; *g && (!end || g < end); g++) {
				if (*g == '[' || *g == '\\' || *g == '^')
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

int match_new(const char *pattern, const struct match_opts *o, struct match **ret, struct err *err)
{
	uint32_t flags = PCRE2_NEVER_BACKSLASH_C | PCRE2_MATCH_INVALID_UTF;
	automatch *m = calloc(1, sizeof(*m));
	autobuf struct buf b = { 0 };
	PCRE2_UCHAR why[128];
	PCRE2_SIZE at;
	int code;

	if (strlen(pattern) > PATTERN_MAX)
		return err_set(err, -EINVAL, "a pattern has at most %u bytes", PATTERN_MAX);
	if (!utf8_valid(pattern, strlen(pattern)))
		return err_set(err, -EINVAL, "a pattern must be UTF-8");
	make_pattern(&b, pattern, o);
	if (!m || b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	if (!o->case_sensitive)
		flags |= PCRE2_CASELESS;
	if (o->glob)
		flags |= PCRE2_DOTALL;
	m->code = pcre2_compile(b.p, b.len, flags | PCRE2_UTF, &code, &at, NULL);
	if (!m->code) {
		pcre2_get_error_message(code, why, sizeof(why));
		return err_set(err, -EINVAL, "%s at character %zu", (char *)why, (size_t)at);
	}
	m->data = pcre2_match_data_create(1, NULL);
	m->limits = pcre2_match_context_create(NULL);
	if (!m->data || !m->limits)
		return err_set(err, -ENOMEM, "out of memory");
	pcre2_set_match_limit(m->limits, STEPS_MAX);
	pcre2_set_depth_limit(m->limits, DEPTH_MAX);
	pcre2_set_heap_limit(m->limits, HEAP_KIB);
	pcre2_jit_compile(m->code, PCRE2_JIT_COMPLETE); /* slower without, that is all */
	*ret = TAKE_PTR(m);
	return 0;
}

int match_find(struct match *m, const char *p, size_t n, size_t *ret_start, size_t *ret_end)
{
	int k = pcre2_match(m->code, (PCRE2_SPTR)p, n, 0, 0, m->data, m->limits);
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
