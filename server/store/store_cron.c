/* SPDX-License-Identifier: Apache-2.0 */
/* store_cron.c - see store_cron.h */
#include "store/store_cron.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"

const char *const cron_state_words[CRON_STATE_MAX] = { "queued", "running", "succeeded", "failed",
	                                               "retry" };

static const struct col execution_cols[] = {
	COL_AT(COL_TEXT, store_execution, id, "id"),
	COL_AT(COL_TEXT, store_execution, account, "account"),
	COL_AT(COL_TEXT, store_execution, schedule, "schedule"),
	COL_AT(COL_I64, store_execution, run_at_ms, "run_at_ms"),
	COL_WORD_AT(store_execution, state, "state", cron_state_words),
	COL_AT(COL_U32, store_execution, attempts, "attempts"),
	COL_AT(COL_U32, store_execution, max_attempts, "max_attempts"),
	COL_AT(COL_I64, store_execution, next_ms, "next_ms"),
	COL_AT(COL_I64, store_execution, locked_ms, "locked_ms"),
	COL_AT(COL_TEXT, store_execution, run, "run"),
	COL_AT(COL_TEXT, store_execution, error, "error"),
	COL_AT(COL_I64, store_execution, started_ms, "started_ms"),
	COL_AT(COL_I64, store_execution, completed_ms, "completed_ms"),
	COL_AT(COL_I64, store_execution, created_ms, "created_ms"),
	COL_AT(COL_I64, store_execution, updated_ms, "updated_ms"),
};
static const struct table execution_table = {
	.name = "cron_executions",
	.cols = execution_cols,
	.n_cols = ARRAY_SIZE(execution_cols),
	.row_size = sizeof(struct store_execution),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "execution",
};

static const struct col attempt_cols[] = {
	COL_AT(COL_TEXT, store_attempt, id, "id"),
	COL_AT(COL_TEXT, store_attempt, execution, "execution"),
	COL_AT(COL_TEXT, store_attempt, schedule, "schedule"),
	COL_AT(COL_U32, store_attempt, number, "number"),
	COL_WORD_AT(store_attempt, state, "state", cron_state_words),
	COL_AT(COL_TEXT, store_attempt, run, "run"),
	COL_AT(COL_TEXT, store_attempt, error, "error"),
	COL_AT(COL_I64, store_attempt, started_ms, "started_ms"),
	COL_AT(COL_I64, store_attempt, completed_ms, "completed_ms"),
};
static const struct table attempt_table = {
	.name = "cron_attempts",
	.cols = attempt_cols,
	.n_cols = ARRAY_SIZE(attempt_cols),
	.row_size = sizeof(struct store_attempt),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "attempt",
};

#define SCHEDULE_COLS                                                                        \
	"id, account, name, path, cron, timezone, retries, active, created_ms, updated_ms, " \
	"next_ms, payload, run, deployment"

static struct secret_place run_of(const char *id)
{
	return (struct secret_place){ "cron_schedules.run", id };
}

void store_schedule_done(struct store_schedule *s)
{
	if (s->run)
		explicit_bzero(s->run, strlen(s->run));
	free(s->run);
	free(s->payload);
	s->run = s->payload = NULL;
}

void store_schedules_free(struct store_schedule *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_schedule_done(&v[i]);
	free(v);
}

static int read_schedule(struct query *q, struct store_schedule *x, struct err *err)
{
	int r;

	*x = (struct store_schedule){ 0 };
	query_read_text(q, x->id, sizeof(x->id));
	query_read_text(q, x->account, sizeof(x->account));
	query_read_text(q, x->name, sizeof(x->name));
	query_read_text(q, x->path, sizeof(x->path));
	query_read_text(q, x->cron, sizeof(x->cron));
	query_read_text(q, x->timezone, sizeof(x->timezone));
	x->retries = (uint32_t)query_read_i64(q, 0, UINT32_MAX);
	x->active = query_read_i64(q, 0, 1);
	x->created_ms = query_read_i64(q, 0, INT64_MAX);
	x->updated_ms = query_read_i64(q, 0, INT64_MAX);
	x->next_ms = query_read_i64(q, 0, INT64_MAX);
	x->payload = query_read_strdup(q);
	x->run = query_read_secret(q, run_of(x->id));
	query_read_text(q, x->deployment, sizeof(x->deployment));
	if ((r = query_read_end(q, err)) < 0)
		store_schedule_done(x);
	return r;
}

static int one_schedule(struct query *q, struct store_schedule *ret, const char *id,
                        struct err *err)
{
	int r = query_step(q, err);

