/* SPDX-License-Identifier: Apache-2.0 */
/* api/doc/openapi.h - the description of the API, from its table of routes: GET /openapi.json */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct json_table;
struct route;

/* A DOC line of routes.h says something about the route before it. Its text is a type as in
 * schema.h, unless another meaning is given here. */
enum doc_kind {
	DOC_ROUTE,     /* not written: where a route begins */
	DOC_SECTION,   /* heading of the routes that follow; NULL: for browsers, and left out */
	DOC_ID,        /* a name of its own, where two routes have one handler */
	DOC_NOTE,      /* sentences */
	DOC_QUERY,     /* members */
	DOC_HEADER,    /* members: headers that it reads */
	DOC_BODY,      /* JSON; a table of fields is named after JSON_TABLE() */
	DOC_BODY_TYPE, /* a body that is not JSON: its media type */
	DOC_REPLY,     /* JSON, with 200 */
	DOC_REPLY_202, /* JSON, with 202 */
	DOC_SENDS,     /* a reply that is not JSON, with 200: its media type */
	DOC_SOCKET,    /* a WebSocket: sentences */
	DOC_FAILS,     /* names of errors, beside those that follow from scope and path */
};
struct doc_line {
	enum doc_kind kind;
	const char *text;
};
extern const struct doc_line doc_lines[]; /* lines.c */
extern const size_t doc_n_lines;

/*
 * The lines of a route of api_routes[], or those of the first one with the same handler if it has
 * none of its own; *ret_n is 0 if it is not in the table. The first one is a DOC_ROUTE.
 */
const struct doc_line *doc_of_route(const struct route *route, size_t *ret_n);
const char *doc_section(const struct route *route); /* NULL: it is not described */

struct doc_type {
	const char *name, *text;        /* text: as in schema.h */
	const struct json_table *table; /* or a table of fields */
};
extern const struct doc_type doc_types[]; /* lines.c, from types.def */
extern const size_t doc_n_types;

/*
 * The whole document. -EINVAL if a route lacks a line, or one is wrong: the message says what to
 * add where.
 */
int openapi_build(json_t **ret, struct err *err);
/* Is the error one that the route's description has, or that any route may have? */
bool openapi_may_fail(const struct route *route, enum err_code code);
