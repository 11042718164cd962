/* SPDX-License-Identifier: Apache-2.0 */
/* repos.c - repositories: make, list, look at, change, delete */
#include "api/git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define LIST_LIMIT 100
#define LIST_LIMIT_MAX 1000

struct create_body {
	const char *name, *branch;
	bool is_public;
	json_t *source, *import;
};
static const struct json_field create_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, create_body, name, "name", JSON_NULLABLE, 0,
	           REPO_NAME_SIZE - 1),
	JSON_FIELD(JSON_WANT_STRREF, create_body, branch, "defaultBranch", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_BOOL, create_body, is_public, "public", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_OBJECT, create_body, source, "source", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_OBJECT, create_body, import, "import", JSON_NULLABLE, 0, 0),
};

int api_repo_create(struct request *req, struct reply *res, struct err *err)
{
	struct create_body b = { 0 };
	struct store_repo repo;
	json_t *extra = NULL;
	int r = request_fields(req, TAG, create_fields, ARRAY_SIZE(create_fields), &b, err);

	if (r < 0)
		return r;
	r = repo_create(
	        deps_of(req)->repos,
	        &(struct repo_new){ .account = who_of(req)->account,
	                            .by = who_of(req)->key,
	                            .name = b.name,
	                            .default_branch = b.branch && *b.branch ? b.branch : NULL,
	                            .is_public = b.is_public,
	                            .source = b.source,
	                            .import = b.import },
	        &repo, &extra, err);
	if (r < 0)
		reply_extras(res, extra);
	json_decref(extra);
	return r < 0 ? r : reply_json(res, json_pack("{s:s}", "repoId", repo.id), err);
}

/* What an identity was granted; there are few of them. A page of those with that text, as
 * store_repo_list(). */
static int list_granted(struct request *req, const char *search, uint32_t limit, uint32_t offset,
                        struct store_repo **ret, size_t *ret_n, int64_t *ret_total, struct err *err)
{
	autofree struct store_grant *g = NULL;
	struct store_repo *v;
	size_t n = 0, k = 0;
	int r = auth_grant_list(deps_of(req)->auth, who_of(req)->account, who_of(req)->identity,
	                        GRANT_GIT, &g, &n, err);

	if (r < 0)
		return r;
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (store_repo_get(deps_of(req)->store, g[i].target, &v[k], err) == 0 &&
		    (!search || strcasestr(v[k].name, search) || strcasestr(v[k].id, search)))
			k++;
	*ret_total = (int64_t)k;
	offset = (uint32_t)MIN((size_t)offset, k);
	*ret_n = MIN(k - offset, (size_t)limit);
	memmove(v, v + offset, *ret_n * sizeof(*v));
	*ret = v;
	return 0;
}

int api_repo_list(struct request *req, struct reply *res, struct err *err)
{
	uint32_t limit = LIST_LIMIT, offset = 0;
	autofree struct store_repo *v = NULL;
	autojson json_t *items = json_array();
	autofree char *search = NULL;
	int64_t total = 0;
	size_t n = 0;
	int r;

	if ((r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0 ||
	    (r = request_query(req, "search", &search, err)) < 0)
		return r;
	limit = MIN(limit, (uint32_t)LIST_LIMIT_MAX);
	if (*who_of(req)->identity)
		r = list_granted(req, search, limit, offset, &v, &n, &total, err);
	else
		r = store_repo_list(deps_of(req)->store, who_of(req)->account, search, limit,
		                    offset, &v, &n, &total, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		json_t *j = NULL;

		r = repo_item(deps_of(req)->repos, &v[i], &j, err);
		if (r == -ENOENT) /* deleted meanwhile */
			continue;
		if (r < 0)
			return r;
		json_object_set_new(j, "createdAt", shape_time(v[i].created_ms));
		if (json_array_append_new(items, j) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res,
	                  json_pack("{s:O, s:I, s:I}", "repositories", items, "total",
	                            (json_int_t)total, "offset", (json_int_t)offset),
	                  err);
}

int api_repo_get(struct request *req, struct reply *res, struct err *err)
{
	char branch[REPO_REF_SIZE];
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = repo_default_branch(deps_of(req)->repos, &repo, branch, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:I}", "id", repo.id,
	                            "name", shape_text(repo.name), "accountId", repo.account,
	                            "visibility", repo.is_public ? "public" : "private",
	                            "defaultBranch", branch, "createdAt",
	                            shape_time(repo.created_ms), "pushedAt",
	                            shape_time(repo.pushed_ms), "bytes", (json_int_t)repo.bytes),
	                  err);
}

int api_repo_delete(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_OWN, &repo, err)) < 0 ||
	    (r = repo_delete(deps_of(req)->repos, &repo, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}

int api_repo_visibility(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	int r = request_repo(req, REPO_READ, &repo, err);

	return r < 0 ? r
	             : reply_json(res,
	                          json_pack("{s:s}", "visibility",
	                                    repo.is_public ? "public" : "private"),
	                          err);
}

int api_repo_set_visibility(struct request *req, struct reply *res, struct err *err)
{
	struct {
		const char *visibility;
	} b = { 0 };
	const struct json_field f[] = { { "visibility", JSON_WANT_STRREF, 0, JSON_REQUIRED, 0, 16,
		                          JSON_NO_PRESENCE } };
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_OWN, &repo, err)) < 0 ||
	    (r = request_fields(req, TAG, f, 1, &b, err)) < 0)
		return r;
	if (strcmp(b.visibility, "public") != 0 && strcmp(b.visibility, "private") != 0)
		return err_tag(err, -EINVAL, TAG, "'visibility' must be \"public\" or \"private\"");
	r = store_repo_set_public(deps_of(req)->store, repo.id, strcmp(b.visibility, "public") == 0,
	                          err);
	if (r < 0)
		return r;
	auth_changed(deps_of(req)->auth); /* those who read it because it was public */
	return reply_json(res, json_object(), err);
}

int api_repo_default_branch(struct request *req, struct reply *res, struct err *err)
{
	char branch[REPO_REF_SIZE];
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = repo_default_branch(deps_of(req)->repos, &repo, branch, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "defaultBranch", branch), err);
}

int api_repo_set_default_branch(struct request *req, struct reply *res, struct err *err)
{
	struct {
		const char *branch;
	} b = { 0 };
	const struct json_field f[] = { { "defaultBranch", JSON_WANT_STRREF, 0, JSON_REQUIRED, 0,
		                          250, JSON_NO_PRESENCE } };
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = request_fields(req, TAG, f, 1, &b, err)) < 0 ||
	    (r = repo_set_default_branch(deps_of(req)->repos, &repo, b.branch, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}
