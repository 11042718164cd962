/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - pando audit: who did what */
#include <stdlib.h>

#include "base/auto.h"
#include "cli/cli.h"

static const struct cli_col cols[] = {
	{ "ID", "id" },
	{ "TIME", "at" },
	{ "ACCOUNT", "accountId" },
	{ "KEY", "keyId" },
	{ "IDENTITY", "identityId" },
	{ "STATUS", "status" },
	{ "METHOD", "method" },
	{ "ROUTE", "route" },
	{ "TARGET", "target" },
	{ "CODE", "code" },
	{ "FROM", "remote" },
	{ "REPEATED", "repeated" },
};

static int audit(struct cli *c, const struct cli_args *a)
{
	static const char *const names[] = { "limit", "before", "after", "action", "target" };
	autofree char *path = cli_path(c, "/v1/audit"), *account = NULL;
	autojson json_t *reply = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		cli_query(c, &path, names[i], a->opt[i]);
	if (a->opt[ARRAY_SIZE(names)]) {
		account = cli_account_id(c, a->opt[ARRAY_SIZE(names)]);
		if (!account)
			return CLI_REFUSED;
		cli_query(c, &path, "accountId", account);
	}
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "records"), cols, ARRAY_SIZE(cols));
	return r;
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "",
	  "show the audit log, newest first",
	  audit,
	  { { "limit", "N", "at most this many records (100)" },
	    { "before", "ID|TIME", "older than this record or time (2026-01-31T12:00:00Z)" },
	    { "after", "ID|TIME", "newer than" },
	    { "action", "ACTION", "POST, /v1/vms or 'POST /v1/vms'" },
	    { "target", "ID", "about this VM, snapshot, identity, key or account" },
	    { "account", "ACCOUNT", "by this account (operator's key; default: all)" } } },
};
const struct cli_noun cli_audit = { "audit", "the audit log", verbs, ARRAY_SIZE(verbs) };
