/* SPDX-License-Identifier: Apache-2.0 */
/* build_list.c - pando build: what specs were built, how far it got, and its log */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/logs.h"
#include "cli/resolve.h"

static const struct cli_col cols[] = {
	{ "ID", "buildId" },
	{ "STATE", "state" },
	{ "STARTED", "startedAt" },
	{ "FINISHED", "finishedAt" },
	{ "FAILED BECAUSE", "failureReason" },
};
static const struct cli_col get_cols[] = {
	{ "id", "buildId" },        { "state", "state" },
	{ "started", "startedAt" }, { "finished", "finishedAt" },
	{ "why", "failureReason" }, { "steps", "plannedPhases" },
	{ "request", "requestId" }, { "content hash", "templateHash" },
};
static const struct cli_col phase_cols[] = {
	{ "STEP", "name" },
	{ "STARTED", "startedAt" },
	{ "SNAPSHOT", "snapshotId" },
};

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/vms/builds");
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &path, "state", a->opt[0]);
	cli_query(c, &path, "limit", a->opt[1] ? a->opt[1] : "100");
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "builds"), cols, ARRAY_SIZE(cols));
	return r;
}

/* A build, by its own id or as that of a VM. */
static int find(struct cli *c, const char *name, json_t **ret)
{
	autofree char *path = NULL;

	if (strncmp(name, "bld-", 4) != 0)
		return cli_vm_call(c, name, "GET", "/build", NULL, ret);
	path = cli_path(c, "/v1/vms/builds/%s", name);
	return cli_call(c, "GET", path, NULL, ret);
}

static int get(struct cli *c, const struct cli_args *a)
{
	autojson json_t *build = NULL, *phases = NULL;
	autofree char *path = NULL;
	int r = find(c, a->arg[0], &build);

	if (r != CLI_OK)
		return r;
	cli_show(c, build, get_cols, ARRAY_SIZE(get_cols));
	if (cli_json(c))
		return CLI_OK;
	path = cli_path(c, "/v1/vms/builds/%s/phases", cli_str(build, "buildId"));
	r = cli_call(c, "GET", path, NULL, &phases);
	if (r == CLI_OK)
		cli_table(c, phases, json_object_get(phases, "phases"), phase_cols,
		          ARRAY_SIZE(phase_cols));
	return r;
}

static int show_log(struct cli *c, const struct cli_args *a)
{
	AUTO(logs_done) struct logs_reader l = { 0 };
	autojson json_t *build = NULL;
	int r = find(c, a->arg[0], &build);

	if (r != CLI_OK)
		return r;
	l.query = cli_path(c, "/observability/v1/logs?buildId=%s", cli_str(build, "buildId"));
	l.whole = !a->opt[0];
	return logs_show(c, &l, a->opt[0], a->opt[1] != NULL);
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "list", "", "list builds, newest first", list,
	  { { "state", "STATE", "only builds in this state", 's' },
	    { "limit", "N", "at most this many (100)", 'n', CLI_NUMBER, .min = 1, .max = 1000 } } },
	{ "get", "BUILD", "show a build with its steps; BUILD may be a VM: the one it came from", get },
	{ "log", "BUILD", "show what a build printed", show_log,
	  { { "lines", "N", "only the last N", 'n', CLI_NUMBER, .min = 1, .max = 1000 },
	    { "follow", NULL, "follow new lines", 'f' } } },
};
/* clang-format on */
const struct cli_noun cli_build = {
	"build", "builds of specs", verbs, ARRAY_SIZE(verbs),
	"'pando vm create -f SPEC' and 'pando snapshot build SPEC' build; "
	"this shows what became of it."
};
