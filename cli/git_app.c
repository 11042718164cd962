/* SPDX-License-Identifier: Apache-2.0 */
/* git_app.c - pando git app: GitHub Apps and their installations. Secrets come from files */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/git.h"

static const struct cli_col app_cols[] = {
	{ "ID", "id" },   { "NAME", "name" },           { "SHARED", "shared" },
	{ "OWN", "own" }, { "WEBHOOK", "webhookPath" }, { "LAST WEBHOOK", "lastWebhookAt" },
};
static const struct cli_col installation_cols[] = {
	{ "ID", "id" },     { "NUMBER", "installationId" }, { "LOGIN", "login" },
	{ "KIND", "kind" }, { "SUSPENDED", "suspended" },   { "ERROR", "error" },
};

/* The id of the one in a list that has this id, name or number; NULL word: the only one. */
static char *find_id(struct cli *c, const char *path, const char *list, const char *name,
                     const char *word)
{
	autojson json_t *reply = NULL;
	const json_t *found = NULL;
	json_t *row;
	size_t i, n = 0;
	char *id;

	if (cli_call(c, "GET", path, NULL, &reply) != CLI_OK)
		return NULL;
	json_array_foreach(json_object_get(reply, list), i, row)
	{
		if (word && strcmp(cli_str(row, "id"), word) != 0 &&
		    strcmp(cli_str(row, name), word) != 0)
			continue;
		found = row;
		n++;
	}
	if (n != 1) {
		cli_fail(CLI_REFUSED,
		         n ? "there are several %s: give the id of one"
		           : "there is no such one among the account's %s",
		         list);
		return NULL;
	}
	id = strdup(cli_str(found, "id"));
	if (!id)
		cli_oom();
	return id;
}

static char *app_id(struct cli *c, const char *word)
{
	return find_id(c, "/git/v1/github/apps", "apps", "name", word);
}

static char *installation_id(struct cli *c, const char *word)
{
	return find_id(c, "/git/v1/github/installations", "installations", "installationId", word);
}

static void set_text(json_t *body, const char *name, const char *value)
{
	if (value)
		json_object_set_new(body, name, json_string(value));
}

static void set_true(json_t *body, const char *name, const char *value)
{
	if (value)
		json_object_set_new(body, name, json_true());
}

/* A file's text, without the end of its only line; -1 after an error message. */
static int set_secret(json_t *body, const char *name, const char *file, bool lines)
{
	char *text = file ? cli_read_secret(file) : NULL;

	if (!file)
		return 0;
	if (!text)
		return -1;
	if (!lines)
		text[strcspn(text, "\r\n")] = '\0';
	set_text(body, name, text);
	explicit_bzero(text, strlen(text));
	free(text);
	return 0;
}

static int add(struct cli *c, const struct cli_args *a)
{
	const char *const *o = a->opt;
	autojson json_t *reply = NULL;
	json_t *body = json_object();
	int r;

	if (!o[APP_ID] || !o[APP_KEY]) {
		json_decref(body);
		return cli_fail(CLI_USAGE, "'pando git app add' needs --app and --key-file");
	}
	if (set_secret(body, "privateKey", o[APP_KEY], true) < 0 ||
	    set_secret(body, "webhookSecret", o[APP_HOOK], false) < 0 ||
	    set_secret(body, "clientSecret", o[APP_CLIENT_SECRET], false) < 0) {
		json_decref(body);
		return CLI_USAGE;
	}
	set_text(body, "appId", o[APP_ID]);
	set_text(body, "clientId", o[APP_CLIENT]);
	set_text(body, "server", o[APP_SERVER]);
	set_text(body, "apiUrl", o[APP_API]);
	set_true(body, "shared", o[APP_SHARED]);
	r = cli_call(c, "POST", "/git/v1/github/apps", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s: its webhook is %s%s", cli_str(reply, "id"), cli_url(c),
		        cli_str(reply, "webhookPath"));
	return r;
}

static int link_of(struct cli *c, const char *path, json_t *body_consume)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", path, body_consume, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "url"));
	return r;
}

