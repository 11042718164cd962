/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - pando snapshot: saved states of VMs */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/build.h"
#include "cli/cli.h"
#include "cli/resolve.h"

static const struct cli_col cols[] = {
	{ "ID", "snapshotId" },        { "NAME", "name" },         { "STATE", "state" },
	{ "OF VM", "sourceVmId" },     { "VCPU", "vcpuCount" },    { "MEM MB", "memSizeMib" },
	{ "DISK MB", "rootfsSizeMb" }, { "CREATED", "createdAt" },
};
static const struct cli_col get_cols[] = {
	{ "id", "snapshotId" },        { "name", "name" },
	{ "state", "state" },          { "why", "failureReason" },
	{ "created", "createdAt" },    { "of VM", "sourceVmId" },
	{ "build", "buildId" },        { "kept", "snapshotPersistence.type" },
	{ "vCPUs", "vcpuCount" },      { "memory MB", "memSizeMib" },
	{ "disk MB", "rootfsSizeMb" },
};

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/vms/snapshots");
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &path, "includeDeleted", a->opt[0] ? "true" : NULL);
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "snapshots"), cols, ARRAY_SIZE(cols));
	return r;
}

static int get(struct cli *c, const struct cli_args *a)
{
	autofree char *id = cli_snapshot_id(c, a->arg[0]), *path = NULL;
	autojson json_t *reply = NULL;
	int r;

	if (!id)
		return CLI_REFUSED;
	path = cli_path(c, "/v1/vms/snapshots/%s", id);
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_show(c, reply, get_cols, ARRAY_SIZE(get_cols));
	return r;
}

static int rename_snapshot(struct cli *c, const struct cli_args *a)
{
	autofree char *id = cli_snapshot_id(c, a->arg[0]), *path = NULL;
	autojson json_t *reply = NULL;
	int r;

	if (!id)
		return CLI_REFUSED;
	path = cli_path(c, "/v1/vms/snapshots/%s", id);
	r = cli_call(c, "PATCH", path, json_pack("{s:s}", "name", a->arg[1]), &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s is now called %s", id, a->arg[1]);
	return r;
}

static int delete_snapshots(struct cli *c, const struct cli_args *a)
{
	return cli_for_each(c, a, cli_snapshot_id, "DELETE", "/v1/vms/snapshots/", "", "deleted");
}

static int build(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL, *body = NULL;
	int r = build_body(a->arg[0], &body);

	if (r != CLI_OK)
		return r;
	if (a->opt[0])
		json_object_set_new(body, "name", json_string(a->opt[0]));
	r = build_request(c, "/v1/vms/snapshots", body, a->opt[1] != NULL, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "snapshotId"));
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "list", "", "list the account's snapshots", list,
	  { { "deleted", NULL, "include deleted ones" } } },
	{ "get", "SNAPSHOT", "one snapshot", get },
	{ "rename", "SNAPSHOT NAME", "rename it", rename_snapshot },
	{ "delete", "SNAPSHOT...", "delete it permanently; VMs created from it stay", delete_snapshots },
	{ "build", "FILE", "build one from a spec: packages, files, users, services", build,
	  { { "name", "NAME", "its name" },
	    { "quiet", NULL, "do not show the build log", 'q' } },
	  .about = "FILE is JSON ('-' is stdin): a layer of a spec, or a whole request. Layers that "
	           "were built before are taken from the cache." },
};
/* clang-format on */
const struct cli_noun cli_snapshot = { "snapshot", "saved states of VMs", verbs,
	                               ARRAY_SIZE(verbs) };
