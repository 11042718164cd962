/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openapi.c - GET /openapi.json: the API as an OpenAPI 3.1 document
 *
 * Made from the table of routes, the DOC lines between them, tables of fields (bodies) and
 * base/codes.def. Nothing is written twice: path parameters come from the pattern, credentials and
 * common errors from scope and pattern. tests/unit/contract.c holds every reply of the unit tests
 * against it. The document is built once, at the first request, and kept.
 *
 * An operation is named after its handler (api_vm_create: vmCreate): clients are generated from
 * these names, so renaming a handler breaks them; tests/unit/operations.txt has those that exist.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/doc/openapi.h"
#include "api/doc/schema.h"
#include "base/auto.h"

#define NAME_SIZE 96

struct build {
	json_t *paths, *tags, *ids; /* owned; ids: of operations, to find a second one */
	const char *section;
};

/* ---- names ---- */

/* "api_vm_create" is vmCreate; a VM's own calls of a handler that others have too: selfVmCreate */
static void operation_id(const struct route *route, const char *handler, char ret[NAME_SIZE])
{
	bool self = route->scope == SCOPE_FROM_VM && strncmp(handler, "api_self", 8) != 0;
	bool up = self;
	size_t n = 0;

	if (self)
		n = (size_t)snprintf(ret, NAME_SIZE, "self");
	for (const char *p = handler + strlen("api_"); *p && n + 1 < NAME_SIZE; p++) {
		if (*p == '_') {
			up = true;
			continue;
		}
		ret[n++] = (char)(up ? toupper((unsigned char)*p) : *p);
		up = false;
	}
	ret[n] = '\0';
}

/* "{*path}" is "{path}" there; a parameter cannot have slashes, which its words say. */
static char *openapi_path(const char *pattern)
{
	struct buf b = { 0 };

	for (const char *p = pattern; *p; p++)
		if (*p != '*' || p == pattern || p[-1] != '{')
			buf_put(&b, p, 1);
	return buf_take_str(&b);
}

/* ---- errors ---- */

/* What follows from a route's scope and path. */
static const struct {
	unsigned scopes;   /* any of these, or 0 */
	const char *param; /* or this in the path */
	const char *codes;
} common[] = {
	{ SCOPE_PUBLIC | SCOPE_ALL | SCOPE_FROM_VM, NULL,
	  "INVALID_REQUEST INVALID_PARAMETERS LIMIT_EXCEEDED INTERNAL_ERROR UNAVAILABLE" },
	{ SCOPE_ALL & ~SCOPE_PUBLIC, NULL, "UNAUTHORIZED UNAUTHORIZED_ERROR FORBIDDEN" },
	{ SCOPE_FROM_VM, NULL, "SELF_ACCESS_DENIED SELF_INTERRUPTED" },
	{ 0, "{vm_id}",
	  "INVALID_VM_ID VM_NOT_FOUND VM_DELETED VM_ACCESS_DENIED CORRUPT_VM_RECORD "
	  "OBJECT_DAMAGED" },
	{ SCOPE_VM_EXEC, "{vm_id}",
	  "VM_NOT_RUNNING STILL_CREATING VM_IS_SUSPENDING RESUMED_VM_NON_RESPONSIVE "
	  "VM_EXIT_DURING_START VM_START_TIMEOUT INSUFFICIENT_SWAP USER_NOT_FOUND "
	  "VM_LIMIT_EXCEEDED BAD_REQUEST" },
	{ 0, "{snapshot_id}", "INVALID_SNAPSHOT_ID SNAPSHOT_NOT_FOUND" },
	{ 0, "{build_id}", "BUILD_NOT_FOUND" },
	{ 0, "{identity}", "IDENTITY_NOT_FOUND" },
	{ SCOPE_GIT_READ | SCOPE_GIT_WRITE | SCOPE_GIT_HTTP, "{repo}",
	  "REPOSITORY_NOT_FOUND REPOSITORY_ACCESS_DENIED GIT_ERROR GIT_SERVER_ERROR "
	  "GIT_TOO_LARGE" },
	{ SCOPE_ACCOUNT, "{repo}", "REPOSITORY_NOT_FOUND REPOSITORY_ACCESS_DENIED" },
	{ SCOPE_GIT_READ | SCOPE_GIT_WRITE | SCOPE_GIT_HTTP, "{repo}",
	  "GIT_INVALID_REQUEST INVALID_REVISION INVALID_OBJECT_ID REFERENCE_NOT_FOUND "
	  "NO_DEFAULT_BRANCH" },
	{ SCOPE_ACCOUNT, "/git/v1/repo", "GIT_INVALID_REQUEST INVALID_REVISION" },
	{ 0, "{repo_id}", "GIT_REPOSITORY_NOT_FOUND" },
	{ 0, "{vpc_id}", "NOT_FOUND" },
	{ 0, "{hash}", "INVALID_OBJECT_ID AMBIGUOUS" },
};

