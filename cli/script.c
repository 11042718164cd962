/* SPDX-License-Identifier: Apache-2.0 */
/* script.c - pando script: run JavaScript and TypeScript with packages of npm, each time in a new
 * VM */
#include "cli/script.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/vm_set.h"

#define SCRIPT_MAX (1u << 20)

static const struct cli_col list_cols[] = {
	{ "RUN", "deployment" }, { "STATE", "state" },           { "FAILED", "failed" },
	{ "TOOK", "duration" },  { "CREATED", "provisionedAt" }, { "SCHEDULE", "scheduleId" },
};

int script_text(const char *file, char **ret)
{
	struct err err = { 0 };

	if (io_read_file(AT_FDCWD, strcmp(file, "-") == 0 ? "/dev/stdin" : file, SCRIPT_MAX, ret,
	                 &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	return CLI_OK;
}

static int add_module(json_t *modules, const char *s)
{
	const char *at = *s ? strchr(s + 1, '@') : NULL; /* "@scope/name@1.0" */
	autofree char *name = at ? strndup(s, (size_t)(at - s)) : strdup(s);

	if (!name)
		cli_oom();
	if (!*name)
		return cli_fail(CLI_USAGE, "--module wants NAME@VERSION, not '%s'", s);
	json_object_set_new(modules, name, json_string(at && at[1] ? at + 1 : "latest"));
	return CLI_OK;
}

int script_config(const struct cli_args *a, json_t **ret)
{
	json_t *config = json_object(), *modules = json_object();
	int r = vm_pairs(a, SCRIPT_ENV, "env", "envVars", config);

	for (size_t i = 0; r == CLI_OK && i < a->list[SCRIPT_MODULE].n; i++)
		r = add_module(modules, a->list[SCRIPT_MODULE].v[i]);
	json_object_set_new(config, "nodeModules", modules);
	if (a->opt[SCRIPT_INFER])
		json_object_set_new(config, "inferNodeModules", json_true());
	if (a->opt[SCRIPT_TIMEOUT])
		json_object_set_new(config, "timeout",
		                    json_integer((a->num[SCRIPT_TIMEOUT] + 999) / 1000));
	if (r != CLI_OK) {
		json_decref(config);
		return r;
	}
	*ret = config;
	return CLI_OK;
}

/* What it printed goes where it would have gone. */
static void put_logs(const json_t *logs)
{
	json_t *log;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)logs, i, log)
	{
		FILE *f = strcmp(cli_str(log, "type"), "error") ? stdout : stderr;

		cli_put_text(f, cli_str(log, "message"));
		fputc('\n', f);
	}
}

static int run(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	autofree char *text = NULL, *result = NULL;
	json_t *config = NULL, *value;
	struct err err = { 0 };
	long status;
	int r = script_text(a->arg[0], &text);

	if (r == CLI_OK)
		r = script_config(a, &config);
	if (r != CLI_OK)
		return r;
	status = cli_try(c, NULL, "POST", "/execute/v3/script",
	                 json_pack("{s:s, s:o}", "script", text, "config", config), &reply, &err);
	if (status < 0)
		return cli_fail(CLI_UNREACHABLE, "%s", err.msg);
	if (!cli_json(c) || status != 200)
		put_logs(json_object_get(reply, "logs"));
	if (status != 200)
		return cli_refused(c, status, reply);
	value = json_object_get(reply, "result");
	result = json_dumps(value, JSON_ENCODE_ANY | JSON_INDENT(2));
	if (cli_json(c) || !json_is_null(value))
		cli_say(c, reply, "%s", result ? result : "");
	return CLI_OK;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/execute/v1/deployments");
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &path, "limit", a->opt[0]);
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "entries"), list_cols,
		          ARRAY_SIZE(list_cols));
	return r;
}

static int output(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/execute/v1/deployments/%s/output", a->arg[0]);
	autojson json_t *reply = NULL;
	autofree char *result = NULL;
	int r = cli_call(c, "GET", path, NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (!cli_json(c))
		put_logs(json_object_get(reply, "logs"));
	if (!cli_json(c) && json_is_string(json_object_get(reply, "error")))
		return cli_fail(CLI_REFUSED, "%s", cli_str(reply, "error"));
	result = json_dumps(json_object_get(reply, "result"), JSON_ENCODE_ANY | JSON_INDENT(2));
	cli_say(c, reply, "%s", result ? result : "");
	return CLI_OK;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "run", "FILE", "run a script in a VM of its own and print what its default export returns; '-' is stdin", run,
	  { SCRIPT_CONFIG_OPTS },
	  .examples = "pando script run report.ts -m ms@2.1.3 -e TOKEN=x # with a package and a variable\n" },
	{ "list", "", "runs, newest first", list,
	  { { "limit", "N", "at most this many", 0, CLI_NUMBER, .min = 1, .max = 200 } } },
	{ "output", "RUN", "what a run printed and returned", output },
};
/* clang-format on */
const struct cli_noun cli_script = {
	"script", "run JavaScript and TypeScript with packages of npm, each time in a new VM",
	verbs, ARRAY_SIZE(verbs)
};
