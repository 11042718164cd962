/* SPDX-License-Identifier: Apache-2.0 */
/* search_grep.c - which files match, by git grep in its jail and under a deadline */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/search.h"

#define COUNTS_MAX (64u << 20) /* bytes of git grep's answer: names and numbers */

/* ":(glob)src" and so on; the pattern without a slash is meant anywhere. */
static void put_pathspec(struct buf *b, const char *magic, const char *pattern)
{
	buf_printf(b, ":(%s)%s%s", magic, strchr(pattern, '/') ? "" : "**/",
	           pattern + (*pattern == '/'));
	buf_put(b, "", 1);
}

static int parse_counts(const struct buf *out, size_t skip, struct hits *ret, struct err *err)
{
	const char *p = (char *)out->p, *end = p + out->len;
	struct hit one;
	int r;

	while (p < end) {
		const char *nul = memchr(p, '\0', (size_t)(end - p));
		const char *nl = nul ? memchr(nul, '\n', (size_t)(end - nul)) : NULL;

		if (!nl)
			break;
		/* "<rev>:<path>" NUL count */
		one = (struct hit){ .path = (size_t)(nul - p) > skip ? p + skip : p,
			            .lines = strtoull(nul + 1, NULL, 10) };
		if ((r = hits_add(ret, &one, err)) < 0)
			return r;
		p = nl + 1;
	}
	return 0;
}

static int grep(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                const char *sha, struct run_result *ret, struct err *err)
{
	autobuf struct buf inc = { 0 }, exc = { 0 };
	char path[PATH_MAX];
	const char *argv[20];
	size_t n = 0;
	int rc;

	argv[n++] = GIT_PROGRAM;
	argv[n++] = "grep";
	argv[n++] = "-z";
	argv[n++] = "-c";
	argv[n++] = "-I";
	argv[n++] = "--full-name";
	argv[n++] = q->regex ? "-P" : "-F";
	if (!q->case_sensitive)
		argv[n++] = "-i";
	if (q->whole_word)
		argv[n++] = "-w";
	argv[n++] = "-e";
	argv[n++] = q->query;
	argv[n++] = sha;
	argv[n++] = "--";
	if (q->path_pattern) {
		put_pathspec(&inc, "glob", q->path_pattern);
		argv[n++] = (char *)inc.p;
	}
	if (q->exclude_pattern) {
		put_pathspec(&exc, "exclude,glob", q->exclude_pattern);
		argv[n++] = (char *)exc.p;
	}
	argv[n] = NULL;
	if (inc.failed || exc.failed)
		return err_set(err, -ENOMEM, "out of memory");
	repo_path(g, r->id, path);
	rc = run_git(g,
	             &(struct run_opts){ .repo = path,
	                                 .argv = argv,
	                                 .client = q->client,
	                                 .out_max = COUNTS_MAX,
	                                 .limit_ms = (unsigned)search_limit_ms(g) },
	             ret, err);
	if (rc == -EFBIG)
		return err_tag(
		        err, rc, ERR_GIT_TOO_LARGE,
		        "the names of the files that match have more than %u MiB: narrow it with "
		        "pathPattern",
		        COUNTS_MAX >> 20);
	if (rc == -ETIMEDOUT || (rc == 0 && run_exhausted(ret)))
		return search_too_slow(g, ERR_INVALID_REGEX, q->regex, err);
	if (rc < 0)
		return rc;
	if (ret->status == 0 || ret->status == 1)
		return 0;
	if (q->regex)
		return err_tag(err, -EINVAL, ERR_INVALID_REGEX, "%.200s", (char *)ret->err_text.p);
	return err_tag(err, -EIO, ERR_GIT_ERROR, "git grep: %.200s", (char *)ret->err_text.p);
}

int search_grep(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                const char *sha, struct hits *ret, struct err *err)
{
	int rc = grep(g, r, q, sha, &ret->answer, err);

	return rc < 0 ? rc : parse_counts(&ret->answer.out, strlen(sha) + 1, ret, err);
}
