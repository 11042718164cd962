/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/ghapps.h - GitHub Apps with many installations; for api/
 *
 * An App is made by GitHub from our manifest, or given. It belongs to an account, which may have
 * any number of installations of it; one of the operator's may be shared, and then other accounts
 * may have some, too. An installation comes to an account by a link that the account made and a
 * browser uses once; it belongs to one account. What is known of installations is always what
 * GitHub's API says: a webhook only makes us look (ghapps_look.c).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/store_github.h"

struct err;
struct ghapps;

#define GHAPPS_APPS_MAX 20            /* of an account */
#define GHAPPS_INSTALLATIONS_MAX 1000 /* of an account */
#define GHAPPS_REPOS_MAX 2000         /* listed of an installation */
#define GHAPPS_PATH "/git/v1/github"  /* of our own pages and of the webhook */
#define GHAPPS_SECRET_SIZE 65         /* of a link, of a browser: hex */

/* ---- Apps: ghapps.c ---- */

struct ghapps_app_new {
	const char *server, *api_url; /* or NULL: the default */
	const char *app_id, *private_key;
	const char *webhook_secret;            /* or NULL: none is accepted */
	const char *client_id, *client_secret; /* of a shared one; or NULL */
	bool shared;
};
/* Asks GitHub whether it is one. */
int ghapps_app_add(struct ghapps *h, const char *account, const struct ghapps_app_new *n,
                   struct store_github_app *ret, struct err *err);
/* One that the account may use. */
int ghapps_app_get(struct ghapps *h, const char *account, const char *id,
                   struct store_github_app *ret, struct err *err);

/* One of the account's own App that is there already. */
int ghapps_installation_add(struct ghapps *h, const char *account, const char *app,
                            const char *number, struct store_installation *ret, struct err *err);
int ghapps_installation_get(struct ghapps *h, const char *account, const char *id,
                            struct store_installation *ret, struct err *err);
/* Forgets it; on_github: uninstalls it there first. */
int ghapps_installation_remove(struct ghapps *h, const char *account, const char *id,
                               bool on_github, struct err *err);
/* Asks GitHub soon what it is now. */
int ghapps_installation_look(struct ghapps *h, const char *account, const char *id,
                             struct err *err);

/* ---- links and pages: ghapps_link.c ---- */

struct ghapps_link_new {
	const char *base; /* "https://host": where browsers and GitHub reach us */
	const char *app;  /* to install it; or NULL: a new one, with */
	const char *server, *api_url, *name, *organization; /* or NULL */
	bool shared, is_private;
};
/* *ret_secret: what the address of the page ends with. */
int ghapps_link_new(struct ghapps *h, const char *account, const struct ghapps_link_new *n,
                    char ret_secret[GHAPPS_SECRET_SIZE], int64_t *ret_until_ms, struct err *err);

struct ghapps_page {
	bool install;      /* else a new App */
	char account[256]; /* the name of whose it will be */
	char target[1024]; /* where the browser goes from here */
	char origin[CREDENTIAL_URL_SIZE];
	char *manifest; /* owned; for a new App */
};
void ghapps_page_done(struct ghapps_page *p);
/* browser: a secret that this browser has from us, so that nobody else can go on with the link. */
int ghapps_page_open(struct ghapps *h, const char *secret, const char *browser,
                     struct ghapps_page *ret, struct err *err);
/* GitHub has made the App: code is what it said. ret_secret: a link to install it. */
int ghapps_app_made(struct ghapps *h, const char *secret, const char *browser, const char *code,
                    struct store_github_app *ret, char ret_secret[GHAPPS_SECRET_SIZE],
                    struct err *err);
/* It was installed. number NULL: somebody has yet to agree. */
int ghapps_installed(struct ghapps *h, const char *secret, const char *browser, const char *number,
                     const char *code, struct store_installation *ret, struct err *err);

/* ---- webhooks: ghapps_event.c ---- */

struct ghapps_hook {
	const char *app;                          /* from the address */
	const char *signature, *event, *delivery; /* headers, or NULL */
	const char *body;
	size_t n;
};
/* Is it signed with the App's secret, and not too fast? -EACCES, -EAGAIN. Nothing was parsed yet.
 */
int ghapps_hook_check(struct ghapps *h, const struct ghapps_hook *k, struct err *err);
/* Does what it says: once, whatever is repeated. json: the body. */
int ghapps_hook_take(struct ghapps *h, const struct ghapps_hook *k, const json_t *json,
                     struct err *err);