static bool is_common(const struct route *route, size_t i)
{
	return (!common[i].scopes || (route->scope & common[i].scopes)) &&
	       (!common[i].param || strstr(route->pattern, common[i].param));
}

typedef int (*code_fn)(void *ctx, enum err_code code, struct err *err);

static int each_code(const char *text, code_fn fn, void *ctx, struct err *err)
{
	int r = 0;

	for (size_t n; r == 0 && *(text += strspn(text, " ")); text += n) {
		char name[NAME_SIZE];
		enum err_code code;

		n = strcspn(text, " ");
		snprintf(name, sizeof(name), "%.*s", (int)n, text);
		code = err_code_parse(name);
		if (!code || !err_code_status(code))
			return err_set(err, -EINVAL,
			               "'%s' is not a code of base/codes.def that is sent", name);
		r = fn(ctx, code, err);
	}
	return r;
}

static int each_error(const struct route *route, code_fn fn, void *ctx, struct err *err)
{
	size_t n;
	const struct doc_line *l = doc_of_route(route, &n);
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(common); i++)
		if (is_common(route, i))
			r = each_code(common[i].codes, fn, ctx, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (l[i].kind == DOC_FAILS)
			r = each_code(l[i].text, fn, ctx, err);
	return r;
}

struct asked {
	enum err_code code;
	bool found;
};

static int is_asked(void *ctx, enum err_code code, struct err *err)
{
	struct asked *a = ctx;

	a->found |= a->code == code;
	return 0;
}

bool openapi_may_fail(const struct route *route, enum err_code code)
{
	struct asked a = { .code = code };

	each_error(route, is_asked, &a, NULL);
	return a.found;
}

/* The meaning of every code, once for the whole document. */
static json_t *all_codes(void)
{
	json_t *all = json_object();

#define GROUP(title)
#define CODE(name, status, text)     \
	if (status)                  \
		json_object_set_new( \
		        all, #name,  \
		        json_pack("{s:i, s:s}", "status", (int)(status), "meaning", text));
#include "base/codes.def"
#undef CODE
#undef GROUP
	return all;
}

static int add_status(json_t *responses, unsigned number, enum err_code code)
{
	json_t *one, *codes;
	char status[16];
	size_t i;
	json_t *known;

	snprintf(status, sizeof(status), "%u", number);
	one = json_object_get(responses, status);
	if (!one) {
		one = json_pack("{s:s, s:{s:{s:{s:s}}}, s:[]}", "description", "", "content",
		                "application/json", "schema", "$ref", SCHEMA_REF "Error",
		                "x-codes");
		json_object_set_new(responses, status, one);
	}
	codes = json_object_get(one, "x-codes");
	json_array_foreach(codes, i, known)
	{
		if (strcmp(json_string_value(known), err_code_name(code)) == 0)
			return 0;
	}
	json_array_append_new(codes, json_string(err_code_name(code)));
	return json_object_set_new(
	        one, "description",
	        json_sprintf("%s%s%s", json_string_value(json_object_get(one, "description")),
	                     json_array_size(codes) > 1 ? ", " : "", err_code_name(code)));
}

static int add_error(void *ctx, enum err_code code, struct err *err)
{
	/* the one whose status depends on whether waiting helps: base/codes.def */
	if (code == ERR_LIMIT_EXCEEDED)
		add_status(ctx, 429, code);
	return add_status(ctx, err_code_status(code), code);
}

/* ---- parameters ---- */

