/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - pando node: the machines that share one database */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cli.h"

enum { O_OFF, O_WAIT };
enum { O_LOSE };

static int list(struct cli *c, const struct cli_args *a)
{
	static const struct cli_col cols[] = {
		{ "NAME", "name" },
		{ "HEALTH", "health" },
		{ "DRAINING", "draining" },
		{ "RUNNING", "runningVms" },
		{ "VMS", "vms" },
		{ "UPLOADS", "pendingUploads" },
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

static const json_t *node_of(const json_t *reply, const char *id)
{
	const json_t *found = NULL;
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(reply, "nodes"), i, row)
	{
		if (strcmp(cli_str(row, "id"), id) == 0)
			found = row;
	}
	return found;
}

/* Until no VM is its own any more; says what is left whenever that changes. */
static int await_drained(struct cli *c, const json_t *drained)
{
	long long vms = -1, pending = -1;

	while (vms) {
		autojson json_t *reply = NULL;
		const json_t *n;
		long long v, p;
		int r;

		if (vms > 0)
			sleep(1);
		if ((r = cli_call(c, "GET", "/v1/cluster", NULL, &reply)) != CLI_OK)
			return r;
		n = node_of(reply, cli_str(drained, "id"));
		if (!n || !json_is_true(json_object_get(n, "draining")))
			return cli_fail(CLI_REFUSED, "the drain was ended, or the node is gone");
		v = json_integer_value(json_object_get(n, "vms"));
		p = json_integer_value(json_object_get(n, "pendingUploads"));
		if (v && !cli_json(c) && (v != vms || p != pending)) {
			printf("%lld VMs left, %lld files to upload\n", v, p);
			fflush(stdout);
		}
		vms = v;
		pending = p;
	}
	cli_say(c, drained, "is drained: it has no VMs any more");
	return CLI_OK;
}

static int drain(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/cluster/nodes/%s/drain", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", path, json_pack("{s:b}", "drain", !a->opt[O_OFF]), &reply);

	if (r == CLI_OK && a->opt[O_WAIT] && !a->opt[O_OFF])
		return await_drained(c, reply);
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
	  { [O_OFF] = { "off", NULL, "end that: it takes new VMs again" },
	    [O_WAIT] = { "wait", NULL,
	                 "until all of its VMs are stored and given up; says what is left" } },
	  .about = "With an object store the VMs are uploaded and given up, and any use resumes "
	           "them on "
	           "another node. Without one, what is used meanwhile is resumed on that node." },
	{ "remove",
	  "NODE",
	  "forget a node that is gone for good",
	  drop,
	  { [O_LOSE] = { "lose", NULL,
	                 "together with the VMs and snapshots that are not in the object "
	                 "store" } } },
};
const struct cli_noun cli_node = { "node", "machines that share one database", verbs,
	                           ARRAY_SIZE(verbs) };