static int new_app(struct cli *c, const struct cli_args *a)
{
	const char *const *o = a->opt;
	json_t *body = json_object();

	set_text(body, "name", o[APP_NAME]);
	set_text(body, "organization", o[APP_ORGANIZATION]);
	set_text(body, "baseUrl", o[APP_BASE]);
	set_text(body, "server", o[APP_SERVER]);
	set_text(body, "apiUrl", o[APP_API]);
	set_true(body, "shared", o[APP_SHARED]);
	set_true(body, "private", o[APP_PRIVATE]);
	return link_of(c, "/git/v1/github/apps/manifest", body);
}

static int on_app(struct cli *c, const struct cli_args *a)
{
	autofree char *id = app_id(c, a->arg[1]), *path = NULL;
	autojson json_t *reply = NULL;
	json_t *body;
	int r;

	if (!id)
		return CLI_REFUSED;
	if (strcmp(a->arg[0], "install") == 0) {
		body = json_object();
		set_text(body, "baseUrl", a->opt[APP_BASE]);
		path = cli_path(c, "/git/v1/github/apps/%s/install", id);
		return link_of(c, path, body);
	}
	path = cli_path(c, "/git/v1/github/apps/%s", id);
	r = cli_call(c, "DELETE", path, NULL, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "forgotten; on GitHub it is still there");
	return r;
}

static int show_list(struct cli *c, const char *path, const char *name, const struct cli_col *cols,
                     size_t n)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", path, NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, name), cols, n);
	return r;
}

static int adopt(struct cli *c, const struct cli_args *a)
{
	autofree char *id = NULL;
	autojson json_t *reply = NULL;
	int r;

	if (!a->arg[2])
		return cli_fail(CLI_USAGE, "'pando git app adopt' needs an App and the number of "
		                           "one of its installations");
	id = app_id(c, a->arg[1]);
	if (!id)
		return CLI_REFUSED;
	r = cli_call(c, "POST", "/git/v1/github/installations",
	             json_pack("{s:s, s:s}", "appId", id, "installationId", a->arg[2]), &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "id"));
	return r;
}

static int repos(struct cli *c, const char *id)
{
	autofree char *path =
	        cli_path(c, "/git/v1/github/installations/%s/repositories?limit=1000", id);
	autojson json_t *reply = NULL;
	json_t *v;
	size_t i;
	int r = cli_call(c, "GET", path, NULL, &reply);

	if (r != CLI_OK)
		return r;
	json_array_foreach(json_object_get(reply, "repositories"), i, v) if (!cli_json(c))
	        puts(json_string_value(v));
	if (cli_json(c))
		cli_say(c, reply, "%s", id);
	return r;
}

static int on_installation(struct cli *c, const struct cli_args *a)
{
	autofree char *id = installation_id(c, a->arg[1]), *path = NULL;
	bool look = strcmp(a->arg[0], "refresh") == 0;
	autojson json_t *reply = NULL;
	int r;

	if (!id)
		return CLI_REFUSED;
	if (strcmp(a->arg[0], "repos") == 0)
		return repos(c, id);
	if (look)
		path = cli_path(c, "/git/v1/github/installations/%s/refresh", id);
	else
		path = cli_path(c,
		                a->opt[APP_UNINSTALL]
		                        ? "/git/v1/github/installations/%s?uninstall=true"
		                        : "/git/v1/github/installations/%s",
		                id);
	r = cli_call(c, look ? "POST" : "DELETE", path, NULL, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, look ? "begun" : "forgotten");
	return r;
}

int git_app(struct cli *c, const struct cli_args *a)
{
	static const struct {
		const char *name;
		int (*run)(struct cli *c, const struct cli_args *a);
	} actions[] = { { "new", new_app },
		        { "add", add },
		        { "install", on_app },
		        { "remove", on_app },
		        { "adopt", adopt },
		        { "repos", on_installation },
		        { "refresh", on_installation },
		        { "forget", on_installation } };

	if (strcmp(a->arg[0], "list") == 0)
		return show_list(c, "/git/v1/github/apps", "apps", app_cols, ARRAY_SIZE(app_cols));
	if (strcmp(a->arg[0], "installations") == 0)
		return show_list(c, "/git/v1/github/installations", "installations",
		                 installation_cols, ARRAY_SIZE(installation_cols));
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (strcmp(a->arg[0], actions[i].name) == 0)
			return actions[i].run(c, a);
	return cli_fail(CLI_USAGE, "the action must be list, new, add, remove, install, "
	                           "installations, adopt, repos, refresh or forget");
}
