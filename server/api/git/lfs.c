/* SPDX-License-Identifier: Apache-2.0 */
/* lfs.c - Git LFS: the batch call, and the bytes of large files */
#include "api/git/shared.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

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

int api_lfs_batch(struct request *req, struct reply *res, struct err *err)
{
	json_t *body, *j = NULL, *extra = NULL;
	struct store_repo repo;
	char href[400];
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = request_json(req, ERR_GIT_INVALID_REQUEST, &body, err)) < 0 ||
	    (r = make_href(req, href, sizeof(href), err)) < 0)
		return r;
	r = repo_lfs_batch(deps_of(req)->repos, &repo, body, may_write(req), href,
	                   request_header(req, "Authorization"), &j, &extra, err);
	if (r < 0)
		reply_extras(res, extra);
	json_decref(extra);
	/* Without a password yet: the client asks its user for one and comes again. */
	if (r == -EACCES && !*who_of(req)->account) {
		req->challenge = GIT_CHALLENGE;
		res->status = 401;
	}
	return r < 0 ? r : reply_json(res, j, err);
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
	struct store_repo repo;
	struct lfs_put *p;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = lfs_put_open(deps_of(req)->repos, &repo, req->match.arg[1], &p, err)) < 0)
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
