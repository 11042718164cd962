/* SPDX-License-Identifier: Apache-2.0 */
/* refs.c - branches and tags: /branches, /git/refs/heads, /git/refs/tags */
#include "api/git/shared.h"

#include <errno.h>

#include "base/auto.h"

int api_repo_branches(struct request *req, struct reply *res, struct err *err)
{
	autoarena mem = { 0 };
	struct repo_branches b;
	struct store_repo repo;
	json_t *list;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = repo_branches(deps_of(req)->repos, &repo, &mem, &b, err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < b.n; i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "name", shape_str(b.v[i].name),
		                                      "commit", shape_sha(b.v[i].sha)));
	return reply_json(res, json_pack("{s:o}", "branches", list), err);
}

static json_t *branch_json(const char *name, const char *sha)
{
	return json_pack("{s:o, s:s}", "name", shape_str(name), "sha", sha);
}

int api_repo_branch(struct request *req, struct reply *res, struct err *err)
{
	const char *name = req->match.arg[1];
	char sha[REPO_SHA_SIZE];
	struct store_repo repo;
	int r = request_repo(req, REPO_READ, &repo, err);

	if (r < 0)
		return r;
	r = repo_branch(deps_of(req)->repos, &repo, name, sha, err);
	return r < 0 ? reply_extra_str(res, r, "branch", name)
	             : reply_json(res, branch_json(name, sha), err);
}

struct branch_body {
	const char *name, *sha;
};
static const struct json_field branch_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, branch_body, name, "name", JSON_NULLABLE, 0, 300),
	JSON_FIELD(JSON_WANT_STRREF, branch_body, sha, "sha", JSON_NULLABLE, 0, 300),
};
JSON_TABLE(BranchNew, branch_fields);

static int branch_create(struct request *req, struct reply *res, const char *name, struct err *err)
{
	struct branch_body b = { 0 };
	char sha[REPO_SHA_SIZE];
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = request_fields(req, ERR_GIT_INVALID_REQUEST, branch_fields,
	                        ARRAY_SIZE(branch_fields), &b, err)) < 0)
		return r;
	if (!name)
		name = b.name ? b.name : "";
	r = repo_branch_create(deps_of(req)->repos, &repo, who_of(req)->key, name, b.sha, sha, err);
	return r < 0 ? reply_extra_str(res, r, "branch", name)
	             : reply_json(res, branch_json(name, sha), err);
}

int api_repo_branch_create(struct request *req, struct reply *res, struct err *err)
{
	return branch_create(req, res, NULL, err);
}

int api_repo_branch_post(struct request *req, struct reply *res, struct err *err)
{
	return branch_create(req, res, req->match.arg[1], err);
}

int api_repo_tags(struct request *req, struct reply *res, struct err *err)
{
	autoarena mem = { 0 };
	struct store_repo repo;
	struct repo_tags t;
	json_t *list;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = repo_tags(deps_of(req)->repos, &repo, &mem, &t, err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < t.n; i++)
		json_array_append_new(list, shape_tag(&t.v[i]));
	return reply_json(res, json_pack("{s:o}", "tags", list), err);
}

int api_repo_tag(struct request *req, struct reply *res, struct err *err)
{
	const char *name = req->match.arg[1];
	autoarena mem = { 0 };
	struct store_repo repo;
	struct repo_tag t;
	int r = request_repo(req, REPO_READ, &repo, err);

	if (r < 0)
		return r;
	r = repo_tag(deps_of(req)->repos, &repo, name, &mem, &t, err);
	return r < 0 ? reply_extra_str(res, r, "reference", name)
	             : reply_json(res, shape_tag(&t), err);
}
