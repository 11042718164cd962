/* SPDX-License-Identifier: Apache-2.0 */
/* logs.c - pando logs: who asked for a name, or for a VM by any name: the edge's access log */
#include "cli/logs.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/resolve.h"

enum { O_DOMAIN, O_VM, O_FOLLOW, O_SINCE, O_SEARCH, O_LINES };

static int logs(struct cli *c, const struct cli_args *a)
{
	AUTO(logs_done) struct logs_reader l = { 0 };
	autofree char *id = a->opt[O_VM] ? cli_vm_id(c, a->opt[O_VM]) : NULL;
	char since[CLOCK_RFC3339_LEN];

	if (a->opt[O_VM] && !id)
		return CLI_REFUSED;
	l.query = cli_path(c, "/observability/v1/logs?source=%s", "access");
	cli_query(c, &l.query, "domain", a->opt[O_DOMAIN]);
	cli_query(c, &l.query, "vmId", id);
	cli_query(c, &l.query, "search", a->opt[O_SEARCH]);
	if (a->opt[O_SINCE])
		l.since = strdup(clock_rfc3339(clock_wall_ms() - a->num[O_SINCE], since));
	return logs_show(c, &l, a->opt[O_LINES], a->opt[O_FOLLOW] != NULL);
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ NULL, "", "show who asked for a name or a VM: the access log", logs,
	  { { "domain", "NAME", "only requests for this name", 'd' },
	    { "vm", "VM", "only requests for this VM, by any of its names" },
	    { "follow", NULL, "follow new lines", 'f' },
	    { "since", "TIME", "how far back, like 10m (1d)", .type = CLI_DURATION },
	    { "search", "TEXT", "only lines that contain this" },
	    { "lines", "N", "at most the last N", 'n', CLI_NUMBER, .min = 1, .max = 1000 } },
	  .about = "One line for each request that is over: client, method, name and path without its "
	           "query, protocol, status, bytes of the bodies, duration, whether it woke the VM, and why "
	           "if the edge itself responded. The newest lines of each name are kept. What happened to "
	           "a VM is in 'pando vm logs'.",
	  .examples = "pando logs -d my-app.style.dev -f # as requests come\n"
	              "pando logs --vm web --since 10m --json" },
};
/* clang-format on */
const struct cli_noun cli_logs = { "logs", "show the access log of names and VMs", verbs,
	                           ARRAY_SIZE(verbs) };
