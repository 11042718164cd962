/* SPDX-License-Identifier: Apache-2.0 */
/* git.c - pando git: repositories, triggers, mirrors; git_read.c has what is in them */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/git.h"

static const struct cli_col list_cols[] = {
	{ "ID", "id" },
	{ "NAME", "name" },
	{ "BRANCH", "defaultBranch" },
	{ "CREATED", "createdAt" },
};
static const struct cli_col get_cols[] = {
	{ "id", "id" },
	{ "name", "name" },
	{ "visibility", "visibility" },
	{ "default branch", "defaultBranch" },
	{ "created", "createdAt" },
	{ "last push", "pushedAt" },
	{ "bytes", "bytes" },
};
static const struct cli_col trigger_cols[] = {
	{ "ID", "id" },
	{ "EVENT", "trigger.event" },
	{ "ACTION", "action.action" },
	{ "ENDPOINT", "action.endpoint" },
	{ "COMMAND", "action.command" },
	{ "CREATED", "createdAt" },
};
static const struct cli_col delivery_cols[] = {
	{ "ID", "id" },          { "EVENT", "event" },     { "BRANCH", "branch" },
	{ "TAG", "tag" },        { "COMMIT", "commit" },   { "STATE", "state" },
	{ "TRIES", "attempts" }, { "HTTP", "statusCode" }, { "EXIT", "exitCode" },
	{ "ERROR", "error" },
};
static const struct cli_col delivery_get_cols[] = {
	{ "id", "id" },           { "event", "event" },
	{ "branch", "branch" },   { "tag", "tag" },
	{ "commit", "commit" },   { "state", "state" },
	{ "tries", "attempts" },  { "created", "createdAt" },
	{ "HTTP", "statusCode" }, { "exit code", "exitCode" },
	{ "VM", "vmId" },         { "error", "error" },
};
static const struct cli_col sync_cols[] = {
	{ "repository", "githubRepoName" },
	{ "address", "url" },
	{ "state", "state" },
	{ "installation", "installationId" },
	{ "last sync", "lastSyncAt" },
	{ "error", "error" },
	{ "webhook", "hookPath" },
};
static const struct cli_col conflict_cols[] = {
	{ "REF", "ref" },
	{ "HERE", "local" },
	{ "THERE", "remote" },
	{ "WHY", "reason" },
};

static bool is_repo_id(const char *s)
{
	return strlen(s) == 36 && strspn(s, "0123456789abcdef-") == 36;
}

char *git_repo_id(struct cli *c, const char *name)
{
	autofree char *path = NULL;
	autojson json_t *reply = NULL;
	const json_t *found = NULL;
	char *id = NULL;
	json_t *row;
	size_t i, n = 0;

	if (is_repo_id(name)) {
		id = strdup(name);
		if (!id)
			cli_oom();
		return id;
	}
	path = cli_path(c, "/git/v1/repo?limit=1000&search=%s", name);
	if (cli_call(c, "GET", path, NULL, &reply) != CLI_OK)
		return NULL;
	json_array_foreach(json_object_get(reply, "repositories"), i,
	                   row) if (strcmp(cli_str(row, "name"), name) == 0)
	{
		found = row;
		n++;
	}
	if (n > 1)
		cli_fail(CLI_REFUSED, "%zu repositories are named '%s': use the repository's id", n,
		         name);
	if (n == 0)
		cli_fail(CLI_REFUSED, "there is no repository '%s': 'pando git list' lists all",
		         name);
	if (n != 1)
		return NULL;
	id = strdup(cli_str(found, "id"));
	if (!id)
		cli_oom();
	return id;
}

int git_on_repo(struct cli *c, const char *name, const char *method, const char *tail,
                json_t *body_consume, json_t **ret)
{
	autofree char *id = git_repo_id(c, name), *path = NULL;

	if (!id) {
		json_decref(body_consume);
		return CLI_REFUSED;
	}
	if (asprintf(&path, "/git/v1/repo/%s%s", id, tail) < 0)
		cli_oom();
	return cli_call(c, method, path, body_consume, ret);
}

static int create(struct cli *c, const struct cli_args *a)
{
	json_t *body = json_object();
	autojson json_t *reply = NULL;
	int r;

	if (a->arg[0])
		json_object_set_new(body, "name", json_string(a->arg[0]));
	if (a->opt[0])
		json_object_set_new(body, "public", json_true());
	if (a->opt[1])
		json_object_set_new(body, "defaultBranch", json_string(a->opt[1]));
	if (a->opt[2]) {
		json_t *source = json_pack("{s:s}", "url", a->opt[2]);

		if (a->opt[3])
			json_object_set_new(source, "rev", json_string(a->opt[3]));
		if (a->opt[4])
			json_object_set_new(source, "allBranches", json_true());
		json_object_set_new(body, "source", source);
	}
	r = cli_call(c, "POST", "/git/v1/repo", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "repoId"));
	return r;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/git/v1/repo");
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &path, "search", a->arg[0]);
	cli_query(c, &path, "limit", a->opt[0] ? a->opt[0] : "1000");
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "repositories"), list_cols,
		          ARRAY_SIZE(list_cols));
	return r;
}

