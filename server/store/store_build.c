/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_build.c - builds of specs: one row each, its phases, and the lines it printed
 *
 * Phases and lines are only added. An account's oldest builds are deleted when it begins a new one:
 * logs after BUILD_LOGS_KEPT builds, the rows themselves after BUILDS_KEPT.
 */
#include "store/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

static const char *const state_words[] = {
	[BUILD_PENDING] = "pending",
	[BUILD_RUNNING] = "running",
	[BUILD_SUCCEEDED] = "succeeded",
	[BUILD_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_words) == BUILD_STATE_MAX, "a state is missing in state_words");

static const struct col build_cols[] = {
	COL_AT(COL_TEXT, store_build, id, "id"),
	COL_AT(COL_TEXT, store_build, account, "account"),
	COL_AT(COL_TEXT, store_build, request_id, "request_id"),
	COL_WORD_AT(store_build, state, "state", state_words),
	COL_AT(COL_TEXT, store_build, template_hash, "template_hash"),
	COL_AT(COL_TEXT, store_build, failure, "failure"),
	COL_AT(COL_TEXT, store_build, planned, "planned"),
	COL_AT(COL_I64, store_build, started_ms, "started_ms"),
	COL_AT(COL_I64, store_build, finished_ms, "finished_ms"),
	COL_AT(COL_I64, store_build, updated_ms, "updated_ms"),
};
const struct table build_table = {
	.name = "builds",
	.cols = build_cols,
	.n_cols = ARRAY_SIZE(build_cols),
	.row_size = sizeof(struct store_build),
	.missing_tag = ERR_BUILD_NOT_FOUND,
	.noun = "build",
};

static const struct col phase_cols[] = {
	COL_AT(COL_TEXT, store_phase, id, "id"),
	COL_AT(COL_TEXT, store_phase, build_id, "build_id"),
	COL_AT(COL_I64, store_phase, seq, "seq"),
	COL_AT(COL_TEXT, store_phase, name, "name"),
	COL_AT(COL_REF, store_phase, snapshot_id, "snapshot_id"),
	COL_AT(COL_I64, store_phase, started_ms, "started_ms"),
};
static const struct table phase_table = {
	.name = "build_phases",
	.cols = phase_cols,
	.n_cols = ARRAY_SIZE(phase_cols),
	.row_size = sizeof(struct store_phase),
	.noun = "build phase",
};

static const struct col log_cols[] = {
	COL_AT(COL_TEXT, store_build_log, build_id, "build_id"),
	COL_AT(COL_I64, store_build_log, seq, "seq"),
	COL_AT(COL_I64, store_build_log, at_ms, "at_ms"),
	COL_AT(COL_TEXT, store_build_log, phase, "phase"),
	COL_AT(COL_TEXT, store_build_log, message, "message"),
};
static const struct table log_table = {
	.name = "build_logs",
	.cols = log_cols,
	.n_cols = ARRAY_SIZE(log_cols),
	.row_size = sizeof(struct store_build_log),
	.noun = "line of build",
};

const char *build_state_name(enum build_state s)
{
	return state_words[s];
}

#define OLDER                                                                           \
	"(SELECT id FROM builds WHERE account = $1 ORDER BY started_ms DESC, id LIMIT " \
	"1000000000 OFFSET $2)" /* SQLite has no OFFSET alone, PostgreSQL no LIMIT -1 */
static int prune(struct store *s, const char *account, struct err *err)
{
	static const struct {
		const char *sql;
		int64_t keep;
	} steps[] = {
		{ "DELETE FROM build_logs WHERE build_id IN " OLDER, BUILD_LOGS_KEPT },
		{ "DELETE FROM build_phases WHERE build_id IN " OLDER, BUILDS_KEPT },
		{ "DELETE FROM builds WHERE id IN " OLDER, BUILDS_KEPT },
	};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(steps); i++) {
		autoquery struct query q = { 0 };

		if ((r = query_begin(&q, s, steps[i].sql, err)) < 0)
			break;
		query_bind_text(&q, account);
		query_bind_i64(&q, steps[i].keep);
		r = query_run(&q, err);
	}
	return MIN(r, 0);
}

