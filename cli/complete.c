/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complete.c - pando completion: what could come next on a command line, from the table
 *
 * The shells' scripts only pass on the words and show what `pando __complete` answers: lines
 * "word<tab>what it is". No lines means files. Names of VMs and snapshots come from the server, if
 * it is reachable.
 */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"

static const char bash[] =
        "# pando completion bash; put it in ~/.local/share/bash-completion/completions/pando\n"
        "_pando() {\n"
        "\tlocal line cur=${COMP_WORDS[COMP_CWORD]}\n"
        "\tCOMPREPLY=()\n"
        "\twhile IFS= read -r line; do\n"
        "\t\tline=${line%%$'\\t'*}\n"
        "\t\t[[ $line == \"$cur\"* ]] && COMPREPLY+=(\"$line\")\n"
        "\tdone < <(pando __complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
        "\t[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace\n"
        "}\n"
        "complete -o default -F _pando pando\n";
static const char zsh[] =
        "#compdef pando\n"
        "# pando completion zsh; put it in a directory of $fpath as _pando\n"
        "_pando() {\n"
        "\tlocal -a found\n"
        "\tlocal line\n"
        "\twhile IFS= read -r line; do\n"
        "\t\tfound+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
        "\tdone < <(pando __complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
        "\tif (( $#found )); then _describe pando found; else _files; fi\n"
        "}\n"
        "if [[ $funcstack[1] == _pando ]]; then _pando \"$@\"; else compdef _pando pando; fi\n";
static const char fish[] =
        "# pando completion fish; put it in ~/.config/fish/completions/pando.fish\n"
        "function __pando_complete\n"
        "\tset -l words (commandline -opc) (commandline -ct)\n"
        "\tset -l found (pando __complete -- $words[2..-1] 2>/dev/null)\n"
        "\tif test (count $found) -gt 0\n"
        "\t\tprintf '%s\\n' $found\n"
        "\telse\n"
        "\t\t__fish_complete_path (commandline -ct)\n"
        "\tend\n"
        "end\n"
        "complete -c pando -f -a '(__pando_complete)'\n";

static int completion(struct cli *c, const struct cli_args *a)
{
	static const struct {
		const char *name, *text;
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (strcmp(shells[i].name, a->arg[0]) == 0) {
			fputs(shells[i].text, stdout);
			return CLI_OK;
		}
	return cli_fail(CLI_USAGE,
	                "unknown shell '%s': completion is available for bash, zsh and fish",
	                a->arg[0]);
}

static void offer(const char *cur, const char *word, const char *what)
{
	if (strncmp(word, cur, strlen(cur)) == 0)
		printf("%s\t%s\n", word, what);
}

static void offer_text(const char *cur, const char *words)
{
	while (*words) {
		size_t n = strcspn(words, " ");
		char word[64];

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		offer(cur, word, "");
		words += n + strspn(words + n, " ");
	}
}

/* Names and ids known to the server. */
static void offer_rows(struct cli *c, const char *cur, const char *path, const char *rows,
                       const char *id, const char *suffix)
{
	autojson json_t *reply = NULL;
	struct err err = { 0 };
	size_t i;
	json_t *row;

	if (cli_connect(c, NULL, NULL, &err) < 0 ||
	    cli_try(c, NULL, "GET", path, NULL, &reply, &err) != 200)
		return;
	json_array_foreach(json_object_get(reply, rows), i, row)
	{
		const char *name = cli_str(row, "name");
		char word[300];

		if (*name && name[strcspn(name, " \t\n")] == '\0') {
			snprintf(word, sizeof(word), "%s%s", name, suffix);
			offer(cur, word, cli_str(row, "state"));
		}
		snprintf(word, sizeof(word), "%s%s", cli_str(row, id), suffix);
		offer(cur, word, cli_str(row, "state"));
	}
}

/* By its name in the table: VM, [SNAPSHOT], FILE... */
static void offer_arg(struct cli *c, const char *cur, const char *arg)
{
	arg += *arg == '[';
	if (strncmp(arg, "VM", 2) == 0 || strncmp(arg, "OTHER", 5) == 0)
		offer_rows(c, cur, "/v1/vms", "vms", "id", "");
	if (strncmp(arg, "SNAPSHOT", 8) == 0 || strncmp(arg, "OTHER", 5) == 0)
		offer_rows(c, cur, "/v1/vms/snapshots", "snapshots", "snapshotId", "");
	if (strncmp(arg, "VPC", 3) == 0)
		offer_rows(c, cur, "/v1/vpcs", "vpcs", "vpcId", "");
	if (strncmp(arg, "REPO", 4) == 0)
		offer_rows(c, cur, "/git/v1/repo", "repositories", "id", "");
	if (strncmp(arg, "FROM", 4) == 0 || strncmp(arg, "TO", 2) == 0)
		offer_rows(c, cur, "/v1/vms", "vms", "id", ":");
	if (strncmp(arg, "SHELL", 5) == 0)
		offer_text(cur, "bash zsh fish");
	if (strncmp(arg, "COMMAND", 7) == 0 && strcmp(arg, "COMMAND]") == 0)
		for (size_t i = 0; cli_nouns[i]; i++)
			if (cli_nouns[i]->help)
				offer(cur, cli_nouns[i]->name, cli_nouns[i]->help);
}

static void offer_opts(const char *cur, const struct cli_opt *o, size_t max)
{
	for (size_t i = 0; i < max && o[i].name; i++) {
		char word[64];

		snprintf(word, sizeof(word), "--%s", o[i].name);
		offer(cur, word, o[i].help);
	}
}

static const struct cli_opt *opt_of(const struct cli_verb *v, const char *word)
{
	const struct cli_opt *tables[] = { v ? v->opts : NULL, cli_globals };
	size_t sizes[] = { CLI_OPTS_MAX, GLOBAL_MAX };

	for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
		for (size_t k = 0; tables[t] && k < sizes[t] && tables[t][k].name; k++)
			if (word[1] == '-' ? strcmp(tables[t][k].name, word + 2) == 0
			                   : tables[t][k].letter && tables[t][k].letter == word[1])
				return &tables[t][k];
	return NULL;
}

/* The state after the words before the current one. */
struct place {
	const struct cli_noun *noun;
	const struct cli_verb *verb;
	const struct cli_opt *opt; /* that needs a value now */
	size_t n_words;
};

static void walk(struct place *p, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *w = words[i];

		if (p->opt) {
			p->opt = NULL;
		} else if (w[0] == '-' && w[1]) {
			const struct cli_opt *o = strchr(w, '=') ? NULL : opt_of(p->verb, w);

			p->opt = o && o->arg ? o : NULL;
		} else if (!p->noun) {
			p->noun = cli_find_noun(w);
			p->verb = p->noun ? cli_find_verb(p->noun, NULL) : NULL;
		} else if (!p->n_words && cli_find_verb(p->noun, w)) {
			p->verb = cli_find_verb(p->noun, w);
		} else {
			p->n_words++;
		}
	}
}

