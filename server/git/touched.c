/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touched.c - does a push concern a trigger: branches and paths
 *
 * Paths are those that differ between the branch's old and new tree; of a new branch, all that are
 * in its tree. A push that changes more than we examine, in paths, directories or time, concerns
 * every trigger.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"
#include "git/trigger_internal.h"

#define PATHS_MAX 200000u
#define TOUCHED_MS 20000

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

/* *ret NULL: it did not exist, or does not any more. */
static int tree_of(git_repository *repo, const char *sha, git_tree **ret, struct err *err)
{
	autocommit *c = NULL;
	git_oid id;
	int r;

	if (git_oid_fromstr(&id, sha) < 0 || git_oid_is_zero(&id))
		return 0;
	if ((r = commit_get(repo, &id, &c, err)) == 0)
		r = tree_get(repo, git_commit_tree_id(c), ret, err);
	return r == -ENOENT ? 0 : r;
}

int repo_tagged(struct repos *g, const struct store_repo *r, const char *sha,
                char ret[SHA_TEXT_SIZE], struct err *err)
{
	autorepo *repo = NULL;
	git_object *o = NULL, *c = NULL;
	git_oid id;
	int rc = repo_open(g, r, &repo, err);

	if (rc < 0)
		return rc;
	if (git_oid_fromstr(&id, sha) < 0 || git_object_lookup(&o, repo, &id, GIT_OBJECT_ANY) < 0 ||
	    git_object_peel(&c, o, GIT_OBJECT_COMMIT) < 0)
		rc = err_set(err, -ENOENT, "the tag is of no commit");
	else
		git_oid_tostr(ret, SHA_TEXT_SIZE, git_object_id(c));
	git_object_free(c);
	git_object_free(o);
	return rc;
}

struct look {
	struct globs globs;
	size_t left;
	bool hit;
};

static void look_done(struct look *l)
{
	globs_done(&l->globs);
}

static int on_change(void *ctx, const struct change *c, struct err *err)
{
	struct look *l = ctx;

	(void)err;
	l->hit = l->left-- == 0 || hits(&l->globs, c->path);
	return l->hit;
}

int repo_touched(struct repos *g, const struct store_repo *r, const char *old_sha,
                 const char *new_sha, const json_t *globs, bool *ret, struct err *err)
{
	AUTO(look_done) struct look l = { .left = PATHS_MAX };
	struct bounds b = bounds_begin(NULL, TOUCHED_MS);
	autotree *from = NULL, *to = NULL;
	autorepo *repo = NULL;
	int rc;

	*ret = true;
	if (json_array_size(globs) == 0)
		return 0;
	if ((rc = globs_compile(globs, &l.globs, err)) < 0 ||
	    (rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	if ((rc = tree_of(repo, old_sha, &from, err)) == 0 &&
	    (rc = tree_of(repo, new_sha, &to, err)) == 0)
		rc = tree_changes(repo, from, to, &b, on_change, &l, err);
	*ret = rc != 0 || l.hit;
	return rc < 0 && err->tag != ERR_GIT_TOO_LARGE ? rc : 0;
}
