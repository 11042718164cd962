/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghapps_link.c - what browsers do: make an App on GitHub, and install it
 *
 * Both begin with a link that an account made. Its page names the account and gives the browser a
 * cookie; from there the browser goes to GitHub with the link's secret as the state, and comes back
 * with it. The link is used up then, and only by the browser that saw the page: so nobody connects
 * his repositories to an account without having been told to which, and a state that was seen by
 * somebody else is worth nothing.
 *
 * The number of an installation in the address that GitHub sends the browser to proves nothing. An
 * account's own App has installations of that account only, so it is enough that the App says that
 * the number is one of its. A shared App has those of others, too; there the browser's user must be
 * an administrator of every repository that the installation reaches, which GitHub tells us with a
 * token of that user (the App asks for it during the installation).
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
#include "git/ghapps_internal.h"
#include "store/store_account.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define LINK_MS (INT64_C(60) * 60 * 1000)             /* to make an App: GitHub allows an hour */
#define INSTALL_MS (INT64_C(7) * 24 * 60 * 60 * 1000) /* a link that is sent to somebody */
#define CODE_MAX 128
#define PAGES_MAX (GHAPPS_REPOS_MAX / 100)

static void make_secret(char ret[GHAPPS_SECRET_SIZE])
{
	unsigned char raw[32];

	random_bytes(raw, sizeof(raw));
	hex_encode(raw, sizeof(raw), ret);
	OPENSSL_cleanse(raw, sizeof(raw));
}

static bool secret_ok(const char *s)
{
	return s && strlen(s) == GHAPPS_SECRET_SIZE - 1 &&
	       strspn(s, "0123456789abcdef") == GHAPPS_SECRET_SIZE - 1;
}

/* ---- new links ---- */

static bool plain(const char *s, size_t max)
{
	return !s ||
	       (*s && strlen(s) <= max &&
	        strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
	                strlen(s));
}

static int base_check(const char *base, struct err *err)
{
	char origin[CREDENTIAL_URL_SIZE];
	int r = github_origin(base, "baseUrl", origin, sizeof(origin), err);

	if (r == 0 && strlen(origin) != strlen(base))
		r = err_tag(err, -EINVAL, TAG,
		            "'baseUrl' must be a URL with nothing after the host and port");
	return r;
}

static int app_detail(struct ghapps *h, const struct ghapps_link_new *n, json_t *d, struct err *err)
{
	char server[CREDENTIAL_URL_SIZE], api[CREDENTIAL_URL_SIZE], name[64], tail[ID_SIZE];
	int r;

	if ((r = github_origin(n->server ? n->server : h->server, "server", server, sizeof(server),
	                       err)) < 0 ||
	    (r = github_api_url(server, n->api_url, api, sizeof(api), err)) < 0)
		return r;
	if (server[strcspn(server, ";,'\"<>\\")]) /* it is put into a policy */
		return err_tag(err, -EINVAL, TAG, "'server' has characters that no host has");
	if (!plain(n->organization, 60))
		return err_tag(err, -EINVAL, TAG,
		               "'organization' must be the name of one on GitHub");
	if (!plain(n->name, 34))
		return err_tag(err, -EINVAL, TAG,
		               "'name' must have 1 to 34 letters, digits, '-' and '_'");
	id_make("", tail);
	snprintf(name, sizeof(name), "pando-%.8s", tail); /* names of Apps are unique on GitHub */
	json_object_set_new(d, "server", json_string(server));
	json_object_set_new(d, "api", json_string(api));
	json_object_set_new(d, "name", json_string(n->name ? n->name : name));
	json_object_set_new(d, "organization", json_string(n->organization ? n->organization : ""));
	json_object_set_new(d, "shared", json_boolean(n->shared));
	json_object_set_new(d, "private", json_boolean(n->is_private && !n->shared));
	return 0;
}

