/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghapps_look.c - keeps the list of installations true
 *
 * A webhook about an installation, a token that was refused, or the day that has passed make its
 * row due. A worker then asks GitHub what the installation is: gone, suspended, which repositories
 * it reaches. What a webhook says is never taken over: an old one, sent again, changes nothing that
 * GitHub's API would not say now, and their order does not matter.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/log.h"
#include "git/ghapps_internal.h"

#define WORKERS 2
#define HOLD_MS (INT64_C(10) * 60 * 1000) /* nobody else looks at it meanwhile */
#define AGAIN_MS (INT64_C(24) * 60 * 60 * 1000)
#define RETRY_MS (INT64_C(30) * 1000) /* doubled each time, up to a day */
#define PER_PAGE 100

struct names {
	char **v; /* owned */
	size_t n, cap;
};
static void names_done(struct names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

static bool names_add(struct names *l, const char *name)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 32;
		char **v = realloc(l->v, cap * sizeof(*v));

		if (!v)
			return false;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n] = strdup(name);
	return l->v[l->n] && ++l->n;
}

static void put_text(char *dst, size_t size, const json_t *v)
{
	const char *s = json_string_value(v);

	snprintf(dst, size, "%.*s", (int)size - 1, s ? s : "");
}

int ghapps_ask(struct ghapps *h, const struct store_github_app *a, struct store_installation *i,
               struct err *err)
{
	const struct github_who who = ghapps_who(a);
	autojson json_t *j = NULL;
	const json_t *owner;
	long status = 0;
	char path[80], what[300];
	int r;

	snprintf(path, sizeof(path), "/app/installations/%s", i->number);
	snprintf(what, sizeof(what), "cannot ask %s for installation %s", a->api_url, i->number);
	r = github_call_app(&h->net, &who, "GET", path, NULL, what, &j, &status, err);
	if (r < 0)
		return ghapps_unreachable(r, err);
	if (status == 404)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "the App '%s' has no installation %s",
		               a->name, i->number);
	if (status != 200)
		return err_tag(err, -EIO, ERR_GIT_HUB_SYNC_FAILED, "%s: it answered %ld", what,
		               status);
	owner = json_object_get(j, "account");
	put_text(i->login, sizeof(i->login),
	         json_object_get(owner, json_object_get(owner, "login") ? "login" : "slug"));
	put_text(i->kind, sizeof(i->kind), json_object_get(j, "target_type"));
	put_text(i->selection, sizeof(i->selection), json_object_get(j, "repository_selection"));
	i->suspended = json_is_string(json_object_get(j, "suspended_at"));
	return 0;
}

/* Names of other forms than GitHub's are left out: they would end up in addresses. */
static int one_page(struct ghapps *h, const struct store_github_app *a, const char *token, int page,
                    struct names *l, bool *ret_last, struct err *err)
{
	autojson json_t *j = NULL;
	const char *name;
	json_t *list, *v;
	long status = 0;
	char url[400];
	size_t i;
	int r;

	snprintf(url, sizeof(url), "%s/installation/repositories?per_page=%d&page=%d", a->api_url,
	         PER_PAGE, page);
	r = github_call(&h->net,
	                &(struct github_call){ .method = "GET", .url = url, .bearer = token },
	                "cannot list its repositories", &j, &status, NULL, err);
	if (r < 0)
		return r;
	list = json_object_get(j, "repositories");
	if (status != 200 || !json_is_array(list))
		return err_set(err, -EIO, "cannot list its repositories: %s answered %ld",
		               a->api_url, status);
	json_array_foreach(list, i, v)
	{
		name = json_string_value(json_object_get(v, "full_name"));
		if (name && l->n < GHAPPS_REPOS_MAX && ghapps_repo_name_ok(name) &&
		    !names_add(l, name))
			return err_set(err, -ENOMEM, "out of memory");
	}
	*ret_last = json_array_size(list) < PER_PAGE || l->n >= GHAPPS_REPOS_MAX;
	return 0;
}

static int list_repos(struct ghapps *h, const struct store_github_app *a,
                      const struct store_installation *i, struct names *l, struct err *err)
{
	char token[CREDENTIAL_TOKEN_SIZE];
	bool last = false;
	int r = app_token(
	        h->tokens,
	        &(struct app_token_of){ .key = i->id, .who = ghapps_who(a), .number = i->number },
	        &h->net, token, err);

	for (int page = 1; r == 0 && !last && page <= GHAPPS_REPOS_MAX / PER_PAGE; page++)
		r = one_page(h, a, token, page, l, &last, err);
	if (r < 0)
		app_token_forget(h->tokens, i->id);
	explicit_bzero(token, sizeof(token));
	return r;
}

static void look(struct ghapps *h, struct store_installation *i)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	AUTO(names_done) struct names l = { 0 };
	const char *const none[] = { NULL };
	const char *const *names;
	int64_t held = i->due_ms, now;
	struct err err = { 0 };
	int r = a ? store_github_app_get(h->store, i->app, a, &err) : -ENOMEM;

	if (r == 0)
		r = ghapps_ask(h, a, i, &err);
	if (r == -ENOENT) {
		app_token_forget(h->tokens, i->id);
		if (store_installation_delete(h->store, i->id, &err) >= 0)
			log_info("installation %s of '%s' is gone", i->number, i->login);
		return;
	}
	if (r == 0 && i->suspended)
		app_token_forget(h->tokens, i->id);
	if (r == 0 && !i->suspended)
		r = list_repos(h, a, i, &l, &err);
	if (r < 0 && atomic_load(h->net.ending))
		return;
	now = clock_wall_ms();
	i->tries = r < 0 ? i->tries + 1 : 0;
	i->checked_ms = r < 0 ? i->checked_ms : now;
	i->due_ms = now + (r < 0 ? MIN(RETRY_MS << MIN(i->tries - 1, 12u), AGAIN_MS) : AGAIN_MS);
	snprintf(i->note, sizeof(i->note), "%.250s", r < 0 ? err.msg : "");
	names = l.v ? (const char *const *)l.v : none;
	r = store_installation_found(h->store, i, held, r < 0 || i->suspended ? NULL : names, l.n,
	                             &err);
	if (r < 0)
		log_warn("installation %s: %s", i->number, err.msg);
}

static int claim(void *ctx, void *job, struct err *err)
{
	struct ghapps *h = ctx;

	return store_installation_claim(h->store, clock_wall_ms(), HOLD_MS, job, err);
}

static int next(void *ctx, int64_t *ret_ms, struct err *err)
{
	struct ghapps *h = ctx;

	return store_installation_next(h->store, ret_ms, err);
}

static void work(void *ctx, void *job)
{
	look(ctx, job);
}

int ghapps_look_start(struct ghapps *h, struct err *err)
{
	static const struct crew_ops ops = { sizeof(struct store_installation), claim, next, work };

	return crew_start(&ops, h, WORKERS, &h->crew, err);
}
