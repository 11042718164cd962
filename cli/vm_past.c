/* SPDX-License-Identifier: Apache-2.0 */
/* vm_past.c - pando vm rewind, pando vm diff: going back, and comparing */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/resolve.h"

static int rewind_vm(struct cli *c, const struct cli_args *a)
{
	autofree char *snapshot = a->arg[1] ? cli_snapshot_id(c, a->arg[1]) : NULL;
	autojson json_t *reply = NULL;
	const char *kept;
	int r;

	if (a->arg[1] && !snapshot)
		return CLI_REFUSED;
	r = cli_vm_call(c, a->arg[0], "POST", "/rewind",
	                json_pack("{s:s?, s:b}", "snapshotId", snapshot, "keep", !a->opt[0]),
	                &reply);
	if (r != CLI_OK)
		return r;
	kept = cli_str(reply, "previousSnapshotId");
	cli_say(c, reply, "%s is at %s%s%s%s", cli_str(reply, "id"),
	        snapshot ? cli_str(reply, "snapshotId") : "its last point",
	        *kept ? "; its previous state is kept as " : "", kept, "");
	return CLI_OK;
}

static int mark(const char *change)
{
	return *change == 'a' ? '+' : *change == 'r' ? '-' : *change == 't' ? 'T' : 'M';
}

/* Adds one reply's changes to the total; prints lines at once unless --json. */
static void take_changes(struct cli *c, const json_t *reply, json_t *all)
{
	size_t i;
	json_t *row;

	json_array_foreach(json_object_get(reply, "changes"), i, row)
	{
		const json_t *size = json_object_get(row, "size");

		if (cli_json(c)) {
			json_array_append(all, row);
			continue;
		}
		printf("%c ", mark(cli_str(row, "change")));
		if (json_is_integer(size) && strcmp(cli_str(row, "kind"), "file") == 0)
			printf("%12lld  ", (long long)json_integer_value(size));
		else
			printf("%12s  ", cli_str(row, "kind"));
		cli_put_text(stdout, cli_str(row, "path"));
		putchar('\n');
	}
}

enum { D_PATH, D_IGNORE };

static int diff(struct cli *c, const struct cli_args *a)
{
	autofree char *id = cli_vm_id(c, a->arg[0]), *cursor = NULL;
	autofree char *with = id ? cli_vm_or_snapshot_id(c, a->arg[1]) : NULL;
	autojson json_t *all = json_array();
	autojson json_t *whole = NULL;

	if (!with)
		return CLI_REFUSED;
	do {
		autofree char *path = cli_path(c, "/v1/vms/%s/diff?with=%s", id, with);
		autojson json_t *reply = NULL;
		const char *next;
		int r;

		cli_query(c, &path, "path", a->opt[D_PATH]);
		cli_query(c, &path, "ignore", a->opt[D_IGNORE]);
		cli_query(c, &path, "cursor", cursor);
		if ((r = cli_call(c, "GET", path, NULL, &reply)) != CLI_OK)
			return r;
		take_changes(c, reply, all);
		next = json_string_value(json_object_get(reply, "cursor"));
		free(cursor);
		cursor = next ? strdup(next) : NULL;
	} while (cursor);
	if (cli_json(c)) {
		whole = json_pack("{s:s, s:s, s:O}", "vmId", id, "with", with, "changes", all);
		cli_dump(whole);
	}
	return CLI_OK;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "rewind", "VM [SNAPSHOT]", "rewind a VM to one of its earlier snapshots", rewind_vm,
	  { { "drop", NULL, "do not keep the current state" } },
	  .about = "Restores memory and disk; id, name and settings stay. The current state is kept as "
	           "a snapshot named 'before rewind' unless --drop is given. Without SNAPSHOT it goes to its last "
	           "suspend, snapshot or checkpoint: also if it is lost, with its node or its layers.",
	  .examples = "pando vm rewind web before-upgrade # undo the upgrade" },
	{ "diff", "VM OTHER", "list files that differ from a related VM or snapshot", diff,
	  { { "path", "PATH", "only this file or tree" },
	    { "ignore", "PATHS", "skip these trees, separated by commas (/proc,/sys,/dev,/run,/tmp)" } },
	  .about = "From VM's point of view: + exists only here, - only in OTHER, M differs, T is of "
	           "another kind. Neither is woken by this.",
	  .examples = "pando vm diff web before-upgrade --path /etc # what the upgrade changed" },
};
/* clang-format on */
const struct cli_noun cli_vm_past = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
