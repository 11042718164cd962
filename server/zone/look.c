/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - lookups in a zone: records, wildcards, delegations */
#include <stdio.h>
#include <string.h>

#include "zone/zone_internal.h"

/* The name one label up; "@" above the last one. */
static const char *above(const char *rel)
{
	const char *dot = strchr(rel, '.');

	return dot ? dot + 1 : "@";
}

static bool apex(const char *rel)
{
	return strcmp(rel, "@") == 0;
}

struct zone_node zone_at(const struct zone *z, const char *rel)
{
	struct zone_node node = { 0 };
	size_t lo = 0, hi = z->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(z->records[mid].name, rel) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	node.first = z->records + lo;
	while (lo + node.n < z->n && strcmp(z->records[lo + node.n].name, rel) == 0)
		node.n++;
	return node;
}

bool zone_exists(const struct zone *z, const char *rel)
{
	size_t len = strlen(rel);

	if (apex(rel) || zone_at(z, rel).n)
		return true;
	for (size_t i = 0; i < z->n; i++) {
		size_t n = strlen(z->records[i].name);

		if (n > len && z->records[i].name[n - len - 1] == '.' &&
		    strcmp(z->records[i].name + n - len, rel) == 0)
			return true;
	}
	return false;
}

struct zone_node zone_for(const struct zone *z, const char *rel)
{
	struct zone_node node = zone_at(z, rel);
	char star[DOMAIN_SIZE + 2];
	const char *up = rel;

	if (node.n || zone_exists(z, rel))
		return node;
	do
		up = above(up);
	while (!zone_exists(z, up));
	if (apex(up))
		snprintf(star, sizeof(star), "*");
	else
		snprintf(star, sizeof(star), "*.%s", up);
	return zone_at(z, star);
}

const char *zone_cut(const struct zone *z, const char *rel)
{
	const char *cut = NULL;

	for (const char *p = rel; !apex(p); p = above(p)) {
		struct zone_node node = zone_at(z, p);

		for (size_t i = 0; i < node.n; i++)
			if (node.first[i].kind == RECORD_NS)
				cut = p; /* the one nearest to the zone's top decides */
	}
	return cut;
}

const char *zone_relative(const struct zone *z, const char *name, char buf[DOMAIN_SIZE])
{
	size_t n = strlen(name), d = strlen(z->name);

	if (strcmp(name, z->name) == 0)
		return "@";
	if (n <= d + 1 || n >= DOMAIN_SIZE || name[n - d - 1] != '.' ||
	    strcmp(name + n - d, z->name) != 0)
		return NULL;
	memcpy(buf, name, n - d - 1);
	buf[n - d - 1] = '\0';
	return buf;
}
