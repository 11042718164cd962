/* SPDX-License-Identifier: Apache-2.0 */
/* github_apps.c - GitHub Apps, their installations and their webhook; secrets are never sent back
 */
#include "api/git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "git/ghapps.h"
#include "git/sync.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define LIST_LIMIT 100
#define LIST_LIMIT_MAX 1000

int github_apps_of(struct request *req, struct ghapps **ret, struct err *err)
{
	if (!deps_of(req)->syncs)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "mirrors are not available on this server");
	*ret = syncs_ghapps(deps_of(req)->syncs);
	return 0;
}

int github_number(const json_t *v, char buf[GITHUB_NUMBER_SIZE], const char **ret, struct err *err)
{
	if (!v || json_is_null(v))
		return 0;
	if (json_is_string(v) && json_string_length(v) < GITHUB_NUMBER_SIZE) {
		*ret = json_string_value(v);
		return 0;
	}
	if (!json_is_integer(v) || json_integer_value(v) <= 0)
		return err_tag(err, -EINVAL, TAG, "'installationId' must be a number");
	snprintf(buf, GITHUB_NUMBER_SIZE, "%lld", (long long)json_integer_value(v));
	*ret = buf;
	return 0;
}

/* A shared App concerns every account: only the operator may have one. */
static int shared_check(struct request *req, bool shared, struct err *err)
{
	if (!shared || (who_of(req)->scopes & SCOPE_ADMIN))
		return 0;
	return err_tag(err, -EACCES, ERR_FORBIDDEN,
	               "'shared' requires a key of the operator's account");
}

static json_t *app_json(struct request *req, const struct store_github_app *a)
{
	bool own = strcmp(a->account, who_of(req)->account) == 0;
	char hook[96];

	snprintf(hook, sizeof(hook), GHAPPS_PATH "/webhook/%s", a->id);
	return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:b, s:b, s:o, s:s, s:b, s:o, s:o}", "id",
	                 a->id, "appId", a->app_id, "name", shape_text(a->name), "server",
	                 a->server, "apiUrl", a->api_url, "url", a->page, "shared", a->shared,
	                 "own", own, "clientId", shape_text(a->client_id), "webhookPath", hook,
	                 "webhookSigned", *a->webhook_secret != '\0', "lastWebhookAt",
	                 a->heard_ms ? shape_time(a->heard_ms) : json_null(), "createdAt",
	                 shape_time(a->created_ms));
}

static json_t *installation_json(const struct store_installation *i)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "id", i->id,
	                 "installationId", i->number, "appId", i->app, "login",
	                 json_text(i->login, strlen(i->login)), "kind",
	                 json_text(i->kind, strlen(i->kind)), "repositorySelection",
	                 json_text(i->selection, strlen(i->selection)), "suspended", i->suspended,
	                 "error", shape_text(i->note), "checkedAt",
	                 i->checked_ms ? shape_time(i->checked_ms) : json_null(), "createdAt",
	                 shape_time(i->created_ms));
}

/* ---- Apps ---- */

int api_github_apps(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_github_app *v = NULL;
	json_t *list;
	size_t n = 0;
	int r = store_github_app_list(deps_of(req)->store, who_of(req)->account, &v, &n, err);

	if (r < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(list, app_json(req, &v[i]));
		explicit_bzero(&v[i], sizeof(v[i]));
	}
	return reply_json(res, json_pack("{s:o}", "apps", list), err);
}

static const struct json_field add_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, ghapps_app_new, server, "server", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_app_new, api_url, "apiUrl", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_app_new, app_id, "appId", JSON_REQUIRED, 0, 60),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_app_new, private_key, "privateKey", JSON_REQUIRED, 0,
	           CREDENTIAL_SECRET_SIZE - 1),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_app_new, webhook_secret, "webhookSecret", JSON_NULLABLE,
	           0, GITHUB_SECRET_SIZE - 1),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_app_new, client_id, "clientId", JSON_NULLABLE, 0, 60),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_app_new, client_secret, "clientSecret", JSON_NULLABLE,
	           0, GITHUB_SECRET_SIZE - 1),
	JSON_FIELD(JSON_WANT_BOOL, ghapps_app_new, shared, "shared", 0, 0, 0, NULL,
	           "the operator: for all accounts"),
};
JSON_TABLE(GithubAppNew, add_fields);

