/* SPDX-License-Identifier: Apache-2.0 */
/* git_permissions.c - which repositories an identity may read or write */
#include "api/git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define TAG ERR_INVALID_PARAMETERS

/* The identity and the repository named in the path. */
static int read_path(struct request *req, struct store_grant *g, struct err *err)
{
	const char *repo = req->match.arg[1];

	*g = (struct store_grant){ .kind = GRANT_GIT };
	if (strlen(req->match.arg[0]) >= sizeof(g->identity))
		return err_tag(err, -ENOENT, ERR_IDENTITY_NOT_FOUND, "there is no such identity");
	snprintf(g->identity, sizeof(g->identity), "%s", req->match.arg[0]);
	snprintf(g->target, sizeof(g->target), "%s", repo_id_valid(repo) ? repo : "");
	return 0;
}

struct level_body {
	const char *permission;
};
static const struct json_field level_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, level_body, permission, "permission", JSON_REQUIRED, 0, 16,
	           "'read' | 'write'"),
};
JSON_TABLE(GitPermissionNew, level_fields);

static int read_level(struct request *req, struct store_grant *g, struct err *err)
{
	struct level_body b = { 0 };
	int r = request_fields(req, TAG, level_fields, ARRAY_SIZE(level_fields), &b, err);

	if (r < 0)
		return r;
	if (strcmp(b.permission, "read") != 0 && strcmp(b.permission, "write") != 0)
		return err_tag(err, -EINVAL, TAG, "'permission' must be \"read\" or \"write\"");
	snprintf(g->level, sizeof(g->level), "%s", b.permission);
	return 0;
}

/* Both must exist and belong to the account. */
static int check_repo(struct request *req, const struct store_grant *g, struct store_repo *ret,
                      struct err *err)
{
	int r = auth_identity_get(deps_of(req)->auth, who_of(req)->account, g->identity, NULL, err);

	if (r < 0)
		return r;
	r = repo_find(deps_of(req)->repos, who_of(req)->account, g->target, REPO_OWN, ret, err);
	return r < 0 && (r == -ENOENT || r == -EACCES)
	               ? err_tag(err, -ENOENT, ERR_GIT_REPOSITORY_NOT_FOUND,
	                         "no repository '%.60s'", req->match.arg[1])
	               : r;
}

int api_git_perm_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_grant *v = NULL;
	autojson json_t *items = json_array();
	size_t n = 0, first, end;
	struct store_repo repo;
	uint32_t offset;
	int r;

	if ((r = auth_grant_list(deps_of(req)->auth, who_of(req)->account, req->match.arg[0],
	                         GRANT_GIT, &v, &n, err)) < 0 ||
	    (r = request_page(req, n, &first, &end, &offset, err)) < 0)
		return r;
	for (size_t i = first; i < end; i++) {
		if (store_repo_get(deps_of(req)->store, v[i].target, &repo, err) < 0)
			continue; /* deleted meanwhile */
		json_array_append_new(items,
		                      json_pack("{s:s, s:o, s:s, s:s, s:s}", "id", repo.id, "name",
		                                shape_text(repo.name), "accountId", repo.account,
		                                "permissions", v[i].level, "visibility",
		                                repo.is_public ? "public" : "private"));
	}
	return reply_json(res, json_pack("{s:O}", "repositories", items), err);
}

int api_git_perm_get(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	struct store_grant g;
	int r;

	if ((r = read_path(req, &g, err)) < 0 || (r = check_repo(req, &g, &repo, err)) < 0)
		return r;
	r = auth_grant_get(deps_of(req)->auth, who_of(req)->account, g.identity, GRANT_GIT,
	                   g.target, &g, err);
	if (r < 0 && r != -ENOENT)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:s?}", "identity", req->match.arg[0], "repo",
	                            repo.id, "accessLevel", r == 0 ? g.level : NULL),
	                  err);
}

static int change(struct request *req, struct reply *res,
                  int (*fn)(struct auth *a, const char *account, struct store_grant *g,
                            struct err *err),
                  struct err *err)
{
	struct store_repo repo;
	struct store_grant g;
	int r;

	if ((r = read_path(req, &g, err)) < 0 || (r = read_level(req, &g, err)) < 0 ||
	    (r = check_repo(req, &g, &repo, err)) < 0 ||
	    (r = fn(deps_of(req)->auth, who_of(req)->account, &g, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}

int api_git_perm_grant(struct request *req, struct reply *res, struct err *err)
{
	return change(req, res, auth_grant, err);
}

int api_git_perm_update(struct request *req, struct reply *res, struct err *err)
{
	return change(req, res, auth_grant_update, err);
}

int api_git_perm_revoke(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	struct store_grant g;
	int r;

	if ((r = read_path(req, &g, err)) < 0 || (r = check_repo(req, &g, &repo, err)) < 0 ||
	    (r = auth_grant_revoke(deps_of(req)->auth, who_of(req)->account, g.identity, GRANT_GIT,
	                           g.target, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}