static int get(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = git_on_repo(c, a->arg[0], "GET", "", NULL, &reply);

	if (r == CLI_OK)
		cli_show(c, reply, get_cols, ARRAY_SIZE(get_cols));
	return r;
}

static int delete_repo(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = git_on_repo(c, a->arg[0], "DELETE", "", NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "deleted");
	return r;
}

/* The key is passed to this one command only: not on a command line, and not stored in the clone.
 */
static int clone_repo(struct cli *c, const struct cli_args *a)
{
	autofree char *id = git_repo_id(c, a->arg[0]), *url = NULL, *key = NULL, *header = NULL;
	char *const argv[] = { (char *)"git", (char *)"clone", (char *)"--", NULL, NULL, NULL };
	char *args[ARRAY_SIZE(argv)];

	if (!id)
		return CLI_REFUSED;
	header = strdup(cli_auth_header(c));
	if (!header || asprintf(&url, "%s/%s", cli_url(c), id) < 0 ||
	    asprintf(&key, "http.%s/.extraHeader", cli_url(c)) < 0)
		cli_oom();
	header[strcspn(header, "\r\n")] = '\0';
	memcpy(args, argv, sizeof(argv));
	args[3] = url;
	args[4] = (char *)(a->arg[1] ? a->arg[1] : a->arg[0]);
	setenv("GIT_CONFIG_COUNT", "1", 1);
	setenv("GIT_CONFIG_KEY_0", key, 1);
	setenv("GIT_CONFIG_VALUE_0", header, 1);
	execvp("git", args);
	return cli_fail(CLI_REFUSED, "git cannot be started: %s", err_name(errno));
}

static json_t *list_json(const struct cli_list *l)
{
	json_t *j = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(j, json_string(l->v[i]));
	return j;
}

enum { T_WEBHOOK, T_COMMAND, T_SNAPSHOT, T_EVENT, T_BRANCH, T_TAG, T_GLOB };

static int trigger_create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *when = json_pack("{s:s}", "event", a->opt[T_EVENT] ? a->opt[T_EVENT] : "push");
	json_t *what;
	int r;

	if (!a->opt[T_WEBHOOK] == !a->opt[T_COMMAND]) {
		json_decref(when);
		return cli_fail(CLI_USAGE, "give either --webhook URL or --command COMMAND");
	}
	if (a->list[T_BRANCH].n)
		json_object_set_new(when, "branches", list_json(&a->list[T_BRANCH]));
	if (a->list[T_TAG].n)
		json_object_set_new(when, "tags", list_json(&a->list[T_TAG]));
	if (a->list[T_GLOB].n)
		json_object_set_new(when, "globs", list_json(&a->list[T_GLOB]));
	if (a->opt[T_WEBHOOK]) {
		what = json_pack("{s:s, s:s}", "action", "webhook", "endpoint", a->opt[T_WEBHOOK]);
	} else {
		what = json_pack("{s:s, s:s}", "action", "vm", "command", a->opt[T_COMMAND]);
		if (a->opt[T_SNAPSHOT])
			json_object_set_new(what, "snapshotId", json_string(a->opt[T_SNAPSHOT]));
	}
	r = git_on_repo(c, a->arg[1], "POST", "/trigger",
	                json_pack("{s:o, s:o}", "trigger", when, "action", what), &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "triggerId"));
	return r;
}

/* What the command printed comes last, as it came. */
static void show_delivery(struct cli *c, const json_t *reply)
{
	cli_show(c, reply, delivery_get_cols, ARRAY_SIZE(delivery_get_cols));
	if (!cli_json(c) && *cli_str(reply, "output"))
		printf("\n%s", cli_str(reply, "output"));
}

