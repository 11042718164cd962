/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghapps.c - GitHub Apps and their installations: given, chosen for a mirror, removed
 *
 * A mirror uses the token of one installation, and that token is for its one repository: what a
 * child of ours could leak opens nothing else.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json_field.h"
#include "base/log.h"
#include "base/rate.h"
#include "git/ghapps_internal.h"
#include "store/store_sync.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define HOOKS_BURST 400 /* signed webhooks of one App, */
#define HOOKS_FILL_S 20 /* and as many again in this time */

int ghapps_new(struct store *s, const char *server, const struct github_net *net,
               int (*changed)(void *ctx, const char *account, const char *server, const char *name,
                              struct err *err),
               void *ctx, uint32_t hook_burst, struct ghapps **ret, struct err *err)
{
	const uint32_t burst = hook_burst ? hook_burst : HOOKS_BURST;
	const struct rate_conf rc = { .per_s = (double)burst / HOOKS_FILL_S,
		                      .burst = burst,
		                      .slots = 256 };
	struct ghapps *h = calloc(1, sizeof(*h));
	int r;

	if (!h || !(h->tokens = app_tokens_new())) {
		free(h);
		return err_set(err, -ENOMEM, "out of memory");
	}
	h->store = s;
	h->net = *net;
	h->hooks_per_s = MAX(burst / HOOKS_FILL_S, 1u);
	h->changed = changed;
	h->ctx = ctx;
	snprintf(h->server, sizeof(h->server), "%s", server);
	if ((r = rate_new(&rc, &h->rate, err)) < 0 || (r = ghapps_look_start(h, err)) < 0) {
		ghapps_free(h);
		return r;
	}
	*ret = h;
	return 0;
}

void ghapps_end(struct ghapps *h)
{
	if (h)
		crew_end(h->crew);
}

struct ghapps *ghapps_free(struct ghapps *h)
{
	if (!h)
		return NULL;
	crew_close(h->crew);
	rate_free(h->rate);
	app_tokens_free(h->tokens);
	free(h);
	return NULL;
}

struct github_who ghapps_who(const struct store_github_app *a)
{
	return (struct github_who){ a->api_url, a->app_id, a->private_key };
}

/* ---- Apps ---- */

int ghapps_app_check_new(struct ghapps *h, const char *account, struct err *err)
{
	autowipe struct store_github_app *v = NULL;
	size_t n = 0, own = 0;
	int r = store_github_app_list(h->store, account, &v, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++)
		own += strcmp(v[i].account, account) == 0;
	if (r >= 0 && own >= GHAPPS_APPS_MAX)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "an account has at most %d GitHub Apps: remove one",
		               GHAPPS_APPS_MAX);
	return MIN(r, 0);
}

static int take_text(const char *v, const char *name, char *dst, size_t size, struct err *err)
{
	if (!v)
		return 0;
	for (const char *p = v; *p; p++)
		if (*p <= ' ' || *p > '~')
			return err_tag(err, -EINVAL, TAG, "'%s' has characters that it cannot have",
			               name);
	if (!*v || strlen(v) >= size)
		return err_tag(err, -EINVAL, TAG, "'%s' must have 1 to %zu characters", name,
		               size - 1);
	snprintf(dst, size, "%s", v);
	return 0;
}

int ghapps_unreachable(int r, struct err *err)
{
	err->tag = ERR_GIT_HUB_SYNC_FAILED;
	return r;
}

int ghapps_app_ask(struct ghapps *h, struct store_github_app *a, struct err *err)
{
	const struct github_who who = ghapps_who(a);
	autojson json_t *j = NULL;
	const char *name, *page;
	long status = 0;
	char what[300];
	size_t n;
	int r;

	snprintf(what, sizeof(what), "cannot ask %s for the App", a->api_url);
	r = github_call_app(&h->net, &who, "GET", "/app", NULL, what, &j, &status, err);
	if (r < 0)
		return ghapps_unreachable(r, err);
	if (status != 200)
		return err_tag(err, -EINVAL, TAG,
		               "%s: it answered %ld: 'appId' and 'privateKey' must belong together",
		               what, status);
	name = json_string_value(json_object_get(j, "name"));
	page = json_string_value(json_object_get(j, "html_url"));
	n = strlen(a->server);
	if (!name || !page || strncmp(page, a->server, n) != 0 || page[n] != '/' ||
	    strlen(page) >= sizeof(a->page) || page[strcspn(page, " \t\r\n\"'<>?#")])
		return err_tag(err, -EINVAL, ERR_GIT_HUB_SYNC_FAILED,
		               "%s: its answer is not an App's", what);
	snprintf(a->name, sizeof(a->name), "%.*s", (int)sizeof(a->name) - 1, name);
	snprintf(a->page, sizeof(a->page), "%s", page);
	if (!*a->client_id && json_string_value(json_object_get(j, "client_id")))
		snprintf(a->client_id, sizeof(a->client_id), "%.60s",
		         json_string_value(json_object_get(j, "client_id")));
	return 0;
}

