/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - pando account: the accounts of a server; requires a key of the operator's account */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"

enum { Q_VMS, Q_RUNNING, Q_VCPUS, Q_MEMORY, Q_DISK, Q_SNAPSHOTS, Q_REPOS, Q_REPO_MB, Q_MAX };
static const char *const quota_members[Q_MAX] = {
	[Q_VMS] = "vms",         [Q_RUNNING] = "runningVms", [Q_VCPUS] = "vcpus",
	[Q_MEMORY] = "memoryMb", [Q_DISK] = "diskMb",        [Q_SNAPSHOTS] = "snapshots",
	[Q_REPOS] = "gitRepos",  [Q_REPO_MB] = "gitMb",
};
/* clang-format off */
#define QUOTA_OPTS \
	{ "vms", "N", "VMs; N is a number, 'none' (no limit) or 'default' (the server's)" }, \
	{ "running", "N", "VMs running at the same time" }, \
	{ "vcpus", "N", "total vCPUs of running VMs" }, \
	{ "memory", "MB", "total memory of running VMs" }, \
	{ "disk", "MB", "total size of all root disks" }, \
	{ "snapshots", "N", "snapshots" }, \
	{ "repos", "N", "repositories" }, \
	{ "repo-size", "MB", "total size of repositories and large files" }
/* clang-format on */

static const struct cli_col account_cols[] = {
	{ "ID", "id" },
	{ "NAME", "name" },
	{ "OPERATOR", "admin" },
	{ "VMS", "usage.vms" },
	{ "RUNNING", "usage.runningVms" },
	{ "SNAPSHOTS", "usage.snapshots" },
	{ "CREATED", "createdAt" },
};
static const struct cli_col show_cols[] = {
	{ "id", "id" },
	{ "name", "name" },
	{ "operator", "admin" },
	{ "created", "createdAt" },
	{ "VMs", "usage.vms" },
	{ "  limit", "limits.vms" },
	{ "running", "usage.runningVms" },
	{ "  limit", "limits.runningVms" },
	{ "vCPUs", "usage.vcpus" },
	{ "  limit", "limits.vcpus" },
	{ "memory MB", "usage.memoryMb" },
	{ "  limit", "limits.memoryMb" },
	{ "disk MB", "usage.diskMb" },
	{ "  limit", "limits.diskMb" },
	{ "snapshots", "usage.snapshots" },
	{ "  limit", "limits.snapshots" },
	{ "repositories", "usage.gitRepos" },
	{ "  limit", "limits.gitRepos" },
	{ "repo MB", "usage.gitMb" },
	{ "  limit", "limits.gitMb" },
};

/* -1 after an error message; *ret NULL when no option was given. */
static int read_quotas(const struct cli_args *a, json_t **ret)
{
	autojson json_t *q = json_object();

	for (int i = 0; i < Q_MAX; i++) {
		const char *s = a->opt[i];
		char *end;
		long long n;

		if (!s)
			continue;
		errno = 0;
		n = strtoll(s, &end, 10);
		if (strcmp(s, "default") == 0) {
			json_object_set_new(q, quota_members[i], json_null());
		} else if (strcmp(s, "none") == 0) {
			json_object_set_new(q, quota_members[i], json_integer(-1));
		} else if (*s && !*end && !errno && n >= 0) {
			json_object_set_new(q, quota_members[i], json_integer(n));
		} else {
			cli_fail(CLI_USAGE, "'%s' must be a number, 'none' or 'default'", s);
			return -1;
		}
	}
	*ret = json_object_size(q) ? json_incref(q) : NULL;
	return 0;
}

