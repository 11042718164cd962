/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghapps_event.c - webhooks of GitHub Apps
 *
 * Strangers reach this. Nothing is looked at before the signature is right: an HMAC of the body
 * with the secret of the App that the address names, compared in constant time. The answer does not
 * tell an unknown App from a wrong signature. What is signed is counted by App, and one delivery
 * does something once.
 *
 * An event says that something has changed, and where: for a push, the mirrors of that repository
 * are synced, those of the installation's account alone; for an installation, GitHub is asked what
 * it is now (ghapps_look.c). An installation that no account has changes nothing.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/rate.h"
#include "git/ghapps_internal.h"

#define TAG ERR_GIT_INVALID_REQUEST

int ghapps_hook_check(struct ghapps *h, const struct ghapps_hook *k, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	struct rate_answer wait = { 0 };
	struct err why = { 0 };

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if (!id_valid("gha-", k->app) || store_github_app_get(h->store, k->app, a, &why) < 0 ||
	    !ghapps_signed(a->webhook_secret, k->signature, k->body, k->n))
		return err_tag(
		        err, -EACCES, ERR_UNAUTHORIZED,
		        "X-Hub-Signature-256 is missing or wrong: the App's webhook secret must "
		        "be the one that this server has");
	if (rate_take(h->rate, a->id, &wait))
		return 0;
	err_tag(err, -EAGAIN, ERR_LIMIT_EXCEEDED,
	        "too many webhooks of this App: wait %u s, then send at most %u a second",
	        wait.wait_s, h->hooks_per_s);
	err_fact(err, ERR_FACT_RETRY, wait.wait_s);
	return -EAGAIN;
}

static int act(struct ghapps *h, const char *app, const struct ghapps_event *e, struct err *err)
{
	struct store_installation i;
	struct store_github_app *a;
	char server[CREDENTIAL_URL_SIZE];
	int r = store_installation_find(h->store, app, e->number, &i, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (e->kind == GHAPPS_INSTALLATION) {
		r = store_installation_due(h->store, i.id, clock_wall_ms(), err);
		crew_wake(h->crew);
		return MIN(r, 0);
	}
	a = calloc(1, sizeof(*a));
	r = a ? store_github_app_get(h->store, app, a, err)
	      : err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		snprintf(server, sizeof(server), "%s", a->server);
	if (a)
		OPENSSL_cleanse(a, sizeof(*a));
	free(a);
	return r < 0 ? r : MIN(h->changed(h->ctx, i.account, server, e->repo, err), 0);
}

static bool delivery_ok(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return n && n <= 64 &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == n;
}

int ghapps_hook_take(struct ghapps *h, const struct ghapps_hook *k, const json_t *json,
                     struct err *err)
{
	struct ghapps_event e;
	int r;

	if (!k->event || !delivery_ok(k->delivery))
		return err_tag(err, -EINVAL, TAG,
		               "X-GitHub-Event or X-GitHub-Delivery is missing or not valid");
	r = store_github_heard(h->store, k->app, k->delivery, err);
	if (r != 0)
		return MIN(r, 0);
	if ((r = ghapps_event_read(k->event, json, &e, err)) < 0 ||
	    (e.kind != GHAPPS_OTHER && (r = act(h, k->app, &e, err)) < 0))
		return r;
	/* Only now: if it failed, GitHub may send it again. Twice at once does it twice,
	 * harmlessly. */
	return store_github_hear(h->store, k->app, k->delivery, clock_wall_ms(), err);
}