	if (r < 0)
		return r;
	if (r == 0)
		return err_tag(err, -ENOENT, ERR_SCHEDULE_NOT_FOUND, "no schedule '%.40s'", id);
	return read_schedule(q, ret, err);
}

/* $1 to $11, in the order of insert and update. */
static void bind_rest(struct query *q, const struct store_schedule *x)
{
	query_bind_text(q, x->name);
	query_bind_text(q, x->path);
	query_bind_text(q, x->cron);
	query_bind_text(q, x->timezone);
	query_bind_i64(q, x->retries);
	query_bind_i64(q, x->active);
	query_bind_i64(q, x->updated_ms);
	query_bind_i64(q, x->next_ms);
	query_bind_text(q, x->payload ? x->payload : "");
	query_bind_secret(q, run_of(x->id), x->run ? x->run : "");
	query_bind_text(q, x->deployment);
}

static int insert_schedule(struct store *s, const struct store_schedule *x, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO cron_schedules (name, path, cron, timezone, retries, "
	                    "active, updated_ms, next_ms, payload, run, deployment, id, account, "
	                    "created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
	                    "$12, $13, $14)",
	                    err);

	if (r < 0)
		return r;
	bind_rest(&q, x);
	query_bind_text(&q, x->id);
	query_bind_text(&q, x->account);
	query_bind_i64(&q, x->created_ms);
	return MIN(query_run(&q, err), 0);
}