static int add_link(struct ghapps *h, const char *account, const char *kind, const char *app,
                    const json_t *detail, int64_t life_ms, char ret_secret[GHAPPS_SECRET_SIZE],
                    int64_t *ret_until_ms, struct err *err)
{
	struct store_github_link l = { .until_ms = clock_wall_ms() + life_ms };
	size_t n = json_dumpb(detail, l.detail, sizeof(l.detail) - 1, JSON_COMPACT);

	if (n == 0 || n >= sizeof(l.detail))
		return err_tag(err, -EINVAL, TAG, "'baseUrl' or 'server' is too long");
	l.detail[n] = '\0';
	make_secret(ret_secret);
	snprintf(l.account, sizeof(l.account), "%s", account);
	snprintf(l.kind, sizeof(l.kind), "%s", kind);
	snprintf(l.app, sizeof(l.app), "%s", app);
	if (ret_until_ms)
		*ret_until_ms = l.until_ms;
	return store_github_link_add(h->store, ret_secret, &l, clock_wall_ms(), err);
}

int ghapps_link_new(struct ghapps *h, const char *account, const struct ghapps_link_new *n,
                    char ret_secret[GHAPPS_SECRET_SIZE], int64_t *ret_until_ms, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	autojson json_t *d = json_pack("{s:s}", "base", n->base);
	char id[ID_SIZE];
	int r = base_check(n->base, err);

	if (r < 0)
		return r;
	if (!a || !d)
		return err_set(err, -ENOMEM, "out of memory");
	if (n->app) {
		if ((r = ghapps_app_get(h, account, n->app, a, err)) < 0)
			return r;
		return add_link(h, account, "install", a->id, d, INSTALL_MS, ret_secret,
		                ret_until_ms, err);
	}
	if ((r = ghapps_app_check_new(h, account, err)) < 0 || (r = app_detail(h, n, d, err)) < 0)
		return r;
	id_make("gha-", id); /* its webhook's address has it, before there is an App */
	return add_link(h, account, "app", id, d, LINK_MS, ret_secret, ret_until_ms, err);
}

/* ---- the page of a link ---- */

void ghapps_page_done(struct ghapps_page *p)
{
	free(p->manifest);
}

static const char *text_of(const json_t *d, const char *name)
{
	const char *v = json_string_value(json_object_get(d, name));

	return v ? v : "";
}

/* What GitHub makes the App from. Pushing workflow files needs a permission of its own. */
static char *manifest_of(const json_t *d, const char *app)
{
	const char *base = text_of(d, "base");
	bool shared = json_is_true(json_object_get(d, "shared"));
	autojson json_t *j = json_pack(
	        "{s:s, s:s, s:{s:s+++, s:b}, s:s++, s:b, s:[s,s,s], s:{s:s, s:s, s:s}}", "name",
	        text_of(d, "name"), "url", base, "hook_attributes", "url", base, GHAPPS_PATH,
	        "/webhook/", app, "active", 1, "redirect_url", base, GHAPPS_PATH, "/created",
	        "public", !json_is_true(json_object_get(d, "private")), "default_events", "push",
	        "create", "delete", "default_permissions", "contents", "write", "metadata", "read",
	        "workflows", "write");
	char back[CREDENTIAL_URL_SIZE + 64];

	if (!j)
		return NULL;
	snprintf(back, sizeof(back), "%s" GHAPPS_PATH "/installed", base);
	if (shared) { /* the user comes back with a code, which says who it is */
		json_object_set_new(j, "callback_urls", json_pack("[s]", back));
		json_object_set_new(j, "request_oauth_on_install", json_true());
	} else {
		json_object_set_new(j, "setup_url", json_string(back));
		json_object_set_new(j, "setup_on_update", json_true());
	}
	return json_dumps(j, JSON_COMPACT);
}

static int app_page(const json_t *d, const char *secret, const struct store_github_link *l,
                    struct ghapps_page *ret, struct err *err)
{
	const char *org = text_of(d, "organization");

	ret->manifest = manifest_of(d, l->app);
	if (!ret->manifest)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(ret->origin, sizeof(ret->origin), "%s", text_of(d, "server"));
	snprintf(ret->target, sizeof(ret->target), "%s%s%s/settings/apps/new?state=%s", ret->origin,
	         *org ? "/organizations/" : "", org, secret);
	return 0;
}

