/* SPDX-License-Identifier: Apache-2.0 */
/* commit_object.c - a commit of a tree and parents that are there already; no branch moves */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "git/bounds.h"

static int signature(const struct repo_person *p, git_signature **ret, struct err *err)
{
	int64_t now = clock_wall_ms() / 1000;

	if (git_signature_new(ret, p ? p->name : "Pando", p ? p->email : "noreply@pando.localhost",
	                      p ? p->when_s : now, p ? p->offset_min : 0) < 0)
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "the name and e-mail of an author must not contain '<', '>' or line "
		               "breaks");
	return 0;
}

struct work {
	git_repository *repo;
	git_signature *author, *committer;
	git_tree *tree;
	git_commit *parents[REPO_PARENTS_MAX];
	size_t n_parents;
};

static void work_done(struct work *w)
{
	git_signature_free(w->author);
	git_signature_free(w->committer);
	git_tree_free(w->tree);
	for (size_t i = 0; i < w->n_parents; i++)
		git_commit_free(w->parents[i]);
	git_repository_free(w->repo);
}

static int find_objects(struct work *w, const struct repo_commit_object *n, struct err *err)
{
	git_oid id;
	int r;

	if (n->n_parents > REPO_PARENTS_MAX)
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "a commit has at most %d parents", REPO_PARENTS_MAX);
	if ((r = rev_oid(n->tree, &id, err)) < 0)
		return r;
	if ((r = tree_get(w->repo, &id, &w->tree, err)) < 0 && r != -ENOENT)
		return r;
	if (r < 0)
		return err_tag(err, -ENOENT, ERR_TREE_NOT_FOUND, "there is no tree '%s'", n->tree);
	for (size_t i = 0; i < n->n_parents; i++) {
		if ((r = rev_oid(n->parents[i], &id, err)) < 0)
			return r;
		if ((r = commit_get(w->repo, &id, &w->parents[i], err)) < 0 && r != -ENOENT)
			return r;
		if (r < 0)
			return err_tag(err, -ENOENT, ERR_PARENT_NOT_FOUND,
			               "there is no commit '%s'", n->parents[i]);
		w->n_parents++;
	}
	return 0;
}

int repo_commit_object(struct repos *g, const struct store_repo *r,
                       const struct repo_commit_object *n, struct arena *mem,
                       struct repo_commit *ret, struct err *err)
{
	AUTO(work_done) struct work w = { 0 };
	autocommit *c = NULL;
	git_oid id;
	int rc;

	if ((rc = repo_open(g, r, &w.repo, err)) < 0 || (rc = find_objects(&w, n, err)) < 0 ||
	    (rc = signature(n->author, &w.author, err)) < 0 ||
	    (rc = signature(n->committer, &w.committer, err)) < 0)
		return rc;
	rc = git_commit_create(&id, w.repo, NULL, w.author, w.committer, NULL, n->message, w.tree,
	                       w.n_parents, (const git_commit **)w.parents);
	if (rc == 0)
		rc = git_commit_lookup(&c, w.repo, &id);
	if (rc < 0)
		return git_fail(rc, "write the commit", err);
	maint_note(g, r->id);
	return commit_read(c, mem, ret, err);
}
