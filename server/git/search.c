/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.c - text in the files of a revision
 *
 * Which files match, and in how many lines, is said by the texts of the tree if they are kept
 * (texts.c, search_text.c), else by git grep (search_grep.c). Only the files of the page that was
 * asked for are then read, and their lines found again, here: a client gets columns and context.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "git/git_internal.h"
#include "git/search.h"

#define FILE_BYTES (16u << 20) /* of a file that is read again */
#define LINE_SHOWN 2000        /* bytes of a line that are shown */
#define MATCHES_SHOWN 1000     /* lines of one file */
#define ANSWER_LINES 20000     /* of all files of a page */

int search_limit_ms(struct repos *g)
{
	return (int)(g->conf.search_s ? g->conf.search_s : SEARCH_S) * 1000;
}

int search_too_slow(struct repos *g, enum err_code tag, bool regex, struct err *err)
{
	if (regex)
		return err_tag(err, -EINVAL, tag,
		               "the expression takes too long on this repository");
	return err_tag(err, -ETIMEDOUT, ERR_UNAVAILABLE,
	               "the search took longer than %d seconds: narrow it with pathPattern",
	               search_limit_ms(g) / 1000);
}

/* ---- the lines of one file ---- */

struct lines {
	const char **at; /* where each begins; one more for the end */
	size_t n;
};

static int split(const char *p, size_t n, struct lines *ret)
{
	size_t count = 1;

	for (size_t i = 0; i < n; i++)
		count += p[i] == '\n';
	ret->at = malloc((count + 1) * sizeof(*ret->at));
	if (!ret->at)
		return -ENOMEM;
	ret->n = 0;
	for (const char *s = p; s < p + n;) {
		const char *nl = memchr(s, '\n', (size_t)(p + n - s));

		ret->at[ret->n++] = s;
		s = nl ? nl + 1 : p + n;
	}
	ret->at[ret->n] = p + n;
	return 0;
}

/* What is matched: a carriage return is part of it, as it is for Git. */
static size_t line_len(const struct lines *l, size_t i)
{
	size_t n = (size_t)(l->at[i + 1] - l->at[i]);

	return n && l->at[i][n - 1] == '\n' ? n - 1 : n;
}

static json_t *line_json(const struct lines *l, size_t i)
{
	size_t n = line_len(l, i);

	if (n && l->at[i][n - 1] == '\r')
		n--;
	return text_json(l->at[i], MIN(n, (size_t)LINE_SHOWN));
}

static json_t *around(const struct lines *l, size_t from, size_t to)
{
	json_t *a = json_array();

	for (size_t i = from; i < to; i++)
		json_array_append_new(a, line_json(l, i));
	return a;
}

json_t *extension_json(const char *path)
{
	const char *name = strrchr(path, '/'), *dot;

	name = name ? name + 1 : path;
	dot = strrchr(name, '.');
	return dot && dot != name && dot[1] ? text_json(dot + 1, strlen(dot + 1)) : json_null();
}

struct finder {
	const struct repo_search *q;
	struct match *m;
	size_t left; /* lines of the answer */
};

static int find_lines(struct finder *f, const char *p, size_t n, json_t *matches, struct err *err)
{
	struct lines l = { 0 };
	size_t shown = 0, start, end, c = f->q->context;
	int r = split(p, n, &l);

	if (r < 0)
		return err_set(err, r, "out of memory");
	for (size_t i = 0; i < l.n && shown < MATCHES_SHOWN && f->left; i++) {
		r = match_find(f->m, l.at[i], line_len(&l, i), &start, &end);
		if (r < 0)
			break;
		if (r == 0)
			continue;
		shown++;
		f->left--;
		json_array_append_new(matches,
		                      json_pack("{s:I, s:o, s:I, s:I, s:o, s:o}", "lineNumber",
		                                (json_int_t)i + 1, "line", line_json(&l, i),
		                                "startColumn", (json_int_t)start, "endColumn",
		                                (json_int_t)end, "contextBefore",
		                                around(&l, i > c ? i - c : 0, i), "contextAfter",
		                                around(&l, i + 1, MIN(i + 1 + c, l.n))));
	}
	free(l.at);
	return r < 0 ? err_tag(err, -EINVAL, ERR_INVALID_REGEX,
	                       "the expression takes too many steps on one line")
	             : 0;
}

