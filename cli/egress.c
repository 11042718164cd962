/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress.c - pando egress: what a VM may reach
 *
 * `set` reads the policy, changes what was named and writes it back; secrets come masked and a mask
 * keeps its value, so nothing that was not named changes. Values of headers are secrets: they are
 * read from files, never from the command line.
 */
#include "cli/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/build.h"
#include "cli/cli.h"
#include "cli/resolve.h"

static const struct cli_col rule_cols[] = {
	{ "ACTION", "action" },
	{ "DOMAIN", "domain" },
	{ "ADDRESSES", "cidr" },
	{ "PORTS", "ports" },
};
static const struct cli_col blocked_cols[] = {
	{ "KIND", "kind" },         { "DOMAIN", "domain" }, { "ADDRESS", "address" },
	{ "PROTOCOL", "protocol" }, { "PORT", "port" },     { "COUNT", "count" },
	{ "LAST", "lastAt" },
};

/* "443,8000-8080": numbers as numbers, ranges as text, as the API has them. */
static json_t *ports_of(const char *text)
{
	autofree char *copy = strdup(text);
	json_t *ports = json_array();
	char *save = NULL, *end;

	if (!copy)
		cli_oom();
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		long n = strtol(p, &end, 10);

		json_array_append_new(ports, *end ? json_string(p) : json_integer(n));
	}
	return ports;
}

json_t *egress_rule(const char *action, const char *text, struct err *err)
{
	const char *colon = strrchr(text, ':');
	autofree char *what = NULL;
	json_t *rule;

	if (colon && (colon == text || !colon[1] || colon[1 + strspn(colon + 1, "0123456789-,")])) {
		err_set(err, -EINVAL,
		        "'%.100s' is not a rule: give a domain, a range of addresses or 'any', "
		        "then "
		        "perhaps :PORT,PORT-PORT",
		        text);
		return NULL;
	}
	what = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
	if (!what)
		cli_oom();
	if (!*what || strchr(what, ':')) {
		err_set(err, -EINVAL, "'%.100s' is not a rule: %s", text,
		        *what ? "only IPv4 addresses can be named" : "it is empty");
		return NULL;
	}
	rule = json_pack("{s:s}", "action", action);
	if (strcmp(what, "any") != 0)
		json_object_set_new(rule, what[strspn(what, "0123456789./")] ? "domain" : "cidr",
		                    json_string(what));
	if (colon)
		json_object_set_new(rule, "ports", ports_of(colon + 1));
	return rule;
}

static int get(struct cli *c, const struct cli_args *a)
{
	static const struct cli_col cols[] = { { "mode", "mode" },
		                               { "Mbit/s out", "bandwidth.upMbps" },
		                               { "Mbit/s in", "bandwidth.downMbps" } };
	autojson json_t *reply = NULL;
	json_t *one, *value;
	const char *name;
	size_t i;
	int r = cli_vm_call(c, a->arg[0], "GET", "/egress", NULL, &reply);

	if (r != CLI_OK)
		return r;
	cli_show(c, reply, cols, ARRAY_SIZE(cols));
	if (cli_json(c))
		return CLI_OK;
	if (json_array_size(json_object_get(reply, "rules")))
		cli_table(c, reply, json_object_get(reply, "rules"), rule_cols,
		          ARRAY_SIZE(rule_cols));
	json_array_foreach(json_object_get(reply, "inject"), i, one)
	{
		json_object_foreach(json_object_get(one, "headers"), name, value)
		{
			printf("to ");
			cli_put_text(stdout, cli_str(one, "domain"));
			printf(", header ");
			cli_put_text(stdout, name);
			putchar('\n');
		}
	}
	return CLI_OK;
}

enum { O_FILE, O_MODE, O_ALLOW, O_DENY, O_HEADERS, O_UP, O_DOWN };

static int add_rules(json_t *rules, const char *action, const struct cli_list *l)
{
	struct err err = { 0 };

	for (size_t i = 0; i < l->n; i++) {
		json_t *rule = egress_rule(action, l->v[i], &err);

		if (!rule)
			return cli_fail(CLI_USAGE, "%s", err.msg);
		json_array_append_new(rules, rule);
	}
	return CLI_OK;
}

/* "api.example.org=FILE": the lines of FILE, "Name: value", for that domain. */
static int add_headers(json_t *inject, const char *text)
{
	const char *equals = strchr(text, '=');
	autofree char *lines = NULL, *domain = NULL;
	autojson json_t *headers = json_object();
	char *save = NULL;
	json_t *old;
	size_t i;

	if (!equals || equals == text || !equals[1])
		return cli_fail(CLI_USAGE, "--headers needs DOMAIN=FILE, not '%s'", text);
	domain = strndup(text, (size_t)(equals - text));
	lines = cli_read_secret(equals + 1);
	if (!lines)
		return CLI_USAGE;
	for (char *l = strtok_r(lines, "\r\n", &save); l; l = strtok_r(NULL, "\r\n", &save)) {
		char *colon = strchr(l, ':');

		if (!colon || colon == l)
			return cli_fail(CLI_USAGE, "%s: every line must be 'Name: value'",
			                equals + 1);
		*colon = '\0';
		json_object_set_new(headers, l, json_string(colon + 1 + strspn(colon + 1, " \t")));
	}
	json_array_foreach(inject, i, old) if (strcmp(cli_str(old, "domain"), domain) == 0) break;
	if (i < json_array_size(inject))
		json_array_remove(inject, i);
	if (json_object_size(headers))
		json_array_append_new(
		        inject, json_pack("{s:s, s:O}", "domain", domain, "headers", headers));
	return CLI_OK;
}

