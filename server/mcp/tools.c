/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools.c - the table of MCP tools: how a model sees them, and the route that each one
 * calls
 *
 * A tool whose route this server does not have is not offered. Arguments have the names of the
 * API's members, so that most bodies are passed unchanged; unknown names are rejected with an
 * explanation, so that a model that guessed can correct itself.
 */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "conf.h"

#define LIST_LIMIT "100" /* items, when the model names no limit */

/* ---- pieces of JSON schemas ---- */
/* clang-format off */
#define OBJECT(required, members) \
	"{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]," \
	"\"additionalProperties\":false}"
#define RESULT(required, members) /* may have further members */ \
	"{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]}"
#define STRING(name, text) "\"" name "\":{\"type\":\"string\",\"description\":\"" text "\"}"
#define ENUM(name, values, text) \
	"\"" name "\":{\"type\":\"string\",\"enum\":[" values "],\"description\":\"" text "\"}"
#define BOOL(name, text) "\"" name "\":{\"type\":\"boolean\",\"description\":\"" text "\"}"
#define INTEGER(name, min, max, text) \
	"\"" name "\":{\"type\":\"integer\",\"minimum\":" min ",\"maximum\":" max ",\"description\":\"" text "\"}"
#define NUMBER(name) "\"" name "\":{\"type\":\"integer\"}"
#define TEXT(name) "\"" name "\":{\"type\":\"string\"}"
#define TEXT_OR_NULL(name) "\"" name "\":{\"type\":[\"string\",\"null\"]}"
#define VM_ID STRING("vmId", "Id of the VM")
#define USER STRING("user", "Linux user to act as; default root")
#define TIMEOUT INTEGER("timeoutMs", "1", "3600000", "Time limit in milliseconds; default 300000")
#define MAX_OUTPUT INTEGER("maxOutputBytes", "256", "4194304", \
	"Maximum bytes of stdout and of stderr to return; longer output is shortened in the middle. Default 65536")
#define ENV "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}," \
	"\"description\":\"More environment variables\"}"
#define CWD STRING("cwd", "Absolute path of the directory to run it in")
/* clang-format on */

/* ---- arguments that are not the route's own ---- */

static int translate_create(struct request *req, json_t *args, struct err *err)
{
	const json_t *e = json_object_get(args, "ephemeral");

	if (e && !json_is_null(e) && !json_is_boolean(e))
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'ephemeral' must be true or false");
	/* A command that computes for an hour without network traffic is not idle. */
	json_object_set_new(args, "countExecAsActivity", json_true());
	if (json_is_true(e))
		json_object_set_new(
		        args, "persistence",
		        json_pack("{s:s, s:s}", "type", "ephemeral", "deleteEvent", "OnSuspend"));
	return 0;
}

/* The default name is made of the VM's id and the port, so it cannot be taken. */
static void prepare_expose(struct request *req, json_t *args)
{
	const char *vm = json_string_value(json_object_get(args, "vmId"));
	const json_t *domain = json_object_get(args, "domain");

	if (vm && (!domain || json_is_null(domain)))
		json_object_set_new(
		        args, "domain",
		        json_sprintf("%s-%lld.%s", vm,
		                     (long long)json_integer_value(json_object_get(args, "port")),
		                     deps_of(req)->conf->domain));
}

/* The route calls it vmPort and checks its type and range. */
static int translate_expose(struct request *req, json_t *args, struct err *err)
{
	json_object_set(args, "vmPort", json_object_get(args, "port"));
	return 0;
}

static int translate_list(struct request *req, json_t *args, struct err *err)
{
	static const char *const names[][2] = { { "search", "search" },
		                                { "state", "vmState" },
		                                { "limit", "limit" },
		                                { "offset", "offset" } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		const json_t *v = json_object_get(args, names[i][0]);
		char number[32];

		if (!v || json_is_null(v)) {
			if (strcmp(names[i][0], "limit") == 0)
				r = mcp_add_query(req, "limit", LIST_LIMIT, err);
			continue;
		}
		if (json_is_integer(v))
			snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
		else if (!json_is_string(v))
			return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
			               "'%s' is of the wrong type", names[i][0]);
		r = mcp_add_query(req, names[i][1],
		                  json_is_string(v) ? json_string_value(v) : number, err);
	}
	return r;
}

/* ---- the table ---- */