int api_github_app_add(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	struct ghapps_app_new n = { 0 };
	struct ghapps *h = NULL;
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = request_fields(req, TAG, add_fields, ARRAY_SIZE(add_fields), &n, err)) < 0 ||
	    (r = shared_check(req, n.shared, err)) < 0 ||
	    (r = ghapps_app_add(h, who_of(req)->account, &n, a, err)) < 0)
		return r;
	r = reply_json(res, app_json(req, a), err);
	explicit_bzero(a, sizeof(*a));
	return r;
}

int api_github_app_delete(struct request *req, struct reply *res, struct err *err)
{
	int r = store_github_app_delete(deps_of(req)->store, who_of(req)->account,
	                                request_arg(req, "{app}"), err);

	return r < 0 ? r : reply_json(res, json_object(), err);
}

/* ---- links ---- */

static int reply_link(struct request *req, struct reply *res, const struct ghapps_link_new *n,
                      struct err *err)
{
	char base[300], url[500], secret[GHAPPS_SECRET_SIZE];
	struct ghapps_link_new with = *n;
	struct ghapps *h = NULL;
	int64_t until = 0;
	int r;

	if (!with.base)
		with.base = request_base(req, base, sizeof(base));
	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = ghapps_link_new(h, who_of(req)->account, &with, secret, &until, err)) < 0)
		return r;
	snprintf(url, sizeof(url), "%s" GHAPPS_PATH "/start?link=%s", with.base, secret);
	r = reply_json(res, json_pack("{s:s, s:o}", "url", url, "expiresAt", shape_time(until)),
	               err);
	explicit_bzero(url, sizeof(url));
	explicit_bzero(secret, sizeof(secret));
	return r;
}

static const struct json_field manifest_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, ghapps_link_new, base, "baseUrl", JSON_NULLABLE, 0, 250, NULL,
	           "where GitHub and browsers reach this server; as this request, if left out"),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_link_new, name, "name", JSON_NULLABLE, 0, 60),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_link_new, organization, "organization", JSON_NULLABLE,
	           0, 60, NULL, "on GitHub, that the App will belong to; the user, if left out"),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_link_new, server, "server", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_STRREF, ghapps_link_new, api_url, "apiUrl", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_BOOL, ghapps_link_new, shared, "shared", 0, 0, 0, NULL,
	           "the operator: for all accounts"),
	JSON_FIELD(JSON_WANT_BOOL, ghapps_link_new, is_private, "private", 0, 0, 0, NULL,
	           "only its owner on GitHub can install it"),
};
JSON_TABLE(GithubManifest, manifest_fields);

int api_github_manifest(struct request *req, struct reply *res, struct err *err)
{
	struct ghapps_link_new n = { 0 };
	int r = request_fields(req, TAG, manifest_fields, ARRAY_SIZE(manifest_fields), &n, err);

	if (r < 0 || (r = shared_check(req, n.shared, err)) < 0)
		return r;
	return reply_link(req, res, &n, err);
}

static const struct json_field install_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, ghapps_link_new, base, "baseUrl", JSON_NULLABLE, 0, 250),
};
JSON_TABLE(GithubInstall, install_fields);

int api_github_install(struct request *req, struct reply *res, struct err *err)
{
	struct ghapps_link_new n = { 0 };
	int r = request_fields(req, TAG, install_fields, ARRAY_SIZE(install_fields), &n, err);

	if (r < 0)
		return r;
	n.app = request_arg(req, "{app}");
	return reply_link(req, res, &n, err);
}

/* ---- installations ---- */

