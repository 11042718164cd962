/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools.c - MCP tools: how a model sees them, and the route that each one calls
 *
 * tools_vm.c, tools_net.c and tools_git.c have the tables. A tool whose route this server does not
 * have is not offered. Arguments have the names of the API's members, so that most bodies are
 * passed unchanged; unknown names are rejected with an explanation, so that a model that guessed
 * can correct itself.
 */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

static const struct {
	const struct mcp_tool *v;
	const size_t *n;
} groups[] = { { mcp_vm_tools, &mcp_n_vm_tools },
	       { mcp_net_tools, &mcp_n_net_tools },
	       { mcp_deploy_tools, &mcp_n_deploy_tools },
	       { mcp_cron_tools, &mcp_n_cron_tools },
	       { mcp_git_tools, &mcp_n_git_tools } };

int mcp_translate_query(struct request *req, json_t *args, struct err *err)
{
	const char *name;
	json_t *v;
	int r = 0;

	json_object_foreach(args, name, v)
	{
		char number[32];
		const char *text = json_string_value(v);

		if (json_is_null(v) || mcp_in_path(req->match.route->pattern, name))
			continue;
		if (json_is_integer(v))
			snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
		else if (json_is_boolean(v))
			snprintf(number, sizeof(number), "%s", json_is_true(v) ? "true" : "false");
		else if (!text)
			return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
			               "'%s' is of the wrong type", name);
		if ((r = mcp_add_query(req, name, text ? text : number, err)) < 0)
			return r;
	}
	return 0;
}

const struct route *mcp_tool_route(const struct mcp_tool *t)
{
	for (size_t i = 0; i < api_n_routes; i++)
		if (api_routes[i].method == t->method &&
		    strcmp(api_routes[i].pattern, t->pattern) == 0)
			return &api_routes[i];
	return NULL;
}

const struct mcp_tool *mcp_tool_find(const char *name)
{
	for (size_t k = 0; k < ARRAY_SIZE(groups); k++)
		for (size_t i = 0; i < *groups[k].n; i++)
			if (strcmp(groups[k].v[i].name, name) == 0)
				return mcp_tool_route(&groups[k].v[i]) ? &groups[k].v[i] : NULL;
	return NULL;
}

static json_t *shape_tool(const struct mcp_tool *t)
{
	json_t *j = json_pack(
	        "{s:s, s:s, s:s, s:o, s:{s:s, s:b, s:b, s:b, s:b}}", "name", t->name, "title",
	        t->title, "description", t->text, "inputSchema", json_loads(t->input, 0, NULL),
	        "annotations", "title", t->title, "readOnlyHint", !!(t->flags & MCP_READS),
	        "destructiveHint", !!(t->flags & MCP_DESTROYS), "idempotentHint",
	        !!(t->flags & MCP_IDEMPOTENT), "openWorldHint", !!(t->flags & MCP_OPEN_WORLD));

	if (j && t->output)
		json_object_set_new(j, "outputSchema", json_loads(t->output, 0, NULL));
	return j;
}

json_t *mcp_tools_list(void)
{
	json_t *list = json_array();

	for (size_t k = 0; k < ARRAY_SIZE(groups); k++)
		for (size_t i = 0; i < *groups[k].n; i++)
			if (mcp_tool_route(&groups[k].v[i]))
				json_array_append_new(list, shape_tool(&groups[k].v[i]));
	return json_pack("{s:o}", "tools", list);
}

int mcp_check_args(const struct mcp_tool *t, const json_t *args, struct err *err)
{
	autojson json_t *schema = json_loads(t->input, 0, NULL);
	const json_t *known = json_object_get(schema, "properties"), *name;
	const char *given;
	json_t *value;
	size_t i;

	if (!schema)
		return err_set(err, -ENOMEM, "out of memory");
	json_object_foreach((json_t *)args, given, value)
	{
		if (!json_object_get(known, given))
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "%s has no argument '%.100s'",
			               t->name, given);
	}
	json_array_foreach(json_object_get(schema, "required"), i, name)
	{
		if (!json_object_get(args, json_string_value(name)))
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "the argument '%s' is missing", json_string_value(name));
	}
	return 0;
}
