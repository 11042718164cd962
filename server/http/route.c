/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.c - from a raw path to a route
 *
 * The path is split at its raw slashes and matched as received; only then is
 * each parameter decoded, so an encoded slash stays inside its segment (file paths
 * arrive as %2Ftmp%2Fa). If two patterns match, the one with a literal where the
 * other has a parameter wins, at the first place where they differ. The path decides
 * first, the method second: a literal path never falls back to a parameter
 * because of its method. A parameter "{*name}", the last of its pattern, takes all the segments
 * that are left: names with slashes arrive encoded or not.
 */
#include "http/route.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

static const char *const method_names[] = {
	[METHOD_GET] = "GET",     [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",
	[METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
};
_Static_assert(ARRAY_SIZE(method_names) == METHOD_MAX, "a method is missing in method_names");

const char *method_name(enum method m)
{
	return method_names[m];
}

int method_parse(const char *name)
{
	if (strcmp(name, "HEAD") == 0)
		return METHOD_GET;
	for (int i = 0; i < METHOD_MAX; i++)
		if (strcmp(name, method_names[i]) == 0)
			return i;
	return -EINVAL;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int percent_decode(char *s, bool plus)
{
	char *d = s;

	for (; *s; s++) {
		if (*s == '%') {
			int hi = hex_digit(s[1]);
			int lo = hi < 0 ? -1 : hex_digit(s[2]);

			if (lo < 0 || (hi == 0 && lo == 0))
				return -EINVAL;
			*d++ = (char)(hi << 4 | lo);
			s += 2;
		} else {
			*d++ = (char)(plus && *s == '+' ? ' ' : *s);
		}
	}
	*d = '\0';
	return 0;
}

/* One segment: from after a slash to the next slash or the end. */
struct segment {
	const char *p;
	size_t n;
};

static bool next_segment(const char **at, struct segment *ret)
{
	const char *p = *at;

	if (*p != '/')
		return false;
	p++;
	ret->p = p;
	ret->n = strcspn(p, "/");
	*at = p + ret->n;
	return true;
}

/* Matches; parameters go to args (may be NULL). A parameter matches any segment except an empty
 * one. */
static bool pattern_matches(const char *pattern, const char *path, struct segment *args, size_t *n)
{
	struct segment a, b;

	*n = 0;
	while (*pattern || *path) {
		if (!next_segment(&pattern, &a) || !next_segment(&path, &b))
			return false;
		if (a.n > 1 && a.p[0] == '{' && a.p[1] == '*') { /* the last one: takes the rest */
			b.n = strlen(b.p);
			path = b.p + b.n;
		}
		if (a.n && a.p[0] == '{') {
			if (b.n == 0 || *n == ROUTE_ARGS_MAX)
				return false;
			args[(*n)++] = b;
		} else if (a.n != b.n || memcmp(a.p, b.p, a.n) != 0) {
			return false;
		}
	}
	return true;
}

/* Most patterns differ before their first parameter, which can be seen without splitting segments.
 */
static bool begins_otherwise(const char *pattern, const char *path)
{
	for (; *pattern && *pattern != '{'; pattern++, path++)
		if (*pattern != *path)
			return true;
	return false;
}

/* Both match the same path. Is a the more literal one? */
static bool more_literal(const char *a, const char *b)
{
	struct segment sa, sb;

	while (next_segment(&a, &sa) && next_segment(&b, &sb)) {
		bool pa = sa.n && sa.p[0] == '{', pb = sb.n && sb.p[0] == '{';

		if (pa != pb)
			return pb;
	}
	return false;
}

int route_find(const struct route *routes, size_t n, enum method m, const char *raw_path,
               struct route_match *ret)
{
	struct segment args[ROUTE_ARGS_MAX];
	const char *best = NULL;
	char *text = ret->text;
	size_t n_args;

	ret->route = NULL;
	ret->allow = 0;
	ret->n_args = 0;
	if (strlen(raw_path) >= ROUTE_PATH_MAX)
		return -ENAMETOOLONG;
	for (size_t i = 0; i < n; i++)
		if (!begins_otherwise(routes[i].pattern, raw_path) &&
		    pattern_matches(routes[i].pattern, raw_path, args, &n_args) &&
		    (!best || more_literal(routes[i].pattern, best)))
			best = routes[i].pattern;
	if (!best)
		return -ENOENT;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(routes[i].pattern, best) != 0)
			continue;
		ret->allow |= BIT(routes[i].method);
		if (routes[i].method == m)
			ret->route = &routes[i];
	}
	if (!ret->route)
		return -EOPNOTSUPP;
	pattern_matches(best, raw_path, args, &n_args);
	for (size_t i = 0; i < n_args; i++) {
		memcpy(text, args[i].p, args[i].n);
		text[args[i].n] = '\0';
		if (percent_decode(text, /* plus= */ false) < 0)
			return -EINVAL;
		ret->arg[i] = text;
		text += strlen(text) + 1;
	}
	ret->n_args = n_args;
	return 0;
}
