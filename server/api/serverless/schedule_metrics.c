/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_metrics.c - how the executions of a schedule went, as numbers */
#include "api/serverless/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"

#define TAG ERR_BAD_REQUEST
#define POINTS_MAX 2000
#define BUCKET_MINUTES 60
#define MINUTE_MS INT64_C(60000)

int request_time(struct request *req, const char *name, int64_t absent, int64_t *ret,
                 struct err *err)
{
	autofree char *text = NULL;
	int r = request_query(req, name, &text, err);

	if (r < 0)
		return r;
	*ret = absent;
	if (text && *text ? clock_rfc3339_parse(text, ret) < 0 : absent < 0)
		return err_tag(err, -EINVAL, TAG, "'%s' must be a time like 2026-01-31T12:00:00Z",
		               name);
	return 0;
}

static int span(struct request *req, int64_t *ret_start, int64_t *ret_end, struct err *err)
{
	int r;

	if ((r = request_time(req, "start", -1, ret_start, err)) < 0 ||
	    (r = request_time(req, "end", -1, ret_end, err)) < 0)
		return r;
	return *ret_start < *ret_end ? 0
	                             : err_tag(err, -EINVAL, TAG, "'start' must be before 'end'");
}

static double latency(const struct store_execution *x)
{
	return (double)(x->completed_ms - x->started_ms);
}

static bool over(const struct store_execution *x)
{
	return x->state == CRON_SUCCEEDED || x->state == CRON_FAILED;
}

int schedule_sums(struct store *s, const char *schedule, int64_t start_ms, int64_t end_ms,
                  struct schedule_sums *ret, struct err *err)
{
	autofree struct store_execution *v = NULL;
	size_t n = 0;
	int r = store_execution_range(s, schedule, start_ms, end_ms, &v, &n, err);

	*ret = (struct schedule_sums){ 0 };
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!over(&v[i]))
			continue;
		ret->total++;
		ret->succeeded += v[i].state == CRON_SUCCEEDED;
		ret->failed += v[i].state == CRON_FAILED;
		ret->latency_ms += latency(&v[i]);
	}
	return r;
}

json_t *schedule_average(const struct schedule_sums *m)
{
	return m->total ? json_real(m->latency_ms / m->total) : json_null();
}

json_t *schedule_success(const struct schedule_sums *m)
{
	return m->total ? json_real((double)m->succeeded / m->total) : json_null();
}

int api_schedule_rate(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_schedule_done) struct store_schedule sch = { 0 };
	struct schedule_sums m;
	int64_t start, end;
	int r;

	if ((r = own_schedule(req, &sch, err)) < 0 || (r = span(req, &start, &end, err)) < 0 ||
	    (r = schedule_sums(deps_of(req)->store, sch.id, start, end, &m, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:i, s:i, s:i, s:f, s:o, s:o, s:o}", "total", (int)m.total,
	                            "succeeded", (int)m.succeeded, "failed", (int)m.failed,
	                            "successRate", m.total ? (double)m.succeeded / m.total : 0.0,
	                            "start", shape_time(start), "end", shape_time(end),
	                            "averageLatencyMs", schedule_average(&m)),
	                  err);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The nearest rank. */
static json_t *percentile(const double *sorted, size_t n, unsigned p)
{
	size_t rank = (n * p + 99) / 100;

	return n ? json_real(sorted[rank ? rank - 1 : 0]) : json_null();
}

static json_t *average(double sum, size_t n)
{
	return n ? json_real(sum / (double)n) : json_null();
}

static json_t *point(int64_t at, const struct store_execution *v, size_t n, double *good)
{
	size_t ok = 0, first = 0, failed = 0;
	double ok_ms = 0, failed_ms = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i].state == CRON_SUCCEEDED) {
			good[ok++] = latency(&v[i]);
			ok_ms += latency(&v[i]);
			first += v[i].attempts == 1;
		} else if (v[i].state == CRON_FAILED) {
			failed++;
			failed_ms += latency(&v[i]);
		}
	}
	qsort(good, ok, sizeof(*good), by_value);
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
	                 "timestamp", shape_time(at), "executionCount", (json_int_t)n,
	                 "succeededCount", (json_int_t)ok, "succeededOnFirstTryCount",
	                 (json_int_t)first, "succeededOnRetryCount", (json_int_t)(ok - first),
	                 "failedCount", (json_int_t)failed, "averageLatencyMs",
	                 average(ok_ms + failed_ms, ok + failed), "averageSuccessLatencyMs",
	                 average(ok_ms, ok), "averageFailureLatencyMs", average(failed_ms, failed),
	                 "p50SuccessLatencyMs", percentile(good, ok, 50), "p90SuccessLatencyMs",
	                 percentile(good, ok, 90), "p99SuccessLatencyMs", percentile(good, ok, 99));
}

int api_schedule_timeline(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_schedule_done) struct store_schedule sch = { 0 };
	autofree struct store_execution *v = NULL;
	autofree double *good = NULL;
	uint32_t minutes = BUCKET_MINUTES;
	int64_t start, end;
	size_t n = 0, i = 0;
	json_t *points;
	int r;

	if ((r = own_schedule(req, &sch, err)) < 0 || (r = span(req, &start, &end, err)) < 0 ||
	    (r = request_query_u32(req, "bucketMinutes", 525600, &minutes, err)) < 0)
		return r;
	if (!minutes || (end - start - 1) / (minutes * MINUTE_MS) >= POINTS_MAX)
		return err_tag(err, -EINVAL, TAG,
		               "'bucketMinutes' is too small: at most %d points are made",
		               POINTS_MAX);
	if ((r = store_execution_range(deps_of(req)->store, sch.id, start, end, &v, &n, err)) < 0)
		return r;
	good = calloc(n + 1, sizeof(*good));
	points = json_array();
	if (!good || !points) {
		json_decref(points);
		return err_set(err, -ENOMEM, "out of memory");
	}
	for (int64_t at = start; at < end; at += minutes * MINUTE_MS) {
		size_t from = i;

		while (i < n && v[i].run_at_ms < at + minutes * MINUTE_MS)
			i++;
		json_array_append_new(points, point(at, v + from, i - from, good));
	}
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:o, s:o}", "scheduleId", sch.id, "dataPoints",
	                            points, "start", shape_time(start), "end", shape_time(end)),
	                  err);
}
