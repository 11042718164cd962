/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.c - holds every call of a test's API against openapi.json; linked into all of them
 *
 * The linker redirects api_handle() and the functions that read a query to the checks below, so
 * whatever a test calls is checked without its help: the query parameters and members of a body
 * that the handler looks for must be described, a reply must have the described form (and no member
 * beyond it), an error one of the described codes. The first thing that is wrong ends the program
 * with a message that says which line to change; with PANDO_CONTRACT_GO_ON=1 all of them are
 * listed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/doc/openapi.h"
#include "api/doc/schema.h"
#include "base/auto.h"
#include "base/lock.h"

#define DEPTH_MAX 32

int __real_api_handle(struct request *req, struct reply *res, struct err *err);
int __wrap_api_handle(struct request *req, struct reply *res, struct err *err);
int __real_request_query(struct request *req, const char *name, char **ret, struct err *err);
int __wrap_request_query(struct request *req, const char *name, char **ret, struct err *err);
int __real_request_query_u32(struct request *req, const char *name, uint32_t max, uint32_t *ret,
                             struct err *err);
int __wrap_request_query_u32(struct request *req, const char *name, uint32_t max, uint32_t *ret,
                             struct err *err);
int __real_request_query_bool(struct request *req, const char *name, bool *ret, struct err *err);
int __wrap_request_query_bool(struct request *req, const char *name, bool *ret, struct err *err);
int __real_request_page(struct request *req, size_t n, size_t *ret_first, size_t *ret_end,
                        uint32_t *ret_offset, struct err *err);
int __wrap_request_page(struct request *req, size_t n, size_t *ret_first, size_t *ret_end,
                        uint32_t *ret_offset, struct err *err);
void __real_json_seen_unknown(const struct json_seen *s, const json_t *root, json_unknown_fn fn,
                              void *ctx);
void __wrap_json_seen_unknown(const struct json_seen *s, const json_t *root, json_unknown_fn fn,
                              void *ctx);

static __thread struct request *current; /* whose handler this thread runs */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static json_t *document; /* written once, under `once`; never freed */

__attribute__((format(printf, 2, 3))) static void broken(const struct route *route, const char *fmt,
                                                         ...)
{
	va_list ap;

	fprintf(stderr, "openapi.json: %s %s: ", method_name(route->method), route->pattern);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	if (!getenv("PANDO_CONTRACT_GO_ON"))
		abort();
}

static void build(void)
{
	struct err err = { 0 };

	if (openapi_build(&document, &err) < 0) {
		fprintf(stderr, "openapi.json: %s\n", err.msg);
		abort();
	}
}

static json_t *schemas(void)
{
	pthread_once(&once, build);
	return json_object_get(json_object_get(document, "components"), "schemas");
}

/* ---- what is read ---- */

struct wanted {
	const char *name;
	bool found;
};

static int is_wanted(void *ctx, const char *name, bool required, json_t *type, struct err *err)
{
	struct wanted *w = ctx;

	w->found |= strcmp(w->name, name) == 0;
	return 0;
}

/* Its lines; none if it is left out of the document. */
static const struct doc_line *described(const struct route *route, size_t *ret_n)
{
	const struct doc_line *l = doc_of_route(route, ret_n);

	if (!doc_section(route))
		*ret_n = 0;
	return l;
}

static void check_query(const struct request *req, const char *name)
{
	struct wanted w = { .name = name };
	struct err err = { 0 };
	size_t n;
	const struct doc_line *l = described(req->match.route, &n);

	for (size_t i = 0; i < n; i++)
		if (l[i].kind == DOC_QUERY)
			schema_members(l[i].text, is_wanted, &w, &err);
	if (n && !w.found)
		broken(req->match.route,
		       "reads the query parameter '%s': add DOC(QUERY, \"%s?: string\") below its "
		       "line "
		       "in routes.h, or to the one that is there",
		       name, name);
}

/* Has the type, or a part of it, the member? */
static bool has_member(const json_t *type, const char *name, unsigned depth)
{
	static const char *const lists[] = { "allOf", "anyOf" };
	const char *ref = json_string_value(json_object_get(type, "$ref"));
	json_t *one;
	size_t i;

	if (depth > DEPTH_MAX)
		return false;
	if (ref)
		return has_member(json_object_get(schemas(), ref + strlen(SCHEMA_REF)), name,
		                  depth + 1);
	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		json_array_foreach(json_object_get(type, lists[k]), i, one)
		{
			if (has_member(one, name, depth + 1))
				return true;
		}
	return json_object_get(json_object_get(type, "properties"), name) ||
	       json_object_get(type, "additionalProperties");
}

