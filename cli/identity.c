/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - pando identity, pando token: access to single VMs without a key */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/resolve.h"

static const struct cli_col identity_cols[] = { { "ID", "id" }, { "MANAGED", "managed" } };
static const struct cli_col token_cols[] = { { "ID", "id" }, { "CREATED", "createdAt" } };
static const struct cli_col grant_cols[] = {
	{ "VM", "vmId" },
	{ "USERS", "allowedUsers" },
	{ "GRANTED", "grantedAt" },
};

static int call(struct cli *c, const char *method, char *path_consume, json_t *body, json_t **ret)
{
	autofree char *path = path_consume;

	return cli_call(c, method, path, body, ret);
}

static int create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", "/identity/v1/identities", NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "%s", json_string_value(json_object_get(reply, "id")));
	return r;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/identity/v1/identities", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "identities"), identity_cols,
		          ARRAY_SIZE(identity_cols));
	return r;
}

static int delete_identity(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = call(c, "DELETE", cli_path(c, "/identity/v1/identities/%s", a->arg[0]), NULL,
	             &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "deleted");
	return r;
}

static int grants(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = call(c, "GET", cli_path(c, "/identity/v1/identities/%s/permissions/vm", a->arg[0]),
	             NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "permissions"), grant_cols,
		          ARRAY_SIZE(grant_cols));
	return r;
}

static json_t *users_of(const char *list)
{
	autofree char *copy = strdup(list);
	json_t *users = json_array();
	char *save = NULL;

	for (char *u = copy ? strtok_r(copy, ",", &save) : NULL; u; u = strtok_r(NULL, ",", &save))
		json_array_append_new(users, json_string(u));
	return users;
}

/* The permission of an identity on a VM, which is named as everywhere. */
static int permission(struct cli *c, const struct cli_args *a, const char *method, json_t *body,
                      const char *done)
{
	autofree char *vm = cli_vm_id(c, a->arg[1]);
	autojson json_t *reply = NULL;
	int r;

	if (!vm) {
		json_decref(body);
		return CLI_REFUSED;
	}
	r = call(c, method,
	         cli_path(c, "/identity/v1/identities/%s/permissions/vm/%s", a->arg[0], vm), body,
	         &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", done);
	return r;
}

static int grant(struct cli *c, const struct cli_args *a)
{
	json_t *body =
	        a->opt[0] ? json_pack("{s:o}", "allowedUsers", users_of(a->opt[0])) : json_object();

	return permission(c, a, a->opt[1] ? "PUT" : "POST", body, "granted");
}

static int revoke_grant(struct cli *c, const struct cli_args *a)
{
	return permission(c, a, "DELETE", NULL, "revoked");
}

static const struct cli_verb verbs[] = {
	{ "create", "", "create an identity", create, { { 0 } } },
	{ "list", "", "list the account's identities", list, { { 0 } } },
	{ "delete",
	  "IDENTITY",
	  "delete an identity with its tokens and grants",
	  delete_identity,
	  { { 0 } } },
	{ "grants", "IDENTITY", "list the VMs it may use", grants, { { 0 } } },
	{ "grant",
	  "IDENTITY VM",
	  "let it use a VM",
	  grant,
	  { { "users", "NAME,...", "only as these Linux users; default: any" },
	    { "update", NULL, "change an existing grant" } } },
	{ "revoke", "IDENTITY VM", "revoke its grant on a VM", revoke_grant, { { 0 } } },
};
const struct cli_noun cli_identity = { "identity",
	                               "identities: access to single VMs without an API key", verbs,
	                               ARRAY_SIZE(verbs) };

static int token_create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = call(c, "POST", cli_path(c, "/identity/v1/identities/%s/tokens", a->arg[0]), NULL,
	             &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "id     %s\ntoken  %s\nIt is not shown again.",
		        json_string_value(json_object_get(reply, "id")),
		        json_string_value(json_object_get(reply, "token")));
	return r;
}

static int token_list(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = call(c, "GET", cli_path(c, "/identity/v1/identities/%s/tokens", a->arg[0]), NULL,
	             &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "tokens"), token_cols,
		          ARRAY_SIZE(token_cols));
	return r;
}

static int token_revoke(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = call(c, "DELETE",
	             cli_path(c, "/identity/v1/identities/%s/tokens/%s", a->arg[0], a->arg[1]),
	             NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "revoked");
	return r;
}

static const struct cli_verb token_verbs[] = {
	{ "create",
	  "IDENTITY",
	  "create an access token; it is shown once",
	  token_create,
	  { { 0 } } },
	{ "list", "IDENTITY", "tokens by id", token_list, { { 0 } } },
	{ "revoke",
	  "IDENTITY TOKEN",
	  "revoke a token at once, by its id",
	  token_revoke,
	  { { 0 } } },
};
const struct cli_noun cli_token = { "token", "access tokens of an identity", token_verbs,
	                            ARRAY_SIZE(token_verbs) };