int ghapps_page_open(struct ghapps *h, const char *secret, const char *browser,
                     struct ghapps_page *ret, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	autojson json_t *d = NULL;
	struct store_github_link l;
	struct store_account acc;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = store_github_link_open(h->store, secret_ok(secret) ? secret : "", browser,
	                                clock_wall_ms(), &l, err)) < 0 ||
	    (r = store_account_get(h->store, l.account, &acc, err)) < 0)
		return r;
	d = json_loads(l.detail, 0, NULL);
	snprintf(ret->account, sizeof(ret->account), "%.250s", *acc.name ? acc.name : acc.id);
	ret->install = strcmp(l.kind, "install") == 0;
	if (!ret->install)
		return app_page(d, secret, &l, ret, err);
	if ((r = ghapps_app_get(h, l.account, l.app, a, err)) < 0)
		return r;
	snprintf(ret->origin, sizeof(ret->origin), "%s", a->server);
	snprintf(ret->target, sizeof(ret->target), "%s/installations/new?state=%s", a->page,
	         secret);
	return 0;
}

static int take(struct ghapps *h, const char *kind, const char *secret, const char *browser,
                struct store_github_link *l, json_t **ret_detail, struct err *err)
{
	int r;

	if ((r = store_github_link_take(h->store, secret_ok(secret) ? secret : "",
	                                secret_ok(browser) ? browser : "", clock_wall_ms(), l,
	                                err)) < 0)
		return r;
	if (strcmp(l->kind, kind) != 0)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND,
		               "this link is for something else: ask for a new one");
	*ret_detail = json_loads(l->detail, 0, NULL);
	return 0;
}

/* A code goes into a path or a body of ours. */
static int code_check(const char *code, struct err *err)
{
	if (code && *code && strlen(code) <= CODE_MAX &&
	    strspn(code, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~") ==
	            strlen(code))
		return 0;
	return err_tag(err, -EINVAL, TAG, "GitHub sent no valid code: begin again with a new link");
}

/* ---- a new App ---- */

static int copy(const json_t *j, const char *name, char *dst, size_t size, struct err *err)
{
	const char *v = json_string_value(json_object_get(j, name));

	if (!v || !*v || strlen(v) >= size)
		return err_tag(err, -EBADMSG, ERR_GIT_HUB_SYNC_FAILED,
		               "GitHub's answer has no valid '%s'", name);
	snprintf(dst, size, "%s", v);
	return 0;
}

static int read_conversion(const json_t *j, struct store_github_app *a, struct err *err)
{
	json_int_t id = json_integer_value(json_object_get(j, "id"));
	int r;

	if (id <= 0)
		return err_tag(err, -EBADMSG, ERR_GIT_HUB_SYNC_FAILED,
		               "GitHub's answer has no valid 'id'");
	snprintf(a->app_id, sizeof(a->app_id), "%lld", (long long)id);
	if ((r = copy(j, "pem", a->private_key, sizeof(a->private_key), err)) < 0 ||
	    (r = copy(j, "client_id", a->client_id, sizeof(a->client_id), err)) < 0 ||
	    (r = copy(j, "client_secret", a->client_secret, sizeof(a->client_secret), err)) < 0 ||
	    (r = copy(j, "webhook_secret", a->webhook_secret, sizeof(a->webhook_secret), err)) < 0)
		return r;
	if (!github_key_ok(a->private_key))
		return err_tag(err, -EBADMSG, ERR_GIT_HUB_SYNC_FAILED,
		               "GitHub's answer has no valid 'pem'");
	return 0;
}

static void wipe_conversion(json_t *j)
{
	static const char *const secret[] = { "pem", "client_secret", "webhook_secret",
		                              "access_token" };

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++) {
		json_t *v = json_object_get(j, secret[i]);

		if (json_is_string(v))
			OPENSSL_cleanse((void *)(uintptr_t)json_string_value(v),
			                json_string_length(v));
	}
}

