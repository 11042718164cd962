/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doc.c - help and man pages from the table
 *
 * A page is written once, against struct doc_ops: doc_text.c renders it for --help, doc_man.c as a
 * man page, so they cannot differ.
 */
#include "cli/doc.h"

#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"

static const char about_pando[] =
        "Pando runs untrusted code in small virtual machines that can be frozen, thawed and forked "
        "with their memory. This command talks to a Pando server: it creates VMs, runs programs in "
        "them, copies files, and shows their state.\n\nA VM or snapshot is named by its id, a "
        "unique prefix of its id, or its name. Commands that run something in a VM exit with its "
        "status.";
static const char about_server[] =
        "The server is --url, else PANDO_API_URL, else the one saved by 'pando login', else the "
        "one on this machine. The key is PANDO_API_KEY, else the one saved by 'pando login', else "
        "the file api-key in the server's data directory, if it is readable. A saved key is sent "
        "only to the server it was saved for. There is no option for the key: command lines can be "
        "read by every user of the machine.";
static const struct {
	const char *term, *text;
} environment[] = {
	{ "PANDO_API_URL", "the server; also PANDO_URL and FREESTYLE_API_URL" },
	{ "PANDO_API_KEY", "the key; also FREESTYLE_API_KEY" },
	{ "PANDO_DATA_DIR", "the data directory of a server on this machine (/var/lib/pando)" },
	{ "XDG_CONFIG_HOME, XDG_STATE_HOME", "where configuration and history are kept (~/.config, ~/.local/state)" },
	{ "NO_COLOR", "no colours" },
}, files[] = {
	{ "~/.config/pando/config", "server and key saved by 'pando login', and settings; mode 0600" },
	{ "~/.local/state/pando/", "history of 'pando code'" },
	{ "/var/lib/pando/api-key", "the operator's key of a server on this machine" },
}, statuses[] = {
	{ "0", "done" },
	{ "1", "the server rejected the request" },
	{ "2", "wrong usage" },
	{ "3", "the server did not answer, or the connection was lost" },
	{ "4", "no key, or one without permission" },
	{ "130", "interrupted" },
	{ "other", "of a command in a VM: its status, or 128 + the signal that ended it" },
};

static void verb_line(const struct cli_noun *n, const struct cli_verb *v, char *dst, size_t size)
{
	snprintf(dst, size, "pando %s%s%s%s%s", n->name, v->name ? " " : "", v->name ? v->name : "",
	         *v->args ? " " : "", v->args);
}

static void put_opts(const struct doc_ops *d, FILE *f, const struct cli_opt *o, size_t max)
{
	for (size_t i = 0; i < max && o[i].name; i++) {
		char line[96], letter[8] = "", text[512];

		if (o[i].letter)
			snprintf(letter, sizeof(letter), "-%c, ", o[i].letter);
		snprintf(line, sizeof(line), "%s--%s%s%s", letter, o[i].name, o[i].arg ? " " : "",
		         o[i].arg ? o[i].arg : "");
		snprintf(text, sizeof(text), "%s%s%s%s", o[i].help,
		         o[i].type == CLI_CHOICE ? ": " : "",
		         o[i].type == CLI_CHOICE ? o[i].choices : "",
		         o[i].type == CLI_LIST ? "; can be given several times" : "");
		d->item(f, line, text);
	}
}

/* Lines "command # what it does". */
static void put_examples(const struct doc_ops *d, FILE *f, const char *text)
{
	for (const char *p = text; p && *p;) {
		size_t n = strcspn(p, "\n");
		autofree char *line = strndup(p, n);
		char *what = line ? strstr(line, " # ") : NULL;

		if (what) {
			*what = '\0';
			what += 3;
		}
		if (line)
			d->example(f, what ? what : "", line);
		p += n + (p[n] == '\n');
	}
}

static void put_verb(const struct doc_ops *d, FILE *f, const struct cli_noun *n,
                     const struct cli_verb *v)
{
	char line[160];

	verb_line(n, v, line, sizeof(line));
	d->item(f, line, v->help);
}

/* Does the noun have any visible verb? */
static bool is_shown(const struct cli_noun *n)
{
	const struct cli_verb *v = cli_nth_verb(n, 0);

	return n->help && v && !(v->flags & CLI_HIDDEN);
}

static void put_common(const struct doc_ops *d, FILE *f)
{
	d->section(f, "For every command");
	put_opts(d, f, cli_globals, GLOBAL_MAX);
}