static const char *param_words(const char *name)
{
	static const struct {
		const char *name, *words;
	} all[] = {
		{ "vm_id", "Id of the VM" },
		{ "snapshot_id", "Id of the snapshot" },
		{ "build_id", "Id of the build" },
		{ "account_id", "Id of the account" },
		{ "identity", "Id of the identity" },
		{ "repo", "Id of the repository" },
		{ "repo_id", "Id of the repository" },
		{ "path", "Path of the file or directory" },
		{ "hash", "Hash of the object, or enough of its first digits" },
		{ "domain", "Host name" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].words;
	return NULL;
}

static json_t *parameter(const char *in, const char *name, bool required, json_t *type)
{
	json_t *p = json_pack("{s:s, s:s, s:b, s:O}", "name", name, "in", in, "required", required,
	                      "schema", type);
	json_t *words = json_object_get(type, "description");

	if (words) {
		json_object_set(p, "description", words);
		json_object_del(type, "description");
	}
	return p;
}

static int path_parameters(const char *pattern, json_t *list)
{
	for (const char *p = strchr(pattern, '{'); p; p = strchr(p + 1, '{')) {
		autojson json_t *type = json_pack("{s:s}", "type", "string");
		bool rest = p[1] == '*';
		char name[NAME_SIZE];
		const char *words;

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(p + 1 + rest, "}"), p + 1 + rest);
		words = param_words(name);
		if (words)
			json_object_set_new(
			        type, "description",
			        json_sprintf("%s%s", words, rest ? "; with slashes in it" : ""));
		json_array_append_new(list, parameter("path", name, true, type));
	}
	return 0;
}

struct params {
	json_t *list;
	const char *in;
};

static int add_param(void *ctx, const char *name, bool required, json_t *type, struct err *err)
{
	struct params *p = ctx;

	return json_array_append_new(p->list, parameter(p->in, name, required, type));
}

/* ---- one operation ---- */

static int add_json(json_t *responses, const char *status, const char *words, const char *text,
                    struct err *err)
{
	json_t *type = NULL, *one = json_object_get(responses, status);
	int r = schema_parse(text, &type, err);

	if (r < 0)
		return r;
	if (!one)
		json_object_set_new(
		        responses, status,
		        one = json_pack("{s:s, s:{}}", "description", words, "content"));
	return json_object_set_new(json_object_get(one, "content"), "application/json",
	                           json_pack("{s:o}", "schema", type));
}

static int add_bytes(json_t *responses, const char *media)
{
	json_t *one = json_object_get(responses, "200");

	if (!one)
		json_object_set_new(responses, "200",
		                    one = json_pack("{s:s, s:{}}", "description", "OK", "content"));
	if (json_object_get(json_object_get(one, "content"), media))
		return 0; /* JSON that is made while it is sent */
	return json_object_set_new(json_object_get(one, "content"), media,
	                           json_pack("{s:{s:s}}", "schema", "type", "string"));
}

static int set_body(json_t *op, const char *media, json_t *type_consume, bool required)
{
	return json_object_set_new(op, "requestBody",
	                           json_pack("{s:b, s:{s:{s:o}}}", "required", required, "content",
	                                     media, "schema", type_consume));
}

/* A line of the route; -EINVAL if it is wrong. */
static int say(json_t *op, json_t *params, json_t *responses, const struct doc_line *l,
               struct err *err)
{
	struct params p = { params, l->kind == DOC_QUERY ? "query" : "header" };
	json_t *type = NULL;
	int r = 0;

	switch (l->kind) {
	case DOC_ROUTE:
	case DOC_SECTION:
	case DOC_ID:
	case DOC_FAILS:
		break;
	case DOC_NOTE:
		return json_object_set_new(op, "description", json_string(l->text));
	case DOC_QUERY:
	case DOC_HEADER:
		return schema_members(l->text, add_param, &p, err);
	case DOC_BODY:
		r = schema_parse(l->text, &type, err);
		return r < 0 ? r : set_body(op, "application/json", type, true);
	case DOC_BODY_TYPE:
		return set_body(op, l->text, json_pack("{s:s}", "type", "string"), true);
	case DOC_REPLY:
		return add_json(responses, "200", "OK", l->text, err);
	case DOC_REPLY_202:
		return add_json(responses, "202", "Accepted: it is not over yet", l->text, err);
	case DOC_SENDS:
		return add_bytes(responses, l->text);
	case DOC_SOCKET:
		return json_object_set_new(responses, "101",
		                           json_pack("{s:s}", "description", l->text));
	}
	return r;
}

