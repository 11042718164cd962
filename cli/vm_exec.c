/* SPDX-License-Identifier: Apache-2.0 */
/* vm_exec.c - pando vm exec */
#include <stdlib.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/exec.h"
#include "cli/resolve.h"

enum { O_USER, O_CWD, O_ENV, O_TIMEOUT, O_NO_STDIN };

static int exec_vm(struct cli *c, const struct cli_args *a)
{
	autofree char *id = cli_vm_id(c, a->arg[0]);
	autofree char *command = exec_command(a->rest, a->n_rest);
	struct exec_opts o = {
		.vm = id,
		.user = a->opt[O_USER],
		.cwd = a->opt[O_CWD],
		.command = command,
		.env = &a->list[O_ENV],
		.timeout_ms = a->num[O_TIMEOUT],
		.no_stdin = a->opt[O_NO_STDIN] != NULL,
	};

	return id ? cli_exec(c, &o) : CLI_REFUSED;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "exec", "VM COMMAND...", "run a command; its output, stdin and exit status are ours", exec_vm,
	  { { "user", "USER", "as this Linux user (root)", 'u' },
	    { "cwd", "DIR", "in this directory", 'w' },
	    { "env", "NAME=VALUE", "with this variable; NAME alone: as it is here", 'e', CLI_LIST },
	    { "timeout", "TIME", "end it after that long, like 30s", 't', CLI_DURATION },
	    { "no-stdin", NULL, "it gets no stdin of ours", 'n' } },
	  CLI_STOP,
	  "One word is a command line for a shell; several words are a command and its arguments, which reach "
	  "it as they are. What comes through a pipe or from a file is the command's stdin; a terminal's is not: "
	  "see 'pando vm pty' for that. The first Ctrl-C goes to the command, the second ends this program; "
	  "either way the command does not outlive it.",
	  "pando vm exec web uptime # a command\n"
	  "pando vm exec web 'ls /srv | wc -l' # a line for the shell\n"
	  "pando vm exec web -u www -w /srv -e DEBUG=1 make test # as somebody, somewhere\n"
	  "pando vm exec db psql < dump.sql # with stdin" },
};
/* clang-format on */
const struct cli_noun cli_vm_exec = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
