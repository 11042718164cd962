/* SPDX-License-Identifier: Apache-2.0 */
/* refs.c - branches and tags: listed, looked up, made */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"
#include "git/shared.h"

#define REFS_LISTED 50000     /* branches, or tags, of one answer */
#define ITEM_BYTES (1u << 20) /* of all messages of tags in a list of repositories, each */

/* Calls fn for each reference below the glob, at most max. */
typedef int (*ref_fn)(git_repository *repo, git_reference *ref, struct arena *mem, void *ret,
                      struct err *err);

static int each_ref(git_repository *repo, const char *glob, size_t max, ref_fn fn,
                    struct arena *mem, void *ret, struct err *err)
{
	autorefs *it = NULL;
	int rc = git_reference_iterator_glob_new(&it, repo, glob), r;

	while (rc == 0 && max-- > 0) {
		autoref *ref = NULL;

		rc = git_reference_next(&ref, it);
		if (rc == 0 && (r = fn(repo, ref, mem, ret, err)) < 0)
			return r;
	}
	return rc < 0 && rc != GIT_ITEROVER ? git_fail(rc, "list references", err) : 0;
}

static int add_branch(git_repository *repo, git_reference *ref, struct arena *mem, void *ret,
                      struct err *err)
{
	const git_oid *id = git_reference_target(ref);
	struct repo_branches *b = ret;
	struct repo_branch *one;

	b->v = arena_more(mem, b->v, b->n, sizeof(*b->v));
	if (!b->v)
		return arena_check(mem, err);
	one = &b->v[b->n++];
	one->name = arena_str(mem, git_reference_shorthand(ref));
	if (id)
		git_oid_tostr(one->sha, sizeof(one->sha), id);
	return arena_check(mem, err);
}

static int add_tag(git_repository *repo, git_reference *ref, struct arena *mem, void *ret,
                   struct err *err)
{
	struct repo_tags *t = ret;
	const char *message;

	t->v = arena_more(mem, t->v, t->n, sizeof(*t->v));
	if (!t->v || !tag_ref_read(repo, ref, mem, &t->v[t->n]))
		return arena_check(mem, err);
	message = t->v[t->n++].message;
	t->bytes += message ? strlen(message) : 0;
	if (t->bytes > META_BYTES_ALL)
		return err_tag(
		        err, -EFBIG, ERR_GIT_TOO_LARGE,
		        "the messages of the tags have more than %u MiB: ask for single tags",
		        META_BYTES_ALL >> 20);
	return arena_check(mem, err);
}

/* In a list of repositories: long messages are left out. */
static int add_item_tag(git_repository *repo, git_reference *ref, struct arena *mem, void *ret,
                        struct err *err)
{
	struct repo_tags *t = ret;
	int r;

	if (t->bytes > ITEM_BYTES)
		return 0;
	if ((r = add_tag(repo, ref, mem, ret, err)) == 0 && t->bytes > ITEM_BYTES)
		t->v[t->n - 1].message = NULL;
	return r;
}

/* All of them, or GIT_TOO_LARGE. */
static int all_refs(git_repository *repo, const char *glob, ref_fn fn, struct arena *mem, void *ret,
                    const size_t *n, struct err *err)
{
	int r = each_ref(repo, glob, REFS_LISTED + 1, fn, mem, ret, err);

	if (r < 0 || *n <= REFS_LISTED)
		return r;
	return err_tag(err, -EFBIG, ERR_GIT_TOO_LARGE,
	               "the repository has more than %d of them: use git ls-remote", REFS_LISTED);
}

int repo_branches(struct repos *g, const struct store_repo *r, struct arena *mem,
                  struct repo_branches *ret, struct err *err)
{
	autorepo *repo = NULL;
	int rc = repo_open(g, r, &repo, err);

	*ret = (struct repo_branches){ 0 };
	return rc < 0 ? rc : all_refs(repo, "refs/heads/*", add_branch, mem, ret, &ret->n, err);
}

int repo_tags(struct repos *g, const struct store_repo *r, struct arena *mem, struct repo_tags *ret,
              struct err *err)
{
	autorepo *repo = NULL;
	int rc = repo_open(g, r, &repo, err);

	*ret = (struct repo_tags){ 0 };
	return rc < 0 ? rc : all_refs(repo, "refs/tags/*", add_tag, mem, ret, &ret->n, err);
}

int repo_item(struct repos *g, const struct store_repo *r, struct arena *mem, struct repo_item *ret,
              struct err *err)
{
	autorepo *repo = NULL;
	int rc;

