/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.c - parses a command line by the table of verbs
 *
 * pando [GLOBAL OPTION]... NOUN [VERB] [ARGUMENT]... [OPTION]...; options may be anywhere
 * after the noun, as "--name value", "--name=value", "-xvalue", "-x value", flags together as
 * "-xy"; "--" ends them. A verb with CLI_STOP takes everything from the first word of its
 * "NAME..." on as it is. Values are checked by their type before a verb runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/near.h"
#include "cli/cli.h"

const struct cli_opt cli_globals[GLOBAL_MAX] = {
	{ "url", "URL", "the server; default: PANDO_API_URL, 'pando login', or this machine's" },
	{ "data-dir", "DIR", "read address and key from this data directory (PANDO_DATA_DIR)" },
	{ "json", NULL, "print the server's reply as JSON" },
	{ "help", NULL, "show this help, or the help of a command", .letter = 'h' },
	{ "version", NULL, "print the version" },
};

static const struct {
	const char *unit;
	long long ms;
} units[] = {
	{ "ms", 1 },      { "s", 1000 },    { "", 1000 },      { "m", 60000 },
	{ "min", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};

int cli_duration(const char *s, long long *ret_ms)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(s, &end, 10);
	if (end == s || errno || n < 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(end, units[i].unit) == 0)
			return __builtin_mul_overflow(n, units[i].ms, ret_ms) ? -EINVAL : 0;
	return -EINVAL;
}

static bool is_choice(const char *choices, const char *s)
{
	size_t n = strlen(s);

	for (const char *p = choices; *p; p += strcspn(p, " "), p += strspn(p, " "))
		if (strcspn(p, " ") == n && strncmp(p, s, n) == 0)
			return true;
	return false;
}

/* Checks and stores one value of option k. */
static int take_value(struct cli_args *a, const struct cli_opt *o, size_t k, const char *s,
                      struct err *err)
{
	char *end;

	switch (o->arg ? o->type : CLI_TEXT) {
	case CLI_NUMBER:
		errno = 0;
		a->num[k] = strtoll(s, &end, 10);
		if (end == s || *end || errno || a->num[k] < o->min || a->num[k] > o->max)
			return err_set(err, -EINVAL,
			               "--%s must be a number from %lld to %lld, not '%s'", o->name,
			               o->min, o->max, s);
		break;
	case CLI_DURATION:
		if (cli_duration(s, &a->num[k]) < 0)
			return err_set(err, -EINVAL,
			               "--%s must be a time like 30s, 5m, 2h or 1d, not '%s'",
			               o->name, s);
		break;
	case CLI_CHOICE:
		if (!is_choice(o->choices, s))
			return err_set(err, -EINVAL, "--%s must be one of: %s; not '%s'", o->name,
			               o->choices, s);
		break;
	case CLI_LIST: {
		const char **v =
		        reallocarray(a->list[k].v, a->list[k].n + 1, sizeof(*a->list[k].v));

		if (!v)
			return err_set(err, -ENOMEM, "out of memory");
		v[a->list[k].n++] = s;
		a->list[k].v = v;
		break;
	}
	case CLI_TEXT:
		break;
	}
	a->opt[k] = s;
	return 0;
}

struct cursor {
	struct cli_parsed *p;
	int argc, i;
	char **argv;
};

/* The option of this name or letter: in the verb's table, else in that for every command. */
static const struct cli_opt *find_opt(const struct cli_parsed *p, const char *name, size_t n,
                                      char letter, bool *ret_global)
{
	const struct cli_opt *tables[] = { p->verb ? p->verb->opts : NULL, cli_globals };
	size_t sizes[] = { CLI_OPTS_MAX, GLOBAL_MAX };

	for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
		for (size_t k = 0; tables[t] && k < sizes[t] && tables[t][k].name; k++) {
			const struct cli_opt *o = &tables[t][k];

			*ret_global = t == 1;
			if (name ? strlen(o->name) == n && strncmp(o->name, name, n) == 0
			         : o->letter && o->letter == letter)
				return o;
		}
	return NULL;
}

