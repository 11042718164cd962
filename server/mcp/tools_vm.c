/* SPDX-License-Identifier: Apache-2.0 */
/* tools_vm.c - the tools for VMs: create, use, copy, freeze, look at, give a name */
#include "mcp/mcp_internal.h"
#include "mcp/schema.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "conf.h"

#define LIST_LIMIT "100" /* items, when the model names no limit */

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
	const json_t *limit = json_object_get(args, "limit");

	if (json_object_get(args, "state"))
		json_object_set(args, "vmState", json_object_get(args, "state"));
	json_object_del(args, "state");
	if (!limit || json_is_null(limit))
		json_object_set_new(args, "limit", json_string(LIST_LIMIT));
	return mcp_translate_query(req, args, err);
}

/* ---- the table ---- */

/* clang-format off */
const struct mcp_tool mcp_vm_tools[] = {
	{ "vm_create", "Create a VM",
	  "Creates a Linux VM (Debian, root, network, Python with numpy, pandas and matplotlib, Node.js, git) and "
	  "returns its id. It is isolated from everything else, so it can run untrusted code. It suspends when idle and wakes at the next call, with its memory.",
	  METHOD_POST, "/v1/vms", 0,
	  OBJECT("",
		STRING("name", "A label") ","
		STRING("snapshotId", "Snapshot to start from, with its memory; default: the base template") ","
		INTEGER("idleTimeoutSeconds", "1", "31536000", "Seconds without activity until it suspends; default 300") ","
		BOOL("ephemeral", "Delete it instead of suspending it") ","
		OBJECT_OF("egress", "What it may reach, as egress_set takes it; default: the internet") ","
		LIST_OF("nics", "[{vpc, ipv4}]: its place in a private network (vpc_create)", "object")),
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
		ENUM("language", "\"python\",\"javascript\",\"typescript\",\"bash\",\"ruby\"", "Default python") ","
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
	  OBJECT("\"vmId\"", VM_ID "," INTEGER("count", "1", "100", "How many; default 1") "," BOOL("spread", "Over several machines of a cluster")),
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
	{ "snapshot_build", "Build a snapshot from a spec",
	  "Builds a state that VMs can start from: packages, files, users, services, repositories. Layers that were built before come "
	  "from a cache. What takes longer than 20 seconds goes on in the background: ask build_result with the requestId.",
	  METHOD_POST, "/v1/vms/snapshots", MCP_BACKGROUND | MCP_OPEN_WORLD,
	  OBJECT("\"spec\"",
		OBJECT_OF("spec", "One layer: {aptDeps: [package], additionalFiles: {path: {content}}, runtimes: [bun or deno], "
			"systemd: {services: [{name, exec: [command]}]}, git: {repos: [{repo, path}]}}") ","
		STRING("name", "A label")),
	  NULL, .keep = "snapshotId buildId requestId status" },
	{ "build_result", "Result of a build", "Asks what became of a build in the background: its snapshotId, or that it is still running.",
	  METHOD_GET, "/auth/v1/background-requests/{request_id}", MCP_READS,
	  OBJECT("\"requestId\"", STRING("requestId", "Of snapshot_build")), NULL },
	{ "build_list", "List builds", "Lists builds of specs, newest first, with their states and why they failed.",
	  METHOD_GET, "/v1/vms/builds", MCP_READS,
	  OBJECT("", ENUM("state", "\"building\",\"succeeded\",\"failed\"", "Only these") "," INTEGER("limit", "1", "1000", "At most this many")),
	  NULL, .translate = mcp_translate_query, .list = "builds", .keep = "buildId state failureReason plannedPhases startedAt finishedAt" },
	{ "vm_tree", "Show the tree",
	  "Shows how VMs and snapshots descend from each other, around one VM.",
	  METHOD_GET, "/v1/vms/{vm_id}/tree", MCP_READS, OBJECT("\"vmId\"", VM_ID), NULL },
	{ "vm_rewind", "Rewind a VM",
	  "Takes a VM back to one of its earlier snapshots, with the memory it had. Its present state is kept as a snapshot.",
	  METHOD_POST, "/v1/vms/{vm_id}/rewind", 0,
	  OBJECT("\"vmId\",\"snapshotId\"", VM_ID "," STRING("snapshotId", "An ancestor of the VM")), NULL,
	  .keep = "id snapshotId state previousSnapshotId" },
	{ "vm_diff", "Compare files",
	  "Lists the files that differ between a VM and a relative: a fork, its parent, or a snapshot.",
	  METHOD_GET, "/v1/vms/{vm_id}/diff", MCP_READS,
	  OBJECT("\"vmId\",\"with\"",
		VM_ID "," STRING("with", "Id of the other VM or snapshot") "," STRING("path", "Only below this directory") ","
		INTEGER("limit", "1", "1000", "At most this many")),
	  NULL, .translate = mcp_translate_query },
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
const size_t mcp_n_vm_tools = ARRAY_SIZE(mcp_vm_tools);