char *cli_account_id(struct cli *c, const char *name)
{
	autojson json_t *reply = NULL;
	json_t *row, *found = NULL;
	size_t i, n = 0;

	if (strlen(name) == 36 && strspn(name, "0123456789abcdef-") == 36)
		return strdup(name);
	if (cli_call(c, "GET", "/v1/accounts", NULL, &reply) != CLI_OK)
		return NULL;
	json_array_foreach(json_object_get(reply, "accounts"), i, row)
	{
		const char *s = json_string_value(json_object_get(row, "name"));

		if (s && strcmp(s, name) == 0) {
			found = row;
			n++;
		}
	}
	if (n != 1) {
		cli_fail(CLI_REFUSED,
		         n ? "%zu accounts are named '%s': use the account's id"
		           : "%zu accounts are named '%s': 'pando account list' shows their ids",
		         n, name);
		return NULL;
	}
	return strdup(json_string_value(json_object_get(found, "id")));
}

static int create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL, *key = NULL;
	autofree char *path = NULL;
	json_t *body, *quotas = NULL;
	int r;

	if (read_quotas(a, &quotas) < 0)
		return CLI_USAGE;
	body = json_pack("{s:s}", "name", a->arg[0]);
	if (quotas)
		json_object_set_new(body, "quotas", quotas);
	if ((r = cli_call(c, "POST", "/v1/accounts", body, &reply)) != CLI_OK)
		return r;
	if (a->opt[Q_MAX]) {
		path = cli_path(c, "/v1/keys?accountId=%s",
		                json_string_value(json_object_get(reply, "id")));
		r = cli_call(c, "POST", path, json_pack("{s:s}", "name", "first key"), &key);
		if (r != CLI_OK)
			return r;
		json_object_set(reply, "key", json_object_get(key, "key"));
	}
	cli_say(c, reply, "account %s%s%s", json_string_value(json_object_get(reply, "id")),
	        key ? "\nkey     " : "", key ? json_string_value(json_object_get(key, "key")) : "");
	return CLI_OK;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/accounts", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "accounts"), account_cols,
		          ARRAY_SIZE(account_cols));
	return r;
}

/* A request about the account in the first argument. */
static int on_account(struct cli *c, const struct cli_args *a, const char *method, json_t *body,
                      json_t **ret)
{
	autofree char *id = cli_account_id(c, a->arg[0]), *path = NULL;

	if (!id) {
		json_decref(body);
		return CLI_REFUSED;
	}
	path = cli_path(c, "/v1/accounts/%s", id);
	return cli_call(c, method, path, body, ret);
}

static int show(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = on_account(c, a, "GET", NULL, &reply);

	if (r == CLI_OK)
		cli_show(c, reply, show_cols, ARRAY_SIZE(show_cols));
	return r;
}

static int set_quota(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *quotas = NULL;
	int r;

	if (read_quotas(a, &quotas) < 0)
		return CLI_USAGE;
	if (!quotas)
		return cli_fail(CLI_USAGE, "no limit given: see 'pando account set-quota --help'");
	r = on_account(c, a, "PATCH", json_pack("{s:o}", "quotas", quotas), &reply);
	if (r == CLI_OK)
		cli_show(c, reply, show_cols, ARRAY_SIZE(show_cols));
	return r;
}

static int rename_account(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = on_account(c, a, "PATCH", json_pack("{s:s}", "name", a->arg[1]), &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "renamed");
	return r;
}

static int delete_account(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = on_account(c, a, "DELETE", NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "deleted");
	return r;
}

static const struct cli_verb verbs[] = {
	{ "create",
	  "NAME",
	  "create an account",
	  create,
	  { QUOTA_OPTS, { "with-key", NULL, "also create an API key for it, shown once" } } },
	{ "list", "", "list all accounts and their usage", list, { { 0 } } },
	{ "show", "ACCOUNT", "show one account, by id or name, with its limits", show, { { 0 } } },
	{ "set-quota", "ACCOUNT", "change an account's limits", set_quota, { QUOTA_OPTS } },
	{ "rename", "ACCOUNT NAME", "rename it", rename_account, { { 0 } } },
	{ "delete",
	  "ACCOUNT",
	  "delete an account; it must have no VMs and snapshots",
	  delete_account,
	  { { 0 } } },
};
const struct cli_noun cli_account = { "account", "accounts of the server (operator's key)", verbs,
	                              ARRAY_SIZE(verbs) };
