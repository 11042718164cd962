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

static const char *status_of_delta(git_delta_t s)
{
	switch (s) {
	case GIT_DELTA_ADDED:
		return "added";
	case GIT_DELTA_DELETED:
		return "removed";
	case GIT_DELTA_RENAMED:
		return "renamed";
	case GIT_DELTA_COPIED:
		return "copied";
	case GIT_DELTA_TYPECHANGE:
		return "changed";
	case GIT_DELTA_UNMODIFIED:
		return "unchanged";
	default:
		return "modified";
	}
}

static json_t *file_json(git_diff *diff, size_t i)
{
	const git_diff_delta *d = git_diff_get_delta(diff, i);
	size_t added = 0, removed = 0, context = 0;
	bool gone = d->status == GIT_DELTA_DELETED;
	const char *path = gone ? d->old_file.path : d->new_file.path;
	git_patch *patch = NULL;
	json_t *j;

	if (git_patch_from_diff(&patch, diff, i) == 0 && patch)
		git_patch_line_stats(&context, &added, &removed, patch);
	git_patch_free(patch);
	j = json_pack("{s:o, s:o, s:s, s:I, s:I, s:I}", "sha",
	              gone ? json_null() : oid_json(&d->new_file.id), "filename",
	              text_json(path, strlen(path)), "status", status_of_delta(d->status),
	              "additions", (json_int_t)added, "deletions", (json_int_t)removed, "changes",
	              (json_int_t)added + (json_int_t)removed);
	json_object_set_new(j, "previous_filename",
	                    d->status == GIT_DELTA_RENAMED || d->status == GIT_DELTA_COPIED
	                            ? text_json(d->old_file.path, strlen(d->old_file.path))
	                            : json_null());
	return j;
}

static int diff_files(git_repository *repo, git_commit *from, git_commit *to, json_t **ret,
                      struct err *err)
{
	git_diff_find_options fo = GIT_DIFF_FIND_OPTIONS_INIT;
	git_diff_options o = GIT_DIFF_OPTIONS_INIT;
	autotree *a = NULL, *b = NULL;
	git_diff *diff = NULL;
	json_t *files = NULL;
	int rc;

	o.max_size = BLOB_MAX;
	fo.flags = GIT_DIFF_FIND_RENAMES;
	fo.rename_limit = RENAMES_MAX;
	if ((rc = git_commit_tree(&a, from)) < 0 || (rc = git_commit_tree(&b, to)) < 0 ||
	    (rc = git_diff_tree_to_tree(&diff, repo, a, b, &o)) < 0)
		return git_fail(rc, "compare", err);
	if (git_diff_num_deltas(diff) <= FILES_MAX)
		git_diff_find_similar(diff,
		                      &fo); /* without it a rename is a removal and an addition */
	files = json_array();
	for (size_t i = 0; i < MIN(git_diff_num_deltas(diff), (size_t)FILES_MAX); i++)
		json_array_append_new(files, file_json(diff, i));
	git_diff_free(diff);
	*ret = files;
	return 0;
}

int repo_compare(struct repos *g, const struct store_repo *r, const char *base, const char *head,
                 json_t **ret, struct err *err)
{
	autocommit *b = NULL, *h = NULL, *m = NULL;
	struct graph gr = { .g = g, .r = r };
	struct relation rel;
	autorepo *repo = NULL;
	json_t *files = NULL;
	int rc;

	if ((rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_commit(repo, base, &b, err)) < 0 ||
	    (rc = rev_commit(repo, head, &h, err)) < 0)
		return rc;
	gr.repo = repo;
	if ((rc = graph_relate(&gr, git_commit_id(b), git_commit_id(h), &rel, err)) < 0)
		return rc;
	if (rel.has_base && (rc = git_commit_lookup(&m, repo, &rel.base)) < 0)
		return git_fail(rc, "compare", err);
	if ((rc = diff_files(repo, m ? m : b, h, &files, err)) < 0)
		return rc;
	*ret = json_pack("{s:s, s:I, s:I, s:I, s:o}", "status",
	                 rel.ahead && rel.behind ? "diverged"
	                 : rel.ahead             ? "ahead"
	                 : rel.behind            ? "behind"
	                                         : "identical",
	                 "ahead_by", (json_int_t)rel.ahead, "behind_by", (json_int_t)rel.behind,
	                 "total_commits", (json_int_t)rel.ahead, "files", files);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}
