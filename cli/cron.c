/* SPDX-License-Identifier: Apache-2.0 */
/* cron.c - pando cron: scripts at the times of a cron expression */
#include <stdlib.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/script.h"

static const struct cli_col list_cols[] = {
	{ "ID", "id" },          { "NAME", "name" },     { "CRON", "cron" },
	{ "ZONE", "timezone" },  { "ACTIVE", "active" }, { "NEXT", "nextRunAt" },
	{ "OK", "successRate" },
};
static const struct cli_col execution_cols[] = {
	{ "TIME", "runAt" },     { "STATUS", "status" },   { "TRIES", "attempts" },
	{ "RUN", "instanceId" }, { "ERROR", "lastError" },
};

enum { C_NAME = SCRIPT_OPTS, C_ZONE, C_RETRIES };

static int create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	autofree char *text = NULL;
	json_t *run = NULL, *body, *made;
	int r = script_text(a->arg[1], &text);

	if (r == CLI_OK)
		r = script_config(a, &run);
	if (r != CLI_OK)
		return r;
	json_object_set_new(run, "code", json_string(text));
	body = json_pack("{s:s, s:o}", "cron", a->arg[0], "run", run);
	if (a->opt[C_NAME])
		json_object_set_new(body, "name", json_string(a->opt[C_NAME]));
	if (a->opt[C_ZONE])
		json_object_set_new(body, "timezone", json_string(a->opt[C_ZONE]));
	if (a->opt[C_RETRIES])
		json_object_set_new(body, "retries", json_integer(a->num[C_RETRIES]));
	r = cli_call(c, "POST", "/v1/cron/schedules", body, &reply);
	made = json_object_get(reply, "schedule");
	if (r == CLI_OK)
		cli_say(c, reply, "%s, next at %s", cli_str(made, "id"),
		        cli_str(made, "nextRunAt"));
	return r;
}

static int call(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *body =
	        json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "cron", a->arg[0], "deploymentId",
	                  a->arg[1], "path", a->opt[0], "name", a->opt[1], "timezone", a->opt[2]);
	json_t *made;
	int r;

	if (a->opt[3])
		json_object_set_new(body, "retries", json_integer(a->num[3]));
	r = cli_call(c, "POST", "/v1/cron/schedules", body, &reply);
	made = json_object_get(reply, "schedule");
	if (r == CLI_OK)
		cli_say(c, reply, "%s, next at %s", cli_str(made, "id"),
		        cli_str(made, "nextRunAt"));
	return r;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/cron/schedules", NULL, &reply);

	(void)a;
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "schedules"), list_cols,
		          ARRAY_SIZE(list_cols));
	return r;
}

static int set_active(struct cli *c, const struct cli_args *a, bool active)
{
	autofree char *path = cli_path(c, "/v1/cron/schedules/%s", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "PATCH", path, json_pack("{s:b}", "active", active), &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "%s", active ? "resumed" : "paused");
	return r;
}

static int pause_it(struct cli *c, const struct cli_args *a)
{
	return set_active(c, a, false);
}

static int resume(struct cli *c, const struct cli_args *a)
{
	return set_active(c, a, true);
}

static int drop(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/cron/schedules/%s", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "deleted");
	return r;
}

static int executions(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/cron/schedules/%s/executions", a->arg[0]);
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &path, "limit", a->opt[0]);
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "executions"), execution_cols,
		          ARRAY_SIZE(execution_cols));
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "create", "CRON FILE", "run a script at the times of a cron expression; '-' is stdin", create,
	  { SCRIPT_CONFIG_OPTS,
	    { "name", "NAME", "its name" },
	    { "timezone", "ZONE", "such as Europe/Berlin; UTC if absent" },
	    { "retries", "N", "attempts after one that failed", 0, CLI_NUMBER, .min = 0, .max = 10 } },
	  .examples = "pando cron create '30 8 * * mon-fri' report.ts --timezone Europe/Berlin # each working day\n" },
	{ "call", "CRON DEPLOYMENT", "send a deployment a POST at the times of a cron expression", call,
	  { { "path", "PATH", "such as /tick; / if absent" },
	    { "name", "NAME", "its name" },
	    { "timezone", "ZONE", "such as Europe/Berlin; UTC if absent" },
	    { "retries", "N", "attempts after one that failed", 0, CLI_NUMBER, .min = 0, .max = 10 } } },
	{ "list", "", "schedules, and the share that succeeded in the last day", list },
	{ "pause", "SCHEDULE", "execute nothing until it is resumed", pause_it },
	{ "resume", "SCHEDULE", "from its next time on", resume },
	{ "delete", "SCHEDULE", "delete it with its executions", drop },
	{ "executions", "SCHEDULE", "what came of its times, newest first", executions,
	  { { "limit", "N", "at most this many", 0, CLI_NUMBER, .min = 1, .max = 200 } } },
};
/* clang-format on */
const struct cli_noun cli_cron = { "cron", "scripts at the times of a cron expression", verbs,
	                           ARRAY_SIZE(verbs) };