void __wrap_json_seen_unknown(const struct json_seen *s, const json_t *root, json_unknown_fn fn,
                              void *ctx)
{
	/* of a VM, or of old SDKs: read so that they are refused with a sentence */
	static const char *const refused[] = { "udpHolePunchPorts", "dockerCredentials", "nics",
		                               "domains", "recreate" };
	const struct route *route = current ? current->match.route : api_routes;
	size_t n;
	const struct doc_line *l = described(route, &n);
	autojson json_t *type = NULL;
	struct err err = { 0 };

	if (!current)
		n = 0; /* a test of the table itself */
	for (size_t i = 0; i < n; i++)
		if (l[i].kind == DOC_BODY)
			schema_parse(l[i].text, &type, &err);
	for (size_t i = 0; n && i < s->n_names; i++) {
		bool known = s->names[i].object != root;

		for (size_t k = 0; !known && k < ARRAY_SIZE(refused); k++)
			known = strcmp(refused[k], s->names[i].name) == 0;
		if (!known && !(type && has_member(type, s->names[i].name, 0)))
			broken(route,
			       "reads '%s' of its body: name the table in DOC(BODY, ...) below its "
			       "line in routes.h",
			       s->names[i].name);
	}
	__real_json_seen_unknown(s, root, fn, ctx);
}

int __wrap_request_query(struct request *req, const char *name, char **ret, struct err *err)
{
	check_query(req, name);
	return __real_request_query(req, name, ret, err);
}

int __wrap_request_query_u32(struct request *req, const char *name, uint32_t max, uint32_t *ret,
                             struct err *err)
{
	check_query(req, name);
	return __real_request_query_u32(req, name, max, ret, err);
}

int __wrap_request_query_bool(struct request *req, const char *name, bool *ret, struct err *err)
{
	check_query(req, name);
	return __real_request_query_bool(req, name, ret, err);
}

int __wrap_request_page(struct request *req, size_t n, size_t *ret_first, size_t *ret_end,
                        uint32_t *ret_offset, struct err *err)
{
	check_query(req, "limit");
	check_query(req, "offset");
	return __real_request_page(req, n, ret_first, ret_end, ret_offset, err);
}

/* ---- what is answered ---- */

struct place {
	char path[256]; /* for the message */
	char why[256];
};

static bool fits(const json_t *type, const json_t *v, bool whole, struct place *at, unsigned depth);

static bool is_of(const char *name, const json_t *v)
{
	return strcmp(name, "string") == 0    ? json_is_string(v)
	       : strcmp(name, "integer") == 0 ? json_is_integer(v)
	       : strcmp(name, "number") == 0  ? json_is_number(v)
	       : strcmp(name, "boolean") == 0 ? json_is_boolean(v)
	       : strcmp(name, "null") == 0    ? json_is_null(v)
	       : strcmp(name, "array") == 0   ? json_is_array(v)
	                                      : json_is_object(v);
}

static bool type_fits(const json_t *type, const json_t *v)
{
	json_t *t = json_object_get(type, "type"), *one;
	size_t i;

	if (!t)
		return true;
	if (json_is_string(t))
		return is_of(json_string_value(t), v);
	json_array_foreach(t, i, one)
	{
		if (is_of(json_string_value(one), v))
			return true;
	}
	return false;
}

__attribute__((format(printf, 2, 3))) static bool no(struct place *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!*at->why)
		vsnprintf(at->why, sizeof(at->why), fmt, ap);
	va_end(ap);
	return false;
}

static bool member_fits(const json_t *type, const char *name, const json_t *v, struct place *at,
                        unsigned depth)
{
	size_t n = strlen(at->path);
	bool ok;

	snprintf(at->path + n, sizeof(at->path) - n, ".%s", name);
	ok = fits(type, v, true, at, depth + 1);
	if (ok)
		at->path[n] = '\0';
	return ok;
}

static bool object_fits(const json_t *type, const json_t *v, struct place *at, unsigned depth)
{
	json_t *props = json_object_get(type, "properties"), *one;
	json_t *more = json_object_get(type, "additionalProperties");
	const char *name;
	size_t i;

	json_array_foreach(json_object_get(type, "required"), i, one)
	{
		if (!json_object_get(v, json_string_value(one)))
			return no(at, "'%s' is missing", json_string_value(one));
	}
	json_object_foreach((json_t *)v, name, one)
	{
		json_t *t = json_object_get(props, name);

		t = t ? t : more;
		if (t && !member_fits(t, name, one, at, depth))
			return false;
	}
	return true;
}

