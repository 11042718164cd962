/* SPDX-License-Identifier: Apache-2.0 */
/* objects.c - objects by hash and the history of a branch: /git/blobs, trees, tags, commits */
#include "api/git/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

int api_repo_blob(struct request *req, struct reply *res, struct err *err)
{
	const char *hash = req->match.arg[1];
	autoarena mem = { 0 };
	struct store_repo repo;
	struct repo_blob b;
	int r = request_repo(req, REPO_READ, &repo, err);

	if (r < 0)
		return r;
	r = repo_blob(deps_of(req)->repos, &repo, hash, &mem, &b, err);
	if (r < 0)
		return reply_extra_str(res, r, "hash", hash);
	return reply_json(res,
	                  json_pack("{s:o, s:s, s:s, s:I}", "content",
	                            shape_base64(b.content, b.size), "encoding", "base64", "sha",
	                            b.sha, "size", (json_int_t)b.size),
	                  err);
}

static json_t *entry_json(const struct repo_entry *e)
{
	json_t *j = json_pack("{s:s, s:o, s:s}", "type", e->dir ? "tree" : "blob", "path",
	                      shape_str(e->path), "sha", e->sha);

	if (!e->dir)
		json_object_set_new(j, "size", json_integer((json_int_t)e->size));
	return j;
}

int api_repo_tree(struct request *req, struct reply *res, struct err *err)
{
	const char *hash = req->match.arg[1];
	autoarena mem = { 0 };
	struct store_repo repo;
	struct repo_tree t;
	json_t *list;
	int r = request_repo(req, REPO_READ, &repo, err);

	if (r < 0)
		return r;
	r = repo_tree(deps_of(req)->repos, &repo, hash, &mem, &t, err);
	if (r < 0)
		return reply_extra_str(res, r, "hash", hash);
	list = json_array();
	for (size_t i = 0; i < t.n; i++)
		json_array_append_new(list, entry_json(&t.v[i]));
	return reply_json(res, json_pack("{s:s, s:o}", "sha", t.sha, "tree", list), err);
}

int api_repo_tag_object(struct request *req, struct reply *res, struct err *err)
{
	const char *hash = req->match.arg[1];
	autoarena mem = { 0 };
	struct store_repo repo;
	struct repo_tag t;
	int r = request_repo(req, REPO_READ, &repo, err);

	if (r < 0)
		return r;
	r = repo_tag_object(deps_of(req)->repos, &repo, hash, &mem, &t, err);
	return r < 0 ? reply_extra_str(res, r, "hash", hash) : reply_json(res, shape_tag(&t), err);
}

int api_repo_commit(struct request *req, struct reply *res, struct err *err)
{
	const char *hash = req->match.arg[1];
	autoarena mem = { 0 };
	struct repo_commit c;
	struct store_repo repo;
	int r = request_repo(req, REPO_READ, &repo, err);

	if (r < 0)
		return r;
	r = repo_commit(deps_of(req)->repos, &repo, hash, &mem, &c, err);
	return r < 0 ? reply_extra_str(res, r, "sha", hash)
	             : reply_json(res, shape_commit(&c), err);
}

static json_t *selector_json(const struct repo_log *q)
{
	if (q->since && q->until)
		return json_pack("{s:{s:s, s:s}}", "Range", "since", q->since, "until", q->until);
	if (q->since)
		return json_pack("{s:{s:s}}", "Since", "since", q->since);
	if (q->until)
		return json_pack("{s:{s:s}}", "Until", "until", q->until);
	return json_null();
}

static json_t *history_json(const struct repo_log *q, const struct repo_history *h)
{
	json_t *list = json_array();

	for (size_t i = 0; i < h->n; i++)
		json_array_append_new(list, shape_commit(&h->v[i]));
	return json_pack("{s:o, s:I, s:I, s:s, s:o, s:o, s:o, s:o}", "commits", list, "count",
	                 (json_int_t)h->n, "limit", (json_int_t)q->limit, "order",
	                 q->asc ? "asc" : "desc", "offset",
	                 q->since || q->until ? json_null() : json_integer(q->offset), "total",
	                 q->no_total ? json_null() : json_integer((json_int_t)h->total), "selector",
	                 selector_json(q), "next_commit", shape_sha(h->next));
}

int api_repo_commits(struct request *req, struct reply *res, struct err *err)
{
	autofree char *branch = NULL, *since = NULL, *until = NULL, *order = NULL, *offset = NULL;
	struct repo_client by = request_repo_client(req);
	struct repo_log q = { .limit = REPO_LOG_LIMIT, .client = &by };
	autoarena mem = { 0 };
	struct repo_history h;
	struct store_repo repo;
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
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'order' must be \"asc\" or \"desc\"");
	q.branch = branch;
	q.since = since;
	q.until = until;
	q.asc = order && *order == 'a';
	q.has_offset = offset != NULL;
	q.limit = MIN(MAX(q.limit, 1u), (uint32_t)REPO_LOG_LIMIT_MAX);
	r = repo_log(deps_of(req)->repos, &repo, &q, &mem, &h, err);
	if (r < 0) {
		reply_extra_str(res, r, "branch", branch);
		reply_extra_str(res, r, "since", since);
		reply_extra_str(res, r, "until", until);
		return reply_extra_str(res, r, "sha", since ? since : until);
	}
	return reply_json(res, history_json(&q, &h), err);
}
