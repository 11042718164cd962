/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - what the lists of routes say about them, and the types they name, as tables */
#include <stdbool.h>
#include <string.h>

#include "api/handlers.h"
#include "base/err.h"
#include "base/json_field.h"

#include "api/doc/openapi.h"
#include "base/auto.h"

#define TYPE(name, text)
#define TABLE(name) extern const struct json_table json_table_##name;
#include "api/doc/types.def"
#undef TYPE
#undef TABLE

const struct doc_type doc_types[] = {
#define TYPE(name, text) { #name, text, NULL },
#define TABLE(name) { #name, NULL, &json_table_##name },
#include "api/doc/types.def"
#undef TYPE
#undef TABLE
};
const size_t doc_n_types = ARRAY_SIZE(doc_types);

#define ROUTE(method, pattern, scope, body, handler, flags, help) { DOC_ROUTE, #handler },
#define ROUTE_INTAKE(method, pattern, scope, handler, takes, help) { DOC_ROUTE, #handler },
#define DOC(kind, text) { DOC_##kind, text },

const struct doc_line doc_lines[] = {
#include "api/lists.h"
};
const size_t doc_n_lines = ARRAY_SIZE(doc_lines);

/* The n-th DOC_ROUTE is api_routes[n]: both come from the same lists in the same order. */
static const struct doc_line *lines_at(size_t i, size_t *ret_n)
{
	size_t at = 0, n = 1;

	for (; doc_lines[at].kind != DOC_ROUTE || i-- > 0; at++)
		;
	while (at + n < doc_n_lines && doc_lines[at + n].kind != DOC_ROUTE &&
	       doc_lines[at + n].kind != DOC_SECTION)
		n++;
	*ret_n = n;
	return &doc_lines[at];
}

/* The HTTP server has copies of the routes, with the same patterns. */
static size_t index_of(const struct route *route)
{
	size_t i = 0;

	while (i < api_n_routes && (api_routes[i].method != route->method ||
	                            strcmp(api_routes[i].pattern, route->pattern) != 0))
		i++;
	return i;
}

const struct doc_line *doc_of_route(const struct route *route, size_t *ret_n)
{
	size_t i = index_of(route);
	const struct doc_line *l;

	*ret_n = 0;
	if (i == api_n_routes)
		return NULL;
	l = lines_at(i, ret_n);
	for (size_t k = 0; *ret_n == 1 && k < api_n_routes; k++)
		if (api_routes[k].handler == api_routes[i].handler)
			l = lines_at(k, ret_n);
	return l;
}

const char *doc_section(const struct route *route)
{
	size_t n, i = index_of(route);
	const struct doc_line *l = i < api_n_routes ? lines_at(i, &n) : NULL;

	if (!l)
		return NULL;
	while (l > doc_lines && l->kind != DOC_SECTION)
		l--;
	return l->kind == DOC_SECTION ? l->text : "Other";
}
