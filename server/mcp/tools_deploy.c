/* SPDX-License-Identifier: Apache-2.0 */
/* tools_deploy.c - the tools for deployments */
#include "mcp/mcp_internal.h"
#include "mcp/schema.h"

#include "base/auto.h"

/* clang-format off */
#define DEPLOYMENT_ID STRING("deploymentId", "Id of the deployment")

const struct mcp_tool mcp_deploy_tools[] = {
	{ "deployment_create", "Put a server online",
	  "Builds and starts a server, and freezes it when it answers; requests for its names start it, as many times as they need. The server must "
	  "listen on 0.0.0.0, on the port in PORT. A failure has the end of its log.",
	  METHOD_POST, "/web/v1/deployment", MCP_OPEN_WORLD,
	  OBJECT("\"source\"",
		OBJECT_OF("source", "{kind: files, files: {path: {content}}}, {kind: git, url: id or URL of a repository, branch, dir}, or {kind: tar, url}") ","
		OBJECT_OF("config", "{domains: [name.style.dev], entrypoint: file, build: true or {command, outDir}, envVars: {name: value}, "
			"timeout: idle milliseconds, instances, requestsPerInstance, staticOnly, publicDir}")),
	  NULL, .keep = "deploymentId state domains buildId" },
	{ "deployment_list", "List deployments", "Lists the deployments of this account, newest first.",
	  METHOD_GET, "/web/v1/deployments", MCP_READS, OBJECT("", ""), NULL, .list = "entries", .keep = "deploymentId name state domains deployedAt failedReason" },
	{ "deployment_get", "Show a deployment", "Shows a deployment with its names and instances.",
	  METHOD_GET, "/web/v1/deployments/{deployment_id}", MCP_READS, OBJECT("\"deploymentId\"", DEPLOYMENT_ID), NULL },
	{ "deployment_logs", "Read a deployment's log", "Shows what the server printed, and requests for its names.",
	  METHOD_GET, "/observability/v1/logs", MCP_READS,
	  OBJECT("\"deploymentId\"", DEPLOYMENT_ID "," STRING("search", "Only lines with this text")), NULL, .translate = mcp_translate_query, .list = "logs", .keep = "timestamp message instanceId" },
	{ "deployment_delete", "Delete a deployment", "Deletes a deployment with its names, instances and snapshot; requests under way are cut.",
	  METHOD_DELETE, "/web/v1/deployments/{deployment_id}", MCP_DESTROYS | MCP_IDEMPOTENT, OBJECT("\"deploymentId\"", DEPLOYMENT_ID), NULL },
};
/* clang-format on */
const size_t mcp_n_deploy_tools = ARRAY_SIZE(mcp_deploy_tools);