int ghapps_app_made(struct ghapps *h, const char *secret, const char *browser, const char *code,
                    struct store_github_app *ret, char ret_secret[GHAPPS_SECRET_SIZE],
                    struct err *err)
{
	autojson json_t *d = NULL, *j = NULL, *base = NULL;
	struct store_github_link l;
	char url[600];
	long status = 0;
	int r;

	memset(ret, 0, sizeof(*ret));
	if ((r = code_check(code, err)) < 0 ||
	    (r = take(h, "app", secret, browser, &l, &d, err)) < 0 ||
	    (r = ghapps_app_check_new(h, l.account, err)) < 0)
		return r;
	snprintf(ret->id, sizeof(ret->id), "%s", l.app);
	snprintf(ret->account, sizeof(ret->account), "%s", l.account);
	snprintf(ret->server, sizeof(ret->server), "%s", text_of(d, "server"));
	snprintf(ret->api_url, sizeof(ret->api_url), "%s", text_of(d, "api"));
	ret->shared = json_is_true(json_object_get(d, "shared"));
	ret->created_ms = clock_wall_ms();
	snprintf(url, sizeof(url), "%s/app-manifests/%s/conversions", ret->api_url, code);
	r = github_call(&h->net, &(struct github_call){ .method = "POST", .url = url, .body = "" },
	                "GitHub did not hand over the App", &j, &status, NULL, err);
	if (r < 0)
		return ghapps_unreachable(r, err);
	if (status != 201)
		return err_tag(err, -EIO, ERR_GIT_HUB_SYNC_FAILED,
		               "GitHub did not hand over the App: it answered %ld; remove the App "
		               "there and begin again with a new link",
		               status);
	r = read_conversion(j, ret, err);
	wipe_conversion(j);
	if (r < 0 || (r = ghapps_app_ask(h, ret, err)) < 0 ||
	    (r = store_github_app_add(h->store, ret, err)) < 0)
		return r;
	base = json_pack("{s:s}", "base", text_of(d, "base"));
	return add_link(h, l.account, "install", ret->id, base, INSTALL_MS, ret_secret, NULL, err);
}

/* ---- whose installation it is ---- */

static int user_token(struct ghapps *h, const struct store_github_app *a, const char *code,
                      char ret[CREDENTIAL_TOKEN_SIZE], struct err *err)
{
	autojson json_t *ask = json_pack("{s:s, s:s, s:s}", "client_id", a->client_id,
	                                 "client_secret", a->client_secret, "code", code);
	autowipe char *body = ask ? json_dumps(ask, JSON_COMPACT) : NULL;
	autojson json_t *j = NULL;
	const char *token;
	char url[400];
	long status = 0;
	int r;

	if (!body)
		return err_set(err, -ENOMEM, "out of memory");
	wipe_conversion(ask);
	snprintf(url, sizeof(url), "%s/login/oauth/access_token", a->server);
	r = github_call(&h->net,
	                &(struct github_call){ .method = "POST", .url = url, .body = body },
	                "GitHub did not say who you are", &j, &status, NULL, err);
	if (r < 0)
		return ghapps_unreachable(r, err);
	token = json_string_value(json_object_get(j, "access_token"));
	if (status != 200 || !token || !*token || strlen(token) >= CREDENTIAL_TOKEN_SIZE ||
	    token[strcspn(token, " \t\r\n")])
		return err_tag(err, -EACCES, ERR_FORBIDDEN,
		               "GitHub did not say who you are: begin again with a new link");
	snprintf(ret, CREDENTIAL_TOKEN_SIZE, "%s", token);
	wipe_conversion(j);
	return 0;
}

