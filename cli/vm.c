/* SPDX-License-Identifier: Apache-2.0 */
/* vm.c - pando vm: listing and lifecycle; other verbs of the noun are in vm_*.c */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/resolve.h"

static const struct cli_col list_cols[] = {
	{ "ID", "id" },
	{ "NAME", "name" },
	{ "STATE", "state" },
	{ "VCPU", "sizing.vcpuCount" },
	{ "MEM MB", "sizing.memSizeMib" },
	{ "DISK MB", "sizing.rootfsSizeMb" },
	{ "CREATED", "createdAt" },
};
static const struct cli_col get_cols[] = {
	{ "id", "id" },
	{ "name", "name" },
	{ "state", "state" },
	{ "created", "createdAt" },
	{ "vCPUs", "sizing.vcpuCount" },
	{ "memory MB", "sizing.memSizeMib" },
	{ "disk MB", "sizing.rootfsSizeMb" },
	{ "kept", "persistence.type" },
	{ "deleted at", "deleteAt" },
	{ "from snapshot", "snapshotId" },
	{ "forked from", "parentVmId" },
	{ "build", "buildId" },
	{ "last network", "lastNetworkActivity" },
	{ "CPU seconds", "cpuTimeSeconds" },
	{ "bytes in", "usage.networkInBytes" },
	{ "bytes out", "usage.networkOutBytes" },
};

enum { L_STATE, L_SEARCH, L_DELETED, L_LIMIT, L_TAG, L_METADATA };

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/vms");
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &path, "vmState", a->opt[L_STATE]);
	cli_query(c, &path, "search", a->opt[L_SEARCH]);
	cli_query(c, &path, "includeDeleted", a->opt[L_DELETED] ? "true" : NULL);
	cli_query(c, &path, "limit", a->opt[L_LIMIT]);
	cli_query(c, &path, "tags", a->opt[L_TAG]);
	cli_query(c, &path, "metadata", a->opt[L_METADATA]);
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "vms"), list_cols,
		          ARRAY_SIZE(list_cols));
	return r;
}

static int get(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_vm_call(c, a->arg[0], "GET", "", NULL, &reply);

	if (r == CLI_OK)
		cli_show(c, reply, get_cols, ARRAY_SIZE(get_cols));
	return r;
}

/* The same request for every named VM. */
static int for_each(struct cli *c, const struct cli_args *a, const char *method, const char *tail,
                    const char *done)
{
	return cli_for_each(c, a, cli_vm_id, method, "/v1/vms/", tail, done);
}

static int start(struct cli *c, const struct cli_args *a)
{
	return for_each(c, a, "POST", "/start", "runs");
}

static int stop(struct cli *c, const struct cli_args *a)
{
	return for_each(c, a, "POST", "/stop", "stopped");
}

static int kill_vm(struct cli *c, const struct cli_args *a)
{
	return for_each(c, a, "POST", "/kill", "stopped");
}

static int suspend(struct cli *c, const struct cli_args *a)
{
	return for_each(c, a, "POST", "/suspend", "suspended");
}

static int delete_vm(struct cli *c, const struct cli_args *a)
{
	return for_each(c, a, "DELETE", "", "deleted");
}

static int fork_vm(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *body = json_pack("{s:I}", "count", (json_int_t)(a->opt[0] ? a->num[0] : 1));
	const char *note;
	json_t *row;
	size_t i;
	int r;

	if (a->opt[1])
		json_object_set_new(body, "vpc", json_string("fresh-address"));
	if (a->opt[2])
		json_object_set_new(body, "spread", json_true());
	r = cli_vm_call(c, a->arg[0], "POST", "/fork", body, &reply);
	if (r != CLI_OK)
		return r;
	if (cli_json(c)) {
		cli_dump(reply);
		return CLI_OK;
	}
	json_array_foreach(json_object_get(reply, "forks"), i, row)
	        printf("%s\n", cli_str(row, "id"));
	note = cli_str(json_object_get(reply, "spread"), "note");
	if (*note)
		fprintf(stderr, "pando: all of them are on one machine: %s\n", note);
	return CLI_OK;
}