int store_build_add(struct store *s, const struct store_build *b, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &build_table, b, err)) < 0 ||
	    (r = node_mark_locked(s, "UPDATE builds SET node = $1 WHERE id = $2", b->id, err)) <
	            0 ||
	    (r = outbox_started_locked(s, b, err)) < 0 || (r = prune(s, b->account, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_build_update(struct store *s, const struct store_build *b, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = outbox_build_locked(s, b, err)) < 0 ||
	    (r = row_update(s, &build_table, b, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_build_get(struct store *s, const char *id, struct store_build *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &build_table, id, ret, err);
}

int store_build_list(struct store *s, const char *account, int state, uint32_t limit,
                     struct store_build **ret, size_t *ret_n, struct err *err)
{
	const char *args[] = { account, state < 0 ? NULL : build_state_name(state) };
	void *p = NULL;
	char tail[128];
	int r;

	snprintf(tail, sizeof(tail), "WHERE account = $1%s ORDER BY started_ms DESC, id LIMIT %u",
	         args[1] ? " AND state = $2" : "", limit);
	LOCK_SCOPE(&s->lock);
	r = row_list(s, &build_table, tail, args, args[1] ? 2 : 1, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

static int fail_all(struct store *s, const char *sql, const char *why, const char *node,
                    struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, why);
	if (strstr(sql, "$3"))
		query_bind_i64(&q, clock_wall_ms());
	query_bind_text(&q, node);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int build_fail_locked(struct store *s, const char *node, const char *why, struct err *err)
{
	int r;

	if ((r = outbox_unfinished_locked(s, node, why, err)) < 0 ||
	    (r = fail_all(s,
	                  "UPDATE builds SET state = 'failed', failure = $1, finished_ms = $2,"
	                  " updated_ms = $2 WHERE state IN ('pending', 'running') AND node = $3",
	                  why, node, err)) < 0)
		return r;
	return fail_all(s,
	                "UPDATE snapshots SET state = 'failed', failure = $1"
	                " WHERE state = 'building' AND node = $2",
	                why, node, err);
}

int store_build_fail_unfinished(struct store *s, const char *why, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = build_fail_locked(s, s->node, why, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_phase_add(struct store *s, const struct store_phase *p, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &phase_table, p, err)) < 0 ||
	    (r = outbox_phase_locked(s, p, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_phase_update(struct store *s, const struct store_phase *p, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_update(s, &phase_table, p, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_phase_list(struct store *s, const char *build_id, struct store_phase **ret, size_t *ret_n,
                     struct err *err)
{
	void *p = NULL;
	int r;
	LOCK_SCOPE(&s->lock);

	r = row_list(s, &phase_table, "WHERE build_id = $1 ORDER BY seq", &build_id, 1, &p, ret_n,
	             err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_build_log_add(struct store *s, const struct store_build_log *l, size_t n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r = tx_begin(&t, s, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = row_insert(s, &log_table, &l[i], err);
	return r < 0 ? r : tx_commit(&t, err);
}

static const char list_logs[] =
        "SELECT l.build_id, l.seq, l.at_ms, l.phase, l.message"
        " FROM builds b JOIN build_logs l ON l.build_id = b.id"
        " WHERE b.account = $1 AND ($2 = '' OR b.id = $2) AND ($3 = '' OR b.request_id = $3)"
        " AND ($4 = '' OR replace(lower(l.message), lower($4), '') <> lower(l.message))"
        " AND l.at_ms >= $5 AND l.at_ms <= $6"
        " AND (l.at_ms < $7 OR (l.at_ms = $7 AND l.seq < $8))"
        " ORDER BY l.at_ms DESC, l.seq DESC, l.build_id LIMIT $9";

int store_build_log_list(struct store *s, const struct store_build_log_query *w,
                         struct store_build_log **ret, size_t *ret_n, struct err *err)
{
	LOCK_SCOPE(&s->lock); /* first, so that it is released last */
	autoquery struct query q = { 0 };
	autofree struct store_build_log *rows = NULL;
	size_t n = 0, cap = 0;
	int r;

	*ret = NULL;
	*ret_n = 0;
	if (!*w->build && !*w->request)
		return 0;
	if ((r = query_begin(&q, s, list_logs, err)) < 0)
		return r;
	query_bind_text(&q, w->account);
	query_bind_text(&q, w->build);
	query_bind_text(&q, w->request);
	query_bind_text(&q, w->search);
	query_bind_i64(&q, w->from_ms);
	query_bind_i64(&q, w->to_ms);
	query_bind_i64(&q, w->before_ms);
	query_bind_i64(&q, w->before_seq);
	query_bind_i64(&q, w->limit);
	while ((r = query_step(&q, err)) > 0) {
		if (n == cap) {
			size_t want = cap ? 2 * cap : 64;
			void *p = reallocarray(rows, want, sizeof(*rows));

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			rows = p;
			cap = want;
		}
		memset(&rows[n], 0, sizeof(rows[n]));
		query_read_text(&q, rows[n].build_id, ID_SIZE);
		rows[n].seq = query_read_i64(&q, 0, INT64_MAX);
		rows[n].at_ms = query_read_i64(&q, 0, INT64_MAX);
		query_read_text(&q, rows[n].phase, sizeof(rows[n].phase));
		query_read_text(&q, rows[n].message, sizeof(rows[n].message));
		n++;
	}
	if (r < 0 || (r = query_read_end(&q, err)) < 0)
		return r;
	*ret = TAKE_PTR(rows);
	*ret_n = n;
	return 0;
}