static int keep(struct cursor *c, const struct cli_opt *o, bool global, const char *value,
                struct err *err)
{
	if (!global)
		return take_value(&c->p->args, o, (size_t)(o - c->p->verb->opts), value, err);
	c->p->global[o - cli_globals] = value;
	return 0;
}

static int wants_value(const struct cli_opt *o, struct err *err)
{
	return err_set(err, -EINVAL, "--%s needs a value: %s", o->name, o->arg);
}

/* " (did you mean '--idle'?)", or "" */
static const char *meant(const struct near *n, const char *before, char *buf, size_t size)
{
	buf[0] = '\0';
	if (n->best)
		snprintf(buf, size, " (did you mean '%s%s'?)", before, n->best);
	return buf;
}

static int no_option(const struct cursor *c, const char *text, struct err *err)
{
	const struct cli_parsed *p = c->p;
	const char *noun = p->noun ? p->noun->name : NULL;
	const char *verb = p->verb ? p->verb->name : NULL;
	char name[64], hint[96];
	struct near near = NEAR_OF(name);

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
	memmove(name, name + strspn(name, "-"), strlen(name + strspn(name, "-")) + 1);
	for (size_t k = 0; p->verb && k < CLI_OPTS_MAX && p->verb->opts[k].name; k++)
		near_try(&near, p->verb->opts[k].name);
	for (size_t k = 0; k < GLOBAL_MAX; k++)
		near_try(&near, cli_globals[k].name);
	return err_set(err, -EINVAL, "unknown option '%s'%s: see 'pando%s%s%s%s --help'", text,
	               meant(&near, "--", hint, sizeof(hint)), noun ? " " : "", noun ? noun : "",
	               verb ? " " : "", verb ? verb : "");
}

static int no_noun(const char *word, struct err *err)
{
	struct near near = NEAR_OF(word);
	char hint[96];

	for (size_t i = 0; cli_nouns[i]; i++)
		if (cli_nouns[i]->help && !(cli_nth_verb(cli_nouns[i], 0)->flags & CLI_HIDDEN))
			near_try(&near, cli_nouns[i]->name);
	return err_set(err, -EINVAL, "unknown command '%s'%s: 'pando --help' lists all commands",
	               word, meant(&near, "pando ", hint, sizeof(hint)));
}

static int no_verb(const struct cli_noun *noun, const char *word, struct err *err)
{
	struct near near = NEAR_OF(word);
	const struct cli_verb *v;
	char hint[96], before[48];

	for (size_t i = 0; (v = cli_nth_verb(noun, i)); i++)
		if (v->name && !(v->flags & CLI_HIDDEN))
			near_try(&near, v->name);
	snprintf(before, sizeof(before), "pando %s ", noun->name);
	return err_set(err, -EINVAL, "unknown command '%s %s'%s: see 'pando %s --help'", noun->name,
	               word, meant(&near, before, hint, sizeof(hint)), noun->name);
}

static int long_option(struct cursor *c, struct err *err)
{
	const char *text = c->argv[c->i], *name = text + 2, *eq = strchr(name, '=');
	bool global = false;
	const struct cli_opt *o =
	        find_opt(c->p, name, eq ? (size_t)(eq - name) : strlen(name), 0, &global);

	if (!o)
		return no_option(c, text, err);
	if (!o->arg && eq)
		return err_set(err, -EINVAL, "--%s takes no value", o->name);
	if (!o->arg)
		return keep(c, o, global, "", err);
	if (eq)
		return keep(c, o, global, eq + 1, err);
	if (c->i + 1 >= c->argc)
		return wants_value(o, err);
	return keep(c, o, global, c->argv[++c->i], err);
}