static json_t *security(const struct route *route)
{
	if (route->scope == SCOPE_PUBLIC || route->scope == SCOPE_FROM_VM)
		return json_array();
	if (route->scope == SCOPE_GIT_HTTP)
		return json_pack("[{}, {s:[]}, {s:[]}]", "basic", "apiKey");
	if (route->scope & SCOPE_TOKEN)
		return json_pack("[{s:[]}, {s:[]}, {s:[]}]", "apiKey", "identityToken", "session");
	return json_pack("[{s:[]}, {s:[]}]", "apiKey", "session");
}

static bool has(const struct doc_line *l, size_t n, enum doc_kind a, enum doc_kind b,
                enum doc_kind c)
{
	for (size_t i = 0; i < n; i++)
		if (l[i].kind == a || l[i].kind == b || l[i].kind == c)
			return true;
	return false;
}

/* Every route says what it answers, and what it reads if it takes a body. */
static int check_lines(const struct route *route, const struct doc_line *l, size_t n,
                       struct err *err)
{
	if (!has(l, n, DOC_REPLY, DOC_SENDS, DOC_SOCKET))
		return err_set(err, -EINVAL,
		               "nothing says what it answers: add DOC(REPLY, \"{id: string}\") (or "
		               "SENDS with a media type) below its line in routes.h");
	if (route->body_max != BODY_IGNORED && !has(l, n, DOC_BODY, DOC_BODY_TYPE, DOC_BODY))
		return err_set(
		        err, -EINVAL,
		        "nothing says what its body is: add DOC(BODY, \"Name\") below its line "
		        "in routes.h, JSON_TABLE(Name, fields) below the table of fields, and "
		        "TABLE(Name) to api/doc/types.def");
	return 0;
}

static int add_operation(struct build *b, const struct route *route, const struct doc_line *l,
                         size_t n, struct err *err)
{
	autojson json_t *op = NULL;
	autofree char *path = openapi_path(route->pattern);
	json_t *params = json_array(), *responses = json_object(), *at;
	char id[NAME_SIZE], method[8] = "";
	int r;

	operation_id(route, l->text, id);
	for (size_t i = 0; i < n; i++)
		if (l[i].kind == DOC_ID)
			snprintf(id, sizeof(id), "%s", l[i].text);
	op = json_pack("{s:s, s:s, s:[s], s:o, s:o, s:o}", "operationId", id, "summary",
	               route->help, "tags", b->section, "parameters", params, "responses",
	               responses, "security", security(route));
	if (!op || !path)
		return err_set(err, -ENOMEM, "out of memory");
	if (json_object_get(b->ids, id))
		return err_set(
		        err, -EINVAL,
		        "another route has the operation '%s': give it DOC(ID, \"name\") and lines "
		        "of its own, or the flag ROUTE_ALIAS if it is another spelling of that "
		        "route",
		        id);
	json_object_set_new(b->ids, id, json_true());
	path_parameters(route->pattern, params);
	if (route->scope == SCOPE_VM_EXEC)
		json_array_append_new(
		        params, json_pack("{s:s}", "$ref", "#/components/parameters/LinuxUser"));
	for (size_t i = 0; i < n; i++)
		if ((r = say(op, params, responses, &l[i], err)) < 0)
			return r;
	if ((r = check_lines(route, l, n, err)) < 0 ||
	    (r = each_error(route, add_error, responses, err)) < 0)
		return r;
	if (json_array_size(params) == 0)
		json_object_del(op, "parameters");
	at = json_object_get(b->paths, path);
	if (!at)
		json_object_set_new(b->paths, path, at = json_object());
	for (size_t i = 0; method_name(route->method)[i]; i++)
		method[i] = (char)tolower((unsigned char)method_name(route->method)[i]);
	return json_object_set(at, method, op);
}

