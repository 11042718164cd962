/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghapps_read.c - what comes from strangers and from GitHub: addresses, names, signatures, events
 *
 * Nothing here touches anything else: tests/fuzz/fuzz_github.c runs all of it.
 */
#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "git/ghapps_internal.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define PREFIX "sha256="
#define MD_SIZE ((size_t)32)

/* ---- addresses ---- */

int github_origin(const char *url, const char *name, char *ret, size_t size, struct err *err)
{
	const char *host = strstr(url, "://");
	size_t n;

	if (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0)
		return err_tag(err, -EINVAL, TAG, "'%s' must be an http or https URL", name);
	host += 3;
	n = (size_t)(host - url) + strcspn(host, "/?#");
	if (n >= size || host[strspn(host, "/?#")] == '\0' || n == (size_t)(host - url))
		return err_tag(err, -EINVAL, TAG, "'%s' must be an http or https URL with a host",
		               name);
	for (size_t i = 0; i < n; i++) {
		ret[i] = (char)tolower((unsigned char)url[i]);
		if (!isgraph((unsigned char)url[i]) || url[i] == '@')
			return err_tag(err, -EINVAL, TAG,
			               "'%s' must be a URL without user and password", name);
	}
	ret[n] = '\0';
	return 0;
}

int github_api_url(const char *server, const char *url, char *ret, size_t size, struct err *err)
{
	char origin[256];
	size_t k;

	if (!url) {
		/* github.com, or GitHub Enterprise Server. */
		if (strcmp(server, GITHUB) == 0)
			snprintf(ret, size, "%s", GITHUB_API);
		else
			snprintf(ret, size, "%.240s/api/v3", server);
		return 0;
	}
	k = strlen(url);
	if (k >= size || github_origin(url, "apiUrl", origin, sizeof(origin), err) < 0 ||
	    url[strcspn(url, " ?#@")])
		return err_tag(err, -EINVAL, TAG,
		               "'apiUrl' must be an http or https URL without a query");
	snprintf(ret, size, "%.*s", (int)(k && url[k - 1] == '/' ? k - 1 : k), url);
	return 0;
}

/* ---- names ---- */

bool ghapps_number_ok(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return n && n < CREDENTIAL_INSTALLATION_SIZE && strspn(s, "0123456789") == n;
}

bool ghapps_repo_name_ok(const char *name)
{
	static const char allowed[] =
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t owner = strspn(name, allowed),
	       repo = name[owner] ? strspn(name + owner + 1, allowed) : 0;

	return owner && repo && name[owner] == '/' && !name[owner + 1 + repo] && owner <= 100 &&
	       repo <= 100 && strcmp(name + owner + 1, ".") != 0 &&
	       strcmp(name + owner + 1, "..") != 0;
}

int ghapps_repo_of(const char *server, const char *url, char ret[GITHUB_REPO_SIZE])
{
	char origin[CREDENTIAL_URL_SIZE];
	struct err err = { 0 };
	const char *p;
	size_t n;

	if (github_origin(url, "url", origin, sizeof(origin), &err) < 0 ||
	    strcmp(origin, server) != 0)
		return -ENOENT;
	p = url + strlen(origin);
	p += *p == '/';
	n = strlen(p);
	while (n && p[n - 1] == '/')
		n--;
	if (n > 4 && strncmp(p + n - 4, ".git", 4) == 0)
		n -= 4;
	if (n == 0 || n >= GITHUB_REPO_SIZE)
		return -ENOENT;
	snprintf(ret, GITHUB_REPO_SIZE, "%.*s", (int)n, p);
	return ghapps_repo_name_ok(ret) ? 0 : -ENOENT;
}

/* ---- webhooks ---- */

bool ghapps_signed(const char *secret, const char *header, const void *body, size_t n)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	char want[2 * MD_SIZE + 1], got[2 * MD_SIZE + 1] = "";
	unsigned len = 0;
	bool form = header && strncmp(header, PREFIX, strlen(PREFIX)) == 0 &&
	            strlen(header) == strlen(PREFIX) + 2 * MD_SIZE;

	if (!*secret || !form ||
	    !HMAC(EVP_sha256(), secret, (int)strlen(secret), body, n, md, &len) || len != MD_SIZE)
		return false;
	hex_encode(md, MD_SIZE, want);
	snprintf(got, sizeof(got), "%s", header + strlen(PREFIX));
	return CRYPTO_memcmp(want, got, 2 * MD_SIZE) == 0;
}

/* A number of JSON as text. */
static bool put_number(const json_t *v, char *dst, size_t size)
{
	json_int_t n = json_integer_value(v);

	if (n <= 0)
		return false;
	snprintf(dst, size, "%lld", (long long)n);
	return true;
}

int ghapps_event_read(const char *event, const json_t *body, struct ghapps_event *ret,
                      struct err *err)
{
	const char *name = json_string_value(
	        json_object_get(json_object_get(body, "repository"), "full_name"));
	bool refs = strcmp(event, "push") == 0 || strcmp(event, "create") == 0 ||
	            strcmp(event, "delete") == 0;

	memset(ret, 0, sizeof(*ret));
	if (!refs && strncmp(event, "installation", strlen("installation")) != 0)
		return 0;
	if (!put_number(json_object_get(json_object_get(body, "installation"), "id"), ret->number,
	                sizeof(ret->number)))
		return err_tag(err, -EINVAL, TAG, "the event '%.40s' names no installation", event);
	if (refs && (!name || strlen(name) >= sizeof(ret->repo) || !ghapps_repo_name_ok(name)))
		return err_tag(err, -EINVAL, TAG, "the event '%.40s' names no repository", event);
	if (refs)
		snprintf(ret->repo, sizeof(ret->repo), "%s", name);
	ret->kind = refs ? GHAPPS_REFS : GHAPPS_INSTALLATION;
	return 0;
}