/* clang-format off */
static const struct mcp_tool tools[] = {
	{ "vm_create", "Create a VM",
	  "Creates a Linux VM (Debian, root, network, Python with numpy, pandas and matplotlib, Node.js, git) and "
	  "returns its id. It is isolated from everything else, so it can run untrusted code. It suspends when idle and wakes at the next call, with its memory.",
	  METHOD_POST, "/v1/vms", 0,
	  OBJECT("",
		STRING("name", "A label") ","
		STRING("snapshotId", "Snapshot to start from, with its memory; default: the base template") ","
		INTEGER("idleTimeoutSeconds", "1", "31536000", "Seconds without activity until it suspends; default 300") ","
		BOOL("ephemeral", "Delete it instead of suspending it")),
	  RESULT("\"id\"", TEXT("id") "," TEXT_OR_NULL("snapshotId")),
	  .translate = translate_create, .keep = "id snapshotId" },
	{ "vm_list", "List VMs", "Lists VMs and their states.",
	  METHOD_GET, "/v1/vms", MCP_READS,
	  OBJECT("",
		STRING("search", "Part of an id or a name") ","
		ENUM("state", "\"building\",\"starting\",\"running\",\"suspending\",\"suspended\",\"stopped\",\"lost\"", "Only VMs in this state") ","
		INTEGER("limit", "1", "1000", "At most this many; default 100") ","
		INTEGER("offset", "0", "1000000", "Skip this many")),
	  RESULT("\"vms\",\"totalCount\"", "\"vms\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}," NUMBER("totalCount")),
	  .translate = translate_list, .list = "vms", .keep = "id name state createdAt snapshotId parentVmId" },
	{ "exec", "Run a command",
	  "Runs a shell command in a VM, waits for it and returns stdout, stderr and the exit code. A VM that is suspended or "
	  "stopped is woken. Use run_code to keep variables between calls, exec_background for servers.",
	  METHOD_POST, "/v1/vms/{vm_id}/exec-await", MCP_DESTROYS | MCP_OPEN_WORLD,
	  OBJECT("\"vmId\",\"command\"",
		VM_ID "," STRING("command", "Command line for /bin/sh") "," CWD "," ENV "," USER "," TIMEOUT "," MAX_OUTPUT),
	  RESULT("\"exitCode\",\"stdout\",\"stderr\"",
		NUMBER("exitCode") "," TEXT("stdout") "," TEXT("stderr") "," TEXT("signal") "," NUMBER("durationMs")),
	  .open = mcp_exec_open },
	{ "exec_background", "Start a command in the background",
	  "Starts a shell command in a VM and returns at once; it runs until it ends or the VM is stopped. Redirect its "
	  "output to a file to read it later.",
	  METHOD_POST, "/v1/vms/{vm_id}/exec", MCP_DESTROYS | MCP_OPEN_WORLD | MCP_AS_JSON,
	  OBJECT("\"vmId\",\"command\"",
		VM_ID "," STRING("command", "Command line for /bin/sh") "," CWD "," ENV "," USER),
	  RESULT("\"processId\",\"pid\"", TEXT("processId") "," NUMBER("pid")),
	  .add = "{\"detach\":true}" },
	{ "run_code", "Run code",
	  "Runs code in a kernel that keeps variables, imports and open files from call to call, also while the VM is suspended "
	  "and in forks of it. Returns output, the value of the last expression, and figures (matplotlib) as images.",
	  METHOD_POST, "/v1/vms/{vm_id}/code", MCP_DESTROYS | MCP_OPEN_WORLD,
	  OBJECT("\"vmId\",\"code\"",
		VM_ID "," STRING("code", "The code") ","
		ENUM("language", "\"python\",\"javascript\",\"typescript\",\"bash\"", "Default python") ","
		STRING("contextId", "Context to run it in; default: the VM's one for that language") "," USER "," TIMEOUT ","
		MAX_OUTPUT),
	  RESULT("\"contextId\",\"stdout\",\"stderr\",\"results\"",
		TEXT("contextId") "," TEXT("language") "," NUMBER("executionCount") "," NUMBER("durationMs") "," TEXT("stdout") ","
		TEXT("stderr") ",\"results\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"
		"\"error\":{\"type\":\"object\",\"properties\":{" TEXT("name") "," TEXT("value") "," TEXT("traceback") "}},"
		"\"files\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}"),
	  .open = mcp_code_open },
	{ "file_read", "Read a file",
	  "Reads a file in a VM: text as text, images as images, everything else as base64.",
	  METHOD_GET, "/v1/vms/{vm_id}/files/{path}", MCP_READS | MCP_WHOLE,
	  OBJECT("\"vmId\",\"path\"",
		VM_ID "," STRING("path", "Absolute, or from the VM's working directory") ","
		INTEGER("offset", "0", "9223372036854775807", "Byte to begin at; default 0") ","
		INTEGER("maxBytes", "1", "4194304", "Bytes to read at most; default 262144") "," USER),
	  NULL, .handler = mcp_file_read },
	{ "file_write", "Write a file",
	  "Writes a file in a VM atomically, replacing its content; missing directories are created.",
	  METHOD_PUT, "/v1/vms/{vm_id}/files/{path}", MCP_DESTROYS | MCP_IDEMPOTENT,
	  OBJECT("\"vmId\",\"path\",\"content\"",
		VM_ID "," STRING("path", "Absolute, or from the VM's working directory") "," STRING("content", "The content") ","
		ENUM("encoding", "\"utf8\",\"base64\"", "Of the content; default utf8") ","
		INTEGER("mode", "0", "4095", "Permission bits; default: as they are, or 420 (octal 644)") "," USER),
	  RESULT("\"path\",\"bytes\"", TEXT("path") "," NUMBER("bytes")), .handler = mcp_file_write },
	{ "file_list", "List a directory", "Lists names and kinds in a directory of a VM.",
	  METHOD_GET, "/v1/vms/{vm_id}/files/{path}", MCP_READS,
	  OBJECT("\"vmId\",\"path\"", VM_ID "," STRING("path", "Absolute, or from the VM's working directory") "," USER),
	  RESULT("\"path\",\"files\"", TEXT("path") ",\"files\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}"),
	  .handler = mcp_file_list },
	{ "vm_fork", "Fork a VM",
	  "Makes live, independent copies of a VM with its memory, processes and files: to try several things from one state. The VM itself continues.",
	  METHOD_POST, "/v1/vms/{vm_id}/fork", 0,
	  OBJECT("\"vmId\"", VM_ID "," INTEGER("count", "1", "100", "How many; default 1")),
	  RESULT("\"forks\"", "\"forks\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{" TEXT("id") "},"
		"\"required\":[\"id\"]}}"), .list = "forks", .keep = "id" },
	{ "vm_snapshot", "Snapshot a VM",
	  "Saves a VM's current state, with its memory, under an id that vm_create takes as snapshotId. The VM continues.",
	  METHOD_POST, "/v1/vms/{vm_id}/snapshot", 0,
	  OBJECT("\"vmId\"", VM_ID "," STRING("name", "A label")),
	  RESULT("\"snapshotId\"", TEXT("snapshotId") "," TEXT("sourceVmId")), .keep = "snapshotId sourceVmId" },
	{ "snapshot_list", "List snapshots", "Lists the snapshots of this account, from which VMs can be created.",
	  METHOD_GET, "/v1/vms/snapshots", MCP_READS, OBJECT("", ""),
	  RESULT("\"snapshots\"", "\"snapshots\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}"),
	  .list = "snapshots", .keep = "snapshotId name state sourceVmId createdAt failureReason" },
	{ "vm_suspend", "Suspend a VM",
	  "Freezes a VM with its memory; it then uses no processor time and no memory. Any later call on it wakes it.",
	  METHOD_POST, "/v1/vms/{vm_id}/suspend", MCP_IDEMPOTENT, OBJECT("\"vmId\"", VM_ID), NULL, .keep = "id" },
	{ "vm_start", "Start a VM",
	  "Wakes a suspended VM with its memory, or boots a stopped one. Calls on a VM do that by themselves.",
	  METHOD_POST, "/v1/vms/{vm_id}/start", MCP_IDEMPOTENT, OBJECT("\"vmId\"", VM_ID), NULL, .keep = "id" },
	{ "vm_stop", "Stop a VM", "Shuts a VM down. Its disk is kept; memory and processes are lost.",
	  METHOD_POST, "/v1/vms/{vm_id}/stop", MCP_DESTROYS | MCP_IDEMPOTENT, OBJECT("\"vmId\"", VM_ID), NULL,
	  .keep = "vmId" },
	{ "vm_delete", "Delete a VM", "Deletes a VM and its disk permanently.",
	  METHOD_DELETE, "/v1/vms/{vm_id}", MCP_DESTROYS | MCP_IDEMPOTENT, OBJECT("\"vmId\"", VM_ID), NULL, .keep = "id" },
	{ "port_expose", "Expose a port",
	  "Makes a port of a VM reachable under a name: the web server that listens on it answers at https://<domain>. Requests wake "
	  "the VM if it is suspended.",
	  METHOD_POST, "/domains/v1/mappings/{domain}", MCP_IDEMPOTENT | MCP_OPEN_WORLD,
	  OBJECT("\"vmId\",\"port\"",
		VM_ID "," INTEGER("port", "1", "65535", "Port that the server in the VM listens on") ","
		STRING("domain", "A free name below the server's base domain (my-app.pando.localhost unless the operator chose another), "
			"or below a domain that was verified. Default: one made of the VM's id and the port")),
	  NULL, .prepare = prepare_expose, .translate = translate_expose, .keep = "domain vmId vmPort" },
	{ "port_unexpose", "Remove a public name", "Unmaps a name from its VM.",
	  METHOD_DELETE, "/domains/v1/mappings/{domain}", MCP_DESTROYS | MCP_IDEMPOTENT,
	  OBJECT("\"domain\"", STRING("domain", "The name")), NULL },
};
/* clang-format on */

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
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		if (strcmp(tools[i].name, name) == 0)
			return mcp_tool_route(&tools[i]) ? &tools[i] : NULL;
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

	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		if (mcp_tool_route(&tools[i]))
			json_array_append_new(list, shape_tool(&tools[i]));
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