static int add_routes(struct build *b, struct err *err)
{
	for (size_t i = 0; i < api_n_routes; i++) {
		const struct route *route = &api_routes[i];
		size_t n;
		const struct doc_line *l = doc_of_route(route, &n);
		int r = 0;

		if (!doc_section(route))
			continue;
		if (!b->section || strcmp(b->section, doc_section(route)) != 0) {
			b->section = doc_section(route);
			json_array_append_new(b->tags, json_pack("{s:s}", "name", b->section));
		}
		if (!(route->flags & ROUTE_ALIAS))
			r = add_operation(b, route, l, n, err);
		if (r < 0)
			return err_wrap(err, r, "%s %s", method_name(route->method),
			                route->pattern);
	}
	return 0;
}

/* ---- components ---- */

static int add_types(json_t *schemas, struct err *err)
{
	for (size_t i = 0; i < doc_n_types; i++) {
		const struct doc_type *t = &doc_types[i];
		json_t *type = NULL;
		int r = t->table ? schema_of_table(t->table, &type, err)
		                 : schema_parse(t->text, &type, err);

		if (r < 0)
			return err_wrap(err, r, "%s of api/doc/types.def", t->name);
		json_object_set_new(schemas, t->name, type);
	}
	return 0;
}

/* Every $ref leads somewhere. */
static int check_refs(const json_t *j, const json_t *schemas, struct err *err)
{
	const char *ref = json_string_value(json_object_get(j, "$ref"));
	const char *key;
	json_t *v;
	size_t i;
	int r = 0;

	if (ref && strncmp(ref, SCHEMA_REF, strlen(SCHEMA_REF)) == 0 &&
	    !json_object_get(schemas, ref + strlen(SCHEMA_REF)))
		return err_set(err, -EINVAL,
		               "there is no type '%s': add it to server/api/doc/types.def",
		               ref + strlen(SCHEMA_REF));
	if (json_is_array(j)) {
		json_array_foreach(j, i, v)
		{
			if ((r = check_refs(v, schemas, err)) < 0)
				return r;
		}
	} else if (json_is_object(j)) {
		json_object_foreach((json_t *)j, key, v)
		{
			if ((r = check_refs(v, schemas, err)) < 0)
				return err_wrap(err, r, "%s", key);
		}
	}
	return 0;
}

static json_t *components(json_t *schemas)
{
	return json_pack(
	        "{s:O, s:{s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s, s:s}, s:{s:s, "
	        "s:s, s:s}}, s:{s:{s:s, s:s, s:b, s:s, s:{s:s}}}}",
	        "schemas", schemas, "securitySchemes", "apiKey", "type", "http", "scheme", "bearer",
	        "description", "An API key of the account.", "identityToken", "type", "http",
	        "scheme", "bearer", "description",
	        "A token of an identity: may do what the identity was granted.", "session", "type",
	        "apiKey", "in", "cookie", "name", "pando_session", "description",
	        "The session of a browser. Requests other than GET also need its value of "
	        "'csrf' in the header x-pando-csrf.",
	        "basic", "type", "http", "scheme", "basic", "description",
	        "For Git: any user name, and a key or token as password.", "parameters",
	        "LinuxUser", "name", USER_HEADER, "in", "header", "required", 0, "description",
	        "The Linux user in the VM; without it root, or the first one that the token may "
	        "be.",
	        "schema", "type", "string");
}

int openapi_build(json_t **ret, struct err *err)
{
	autojson json_t *paths = json_object(), *tags = json_array(), *ids = json_object();
	autojson json_t *schemas = json_object(), *doc = NULL;
	struct build b = { .paths = paths, .tags = tags, .ids = ids };
	int r;

	if ((r = add_types(schemas, err)) < 0 || (r = add_routes(&b, err)) < 0)
		return r;
	doc = json_pack("{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:O, s:O, s:o, s:o}",
	                "openapi", "3.1.0", "info", "title", "Pando", "version", PANDO_VERSION,
	                "description",
	                "MicroVMs that fork, freeze and thaw. An error is a JSON object with "
	                "'code' and 'message'; x-codes lists the codes of each status, "
	                "x-error-codes what they mean.",
	                "license", "name", "Apache-2.0", "identifier", "Apache-2.0", "servers",
	                "url", "/", "tags", tags, "paths", paths, "components", components(schemas),
	                "x-error-codes", all_codes());
	if (!doc)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = check_refs(doc, schemas, err)) < 0)
		return r;
	*ret = TAKE_PTR(doc);
	return 0;
}
