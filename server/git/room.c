/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.c - whose children run
 *
 * Those of clients with a key are counted by account, the others by address, each kind for itself
 * (base/budget.h): whoever starts many waits for its own to end, and is then told to come again.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "git/git_internal.h"

#define RETRY_S 5 /* when it is worth trying again after a refusal */

int repos_ready(const struct repos *g, struct err *err)
{
	if (!g->closed)
		return 0;
	return err_tag(
	        err, -EAGAIN, ERR_UNAVAILABLE,
	        "Git is not served on this host: its programs cannot be jailed (%.100s); the "
	        "operator can allow it without a jail (PANDO_GIT_UNJAILED)",
	        g->jail_text);
}

int room_take(struct repos *g, const struct repo_client *by, struct child *ret, struct err *err)
{
	const char *kind = by && by->stranger ? "address" : "account";
	struct budget *b;
	int r;

	ret->b = NULL;
	if (!by)
		return 0;
	b = by->stranger ? g->strangers : g->accounts;
	snprintf(ret->holder, sizeof(ret->holder), "%s", by->holder);
	r = budget_wait(b, ret->holder, 1, deadline_in(CHILD_WAIT_MS));
	if (r == 0) {
		ret->b = b;
		return 0;
	}
	if (r == -EDQUOT)
		err_tag(err, -EAGAIN, ERR_LIMIT_EXCEEDED,
		        "%s %s has too many Git operations at once (one %s may have up to %llu, "
		        "less when others need some): wait for one of them to end",
		        kind, by->holder, kind, (unsigned long long)budget_share(b));
	else
		err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		        "the server has too many Git operations%s at once: try again in a moment%s",
		        by->stranger ? " of clients without a key" : "",
		        by->stranger ? ", or with a key" : "");
	err_fact(err, ERR_FACT_RETRY, RETRY_S);
	return -EAGAIN;
}

void room_give(struct child *c)
{
	if (c->b)
		budget_give(c->b, c->holder, 1);
	c->b = NULL;
}
