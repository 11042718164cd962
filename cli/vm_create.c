/* SPDX-License-Identifier: Apache-2.0 */
/* vm_create.c - pando vm create: from the template, a snapshot or a spec */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/build.h"
#include "cli/cli.h"
#include "cli/resolve.h"
#include "cli/vm_set.h"

enum {
	O_NAME,
	O_SNAPSHOT,
	O_SPEC,
	O_APT,
	O_CPU,
	O_MEMORY,
	O_DISK,
	O_IDLE,
	O_KEEP,
	O_QUIET,
	O_ENV,
	O_TAG,
	O_METADATA,
	O_DELETE_AFTER,
	O_SELF,
	O_RUNTIME,
	O_VPC,
	O_ADDRESS,
	O_EGRESS,
	O_CHECKPOINT
};

/* --vpc, --address: its NIC in a private network; --egress: what it may reach. */
static int add_network(struct cli *c, const struct cli_args *a, json_t *body)
{
	autofree char *vpc = NULL;
	const char *egress = a->opt[O_EGRESS];
	json_t *policy;
	int r;

	if (a->opt[O_ADDRESS] && !a->opt[O_VPC])
		return cli_fail(CLI_USAGE, "--address is an address of a private network: give "
		                           "--vpc, too");
	if (a->opt[O_VPC]) {
		vpc = cli_vpc_id(c, a->opt[O_VPC]);
		if (!vpc)
			return CLI_REFUSED;
		json_object_set_new(body, "nics",
		                    json_pack("[{s:s, s:s, s:o}]", "vpc", vpc, "mode", "routed",
		                              "ipv4",
		                              a->opt[O_ADDRESS] ? json_string(a->opt[O_ADDRESS])
		                                                : json_true()));
	}
	if (!egress)
		return CLI_OK;
	if (strcmp(egress, "open") == 0 || strcmp(egress, "closed") == 0)
		policy = json_pack("{s:s}", "mode", egress);
	else if ((r = build_json(egress, &policy)) != CLI_OK)
		return r;
	json_object_set_new(body, "egress", policy);
	return CLI_OK;
}

static int make_body(struct cli *c, const struct cli_args *a, json_t **ret)
{
	static const struct {
		int opt;
		const char *member;
	} sizes[] = { { O_CPU, "vcpuCount" },
		      { O_MEMORY, "memSizeGb" },
		      { O_DISK, "rootfsSizeGb" } };
	autojson json_t *body = NULL;
	autofree char *snapshot = NULL;
	json_t *v;
	int r = CLI_OK;

	if (a->opt[O_SPEC] && (r = build_body(a->opt[O_SPEC], &body)) != CLI_OK)
		return r;
	if (!body)
		body = json_object();
	if (a->opt[O_SNAPSHOT] && !(snapshot = cli_snapshot_id(c, a->opt[O_SNAPSHOT])))
		return CLI_REFUSED;
	if (snapshot)
		json_object_set_new(body, "snapshotId", json_string(snapshot));
	if (a->opt[O_NAME])
		json_object_set_new(body, "name", json_string(a->opt[O_NAME]));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (a->opt[sizes[i].opt])
			json_object_set_new(body, sizes[i].member,
			                    json_integer(a->num[sizes[i].opt]));
	vm_tags(a, O_TAG, body);
	if ((r = vm_pairs(a, O_ENV, "env", "env", body)) != CLI_OK ||
	    (r = vm_pairs(a, O_METADATA, "metadata", "metadata", body)) != CLI_OK ||
	    (r = vm_never_or_time("delete-after", a->opt[O_DELETE_AFTER], "deleteAfterSeconds",
	                          body)) != CLI_OK ||
	    (r = vm_never_or_time("idle", a->opt[O_IDLE], "idleTimeoutSeconds", body)) != CLI_OK ||
	    (r = vm_never_or_time("checkpoint-every", a->opt[O_CHECKPOINT],
	                          "checkpointEverySeconds", body)) != CLI_OK)
		return r;
	if (a->opt[O_SELF])
		json_object_set_new(body, "selfAccess", json_true());
	if (a->opt[O_KEEP])
		json_object_set_new(body, "persistence",
		                    json_pack("{s:s}", "type", a->opt[O_KEEP]));
	if (a->opt[O_APT]) {
		json_t *spec = json_object_get(body, "spec");

		if (!spec) {
			spec = json_object();
			json_object_set_new(body, "spec", spec);
		}
		v = json_array();
		for (size_t i = 0; i < a->list[O_APT].n; i++)
			json_array_append_new(v, json_string(a->list[O_APT].v[i]));
		json_object_set_new(spec, "aptDeps", v);
	}
	if (a->opt[O_RUNTIME]) {
		v = json_array();
		for (size_t i = 0; i < a->list[O_RUNTIME].n; i++)
			json_array_append_new(v, json_string(a->list[O_RUNTIME].v[i]));
		json_object_set_new(body, "runtimes", v);
	}
	if ((r = add_network(c, a, body)) != CLI_OK)
		return r;
	*ret = TAKE_PTR(body);
	return CLI_OK;
}

