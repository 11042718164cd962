/* SPDX-License-Identifier: Apache-2.0 */
/* store_trigger.c - triggers, the log of deliveries, and the keys that sign them */
#include "store/store_trigger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_field.h"
#include "store/store_internal.h"

const char *const trigger_action_words[TRIGGER_ACTION_MAX] = { "webhook", "vm" };
const char *const trigger_event_words[TRIGGER_EVENT_MAX] = { "push", "branchCreate", "branchDelete",
	                                                     "tag", "tagDelete" };
const char *const delivery_state_words[DELIVERY_STATE_MAX] = { "pending", "active", "delivered",
	                                                       "failed" };

static const struct col trigger_cols[] = {
	COL_AT(COL_TEXT, store_trigger, id, "id"),
	COL_AT(COL_TEXT, store_trigger, repo, "repo"),
	COL_AT(COL_TEXT, store_trigger, account, "account"),
	COL_AT(COL_REF, store_trigger, branches, "branches"),
	COL_AT(COL_REF, store_trigger, globs, "globs"),
	COL_WORD_AT(store_trigger, action, "action", trigger_action_words),
	COL_AT(COL_SECRET, store_trigger, endpoint, "endpoint"),
	COL_AT(COL_TEXT, store_trigger, snapshot, "snapshot"),
	COL_AT(COL_TEXT, store_trigger, command, "command"),
	COL_AT(COL_I64, store_trigger, created_ms, "created_ms"),
	COL_WORD_AT(store_trigger, event, "event", trigger_event_words),
};
static const struct table trigger_table = {
	.name = "git_triggers",
	.cols = trigger_cols,
	.n_cols = ARRAY_SIZE(trigger_cols),
	.row_size = sizeof(struct store_trigger),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "trigger",
};

static const struct col delivery_cols[] = {
	COL_AT(COL_TEXT, store_delivery, id, "id"),
	COL_AT(COL_TEXT, store_delivery, trigger, "trigger_id"),
	COL_AT(COL_TEXT, store_delivery, repo, "repo"),
	COL_AT(COL_TEXT, store_delivery, account, "account"),
	COL_WORD_AT(store_delivery, action, "action", trigger_action_words),
	COL_AT(COL_TEXT, store_delivery, branch, "branch"),
	COL_AT(COL_TEXT, store_delivery, old_sha, "old_sha"),
	COL_AT(COL_TEXT, store_delivery, new_sha, "new_sha"),
	COL_AT(COL_TEXT, store_delivery, push, "push"),
	COL_WORD_AT(store_delivery, state, "state", delivery_state_words),
	COL_AT(COL_U32, store_delivery, attempts, "attempts"),
	COL_AT(COL_I64, store_delivery, next_ms, "next_ms"),
	COL_AT(COL_I64, store_delivery, created_ms, "created_ms"),
	COL_AT(COL_I64, store_delivery, updated_ms, "updated_ms"),
	COL_AT(COL_INT, store_delivery, status, "status"),
	COL_AT(COL_INT, store_delivery, judged, "judged"),
	COL_AT(COL_TEXT, store_delivery, vm, "vm"),
	COL_AT(COL_TEXT, store_delivery, note, "note"),
	COL_WORD_AT(store_delivery, event, "event", trigger_event_words),
};
static const struct table delivery_table = {
	.name = "git_deliveries",
	.cols = delivery_cols,
	.n_cols = ARRAY_SIZE(delivery_cols),
	.row_size = sizeof(struct store_delivery),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "delivery",
};

static const struct col key_cols[] = {
	COL_AT(COL_TEXT, store_signing_key, id, "id"),
	COL_AT(COL_SECRET, store_signing_key, secret, "secret"),
	COL_AT(COL_I64, store_signing_key, created_ms, "created_ms"),
	COL_AT(COL_I64, store_signing_key, retired_ms, "retired_ms"),
};
static const struct table key_table = {
	.name = "git_signing_keys",
	.cols = key_cols,
	.n_cols = ARRAY_SIZE(key_cols),
	.row_size = sizeof(struct store_signing_key),
	.noun = "signing key",
};

static int insert(struct store *s, const struct table *t, const void *row, struct err *err)
{
	autotx struct tx tx = { 0 };
	int r;

	if ((r = tx_begin(&tx, s, err)) < 0 || (r = row_insert(s, t, row, err)) < 0)
		return r;
	return tx_commit(&tx, err);
}

/* All rows that match a condition. */
static int list(struct store *s, const struct table *t, const char *tail, const char *const *args,
                size_t n_args, void *ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, t, tail, args, n_args, &p, ret_n, err);
	if (r >= 0)
		*(void **)ret = p;
	return r;
}

/* Exactly one row, by two keys. */
static int get(struct store *s, const struct table *t, const char *tail, const char *owner,
               const char *id, void *ret, struct err *err)
{
	const char *args[] = { owner, id };
	autofree void *rows = NULL;
	size_t n = 0;
	int r = list(s, t, tail, args, 2, &rows, &n, err);

	if (r < 0)
		return r;
	if (n == 0)
		return row_missing(t, id, err);
	memcpy(ret, rows, t->row_size);
	return 0;
}

