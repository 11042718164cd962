/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - pando: find the verb in the tables, read its options, run it
 *
 * pando [GLOBAL OPTION]... NOUN [VERB] [ARGUMENT]... [--OPTION [VALUE]]...; options may stand
 * anywhere after the noun, as "--name value" or "--name=value"; "--" ends them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"

static const struct cli_noun *const nouns[] = {
	&cli_whoami, &cli_account, &cli_key, &cli_identity, &cli_token, &cli_audit, &cli_mcp,
};

enum { GLOBAL_URL, GLOBAL_DIR, GLOBAL_JSON, GLOBAL_HELP, GLOBAL_VERSION, GLOBAL_MAX };
static const struct cli_opt globals[GLOBAL_MAX] = {
	{ "url", "URL", "the server; default: PANDO_URL, or from PANDO_LISTEN" },
	{ "data-dir", "DIR", "take address and key from this data directory (PANDO_DATA_DIR)" },
	{ "json", NULL, "print the server's reply" },
	{ "help", NULL, "this text, or that of a command" },
	{ "version", NULL, "" },
};

static void print_verb(FILE *f, const struct cli_noun *n, const struct cli_verb *v)
{
	char line[128];

	snprintf(line, sizeof(line), "%s%s%s%s%s", n->name, v->name ? " " : "",
	         v->name ? v->name : "", *v->args ? " " : "", v->args);
	fprintf(f, "  pando %-44s %s\n", line, v->help);
}

static void print_opts(FILE *f, const struct cli_opt *o, size_t max)
{
	for (size_t i = 0; i < max && o[i].name; i++) {
		char line[64];

		if (!*o[i].help)
			continue;
		snprintf(line, sizeof(line), "--%s%s%s", o[i].name, o[i].arg ? " " : "",
		         o[i].arg ? o[i].arg : "");
		fprintf(f, "  %-22s %s\n", line, o[i].help);
	}
}

static void help_all(FILE *f)
{
	fprintf(f, "Usage: pando NOUN [VERB] [ARGUMENT]... [--OPTION [VALUE]]...\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(nouns); i++)
		for (size_t k = 0; k < nouns[i]->n_verbs; k++)
			print_verb(f, nouns[i], &nouns[i]->verbs[k]);
	fprintf(f, "\nFor every command:\n");
	print_opts(f, globals, GLOBAL_MAX);
	fprintf(f, "\nThe key is PANDO_API_KEY, or the file api-key in the data directory.\n"
	           "Exit status: 0 done, 1 the server refused, 2 wrong usage, 3 no server, 4 not "
	           "allowed.\n");
}

static void help_noun(FILE *f, const struct cli_noun *n, const struct cli_verb *only)
{
	fprintf(f, "%s\n\n", n->help);
	for (size_t k = 0; k < n->n_verbs; k++) {
		if (only && only != &n->verbs[k])
			continue;
		print_verb(f, n, &n->verbs[k]);
		if (only && n->verbs[k].opts[0].name) {
			fprintf(f, "\n");
			print_opts(f, n->verbs[k].opts, CLI_OPTS_MAX);
		}
	}
	fprintf(f, "\nFor every command:\n");
	print_opts(f, globals, GLOBAL_MAX);
}

static const struct cli_noun *find_noun(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(nouns); i++)
		if (strcmp(nouns[i]->name, name) == 0)
			return nouns[i];
	return NULL;
}

static const struct cli_verb *find_verb(const struct cli_noun *n, const char *name)
{
	for (size_t i = 0; i < n->n_verbs; i++)
		if (!n->verbs[i].name || (name && strcmp(n->verbs[i].name, name) == 0))
			return &n->verbs[i];
	return NULL;
}

/* The option at argv[*i], in a table: its value. False when the table has none of that name. */
static bool match(const struct cli_opt *o, size_t max, int argc, char **argv, int *i,
                  const char **values, bool *bad)
{
	const char *name = argv[*i] + 2, *eq = strchr(name, '=');
	size_t n = eq ? (size_t)(eq - name) : strlen(name);

	for (size_t k = 0; k < max && o[k].name; k++) {
		if (strlen(o[k].name) != n || strncmp(o[k].name, name, n) != 0)
			continue;
		if (!o[k].arg)
			*bad = eq != NULL;
		else if (!eq && *i + 1 >= argc)
			*bad = true;
		values[k] = !o[k].arg ? "" : eq ? eq + 1 : *bad ? NULL : argv[++*i];
		return true;
	}
	return false;
}

