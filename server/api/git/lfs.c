/* SPDX-License-Identifier: Apache-2.0 */
/* lfs.c - Git LFS: the batch call, and the bytes of large files */
#include "api/git/shared.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

#define BATCH_OBJECTS_MAX 1000 /* of one batch */

/* The address of the repository as this client knows it. */
static int make_href(struct request *req, char *ret, size_t size, struct err *err)
{
	const char *host = request_header(req, "Host");
	const char *proto = request_header(req, "X-Forwarded-Proto");
	bool tls = proto && strcmp(proto, "https") == 0;

	if (!host || host[strcspn(host, " \"<>\\/")] || strlen(host) > 255)
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "the Host header is not a valid host name");
	snprintf(ret, size, "%s://%s/%s", tls ? "https" : "http", host, caller_of(req)->repo_id);
	return 0;
}

/* May whoever asks write? */
static bool may_write(struct request *req)
{
	struct store_repo repo;
	struct err no = { 0 };

	return *who_of(req)->account && request_repo(req, REPO_WRITE, &repo, &no) == 0 &&
	       auth_permit(deps_of(req)->auth, who_of(req), SCOPE_GIT_WRITE,
	                   caller_of(req)->repo_id, NULL, &no) == 0;
}

static bool takes_basic(const json_t *transfers)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(transfers) || json_array_size(transfers) == 0)
		return true;
	json_array_foreach(transfers, i, item)
	{
		const char *s = json_string_value(item);

		if (s && strcmp(s, "basic") == 0)
			return true;
	}
	return false;
}

struct batch {
	bool upload;
	struct lfs_object v[BATCH_OBJECTS_MAX];
	size_t n;
};

static int read_batch(struct reply *res, const json_t *body, struct batch *ret, struct err *err)
{
	const char *op = json_string_value(json_object_get(body, "operation"));
	json_t *transfers = json_object_get(body, "transfers");
	const json_t *objects = json_object_get(body, "objects"), *o;
	size_t i;

	if (!op || (strcmp(op, "upload") != 0 && strcmp(op, "download") != 0) ||
	    !json_is_array(objects) || json_array_size(objects) > BATCH_OBJECTS_MAX)
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "a batch must be {operation: \"upload\" or \"download\", objects: "
		               "at most %d}",
		               BATCH_OBJECTS_MAX);
	if (!takes_basic(transfers)) {
		reply_extra(res, "requested", json_incref(transfers));
		reply_extra(res, "supported", json_pack("[s]", "basic"));
		return err_tag(err, -EINVAL, ERR_UNSUPPORTED_TRANSFER,
		               "this server only supports the \"basic\" transfer of large files");
	}
	ret->upload = *op == 'u';
	ret->n = json_array_size(objects);
	json_array_foreach(objects, i, o)
	{
		ret->v[i].oid = json_string_value(json_object_get(o, "oid"));
		ret->v[i].size = json_integer_value(json_object_get(o, "size"));
	}
	return 0;
}

/* Where the client gets a file from, or sends it to; href is the address of the repository. */
static json_t *actions_json(struct request *req, const struct lfs_object *o, const char *href)
{
	const char *authorization = request_header(req, "Authorization");
	json_t *headers = json_object();
	char url[512];

	snprintf(url, sizeof(url), "%s/info/lfs/objects/%s", href, o->oid);
	if (authorization)
		json_object_set_new(headers, "Authorization", json_string(authorization));
	return json_pack("{s:{s:s, s:o}}", o->state == LFS_UPLOAD ? "upload" : "download", "href",
	                 url, "header", headers);
}

static json_t *object_json(struct request *req, const struct lfs_object *o, const char *href)
{
	static const struct {
		int code;
		const char *message;
	} errors[] = {
		[LFS_INVALID] = { 422, "not a SHA-256 in hex, or no size" },
		[LFS_UNREADABLE] = { 500, "the store cannot be read" },
		[LFS_TOO_LARGE] = { 507, "this exceeds the account's storage limit" },
		[LFS_MISSING] = { 404, "there is no such object" },
	};
	json_t *j =
	        json_pack("{s:s, s:I}", "oid", o->oid ? o->oid : "", "size", (json_int_t)o->size);

	if (o->state != LFS_INVALID)
		json_object_set_new(j, "authenticated", json_true());
	if (o->state == LFS_UPLOAD || o->state == LFS_DOWNLOAD)
		json_object_set_new(j, "actions", actions_json(req, o, href));
	else if (o->state != LFS_KEPT)
		json_object_set_new(j, "error",
		                    json_pack("{s:i, s:s}", "code", errors[o->state].code,
		                              "message", errors[o->state].message));
	return j;
}

int api_lfs_batch(struct request *req, struct reply *res, struct err *err)
{
	autofree struct batch *b = calloc(1, sizeof(*b));
	json_t *body, *list;
	struct store_repo repo;
	char href[400];
	int r;

	if (!b)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = request_json(req, ERR_GIT_INVALID_REQUEST, &body, err)) < 0 ||
	    (r = make_href(req, href, sizeof(href), err)) < 0 ||
	    (r = read_batch(res, body, b, err)) < 0)
		return r;
	if (b->upload && !may_write(req)) {
		/* Without a password yet: the client asks its user for one and comes again. */
		if (!*who_of(req)->account) {
			req->challenge = GIT_CHALLENGE;
			res->status = 401;
		}
		return err_tag(err, -EACCES, ERR_REPOSITORY_ACCESS_DENIED,
		               "this repository may only be read");
	}
	if ((r = repo_lfs_batch(deps_of(req)->repos, &repo, b->upload, b->v, b->n, err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < b->n; i++)
		json_array_append_new(list, object_json(req, &b->v[i], href));
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:s}", "transfer", "basic", "objects", list,
	                            "hash_algo", "sha256"),
	                  err);
}

int api_lfs_get(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	uint64_t len;
	int fd, r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = repo_lfs_get(deps_of(req)->repos, &repo, req->match.arg[1], &fd, &len, err)) < 0)
		return r;
	return reply_file(res, "application/octet-stream", fd, len, err);
}

static int put_open(struct request *req, struct err *err)
{
	const char *length = request_header(req, "Content-Length");
	int64_t len =
	        length && !length[strspn(length, "0123456789")] ? strtoll(length, NULL, 10) : -1;
	struct store_repo repo;
	struct lfs_put *p;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = lfs_put_open(deps_of(req)->repos, &repo, req->match.arg[1], len, &p, err)) < 0)
		return r;
	req->intake = p;
	return 0;
}

static int put_data(struct request *req, const void *p, size_t n, struct err *err)
{
	return lfs_put_data(req->intake, p, n, err);
}

static void put_drop(void *ctx)
{
	lfs_put_free(ctx);
}

const struct intake api_lfs_intake = { put_open, put_data, put_drop };

int api_lfs_put(struct request *req, struct reply *res, struct err *err)
{
	int r = lfs_put_finish(req->intake, err);

	return r < 0 ? r : reply_json(res, json_object(), err);
}
