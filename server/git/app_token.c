/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_token.c - passwords of a GitHub App
 *
 * An app proves itself with a JWT that it signs with its private key and that holds for minutes;
 * for it the server hands out a password for one installation, which holds for about an hour. That
 * one is kept in memory until shortly before it ends, and nowhere else.
 */
#include "git/app_token.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/lock.h"
#include "hook/jwt.h"
#include "hook/outbound.h"

#define KEPT_MAX 256                      /* passwords; the one that ends first makes room */
#define EARLY_MS 120000                   /* not used any more this long before it expires */
#define LIFE_MAX_MS (INT64_C(60) * 60000) /* believed at most */
#define JWT_BACK_S 60                     /* clocks differ */
#define JWT_LIFE_S 480
#define REPLY_MAX (64u << 10)
#define RSA_BITS_MIN 2048

struct kept {
	char credential[ID_SIZE];
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

void app_token_forget(struct app_tokens *t, const char *credential)
{
	LOCK_SCOPE(&t->lock);
	for (size_t i = t->n; i-- > 0;)
		if (strcmp(t->v[i].credential, credential) == 0)
			drop(t, i);
}

static bool recall(struct app_tokens *t, const char *credential, char ret[CREDENTIAL_TOKEN_SIZE])
{
	int64_t now = clock_wall_ms();

	LOCK_SCOPE(&t->lock);
	for (size_t i = t->n; i-- > 0;) {
		if (t->v[i].until_ms - EARLY_MS <= now) {
			drop(t, i);
		} else if (strcmp(t->v[i].credential, credential) == 0) {
			memcpy(ret, t->v[i].token, CREDENTIAL_TOKEN_SIZE);
			return true;
		}
	}
	return false;
}

static void remember(struct app_tokens *t, const struct kept *k)
{
	size_t first = 0;

	app_token_forget(t, k->credential);
	LOCK_SCOPE(&t->lock);
	for (size_t i = 1; i < t->n; i++)
		if (t->v[i].until_ms < t->v[first].until_ms)
			first = i;
	if (t->n == KEPT_MAX)
		drop(t, first);
	t->v[t->n++] = *k;
}

/* ---- the proof ---- */

static EVP_PKEY *read_key(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	/* An empty password: a key that needs one is not asked for it on the terminal. */
	EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, NULL, (void *)(uintptr_t) "") : NULL;

	BIO_free(b);
	if (key && (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA ||
	            EVP_PKEY_get_bits(key) < RSA_BITS_MIN || EVP_PKEY_get_bits(key) > 8192)) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	return key;
}

bool app_key_ok(const char *pem)
{
	EVP_PKEY *key = read_key(pem);

	EVP_PKEY_free(key);
	return key;
}

static int make_jwt(const struct store_credential *c, char **ret, struct err *err)
{
	json_int_t now = clock_wall_ms() / 1000;
	EVP_PKEY *key = read_key(c->secret);
	int r;

	if (!key)
		return err_set(err, -EIO, "the private key for %s is damaged", c->server);
	r = jwt_sign(key, EVP_sha256(), json_pack("{s:s, s:s}", "alg", "RS256", "typ", "JWT"),
	             json_pack("{s:I, s:I, s:s}", "iat", now - JWT_BACK_S, "exp", now + JWT_LIFE_S,
	                       "iss", c->app_id),
	             ret, err);
	EVP_PKEY_free(key);
	return r;
}

/* ---- asking ---- */

struct asking {
	struct buf reply;
	bool too_long;
};

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct asking *a = ctx;

	a->too_long = a->reply.len + size * n > REPLY_MAX;
	if (a->too_long)
		return 0;
	buf_put(&a->reply, p, size * n);
	return a->reply.failed ? 0 : size * n;
}

static struct curl_slist *headers_of(const char *jwt)
{
	static const char *const plain[] = { "Accept: application/vnd.github+json",
		                             "X-GitHub-Api-Version: 2022-11-28", "Expect:" };
	autobuf struct buf b = { 0 };
	struct curl_slist *list;

