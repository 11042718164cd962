/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - pando node: the machines that share one database */
#include "base/auto.h"
#include "cli/cli.h"

enum { O_OFF };
enum { O_LOSE };

static int list(struct cli *c, const struct cli_args *a)
{
	static const struct cli_col cols[] = {
		{ "NAME", "name" },
		{ "HEALTH", "health" },
		{ "DRAINING", "draining" },
		{ "VMS", "runningVms" },
		{ "FREE MB", "freeMemoryMb" },
		{ "ADDRESS", "address" },
		{ "VERSION", "version" },
		{ "ID", "id" },
	};
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/cluster", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "nodes"), cols, ARRAY_SIZE(cols));
	return r;
}

static int drain(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/cluster/nodes/%s/drain", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", path, json_pack("{s:b}", "drain", !a->opt[O_OFF]), &reply);

	if (r == CLI_OK)
		cli_say(c, reply, a->opt[O_OFF] ? "takes new VMs again" : "is being drained");
	return r;
}

static int drop(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(
	        c, a->opt[O_LOSE] ? "/v1/cluster/nodes/%s?lose=true" : "/v1/cluster/nodes/%s",
	        a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "removed");
	return r;
}

static const struct cli_verb verbs[] = {
	{ "list", "", "nodes with their health and load", list, { { 0 } } },
	{ "drain",
	  "NODE",
	  "suspend a node's VMs and give it no new ones, before it is stopped",
	  drain,
	  { [O_OFF] = { "off", NULL, "end that: it takes new VMs again" } },
	  .about = "What is used meanwhile is resumed on that node; nothing else has its layers." },
	{ "remove",
	  "NODE",
	  "forget a node that is gone for good",
	  drop,
	  { [O_LOSE] = { "lose", NULL, "together with the VMs and snapshots that only it has" } } },
};
const struct cli_noun cli_node = { "node", "machines that share one database", verbs,
	                           ARRAY_SIZE(verbs) };