static int snapshot(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *body = json_object();
	int r;

	if (a->opt[0])
		json_object_set_new(body, "name", json_string(a->opt[0]));
	if (a->opt[1])
		json_object_set_new(body, "persistence", json_pack("{s:s}", "type", "persistent"));
	r = cli_vm_call(c, a->arg[0], "POST", "/snapshot", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "snapshotId"));
	return r;
}

static int resize(struct cli *c, const struct cli_args *a)
{
	static const char *const names[] = { "vcpuCount", "memSizeGb", "rootfsSizeGb" };
	autojson json_t *reply = NULL;
	json_t *body = json_object();
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (a->opt[i])
			json_object_set_new(body, names[i], json_integer(a->num[i]));
	if (!json_object_size(body)) {
		json_decref(body);
		return cli_fail(CLI_USAGE, "nothing to change: give --cpu, --memory or --disk");
	}
	r = cli_vm_call(c, a->arg[0], "POST", "/resize", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "resized");
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "list", "", "list the account's VMs", list,
	  { { "state", "STATE", "only VMs in this state", 's', CLI_CHOICE,
	      "building starting running suspending suspended stopped lost" },
	    { "search", "TEXT", "only those whose name or id contains this" },
	    { "deleted", NULL, "include deleted ones" },
	    { "limit", "N", "at most this many", 'n', CLI_NUMBER, .min = 1, .max = 100000 },
	    { "tag", "TAGS", "only those with all of these tags, separated by commas", 't' },
	    { "metadata", "NAME=VALUE", "only those with this metadata; several are separated by commas" } },
	  .examples = "pando vm list --state running # those that use memory\n"
	              "pando vm list --tag prod,web" },
	{ "get", "VM", "show a VM: state, size, origin, usage", get },
	{ "start", "VM...", "start a VM: resume or boot", start,
	  .about = "A suspended VM continues where it was frozen; a stopped one boots. Most commands "
	           "that need a running VM start it by themselves." },
	{ "stop", "VM...", "shut down; keeps the disk, not the memory", stop },
	{ "kill", "VM...", "stop at once, without a shutdown of the guest", kill_vm },
	{ "suspend", "VM...", "freeze with memory; the next use resumes it", suspend },
	{ "delete", "VM...", "delete permanently", delete_vm,
	  .examples = "pando vm delete $(pando vm list --json | jq -r '.vms[].id') # all of them" },
	{ "fork", "VM", "make live copies, with memory, processes and open files", fork_vm,
	  { { "count", "N", "how many (1)", 'n', CLI_NUMBER, .min = 1, .max = 1000 },
	    { "fresh-address", NULL, "of a VM in a private network: each copy gets an address of its own there" },
	    { "spread", NULL, "the copies go to several machines of a cluster, as evenly as their memory allows" } },
	  .about = "The VM continues; each copy starts from the same instant and is independent from "
	           "then on. Prints the ids of the copies." },
	{ "snapshot", "VM", "save the VM's current state as a snapshot", snapshot,
	  { { "name", "NAME", "its name" },
	    { "persistent", NULL, "never evict it to make room" } },
	  .about = "VMs created from the snapshot have its memory: running programs continue. See "
	           "'pando snapshot --help' for what you can do with snapshots.",
	  .examples = "pando vm snapshot web --name before-upgrade # to be able to go back" },
	{ "resize", "VM", "change vCPUs and memory, enlarge the disk", resize,
	  { { "cpu", "N", "vCPUs; a power of two", 'c', CLI_NUMBER, .min = 1, .max = 1024 },
	    { "memory", "GB", "memory; a power of two", 'm', CLI_NUMBER, .min = 1, .max = 65536 },
	    { "disk", "GB", "root disk; it can only grow", 'd', CLI_NUMBER, .min = 1, .max = 1048576 } },
	  .about = "A running VM is stopped and boots again with the new size." },
};
/* clang-format on */
const struct cli_noun cli_vm = { "vm", "virtual machines", verbs, ARRAY_SIZE(verbs),
	                         "VM is an id, a unique prefix of one, or a name. Commands that "
	                         "need a running VM wake a suspended one." };
