/* SPDX-License-Identifier: Apache-2.0 */
/* github_sync.c - repositories that mirror another server */
#include "api/git/shared.h"
#include "git/trigger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "git/sync.h"
#include "store/store_github.h"

#define TAG ERR_GIT_INVALID_REQUEST

static int own_repo(struct request *req, struct store_repo *ret, struct err *err)
{
	if (!deps_of(req)->syncs)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "mirrors are not available on this server");
	return request_repo(req, REPO_OWN, ret, err);
}

/* null, not 404: only so the SDK tells "none" from "failed". */
int api_sync_get(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_sync *s = calloc(1, sizeof(*s));
	struct store_installation i = { 0 };
	struct store_repo repo;
	char hook[128];
	json_t *conflicts;
	int r = s ? own_repo(req, &repo, err) : err_set(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r;
	r = store_sync_get(deps_of(req)->store, repo.id, s, err);
	if (r == -ENOENT)
		return reply_json(res, json_null(), err);
	if (r < 0)
		return r;
	snprintf(hook, sizeof(hook), "/git/v1/sync-hook/%s", s->hook);
	if (*s->installation &&
	    store_installation_get(deps_of(req)->store, s->installation, &i, err) < 0)
		*err = (struct err){ 0 }; /* it is gone; the error of the next sync says so */
	conflicts = json_loads(s->conflicts, 0, NULL);
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o}", "githubRepoName",
	                            s->remote, "url", s->url, "state", sync_state_words[s->state],
	                            "lastSyncAt", s->last_ms ? shape_time(s->last_ms) : json_null(),
	                            "error", shape_text(s->note), "conflicts",
	                            conflicts ? conflicts : json_array(), "hookPath", hook,
	                            "installationId", shape_text(i.number)),
	                  err);
}

struct enable_body {
	const char *remote, *url, *token;
	json_t *installation;
};
static const struct json_field enable_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, enable_body, remote, "githubRepoName", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_STRREF, enable_body, url, "url", JSON_NULLABLE, 0, 1000),
	JSON_FIELD(JSON_WANT_STRREF, enable_body, token, "token", JSON_NULLABLE, 0, 500),
	JSON_FIELD(JSON_WANT_ANY, enable_body, installation, "installationId", JSON_NULLABLE, 0, 0,
	           "string | int", "of a GitHub App; that which reaches it, if left out"),
};
JSON_TABLE(SyncNew, enable_fields);

int api_sync_enable(struct request *req, struct reply *res, struct err *err)
{
	struct enable_body b = { 0 };
	char text[GITHUB_NUMBER_SIZE];
	const char *number = NULL;
	struct store_repo repo;
	int r;

	if ((r = own_repo(req, &repo, err)) < 0 ||
	    (r = request_fields(req, TAG, enable_fields, ARRAY_SIZE(enable_fields), &b, err)) < 0 ||
	    (r = github_number(b.installation, text, &number, err)) < 0 ||
	    (r = sync_enable(deps_of(req)->syncs, &repo,
	                     &(struct sync_new){ b.remote, b.url, b.token, number }, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}

int api_sync_disable(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	int r;

	if ((r = own_repo(req, &repo, err)) < 0 ||
	    (r = sync_disable(deps_of(req)->syncs, &repo, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}

int api_sync_run(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	int r;

	if ((r = own_repo(req, &repo, err)) < 0 ||
	    (r = sync_wake(deps_of(req)->syncs, repo.id, NULL, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}

/* Called by the other server; the address itself is the secret, and all it does is begin a sync. */
int api_sync_hook(struct request *req, struct reply *res, struct err *err)
{
	int r;

	if (!deps_of(req)->syncs)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "mirrors are not available on this server");
	r = sync_wake(deps_of(req)->syncs, NULL, request_arg(req, "{hook}"), err);
	return r < 0 ? r : reply_json(res, json_object(), err);
}
