/* SPDX-License-Identifier: Apache-2.0 */
/* store_run.c - see store_run.h */
#include "store/store_run.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"

const char *const run_state_words[RUN_STATE_MAX] = { "starting", "running", "complete" };

#define RUN_COLS "id, account, name, state, failed, created_ms, started_ms, ended_ms, vm, schedule"

static struct secret_place config_of(const char *id)
{
	return (struct secret_place){ "script_runs.config", id };
}

void store_run_done(struct store_run *r)
{
	if (r->config)
		explicit_bzero(r->config, strlen(r->config));
	free(r->config);
	free(r->output);
	r->config = r->output = NULL;
}

void store_runs_free(struct store_run *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_run_done(&v[i]);
	free(v);
}

static void read_cols(struct query *q, struct store_run *r)
{
	char state[16];

	query_read_text(q, r->id, sizeof(r->id));
	query_read_text(q, r->account, sizeof(r->account));
	query_read_text(q, r->name, sizeof(r->name));
	query_read_text(q, state, sizeof(state));
	r->failed = query_read_i64(q, 0, 1);
	r->created_ms = query_read_i64(q, 0, INT64_MAX);
	r->started_ms = query_read_i64(q, 0, INT64_MAX);
	r->ended_ms = query_read_i64(q, 0, INT64_MAX);
	query_read_text(q, r->vm, sizeof(r->vm));
	query_read_text(q, r->schedule, sizeof(r->schedule));
	r->state = RUN_COMPLETE;
	for (int i = 0; i < RUN_STATE_MAX; i++)
		if (!strcmp(state, run_state_words[i]))
			r->state = (enum run_state)i;
}

static int tell(struct store *s, const struct store_run *r, const char *type, struct err *err)
{
	json_t *about = json_pack("{s:s, s:s, s:s?, s:s?}", "id", r->name, "state",
	                          run_state_words[r->state], "vmId", *r->vm ? r->vm : NULL,
	                          "scheduleId", *r->schedule ? r->schedule : NULL);

	if (about && r->state == RUN_COMPLETE) {
		json_object_set_new(about, "failed", json_boolean(r->failed));
		json_object_set_new(about, "durationMs", json_integer(r->ended_ms - r->created_ms));
	}
	return feed_tell_locked(s, r->account, type, r->vm, "run", about, err);
}

int store_run_add(struct store *s, const struct store_run *r, struct err *err)
{
	const char *args[] = { r->account, r->name };
	autotx struct tx t = { 0 };
	int k, n;

	if ((k = tx_begin(&t, s, err)) < 0)
		return k;
	{
		autoquery struct query q = { 0 };

		if ((k = query_begin(&q, s,
		                     "SELECT COUNT(*) FROM script_runs WHERE account = $1 AND "
		                     "(id = $2 OR name = $2)",
		                     err)) < 0)
			return k;
		query_bind_text(&q, args[0]);
		query_bind_text(&q, args[1]);
		if ((k = query_step(&q, err)) < 0)
			return k;
		n = (int)query_read_i64(&q, 0, INT32_MAX);
		if ((k = query_read_end(&q, err)) < 0)
			return k;
	}
	if (n)
		return err_tag(err, -EEXIST, ERR_CONFLICT,
		               "there is a run '%s' already: 'executionId' names one run", r->name);
	{
		autoquery struct query q = { 0 };

		if ((k = query_begin(&q, s,
		                     "INSERT INTO script_runs (" RUN_COLS
		                     ", config, output, node) VALUES "
		                     "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '', $12)",
		                     err)) < 0)
			return k;
		query_bind_text(&q, r->id);
		query_bind_text(&q, r->account);
		query_bind_text(&q, r->name);
		query_bind_text(&q, run_state_words[r->state]);
		query_bind_i64(&q, r->failed);
		query_bind_i64(&q, r->created_ms);
		query_bind_i64(&q, r->started_ms);
		query_bind_i64(&q, r->ended_ms);
		query_bind_text(&q, r->vm);
		query_bind_text(&q, r->schedule);
		query_bind_secret(&q, config_of(r->id), r->config ? r->config : "");
		query_bind_text(&q, s->node);
		if ((k = query_run(&q, err)) < 0)
			return k;
	}
	/* Unfinished ones stay: their VMs are found by them. */
	if ((k = run_text(
	             s,
	             "DELETE FROM script_runs WHERE account = $1 AND state = 'complete' AND id "
	             "NOT IN (SELECT id FROM script_runs WHERE account = $1 "
	             "ORDER BY created_ms DESC, id DESC LIMIT 1000)",
	             args, 1, err)) < 0 ||
	    (k = tell(s, r, "run.started", err)) < 0)
		return k;
	static_assert(RUNS_KEPT == 1000, "the LIMIT above");
	return tx_commit(&t, err);
}