static int trigger(struct cli *c, const struct cli_args *a)
{
	const char *what = a->arg[0], *id = a->arg[2];
	autojson json_t *reply = NULL;
	autofree char *tail = NULL;
	int r;

	if (strcmp(what, "create") == 0)
		return trigger_create(c, a);
	if (strcmp(what, "list") == 0) {
		r = git_on_repo(c, a->arg[1], "GET", "/trigger", NULL, &reply);
		if (r == CLI_OK)
			cli_table(c, reply, json_object_get(reply, "triggers"), trigger_cols,
			          ARRAY_SIZE(trigger_cols));
		return r;
	}
	if (!id)
		return cli_fail(CLI_USAGE, "'pando git trigger %s' needs the id of a trigger",
		                what);
	if (strcmp(what, "log") == 0) {
		tail = cli_path(c, "/trigger/%s/deliveries", id);
		r = git_on_repo(c, a->arg[1], "GET", tail, NULL, &reply);
		if (r == CLI_OK)
			cli_table(c, reply, json_object_get(reply, "deliveries"), delivery_cols,
			          ARRAY_SIZE(delivery_cols));
		return r;
	}
	if (strcmp(what, "delete") == 0) {
		tail = cli_path(c, "/trigger/%s", id);
		r = git_on_repo(c, a->arg[1], "DELETE", tail, NULL, &reply);
		if (r == CLI_OK)
			cli_say(c, reply, "deleted");
		return r;
	}
	if (!a->arg[3] || (strcmp(what, "redeliver") != 0 && strcmp(what, "show") != 0))
		return cli_fail(CLI_USAGE,
		                "the action must be create, list, delete, log, or show or "
		                "redeliver with the ids of a trigger and a delivery");
	if (strcmp(what, "show") == 0) {
		tail = cli_path(c, "/trigger/%s/deliveries/%s", id, a->arg[3]);
		r = git_on_repo(c, a->arg[1], "GET", tail, NULL, &reply);
		if (r == CLI_OK)
			show_delivery(c, reply);
		return r;
	}
	tail = cli_path(c, "/trigger/%s/deliveries/%s/redeliver", id, a->arg[3]);
	r = git_on_repo(c, a->arg[1], "POST", tail, NULL, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "queued for redelivery");
	return r;
}

static int sync_enable(struct cli *c, const struct cli_args *a)
{
	autofree char *secret = NULL;
	autojson json_t *reply = NULL;
	json_t *body;
	int r;

	if (!a->arg[2])
		return cli_fail(CLI_USAGE,
		                "the remote repository is missing: give OWNER/NAME or a URL");
	if (a->opt[0] && !(secret = cli_read_secret(a->opt[0])))
		return CLI_USAGE;
	if (secret)
		secret[strcspn(secret, "\r\n")] = '\0';
	body = json_pack("{s:s}", strstr(a->arg[2], "://") ? "url" : "githubRepoName", a->arg[2]);
	if (secret)
		json_object_set_new(body, "token", json_string(secret));
	if (a->opt[1])
		json_object_set_new(body, "installationId", json_string(a->opt[1]));
	r = git_on_repo(c, a->arg[1], "POST", "/github-sync", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "enabled");
	return r;
}

/* The reply is null when nothing is mirrored. */
static int sync_status(struct cli *c, const struct cli_args *a)
{
	autofree char *id = git_repo_id(c, a->arg[1]), *path = NULL;
	autojson json_t *reply = NULL;
	struct err err = { 0 };
	const json_t *conflicts;
	int status;

	if (!id)
		return CLI_REFUSED;
	path = cli_path(c, "/git/v1/repo/%s/github-sync", id);
	status = cli_try(c, NULL, "GET", path, NULL, &reply, &err);
	if (status < 0)
		return cli_fail(CLI_UNREACHABLE, "%s", err.msg);
	if (status != 200)
		return cli_refused(c, status, reply);
	if (!json_is_object(reply)) {
		puts(cli_json(c) ? "null" : "not mirrored");
		return CLI_OK;
	}
	cli_show(c, reply, sync_cols, ARRAY_SIZE(sync_cols));
	conflicts = json_object_get(reply, "conflicts");
	if (!cli_json(c) && json_array_size(conflicts))
		cli_table(c, reply, conflicts, conflict_cols, ARRAY_SIZE(conflict_cols));
	return CLI_OK;
}

