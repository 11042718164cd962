/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search_text.c - which files match, by the texts that are kept of a tree
 *
 * The answer is the one that git grep would give: the same files in the same order, binary ones
 * left out, lines counted once. Paths are chosen as its pathspecs do: what has no wildcard names a
 * file or a directory with everything in it.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "git/search.h"

/* Does the pattern name this path, or a directory it is in? Only without wildcards. */
static bool names_dir(const char *pattern, const char *path)
{
	size_t n;

	if (!pattern || !strchr(pattern, '/') || strpbrk(pattern, "*?[\\"))
		return false;
	pattern += *pattern == '/';
	n = strlen(pattern);
	if (n && pattern[n - 1] == '/')
		n--;
	return strncmp(pattern, path, n) == 0 && path[n] == '/';
}

static bool passes(const struct repo_search *q, const struct globs *globs, const char *path)
{
	bool in = names_dir(q->path_pattern, path) || globs_in(globs, path);

	return in && !names_dir(q->exclude_pattern, path) && !globs_out(globs, path);
}

static int count_lines(struct match *m, const char *p, size_t n, uint64_t *ret)
{
	size_t at = 0, len = 0;
	uint64_t lines = 0;
	int r;

	while ((r = match_line(m, p, n, at, &at, &len)) == 1) {
		lines++;
		at += len + 1;
	}
	*ret = lines;
	return r;
}

int search_text(struct repos *g, const struct repo_search *q, struct match *m, struct hits *ret,
                struct err *err)
{
	const struct texts *t = ret->texts;
	struct globs globs;
	int r = globs_new(q, ERR_INVALID_PATH_PATTERN, &globs, err);

	for (size_t i = 0; i < t->n && r == 0; i++) {
		const struct text_file *f = &t->v[i];
		struct hit h = { .path = text_path(t, f), .text = text_of(t, f), .size = f->len };

		if (f->binary || !passes(q, &globs, h.path))
			continue;
		r = count_lines(m, h.text, h.size, &h.lines);
		if (r < 0)
			r = search_too_slow(g, ERR_INVALID_REGEX, q->regex, err);
		else if (h.lines)
			r = hits_add(ret, &h, err);
	}
	globs_done(&globs);
	return r;
}