static int letters(struct cursor *c, struct err *err)
{
	const char *text = c->argv[c->i];

	for (const char *l = text + 1; *l; l++) {
		bool global = false;
		const struct cli_opt *o = find_opt(c->p, NULL, 0, *l, &global);
		int r;

		if (!o)
			return no_option(c, text, err);
		if (!o->arg) {
			if ((r = keep(c, o, global, "", err)) < 0)
				return r;
			continue;
		}
		if (l[1])
			return keep(c, o, global, l + 1, err);
		if (c->i + 1 >= c->argc)
			return wants_value(o, err);
		return keep(c, o, global, c->argv[++c->i], err);
	}
	return 0;
}

/* Counts the words of "VM [NAME] FILE..."; returns the index of the one with dots, or -1. */
static void count_args(const char *args, size_t *ret_min, size_t *ret_max, int *ret_rest)
{
	size_t i = 0;

	*ret_min = 0;
	*ret_rest = -1;
	for (const char *p = args + strspn(args, " "); *p; p += strspn(p, " "), i++) {
		size_t n = strcspn(p, " ");

		*ret_min += *p != '[';
		if (n > 3 && strncmp(p + n - 3, "...", 3) == 0)
			*ret_rest = (int)i;
		p += n;
	}
	*ret_max = i;
}

/* A word: the noun, the verb, an argument. */
static int take_word(struct cli_parsed *p, const char *word, struct err *err)
{
	if (!p->noun) {
		p->noun = cli_find_noun(word);
		if (!p->noun)
			return no_noun(word, err);
		p->verb = cli_find_verb(p->noun, NULL);
		return 0;
	}
	if (!p->verb || (!p->verb->name && !p->n_words && cli_find_verb(p->noun, word))) {
		p->verb = cli_find_verb(p->noun, word);
		if (!p->verb)
			return no_verb(p->noun, word, err);
		return 0;
	}
	p->words[p->n_words++] = word;
	return 0;
}

/* Do the words of "NAME..." begin with the next word? */
static bool at_rest(const struct cli_parsed *p)
{
	size_t min, max;
	int rest;

	if (!p->verb || !(p->verb->flags & CLI_STOP))
		return false;
	count_args(p->verb->args, &min, &max, &rest);
	return rest >= 0 && p->n_words > (size_t)rest;
}

int cli_parse(struct cli_parsed *p, int argc, char **argv, struct err *err)
{
	struct cursor c = { .p = p, .argc = argc, .i = 1, .argv = argv };
	bool words_only = false;
	int r = 0;

	p->words = calloc((size_t)argc + 1, sizeof(*p->words));
	if (!p->words)
		return err_set(err, -ENOMEM, "out of memory");
	for (; c.i < argc && r == 0; c.i++) {
		const char *a = argv[c.i];

		if (words_only || a[0] != '-' || !a[1] || at_rest(p)) {
			r = take_word(p, a, err);
		} else if (strcmp(a, "--") == 0) {
			words_only = true;
			p->args.dashes = !p->n_words;
		} else if (a[1] == '-') {
			r = long_option(&c, err);
		} else {
			r = letters(&c, err);
		}
	}
	return r;
}

int cli_parsed_check(struct cli_parsed *p, struct err *err)
{
	size_t min, max;
	int rest;

	count_args(p->verb->args, &min, &max, &rest);
	if (p->n_words < min)
		return err_set(err, -EINVAL, "this command takes %s", p->verb->args);
	if (p->n_words > max && rest < 0)
		return err_set(err, -EINVAL, "unexpected argument '%s': this command takes %s",
		               p->words[max], *p->verb->args ? p->verb->args : "none");
	for (size_t i = 0; i < p->n_words && i < CLI_ARGS_MAX; i++)
		p->args.arg[i] = p->words[i];
	if (rest >= 0 && (size_t)rest < p->n_words) {
		p->args.rest = p->words + rest;
		p->args.n_rest = p->n_words - (size_t)rest;
	}
	return 0;
}

void cli_parsed_done(struct cli_parsed *p)
{
	for (size_t k = 0; k < CLI_OPTS_MAX; k++)
		free(p->args.list[k].v);
	free(p->words);
	*p = (struct cli_parsed){ 0 };
}
