/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - pando tree: the tree of points, snapshots and VMs */
#include "cli/tree.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json_field.h"
#include "cli/cli.h"
#include "cli/resolve.h"

enum { O_ASCII, O_NO_SIZES };

static int tree(struct cli *c, const struct cli_args *a)
{
	const char *no_colour = getenv("NO_COLOR");
	struct tree_style style = {
		.ascii = a->opt[O_ASCII] || strcmp(nl_langinfo(CODESET), "UTF-8") != 0,
		.colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour),
		.sizes = !a->opt[O_NO_SIZES],
	};
	autojson json_t *reply = NULL;
	const json_t *totals;
	char mem[16], disk[16];
	int r = a->arg[0] ? cli_vm_call(c, a->arg[0], "GET", "/tree", NULL, &reply)
	                  : cli_call(c, "GET", "/v1/tree", NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (cli_json(c)) {
		cli_dump(reply);
		return CLI_OK;
	}
	tree_draw(stdout, reply, &style);
	totals = json_object_get(reply, "totals");
	if (style.sizes)
		printf("\nall: mem %s, disk %s\n",
		       tree_size(json_integer_value(json_object_get(totals, "memoryBytes")), mem),
		       tree_size(json_integer_value(json_object_get(totals, "diskBytes")), disk));
	return CLI_OK;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ NULL, "[VM]", "draw how points, snapshots and VMs are related", tree,
	  { { "ascii", NULL, "draw with ASCII characters; default if the terminal is not UTF-8" },
	    { "no-sizes", NULL, "leave out the sizes" } },
	  .about = "The whole account, or the family of one VM. A point is a frozen state: the "
	           "template, a snapshot, a fork, a suspend. Sizes are of the layers that only this "
	           "node uses; the template's are shared by all. A mark shows a VM's state: running, "
	           "suspended (half), stopped (empty).",
	  .examples = "pando tree # everything\n"
	              "pando tree web --no-sizes # one family" },
};
/* clang-format on */
const struct cli_noun cli_tree = { "tree", "the tree of points, snapshots and VMs", verbs,
	                           ARRAY_SIZE(verbs) };
