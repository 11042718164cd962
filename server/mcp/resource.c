/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resource.c - resources: what a client may attach to a conversation without a tool
 *
 *   pando://tree                      how VMs and snapshots descend from each other
 *   pando://vm/{vmId}                 a VM: state, size, names
 *   pando://vm/{vmId}/tree            the tree around it
 *   pando://vm/{vmId}/logs            its events, and what its builds and services said
 *   pando://vm/{vmId}/files{/path}    a file; with a slash at the end a directory
 *
 * A read is a call on a route of the API, as a tool's is (call.c): the same permission and the same
 * record. The rows below are tools that tools/list does not show.
 */
#include "api/vms/cell.h"
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define SCHEME "pando://"
#define FILE_MAX_BYTES 4194304 /* as file_read's; more is read piece by piece */
#define LISTED_VMS "100"
#define URI_MAX 8192u

static int add_args(struct request *req, json_t *args, struct err *err)
{
	return mcp_translate_query(req, args, err);
}

/* clang-format off */
static const struct mcp_tool
	vms  = { "resources", .method = METHOD_GET, .pattern = "/v1/vms", .flags = MCP_READS, .translate = add_args,
	         .list = "vms", .keep = "id name state" },
	tree = { "resource tree", .method = METHOD_GET, .pattern = "/v1/tree", .flags = MCP_READS },
	vm   = { "resource vm", .method = METHOD_GET, .pattern = "/v1/vms/{vm_id}", .flags = MCP_READS },
	near = { "resource vm tree", .method = METHOD_GET, .pattern = "/v1/vms/{vm_id}/tree", .flags = MCP_READS },
	logs = { "resource logs", .method = METHOD_GET, .pattern = "/observability/v1/logs", .flags = MCP_READS, .translate = add_args },
	file = { "resource file", .method = METHOD_GET, .pattern = "/v1/vms/{vm_id}/files/{path}", .flags = MCP_READS | MCP_WHOLE,
	         .handler = mcp_file_read },
	dir  = { "resource directory", .method = METHOD_GET, .pattern = "/v1/vms/{vm_id}/files/{path}", .flags = MCP_READS,
	         .handler = mcp_file_list };

static const struct { const char *uri, *name, *title, *text, *mime; } templates[] = {
	{ SCHEME "vm/{vmId}", "vm", "A VM", "State, size, names and limits of a VM", "application/json" },
	{ SCHEME "vm/{vmId}/logs", "logs", "Logs of a VM", "What happened to a VM, and what it said", "text/plain" },
	{ SCHEME "vm/{vmId}/tree", "vm-tree", "The tree around a VM", "Where a VM comes from, and what came from it", "application/json" },
	{ SCHEME "vm/{vmId}/files{+path}", "file", "A file of a VM",
	  "A file by its absolute path, up to 4 MiB; with a slash at the end a directory", NULL },
};
/* clang-format on */

/* The call's result, or the error that becomes the reply. Both may be NULL: out of memory. */
static json_t *ask(struct request *req, const struct mcp_msg *m, const struct mcp_tool *t,
                   json_t *args_consume, json_t **ret_error)
{
	autojson json_t *args = args_consume;
	struct mcp_work work = { 0 };
	struct auth_lease lease;
	const char *why;
	json_t *r;

	*ret_error = NULL;
	if (!mcp_tool_route(t)) {
		*ret_error = mcp_error(m->id, MCP_NO_RESOURCE, "this server does not have it");
		return NULL;
	}
	r = mcp_call(req, t, args, &work, &lease);
	if (!r || !json_is_true(json_object_get(r, "isError")))
		return r;
	why = json_string_value(
	        json_object_get(json_array_get(json_object_get(r, "content"), 0), "text"));
	*ret_error = mcp_error(m->id, MCP_NO_RESOURCE, "%s", why ? why : "it cannot be read");
	json_decref(r);
	return NULL;
}

/* ---- list ---- */

