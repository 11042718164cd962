/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touched.c - does a push concern a trigger: branches and paths
 *
 * Paths are those that differ between the branch's old and new tree; of a new branch, all that are
 * in its tree. A push that changes more paths than we examine concerns every trigger.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "git/trigger_internal.h"

#define PATHS_MAX 200000u

bool branch_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = pattern++;
			from = name;
		} else if (*pattern == '?' || *pattern == *name) {
			pattern++;
			name++;
		} else if (star) { /* the last star takes one more */
			pattern = star + 1;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

struct globs {
	struct match *m[TRIGGER_FILTERS_MAX];
	size_t n;
};

static void globs_done(struct globs *g)
{
	for (size_t i = 0; i < g->n; i++)
		match_free(g->m[i]);
}

static int globs_compile(const json_t *list, struct globs *ret, struct err *err)
{
	const struct match_opts o = { .glob = true, .case_sensitive = true };
	int r = 0;

	for (size_t i = 0; i < MIN(json_array_size(list), (size_t)TRIGGER_FILTERS_MAX); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text && *text && (r = match_new(text, &o, &ret->m[ret->n], err)) < 0)
			return r;
		ret->n += text && *text;
	}
	return 0;
}

static bool hits(const struct globs *g, const char *path)
{
	size_t a, b;

	for (size_t i = 0; i < g->n; i++)
		if (match_find(g->m[i], path, strlen(path), &a, &b) == 1)
			return true;
	return false;
}

/* NULL: it did not exist, or does not any more. */
static git_tree *tree_of(git_repository *repo, const char *sha)
{
	autocommit *c = NULL;
	git_tree *t = NULL;
	git_oid id;

	if (git_oid_fromstr(&id, sha) < 0 || git_oid_is_zero(&id) ||
	    git_commit_lookup(&c, repo, &id) < 0 || git_commit_tree(&t, c) < 0)
		return NULL;
	return t;
}

int repo_touched(struct repos *g, const struct store_repo *r, const char *old_sha,
                 const char *new_sha, const json_t *globs, bool *ret, struct err *err)
{
	git_diff_options o = GIT_DIFF_OPTIONS_INIT;
	AUTO(globs_done) struct globs gl = { 0 };
	autotree *from = NULL, *to = NULL;
	autorepo *repo = NULL;
	git_diff *diff = NULL;
	size_t n;
	int rc;

	*ret = true;
	if (json_array_size(globs) == 0)
		return 0;
	if ((rc = globs_compile(globs, &gl, err)) < 0 || (rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	from = tree_of(repo, old_sha);
	to = tree_of(repo, new_sha);
	if ((rc = git_diff_tree_to_tree(&diff, repo, from, to, &o)) < 0)
		return git_fail(rc, "compare", err);
	n = git_diff_num_deltas(diff);
	if (n <= PATHS_MAX) {
		*ret = false;
		for (size_t i = 0; i < n && !*ret; i++) {
			const git_diff_delta *d = git_diff_get_delta(diff, i);

			*ret = hits(&gl, d->new_file.path ? d->new_file.path : d->old_file.path);
		}
	}
	git_diff_free(diff);
	return 0;
}
