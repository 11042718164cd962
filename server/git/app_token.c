/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_token.c - passwords of a GitHub App
 *
 * To an App that has proved itself (github.c) the server hands out a password for one installation,
 * or for one repository of it, which holds for about an hour. It is kept in memory until shortly
 * before it ends, and nowhere else.
 */
#include "git/app_token.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/lock.h"

#define KEPT_MAX 1024                     /* passwords; the one that ends first makes room */
#define EARLY_MS 120000                   /* not used any more this long before it expires */
#define LIFE_MAX_MS (INT64_C(60) * 60000) /* believed at most */

struct kept {
	char key[APP_TOKEN_KEY_SIZE];
	char token[CREDENTIAL_TOKEN_SIZE];
	int64_t until_ms;
};

struct app_tokens {
	struct mutex lock;
	struct kept v[KEPT_MAX] GUARDED_BY(lock);
	size_t n GUARDED_BY(lock);
};

struct app_tokens *app_tokens_new(void)
{
	struct app_tokens *t = calloc(1, sizeof(*t));

	if (t)
		mutex_init(&t->lock, "git app token");
	return t;
}

struct app_tokens *app_tokens_free(struct app_tokens *t)
{
	if (!t)
		return NULL;
	mutex_destroy(&t->lock);
	OPENSSL_cleanse(t, sizeof(*t));
	free(t);
	return NULL;
}

/* ---- the cache ---- */

static void drop(struct app_tokens *t, size_t i) REQUIRES(&t->lock)
{
	t->v[i] = t->v[--t->n];
	OPENSSL_cleanse(&t->v[t->n], sizeof(t->v[t->n]));
}

void app_token_forget(struct app_tokens *t, const char *key)
{
	size_t n = strlen(key);

	LOCK_SCOPE(&t->lock);
	for (size_t i = t->n; i-- > 0;)
		if (strncmp(t->v[i].key, key, n) == 0 && (!t->v[i].key[n] || t->v[i].key[n] == '/'))
			drop(t, i);
}

static bool recall(struct app_tokens *t, const char *key, char ret[CREDENTIAL_TOKEN_SIZE])
{
	int64_t now = clock_wall_ms();

	LOCK_SCOPE(&t->lock);
	for (size_t i = t->n; i-- > 0;) {
		if (t->v[i].until_ms - EARLY_MS <= now) {
			drop(t, i);
		} else if (strcmp(t->v[i].key, key) == 0) {
			memcpy(ret, t->v[i].token, CREDENTIAL_TOKEN_SIZE);
			return true;
		}
	}
	return false;
}

static void remember(struct app_tokens *t, const struct kept *k)
{
	size_t first = 0;

	app_token_forget(t, k->key);
	LOCK_SCOPE(&t->lock);
	for (size_t i = 1; i < t->n; i++)
		if (t->v[i].until_ms < t->v[first].until_ms)
			first = i;
	if (t->n == KEPT_MAX)
		drop(t, first);
	t->v[t->n++] = *k;
}

/* ---- asking ---- */

/* Only the server's status is passed on, not its message. */
static int parse_reply(const json_t *j, const struct app_token_of *of, struct kept *ret,
                       struct err *err)
{
	const char *token = json_string_value(json_object_get(j, "token"));
	const char *end = json_string_value(json_object_get(j, "expires_at"));
	int64_t now = clock_wall_ms(), until;

	for (const char *p = token; p && *p; p++)
		if (!isgraph((unsigned char)*p))
			token = NULL;
	if (!token || !*token || strlen(token) >= sizeof(ret->token) || !end ||
	    clock_rfc3339_parse(end, &until) < 0)
		return err_set(err, -EBADMSG, "%s did not return a password for the app",
		               of->who.api_url);
	snprintf(ret->key, sizeof(ret->key), "%s", of->key);
	snprintf(ret->token, sizeof(ret->token), "%s", token);
	ret->until_ms = MIN(until, now + LIFE_MAX_MS);
	return 0;
}

static void wipe_token(json_t *j)
{
	json_t *v = json_object_get(j, "token");

	if (json_string_value(v))
		OPENSSL_cleanse((void *)(uintptr_t)json_string_value(v), json_string_length(v));
}

int app_token(struct app_tokens *t, const struct app_token_of *of, const struct github_net *net,
              char ret[CREDENTIAL_TOKEN_SIZE], struct err *err)
{
	autojson json_t *j = NULL;
	autofree char *body = NULL;
	char path[100], what[300];
	struct kept k = { 0 };
	long status = 0;
	int r;

	if (recall(t, of->key, ret))
		return 0;
	snprintf(path, sizeof(path), "/app/installations/%s/access_tokens", of->number);
	snprintf(what, sizeof(what), "no password from %s", of->who.api_url);
	if (of->repo && asprintf(&body, "{\"repositories\": [\"%s\"]}", of->repo) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = github_call_app(net, &of->who, "POST", path, body ? body : "", what, &j, &status, err);
	if (r == 0 && status != 201 && status != 200)
		r = err_set(err, status == 404 || status == 403 ? -ENOKEY : -EACCES,
		            "%s: it answered %ld", what, status);
	if (r == 0)
		r = parse_reply(j, of, &k, err);
	wipe_token(j);
	if (r < 0)
		return r;
	memcpy(ret, k.token, CREDENTIAL_TOKEN_SIZE);
	remember(t, &k);
	OPENSSL_cleanse(&k, sizeof(k));
	return 0;
}
