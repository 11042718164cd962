/* SPDX-License-Identifier: Apache-2.0 */
/* quota.c - how many repositories an account may have, and how large they may be together */
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "git/git_internal.h"
#include "store/store_account.h"

/* What was set for the account, else the server's; the operator's own account has none then. */
static int64_t limit_of(int64_t set, const struct store_account *a, int64_t server)
{
	if (set != QUOTA_DEFAULT)
		return set;
	return a->admin || server <= 0 ? QUOTA_NONE : server;
}

int repos_limits(struct repos *g, const char *account, int64_t *ret_repos, int64_t *ret_mb,
                 struct err *err)
{
	struct store_account a;
	int r = store_account_get(g->store, account, &a, err);

	if (r < 0)
		return r;
	*ret_repos = limit_of(a.git_repos, &a, g->conf.quota_repos);
	*ret_mb = limit_of(a.git_mb, &a, g->conf.quota_mb);
	return 0;
}

int repos_usage(struct repos *g, const char *account, int64_t *ret_repos, int64_t *ret_mb,
                struct err *err)
{
	struct store_repo_usage u;
	int r = store_repo_usage(g->store, account, &u, err);

	if (r < 0)
		return r;
	*ret_repos = u.repos;
	*ret_mb = (u.bytes + u.lfs_bytes) >> 20;
	return 0;
}

int quota_repo(struct repos *g, const char *account, struct err *err)
{
	struct store_repo_usage u;
	int64_t limit, mb;
	int r;

	if ((r = repos_limits(g, account, &limit, &mb, err)) < 0)
		return r;
	if (limit == QUOTA_NONE)
		return 0;
	if ((r = store_repo_usage(g->store, account, &u, err)) < 0)
		return r;
	if (u.repos < limit)
		return 0;
	r = err_tag(err, -EDQUOT, ERR_GIT_REPO_LIMIT_EXCEEDED,
	            "the account has %" PRId64 " repositories and may have %" PRId64, u.repos,
	            limit);
	err_fact(err, "limit", limit);
	err_fact(err, "current", u.repos);
	return r;
}

int quota_room(struct repos *g, const char *account, int64_t *ret, struct err *err)
{
	struct store_repo_usage u;
	int64_t repos, mb;
	int r;

	*ret = INT64_MAX;
	if ((r = repos_limits(g, account, &repos, &mb, err)) < 0)
		return r;
	if (mb == QUOTA_NONE)
		return 0;
	if ((r = store_repo_usage(g->store, account, &u, err)) < 0)
		return r;
	*ret = (mb << 20) - u.bytes - u.lfs_bytes;
	if (*ret > 0)
		return 0;
	r = err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
	            "the account's repositories have %" PRId64 " MiB and may have %" PRId64,
	            (u.bytes + u.lfs_bytes) >> 20, mb);
	err_fact(err, "limit", mb << 20);
	err_fact(err, "current", u.bytes + u.lfs_bytes);
	return r;
}