int store_run_put(struct store *s, const struct store_run *r, struct err *err)
{
	autotx struct tx t = { 0 };
	int k;

	if ((k = tx_begin(&t, s, err)) < 0)
		return k;
	{
		autoquery struct query q = { 0 };

		if ((k = query_begin(&q, s,
		                     "UPDATE script_runs SET state = $1, failed = $2, started_ms = "
		                     "$3, ended_ms = $4, vm = $5, output = $6 WHERE id = $7",
		                     err)) < 0)
			return k;
		query_bind_text(&q, run_state_words[r->state]);
		query_bind_i64(&q, r->failed);
		query_bind_i64(&q, r->started_ms);
		query_bind_i64(&q, r->ended_ms);
		query_bind_text(&q, r->vm);
		query_bind_text(&q, r->output ? r->output : "");
		query_bind_text(&q, r->id);
		if ((k = query_run(&q, err)) < 0)
			return k;
	}
	if (r->state == RUN_COMPLETE && (k = tell(s, r, "run.finished", err)) < 0)
		return k;
	return tx_commit(&t, err);
}

int store_run_get(struct store *s, const char *account, const char *name, struct store_run *ret,
                  struct err *err)
{
	struct store_run row = { 0 };
	int k;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	if ((k = query_begin(&q, s,
	                     "SELECT " RUN_COLS ", config, output FROM script_runs WHERE account = "
	                     "$1 AND (id = $2 OR name = $2)",
	                     err)) < 0)
		return k;
	query_bind_text(&q, account);
	query_bind_text(&q, name);
	if ((k = query_step(&q, err)) < 0)
		return k;
	if (k == 0)
		return err_tag(err, -ENOENT, ERR_RUN_NOT_FOUND, "no run '%.64s'", name);
	read_cols(&q, &row);
	row.config = query_read_secret(&q, config_of(row.id));
	row.output = query_read_strdup(&q);
	if ((k = query_read_end(&q, err)) < 0) {
		store_run_done(&row);
		return k;
	}
	*ret = row;
	return 0;
}

static int add_row(struct query *q, bool config, struct store_run **list, size_t *n, size_t *cap,
                   struct err *err)
{
	struct store_run *more;

	if (*n == *cap) {
		*cap = *cap ? *cap * 2 : 16;
		more = reallocarray(*list, *cap, sizeof(**list));
		if (!more)
			return err_set(err, -ENOMEM, "out of memory");
		*list = more;
	}
	(*list)[*n] = (struct store_run){ 0 };
	read_cols(q, &(*list)[*n]);
	if (config)
		(*list)[*n].config = query_read_secret(q, config_of((*list)[*n].id));
	(*n)++;
	return query_read_end(q, err);
}

int store_run_list(struct store *s, const char *account, uint32_t limit, uint32_t offset,
                   struct store_run **ret, size_t *ret_n, uint32_t *ret_total, struct err *err)
{
	struct store_run *list = NULL;
	size_t n = 0, cap = 0;
	int k, total;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	if ((total = query_count(s, "SELECT COUNT(*) FROM script_runs WHERE account = $1", account,
	                         err)) < 0)
		return total;
	if ((k = query_begin(&q, s,
	                     "SELECT " RUN_COLS ", config FROM script_runs WHERE account = $1 "
	                     "ORDER BY created_ms DESC, id DESC LIMIT $2 OFFSET $3",
	                     err)) < 0)
		return k;
	query_bind_text(&q, account);
	query_bind_i64(&q, limit);
	query_bind_i64(&q, offset);
	while ((k = query_step(&q, err)) > 0)
		if ((k = add_row(&q, true, &list, &n, &cap, err)) < 0)
			break;
	if (k < 0) {
		store_runs_free(list, n);
		return k;
	}
	*ret = list;
	*ret_n = n;
	*ret_total = (uint32_t)total;
	return 0;
}

int store_run_unfinished(struct store *s, struct store_run **ret, size_t *ret_n, struct err *err)
{
	struct store_run *list = NULL;
	size_t n = 0, cap = 0;
	int k;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	if ((k = query_begin(&q, s,
	                     "SELECT " RUN_COLS " FROM script_runs WHERE state <> 'complete' AND "
	                     "node = $1",
	                     err)) < 0)
		return k;
	query_bind_text(&q, s->node);
	while ((k = query_step(&q, err)) > 0)
		if ((k = add_row(&q, false, &list, &n, &cap, err)) < 0)
			break;
	if (k < 0) {
		store_runs_free(list, n);
		return k;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int run_fail_locked(struct store *s, const char *node, struct err *err)
{
	char now[24];
	const char *args[] = { now, node };

	snprintf(now, sizeof(now), "%" PRId64, clock_wall_ms());
	return MIN(run_text(s,
	                    "UPDATE script_runs SET state = 'complete', failed = 1, "
	                    "ended_ms = CAST($1 AS BIGINT), output = "
	                    "'{\"error\":{\"name\":\"Interrupted\",\"message\":\"its node was "
	                    "removed\",\"stack\":\"\"},\"logs\":[]}' "
	                    "WHERE node = $2 AND state <> 'complete'",
	                    args, 2, err),
	           0);
}
