/* SPDX-License-Identifier: Apache-2.0 */
/* conf_check.c - checks of settings that are longer than a line of conf.c's list is worth */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/sock.h"
#include "conf_internal.h"

/* The rest is libpq's to read. */
int check_database(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "a URL like postgresql://user:password@host/database, or nothing");
	return !*v || ((strncmp(v, "postgresql://", 13) == 0 ||
	                strncmp(v, "postgres://", 11) == 0) &&
	               strlen(v) < s->size)
	               ? 0
	               : -EINVAL;
}

/* The rest is objects/url.c's to read. */
int check_objects(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "like s3://bucket?endpoint=https://s3.example.org, or nothing");
	return !*v || (strncmp(v, "s3://", 5) == 0 && strstr(v, "?") && strlen(v) < s->size)
	               ? 0
	               : -EINVAL;
}

/* Addresses or networks, separated by spaces. */
int check_nets(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "at most 16 addresses or networks, like 192.0.2.7 10.0.0.0/8");
	for (const char *p = v + strspn(v, " "); *p; p += strspn(p, " ")) {
		char text[64], *slash, *end = NULL;
		size_t n = strcspn(p, " ");
		unsigned long bits = 0;
		struct in6_addr a;
		bool v4;

		if (n >= sizeof(text))
			return -EINVAL;
		snprintf(text, sizeof(text), "%.*s", (int)n, p);
		slash = strchr(text, '/');
		if (slash) {
			*slash++ = '\0';
			bits = strtoul(slash, &end, 10);
		}
		v4 = inet_pton(AF_INET, text, &a) == 1;
		if ((!v4 && inet_pton(AF_INET6, text, &a) != 1) || bits > (v4 ? 32 : 128) ||
		    (slash && (!isdigit((unsigned char)*slash) || *end)))
			return -EINVAL;
		p += n;
	}
	return 0;
}

int check_origins(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "*, none, or origins like https://app.example.org");
	if (strcmp(v, "*") == 0 || strcmp(v, "none") == 0)
		return 0;
	for (const char *p = v + strspn(v, " "); *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " "), scheme = strncmp(p, "https://", 8) == 0  ? 8
		                                     : strncmp(p, "http://", 7) == 0 ? 7
		                                                                     : 0;

		if (!scheme || n <= scheme || memchr(p + scheme, '/', n - scheme) ||
		    memchr(p, '*', n))
			return -EINVAL;
		p += n;
	}
	return v[strspn(v, " ")] ? 0 : -EINVAL;
}

/* What is written into no other place: anything printable that fits. */
int check_text(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "at most %zu printable characters", s->size - 1);
	for (const char *p = v; *p; p++)
		if (*p <= ' ' || *p > '~')
			return -EINVAL;
	return strlen(v) < s->size ? 0 : -EINVAL;
}

/* What goes into URLs, and through files and scripts of guests unchanged. */
#define URL_CHARS                                                        \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" \
	"-._~:/?[]!&()*+,;=%"

static bool is_url(const char *v, size_t n, const char *scheme)
{
	size_t k = strlen(scheme);

	return n > k && strncmp(v, scheme, k) == 0 && isalnum((unsigned char)v[k]) &&
	       strspn(v, URL_CHARS) >= n;
}

int conf_check_proxy(const struct setting *s, const char *v, char *allowed, size_t size)
{
	const char *at = strrchr(v, '@');
	size_t n = at ? strspn(v, URL_CHARS) : 0;

	snprintf(allowed, size, "http://host:port or http://user:password@host:port, or nothing");
	if (at) /* neither part may have another */
		return v + n == at && !strncmp(v, "http://", 7) && isalnum((unsigned char)at[1]) &&
		                       at[1 + strspn(at + 1, URL_CHARS)] == '\0'
		               ? 0
		               : -EINVAL;
	return !*v || is_url(v, strlen(v), "http://") ? 0 : -EINVAL;
}

/* One URL, or min to max of them. */
int conf_check_mirrors(const struct setting *s, const char *v, char *allowed, size_t size)
{
	uint32_t found = 0;

	snprintf(allowed, size, "%s http:// or https:// URL without a password, or nothing",
	         s->max == 1 ? "one" : "one or two, with a space between them:");
	for (const char *p = v + strspn(v, " "); *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		if (++found > s->max || (!is_url(p, n, "http://") && !is_url(p, n, "https://")))
			return -EINVAL;
		p += n;
	}
	return 0;
}

int conf_check_node_address(const struct setting *s, const char *v, char *allowed, size_t size)
{
	struct sockaddr_storage sa;
	socklen_t len;

	snprintf(allowed, size,
	         "a numeric address and a port that other machines reach, like 192.0.2.7:8790, or "
	         "nothing");
	if (!*v)
		return 0;
	return sock_parse(v, &sa, &len, NULL) < 0 || strncmp(v, "0.0.0.0:", 8) == 0 ||
	                       strncmp(v, "[::]:", 5) == 0 ||
	                       strcmp(strrchr(v, ':') ? strrchr(v, ':') : "", ":0") == 0
	               ? -EINVAL
	               : 0;
}

int conf_check_node_name(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "1 to %zu letters, digits, '-' and '.', or nothing", s->size - 1);
	return strlen(v) < s->size && strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
	                                        "XYZ0123456789-.") == strlen(v)
	               ? 0
	               : -EINVAL;
}