int ghapps_app_add(struct ghapps *h, const char *account, const struct ghapps_app_new *n,
                   struct store_github_app *ret, struct err *err)
{
	struct store_github_app *a = ret;
	int r;

	memset(a, 0, sizeof(*a));
	id_make("gha-", a->id);
	snprintf(a->account, sizeof(a->account), "%s", account);
	a->shared = n->shared;
	a->created_ms = clock_wall_ms();
	if ((r = github_origin(n->server ? n->server : h->server, "server", a->server,
	                       sizeof(a->server), err)) < 0 ||
	    (r = github_api_url(a->server, n->api_url, a->api_url, sizeof(a->api_url), err)) < 0 ||
	    (r = take_text(n->app_id, "appId", a->app_id, sizeof(a->app_id), err)) < 0 ||
	    (r = take_text(n->client_id, "clientId", a->client_id, sizeof(a->client_id), err)) <
	            0 ||
	    (r = take_text(n->client_secret, "clientSecret", a->client_secret,
	                   sizeof(a->client_secret), err)) < 0 ||
	    (r = take_text(n->webhook_secret, "webhookSecret", a->webhook_secret,
	                   sizeof(a->webhook_secret), err)) < 0)
		return r;
	if (!n->private_key || strlen(n->private_key) >= sizeof(a->private_key) ||
	    !github_key_ok(n->private_key))
		return err_tag(err, -EINVAL, TAG, "'privateKey' must be an RSA key in PEM format");
	if (n->shared && !*a->client_secret)
		return err_tag(err, -EINVAL, TAG,
		               "a shared App needs 'clientSecret': with it the server finds out "
		               "whose installation it is");
	snprintf(a->private_key, sizeof(a->private_key), "%s", n->private_key);
	if ((r = ghapps_app_check_new(h, account, err)) < 0 || (r = ghapps_app_ask(h, a, err)) < 0)
		return r;
	return store_github_app_add(h->store, a, err);
}

int ghapps_app_get(struct ghapps *h, const char *account, const char *id,
                   struct store_github_app *ret, struct err *err)
{
	int r = store_github_app_get(h->store, id, ret, err);

	if (r == 0 && strcmp(ret->account, account) != 0 && !ret->shared)
		r = err_tag(err, -ENOENT, ERR_NOT_FOUND, "no GitHub App '%.40s'", id);
	return r;
}

/* ---- installations ---- */

int ghapps_installation_take(struct ghapps *h, const struct store_github_app *a,
                             const char *account, const char *number,
                             struct store_installation *ret, struct err *err)
{
	struct store_installation *v = NULL;
	size_t n = 0;
	int r;

	memset(ret, 0, sizeof(*ret));
	id_make("ghi-", ret->id);
	snprintf(ret->app, sizeof(ret->app), "%s", a->id);
	snprintf(ret->account, sizeof(ret->account), "%s", account);
	snprintf(ret->number, sizeof(ret->number), "%s", number);
	ret->created_ms = ret->due_ms = clock_wall_ms();
	if ((r = ghapps_ask(h, a, ret, err)) < 0 ||
	    (r = store_installation_list(h->store, account, &v, &n, err)) < 0)
		return r;
	free(v);
	if (n >= GHAPPS_INSTALLATIONS_MAX)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "an account has at most %d installations: remove one",
		               GHAPPS_INSTALLATIONS_MAX);
	if ((r = store_installation_add(h->store, ret, err)) < 0 ||
	    (r = store_installation_due(h->store, ret->id, clock_wall_ms(), err)) < 0)
		return r;
	crew_wake(h->crew);
	return 0;
}

int ghapps_installation_add(struct ghapps *h, const char *account, const char *app,
                            const char *number, struct store_installation *ret, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if (!ghapps_number_ok(number))
		return err_tag(err, -EINVAL, TAG, "'installationId' must be a number");
	if ((r = ghapps_app_get(h, account, app, a, err)) < 0)
		return r;
	if (a->shared)
		return err_tag(err, -EINVAL, TAG,
		               "installations of a shared App are added with a link only");
	return ghapps_installation_take(h, a, account, number, ret, err);
}