static void add_vm(json_t *all, const json_t *row)
{
	const char *id = json_string_value(json_object_get(row, "id"));
	const char *name = json_string_value(json_object_get(row, "name"));

	json_array_append_new(
	        all, json_pack("{s:o, s:s, s:o, s:s, s:s}", "uri", json_sprintf(SCHEME "vm/%s", id),
	                       "name", name && *name ? name : id, "title",
	                       json_sprintf("VM %s", name && *name ? name : id), "description",
	                       templates[0].text, "mimeType", templates[0].mime));
	json_array_append_new(
	        all, json_pack("{s:o, s:o, s:s, s:s}", "uri", json_sprintf(SCHEME "vm/%s/logs", id),
	                       "name", json_sprintf("%s logs", name && *name ? name : id),
	                       "description", templates[1].text, "mimeType", templates[1].mime));
}

static json_t *list(struct request *req, const struct mcp_msg *m)
{
	autojson json_t *r = NULL;
	json_t *all, *error, *row;
	size_t i;

	if (json_object_get(m->params, "cursor"))
		return mcp_error(m->id, MCP_INVALID_PARAMS, "there is no such 'cursor'");
	r = ask(req, m, &vms, json_pack("{s:s}", "limit", LISTED_VMS), &error);
	if (!r)
		return error;
	all = json_pack("[{s:s, s:s, s:s, s:s, s:s}]", "uri", SCHEME "tree", "name", "tree",
	                "title", "The tree", "description",
	                "How all VMs and snapshots of the account descend from each other",
	                "mimeType", "application/json");
	json_array_foreach(json_object_get(json_object_get(r, "structuredContent"), "vms"), i, row)
	        add_vm(all, row);
	return mcp_result(m->id, json_pack("{s:o}", "resources", all));
}

static json_t *list_templates(const struct mcp_msg *m)
{
	json_t *all = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(templates); i++) {
		json_t *t = json_pack("{s:s, s:s, s:s, s:s}", "uriTemplate", templates[i].uri,
		                      "name", templates[i].name, "title", templates[i].title,
		                      "description", templates[i].text);

		if (t && templates[i].mime)
			json_object_set_new(t, "mimeType", json_string(templates[i].mime));
		json_array_append_new(all, t);
	}
	return mcp_result(m->id, json_pack("{s:o}", "resourceTemplates", all));
}

/* ---- read ---- */

static json_t *contents(const struct mcp_msg *m, const char *uri, const char *mime,
                        const char *member, json_t *value_consume)
{
	return mcp_result(m->id, json_pack("{s:[{s:s, s:s, s:o}]}", "contents", "uri", uri,
	                                   "mimeType", mime, member, value_consume));
}

static json_t *as_json(const struct mcp_msg *m, const char *uri, const json_t *r)
{
	autofree char *text = json_dumps(json_object_get(r, "structuredContent"), JSON_INDENT(1));

	return text ? contents(m, uri, "application/json", "text", json_string(text)) : NULL;
}

/* "2026-11-18T20:00:00.000Z  nginx: message" */
static json_t *as_log(const struct mcp_msg *m, const char *uri, const json_t *r)
{
	autobuf struct buf b = { 0 };
	json_t *line;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(r, "structuredContent"), "logs"), i,
	                   line)
	{
		const char *service = json_string_value(json_object_get(line, "vmService"));
		const json_t *text = json_object_get(line, "message");

		buf_printf(&b, "%s  %s%s", json_string_value(json_object_get(line, "timestamp")),
		           service ? service : "", service ? ": " : "");
		buf_put(&b, json_string_value(text), json_string_length(text));
		buf_put(&b, "\n", 1);
	}
	return b.failed ? NULL
	                : contents(m, uri, "text/plain", "text",
	                           json_stringn(b.p ? (char *)b.p : "", b.len));
}

/* The block that file_read makes, as contents. A second block says that there is more. */
static json_t *as_file(const struct mcp_msg *m, const char *uri, const char *path, const json_t *r)
{
	const json_t *blocks = json_object_get(r, "content"), *one = json_array_get(blocks, 0);
	const json_t *embedded = json_object_get(one, "resource");
	const char *mime =
	        json_string_value(json_object_get(embedded ? embedded : one, "mimeType"));
	json_t *text = json_object_get(one, "text"), *blob;

	if (json_array_size(blocks) > 1)
		return mcp_error(m->id, MCP_INVALID_PARAMS,
		                 "the file has more than %d bytes: read it piece by piece with "
		                 "file_read",
		                 FILE_MAX_BYTES);
	if (text)
		return contents(m, uri, mime_of_path(path), "text", json_incref(text));
	blob = embedded ? json_object_get(embedded, "blob") : json_object_get(one, "data");
	return contents(m, uri, mime ? mime : "application/octet-stream", "blob",
	                json_incref(blob));
}