	*ret = (struct repo_item){ 0 };
	if ((rc = repo_open(g, r, &repo, err)) < 0 ||
	    (rc = rev_head(repo, ret->default_branch, err)) < 0 ||
	    (rc = each_ref(repo, "refs/heads/*", REPO_ITEM_REFS, add_branch, mem, &ret->branches,
	                   err)) < 0)
		return rc;
	return each_ref(repo, "refs/tags/*", REPO_ITEM_REFS, add_item_tag, mem, &ret->tags, err);
}

int repo_branch(struct repos *g, const struct store_repo *r, const char *name,
                char ret_sha[REPO_SHA_SIZE], struct err *err)
{
	autorepo *repo = NULL;
	autocommit *c = NULL;
	int rc;

	if ((rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_branch(repo, name, &c, err)) < 0)
		return rc;
	git_oid_tostr(ret_sha, REPO_SHA_SIZE, git_commit_id(c));
	return 0;
}

/* libgit2's own message has the path of a file. */
int branch_clash(const char *name, struct err *err)
{
	return err_tag(
	        err, -EINVAL, ERR_GIT_INVALID_REQUEST,
	        "cannot create branch '%.200s': if 'a' is a branch there can be no 'a/b', and the "
	        "other way round",
	        name);
}

int repo_branch_create(struct repos *g, const struct store_repo *r, const char *by,
                       const char *name, const char *sha, char ret_sha[REPO_SHA_SIZE],
                       struct err *err)
{
	struct repo_update u = { 0 };
	autorepo *repo = NULL;
	autocommit *c = NULL;
	autoref *ref = NULL;
	autonote note = NOTE_NONE;
	int rc;

	if (!*name)
		return err_tag(err, -EINVAL, ERR_BRANCH_NAME_EMPTY, "the branch has no name");
	if (strcmp(name, "{*branch}") == 0)
		return err_tag(
		        err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		        "this version of the SDK does not send the branch's name: use POST "
		        "/git/v1/repo/{repo}/branches with {\"name\": ..., \"sha\": ...} instead");
	if (!repo_branch_valid(name))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'%.200s' is not a valid branch name", name);
	if ((rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_commit(repo, sha, &c, err)) < 0)
		return rc;
	snprintf(u.ref, sizeof(u.ref), "refs/heads/%s", name);
	memset(u.old_sha, '0', REPO_SHA_SIZE - 1);
	git_oid_tostr(u.new_sha, sizeof(u.new_sha), git_commit_id(c));
	if ((rc = note_open(g, r->id, by, &note, err)) < 0 || (rc = note_hold(&note, err)) < 0)
		return rc;
	if (is_shared(g) && git_reference_lookup(&ref, repo, u.ref) == 0)
		return err_tag(err, -EEXIST, ERR_BRANCH_ALREADY_EXISTS,
		               "branch '%s' already exists", name);
	if ((rc = note_plan(&note, &u, 1, err)) < 0)
		return rc;
	rc = git_reference_create(&ref, repo, u.ref, git_commit_id(c), /* force= */ 0, NULL);
	if (rc == GIT_EEXISTS)
		return err_tag(err, -EEXIST, ERR_BRANCH_ALREADY_EXISTS,
		               "branch '%s' already exists", name);
	if (rc < 0)
		return branch_clash(name, err);
	if ((rc = note_told(&note, r, &u, 1, err)) < 0)
		return rc;
	memcpy(ret_sha, u.new_sha, REPO_SHA_SIZE);
	return 0;
}

int repo_tag(struct repos *g, const struct store_repo *r, const char *name, struct arena *mem,
             struct repo_tag *ret, struct err *err)
{
	char full[REPO_REF_SIZE];
	autorepo *repo = NULL;
	autoref *ref = NULL;
	int rc, ok = 0;

	if (!*name)
		return err_tag(err, -EINVAL, ERR_EMPTY_TAG, "the tag has no name");
	if ((rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	if ((size_t)snprintf(full, sizeof(full), "refs/tags/%s", name) >= sizeof(full) ||
	    git_reference_name_is_valid(&ok, full) < 0 || !ok ||
	    git_reference_lookup(&ref, repo, full) < 0)
		return err_tag(err, -ENOENT, ERR_REFERENCE_NOT_FOUND, "there is no tag '%.200s'",
		               name);
	if (!tag_ref_read(repo, ref, mem, ret))
		return err_set(err, -EIO, "the tag cannot be read");
	return arena_check(mem, err);
}
