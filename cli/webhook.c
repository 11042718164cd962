/* SPDX-License-Identifier: Apache-2.0 */
/* webhook.c - pando webhook: be told what happens to VMs, snapshots and builds */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/git.h"
#include "cli/resolve.h"
#include "cli/vm_set.h"

static const struct cli_col list_cols[] = {
	{ "ID", "id" },   { "URL", "url" },         { "EVENTS", "events" },
	{ "VM", "vmId" }, { "ENABLED", "enabled" }, { "DROPPED", "droppedEvents" },
};
static const struct cli_col delivery_cols[] = {
	{ "ID", "id" },
	{ "TYPE", "type" },
	{ "STATE", "state" },
	{ "TRIES", "attempts" },
	{ "HTTP", "statusCode" },
	{ "ERROR", "error" },
	{ "CREATED", "createdAt" },
};

enum { W_EVENT, W_VM, W_TAG, W_METADATA, W_SECRET, W_MAKE };

static int create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *body = json_pack("{s:s}", "url", a->arg[0]), *events = json_array();
	const char *made;
	int r = CLI_OK;

	for (size_t i = 0; i < a->list[W_EVENT].n; i++)
		json_array_append_new(events, json_string(a->list[W_EVENT].v[i]));
	json_object_set_new(body, "events", events);
	vm_tags(a, W_TAG, body);
	r = vm_pairs(a, W_METADATA, "metadata", "metadata", body);
	if (r == CLI_OK && a->opt[W_VM]) {
		autofree char *vm = cli_vm_id(c, a->opt[W_VM]);

		if (vm)
			json_object_set_new(body, "vmId", json_string(vm));
		else
			r = CLI_REFUSED;
	}
	if (r == CLI_OK && a->opt[W_SECRET]) {
		autowipe char *secret = cli_read_secret(a->opt[W_SECRET]);

		if (secret)
			json_object_set_new(body, "secret", json_string(secret));
		else
			r = CLI_USAGE;
	} else if (a->opt[W_MAKE]) {
		json_object_set_new(body, "secret", json_true());
	}
	if (r != CLI_OK) {
		json_decref(body);
		return r;
	}
	r = cli_call(c, "POST", "/v1/webhooks", body, &reply);
	if (r != CLI_OK)
		return r;
	made = json_string_value(json_object_get(reply, "secret"));
	if (made)
		cli_say(c, reply, "id      %s\nsecret  %s\nIt is not shown again.",
		        cli_str(reply, "id"), made);
	else
		cli_say(c, reply, "%s", cli_str(reply, "id"));
	return r;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/webhooks", NULL, &reply);

	(void)a;
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "webhooks"), list_cols,
		          ARRAY_SIZE(list_cols));
	return r;
}

static int drop(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/webhooks/%s", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "deleted");
	return r;
}

static int test(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/webhooks/%s/test", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply,
		        "%s is being sent; 'pando webhook deliveries %s' shows how it went",
		        cli_str(reply, "id"), a->arg[0]);
	return r;
}

static int deliveries(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/webhooks/%s/deliveries", a->arg[0]);
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &path, "limit", a->opt[0]);
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "deliveries"), delivery_cols,
		          ARRAY_SIZE(delivery_cols));
	return r;
}

static int redeliver(struct cli *c, const struct cli_args *a)
{
	autofree char *path =
	        cli_path(c, "/v1/webhooks/%s/deliveries/%s/redeliver", a->arg[0], a->arg[1]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "queued for redelivery");
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "create", "URL", "send events to this URL and print the webhook's id", create,
	  { { "event", "NAME", "only these: vm.suspended, vm.*, snapshot.*; can be repeated", 0, CLI_LIST },
	    { "vm", "VM", "only of this VM" },
	    { "tag", "TAG", "only of VMs with this tag; can be repeated", 0, CLI_LIST },
	    { "metadata", "NAME=VALUE", "only of VMs with this; can be repeated", 0, CLI_LIST },
	    { "secret-file", "FILE", "file with a secret for an HMAC beside the signature; '-' is stdin" },
	    { "make-secret", NULL, "make such a secret and print it once" } },
	  .examples = "pando webhook create https://example.org/hook --event 'vm.*' # all that happens to VMs\n"
	              "pando webhook create https://example.org/hook --event vm.crashed --event vm.lost --tag production\n" },
	{ "list", "", "list the account's webhooks", list },
	{ "delete", "WEBHOOK", "delete it with its deliveries", drop },
	{ "test", "WEBHOOK", "send it an event of the type test", test },
	{ "deliveries", "WEBHOOK", "what was sent, newest first", deliveries,
	  { { "limit", "N", "at most this many", 0, CLI_NUMBER, .min = 1, .max = 200 } } },
	{ "redeliver", "WEBHOOK DELIVERY", "send an event again", redeliver },
};
/* clang-format on */
const struct cli_noun cli_webhook = { "webhook",
	                              "be told what happens to VMs, snapshots and builds", verbs,
	                              ARRAY_SIZE(verbs) };
