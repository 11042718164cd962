/* SPDX-License-Identifier: Apache-2.0 */
/* quota.c - how many repositories an account may have, and how large they may be together */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/git_internal.h"
#include "store/store_account.h"
#include "store/store_feed.h"

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
	store_feed_refused(g->store, account, "gitRepos", ERR_GIT_REPO_LIMIT_EXCEEDED, limit,
	                   u.repos, 1);
	r = err_tag(err, -EDQUOT, ERR_GIT_REPO_LIMIT_EXCEEDED,
	            "the account has %" PRId64 " repositories and may have %" PRId64, u.repos,
	            limit);
	err_fact(err, "limit", limit);
	err_fact(err, "current", u.repos);
	return r;
}

#define HOLD_STEP (INT64_C(1) << 20) /* what comes in pieces is counted in these */

struct hold {
	struct hold *next;
	struct repos *g;
	char account[ACCOUNT_SIZE], repo[REPO_ID_SIZE];
	int64_t bytes;
	uint64_t mark; /* stored since then; 0: on its way */
};

static int64_t held(const struct repos *g, const char *account) REQUIRES(&g->quota)
{
	int64_t sum = 0;

	for (const struct hold *h = g->holds; h; h = h->next)
		if (strcmp(h->account, account) == 0)
			sum += h->bytes;
	return sum;
}

/* *ret: what is left, INT64_MAX if there is no limit. */
static int room_left(struct repos *g, const char *account, int64_t need, int64_t *ret,
                     struct err *err) REQUIRES(&g->quota)
{
	struct store_repo_usage u;
	int64_t repos, mb, used;
	int r;

	*ret = INT64_MAX;
	if ((r = repos_limits(g, account, &repos, &mb, err)) < 0)
		return r;
	if (mb == QUOTA_NONE)
		return 0;
	if ((r = store_repo_usage(g->store, account, &u, err)) < 0)
		return r;
	used = u.bytes + u.lfs_bytes + held(g, account);
	*ret = (mb << 20) - used;
	if (*ret > 0 && *ret >= need)
		return 0;
	store_feed_refused(g->store, account, "gitMb", ERR_LIMIT_EXCEEDED, mb, used >> 20,
	                   MAX(need >> 20, 1));
	r = err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
	            "the account's repositories have %" PRId64
	            " MiB, with what is being uploaded, and may have %" PRId64,
	            used >> 20, mb);
	err_fact(err, "limit", mb << 20);
	err_fact(err, "current", used);
	return r;
}

int quota_room(struct repos *g, const char *account, int64_t *ret, struct err *err)
{
	LOCK_SCOPE(&g->quota);
	return room_left(g, account, 0, ret, err);
}

int hold_new(struct repos *g, const char *account, const char *repo, int64_t bytes,
             struct hold **ret, struct err *err)
{
	struct hold *h = calloc(1, sizeof(*h));
	int64_t left;
	int r;

	if (!h)
		return err_set(err, -ENOMEM, "out of memory");
	h->g = g;
	h->bytes = bytes;
	snprintf(h->account, sizeof(h->account), "%s", account);
	snprintf(h->repo, sizeof(h->repo), "%s", repo);
	LOCK_SCOPE(&g->quota);
	if ((r = room_left(g, account, bytes, &left, err)) < 0) {
		free(h);
		return r;
	}
	h->next = g->holds;
	g->holds = h;
	*ret = h;
	return 0;
}

int hold_grow(struct hold *h, int64_t bytes, struct err *err)
{
	int64_t more, left;
	int r;

	if (!h)
		return 0;
	LOCK_SCOPE(&h->g->quota);
	more = bytes - h->bytes;
	if (more <= 0)
		return 0;
	if ((r = room_left(h->g, h->account, more, &left, err)) < 0)
		return r;
	h->bytes += MIN(MAX(more, HOLD_STEP), left);
	return 0;
}

static void take_out(struct repos *g, struct hold *h) REQUIRES(&g->quota)
{
	struct hold **at = &g->holds;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	free(h);
}

struct hold *hold_drop(struct hold *h)
{
	struct repos *g = h ? h->g : NULL;

	if (!h)
		return NULL;
	LOCK_SCOPE(&g->quota);
	take_out(g, h);
	return NULL;
}

struct hold *hold_keep(struct hold *h)
{
	struct repos *g = h ? h->g : NULL;
	char repo[REPO_ID_SIZE];

	if (!h)
		return NULL;
	mutex_lock(&g->quota);
	h->mark = ++g->hold_mark;
	memcpy(repo, h->repo, sizeof(repo));
	mutex_unlock(&g->quota);
	maint_note(g, repo);
	return NULL;
}

uint64_t quota_mark(struct repos *g)
{
	LOCK_SCOPE(&g->quota);
	return g->hold_mark;
}

void quota_measured(struct repos *g, const char *repo, uint64_t mark)
{
	LOCK_SCOPE(&g->quota);
	for (struct hold *h = g->holds, *next; h; h = next) {
		next = h->next;
		if (h->mark && h->mark <= mark && strcmp(h->repo, repo) == 0)
			take_out(g, h);
	}
}

void holds_free(struct repos *g)
{
	mutex_unshared(&g->quota);
	while (g->holds)
		take_out(g, g->holds);
}
