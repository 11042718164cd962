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
#include "git/bounds.h"
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
	return err_tag(
	        err, -ETIMEDOUT, ERR_GIT_TOO_LARGE,
	        "the search took longer than %d seconds, or more than %d MiB of memory: narrow "
	        "it with pathPattern",
	        search_limit_ms(g) / 1000, CHILD_ASK_MB);
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

struct finder {
	const struct repo_search *q;
	struct match *m;
	struct arena *mem;
	size_t left; /* lines of the answer */
};

/* As it is shown. */
static struct repo_text line_text(struct finder *f, const struct lines *l, size_t i)
{
	size_t n = line_len(l, i);

	if (n && l->at[i][n - 1] == '\r')
		n--;
	n = MIN(n, (size_t)LINE_SHOWN);
	return (struct repo_text){ arena_copy(f->mem, l->at[i], n), n };
}

/* Line i matches: it and its context join the lines that are shown, unless they are among them. */
static int add_match(struct finder *f, const struct lines *l, size_t i, struct repo_match m,
                     size_t *shown_to, struct repo_found_file *ret, struct err *err)
{
	size_t c = f->q->context, from = i > c ? i - c : 0, to = MIN(i + 1 + c, l->n);

	for (size_t k = MAX(from, *shown_to); k < to; k++) {
		ret->lines = arena_more(f->mem, ret->lines, ret->n_lines, sizeof(*ret->lines));
		if (!ret->lines)
			return arena_check(f->mem, err);
		ret->lines[ret->n_lines++] = line_text(f, l, k);
	}
	*shown_to = MAX(*shown_to, to);
	m.number = i + 1;
	m.at = ret->n_lines - (*shown_to - i);
	m.before = (uint32_t)(i - from);
	m.after = (uint32_t)(to - i - 1);
	ret->matches = arena_more(f->mem, ret->matches, ret->n_matches, sizeof(*ret->matches));
	if (ret->matches)
		ret->matches[ret->n_matches++] = m;
	return arena_check(f->mem, err);
}

static int find_lines(struct finder *f, const char *p, size_t n, struct repo_found_file *ret,
                      struct err *err)
{
	struct lines l = { 0 };
	size_t shown_to = 0;
	int r = split(p, n, &l);

	if (r < 0)
		return err_set(err, r, "out of memory");
	for (size_t i = 0; i < l.n && ret->n_matches < MATCHES_SHOWN && f->left; i++) {
		struct repo_match m = { 0 };

		r = match_find(f->m, l.at[i], line_len(&l, i), &m.start, &m.end);
		if (r < 0) {
			r = err_tag(err, -EINVAL, ERR_INVALID_REGEX,
			            "the expression takes too many steps on one line");
			break;
		}
		if (r == 0)
			continue;
		f->left--;
		if ((r = add_match(f, &l, i, m, &shown_to, ret, err)) < 0)
			break;
	}
	free(l.at);
	return MIN(r, 0);
}

/* Of larger ones the name is known, and how many lines match. */
static bool blob_fits(git_repository *repo, const git_oid *id)
{
	autoodb *odb = NULL;
	git_object_t type;
	size_t len = 0;

	return git_repository_odb(&odb, repo) == 0 &&
	       git_odb_read_header(&len, &type, odb, id) == 0 && len <= CONTENT_MAX;
}

static int read_hit(struct finder *f, git_repository *repo, const git_oid *root,
                    const struct hit *h, struct repo_found_file *ret, struct err *err)
{
	git_tree_entry *e = NULL;
	const char *p = h->text;
	autoblob *b = NULL;
	int r = 0;

	ret->path = arena_str(f->mem, h->path);
	ret->size = h->size;
	if ((r = client_check(f->q->client, err)) < 0)
		return r;
	if (!p && (r = tree_path(repo, root, h->path, &e, err)) < 0 && r != -ENOENT)
		return r;
	if (e && blob_fits(repo, git_tree_entry_id(e)) &&
	    git_blob_lookup(&b, repo, git_tree_entry_id(e)) == 0) {
		p = git_blob_rawcontent(b);
		ret->size = git_blob_rawsize(b);
	}
	r = 0;
	if (p)
		r = find_lines(f, p, MIN((size_t)ret->size, (size_t)FILE_BYTES), ret, err);
	git_tree_entry_free(e);
	return r < 0 ? r : arena_check(f->mem, err);
}

static int page(struct finder *f, git_repository *repo, git_commit *c, const struct hits *h,
                struct repo_found_files *ret, struct err *err)
{
	size_t first = MIN((size_t)f->q->offset, h->n);
	size_t end = MIN(first + f->q->max_results, h->n);
	int r;

	ret->v = arena_array(f->mem, end - first, sizeof(*ret->v));
	if (!ret->v)
		return arena_check(f->mem, err);
	for (size_t i = first; i < end; i++)
		if ((r = read_hit(f, repo, git_commit_tree_id(c), &h->v[i], &ret->v[ret->n++],
		                  err)) < 0)
			return r;
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
	ret->texts = texts_find(g->texts, r, repo, c, q->rev, q->client);
	if (ret->texts)
		return search_text(g, q, m, ret, err);
	git_oid_tostr(sha, sizeof(sha), git_commit_id(c));
	return search_grep(g, r, q, sha, ret, err);
}

int repo_search(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                struct arena *mem, struct repo_found_files *ret, struct err *err)
{
	struct match_opts mo = { .regex = q->regex,
		                 .case_sensitive = q->case_sensitive,
		                 .whole_word = q->whole_word,
		                 .lines = true };
	struct finder f = { .q = q, .mem = mem, .left = ANSWER_LINES };
	AUTO(hits_done) struct hits h = { 0 };
	automatch *m = NULL;
	autorepo *repo = NULL;
	autocommit *c = NULL;
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
	*ret = (struct repo_found_files){ .total = h.n, .total_matches = h.lines };
	return page(&f, repo, c, &h, ret, err);
}
