/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - commits of a branch, a page at a time
 *
 * Newest first ("desc"): from the branch's tip or, with until, from that commit, down to the root or,
 * with since, to the one after it. Oldest first ("asc") is the same row backwards, since included: the
 * page that a client asks for next begins with next_commit either way.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/git_internal.h"

#define WALK_MAX 5000000 /* commits of one branch */

struct row {
	git_oid *v; /* owned */
	size_t n, cap;
};

static void row_done(struct row *r)
{
	free(r->v);
}

static int row_add(struct row *r, const git_oid *id, struct err *err)
{
	if (r->n == WALK_MAX)
		return err_tag(err, -EFBIG, "GIT_ERROR", "the branch has more than %d commits",
		               WALK_MAX);
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 1024;
		void *p = realloc(r->v, cap * sizeof(*r->v));

		if (!p)
			return err_set(err, -ENOMEM, "out of memory");
		r->v = p;
		r->cap = cap;
	}
	r->v[r->n++] = *id;
	return 0;
}

/* Those reachable from tip and not from hide (NULL: all), newest first; at most max. */
static int walk(git_repository *repo, const git_oid *tip, const git_oid *hide, size_t max,
                struct row *ret, struct err *err)
{
	autowalk *w = NULL;
	git_oid id;
	int rc = git_revwalk_new(&w, repo);

	if (rc == 0)
		rc = git_revwalk_sorting(w, GIT_SORT_TOPOLOGICAL | GIT_SORT_TIME);
	if (rc == 0)
		rc = git_revwalk_push(w, tip);
	if (rc == 0 && hide)
		rc = git_revwalk_hide(w, hide);
	while (rc == 0 && ret->n < max && (rc = git_revwalk_next(&id, w)) == 0)
		if ((rc = row_add(ret, &id, err)) < 0)
			return rc;
	return rc < 0 && rc != GIT_ITEROVER ? git_fail(rc, "walk the commits", err) : 0;
}

/* A commit that a selector names, which must be the tip or below it. */
static int selector(git_repository *repo, const char *sha, git_commit *tip, const char *branch,
                    git_commit **ret, struct err *err)
{
	int r = rev_commit(repo, sha, ret, err), d;

	if (r < 0)
		return r;
	if (git_oid_equal(git_commit_id(*ret), git_commit_id(tip)))
		return 0;
	d = git_graph_descendant_of(repo, git_commit_id(tip), git_commit_id(*ret));
	if (d < 0)
		return git_fail(d, "walk the commits", err);
	return d ? 0
	         : err_tag(err, -EINVAL, "COMMIT_NOT_IN_BRANCH", "commit %.40s is not in branch '%s'",
	                   sha, branch);
}

struct range {
	git_commit *tip, *since, *until; /* owned; the latter may be NULL */
};

static void range_done(struct range *g)
{
	git_commit_free(g->tip);
	git_commit_free(g->since);
	git_commit_free(g->until);
}

static int find_range(git_repository *repo, const struct repo_log *q, const char *branch,
                      struct range *ret, struct err *err)
{
	int r, d;

	if ((r = rev_branch(repo, branch, &ret->tip, err)) < 0 ||
	    (q->since && (r = selector(repo, q->since, ret->tip, branch, &ret->since, err)) < 0) ||
	    (q->until && (r = selector(repo, q->until, ret->tip, branch, &ret->until, err)) < 0))
		return r;
	if (!ret->since || !ret->until ||
	    git_oid_equal(git_commit_id(ret->since), git_commit_id(ret->until)))
		return 0;
	d = git_graph_descendant_of(repo, git_commit_id(ret->until), git_commit_id(ret->since));
	if (d < 0)
		return git_fail(d, "walk the commits", err);
	return d ? 0
	         : err_tag(err, -EINVAL, "INVALID_RANGE",
	                   "'until' must be 'since' or come after it in the history");
}

static json_t *selector_json(const struct repo_log *q)
{
	if (q->since && q->until)
		return json_pack("{s:{s:s, s:s}}", "Range", "since", q->since, "until", q->until);
	if (q->since)
		return json_pack("{s:{s:s}}", "Since", "since", q->since);
	if (q->until)
		return json_pack("{s:{s:s}}", "Until", "until", q->until);
	return json_null();
}

/* The page's place in the row, which is newest first. */
static int page_json(git_repository *repo, const struct repo_log *q, const struct row *row,
                     json_t **ret_items, json_t **ret_next, struct err *err)
{
	size_t first = MIN((size_t)q->offset, row->n), end = MIN(first + q->limit, row->n);
	json_t *items = json_array();

	for (size_t i = first; i < end; i++) {
		const git_oid *id = &row->v[q->asc ? row->n - 1 - i : i];
		autocommit *c = NULL;
		int rc = git_commit_lookup(&c, repo, id);

		if (rc < 0) {
			json_decref(items);
			return git_fail(rc, "read a commit", err);
		}
		json_array_append_new(items, commit_json(c));
	}
	*ret_items = items;
	*ret_next = end < row->n ? oid_json(&row->v[q->asc ? row->n - 1 - end : end]) : json_null();
	return 0;
}

static int collect(git_repository *repo, const struct repo_log *q, const struct range *g,
                   struct row *row, struct err *err)
{
	const git_oid *from = git_commit_id(g->until ? g->until : g->tip);
	const git_oid *since = g->since ? git_commit_id(g->since) : NULL;
	/* Newest first and nobody wants to know how many: the page and one more are enough. */
	size_t max = q->asc || !q->no_total ? SIZE_MAX : (size_t)q->offset + q->limit + 1;
	int r = walk(repo, from, since, max, row, err);

	return r == 0 && since && q->asc ? row_add(row, since, err) : r;
}

int repo_log(struct repos *g, const struct store_repo *r, const struct repo_log *q, json_t **ret,
             struct err *err)
{
	AUTO(range_done) struct range range = { 0 };
	AUTO(row_done) struct row row = { 0 };
	char branch[REPO_REF_SIZE];
	json_t *items = NULL, *next = NULL;
	autorepo *repo = NULL;
	int rc;

	if (q->has_offset && q->offset && (q->since || q->until))
		return err_tag(err, -EINVAL, "OFFSET_WITH_SELECTOR",
		               "'offset' does not go with 'since' and 'until'");
	if ((rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	if (q->branch)
		snprintf(branch, sizeof(branch), "%s", q->branch);
	else if ((rc = rev_head(repo, branch, err)) < 0)
		return rc;
	rc = find_range(repo, q, branch, &range, err);
	/* The default branch of an empty repository has no commits, which is no error. */
	if (rc == -ENOENT && !q->branch && !range.tip)
		rc = 0;
	if (rc == 0 && range.tip)
		rc = collect(repo, q, &range, &row, err);
	if (rc < 0 || (rc = page_json(repo, q, &row, &items, &next, err)) < 0)
		return rc;
	*ret = json_pack("{s:o, s:I, s:I, s:s, s:o, s:o, s:o, s:o}", "commits", items, "count",
	                 (json_int_t)json_array_size(items), "limit", (json_int_t)q->limit, "order",
	                 q->asc ? "asc" : "desc", "offset",
	                 q->since || q->until ? json_null() : json_integer(q->offset), "total",
	                 q->no_total ? json_null() : json_integer((json_int_t)row.n), "selector",
	                 selector_json(q), "next_commit", next);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}