	buf_printf(&b, "Authorization: Bearer %s", jwt);
	buf_put_u8(&b, 0);
	list = b.failed ? NULL : curl_slist_append(NULL, (char *)b.p);
	if (b.p)
		OPENSSL_cleanse(b.p, b.len);
	for (size_t i = 0; list && i < ARRAY_SIZE(plain); i++) {
		struct curl_slist *next = curl_slist_append(list, plain[i]);

		if (!next) {
			curl_slist_free_all(list);
			return NULL;
		}
		list = next;
	}
	return list;
}

/* Only the server's status is passed on, not its message. */
static int parse_reply(const struct asking *a, const struct store_credential *c, struct kept *ret,
                       struct err *err)
{
	autojson json_t *j = json_loadb((char *)a->reply.p, a->reply.len, 0, NULL);
	const char *token = json_string_value(json_object_get(j, "token"));
	const char *end = json_string_value(json_object_get(j, "expires_at"));
	int64_t now = clock_wall_ms(), until;

	for (const char *p = token; p && *p; p++)
		if (!isgraph((unsigned char)*p))
			token = NULL;
	if (!token || !*token || strlen(token) >= sizeof(ret->token) || !end ||
	    clock_rfc3339_parse(end, &until) < 0)
		return err_set(err, -EBADMSG, "%s did not return a password for the app",
		               c->api_url);
	snprintf(ret->credential, sizeof(ret->credential), "%s", c->id);
	snprintf(ret->token, sizeof(ret->token), "%s", token);
	ret->until_ms = MIN(until, now + LIFE_MAX_MS);
	return 0;
}

static int ask(const struct store_credential *c, const char *jwt, struct outbound *o,
               struct kept *ret, struct err *err)
{
	struct curl_slist *headers = headers_of(jwt);
	struct asking a = { 0 };
	CURL *curl = curl_easy_init();
	CURLcode rc = CURLE_OUT_OF_MEMORY;
	long status = 0;
	char url[400];
	int r = 0;

	snprintf(url, sizeof(url), "%s/app/installations/%s/access_tokens", c->api_url,
	         c->installation);
	if (curl && headers) {
		outbound_set(curl, url, o);
		curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(curl, CURLOPT_USERAGENT, "pando-sync");
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
		curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
		curl_easy_setopt(curl, CURLOPT_WRITEDATA, &a);
		rc = curl_easy_perform(curl);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	}
	if (rc != CURLE_OK)
		r = err_set(err, -EIO, "no password from %s: %s", c->api_url,
		            o->refused   ? "it has an internal address"
		            : a.too_long ? "its answer is too long"
		                         : curl_easy_strerror(rc));
	else if (status != 201 && status != 200)
		r = err_set(err, -EACCES, "no password from %s: it answered %ld", c->api_url,
		            status);
	else
		r = parse_reply(&a, c, ret, err);
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	if (a.reply.p)
		OPENSSL_cleanse(a.reply.p, a.reply.cap);
	buf_done(&a.reply);
	return r;
}

int app_token(struct app_tokens *t, const struct store_credential *c, bool allow_private,
              const atomic_bool *ending, char ret[CREDENTIAL_TOKEN_SIZE], struct err *err)
{
	struct outbound o = { .allow_private = allow_private, .ending = ending };
	autofree char *jwt = NULL;
	struct kept k = { 0 };
	int r;

	if (recall(t, c->id, ret))
		return 0;
	if ((r = make_jwt(c, &jwt, err)) < 0)
		return r;
	r = ask(c, jwt, &o, &k, err);
	OPENSSL_cleanse(jwt, strlen(jwt));
	if (r < 0)
		return r;
	memcpy(ret, k.token, CREDENTIAL_TOKEN_SIZE);
	remember(t, &k);
	OPENSSL_cleanse(&k, sizeof(k));
	return 0;
}
