/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - a tool's call becomes a request on a route of the API
 *
 * The inner request has no connection: its body is the tool's arguments, its path parameters are
 * arguments too ({vm_id} is vmId), and its Linux user is the one named by the arguments or the
 * outer request. It passes the same check as one that came over HTTP (auth_permit() with the
 * route's scope), runs the same handler, and leaves the same record in the audit log. So a tool
 * can never do what its caller's key could not do with the API.
 */
#include "mcp/mcp_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define NAME_SIZE 32 /* of a path parameter */

/* Encoded, because request_query() decodes. */
int mcp_add_query(struct request *req, const char *name, const char *value, struct err *err)
{
	autobuf struct buf b = { 0 };

	for (const char *p = value; *p; p++) {
		if (isalnum((unsigned char)*p))
			buf_put(&b, p, 1);
		else
			buf_printf(&b, "%%%02X", (unsigned char)*p);
	}
	buf_put(&b, "", 1);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return request_add_value(req, VALUE_QUERY, name, (const char *)b.p, err);
}

/* "{vm_id}..." or "{*path}": the name that the argument has, vmId or path. */
static void name_of(const char *param, char dst[NAME_SIZE])
{
	size_t n = 0;

	for (const char *p = param + 1 + (param[1] == '*'); *p && *p != '}' && n + 1 < NAME_SIZE;
	     p++) {
		bool up = *p == '_' && p[1];

		p += up;
		dst[n++] = (char)(up ? toupper((unsigned char)*p) : (unsigned char)*p);
	}
	dst[n] = '\0';
}

bool mcp_in_path(const char *pattern, const char *name)
{
	char own[NAME_SIZE];

	for (const char *p = strchr(pattern, '{'); p; p = strchr(p + 1, '{')) {
		name_of(p, own);
		if (strcmp(own, name) == 0)
			return true;
	}
	return false;
}

static int fill_path(struct request *req, const json_t *args, struct err *err)
{
	const char *p = req->match.route->pattern;

	for (p = strchr(p, '{'); p && req->match.n_args < ROUTE_ARGS_MAX; p = strchr(p + 1, '{')) {
		char name[NAME_SIZE];
		const char *value;

		name_of(p, name);
		value = json_string_value(json_object_get(args, name));
		if (!value)
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'%s' must be a string",
			               name);
		req->match.arg[req->match.n_args++] = value;
	}
	return 0;
}

static int make_inner(struct request *outer, const struct mcp_tool *t, json_t *args,
                      struct request *req, struct err *err)
{
	const json_t *user = json_object_get(args, "user");
	const char *name = json_is_null(user) ? NULL : json_string_value(user);

	*who_of(req) = *who_of(outer);
	snprintf(req->path, sizeof(req->path), "%s (MCP %s)", t->pattern, t->name);
	req->json = json_incref(args);
	if (user && !json_is_null(user) && !name)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'user' must be a string");
	if (!name)
		name = request_header(outer, USER_HEADER);
	if (name && request_add_value(req, VALUE_HEADER, USER_HEADER, name, err) < 0)
		return -ENOMEM;
	if ((t->flags & MCP_AS_JSON) &&
	    request_add_value(req, VALUE_HEADER, "Accept", "application/json", err) < 0)
		return -ENOMEM;
	if ((t->flags & MCP_BACKGROUND) &&
	    request_add_value(req, VALUE_HEADER, "x-freestyle-background-after-secs", MCP_AFTER_S,
	                      err) < 0)
		return -ENOMEM;
	if (t->add) {
		autojson json_t *more = json_loads(t->add, 0, NULL);

		if (!more || json_object_update(args, more) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	if (t->prepare)
		t->prepare(req, args);
	return fill_path(req, args, err);
}

static int run(struct request *req, const struct mcp_tool *t, struct reply *res,
               struct mcp_work *work, struct auth_lease *lease, struct err *err)
{
	const struct route *route = req->match.route;
	struct auth *auth = deps_of(req)->auth;
	const char *target, *user = request_header(req, USER_HEADER);
	int r = repo_id_check(req, err);

	target = request_target(req);
	if (r == 0)
		r = auth_permit(auth, who_of(req), route->scope, target, user, err);
	caller_of(req)->denied = r < 0;
	if (r == 0 && t->translate)
		r = t->translate(req, req->json, err);
	if (r < 0)
		return r;
	if (t->flags & MCP_BACKGROUND)
		return background_run(req, res, err);
	if (!t->open)
		return (t->handler ? t->handler : route->handler)(req, res, err);
	auth_lease_take(auth, who_of(req), route->scope, target, user, lease);
	return t->open(req, work, err);
}

json_t *mcp_failed(const struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_printf(&b, "%s (%s)", err->msg, err_code_name(code_of(err)));
	return b.failed ? NULL
	                : mcp_tool_result(json_pack("[o]", mcp_text(b.p, b.len)), NULL,
	                                  /* failed= */ true);
}

/* The error's message, and the other members of its body: limits, failed builds, ... */
static json_t *failed_body(const struct err *err, json_t *body)
{
	static const char *const said[] = { "code", "error", "message", "description" };
	json_t *j = mcp_failed(err);
	char *more = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(said); i++)
		json_object_del(body, said[i]);
	if (j && json_object_size(body) && (more = json_dumps(body, JSON_COMPACT)))
		json_array_append_new(json_object_get(j, "content"), mcp_text(more, strlen(more)));
	free(more);
	return j;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = strstr(words, word); p; p = strstr(p + 1, word))
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return true;
	return false;
}

static void keep_words(json_t *object, const char *words)
{
	const char *name;
	json_t *value;
	void *tmp;

	json_object_foreach_safe(object, tmp, name, value)
	{
		if (!has_word(words, name))
			json_object_del(object, name);
	}
}

static void trim(const struct mcp_tool *t, json_t *body)
{
	json_t *item;
	size_t i;

	if (!t->keep)
		return;
	if (!t->list) {
		keep_words(body, t->keep);
		return;
	}
	json_array_foreach(json_object_get(body, t->list), i, item)
	{
		keep_words(item, t->keep);
	}
}

static json_t *succeeded(const struct mcp_tool *t, json_t *body)
{
	autofree char *text = NULL;

	if (t->flags & MCP_WHOLE)
		return json_incref(body);
	trim(t, body);
	text = json_dumps(body, JSON_COMPACT);
	if (!text)
		return NULL;
	return mcp_tool_result(json_pack("[o]", mcp_text(text, strlen(text))),
	                       json_is_object(body) ? json_incref(body) : NULL,
	                       /* failed= */ false);
}

json_t *mcp_call(struct request *outer, const struct mcp_tool *t, json_t *args,
                 struct mcp_work *ret_work, struct auth_lease *ret_lease)
{
	struct request *req = request_inner(outer, mcp_tool_route(t));
	struct reply res = { 0 };
	struct err err = { 0 };
	json_t *body, *result = NULL;
	unsigned status;
	int r;

	if (!req)
		return NULL;
	r = make_inner(outer, t, args, req, &err);
	if (r == 0)
		r = run(req, t, &res, ret_work, ret_lease, &err);
	body = reply_render(req, &res, r, &err, &status);
	trail_leave(req, &res, status, r < 0 ? err_code_name(code_of(&err)) : NULL);
	if (r < 0)
		result = failed_body(&err, body);
	else if (!ret_work->ops)
		result = succeeded(t, body);
	json_decref(body);
	reply_done(&res);
	request_free(req);
	return result;
}