int ghapps_installation_get(struct ghapps *h, const char *account, const char *id,
                            struct store_installation *ret, struct err *err)
{
	int r = store_installation_get(h->store, id, ret, err);

	if (r == 0 && strcmp(ret->account, account) != 0)
		r = err_tag(err, -ENOENT, ERR_NOT_FOUND, "no installation '%.40s'", id);
	return r;
}

int ghapps_installation_remove(struct ghapps *h, const char *account, const char *id,
                               bool on_github, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	struct store_installation i;
	struct github_who who;
	autojson json_t *j = NULL;
	long status = 0;
	char path[80];
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = ghapps_installation_get(h, account, id, &i, err)) < 0)
		return r;
	if (on_github) {
		if ((r = store_github_app_get(h->store, i.app, a, err)) < 0)
			return r;
		who = ghapps_who(a);
		snprintf(path, sizeof(path), "/app/installations/%s", i.number);
		r = github_call_app(&h->net, &who, "DELETE", path, NULL,
		                    "the App was not uninstalled", &j, &status, err);
		if (r < 0)
			return ghapps_unreachable(r, err);
		if (status != 204 && status != 202 && status != 404)
			return err_tag(err, -EIO, ERR_GIT_HUB_SYNC_FAILED,
			               "the App was not uninstalled: %s answered %ld", a->api_url,
			               status);
	}
	app_token_forget(h->tokens, i.id);
	return store_installation_delete(h->store, i.id, err);
}

int ghapps_installation_look(struct ghapps *h, const char *account, const char *id, struct err *err)
{
	struct store_installation i;
	int r = ghapps_installation_get(h, account, id, &i, err);

	if (r < 0 || (r = store_installation_due(h->store, i.id, clock_wall_ms(), err)) < 0)
		return r;
	crew_wake(h->crew);
	return 0;
}

/* ---- for mirrors ---- */

int ghapps_choose(struct ghapps *h, const char *account, const char *url, const char *number,
                  char ret[ID_SIZE], struct err *err)
{
	char origin[CREDENTIAL_URL_SIZE], name[GITHUB_REPO_SIZE];
	struct store_installation i;
	int r;

	*ret = '\0';
	if (number && !ghapps_number_ok(number))
		return err_tag(err, -EINVAL, TAG, "'installationId' must be a number");
	if ((r = github_origin(url, "url", origin, sizeof(origin), err)) < 0)
		return r;
	r = ghapps_repo_of(origin, url, name);
	if (r == 0)
		r = store_installation_for(h->store, account, origin, name, number, &i, err);
	if (r == 0)
		snprintf(ret, ID_SIZE, "%s", i.id);
	if (r != -ENOENT || !number)
		return r == -ENOENT ? 0 : r;
	return err_tag(err, -EINVAL, TAG,
	               "installation %s of this account does not reach '%.200s': give the App "
	               "access to it on GitHub ('pando git app repos' lists what it reaches)",
	               number, url);
}

int ghapps_token(struct ghapps *h, const struct store_sync *y, char ret[CREDENTIAL_TOKEN_SIZE],
                 struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	char name[GITHUB_REPO_SIZE], key[APP_TOKEN_KEY_SIZE];
	struct store_installation i;
	const char *repo;
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	r = ghapps_installation_get(h, y->account, y->installation, &i, err);
	if (r == 0)
		r = store_github_app_get(h->store, i.app, a, err);
	if (r == -ENOENT)
		return err_set(err, -ENOKEY,
		               "the installation of the GitHub App is gone: install it again, and "
		               "set the mirror again");
	if (r < 0)
		return r;
	if (i.suspended)
		return err_set(err, -ENOKEY, "the installation of '%s' is suspended on GitHub",
		               i.login);
	/* Its address could have been changed since, but never to another server. */
	if (ghapps_repo_of(a->server, y->url, name) < 0)
		return err_set(err, -EINVAL, "the mirror is not on the server of its GitHub App");
	repo = strchr(name, '/') + 1;
	snprintf(key, sizeof(key), "%s/%s", i.id, repo);
	r = app_token(h->tokens,
	              &(struct app_token_of){
	                      .key = key, .who = ghapps_who(a), .number = i.number, .repo = repo },
	              &h->net, ret, err);
	if (r == -ENOKEY && store_installation_due(h->store, i.id, clock_wall_ms(), NULL) >= 0)
		crew_wake(h->crew);
	return r;
}

void ghapps_refused(struct ghapps *h, const struct store_sync *y)
{
	app_token_forget(h->tokens, y->installation);
}
