/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - the table of all groups of verbs, in the order in which help shows them
 *
 * A new command is a file with a `const struct cli_noun`, a line below and one in meson.build; a
 * new noun is also in meson.build's list of man pages. A group without a help text adds verbs to an
 * existing noun.
 */
#include <string.h>

#include "cli/cli.h"

/* clang-format off */
#define NOUNS(X) \
	X(run) \
	X(code) \
	X(vm) \
	X(vm_create) \
	X(vm_exec) \
	X(vm_pty) \
	X(vm_past) \
	X(vm_set) \
	X(vm_ports) \
	X(vm_ssh) \
	X(vm_logs) \
	X(ssh_config) \
	X(snapshot) \
	X(cp) \
	X(tree) \
	X(build) \
	X(egress) \
	X(vpc) \
	X(domain) \
	X(logs) \
	X(git) \
	X(git_read) \
	X(git_write) \
	X(events) \
	X(webhook) \
	X(script) \
	X(cron) \
	X(deploy) \
	X(deployment) \
	X(mcp) \
	X(login) \
	X(logout) \
	X(config) \
	X(whoami) \
	X(account) \
	X(key) \
	X(identity) \
	X(token) \
	X(session) \
	X(audit) \
	X(host) \
	X(node) \
	X(backup) \
	X(restore) \
	X(migrate) \
	X(ca) \
	X(completion) \
	X(complete) \
	X(help)
/* clang-format on */

#define DECLARE(name) extern const struct cli_noun cli_##name;
#define ROW(name) &cli_##name,

NOUNS(DECLARE)
const struct cli_noun *const cli_nouns[] = { NOUNS(ROW) NULL };

const struct cli_noun *cli_find_noun(const char *name)
{
	for (size_t i = 0; cli_nouns[i]; i++)
		if (cli_nouns[i]->help && strcmp(cli_nouns[i]->name, name) == 0)
			return cli_nouns[i];
	return NULL;
}

const struct cli_verb *cli_nth_verb(const struct cli_noun *noun, size_t i)
{
	for (size_t k = 0; cli_nouns[k]; k++) {
		const struct cli_noun *n = cli_nouns[k];

		if (strcmp(n->name, noun->name) != 0)
			continue;
		if (i < n->n_verbs)
			return &n->verbs[i];
		i -= n->n_verbs;
	}
	return NULL;
}

const struct cli_verb *cli_find_verb(const struct cli_noun *noun, const char *name)
{
	const struct cli_verb *v;

	for (size_t i = 0; (v = cli_nth_verb(noun, i)); i++)
		if (!v->name ? !name : name && strcmp(v->name, name) == 0)
			return v;
	return NULL;
}