/* A statement whose parameters are all text, in a transaction of its own. */
static int change(struct store *s, const char *sql, const char *const *args, size_t n,
                  struct err *err)
{
	autotx struct tx t = { 0 };
	int r, changed;

	if ((r = tx_begin(&t, s, err)) < 0 || (changed = r = run_text(s, sql, args, n, err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	return changed;
}

int store_trigger_add(struct store *s, const struct store_trigger *t, struct err *err)
{
	return insert(s, &trigger_table, t, err);
}

int store_trigger_get(struct store *s, const char *repo, const char *id, struct store_trigger *ret,
                      struct err *err)
{
	return get(s, &trigger_table, "WHERE repo = $1 AND id = $2", repo, id, ret, err);
}

int store_trigger_list(struct store *s, const char *repo, struct store_trigger **ret, size_t *ret_n,
                       struct err *err)
{
	return list(s, &trigger_table, "WHERE repo = $1 ORDER BY created_ms, id", &repo, 1, ret,
	            ret_n, err);
}

int store_trigger_delete(struct store *s, const char *repo, const char *id, struct err *err)
{
	const char *args[] = { repo, id };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM git_triggers WHERE repo = $1 AND id = $2", args, 2,
	                  err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&trigger_table, id, err);
	if ((r = run_text(s, "DELETE FROM git_deliveries WHERE trigger_id = $1", &id, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int triggers_drop_locked(struct store *s, const char *repo, struct err *err)
{
	int r;

	if ((r = run_text(s, "DELETE FROM git_triggers WHERE repo = $1", &repo, 1, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM git_deliveries WHERE repo = $1", &repo, 1, err)) < 0)
		return r;
	return 0;
}

int store_delivery_add(struct store *s, const struct store_delivery *d, struct err *err)
{
	return insert(s, &delivery_table, d, err);
}

/* A branch may have any name, in any encoding. */
static int tell_delivery(struct store *s, const struct store_delivery *d, struct err *err)
{
	return feed_tell_locked(s, d->account, "git.delivery", "", "delivery",
	                        json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:i, s:s?}", "id", d->id,
	                                  "triggerId", d->trigger, "repoId", d->repo, "event",
	                                  trigger_event_words[d->event],
	                                  trigger_is_tag(d->event) ? "tag" : "branch",
	                                  json_text(d->branch, strlen(d->branch)), "state",
	                                  delivery_state_words[d->state], "attempts",
	                                  (int)d->attempts, "vmId", *d->vm ? d->vm : NULL),
	                        err);
}

int store_delivery_put(struct store *s, const struct store_delivery *d, const char *output,
                       struct err *err)
{
	const char *args[] = { output ? output : "", d->id };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0)
		return r;
	r = row_update(s, &delivery_table, d, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0 || (r = tell_delivery(s, d, err)) < 0 ||
	    (output && (r = run_text(s, "UPDATE git_deliveries SET output = $1 WHERE id = $2", args,
	                             2, err)) < 0))
		return r;
	return tx_commit(&t, err);
}

int store_delivery_drop(struct store *s, const char *id, struct err *err)
{
	int r = change(s, "DELETE FROM git_deliveries WHERE id = $1", &id, 1, err);

	return r < 0 ? r : 0;
}

int store_delivery_claim(struct store *s, enum trigger_action action, int64_t now_ms,
                         unsigned per_account, struct store_delivery *ret, struct err *err)
{
	char now[24], most[12];
	const char *args[] = { trigger_action_words[action], now, most };
	autofree struct store_delivery *rows = NULL;
	autotx struct tx t = { 0 };
	void *p = NULL;
	size_t n = 0;
	int r;

	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	snprintf(most, sizeof(most), "%u", per_account);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_list(
	             s, &delivery_table,
	             "WHERE state = 'pending' AND action = $1 AND next_ms <= CAST($2 AS BIGINT) "
	             "AND (SELECT COUNT(*) FROM git_deliveries AS x WHERE "
	             "x.account = git_deliveries.account AND x.action = $1 AND "
	             "x.state = 'active') < CAST($3 AS BIGINT) ORDER BY next_ms, id LIMIT 1",
	             args, 3, &p, &n, err)) < 0)
		return r;
	rows = p;
	if (n == 0)
		return -ENOENT;
	rows->state = DELIVERY_ACTIVE;
	rows->attempts++;
	rows->updated_ms = now_ms;
	if ((r = row_update(s, &delivery_table, rows, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = *rows;
	return 0;
}

static int one_number(struct store *s, const char *sql, const char *arg, int64_t *ret,
                      struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, arg);
	if ((r = query_step(&q, err)) < 0)
		return r;
	*ret = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

int store_delivery_next(struct store *s, enum trigger_action action, int64_t *ret, struct err *err)
{
	return one_number(s,
	                  "SELECT COALESCE(MIN(next_ms), 9223372036854775807) FROM git_deliveries "
	                  "WHERE state = 'pending' AND action = $1",
	                  trigger_action_words[action], ret, err);
}

int store_delivery_known(struct store *s, const char *trigger, const char *push, const char *branch,
                         struct err *err)
{
	const char *args[] = { trigger, push, branch };
	autofree struct store_delivery *rows = NULL;
	size_t n = 0;
	int r = list(s, &delivery_table, "WHERE trigger_id = $1 AND push = $2 AND branch = $3",
	             args, ARRAY_SIZE(args), &rows, &n, err);

	return r < 0 ? r : n > 0;
}

int store_delivery_waiting(struct store *s, const char *repo, int64_t *ret, struct err *err)
{
	return one_number(s,
	                  "SELECT COUNT(*) FROM git_deliveries WHERE repo = $1 AND "
	                  "(state = 'pending' OR state = 'active')",
	                  repo, ret, err);
}

int store_delivery_recover(struct store *s, struct store_delivery **ret, size_t *ret_n,
                           struct err *err)
{
	int r = list(s, &delivery_table, "WHERE state = 'active'", NULL, 0, ret, ret_n, err);

	if (r < 0)
		return r;
	r = change(s, "UPDATE git_deliveries SET state = 'pending' WHERE state = 'active'", NULL, 0,
	           err);
	return r < 0 ? r : 0;
}

int store_delivery_list(struct store *s, const char *trigger, int64_t limit, int64_t offset,
                        struct store_delivery **ret, size_t *ret_n, struct err *err)
{
	char lim[24], off[24];
	const char *args[] = { trigger, lim, off };

	snprintf(lim, sizeof(lim), "%lld", (long long)limit);
	snprintf(off, sizeof(off), "%lld", (long long)offset);
	return list(s, &delivery_table,
	            "WHERE trigger_id = $1 ORDER BY created_ms DESC, id "
	            "LIMIT CAST($2 AS BIGINT) OFFSET CAST($3 AS BIGINT)",
	            args, 3, ret, ret_n, err);
}

int store_delivery_of_commit(struct store *s, const char *repo, const char *sha,
                             enum trigger_action action, struct store_delivery **ret, size_t *ret_n,
                             struct err *err)
{
	const char *args[] = { repo, sha, trigger_action_words[action] };

	return list(s, &delivery_table,
	            "WHERE repo = $1 AND new_sha = $2 AND action = $3 "
	            "ORDER BY created_ms DESC, id LIMIT 200",
	            args, 3, ret, ret_n, err);
}

int store_delivery_get(struct store *s, const char *trigger, const char *id,
                       struct store_delivery *ret, char **ret_output, struct err *err)
{
	int r = get(s, &delivery_table, "WHERE trigger_id = $1 AND id = $2", trigger, id, ret, err);

	if (r < 0 || !ret_output)
		return r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	r = query_begin(&q, s, "SELECT output FROM git_deliveries WHERE id = $1", err);
	if (r < 0)
		return r;
	query_bind_text(&q, id);
	if ((r = query_step(&q, err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&delivery_table, id, err);
	*ret_output = query_read_strdup(&q);
	r = query_read_end(&q, err);
	if (r < 0)
		free(TAKE_PTR(*ret_output));
	return r;
}

int store_delivery_trim(struct store *s, const char *trigger, unsigned keep, struct err *err)
{
	char most[12];
	const char *args[] = { trigger, most };
	int r;

	snprintf(most, sizeof(most), "%u", keep);
	r = change(s,
	           "DELETE FROM git_deliveries WHERE trigger_id = $1 AND "
	           "(state = 'delivered' OR state = 'failed') AND id NOT IN "
	           "(SELECT id FROM git_deliveries WHERE trigger_id = $1 "
	           "ORDER BY created_ms DESC, id LIMIT CAST($2 AS BIGINT))",
	           args, 2, err);
	return r < 0 ? r : 0;
}

int store_signing_keys(struct store *s, int64_t gone_ms, struct store_signing_key **ret,
                       size_t *ret_n, struct err *err)
{
	char gone[24];
	const char *args[] = { gone };
	int r;

	snprintf(gone, sizeof(gone), "%lld", (long long)gone_ms);
	r = change(s,
	           "DELETE FROM git_signing_keys WHERE retired_ms > 0 AND "
	           "retired_ms < CAST($1 AS BIGINT)",
	           args, 1, err);
	if (r < 0)
		return r;
	return list(s, &key_table, "ORDER BY created_ms DESC, id", NULL, 0, ret, ret_n, err);
}

int store_signing_key_add(struct store *s, const struct store_signing_key *k, struct err *err)
{
	char now[24];
	const char *args[] = { now };
	autotx struct tx t = { 0 };
	int r;

	snprintf(now, sizeof(now), "%lld", (long long)k->created_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s,
	                  "UPDATE git_signing_keys SET retired_ms = CAST($1 AS BIGINT) "
	                  "WHERE retired_ms = 0",
	                  args, 1, err)) < 0 ||
	    (r = row_insert(s, &key_table, k, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
