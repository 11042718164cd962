/* SPDX-License-Identifier: Apache-2.0 */
/* vm_set.c - pando vm set: name, tags, metadata, end of life; what create takes of these too */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/resolve.h"
#include "cli/vm_set.h"

int vm_pairs(const struct cli_args *a, int opt, const char *option, const char *member,
             json_t *body)
{
	json_t *o;

	if (!a->opt[opt])
		return CLI_OK;
	o = json_object();
	json_object_set_new(body, member, o);
	for (size_t i = 0; i < a->list[opt].n; i++) {
		const char *s = a->list[opt].v[i], *eq = strchr(s, '=');
		autofree char *name = eq ? strndup(s, (size_t)(eq - s)) : NULL;

		if (!*s)
			continue; /* "": none */
		if (!eq || eq == s)
			return cli_fail(CLI_USAGE, "--%s must be NAME=VALUE, not '%s'", option, s);
		json_object_set_new(o, name, json_string(eq + 1));
	}
	return CLI_OK;
}

void vm_tags(const struct cli_args *a, int opt, json_t *body)
{
	json_t *v = a->opt[opt] ? json_array() : NULL;

	for (size_t i = 0; v && i < a->list[opt].n; i++)
		if (*a->list[opt].v[i])
			json_array_append_new(v, json_string(a->list[opt].v[i]));
	if (v)
		json_object_set_new(body, "tags", v);
}

int vm_never_or_time(const char *option, const char *s, const char *member, json_t *body)
{
	long long ms;

	if (!s)
		return CLI_OK;
	if (strcmp(s, "never") == 0)
		json_object_set_new(body, member, json_null());
	else if (cli_duration(s, &ms) == 0)
		json_object_set_new(body, member, json_integer(ms / 1000));
	else
		return cli_fail(CLI_USAGE, "--%s must be 'never' or a time like 10m, not '%s'",
		                option, s);
	return CLI_OK;
}

enum { O_NAME, O_TAG, O_METADATA, O_DELETE_AFTER, O_IDLE, O_SELF, O_NO_SELF, O_CHECKPOINT };

static int set(struct cli *c, const struct cli_args *a)
{
	autojson json_t *body = json_object(), *reply = NULL;
	int r;

	if (a->opt[O_NAME])
		json_object_set_new(body, "name", json_string(a->opt[O_NAME]));
	vm_tags(a, O_TAG, body);
	if ((r = vm_pairs(a, O_METADATA, "metadata", "metadata", body)) != CLI_OK ||
	    (r = vm_never_or_time("delete-after", a->opt[O_DELETE_AFTER], "deleteAfterSeconds",
	                          body)) != CLI_OK ||
	    (r = vm_never_or_time("idle", a->opt[O_IDLE], "idleTimeoutSeconds", body)) != CLI_OK ||
	    (r = vm_never_or_time("checkpoint-every", a->opt[O_CHECKPOINT],
	                          "checkpointEverySeconds", body)) != CLI_OK)
		return r;
	if (a->opt[O_SELF] && a->opt[O_NO_SELF])
		return cli_fail(CLI_USAGE, "--self-access and --no-self-access exclude each other");
	if (a->opt[O_SELF] || a->opt[O_NO_SELF])
		json_object_set_new(body, "selfAccess", json_boolean(a->opt[O_SELF] != NULL));
	if (!json_object_size(body))
		return cli_fail(CLI_USAGE, "nothing to change: give --name, --tag, --metadata, "
		                           "--delete-after, --idle, --checkpoint-every or "
		                           "--self-access");
	r = cli_vm_call(c, a->arg[0], "PATCH", "", json_incref(body), &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "changed");
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "set", "VM", "change a VM's name, tags, metadata, end of life or self access", set,
	  { { "name", "NAME", "its new name" },
	    { "tag", "TAG", "its tags, in place of those it has; may be repeated", 't', CLI_LIST },
	    { "metadata", "NAME=VALUE", "its metadata, in place of what it has; may be repeated", .type = CLI_LIST },
	    { "delete-after", "TIME", "delete it after this long from now on, or 'never'" },
	    { "idle", "TIME", "suspend after this long without activity, or 'never'" },
	    { "self-access", NULL, "its programs may fork, snapshot, suspend and rewind it" },
	    { "no-self-access", NULL, "they may not any more" },
	    { "checkpoint-every", "TIME", "freeze it this often while it runs, to have something to rewind to, or 'never'" } },
	  .about = "Wakes nothing. An empty value ('--tag \"\"') removes all of a kind.",
	  .examples = "pando vm set web --name shop --tag prod --metadata owner=ann\n"
	              "pando vm set web --delete-after 2h # two hours more, counted from now" },
};
/* clang-format on */
const struct cli_noun cli_vm_set = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
