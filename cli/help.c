/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - pando help: help for commands, as text and as man pages */
#include "base/auto.h"
#include "cli/cli.h"

enum { O_MAN, O_LIST, O_MARKDOWN };

static int help(struct cli *c, const struct cli_args *a)
{
	const struct cli_noun *n = a->arg[0] ? cli_find_noun(a->arg[0]) : NULL;
	const struct cli_verb *v = n && a->arg[1] ? cli_find_verb(n, a->arg[1]) : NULL;

	if (a->opt[O_LIST]) {
		for (size_t i = 0; cli_nouns[i]; i++)
			if (cli_nouns[i]->help &&
			    !(cli_nth_verb(cli_nouns[i], 0)->flags & CLI_HIDDEN))
				printf("%s\n", cli_nouns[i]->name);
		return CLI_OK;
	}
	if ((a->arg[0] && !n) || (a->arg[1] && !v))
		return cli_fail(CLI_USAGE,
		                "unknown command '%s%s%s': 'pando --help' lists all commands",
		                a->arg[0], a->arg[1] ? " " : "", a->arg[1] ? a->arg[1] : "");
	if (a->opt[O_MARKDOWN])
		cli_markdown(stdout);
	else if (a->opt[O_MAN])
		cli_man(stdout, n);
	else if (v)
		cli_help_verb(stdout, n, v);
	else if (n)
		cli_help_noun(stdout, n);
	else
		cli_help_all(stdout);
	return CLI_OK;
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "[COMMAND] [VERB]",
	  "show the help of a command",
	  help,
	  { { "man", NULL, "as the source of a man page" },
	    { "list", NULL, "list command names, one per line" },
	    { "markdown", NULL, "every command, as Markdown" } },
	  .flags = CLI_LOCAL,
	  .examples = "pando help vm exec # the same as pando vm exec --help\n"
	              "pando help --man vm | man -l - # a man page that is not installed" },
};
const struct cli_noun cli_help = { "help", "help for commands", verbs, ARRAY_SIZE(verbs) };
