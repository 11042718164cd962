/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - pando session: the browsers that are signed in to the dashboard, and how to end that
 */
#include "base/auto.h"
#include "cli/cli.h"

enum { O_ALL };

static int list(struct cli *c, const struct cli_args *a)
{
	static const struct cli_col cols[] = {
		{ "ID", "id" },
		{ "FROM", "address" },
		{ "OPENED", "createdAt" },
		{ "LAST USED", "lastUsedAt" },
		{ "BROWSER", "client" },
	};
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/sessions", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "sessions"), cols, ARRAY_SIZE(cols));
	return r;
}

static int end_session(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	autofree char *path = NULL;
	int r;

	if (!a->arg[0] == !a->opt[O_ALL])
		return cli_fail(CLI_USAGE, "give the id of one session, or --all");
	path = a->arg[0] ? cli_path(c, "/v1/sessions/%s", a->arg[0]) : cli_path(c, "/v1/sessions");
	r = cli_call(c, "DELETE", path, NULL, &reply);
	if (r == CLI_OK && a->arg[0])
		cli_say(c, reply, "ended");
	else if (r == CLI_OK)
		cli_say(c, reply, "%d ended",
		        (int)json_integer_value(json_object_get(reply, "ended")));
	return r;
}

static const struct cli_verb verbs[] = {
	{ "list", "", "browsers that are signed in, with their last use", list, { { 0 } } },
	{ "end",
	  "[SESSION]",
	  "sign a browser out at once, by the session's id",
	  end_session,
	  { [O_ALL] = { "all", NULL, "all of the account's, or of the token's identity" } },
	  .about = "API keys and access tokens are not affected: revoke those with 'pando key' and "
	           "'pando token', which ends the sessions that were opened with them, too." },
};
const struct cli_noun cli_session = { "session", "browsers that are signed in to the dashboard",
	                              verbs, ARRAY_SIZE(verbs) };
