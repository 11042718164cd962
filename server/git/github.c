/* SPDX-License-Identifier: Apache-2.0 */
/*
 * github.c - calls of GitHub's REST API
 *
 * An App proves itself with a JWT that it signs with its private key and that holds for minutes. If
 * the server refuses one and its Date header says that our clock is wrong, the JWT is signed again
 * with the server's time: a host without a time service can still be used.
 *
 * Only the server's status is passed on to users, never its text. Redirects are not followed, and
 * internal addresses are refused (hook/outbound.h).
 */
#include "git/github.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/log.h"
#include "hook/jwt.h"
#include "hook/outbound.h"

#define JWT_BACK_S 60 /* clocks differ */
#define JWT_LIFE_S 480
#define AHEAD_S 30 /* differences that are not worth a second try */
#define REPLY_MAX (4u << 20)
#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192

/* ---- the proof ---- */

static EVP_PKEY *read_key(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	/* An empty password: a key that needs one is not asked for it on the terminal. */
	EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, NULL, (void *)(uintptr_t) "") : NULL;

	BIO_free(b);
	if (key &&
	    (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA || EVP_PKEY_get_bits(key) < RSA_BITS_MIN ||
	     EVP_PKEY_get_bits(key) > RSA_BITS_MAX)) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	return key;
}

bool github_key_ok(const char *pem)
{
	EVP_PKEY *key = read_key(pem);

	EVP_PKEY_free(key);
	return key;
}

static int make_jwt(const struct github_who *who, int64_t ahead_s, char **ret, struct err *err)
{
	json_int_t now = clock_wall_ms() / 1000 + ahead_s;
	EVP_PKEY *key = read_key(who->private_key);
	int r;

	if (!key)
		return err_set(err, -EIO, "the private key of App %s is damaged: give it again",
		               who->app_id);
	r = jwt_sign(key, EVP_sha256(), json_pack("{s:s, s:s}", "alg", "RS256", "typ", "JWT"),
	             json_pack("{s:I, s:I, s:s}", "iat", now - JWT_BACK_S, "exp", now + JWT_LIFE_S,
	                       "iss", who->app_id),
	             ret, err);
	EVP_PKEY_free(key);
	return r;
}

/* ---- asking ---- */

struct asking {
	struct buf reply;
	bool too_long;
	int64_t date_s; /* 0: it did not say */
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

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
	struct asking *a = ctx;
	char text[64];

	if (size * n > 6 && size * n < sizeof(text) && strncasecmp(p, "Date:", 5) == 0) {
		snprintf(text, sizeof(text), "%.*s", (int)(size * n - 5), p + 5);
		text[strcspn(text, "\r\n")] = '\0';
		a->date_s = MAX((int64_t)curl_getdate(text, NULL), 0);
	}
	return size * n;
}

static struct curl_slist *headers_of(const struct github_call *q)
{
	static const char *const plain[] = { "Accept: application/vnd.github+json",
		                             "X-GitHub-Api-Version: 2022-11-28",
		                             "Expect:", "Content-Type: application/json" };
	struct curl_slist *list = NULL;
	autobuf struct buf b = { 0 };

	if (q->bearer) {
		buf_printf(&b, "Authorization: Bearer %s", q->bearer);
		buf_put_u8(&b, 0);
		list = b.failed ? NULL : curl_slist_append(NULL, (char *)b.p);
		if (b.p)
			OPENSSL_cleanse(b.p, b.len);
		if (!list)
			return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		/* What is not the API proper speaks its own JSON. */
		const char *line = i == 0 && !q->bearer ? "Accept: application/json" : plain[i];
		struct curl_slist *next = curl_slist_append(list, line);

		if (!next) {
			curl_slist_free_all(list);
			return NULL;
		}
		list = next;
	}
	return list;
}

static void prepare(CURL *curl, const struct github_call *q, struct curl_slist *headers,
                    struct outbound *o, struct asking *a)
{
	outbound_set(curl, q->url, o);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "pando-sync");
	if (q->body)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, q->body);
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, q->method);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, a);
}

int github_call(const struct github_net *net, const struct github_call *q, const char *what,
                json_t **ret, long *ret_status, int64_t *ret_ahead_s, struct err *err)
{
	struct outbound o = { .allow_private = net->allow_private, .ending = net->ending };
	struct curl_slist *headers = headers_of(q);
	struct asking a = { 0 };
	CURL *curl = curl_easy_init();
	CURLcode rc = CURLE_OUT_OF_MEMORY;
	int r = 0;

	*ret_status = 0;
	if (curl && headers) {
		prepare(curl, q, headers, &o, &a);
		rc = curl_easy_perform(curl);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, ret_status);
	}
	if (rc != CURLE_OK)
		r = err_set(err, -EIO, "%s: %s", what,
		            o.refused    ? "it has an internal address"
		            : a.too_long ? "its answer is too long"
		                         : curl_easy_strerror(rc));
	else
		*ret = json_loadb((char *)a.reply.p, a.reply.len, 0, NULL);
	if (ret_ahead_s)
		*ret_ahead_s = a.date_s ? a.date_s - clock_wall_ms() / 1000 : 0;
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	if (a.reply.p)
		OPENSSL_cleanse(a.reply.p, a.reply.cap);
	buf_done(&a.reply);
	return r;
}

int github_call_app(const struct github_net *net, const struct github_who *who, const char *method,
                    const char *path, const char *body, const char *what, json_t **ret,
                    long *ret_status, struct err *err)
{
	struct github_call q = { .method = method, .body = body };
	int64_t ahead = 0;
	char url[600];
	int r = 0;

	snprintf(url, sizeof(url), "%s%s", who->api_url, path);
	q.url = url;
	for (int i = 0; i < 2; i++) {
		autofree char *jwt = NULL;
		int64_t seen = 0;

		if ((r = make_jwt(who, ahead, &jwt, err)) < 0)
			return r;
		q.bearer = jwt;
		r = github_call(net, &q, what, ret, ret_status, &seen, err);
		OPENSSL_cleanse(jwt, strlen(jwt));
		if (r < 0 || *ret_status != 401 || llabs((long long)seen) < AHEAD_S || i == 1)
			break;
		log_warn("the clock of %s differs from ours by %lld s: its time is used to sign",
		         who->api_url, (long long)seen);
		json_decref(*ret);
		*ret = NULL;
		ahead = seen;
	}
	return r;
}