static int sync_repo(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r;

	if (strcmp(a->arg[0], "enable") == 0)
		return sync_enable(c, a);
	if (strcmp(a->arg[0], "status") == 0)
		return sync_status(c, a);
	if (strcmp(a->arg[0], "disable") == 0)
		r = git_on_repo(c, a->arg[1], "DELETE", "/github-sync", NULL, &reply);
	else if (strcmp(a->arg[0], "now") == 0)
		r = git_on_repo(c, a->arg[1], "POST", "/github-sync/run", NULL, &reply);
	else
		return cli_fail(CLI_USAGE, "the action must be enable, status, now or disable");
	if (r == CLI_OK)
		cli_say(c, reply, "%s", strcmp(a->arg[0], "now") == 0 ? "begun" : "disabled");
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "create", "[NAME]", "create a repository and print its id", create,
	  { { "public", NULL, "everyone may read it" },
	    { "branch", "NAME", "its default branch; main" },
	    { "from", "URL", "import this repository with its history" },
	    { "rev", "REV", "with --from: a branch, tag or commit" },
	    { "all-branches", NULL, "with --from: all branches" } } },
	{ "list", "[SEARCH]", "list the account's repositories", list,
	  { { "limit", "N", "at most this many", 0, CLI_NUMBER, .min = 1, .max = 1000 } } },
	{ "get", "REPO", "show a repository, by id or name", get },
	{ "clone", "REPO [DIRECTORY]", "clone it with git; the key is not stored in the clone", clone_repo },
	{ "delete", "REPO", "delete it and everything in it", delete_repo },
	{ "trigger", "ACTION REPO [TRIGGER] [DELIVERY]", "actions after a push: create, list, delete, log, show, redeliver", trigger,
	  { { "webhook", "URL", "create: send a signed webhook to this URL" },
	    { "command", "COMMAND", "create: run this in a VM with a clone of the repository" },
	    { "snapshot", "SNAPSHOT", "create: start that VM from this snapshot" },
	    { "event", "EVENT", "create: push (default), branchCreate, branchDelete, tag or tagDelete" },
	    { "branch", "NAME", "create: only for this branch, * is any text; can be repeated", 0, CLI_LIST },
	    { "tag", "NAME", "create: only for this tag, likewise", 0, CLI_LIST },
	    { "glob", "GLOB", "create: only if a file that matches this changed; can be repeated", 0, CLI_LIST } },
	  .examples = "pando git trigger create app --webhook https://example.org/hook # send a webhook\n"
	              "pando git trigger create app --branch main --command 'make test' # test every push\n"
	              "pando git trigger create app --event tag --tag 'v*' --command 'make release' # act on a tag\n" },
	{ "sync", "ACTION REPO [REMOTE]", "mirror another Git server both ways: enable, status, now, disable", sync_repo,
	  { { "token-file", "FILE", "enable: file with the password for the remote; '-' is stdin" },
	    { "installation", "NUMBER", "enable: of a GitHub App; default: the one that reaches it" } },
	  .about = "REMOTE is OWNER/NAME on the server's GitHub, or the URL of any repository that Git "
	           "can reach over HTTP. Nothing is ever force-pushed: a branch that diverged is not "
	           "synced until the conflict is resolved." },
	{ "credential", "ACTION [SERVER]", "how mirrors log in to other Git servers: set, list, remove", git_credential,
	  { { "token-file", "FILE", "set: file with the password; '-' is stdin" },
	    { "app", "ID", "set: id of a GitHub App, instead of a password" },
	    { "installation", "NUMBER", "set: the id of the app's installation" },
	    { "key-file", "FILE", "set: file with the app's private key, as downloaded" },
	    { "api-url", "URL", "set: the API to request passwords from; default: GitHub's layout" } },
	  .about = "SERVER is a URL; default: the server's GitHub. It is used by the account's mirrors "
	           "that have no token of their own.",
	  .examples = "pando git credential set --token-file token.txt # a personal access token\n"
	              "pando git credential set --app 12345 --installation 678 --key-file app.pem # a GitHub App\n" },
	{ "app", "ACTION [ID] [NUMBER]", "GitHub Apps for mirrors: list, new, add, remove, install, installations, adopt, repos, refresh, forget", git_app,
	  { { "name", "NAME", "new: its name on GitHub" },
	    { "organization", "NAME", "new: the organization that it will belong to; default: you" },
	    { "shared", NULL, "new, add: for all accounts; the operator only" },
	    { "private", NULL, "new: only its owner on GitHub can install it" },
	    { "base-url", "URL", "new, install: where GitHub and browsers reach the server; default: as this command does" },
	    { "app", "NUMBER", "add: id of an App that exists" },
	    { "key-file", "FILE", "add: file with its private key, as downloaded" },
	    { "webhook-secret-file", "FILE", "add: file with its webhook secret" },
	    { "client", "ID", "add: its client id" },
	    { "client-secret-file", "FILE", "add: file with its client secret; needed with --shared" },
	    { "server", "URL", "new, add: the GitHub server; default: the server's" },
	    { "api-url", "URL", "new, add: its API; default: GitHub's layout" },
	    { "uninstall", NULL, "forget: uninstall it on GitHub, too" } },
	  .about = "'new' and 'install' print a link to open in a browser, once. ID is the id or name of an App "
	           "(default: the only one), for 'repos', 'refresh' and 'forget' the id or number of an installation. "
	           "A mirror finds the installation that reaches its repository by itself.",
	  .examples = "pando git app new --name my-pando # make an App; open the link\n"
	              "pando git app install my-pando # a link for whoever has the repositories\n"
	              "pando git sync enable app octocat/app # mirror one of them\n" },
};
/* clang-format on */
const struct cli_noun cli_git = { "git", "repositories", verbs, ARRAY_SIZE(verbs) };
