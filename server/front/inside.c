/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inside.c - further names by which guests reach this server (PANDO_ALIAS_NAMES)
 *
 * For programs in guests that have another host's name built in. Such a name leads here for guests
 * alone: their name server says so, their connections are told apart from those of others, and its
 * certificate, signed by the local CA, is shown to them and nobody else.
 */
#include "front/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"

static bool own_label(const char *p, size_t n)
{
	static const char *const words[] = { "api", "git", "dashboard" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == n && memcmp(words[i], p, n) == 0)
			return true;
	return false;
}

bool inside_below(const char *base, const char *host)
{
	size_t n = strlen(host), b = strlen(base);

	return strcmp(host, base) == 0 ||
	       (n > b + 1 && host[n - b - 1] == '.' && strcmp(host + n - b, base) == 0);
}

static bool matches(const char *p, size_t n, const char *host)
{
	const char *dot = strchr(host, '.');

	if (n > 2 && strncmp(p, "*.", 2) == 0)
		return dot && dot != host && strlen(dot) == n - 1 && memcmp(dot, p + 1, n - 1) == 0;
	return strlen(host) == n && memcmp(host, p, n) == 0;
}

bool inside_match(const char *list, const char *base, const char *host, struct inside_alias *ret)
{
	size_t label = strcspn(host, ".");

	for (const char *p = list + strspn(list, " "); *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		if (!matches(p, n, host)) {
			p += n;
			continue;
		}
		snprintf(ret->cert, sizeof(ret->cert), "@%.*s", (int)n, p);
		if (*p == '*' || own_label(host, label))
			snprintf(ret->name, sizeof(ret->name), "%.*s.%s", (int)label, host, base);
		else
			snprintf(ret->name, sizeof(ret->name), "%s", base);
		return true;
	}
	return false;
}