/* Members that no part of the type knows. whole: the type is not a part of an allOf. */
static bool all_known(const json_t *type, const json_t *v, struct place *at)
{
	const char *name;
	json_t *one;

	json_object_foreach((json_t *)v, name, one)
	{
		if (!has_member(type, name, 0))
			return no(at, "'%s' is not described", name);
	}
	return true;
}

static bool enum_fits(const json_t *list, const json_t *v)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (json_equal(one, v))
			return true;
	}
	return false;
}

static bool fits(const json_t *type, const json_t *v, bool whole, struct place *at, unsigned depth)
{
	const char *ref = json_string_value(json_object_get(type, "$ref"));
	json_t *any = json_object_get(type, "anyOf"), *one;
	size_t i;

	if (ref)
		return fits(json_object_get(schemas(), ref + strlen(SCHEMA_REF)), v, whole, at,
		            depth + 1);
	json_array_foreach(json_object_get(type, "allOf"), i, one)
	{
		if (!fits(one, v, false, at, depth + 1))
			return false;
	}
	if (any) {
		json_array_foreach(any, i, one)
		{
			struct place inner = *at;

			if (fits(one, v, whole, &inner, depth + 1))
				return true;
			if (i + 1 == json_array_size(any))
				*at = inner;
		}
		return no(at, "%s", "it is none of the alternatives");
	}
	if (json_object_get(type, "enum") && !enum_fits(json_object_get(type, "enum"), v))
		return no(at, "'%s' is not one of the words",
		          json_is_string(v) ? json_string_value(v) : "?");
	if (!type_fits(type, v))
		return no(at, "%s", "it has another type");
	json_array_foreach(json_is_array(v) && json_object_get(type, "items") ? v : NULL, i, one)
	{
		if (!member_fits(json_object_get(type, "items"), "[]", one, at, depth))
			return false;
	}
	if (!json_is_object(v))
		return true;
	if (!object_fits(type, v, at, depth))
		return false;
	/* the type "any" has nothing at all, and fits everything */
	return !whole || !json_object_size(type) || all_known(type, v, at);
}

static void check_reply(const struct route *route, const struct reply *res)
{
	enum doc_kind kind = res->status == 202 ? DOC_REPLY_202 : DOC_REPLY;
	autojson json_t *type = NULL;
	struct place at = { 0 };
	struct err err = { 0 };
	size_t n;
	const struct doc_line *l = described(route, &n);
	autofree char *text = NULL;

	/* what a background request gave is of its own route, errors included */
	if (!n || res->status >= 400)
		return;
	for (size_t i = 0; i < n; i++)
		if (l[i].kind == kind)
			schema_parse(l[i].text, &type, &err);
	text = json_dumps(res->json, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!type)
		broken(route,
		       "answers JSON with %u: add DOC(REPLY%s, ...) below its line; this came: "
		       "%.400s",
		       res->status, res->status == 202 ? "_202" : "", text);
	if (!fits(type, res->json, true, &at, 0))
		broken(route,
		       "its reply is not as DOC(REPLY, ...) or api/doc/types.def say: at '%s' %s; "
		       "this "
		       "came: %.1200s",
		       at.path, at.why, text);
}

static void check_stream(const struct route *route, const struct reply *res)
{
	size_t n;
	const struct doc_line *l = described(route, &n);

	for (size_t i = 0; i < n; i++)
		if (l[i].kind == DOC_SENDS || l[i].kind == DOC_SOCKET ||
		    route->handler == api_openapi)
			return;
	if (n)
		broken(route,
		       "sends something that is not JSON: add DOC(SENDS, \"media/type\") below "
		       "its line in routes.h");
}

int __wrap_api_handle(struct request *req, struct reply *res, struct err *err)
{
	const struct route *route = req->match.route;
	struct request *outer = current;
	size_t n;
	int r;

	schemas();
	current = req;
	r = __real_api_handle(req, res, err);
	current = outer;
	described(route, &n);
	if (r >= 0 && res->json)
		check_reply(route, res);
	else if (r >= 0)
		check_stream(route, res);
	else if (n && doc_section(route) && err_code_status(code_of(err)) < 500 &&
	         !openapi_may_fail(route, code_of(err)))
		broken(route,
		       "fails with %s ('%s'): add it to DOC(FAILS, ...) below its line in routes.h",
		       err_code_name(code_of(err)), err->msg);
	return r;
}
