/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_auth.c - user and password of an address, kept off command lines
 *
 * What is on a command line everyone on the host can read; what is in the environment only the user
 * itself. So git gets the address without them, and a header that holds for that server only: a
 * redirect to another one does not carry it.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/import.h"

static int hex(char c)
{
	const char *digits = "0123456789abcdef", *p = c ? strchr(digits, c | 0x20) : NULL;

	return p ? (int)(p - digits) : -1;
}

/* %41 is A, in the two parts of an address before the @. */
static size_t decode(const char *p, size_t n, char *dst, size_t size)
{
	size_t k = 0;

	for (size_t i = 0; i < n && k + 1 < size; i++) {
		if (p[i] == '%' && i + 2 < n && hex(p[i + 1]) >= 0 && hex(p[i + 2]) >= 0) {
			dst[k++] = (char)(hex(p[i + 1]) << 4 | hex(p[i + 2]));
			i += 2;
		} else {
			dst[k++] = p[i];
		}
	}
	dst[k] = '\0';
	return k;
}

void source_auth(const char *url, struct source_auth *ret)
{
	const char *host = strstr(url, "://") + 3, *slash = host + strcspn(host, "/?#"), *at = NULL;
	char who[SOURCE_URL_MAX + 2];
	unsigned char text[4 * (SOURCE_URL_MAX / 3 + 2)];
	size_t n;

	*ret = (struct source_auth){ 0 };
	source_hide(url, ret->url, sizeof(ret->url));
	for (const char *p = host; p < slash; p++)
		if (*p == '@')
			at = p;
	if (!at)
		return;
	n = decode(host, (size_t)(at - host), who, sizeof(who) - 1);
	if (!memchr(host, ':', (size_t)(at - host)))
		who[n++] = ':';
	EVP_EncodeBlock(text, (unsigned char *)who, (int)n);
	snprintf(ret->key, sizeof(ret->key), "GIT_CONFIG_KEY_0=http.%.*s%.*s/.extraHeader",
	         (int)(host - url), url, (int)(slash - at - 1), at + 1);
	snprintf(ret->value, sizeof(ret->value), "GIT_CONFIG_VALUE_0=Authorization: Basic %s",
	         text);
	OPENSSL_cleanse(who, sizeof(who));
	OPENSSL_cleanse(text, sizeof(text));
	ret->env[0] = "GIT_CONFIG_COUNT=1";
	ret->env[1] = ret->key;
	ret->env[2] = ret->value;
}

void source_auth_done(struct source_auth *a)
{
	OPENSSL_cleanse(a, sizeof(*a));
}
