/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - commits of a branch, a page at a time
 *
 * Newest first ("desc"): from the branch's tip or, with until, from that commit, down to the root
 * or, with since, to the one after it. Oldest first ("asc") is the same list reversed, with
 * since included: either way next_commit is where the client's next page begins.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"
#include "git/graph.h"

/* A commit that a selector names, which must be the tip or below it. */
static int selector(struct graph *gr, const char *sha, git_commit *tip, const char *branch,
                    git_commit **ret, struct err *err)
{
	int r = rev_commit(gr->repo, sha, ret, err);

	if (r < 0)
		return r;
	r = graph_before(gr, git_commit_id(*ret), git_commit_id(tip), err);
	if (r < 0)
		return r;
	return r ? 0
	         : err_tag(err, -EINVAL, ERR_COMMIT_NOT_IN_BRANCH,
	                   "commit %.40s is not in branch '%s'", sha, branch);
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

static int find_range(struct graph *gr, const struct repo_log *q, const char *branch,
                      struct range *ret, struct err *err)
{
	int r;

	if ((r = rev_branch(gr->repo, branch, &ret->tip, err)) < 0 ||
	    (q->since && (r = selector(gr, q->since, ret->tip, branch, &ret->since, err)) < 0) ||
	    (q->until && (r = selector(gr, q->until, ret->tip, branch, &ret->until, err)) < 0))
		return r;
	if (!ret->since || !ret->until)
		return 0;
	r = graph_before(gr, git_commit_id(ret->since), git_commit_id(ret->until), err);
	if (r < 0)
		return r;
	return r ? 0
	         : err_tag(err, -EINVAL, ERR_INVALID_RANGE,
	                   "'until' must be 'since' or a descendant of it");
}

/* The page of the list, which is newest first. */
static int read_page(git_repository *repo, const struct repo_log *q, const struct oids *row,
                     struct arena *mem, struct repo_history *ret, struct err *err)
{
	size_t first = MIN((size_t)q->offset, row->n), end = MIN(first + q->limit, row->n);
	size_t bytes = 0;

	*ret = (struct repo_history){ .total = row->n };
	ret->v = arena_array(mem, end - first, sizeof(*ret->v));
	if (!ret->v)
		return arena_check(mem, err);
	for (size_t i = first; i < end; i++) {
		const git_oid *id = &row->v[q->asc ? row->n - 1 - i : i];
		autocommit *c = NULL;
		int rc = commit_get(repo, id, &c, err);

		if (rc < 0)
			return rc == -ENOENT ? git_fail(rc, "read a commit", err) : rc;
		if ((rc = commit_read(c, mem, &ret->v[ret->n], err)) < 0)
			return rc;
		bytes += strlen(ret->v[ret->n++].message);
		if (bytes > META_BYTES_ALL)
			return err_tag(
			        err, -EFBIG, ERR_GIT_TOO_LARGE,
			        "the messages of these commits have more than %u MiB: ask for "
			        "fewer with 'limit'",
			        META_BYTES_ALL >> 20);
	}
	if (end < row->n)
		git_oid_tostr(ret->next, sizeof(ret->next),
		              &row->v[q->asc ? row->n - 1 - end : end]);
	return 0;
}

static int collect(struct graph *gr, const struct repo_log *q, const struct range *g,
                   struct oids *row, struct err *err)
{
	const git_oid *from = git_commit_id(g->until ? g->until : g->tip);
	const git_oid *since = g->since ? git_commit_id(g->since) : NULL;
	/* Newest first and nobody wants to know how many: the page and one more are enough. */
	size_t max = q->asc || !q->no_total ? SIZE_MAX : (size_t)q->offset + q->limit + 1;
	int r = graph_walk(gr, from, since, max, row, err);

	return r == 0 && since && q->asc ? oids_add(row, since, err) : r;
}

int repo_log(struct repos *g, const struct store_repo *r, const struct repo_log *q,
             struct arena *mem, struct repo_history *ret, struct err *err)
{
	AUTO(range_done) struct range range = { 0 };
	struct graph gr = { .g = g, .r = r, .client = q->client };
	autooids row = { 0 };
	char branch[REPO_REF_SIZE];
	autorepo *repo = NULL;
	int rc;

	if (q->has_offset && q->offset && (q->since || q->until))
		return err_tag(err, -EINVAL, ERR_OFFSET_WITH_SELECTOR,
		               "'offset' cannot be used with 'since' and 'until'");
	if ((rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	gr.repo = repo;
	if (q->branch)
		snprintf(branch, sizeof(branch), "%s", q->branch);
	else if ((rc = rev_head(repo, branch, err)) < 0)
		return rc;
	rc = find_range(&gr, q, branch, &range, err);
	/* The default branch of an empty repository has no commits, which is not an error. */
	if (rc == -ENOENT && !q->branch && !range.tip)
		rc = 0;
	if (rc == 0 && range.tip)
		rc = collect(&gr, q, &range, &row, err);
	return rc < 0 ? rc : read_page(repo, q, &row, mem, ret, err);
}