static int create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *body = NULL, *reply = NULL;
	int r = make_body(c, a, &body);

	if (r != CLI_OK)
		return r;
	r = build_request(c, "/v1/vms", body, a->opt[O_QUIET] || cli_json(c), &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "id"));
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "create", "", "create a VM and print its id", create,
	  { { "name", "NAME", "its name" },
	    { "snapshot", "SNAPSHOT", "from this snapshot, including memory", 's' },
	    { "spec", "FILE", "set up from this JSON file ('-': stdin)", 'f' },
	    { "apt", "PACKAGE", "install this Debian package", .type = CLI_LIST },
	    { "cpu", "N", "vCPUs; a power of two", 'c', CLI_NUMBER, .min = 1, .max = 1024 },
	    { "memory", "GB", "memory; a power of two", 'm', CLI_NUMBER, .min = 1, .max = 65536 },
	    { "disk", "GB", "root disk", 'd', CLI_NUMBER, .min = 1, .max = 1048576 },
	    { "idle", "TIME", "suspend after this long without activity, or 'never' (5m)" },
	    { "keep", "HOW", "sticky VMs may be evicted, ephemeral ones are deleted when they would be suspended",
	      .type = CLI_CHOICE, .choices = "sticky ephemeral persistent" },
	    { "quiet", NULL, "do not show the build log", 'q' },
	    { "env", "NAME=VALUE", "a variable that everything in the VM sees; may be repeated", 'e', CLI_LIST },
	    { "tag", "TAG", "a tag; may be repeated", 't', CLI_LIST },
	    { "metadata", "NAME=VALUE", "metadata; may be repeated", .type = CLI_LIST },
	    { "delete-after", "TIME", "delete it after this long" },
	    { "self-access", NULL, "its programs may fork, snapshot, suspend and rewind it: 'pando self' inside" },
	    { "runtime", "NAME", "with this runtime: bun or deno; may be repeated", .type = CLI_LIST },
	    { "vpc", "VPC", "in this private network" },
	    { "address", "IPV4", "with this address of it; default: a free one" },
	    { "egress", "POLICY", "what it may reach: open, closed, or a JSON file with a policy (open)" },
	    { "checkpoint-every", "TIME", "freeze it this often while it runs, to have something to rewind to" } },
	  .about = "Without options: a copy of the template, ready at once. A spec is built layer by "
	           "layer; layers that were built before are taken from the cache, and the log of new "
	           "ones is shown on stderr. A failed build leaves a snapshot for inspection and prints "
	           "its id.\n\n"
	           "FILE is a layer (aptDeps, additionalFiles, users, systemd, git, ...) or a whole "
	           "request "
	           "with 'spec' in it.",
	  .examples = "pando vm create --name web --idle never # a VM that stays awake\n"
	              "pando vm create --apt nginx # with a package; the second time from the cache\n"
	              "pando vm create -f spec.json # set up by a spec" },
};
/* clang-format on */
const struct cli_noun cli_vm_create = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
