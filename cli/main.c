/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - pando: read the command line by the table, connect, run the verb */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/ssh.h"

static void cli_freep(struct cli **c)
{
	cli_free(*c);
}

/* Prints help, or explains why the command cannot be run. */
static bool is_help(const struct cli_parsed *p, int *ret_status)
{
	FILE *f = p->global[GLOBAL_HELP] ? stdout : stderr;

	*ret_status = f == stdout ? CLI_OK : CLI_USAGE;
	if (!p->noun)
		cli_help_all(f);
	else if (!p->verb)
		cli_help_noun(f, p->noun);
	else if (p->global[GLOBAL_HELP] && !p->verb->name)
		cli_help_noun(f, p->noun);
	else if (p->global[GLOBAL_HELP])
		cli_help_verb(f, p->noun, p->verb);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	AUTO(cli_parsed_done) struct cli_parsed p = { 0 };
	AUTO(cli_freep) struct cli *c = NULL;
	struct err err = { 0 };
	int r;

	if (ssh_answer(argc))
		return CLI_OK;
	setlocale(LC_ALL, "");
	signal(SIGPIPE, SIG_IGN); /* a write that fails is an error like any other */
	if (cli_parse(&p, argc, argv, &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	if (p.global[GLOBAL_VERSION]) {
		printf("pando %s\n", PANDO_VERSION);
		return CLI_OK;
	}
	if (is_help(&p, &r))
		return r;
	if (cli_parsed_check(&p, &err) < 0)
		return cli_fail(CLI_USAGE, "%s; see 'pando %s%s%s --help'", err.msg, p.noun->name,
		                p.verb->name ? " " : "", p.verb->name ? p.verb->name : "");
	c = cli_new();
	cli_set_json(c, p.global[GLOBAL_JSON] != NULL);
	cli_ask_for(c, p.global[GLOBAL_URL], p.global[GLOBAL_DIR]);
	if (!(p.verb->flags & CLI_LOCAL) &&
	    cli_connect(c, p.global[GLOBAL_URL], p.global[GLOBAL_DIR], &err) < 0)
		return cli_fail(CLI_UNAUTHORIZED, "%s", err.msg);
	r = p.verb->run(c, &p.args);
	if ((fflush(stdout) != 0 || ferror(stdout)) && r == CLI_OK)
		return errno == EPIPE ? 128 + SIGPIPE /* the reader closed the pipe */
		                      : cli_fail(CLI_REFUSED, "cannot write the output");
	return r;
}
