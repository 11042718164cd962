/* SPDX-License-Identifier: Apache-2.0 */
/* contents.c - what is in a repository: files, archives, branches, tags, objects, commits */
#include "api/git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define TAG ERR_GIT_INVALID_REQUEST

/* Fails with an extra member that names what the error is about. */
static int about(struct reply *res, int r, const char *name, const char *value)
{
	if (r < 0 && value)
		reply_extra(res, name, shape_output(value, strlen(value)));
	return r;
}

/* rev, or ref as older clients call it. */
static int query_rev(struct request *req, char **ret, struct err *err)
{
	int r = request_query(req, "rev", ret, err);

	return r < 0 || *ret ? r : request_query(req, "ref", ret, err);
}

int api_repo_contents(struct request *req, struct reply *res, struct err *err)
{
	const char *path = req->match.n_args > 1 ? req->match.arg[1] : "";
	autofree char *rev = NULL;
	bool recursive = false;
	struct store_repo repo;
	json_t *j = NULL;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = query_rev(req, &rev, err)) < 0 ||
	    (r = request_query_bool(req, "recursive", &recursive, err)) < 0)
		return r;
	r = repo_contents(deps_of(req)->repos, &repo, path, rev, recursive, &j, err);
	if (r < 0) {
		about(res, r, "path", path);
		return about(res, r, "revision", rev);
	}
	return reply_json(res, j, err);
}

static int archive(struct request *req, struct reply *res, const char *format, const char *type,
                   struct err *err)
{
	autofree char *rev = NULL;
	struct store_repo repo;
	struct svc *s;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = query_rev(req, &rev, err)) < 0)
		return r;
	r = svc_archive(deps_of(req)->repos, &repo, format, rev, &s, err);
	return r < 0 ? about(res, r, "revision", rev) : reply_service(req, res, s, NULL, type, err);
}

int api_repo_tarball(struct request *req, struct reply *res, struct err *err)
{
	return archive(req, res, "tar", "application/x-tar", err);
}

int api_repo_zip(struct request *req, struct reply *res, struct err *err)
{
	return archive(req, res, "zip", "application/zip", err);
}

typedef int (*list_fn)(struct repos *g, const struct store_repo *r, json_t **ret, struct err *err);

static int list(struct request *req, struct reply *res, list_fn fn, struct err *err)
{
	struct store_repo repo;
	json_t *j = NULL;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = fn(deps_of(req)->repos, &repo, &j, err)) < 0)
		return r;
	return reply_json(res, j, err);
}

typedef int (*one_fn)(struct repos *g, const struct store_repo *r, const char *name, json_t **ret,
                      struct err *err);

/* member: what an error calls the name. */
static int one(struct request *req, struct reply *res, one_fn fn, const char *member,
               struct err *err)
{
	struct store_repo repo;
	json_t *j = NULL;
	int r = request_repo(req, REPO_READ, &repo, err);

	if (r < 0)
		return r;
	r = fn(deps_of(req)->repos, &repo, req->match.arg[1], &j, err);
	return r < 0 ? about(res, r, member, req->match.arg[1]) : reply_json(res, j, err);
}

int api_repo_branches(struct request *req, struct reply *res, struct err *err)
{
	return list(req, res, repo_branches, err);
}

int api_repo_branch(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, repo_branch, "branch", err);
}

int api_repo_tags(struct request *req, struct reply *res, struct err *err)
{
	return list(req, res, repo_tags, err);
}

int api_repo_tag(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, repo_tag, "reference", err);
}

int api_repo_tag_object(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, repo_tag_object, "hash", err);
}

int api_repo_blob(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, repo_blob, "hash", err);
}

int api_repo_tree(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, repo_tree, "hash", err);
}

int api_repo_commit(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, repo_commit, "sha", err);
}

struct branch_body {
	const char *name, *sha;
};
static const struct json_field branch_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, branch_body, name, "name", JSON_NULLABLE, 0, 300),
	JSON_FIELD(JSON_WANT_STRREF, branch_body, sha, "sha", JSON_NULLABLE, 0, 300),
};

static int branch_create(struct request *req, struct reply *res, const char *name, struct err *err)
{
	struct branch_body b = { 0 };
	struct store_repo repo;
	json_t *j = NULL;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = request_fields(req, TAG, branch_fields, ARRAY_SIZE(branch_fields), &b, err)) < 0)
		return r;
	if (!name)
		name = b.name ? b.name : "";
	r = repo_branch_create(deps_of(req)->repos, &repo, who_of(req)->key, name, b.sha, &j, err);
	return r < 0 ? about(res, r, "branch", name) : reply_json(res, j, err);
}

int api_repo_branch_create(struct request *req, struct reply *res, struct err *err)
{
	return branch_create(req, res, NULL, err);
}

int api_repo_branch_post(struct request *req, struct reply *res, struct err *err)
{
	return branch_create(req, res, req->match.arg[1], err);
}

int api_repo_commits(struct request *req, struct reply *res, struct err *err)
{
	autofree char *branch = NULL, *since = NULL, *until = NULL, *order = NULL, *offset = NULL;
	struct repo_log q = { .limit = REPO_LOG_LIMIT };
	struct store_repo repo;
	json_t *j = NULL;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = request_query(req, "branch", &branch, err)) < 0 ||
	    (r = request_query(req, "since", &since, err)) < 0 ||
	    (r = request_query(req, "until", &until, err)) < 0 ||
	    (r = request_query(req, "order", &order, err)) < 0 ||
	    (r = request_query(req, "offset", &offset, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &q.offset, err)) < 0 ||
	    (r = request_query_u32(req, "limit", UINT32_MAX, &q.limit, err)) < 0 ||
	    (r = request_query_bool(req, "disableTotalCount", &q.no_total, err)) < 0)
		return r;
	if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
		return err_tag(err, -EINVAL, TAG, "'order' must be \"asc\" or \"desc\"");
	q.branch = branch;
	q.since = since;
	q.until = until;
	q.asc = order && *order == 'a';
	q.has_offset = offset != NULL;
	q.limit = MIN(MAX(q.limit, 1u), (uint32_t)REPO_LOG_LIMIT_MAX);
	r = repo_log(deps_of(req)->repos, &repo, &q, &j, err);
	if (r < 0) {
		about(res, r, "branch", branch);
		about(res, r, "since", since);
		about(res, r, "until", until);
		return about(res, r, "sha", since ? since : until);
	}
	return reply_json(res, j, err);
}

int api_repo_compare(struct request *req, struct reply *res, struct err *err)
{
	autofree char *base = NULL, *head = NULL;
	struct store_repo repo;
	json_t *j = NULL;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = request_query(req, "base", &base, err)) < 0 ||
	    (r = request_query(req, "head", &head, err)) < 0)
		return r;
	if (!base || !head)
		return err_tag(err, -EINVAL, TAG, "'base' and 'head' must name revisions");
	r = repo_compare(deps_of(req)->repos, &repo, base, head, &j, err);
	return r < 0 ? r : reply_json(res, j, err);
}