/* A page of a list: how many there are in all, and the page itself (borrowed from *j). */
static int list_page(struct ghapps *h, const char *token, const char *url, json_t **j,
                     json_int_t *ret_total, struct err *err)
{
	long status = 0;
	int r = github_call(
	        &h->net, &(struct github_call){ .method = "GET", .url = url, .bearer = token },
	        "GitHub did not say what the installation reaches", j, &status, NULL, err);

	if (r < 0)
		return ghapps_unreachable(r, err);
	*ret_total = json_integer_value(json_object_get(*j, "total_count"));
	if (status == 200)
		return 0;
	return err_tag(err, -EACCES, ERR_FORBIDDEN,
	               "this user of GitHub has no access to the installation (%ld)", status);
}

/* Repositories of the installation that this user is an administrator of. */
static int count_administered(struct ghapps *h, const struct store_github_app *a,
                              const char *number, const char *token, json_int_t *ret,
                              struct err *err)
{
	json_int_t total = 0;

	*ret = 0;
	for (int page = 1; page <= PAGES_MAX; page++) {
		autojson json_t *j = NULL;
		json_t *list, *v;
		char url[500];
		size_t i;
		int r;

		snprintf(url, sizeof(url),
		         "%s/user/installations/%s/repositories?per_page=100&page=%d", a->api_url,
		         number, page);
		if ((r = list_page(h, token, url, &j, &total, err)) < 0)
			return r;
		list = json_object_get(j, "repositories");
		json_array_foreach(list, i, v)
		{
			const json_t *may = json_object_get(v, "permissions");

			*ret += json_is_true(json_object_get(may, "admin"));
		}
		if (json_array_size(list) == 0 || (json_int_t)page * 100 >= total)
			break;
	}
	return 0;
}

static int check_user(struct ghapps *h, const struct store_github_app *a, const char *number,
                      const char *code, struct err *err)
{
	char theirs[CREDENTIAL_TOKEN_SIZE], ours[CREDENTIAL_TOKEN_SIZE] = "", url[400];
	char key[APP_TOKEN_KEY_SIZE];
	json_int_t administered = 0, total = 0;
	autojson json_t *j = NULL;
	int r;

	if ((r = code_check(code, err)) < 0 || (r = user_token(h, a, code, theirs, err)) < 0)
		return r;
	snprintf(key, sizeof(key), "%s.%s", a->id, number); /* it has no row yet */
	if ((r = count_administered(h, a, number, theirs, &administered, err)) == 0 &&
	    (r = app_token(
	             h->tokens,
	             &(struct app_token_of){ .key = key, .who = ghapps_who(a), .number = number },
	             &h->net, ours, err)) == 0) {
		snprintf(url, sizeof(url), "%s/installation/repositories?per_page=1", a->api_url);
		r = list_page(h, ours, url, &j, &total, err);
	}
	OPENSSL_cleanse(theirs, sizeof(theirs));
	OPENSSL_cleanse(ours, sizeof(ours));
	if (r < 0)
		return r;
	if (total == 0 || administered < total)
		return err_tag(
		        err, -EACCES, ERR_FORBIDDEN,
		        "the installation reaches %lld repositories, and this user of "
		        "GitHub is an administrator of %lld of them (the first %d are looked "
		        "at): choose only repositories that you administer, or let somebody "
		        "who administers all of them open a link",
		        (long long)total, (long long)administered, GHAPPS_REPOS_MAX);
	return 0;
}

int ghapps_installed(struct ghapps *h, const char *secret, const char *browser, const char *number,
                     const char *code, struct store_installation *ret, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	autojson json_t *d = NULL;
	struct store_github_link l;
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if (!number)
		return err_tag(err, -EINVAL, TAG,
		               "GitHub asks an owner of the organization to agree: when that is "
		               "done, open the link once more");
	if (!ghapps_number_ok(number))
		return err_tag(err, -EINVAL, TAG, "GitHub sent no valid 'installation_id'");
	if ((r = take(h, "install", secret, browser, &l, &d, err)) < 0 ||
	    (r = ghapps_app_get(h, l.account, l.app, a, err)) < 0 ||
	    (a->shared && (r = check_user(h, a, number, code, err)) < 0))
		return r;
	return ghapps_installation_take(h, a, l.account, number, ret, err);
}