static int file_json(struct finder *f, git_repository *repo, git_tree *root, const struct hit *h,
                     json_t **ret, struct err *err)
{
	json_t *matches = json_array();
	git_tree_entry *e = NULL;
	const char *p = h->text;
	size_t size = h->size;
	autoblob *b = NULL;
	int r = 0;

	if (!p && git_tree_entry_bypath(&e, root, h->path) == 0 &&
	    git_blob_lookup(&b, repo, git_tree_entry_id(e)) == 0) {
		p = git_blob_rawcontent(b);
		size = git_blob_rawsize(b);
	}
	if (p)
		r = find_lines(f, p, MIN(size, (size_t)FILE_BYTES), matches, err);
	git_tree_entry_free(e);
	if (r < 0) {
		json_decref(matches);
		return r;
	}
	*ret = json_pack("{s:o, s:o, s:I, s:o}", "path", text_json(h->path, strlen(h->path)),
	                 "extension", extension_json(h->path), "size", (json_int_t)size, "matches",
	                 matches);
	return 0;
}

static int page(struct finder *f, git_repository *repo, git_commit *c, const struct hits *h,
                json_t *files, struct err *err)
{
	size_t first = MIN((size_t)f->q->offset, h->n);
	size_t end = MIN(first + f->q->max_results, h->n);
	autotree *root = NULL;
	int r = git_commit_tree(&root, c);

	if (r < 0)
		return git_fail(r, "read the tree", err);
	for (size_t i = first; i < end; i++) {
		json_t *j = NULL;

		if ((r = file_json(f, repo, root, &h->v[i], &j, err)) < 0)
			return r;
		json_array_append_new(files, j);
	}
	return 0;
}

void hits_done(struct hits *h)
{
	free(h->v);
	run_result_done(&h->answer);
	if (h->texts)
		texts_unref(h->cache, h->texts);
}

int hits_add(struct hits *h, const struct hit *one, struct err *err)
{
	if (h->n == h->cap) {
		size_t cap = h->cap ? h->cap * 2 : 256;
		struct hit *v = reallocarray(h->v, cap, sizeof(*v));

		if (!v)
			return err_set(err, -ENOMEM, "out of memory");
		h->v = v;
		h->cap = cap;
	}
	h->v[h->n++] = *one;
	h->lines += one->lines;
	return 0;
}

static int find_files(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      git_repository *repo, git_commit *c, struct match *m, struct hits *ret,
                      struct err *err)
{
	char sha[REPO_SHA_SIZE];

	ret->cache = g->texts;
	ret->texts = texts_find(g->texts, r, repo, c, q->rev);
	if (ret->texts)
		return search_text(g, q, m, ret, err);
	git_oid_tostr(sha, sizeof(sha), git_commit_id(c));
	return search_grep(g, r, q, sha, ret, err);
}

int repo_search(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                json_t **ret, struct err *err)
{
	struct match_opts mo = { .regex = q->regex,
		                 .case_sensitive = q->case_sensitive,
		                 .whole_word = q->whole_word,
		                 .lines = true };
	struct finder f = { .q = q, .left = ANSWER_LINES };
	AUTO(hits_done) struct hits h = { 0 };
	automatch *m = NULL;
	autorepo *repo = NULL;
	autocommit *c = NULL;
	json_t *files = NULL;
	int rc;

	if (!*q->query)
		return err_tag(err, -EINVAL, ERR_EMPTY_QUERY, "'query' is empty");
	if (strchr(q->query, '\n'))
		return err_tag(err, -EINVAL, ERR_INVALID_REGEX, "'query' must be one line");
	if (match_new(q->query, &mo, &m, err) < 0) {
		err->tag = ERR_INVALID_REGEX;
		return err->code;
	}
	f.m = m;
	match_until(m, deadline_in((unsigned)search_limit_ms(g)));
	if ((rc = search_glob_check(q, ERR_INVALID_PATH_PATTERN, err)) < 0 ||
	    (rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_commit(repo, q->rev, &c, err)) < 0)
		return rc;
	if ((rc = find_files(g, r, q, repo, c, m, &h, err)) < 0)
		return rc;
	files = json_array();
	if ((rc = page(&f, repo, c, &h, files, err)) < 0) {
		json_decref(files);
		return rc;
	}
	*ret = json_pack("{s:I, s:I, s:b, s:o}", "totalFiles", (json_int_t)h.n, "totalMatches",
	                 (json_int_t)h.lines, "hasMore", (size_t)q->offset + q->max_results < h.n,
	                 "files", files);
	return 0;
}
