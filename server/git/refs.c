/* SPDX-License-Identifier: Apache-2.0 */
/* refs.c - branches and tags: listed, looked up, made */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/git_internal.h"

#define LIST_REFS_MAX 1000 /* branches, and tags, of one repository in a list of repositories */

typedef json_t *(*ref_fn)(git_repository *repo, git_reference *ref);

/* Calls fn for each reference below the glob, at most max; adds what it makes. */
static int each_ref(git_repository *repo, const char *glob, size_t max, ref_fn fn, json_t *to,
                    struct err *err)
{
	autorefs *it = NULL;
	int rc = git_reference_iterator_glob_new(&it, repo, glob);

	while (rc == 0 && max-- > 0) {
		autoref *ref = NULL;
		json_t *j;

		rc = git_reference_next(&ref, it);
		if (rc == 0 && (j = fn(repo, ref)) && json_array_append_new(to, j) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return rc < 0 && rc != GIT_ITEROVER ? git_fail(rc, "list references", err) : 0;
}

static json_t *branch_item(git_repository *repo, git_reference *ref)
{
	const char *name = git_reference_shorthand(ref);
	const git_oid *id = git_reference_target(ref);

	return json_pack("{s:o, s:o}", "name", text_json(name, strlen(name)), "commit",
	                 id ? oid_json(id) : json_null());
}

static int list(struct repos *g, const struct store_repo *r, const char *glob, const char *member,
                ref_fn fn, json_t **ret, struct err *err)
{
	autorepo *repo = NULL;
	json_t *items = json_array();
	int rc = repo_open(g, r, &repo, err);

	if (rc == 0)
		rc = each_ref(repo, glob, SIZE_MAX, fn, items, err);
	if (rc < 0) {
		json_decref(items);
		return rc;
	}
	*ret = json_pack("{s:o}", member, items);
	return 0;
}

int repo_branches(struct repos *g, const struct store_repo *r, json_t **ret, struct err *err)
{
	return list(g, r, "refs/heads/*", "branches", branch_item, ret, err);
}

int repo_tags(struct repos *g, const struct store_repo *r, json_t **ret, struct err *err)
{
	return list(g, r, "refs/tags/*", "tags", tag_ref_json, ret, err);
}

static json_t *branch_shape(const char *name, const git_oid *id)
{
	return json_pack("{s:s, s:o}", "name", name, "sha", oid_json(id));
}

int repo_branch(struct repos *g, const struct store_repo *r, const char *name, json_t **ret,
                struct err *err)
{
	autorepo *repo = NULL;
	autocommit *c = NULL;
	int rc;

	if ((rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_branch(repo, name, &c, err)) < 0)
		return rc;
	*ret = branch_shape(name, git_commit_id(c));
	return 0;
}

int repo_branch_create(struct repos *g, const struct store_repo *r, const char *by,
                       const char *name, const char *sha, json_t **ret, struct err *err)
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
	if ((rc = note_open(g, r->id, by, &note, err)) < 0 ||
	    (rc = note_plan(&note, &u, 1, err)) < 0)
		return rc;
	rc = git_reference_create(&ref, repo, u.ref, git_commit_id(c), /* force= */ 0, NULL);
	if (rc == GIT_EEXISTS)
		return err_tag(err, -EEXIST, ERR_BRANCH_ALREADY_EXISTS,
		               "branch '%s' already exists", name);
	if (rc < 0) /* most likely "a" when there is "a/b", or the other way round */
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "cannot create branch '%s': %.100s", name,
		               git_error_last() ? git_error_last()->message : "no reason given");
	note_told(&note, r, &u, 1);
	*ret = branch_shape(name, git_commit_id(c));
	return 0;
}

int repo_tag(struct repos *g, const struct store_repo *r, const char *name, json_t **ret,
             struct err *err)
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
	*ret = tag_ref_json(repo, ref);
	return *ret ? 0 : err_set(err, -EIO, "the tag cannot be read");
}

/* ---- in a list of repositories ---- */

static json_t *list_branch(git_repository *repo, git_reference *ref)
{
	json_t *j = branch_item(repo, ref);

	json_object_set(j, "target", json_object_get(j, "commit"));
	json_object_del(j, "commit");
	return j;
}

static json_t *list_tag(git_repository *repo, git_reference *ref)
{
	json_t *j = tag_ref_json(repo, ref), *t;

	if (!j)
		return NULL;
	t = json_pack("{s:O, s:O, s:O}", "name", json_object_get(j, "name"), "target",
	              json_object_get(json_object_get(j, "target"), "sha"), "message",
	              json_object_get(j, "message"));
	json_decref(j);
	return t;
}

static json_t *by_name(json_t *items_consume, const char *def)
{
	json_t *map = json_object(), *item;
	size_t i;

	json_array_foreach(items_consume, i, item)
	{
		const char *name = json_string_value(json_object_get(item, "name"));

		if (def)
			json_object_set_new(item, "default", json_boolean(strcmp(name, def) == 0));
		json_object_set(map, name, item);
	}
	json_decref(items_consume);
	return map;
}

int repo_item(struct repos *g, const struct store_repo *r, json_t **ret, struct err *err)
{
	json_t *branches = json_array(), *tags = json_array();
	char head[REPO_REF_SIZE] = "";
	autorepo *repo = NULL;
	int rc = repo_open(g, r, &repo, err);

	if (rc == 0)
		rc = rev_head(repo, head, err);
	if (rc == 0)
		rc = each_ref(repo, "refs/heads/*", LIST_REFS_MAX, list_branch, branches, err);
	if (rc == 0)
		rc = each_ref(repo, "refs/tags/*", LIST_REFS_MAX, list_tag, tags, err);
	if (rc < 0) {
		json_decref(branches);
		json_decref(tags);
		return rc;
	}
	*ret = json_pack("{s:s, s:s, s:s?, s:s, s:s, s:s, s:I, s:o, s:o}", "id", r->id, "repoId",
	                 r->id, "name", *r->name ? r->name : NULL, "accountId", r->account,
	                 "visibility", r->is_public ? "public" : "private", "defaultBranch", head,
	                 "bytes", (json_int_t)r->bytes, "branches", by_name(branches, head), "tags",
	                 by_name(tags, NULL));
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}