static void offer_words(struct cli *c, const struct place *p, const char *cur)
{
	const struct cli_verb *v;
	const char *args = p->verb ? p->verb->args : "";

	if (!p->noun) {
		for (size_t i = 0; cli_nouns[i]; i++)
			if (cli_nouns[i]->help &&
			    !(cli_nth_verb(cli_nouns[i], 0)->flags & CLI_HIDDEN))
				offer(cur, cli_nouns[i]->name, cli_nouns[i]->help);
		return;
	}
	for (size_t i = 0; !p->n_words && (v = cli_nth_verb(p->noun, i)); i++)
		if (v->name && (!p->verb || !p->verb->name))
			offer(cur, v->name, v->help);
	for (size_t i = 0; i < p->n_words && args[strcspn(args, " ")]; i++)
		args += strcspn(args, " ") + 1;
	offer_arg(c, cur, args);
}

static int complete(struct cli *c, const struct cli_args *a)
{
	const char *cur = a->n_rest ? a->rest[a->n_rest - 1] : "";
	struct place p = { 0 };

	if (a->n_rest)
		walk(&p, a->rest, a->n_rest - 1);
	if (p.opt && p.opt->type == CLI_CHOICE) {
		offer_text(cur, p.opt->choices);
	} else if (p.opt) {
		offer_arg(c, cur, p.opt->arg);
	} else if (*cur == '-') {
		if (p.verb)
			offer_opts(cur, p.verb->opts, CLI_OPTS_MAX);
		offer_opts(cur, cli_globals, GLOBAL_MAX);
	} else {
		offer_words(c, &p, cur);
	}
	return CLI_OK;
}

/* clang-format off */
static const struct cli_verb completion_verbs[] = {
	{ NULL, "SHELL", "print the completion script for bash, zsh or fish", completion, .flags = CLI_LOCAL,
	  .about = "Completes commands, options, VMs and snapshots. The script asks this program each "
	           "time, so it is the same for every version.",
	  .examples = "source <(pando completion bash) # for this shell" },
};
static const struct cli_verb complete_verbs[] = {
	{ NULL, "[WORD]...", "words that could come next", complete, .flags = CLI_LOCAL | CLI_HIDDEN | CLI_STOP },
};
/* clang-format on */
const struct cli_noun cli_completion = { "completion", "completion for shells", completion_verbs,
	                                 ARRAY_SIZE(completion_verbs) };
const struct cli_noun cli_complete = { "__complete", "words that could come next", complete_verbs,
	                               ARRAY_SIZE(complete_verbs) };
