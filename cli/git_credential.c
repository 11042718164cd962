/* SPDX-License-Identifier: Apache-2.0 */
/* git_credential.c - pando git credential: credentials for other Git servers. Secrets come from
 * files
 */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/git.h"

static const struct cli_col cols[] = {
	{ "SERVER", "server" }, { "KIND", "kind" },
	{ "APP", "appId" },     { "INSTALLATION", "installationId" },
	{ "API", "apiUrl" },    { "CREATED", "createdAt" },
};

static void set_text(json_t *body, const char *name, const char *value)
{
	if (value)
		json_object_set_new(body, name, json_string(value));
}

static int set(struct cli *c, const struct cli_args *a)
{
	const char *const *o = a->opt;
	autofree char *secret = NULL;
	autojson json_t *reply = NULL;
	json_t *body;
	int r;

	if (!o[CRED_TOKEN] == !o[CRED_APP] ||
	    (o[CRED_APP] && (!o[CRED_INSTALLATION] || !o[CRED_KEY])))
		return cli_fail(CLI_USAGE, "give --token-file, or --app, --installation and "
		                           "--key-file of a GitHub App");
	secret = cli_read_secret(o[CRED_TOKEN] ? o[CRED_TOKEN] : o[CRED_KEY]);
	if (!secret)
		return CLI_USAGE;
	if (o[CRED_TOKEN])
		secret[strcspn(secret, "\r\n")] = '\0';
	body = json_object();
	set_text(body, "server", a->arg[1]);
	set_text(body, o[CRED_TOKEN] ? "token" : "privateKey", secret);
	set_text(body, "appId", o[CRED_APP]);
	set_text(body, "installationId", o[CRED_INSTALLATION]);
	set_text(body, "apiUrl", o[CRED_API]);
	explicit_bzero(secret, strlen(secret));
	r = cli_call(c, "PUT", "/git/v1/credentials", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "set for %s", cli_str(reply, "server"));
	return r;
}

static int list(struct cli *c)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/git/v1/credentials", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "credentials"), cols, ARRAY_SIZE(cols));
	return r;
}

static int drop(struct cli *c, const struct cli_args *a)
{
	autofree char *path =
	        cli_path(c, "/git/v1/credentials?server=%s", a->arg[1] ? a->arg[1] : "");
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "removed");
	return r;
}

int git_credential(struct cli *c, const struct cli_args *a)
{
	if (strcmp(a->arg[0], "list") == 0)
		return list(c);
	if (strcmp(a->arg[0], "set") == 0)
		return set(c, a);
	if (strcmp(a->arg[0], "remove") == 0)
		return drop(c, a);
	return cli_fail(CLI_USAGE, "the action must be set, list or remove");
}