struct parsed {
	const struct cli_noun *noun;
	const struct cli_verb *verb;
	const char *global[GLOBAL_MAX];
	struct cli_args args;
	int n_args;
};

static int take_word(struct parsed *p, const char *word)
{
	if (!p->noun) {
		p->noun = find_noun(word);
		if (!p->noun)
			return cli_fail(CLI_USAGE,
			                "there is no '%s': 'pando --help' lists what there is",
			                word);
		if (!p->noun->verbs[0].name)
			p->verb = &p->noun->verbs[0];
		return 0;
	}
	if (!p->verb) {
		p->verb = find_verb(p->noun, word);
		if (!p->verb)
			return cli_fail(CLI_USAGE, "there is no '%s %s': see 'pando %s --help'",
			                p->noun->name, word, p->noun->name);
		return 0;
	}
	if (p->n_args == CLI_ARGS_MAX)
		return cli_fail(CLI_USAGE, "too many arguments: '%s'", word);
	p->args.arg[p->n_args++] = word;
	return 0;
}

static int parse(struct parsed *p, int argc, char **argv)
{
	bool words_only = false;
	int r = 0;

	for (int i = 1; i < argc && r == 0; i++) {
		const char *a = argv[i];
		bool bad = false;

		if (words_only || strncmp(a, "-", 1) != 0 || strcmp(a, "-") == 0)
			r = take_word(p, a);
		else if (strcmp(a, "--") == 0)
			words_only = true;
		else if (strcmp(a, "-h") == 0)
			p->global[GLOBAL_HELP] = "";
		else if (strncmp(a, "--", 2) != 0 ||
		         (!match(globals, GLOBAL_MAX, argc, argv, &i, p->global, &bad) &&
		          !(p->verb &&
		            match(p->verb->opts, CLI_OPTS_MAX, argc, argv, &i, p->args.opt, &bad))))
			r = cli_fail(CLI_USAGE, "there is no option '%s' here: see --help", a);
		if (bad)
			r = cli_fail(CLI_USAGE, "'%s' %s", a,
			             strchr(a, '=') ? "takes no value" : "wants a value");
	}
	return r;
}

/* How many arguments the text names, and how many of them must be there. */
static void count_args(const char *args, int *ret_min, int *ret_max)
{
	*ret_min = *ret_max = 0;
	for (const char *p = args + strspn(args, " "); *p; p += strspn(p, " ")) {
		*ret_max += 1;
		*ret_min += *p != '[';
		p += strcspn(p, " ");
	}
}

static int check(const struct parsed *p)
{
	int min, max;

	if (!p->noun) {
		help_all(stderr);
		return CLI_USAGE;
	}
	if (!p->verb) {
		help_noun(stderr, p->noun, NULL);
		return CLI_USAGE;
	}
	count_args(p->verb->args, &min, &max);
	if (p->n_args >= min && p->n_args <= max)
		return 0;
	fprintf(stderr, "pando: this takes %s:\n\n",
	        *p->verb->args ? p->verb->args : "no arguments");
	print_verb(stderr, p->noun, p->verb);
	return CLI_USAGE;
}

static void cli_freep(struct cli **c)
{
	cli_free(*c);
}

int main(int argc, char **argv)
{
	AUTO(cli_freep) struct cli *c = NULL;
	struct parsed p = { 0 };
	struct err err = { 0 };
	int r = parse(&p, argc, argv);

	if (r)
		return r;
	if (p.global[GLOBAL_VERSION]) {
		printf("pando %s\n", PANDO_VERSION);
		return CLI_OK;
	}
	if (p.global[GLOBAL_HELP]) {
		if (p.noun)
			help_noun(stdout, p.noun, p.verb);
		else
			help_all(stdout);
		return CLI_OK;
	}
	if ((r = check(&p)))
		return r;
	c = cli_new();
	cli_set_json(c, p.global[GLOBAL_JSON] != NULL);
	if (cli_connect(c, p.global[GLOBAL_URL], p.global[GLOBAL_DIR], &err) < 0)
		return cli_fail(CLI_UNAUTHORIZED, "%s", err.msg);
	r = p.verb->run(c, &p.args);
	if (fflush(stdout) != 0 && r == CLI_OK)
		return cli_fail(CLI_REFUSED, "the output could not be written");
	return r;
}
