/* SPDX-License-Identifier: Apache-2.0 */
/* quota.c - how many repositories an account may have, and how large they may be together */
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "git/git_internal.h"
#include "store/store_account.h"

/* The operator's account has no limits. */
static int unlimited(struct repos *g, const char *account, struct err *err)
{
	struct store_account a;
	int r = store_account_get(g->store, account, &a, err);

	return r < 0 ? r : a.admin;
}

int quota_repo(struct repos *g, const char *account, struct err *err)
{
	struct store_repo_usage u;
	int r;

	if (g->conf.quota_repos <= 0)
		return 0;
	if ((r = unlimited(g, account, err)) != 0)
		return MIN(r, 0);
	if ((r = store_repo_usage(g->store, account, &u, err)) < 0)
		return r;
	if (u.repos < g->conf.quota_repos)
		return 0;
	r = err_tag(err, -EDQUOT, "GIT_REPO_LIMIT_EXCEEDED",
	            "the account has %" PRId64 " repositories and may have %" PRId64, u.repos,
	            g->conf.quota_repos);
	err_fact(err, "limit", g->conf.quota_repos);
	err_fact(err, "current", u.repos);
	return r;
}

int quota_room(struct repos *g, const char *account, int64_t *ret, struct err *err)
{
	struct store_repo_usage u;
	int64_t limit = g->conf.quota_mb << 20;
	int r;

	*ret = INT64_MAX;
	if (limit <= 0)
		return 0;
	if ((r = unlimited(g, account, err)) != 0)
		return MIN(r, 0);
	if ((r = store_repo_usage(g->store, account, &u, err)) < 0)
		return r;
	*ret = limit - u.bytes - u.lfs_bytes;
	if (*ret > 0)
		return 0;
	r = err_tag(err, -EDQUOT, "LIMIT_EXCEEDED",
	            "the account's repositories have %" PRId64 " MiB and may have %" PRId64,
	            (u.bytes + u.lfs_bytes) >> 20, g->conf.quota_mb);
	err_fact(err, "limit", limit);
	err_fact(err, "current", u.bytes + u.lfs_bytes);
	return r;
}