static int hex(char c)
{
	const char *digits = "0123456789abcdef", *p = strchr(digits, c | 0x20);

	return c && p ? (int)(p - digits) : -1;
}

/* Undoes %XX; NULL: broken, or a zero byte. Caller frees. */
static char *decode(const char *s)
{
	char *dst = strdup(s), *w = dst;

	for (; dst && *s; s++) {
		if (*s == '%') {
			int hi = hex(s[1]), lo = hi < 0 ? -1 : hex(s[2]);

			if (lo < 0 || (hi == 0 && lo == 0)) {
				free(dst);
				return NULL;
			}
			*w++ = (char)(hi * 16 + lo);
			s += 2;
		} else {
			*w++ = *s;
		}
	}
	if (dst)
		*w = '\0';
	return dst;
}

static json_t *no_such(const struct mcp_msg *m, const char *uri)
{
	return mcp_error(m->id, MCP_NO_RESOURCE,
	                 "there is no resource '%.200s': resources/templates/list says which there "
	                 "are",
	                 uri);
}

static json_t *read_file(struct request *req, const struct mcp_msg *m, const char *uri,
                         const char *id, const char *encoded)
{
	autofree char *path = decode(encoded);
	autojson json_t *r = NULL;
	json_t *args, *error;
	bool is_dir;

	if (!path || *path != '/')
		return no_such(m, uri);
	args = json_pack("{s:s, s:s}", "vmId", id, "path", path);
	if (!args)
		return no_such(m, uri); /* not UTF-8 */
	is_dir = path[strlen(path) - 1] == '/';
	if (!is_dir)
		json_object_set_new(args, "maxBytes", json_integer(FILE_MAX_BYTES));
	r = ask(req, m, is_dir ? &dir : &file, args, &error);
	if (!r)
		return error;
	return is_dir ? as_json(m, uri, r) : as_file(m, uri, path, r);
}

static json_t *read_vm(struct request *req, const struct mcp_msg *m, const char *uri,
                       const char *rest)
{
	const char *tail = rest + strcspn(rest, "/");
	autofree char *id = strndup(rest, (size_t)(tail - rest));
	bool is_logs = strcmp(tail, "/logs") == 0;
	autojson json_t *r = NULL;
	const struct mcp_tool *t;
	json_t *error;

	if (!id)
		return NULL;
	if (strncmp(tail, "/files/", 7) == 0)
		return read_file(req, m, uri, id, tail + 6);
	t = is_logs ? &logs : strcmp(tail, "/tree") == 0 ? &near : !*tail ? &vm : NULL;
	if (!t)
		return no_such(m, uri);
	r = ask(req, m, t, json_pack("{s:s}", "vmId", id), &error);
	if (!r)
		return error;
	return is_logs ? as_log(m, uri, r) : as_json(m, uri, r);
}

static json_t *read_one(struct request *req, const struct mcp_msg *m)
{
	const char *uri = json_string_value(json_object_get(m->params, "uri"));
	autojson json_t *r = NULL;
	json_t *error;

	if (!uri || strlen(uri) > URI_MAX)
		return mcp_error(m->id, MCP_INVALID_PARAMS,
		                 "'uri' must be a string of at most %u bytes", URI_MAX);
	if (strncmp(uri, SCHEME "vm/", sizeof(SCHEME "vm/") - 1) == 0)
		return read_vm(req, m, uri, uri + sizeof(SCHEME "vm/") - 1);
	if (strcmp(uri, SCHEME "tree") != 0)
		return no_such(m, uri);
	r = ask(req, m, &tree, json_object(), &error);
	return r ? as_json(m, uri, r) : error;
}

json_t *mcp_resources(struct request *req, const struct mcp_msg *m)
{
	json_t *j;

	if (strcmp(m->method, "resources/list") == 0)
		j = list(req, m);
	else if (strcmp(m->method, "resources/templates/list") == 0)
		j = list_templates(m);
	else if (strcmp(m->method, "resources/read") == 0)
		j = read_one(req, m);
	else
		return NULL;
	return j ? j : mcp_error(m->id, MCP_INTERNAL, "out of memory");
}