static int change(const struct cli_args *a, json_t *policy)
{
	static const struct {
		int opt;
		const char *member;
	} rates[] = { { O_UP, "upMbps" }, { O_DOWN, "downMbps" } };
	bool rules_given = a->list[O_ALLOW].n || a->list[O_DENY].n;
	json_t *rules = json_array(), *inject, *rate;
	int r;

	if (rules_given)
		json_object_set(policy, "rules", rules);
	if (a->opt[O_MODE] || rules_given)
		json_object_set_new(policy, "mode",
		                    json_string(a->opt[O_MODE] ? a->opt[O_MODE] : "rules"));
	if ((r = add_rules(rules, "deny", &a->list[O_DENY])) == CLI_OK)
		r = add_rules(rules, "allow", &a->list[O_ALLOW]);
	json_decref(rules);
	inject = json_object_get(policy, "inject");
	if (!json_is_array(inject)) {
		inject = json_array();
		json_object_set_new(policy, "inject", inject);
	}
	for (size_t i = 0; r == CLI_OK && i < a->list[O_HEADERS].n; i++)
		r = add_headers(inject, a->list[O_HEADERS].v[i]);
	for (size_t i = 0; r == CLI_OK && i < ARRAY_SIZE(rates); i++) {
		if (!a->opt[rates[i].opt])
			continue;
		rate = json_object_get(policy, "bandwidth");
		if (!json_is_object(rate)) {
			rate = json_object();
			json_object_set_new(policy, "bandwidth", rate);
		}
		json_object_set_new(rate, rates[i].member,
		                    a->num[rates[i].opt] ? json_integer(a->num[rates[i].opt])
		                                         : json_null());
	}
	return r;
}

static int set(struct cli *c, const struct cli_args *a)
{
	autofree char *vm = NULL, *path = NULL;
	autojson json_t *policy = NULL, *reply = NULL;
	bool changes = a->opt[O_MODE] || a->opt[O_UP] || a->opt[O_DOWN] || a->list[O_ALLOW].n ||
	               a->list[O_DENY].n || a->list[O_HEADERS].n;
	int r;

	if (!changes && !a->opt[O_FILE])
		return cli_fail(CLI_USAGE,
		                "nothing to change: 'pando egress set --help' lists what "
		                "can be");
	vm = cli_vm_id(c, a->arg[0]);
	if (!vm)
		return CLI_REFUSED;
	path = cli_path(c, "/v1/vms/%s/egress", vm);
	r = a->opt[O_FILE] ? build_json(a->opt[O_FILE], &policy)
	                   : cli_call(c, "GET", path, NULL, &policy);
	if (r == CLI_OK)
		r = change(a, policy);
	if (r == CLI_OK)
		r = cli_call(c, "PUT", path, json_incref(policy), &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "in force: %s", cli_str(reply, "mode"));
	return r;
}

static int blocked(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_vm_call(c, a->arg[0], "GET", "/egress/blocked", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "blocked"), blocked_cols,
		          ARRAY_SIZE(blocked_cols));
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "get", "VM", "show what a VM may reach; secrets are masked", get },
	{ "set", "VM", "change what a VM may reach, at once and for open connections too", set,
	  { { "file", "FILE", "the whole policy, as JSON ('-': stdin); options below change it", 'f' },
	    { "mode", "MODE", "open: everything; closed: nothing; rules: what the rules allow", .type = CLI_CHOICE, .choices = "open closed rules" },
	    { "allow", "WHAT", "a rule; may be repeated", .type = CLI_LIST },
	    { "deny", "WHAT", "a rule that comes before all --allow; may be repeated", .type = CLI_LIST },
	    { "headers", "DOMAIN=FILE", "add the headers in FILE ('Name: value' lines) to requests there; an empty one adds none; may be repeated", .type = CLI_LIST },
	    { "up", "MBPS", "bandwidth to the outside; 0: no limit", .type = CLI_NUMBER, .min = 0, .max = 1000000 },
	    { "down", "MBPS", "bandwidth from the outside; 0: no limit", .type = CLI_NUMBER, .min = 0, .max = 1000000 } },
	  .about = "WHAT is a domain ('*.' for all names below), a range of addresses, or 'any', with "
	           "ports if not all are meant: example.org:443,8000-8080. --allow and --deny replace all "
	           "rules and imply --mode rules; what no rule allows is then denied. The first rule that "
	           "fits decides; for an order other than denials first, use --file.",
	  .examples = "pando egress set web --mode closed # nothing leaves\n"
	              "pando egress set web --allow '*.debian.org' --allow 203.0.113.0/24:5432 # this and no more\n"
	              "pando egress set web --deny ads.example.org --allow any # all but one\n"
	              "pando egress set web --headers api.example.org=secret.txt # added outside the VM\n" },
	{ "blocked", "VM", "list destinations that were blocked, newest first", blocked },
};
/* clang-format on */
const struct cli_noun cli_egress = { "egress", "what VMs may reach", verbs, ARRAY_SIZE(verbs) };
