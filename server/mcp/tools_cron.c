/* SPDX-License-Identifier: Apache-2.0 */
/* tools_cron.c - the tools for schedules */
#include "mcp/mcp_internal.h"
#include "mcp/schema.h"

#include "base/auto.h"

/* clang-format off */
#define SCHEDULE STRING("schedule", "Id of the schedule")
#define WHAT(cron_text) \
	STRING("name", "A label") "," STRING("cron", cron_text) "," STRING("timezone", "Such as Europe/Berlin. Default: UTC") "," \
	OBJECT_OF("run", "{code: a script whose default export is called, nodeModules: {name: version}, envVars: {name: value}}") "," \
	STRING("deploymentId", "Instead of run: the deployment that gets a POST with the payload") "," \
	STRING("path", "Where the deployment gets it") "," OBJECT_OF("payload", "What the default export is called with, or what is posted") "," \
	INTEGER("retries", "0", "10", "How often a failure is tried again")

const struct mcp_tool mcp_cron_tools[] = {
	{ "schedule_create", "Run something at times",
	  "Runs a script in a VM of its own, or calls a deployment, at the times of a cron expression; no time is executed twice.",
	  METHOD_POST, "/v1/cron/schedules", MCP_OPEN_WORLD, OBJECT("\"cron\"", WHAT("minute hour day month weekday, or @hourly, @daily and so on")), NULL },
	{ "schedule_list", "List schedules", "Lists schedules with how they went in the last day.",
	  METHOD_GET, "/v1/cron/schedules", MCP_READS, OBJECT("", ""), NULL, .list = "schedules",
	  .keep = "id name cron timezone active deploymentId nextRunAt successRate averageLatencyMs executionCount" },
	{ "schedule_get", "Show a schedule", "Shows a schedule with what it runs. Values of variables are masked.",
	  METHOD_GET, "/v1/cron/schedules/{schedule}", MCP_READS, OBJECT("\"schedule\"", SCHEDULE), NULL },
	{ "schedule_executions", "Show what a schedule did", "Lists executions with their attempts and errors, newest first.",
	  METHOD_GET, "/v1/cron/schedules/{schedule}/executions", MCP_READS,
	  OBJECT("\"schedule\"", SCHEDULE "," INTEGER("limit", "1", "200", "At most so many")), NULL, .translate = mcp_translate_query, .list = "executions",
	  .keep = "id runAt status attempts lastError startedAt completedAt nextRetryAt" },
	{ "schedule_change", "Change, pause or resume a schedule", "Changes what is given; times before the change are over.",
	  METHOD_PATCH, "/v1/cron/schedules/{schedule}", MCP_IDEMPOTENT,
	  OBJECT("\"schedule\"", SCHEDULE "," BOOL("active", "false: it pauses") "," WHAT("minute hour day month weekday")), NULL },
	{ "schedule_delete", "Delete a schedule", "Deletes a schedule with its executions.",
	  METHOD_DELETE, "/v1/cron/schedules/{schedule}", MCP_DESTROYS | MCP_IDEMPOTENT, OBJECT("\"schedule\"", SCHEDULE), NULL },
};
/* clang-format on */
const size_t mcp_n_cron_tools = ARRAY_SIZE(mcp_cron_tools);