static void page_all(const struct doc_ops *d, FILE *f)
{
	const struct cli_verb *v;

	d->title(f, "pando", "run code in microVMs that can be frozen and forked");
	d->section(f, "Synopsis");
	d->synopsis(f, "pando COMMAND [ARGUMENT]... [OPTION]...");
	d->synopsis(f, "pando COMMAND --help");
	d->section(f, "Description");
	d->para(f, about_pando);
	d->section(f, "Commands");
	for (size_t i = 0; cli_nouns[i]; i++)
		for (size_t k = 0; is_shown(cli_nouns[i]) && (v = cli_nth_verb(cli_nouns[i], k));
		     k++)
			if (!(v->flags & CLI_HIDDEN))
				put_verb(d, f, cli_nouns[i], v);
	put_common(d, f);
	d->section(f, "Server and key");
	d->para(f, about_server);
	d->section(f, "Environment");
	for (size_t i = 0; i < ARRAY_SIZE(environment); i++)
		d->item(f, environment[i].term, environment[i].text);
	d->section(f, "Files");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		d->item(f, files[i].term, files[i].text);
	d->section(f, "Exit status");
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		d->item(f, statuses[i].term, statuses[i].text);
	d->section(f, "Examples");
	put_examples(d, f,
	             "pando run hello.py # a file in a new VM\npando vm create --name web # a VM "
	             "that stays\npando vm exec web uname -a # a command in it\npando cp site "
	             "web:/srv # a directory into it\npando vm fork web -n 3 # three live "
	             "copies\npando tree # how VMs and snapshots are related");
}

/* The full description of a verb, for its --help and its noun's man page. */
static void put_verb_body(const struct doc_ops *d, FILE *f, const struct cli_verb *v)
{
	if (v->about)
		d->para(f, v->about);
	if (v->opts[0].name)
		put_opts(d, f, v->opts, CLI_OPTS_MAX);
}

static void page_noun(const struct doc_ops *d, FILE *f, const struct cli_noun *n, bool whole)
{
	const struct cli_verb *v;
	char name[64], line[160];
	bool examples = false;

	snprintf(name, sizeof(name), "pando-%s", n->name);
	d->title(f, name, n->help);
	d->section(f, "Synopsis");
	for (size_t k = 0; (v = cli_nth_verb(n, k)); k++) {
		verb_line(n, v, line, sizeof(line));
		if (whole)
			d->synopsis(f, line);
		else
			d->item(f, line, v->help);
	}
	if (!whole) {
		snprintf(line, sizeof(line), "pando %s COMMAND --help", n->name);
		d->item(f, line, "details of one command, with its options");
	}
	if (n->about) {
		d->section(f, "Description");
		d->para(f, n->about);
	}
	for (size_t k = 0; whole && (v = cli_nth_verb(n, k)); k++) {
		char sentence[256];

		verb_line(n, v, line, sizeof(line));
		d->section(f, line);
		snprintf(sentence, sizeof(sentence), "%c%s.",
		         v->help[0] - ('a' <= v->help[0] && v->help[0] <= 'z' ? 32 : 0),
		         v->help + 1);
		d->para(f, sentence);
		put_verb_body(d, f, v);
	}
	if (d != &doc_md) /* there, all commands are on one page */
		put_common(d, f);
	for (size_t k = 0; (v = cli_nth_verb(n, k)); k++) {
		if (v->examples && !examples)
			d->section(f, "Examples");
		examples |= v->examples != NULL;
		put_examples(d, f, v->examples);
	}
}

void cli_help_all(FILE *f)
{
	page_all(&doc_text, f);
}

void cli_help_noun(FILE *f, const struct cli_noun *n)
{
	const struct cli_verb *v = cli_nth_verb(n, 0);

	if (v && !v->name && !cli_nth_verb(n, 1))
		cli_help_verb(f, n, v);
	else
		page_noun(&doc_text, f, n, /* whole= */ false);
}

void cli_help_verb(FILE *f, const struct cli_noun *n, const struct cli_verb *v)
{
	const struct doc_ops *d = &doc_text;
	char line[160], name[96];

	verb_line(n, v, line, sizeof(line));
	snprintf(name, sizeof(name), "pando %s%s%s", n->name, v->name ? " " : "",
	         v->name ? v->name : "");
	d->title(f, name, v->help);
	d->section(f, "Synopsis");
	d->synopsis(f, line);
	if (v->about) {
		d->section(f, "Description");
		d->para(f, v->about);
	}
	if (v->opts[0].name) {
		d->section(f, "Options");
		put_opts(d, f, v->opts, CLI_OPTS_MAX);
	}
	put_common(d, f);
	if (v->examples) {
		d->section(f, "Examples");
		put_examples(d, f, v->examples);
	}
}

void cli_markdown(FILE *f)
{
	fputs("# Commands\n\nEvery command of `pando` with its options, from the table that also "
	      "makes `--help` and "
	      "the man pages: `pando help --markdown`.\n",
	      f);
	page_all(&doc_md, f);
	for (size_t i = 0; cli_nouns[i]; i++)
		if (is_shown(cli_nouns[i]))
			page_noun(&doc_md, f, cli_nouns[i], /* whole= */ true);
}

void cli_man(FILE *f, const struct cli_noun *n)
{
	if (n)
		page_noun(&doc_man, f, n, /* whole= */ true);
	else
		page_all(&doc_man, f);
}
