/* SPDX-License-Identifier: Apache-2.0 */
/* commit_object.c - a commit of a tree and parents that are there already; no branch moves */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "git/git_internal.h"

#define PARENTS_MAX 16
#define TAG ERR_GIT_INVALID_REQUEST

static const char *member(const json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

static int signature(struct repos *g, const json_t *o, git_signature **ret, struct err *err)
{
	const char *name = member(o, "name"), *email = member(o, "email"),
	           *date = member(o, "date");
	int64_t ms = clock_wall_ms();

	if ((o && !json_is_null(o) && (!name || !email)) ||
	    (date && clock_rfc3339_parse(date, &ms) < 0))
		return err_tag(err, -EINVAL, TAG,
		               "author and committer must be {name, email, date?}, the date in RFC "
		               "3339 format");
	if (git_signature_new(ret, name ? name : "Pando", email ? email : "noreply@pando.localhost",
	                      ms / 1000, 0) < 0)
		return err_tag(err, -EINVAL, TAG,
		               "the name and e-mail of an author must not contain '<', '>' or line "
		               "breaks");
	return 0;
}

struct work {
	git_repository *repo;
	git_signature *author, *committer;
	git_tree *tree;
	git_commit *parents[PARENTS_MAX];
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

static int find_objects(struct work *w, const json_t *body, struct err *err)
{
	const json_t *parents = json_object_get(body, "parents"), *item;
	const char *tree = member(body, "tree"), *sha;
	git_oid id;
	size_t i;
	int r;

	if (!tree || !member(body, "message") || (parents && !json_is_array(parents)) ||
	    json_array_size(parents) > PARENTS_MAX)
		return err_tag(err, -EINVAL, TAG,
		               "a commit must be {message, tree, parents: at most %d}",
		               PARENTS_MAX);
	if ((r = rev_oid(tree, &id, err)) < 0)
		return r;
	if (git_tree_lookup(&w->tree, w->repo, &id) < 0)
		return err_tag(err, -ENOENT, ERR_TREE_NOT_FOUND, "there is no tree '%s'", tree);
	json_array_foreach(parents, i, item)
	{
		sha = json_string_value(item);
		if ((r = rev_oid(sha ? sha : "", &id, err)) < 0)
			return r;
		if (git_commit_lookup(&w->parents[i], w->repo, &id) < 0)
			return err_tag(err, -ENOENT, ERR_PARENT_NOT_FOUND,
			               "there is no commit '%s'", sha);
		w->n_parents++;
	}
	return 0;
}

int repo_commit_object(struct repos *g, const struct store_repo *r, const json_t *body,
                       json_t **ret, struct err *err)
{
	const json_t *author = json_object_get(body, "author");
	const json_t *committer = json_object_get(body, "committer");
	AUTO(work_done) struct work w = { 0 };
	autocommit *c = NULL;
	git_oid id;
	int rc;

	if ((rc = repo_open(g, r, &w.repo, err)) < 0 || (rc = find_objects(&w, body, err)) < 0 ||
	    (rc = signature(g, author, &w.author, err)) < 0 ||
	    (rc = signature(g, committer ? committer : author, &w.committer, err)) < 0)
		return rc;
	rc = git_commit_create(&id, w.repo, NULL, w.author, w.committer, NULL,
	                       member(body, "message"), w.tree, w.n_parents,
	                       (const git_commit **)w.parents);
	if (rc == 0)
		rc = git_commit_lookup(&c, w.repo, &id);
	if (rc < 0)
		return git_fail(rc, "write the commit", err);
	maint_note(g, r->id);
	*ret = json_pack("{s:o}", "commit", commit_json(c));
	return 0;
}
