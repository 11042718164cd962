/* SPDX-License-Identifier: Apache-2.0 */
/* store_sync.c - mirrors, and when they are due next */
#include "store/store_sync.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

const char *const sync_state_words[SYNC_STATE_MAX] = { "waiting", "running", "synced", "conflict",
	                                               "failed" };

static const struct col sync_cols[] = {
	COL_AT(COL_TEXT, store_sync, repo, "repo"),
	COL_AT(COL_TEXT, store_sync, account, "account"),
	COL_AT(COL_TEXT, store_sync, remote, "remote"),
	COL_AT(COL_TEXT, store_sync, url, "url"),
	COL_AT(COL_SECRET, store_sync, token, "token"),
	COL_AT(COL_SECRET, store_sync, hook, "hook"),
	COL_WORD_AT(store_sync, state, "state", sync_state_words),
	COL_AT(COL_TEXT, store_sync, note, "note"),
	COL_AT(COL_TEXT, store_sync, conflicts, "conflicts"),
	COL_AT(COL_TEXT, store_sync, hook_hash, "hook_hash"),
	COL_AT(COL_TEXT, store_sync, installation, "installation"),
	COL_AT(COL_I64, store_sync, next_ms, "next_ms"),
	COL_AT(COL_I64, store_sync, last_ms, "last_ms"),
	COL_AT(COL_I64, store_sync, started_ms, "started_ms"),
};
static const struct table sync_table = {
	.name = "git_syncs",
	.cols = sync_cols,
	.n_cols = ARRAY_SIZE(sync_cols),
	.row_size = sizeof(struct store_sync),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "mirror of repository",
};

int store_sync_put(struct store *s, const struct store_sync *y, struct err *err)
{
	autowipe struct store_sync *row = malloc(sizeof(*row));
	const char *id = y->repo;
	autotx struct tx t = { 0 };
	int r;

	if (!row)
		return err_set(err, -ENOMEM, "out of memory");
	*row = *y;
	secret_digest(y->hook, row->hook_hash);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM git_syncs WHERE repo = $1", &id, 1, err)) < 0 ||
	    (r = row_insert(s, &sync_table, row, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_sync_get(struct store *s, const char *repo, struct store_sync *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &sync_table, repo, ret, err);
}

int store_sync_delete(struct store *s, const char *repo, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_delete(s, &sync_table, repo, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int sync_drop_locked(struct store *s, const char *repo, struct err *err)
{
	int r = run_text(s, "DELETE FROM git_syncs WHERE repo = $1", &repo, 1, err);

	return r < 0 ? r : 0;
}

int store_sync_wake(struct store *s, const char *repo, const char *hook, int64_t now_ms,
                    struct err *err)
{
	char now[24], hash[SECRET_DIGEST_SIZE];
	const char *args[] = { now, repo ? repo : hash };
	autotx struct tx t = { 0 };
	int r, n;

	if (!repo)
		secret_digest(hook, hash);

	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = n = run_text(s,
	                      repo ? "UPDATE git_syncs SET next_ms = CAST($1 AS BIGINT) "
	                             "WHERE repo = $2"
	                           : "UPDATE git_syncs SET next_ms = CAST($1 AS BIGINT) "
	                             "WHERE hook_hash = $2",
	                      args, 2, err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	return n;
}

int store_sync_wake_urls(struct store *s, const char *account,
                         const char *const urls[SYNC_SPELLINGS], int64_t now_ms, struct err *err)
{
	char now[24];
	const char *args[] = { now, account, urls[0], urls[1], urls[2] };
	autotx struct tx t = { 0 };
	int r, n;

	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = n = run_text(s,
	                      "UPDATE git_syncs SET next_ms = CAST($1 AS BIGINT) WHERE "
	                      "account = $2 AND LOWER(url) IN ($3, $4, $5)",
	                      args, ARRAY_SIZE(args), err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	return n;
}

int store_sync_claim(struct store *s, int64_t now_ms, int64_t poll_ms, struct store_sync *ret,
                     struct err *err)
{
	char now[24];
	const char *args[] = { now };
	autowipe void *rows = NULL;
	autotx struct tx t = { 0 };
	size_t n = 0;
	int r;

	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_list(s, &sync_table,
	                  "WHERE state <> 'running' AND next_ms <= CAST($1 AS BIGINT) "
	                  "AND NOT EXISTS (SELECT 1 FROM git_syncs AS x WHERE "
	                  "x.account = git_syncs.account AND x.state = 'running') "
	                  "ORDER BY (SELECT MAX(x.started_ms) FROM git_syncs AS x WHERE "
	                  "x.account = git_syncs.account), next_ms, repo LIMIT 1",
	                  args, 1, &rows, &n, err)) < 0)
		return r;
	if (n == 0)
		return -ENOENT;
	memcpy(ret, rows, sizeof(*ret));
	ret->state = SYNC_RUNNING;
	ret->next_ms = now_ms + poll_ms;
	ret->started_ms = now_ms;
	if ((r = row_update(s, &sync_table, ret, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_sync_finish(struct store *s, const struct store_sync *y, struct err *err)
{
	char last[24];
	const char *args[] = { sync_state_words[y->state], y->note, y->conflicts, last,
		               y->hook_hash };
	autotx struct tx t = { 0 };
	int r;

	snprintf(last, sizeof(last), "%lld", (long long)y->last_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s,
	                  "UPDATE git_syncs SET state = $1, note = $2, conflicts = $3, "
	                  "last_ms = CAST($4 AS BIGINT) WHERE hook_hash = $5",
	                  args, 5, err)) < 0)
		return r;
	if (r > 0 &&
	    (r = feed_tell_locked(s, y->account, "git.sync", "", "sync",
	                          json_pack("{s:s, s:s, s:s}", "repoId", y->repo, "state",
	                                    sync_state_words[y->state], "remote", y->remote),
	                          err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_sync_next(struct store *s, int64_t *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT COALESCE(MIN(next_ms), 9223372036854775807) FROM git_syncs "
	                    "WHERE state <> 'running' AND NOT EXISTS (SELECT 1 FROM git_syncs AS x "
	                    "WHERE x.account = git_syncs.account AND x.state = 'running')",
	                    err);

	if (r < 0 || (r = query_step(&q, err)) < 0)
		return r;
	*ret = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

int store_sync_recover(struct store *s, int64_t now_ms, struct err *err)
{
	char now[24];
	const char *args[] = { now };
	autotx struct tx t = { 0 };
	int r;

	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s,
	                  "UPDATE git_syncs SET state = 'waiting', next_ms = CAST($1 AS BIGINT) "
	                  "WHERE state = 'running'",
	                  args, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
