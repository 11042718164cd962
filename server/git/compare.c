/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.c - how two revisions relate, and which files differ
 *
 * Files are compared with what both have in common (their merge base), as a pull request shows
 * them; without anything in common, with the base itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/graph.h"

#define FILES_MAX 3000              /* listed of one comparison */
#define BLOB_MAX (INT64_C(4) << 20) /* larger files count no lines */
#define RENAMES_MAX 400             /* candidates: the search is quadratic */

static enum repo_diff_status status_of_delta(git_delta_t s)
{
	switch (s) {
	case GIT_DELTA_ADDED:
		return REPO_DIFF_ADDED;
	case GIT_DELTA_DELETED:
		return REPO_DIFF_REMOVED;
	case GIT_DELTA_RENAMED:
		return REPO_DIFF_RENAMED;
	case GIT_DELTA_COPIED:
		return REPO_DIFF_COPIED;
	case GIT_DELTA_TYPECHANGE:
		return REPO_DIFF_CHANGED;
	case GIT_DELTA_UNMODIFIED:
		return REPO_DIFF_UNCHANGED;
	default:
		return REPO_DIFF_MODIFIED;
	}
}

static void read_delta(git_diff *diff, size_t i, struct arena *mem, struct repo_diff_file *ret)
{
	const git_diff_delta *d = git_diff_get_delta(diff, i);
	bool gone = d->status == GIT_DELTA_DELETED;
	git_patch *patch = NULL;
	size_t context = 0;

	if (git_patch_from_diff(&patch, diff, i) == 0 && patch)
		git_patch_line_stats(&context, &ret->added, &ret->removed, patch);
	git_patch_free(patch);
	ret->status = status_of_delta(d->status);
	ret->path = arena_str(mem, gone ? d->old_file.path : d->new_file.path);
	if (!gone)
		git_oid_tostr(ret->sha, sizeof(ret->sha), &d->new_file.id);
	if (d->status == GIT_DELTA_RENAMED || d->status == GIT_DELTA_COPIED)
		ret->old_path = arena_str(mem, d->old_file.path);
}

static int diff_files(git_repository *repo, git_commit *from, git_commit *to, struct arena *mem,
                      struct repo_comparison *ret, struct err *err)
{
	git_diff_find_options fo = GIT_DIFF_FIND_OPTIONS_INIT;
	git_diff_options o = GIT_DIFF_OPTIONS_INIT;
	autotree *a = NULL, *b = NULL;
	git_diff *diff = NULL;
	size_t n;
	int rc;

	o.max_size = BLOB_MAX;
	fo.flags = GIT_DIFF_FIND_RENAMES;
	fo.rename_limit = RENAMES_MAX;
	if ((rc = git_commit_tree(&a, from)) < 0 || (rc = git_commit_tree(&b, to)) < 0 ||
	    (rc = git_diff_tree_to_tree(&diff, repo, a, b, &o)) < 0)
		return git_fail(rc, "compare", err);
	/* Without it a rename is a removal and an addition. */
	if (git_diff_num_deltas(diff) <= FILES_MAX)
		git_diff_find_similar(diff, &fo);
	n = MIN(git_diff_num_deltas(diff), (size_t)FILES_MAX);
	ret->v = arena_array(mem, n, sizeof(*ret->v));
	for (ret->n = 0; ret->v && ret->n < n; ret->n++)
		read_delta(diff, ret->n, mem, &ret->v[ret->n]);
	git_diff_free(diff);
	return arena_check(mem, err);
}

int repo_compare(struct repos *g, const struct store_repo *r, const char *base, const char *head,
                 struct arena *mem, struct repo_comparison *ret, struct err *err)
{
	autocommit *b = NULL, *h = NULL, *m = NULL;
	struct graph gr = { .g = g, .r = r };
	struct relation rel;
	autorepo *repo = NULL;
	int rc;

	if ((rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_commit(repo, base, &b, err)) < 0 ||
	    (rc = rev_commit(repo, head, &h, err)) < 0)
		return rc;
	gr.repo = repo;
	if ((rc = graph_relate(&gr, git_commit_id(b), git_commit_id(h), &rel, err)) < 0)
		return rc;
	if (rel.has_base && (rc = git_commit_lookup(&m, repo, &rel.base)) < 0)
		return git_fail(rc, "compare", err);
	*ret = (struct repo_comparison){ .ahead = rel.ahead, .behind = rel.behind };
	return diff_files(repo, m ? m : b, h, mem, ret, err);
}
