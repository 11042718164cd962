/* SPDX-License-Identifier: Apache-2.0 */
/* conf_check.c - what the value of a setting may be, and how the refusal puts it */
#include "conf_internal.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sock.h"

int check_path(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "an absolute path of at most %zu bytes", s->size - 1);
	return v[0] == '/' ? 0 : -EINVAL;
}

int check_opt_path(const struct setting *s, const char *v, char *allowed, size_t size)
{
	return v[0] ? check_path(s, v, allowed, size) : 0;
}

int check_listen(const struct setting *s, const char *v, char *allowed, size_t size)
{
	struct sockaddr_storage sa;
	socklen_t len;

	snprintf(allowed, size, "a numeric address and a port, like 127.0.0.1:8787 or [::1]:8787");
	return sock_parse(v, &sa, &len, NULL) < 0 ? -EINVAL : 0;
}

int check_listen_or_none(const struct setting *s, const char *v, char *allowed, size_t size)
{
	int r = check_listen(s, v, allowed, size);

	if (strcmp(v, "none") == 0)
		return 0;
	snprintf(allowed, size, "a numeric address and a port, like 127.0.0.1:2222, or none");
	return r;
}

int check_url(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "an https:// URL, or nothing");
	return !v[0] || strncmp(v, "https://", 8) == 0 ? 0 : -EINVAL;
}

int check_server(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t n = strlen(v);

	snprintf(allowed, size, "an https:// or http:// URL without a slash at its end");
	return (strncmp(v, "https://", 8) == 0 || strncmp(v, "http://", 7) == 0) && n < s->size &&
	                       v[n - 1] != '/' && !strchr(v, '@') && !strchr(v, ' ')
	               ? 0
	               : -EINVAL;
}

int check_email(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "an e-mail address, or nothing");
	return !v[0] || (v[0] != '-' && strchr(v, '@') && !strchr(v, ' ')) ? 0 : -EINVAL;
}

int check_addr(const struct setting *s, const char *v, char *allowed, size_t size)
{
	struct in6_addr a;

	snprintf(allowed, size, "a numeric address, like 192.0.2.53, or nothing");
	return !v[0] || inet_pton(AF_INET, v, &a) == 1 || inet_pton(AF_INET6, v, &a) == 1 ? 0
	                                                                                  : -EINVAL;
}

int check_opt_host(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t n = strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");

	snprintf(allowed, size, "empty, a host name or an IPv4 address");
	return v[n] ? -EINVAL : 0;
}

int check_domain(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t label = 0;

	snprintf(allowed, size, "a domain name in lower case, like pando.example.org");
	for (const char *p = v;; p++) {
		if (*p == '.' || *p == '\0') {
			if (label == 0 || label > 63 || p[-1] == '-')
				return -EINVAL;
			label = 0;
			if (!*p)
				return 0;
		} else if (islower((unsigned char)*p) || isdigit((unsigned char)*p) ||
		           (*p == '-' && label > 0)) {
			label++;
		} else {
			return -EINVAL;
		}
	}
}

int check_word(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t n = strlen(v);
	const char *p = s->words;

	snprintf(allowed, size, "one of: %s", s->words);
	while (n && (p = strstr(p, v))) {
		if ((p == s->words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return 0;
		p += n;
	}
	return -EINVAL;
}

int parse_u32(const char *v, uint32_t *ret)
{
	char *end;
	unsigned long long n;

	if (!isdigit((unsigned char)v[0]))
		return -EINVAL;
	errno = 0;
	n = strtoull(v, &end, 10);
	if (errno || *end || n > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)n;
	return 0;
}

int check_u32(const struct setting *s, const char *v, char *allowed, size_t size)
{
	uint32_t n;

	snprintf(allowed, size, "a number from %" PRIu32 " to %" PRIu32, s->min, s->max);
	return parse_u32(v, &n) < 0 || n < s->min || n > s->max ? -EINVAL : 0;
}

int check_pow2(const struct setting *s, const char *v, char *allowed, size_t size)
{
	uint32_t n;

	snprintf(allowed, size, "a power of two from %" PRIu32 " to %" PRIu32, s->min, s->max);
	return parse_u32(v, &n) < 0 || n < s->min || n > s->max || (n & (n - 1)) ? -EINVAL : 0;
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

/* start:rate:full, as OpenSSH's MaxStartups */
int check_strangers(const struct setting *s, const char *v, char *allowed, size_t size)
{
	unsigned start = 0, rate = 0, full = 0;
	int end = 0;

	snprintf(allowed, size, "start:rate:full, like 64:30:128; full from 2 to 4096");
	return sscanf(v, "%4u:%3u:%4u%n", &start, &rate, &full, &end) == 3 && !v[end] &&
	                       rate <= 100 && start <= full && full >= 2 && full <= 4096
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