int store_schedule_add(struct store *s, const struct store_schedule *x, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_count(s, "SELECT COUNT(*) FROM cron_schedules WHERE account = $1",
	                     x->account, err)) < 0)
		return r;
	if (r >= SCHEDULES_MAX)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "an account has at most %d schedules: delete one first",
		               SCHEDULES_MAX);
	if ((r = insert_schedule(s, x, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int update_schedule(struct store *s, const struct store_schedule *x, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(
	        &q, s,
	        "UPDATE cron_schedules SET name = $1, path = $2, cron = $3, timezone = "
	        "$4, retries = $5, active = $6, updated_ms = $7, next_ms = $8, payload = "
	        "$9, run = $10, deployment = $11 WHERE id = $12 AND account = $13",
	        err);

	if (r < 0)
		return r;
	bind_rest(&q, x);
	query_bind_text(&q, x->id);
	query_bind_text(&q, x->account);
	return query_run(&q, err);
}

int store_schedule_put(struct store *s, const struct store_schedule *x, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = update_schedule(s, x, err)) < 0)
		return r;
	if (r == 0)
		return err_tag(err, -ENOENT, ERR_SCHEDULE_NOT_FOUND, "no schedule '%.40s'", x->id);
	return tx_commit(&t, err);
}

int store_schedule_get(struct store *s, const char *account, const char *id,
                       struct store_schedule *ret, struct err *err)
{
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	if ((r = query_begin(&q, s,
	                     "SELECT " SCHEDULE_COLS " FROM cron_schedules WHERE account = $1 AND "
	                     "id = $2",
	                     err)) < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_text(&q, id);
	return one_schedule(&q, ret, id, err);
}

int store_schedule_list(struct store *s, const char *account, struct store_schedule **ret,
                        size_t *ret_n, struct err *err)
{
	struct store_schedule *list = calloc(SCHEDULES_MAX, sizeof(*list));
	size_t n = 0;
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	r = list ? query_begin(&q, s,
	                       "SELECT " SCHEDULE_COLS " FROM cron_schedules WHERE account = $1 "
	                       "ORDER BY created_ms, id",
	                       err)
	         : err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		query_bind_text(&q, account);
	while (r >= 0 && n < SCHEDULES_MAX && (r = query_step(&q, err)) > 0)
		if ((r = read_schedule(&q, &list[n], err)) == 0)
			n++;
	if (r < 0) {
		store_schedules_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_schedule_delete(struct store *s, const char *account, const char *id, struct err *err)
{
	const char *args[] = { account, id };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM cron_schedules WHERE account = $1 AND id = $2", args, 2,
	                  err)) < 0)
		return r;
	if (r == 0)
		return err_tag(err, -ENOENT, ERR_SCHEDULE_NOT_FOUND, "no schedule '%.40s'", id);
	if ((r = run_text(s, "DELETE FROM cron_attempts WHERE schedule = $1", &id, 1, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM cron_executions WHERE schedule = $1", &id, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- taking times ---- */

#define ROOM(account)                                                        \
	"(SELECT COUNT(*) FROM cron_executions r WHERE r.account = " account \
	" AND r.state = 'running') < 2"

int store_cron_due(struct store *s, int64_t now_ms, struct store_schedule *ret, struct err *err)
{
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	static_assert(CRON_RUNNING_MAX == 2, "ROOM()");
	if ((r = query_begin(&q, s,
	                     "SELECT " SCHEDULE_COLS " FROM cron_schedules x WHERE active = 1 AND "
	                     "next_ms <= $1 AND " ROOM("x.account") " ORDER BY next_ms, id LIMIT 1",
	                     err)) < 0)
		return r;
	query_bind_i64(&q, now_ms);
	return one_schedule(&q, ret, "", err);
}

static int trim(struct store *s, const char *schedule, struct err *err)
{
	int r;

	static_assert(CRON_KEPT == 2000, "the LIMIT below");
	if ((r = run_text(
	             s,
	             "DELETE FROM cron_executions WHERE schedule = $1 AND (state = 'succeeded' "
	             "OR state = 'failed') AND id NOT IN (SELECT id FROM cron_executions WHERE "
	             "schedule = $1 ORDER BY run_at_ms DESC LIMIT 2000)",
	             &schedule, 1, err)) <= 0)
		return r;
	return MIN(run_text(s,
	                    "DELETE FROM cron_attempts WHERE schedule = $1 AND execution NOT IN "
	                    "(SELECT id FROM cron_executions WHERE schedule = $1)",
	                    &schedule, 1, err),
	           0);
}

/* Who runs it. */
static const char mark[] = "UPDATE cron_executions SET node = $1 WHERE id = $2";

static int move_on(struct store *s, const struct store_schedule *sch, int64_t next_ms,
                   struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE cron_schedules SET next_ms = $1 WHERE id = $2 AND next_ms = $3 "
	                    "AND active = 1",
	                    err);

	if (r < 0)
		return r;
	query_bind_i64(&q, next_ms);
	query_bind_text(&q, sch->id);
	query_bind_i64(&q, sch->next_ms);
	return query_run(&q, err);
}

int store_cron_take(struct store *s, const struct store_schedule *sch, int64_t next_ms,
                    const struct store_execution *x, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = move_on(s, sch, next_ms, err)) < 0)
		return r;
	if (r == 0)
		return err_set(err, -ESTALE, "it was taken or changed meanwhile");
	if (x &&
	    ((r = row_insert(s, &execution_table, x, err)) < 0 ||
	     (r = node_mark_locked(s, mark, x->id, err)) < 0 || (r = trim(s, sch->id, err)) < 0))
		return r;
	return tx_commit(&t, err);
}

static int executions(struct store *s, const char *tail, const char *const *args, size_t n_args,
                      struct store_execution **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r = row_list(s, &execution_table, tail, args, n_args, &p, ret_n, err);

	if (r >= 0)
		*ret = p;
	return r;
}

int store_cron_retry(struct store *s, int64_t now_ms, struct store_execution *ret, struct err *err)
{
	autofree struct store_execution *v = NULL;
	autotx struct tx t = { 0 };
	const char *args[1];
	char now[24];
	size_t n = 0;
	int r;

	snprintf(now, sizeof(now), "%" PRId64, now_ms);
	args[0] = now;
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = executions(s,
	                    "WHERE state = 'retry' AND next_ms <= CAST($1 AS BIGINT) AND " ROOM(
	                            "cron_executions.account") " ORDER BY next_ms, id LIMIT 1",
	                    args, 1, &v, &n, err)) < 0)
		return r;
	if (!n)
		return -ENOENT;
	v[0].state = CRON_RUNNING;
	v[0].locked_ms = v[0].updated_ms = now_ms;
	if ((r = row_update(s, &execution_table, &v[0], err)) < 0 ||
	    (r = node_mark_locked(s, mark, v[0].id, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = v[0];
	return 0;
}

int store_cron_next(struct store *s, int64_t *ret_ms, struct err *err)
{
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	*ret_ms = INT64_MAX;
	if ((r = query_begin(
	             &q, s,
	             "SELECT next_ms FROM cron_schedules WHERE active = 1 UNION ALL SELECT "
	             "next_ms FROM cron_executions WHERE state = 'retry' ORDER BY 1 LIMIT 1",
	             err)) < 0 ||
	    (r = query_step(&q, err)) < 0)
		return r;
	if (r > 0) {
		*ret_ms = query_read_i64(&q, 0, INT64_MAX);
		return query_read_end(&q, err);
	}
	return 0;
}

static int done_locked(struct store *s, const struct store_execution *x,
                       const struct store_attempt *a, struct err *err)
{
	int r;

	if ((r = row_update(s, &execution_table, x, err)) < 0 ||
	    (r = row_insert(s, &attempt_table, a, err)) < 0)
		return r;
	return feed_tell_locked(s, x->account, "cron.execution", "", "execution",
	                        json_pack("{s:s, s:s, s:s, s:i, s:s?}", "id", x->id, "scheduleId",
	                                  x->schedule, "status", cron_state_words[x->state],
	                                  "attempts", (int)x->attempts, "runId",
	                                  *x->run ? x->run : NULL),
	                        err);
}

int store_cron_done(struct store *s, const struct store_execution *x, const struct store_attempt *a,
                    struct err *err)
{
	struct store_execution now;
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0)
		return r;
	/* Its schedule may have been deleted, and it with it. */
	if ((r = row_get(s, &execution_table, x->id, &now, err)) < 0)
		return r == -ENOENT ? 0 : r;
	if ((r = node_holds_locked(s, err)) < 0 || (r = done_locked(s, x, a, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int cron_fail_locked(struct store *s, const char *node, const char *why, struct err *err)
{
	autofree struct store_execution *v = NULL;
	int64_t now = clock_wall_ms();
	size_t n = 0;
	int r = executions(s, "WHERE state = 'running' AND node = $1", &node, 1, &v, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct store_execution *x = &v[i];
		struct store_attempt a = { .number = ++x->attempts, .state = CRON_FAILED };
		bool again = x->attempts < x->max_attempts;

		x->state = again ? CRON_RETRY : CRON_FAILED;
		x->next_ms = again ? now : 0;
		x->completed_ms = again ? 0 : now;
		x->updated_ms = now;
		snprintf(x->error, sizeof(x->error), "%s", why);
		id_make("att-", a.id);
		snprintf(a.execution, sizeof(a.execution), "%s", x->id);
		snprintf(a.schedule, sizeof(a.schedule), "%s", x->schedule);
		snprintf(a.run, sizeof(a.run), "%s", x->run);
		snprintf(a.error, sizeof(a.error), "%s", why);
		a.started_ms = x->locked_ms;
		a.completed_ms = now;
		r = done_locked(s, x, &a, err);
	}
	return MIN(r, 0);
}

int store_cron_running(struct store *s, struct store_execution **ret, size_t *ret_n,
                       struct err *err)
{
	const char *node = s->node;

	LOCK_SCOPE(&s->lock);
	return executions(s, "WHERE state = 'running' AND node = $1", &node, 1, ret, ret_n, err);
}

/* ---- looking ---- */

int store_execution_list(struct store *s, const char *schedule, uint32_t limit, uint32_t offset,
                         struct store_execution **ret, size_t *ret_n, uint32_t *ret_total,
                         struct err *err)
{
	char from[16], most[16];
	const char *args[] = { schedule, most, from };
	int r;

	snprintf(from, sizeof(from), "%u", offset);
	snprintf(most, sizeof(most), "%u", limit);
	LOCK_SCOPE(&s->lock);
	if ((r = query_count(s, "SELECT COUNT(*) FROM cron_executions WHERE schedule = $1",
	                     schedule, err)) < 0)
		return r;
	*ret_total = (uint32_t)r;
	return executions(s,
	                  "WHERE schedule = $1 ORDER BY run_at_ms DESC LIMIT CAST($2 AS BIGINT) "
	                  "OFFSET CAST($3 AS BIGINT)",
	                  args, 3, ret, ret_n, err);
}

int store_execution_range(struct store *s, const char *schedule, int64_t start_ms, int64_t end_ms,
                          struct store_execution **ret, size_t *ret_n, struct err *err)
{
	char from[24], to[24];
	const char *args[] = { schedule, from, to };

	snprintf(from, sizeof(from), "%" PRId64, start_ms);
	snprintf(to, sizeof(to), "%" PRId64, end_ms);
	LOCK_SCOPE(&s->lock);
	return executions(s,
	                  "WHERE schedule = $1 AND run_at_ms >= CAST($2 AS BIGINT) AND run_at_ms < "
	                  "CAST($3 AS BIGINT) ORDER BY run_at_ms",
	                  args, 3, ret, ret_n, err);
}

int store_attempt_list(struct store *s, const char *execution, struct store_attempt **ret,
                       size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &attempt_table, "WHERE execution = $1 ORDER BY number", &execution, 1, &p,
	             ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}