int api_github_installations(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_installation *v = NULL;
	json_t *list;
	size_t n = 0;
	int r = store_installation_list(deps_of(req)->store, who_of(req)->account, &v, &n, err);

	if (r < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, installation_json(&v[i]));
	return reply_json(res, json_pack("{s:o}", "installations", list), err);
}

struct adopt_body {
	const char *app;
	json_t *number;
};
static const struct json_field adopt_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, adopt_body, app, "appId", JSON_REQUIRED, 0, 60, NULL,
	           "id of the App here"),
	JSON_FIELD(JSON_WANT_ANY, adopt_body, number, "installationId", JSON_REQUIRED, 0, 0,
	           "string | int"),
};
JSON_TABLE(GithubAdopt, adopt_fields);

int api_github_adopt(struct request *req, struct reply *res, struct err *err)
{
	struct adopt_body b = { 0 };
	struct store_installation i;
	char text[GITHUB_NUMBER_SIZE];
	const char *number = NULL;
	struct ghapps *h = NULL;
	int r;

	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = request_fields(req, TAG, adopt_fields, ARRAY_SIZE(adopt_fields), &b, err)) < 0 ||
	    (r = github_number(b.number, text, &number, err)) < 0 ||
	    (r = ghapps_installation_add(h, who_of(req)->account, b.app, number, &i, err)) < 0)
		return r;
	return reply_json(res, installation_json(&i), err);
}

int api_github_repositories(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_github_repo *v = NULL;
	uint32_t limit = LIST_LIMIT, offset = 0;
	struct store_installation i;
	struct ghapps *h = NULL;
	json_t *list;
	size_t n = 0;
	int r;

	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = ghapps_installation_get(h, who_of(req)->account,
	                                 request_arg(req, "{installation}"), &i, err)) < 0 ||
	    (r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0 ||
	    (r = store_github_repo_list(deps_of(req)->store, i.id,
	                                MIN(limit, (uint32_t)LIST_LIMIT_MAX), offset, &v, &n,
	                                err)) < 0)
		return r;
	list = json_array();
	for (size_t k = 0; k < n; k++)
		json_array_append_new(list, json_string(v[k].name));
	return reply_json(res, json_pack("{s:o}", "repositories", list), err);
}

int api_github_refresh(struct request *req, struct reply *res, struct err *err)
{
	struct ghapps *h = NULL;
	int r = github_apps_of(req, &h, err);

	if (r == 0)
		r = ghapps_installation_look(h, who_of(req)->account,
		                             request_arg(req, "{installation}"), err);
	return r < 0 ? r : reply_json(res, json_object(), err);
}

int api_github_forget(struct request *req, struct reply *res, struct err *err)
{
	bool uninstall = false;
	struct ghapps *h = NULL;
	int r;

	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = request_query_bool(req, "uninstall", &uninstall, err)) < 0 ||
	    (r = ghapps_installation_remove(h, who_of(req)->account,
	                                    request_arg(req, "{installation}"), uninstall, err)) <
	            0)
		return r;
	return reply_json(res, json_object(), err);
}

/* ---- the webhook ---- */

/* The body is parsed after its signature was checked, and not before. */
int api_github_webhook(struct request *req, struct reply *res, struct err *err)
{
	struct ghapps_hook k = { .app = request_arg(req, "{app}"),
		                 .signature = request_header(req, "X-Hub-Signature-256"),
		                 .event = request_header(req, "X-GitHub-Event"),
		                 .delivery = request_header(req, "X-GitHub-Delivery") };
	json_t *json = NULL;
	struct ghapps *h = NULL;
	int r;

	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = body_view(&req->body, &k.body, &k.n, err)) < 0)
		return r;
	r = ghapps_hook_check(h, &k, err);
	if (r == -EACCES)
		return admit_failed(req, r, err);
	if (r < 0 || (r = request_json(req, TAG, &json, err)) < 0 ||
	    (r = ghapps_hook_take(h, &k, json, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}
