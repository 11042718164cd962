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
	{ "exec", "VM COMMAND...", "run a command with this command's stdin, output and exit status", exec_vm,
	  { { "user", "USER", "as this Linux user (root)", 'u' },
	    { "cwd", "DIR", "in this directory", 'w' },
	    { "env", "NAME=VALUE", "set this variable; NAME alone: copy it from here", 'e', CLI_LIST },
	    { "timeout", "TIME", "time limit, like 30s", 't', CLI_DURATION },
	    { "no-stdin", NULL, "do not pass stdin to it", 'n' } },
	  CLI_STOP,
	  "One word is a command line for a shell; several words are a command and its "
	           "arguments, passed unchanged. Input from a pipe or file becomes the command's stdin; "
	           "a terminal's does not: see 'pando vm pty' for that. The first Ctrl-C goes to the "
	           "command, the second ends this program; either way the command does not outlive it.",
	  "pando vm exec web uptime # a command\n"
	  "pando vm exec web 'ls /srv | wc -l' # a line for the shell\n"
	  "pando vm exec web -u www -w /srv -e DEBUG=1 make test # as a user, in a directory\n"
	  "pando vm exec db psql < dump.sql # with stdin" },
};
/* clang-format on */
const struct cli_noun cli_vm_exec = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
