/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - pando key, pando whoami: API keys of an account, and the account of the current key */
#include <stdlib.h>

#include "base/auto.h"
#include "cli/cli.h"

#define ACCOUNT_OPT                                                                     \
	{                                                                               \
		"account", "ACCOUNT", "of this account, by id or name (operator's key)" \
	}

static const struct cli_col key_cols[] = {
	{ "ID", "id" },
	{ "NAME", "name" },
	{ "CREATED", "createdAt" },
	{ "LAST USED", "lastUsedAt" },
};

/* Adds accountId for --account; false after an error message. */
static bool for_account(struct cli *c, const struct cli_args *a, char **path)
{
	autofree char *id = NULL;

	if (!a->opt[0])
		return true;
	id = cli_account_id(c, a->opt[0]);
	if (id)
		cli_query(c, path, "accountId", id);
	return id != NULL;
}

static int create(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/keys");
	autojson json_t *reply = NULL;
	int r;

	if (!for_account(c, a, &path))
		return CLI_REFUSED;
	r = cli_call(c, "POST", path, json_pack("{s:s}", "name", a->arg[0] ? a->arg[0] : ""),
	             &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "id   %s\nkey  %s\nIt is not shown again.",
		        json_string_value(json_object_get(reply, "id")),
		        json_string_value(json_object_get(reply, "key")));
	return r;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/keys");
	autojson json_t *reply = NULL;
	int r;

	if (!for_account(c, a, &path))
		return CLI_REFUSED;
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "keys"), key_cols, ARRAY_SIZE(key_cols));
	return r;
}

static int revoke_key(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/v1/keys/%s", a->arg[0]);
	autojson json_t *reply = NULL;
	int r;

	if (!for_account(c, a, &path))
		return CLI_REFUSED;
	r = cli_call(c, "DELETE", path, NULL, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "revoked");
	return r;
}

static int rotate(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", "/v1/secrets/rotate", NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply,
		        "all secrets are sealed with key %d now; keep a copy of the new key file",
		        (int)json_integer_value(json_object_get(reply, "keyId")));
	return r;
}

static int whoami(struct cli *c, const struct cli_args *a)
{
	static const struct cli_col cols[] = { { "account", "accountId" },
		                               { "identity", "identityId" } };
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/auth/v1/whoami", NULL, &reply);

	if (r == CLI_OK)
		cli_show(c, reply, cols, ARRAY_SIZE(cols));
	return r;
}

static const struct cli_verb verbs[] = {
	{ "create", "[NAME]", "create a key; it is shown once", create, { ACCOUNT_OPT } },
	{ "list", "", "list keys by id, with creation and last use", list, { ACCOUNT_OPT } },
	{ "revoke", "KEY", "revoke a key at once, by its id", revoke_key, { ACCOUNT_OPT } },
	{ "rotate",
	  "",
	  "seal the server's secrets with a new key (operator's key)",
	  rotate,
	  { { 0 } },
	  .about =
	          "This is about the key that secrets in the server's database and data directory "
	          "are encrypted with, not about API keys. Everything is encrypted again while the "
	          "server runs. Should it be interrupted, the next start finishes it. The new key "
	          "replaces the old one in its file (secret.key in the data directory), so copies "
	          "of the old file only open older backups." },
};
const struct cli_noun cli_key = { "key", "API keys", verbs, ARRAY_SIZE(verbs) };

static const struct cli_verb whoami_verbs[] = {
	{ NULL, "", "the account behind the key", whoami, { { 0 } } },
};
const struct cli_noun cli_whoami = { "whoami", "show which account the key belongs to",
	                             whoami_verbs, ARRAY_SIZE(whoami_verbs) };
