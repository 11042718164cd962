/* SPDX-License-Identifier: Apache-2.0 */
/* schedules.c - schedules: create, change, pause; what came of their times */
#include "api/serverless/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"

#define TAG ERR_BAD_REQUEST
#define LIST_LIMIT 50
#define LIST_LIMIT_MAX 200
#define DAY_MS (INT64_C(24) * 3600 * 1000)

struct schedule_body {
	const char *deployment, *name, *path, *cron, *timezone;
	int64_t retries;
	json_t *payload, *run;
	bool active;
	enum json_presence active_seen, run_seen;
};
static const struct json_field fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, schedule_body, deployment, "deploymentId", JSON_NULLABLE, 0,
	           128, NULL, "instead of 'run': the deployment that gets a POST with the payload"),
	JSON_FIELD(JSON_WANT_STRREF, schedule_body, name, "name", JSON_NULLABLE, 0, 128),
	JSON_FIELD(JSON_WANT_STRREF, schedule_body, path, "path", JSON_NULLABLE, 0, 1024),
	JSON_FIELD(JSON_WANT_STRREF, schedule_body, cron, "cron", JSON_NULLABLE, 1, 256, NULL,
	           "minute hour day month weekday"),
	JSON_FIELD(JSON_WANT_STRREF, schedule_body, timezone, "timezone", JSON_NULLABLE, 1, 64,
	           NULL, "such as Europe/Berlin; UTC if absent"),
	JSON_FIELD(JSON_WANT_I64, schedule_body, retries, "retries", JSON_NULLABLE, 0,
	           CRON_RETRIES_MAX),
	JSON_FIELD(JSON_WANT_ANY, schedule_body, payload, "payload", 0, 0, 0, "any",
	           "what the default export is called with"),
	JSON_FIELD_P(JSON_WANT_OBJECT, schedule_body, run, run_seen, "run", JSON_NULLABLE, 0, 0,
	             "RunConfig & {code: string}"),
	JSON_FIELD_P(JSON_WANT_BOOL, schedule_body, active, active_seen, "active", JSON_NULLABLE, 0,
	             0),
};
JSON_TABLE(ScheduleNew, fields);

static int read_change(struct request *req, struct schedule_change *c, struct err *err)
{
	struct schedule_body b = { .retries = -1 };
	int r = request_fields(req, TAG, fields, ARRAY_SIZE(fields), &b, err);

	if (r < 0)
		return r;
	if (b.deployment && *b.deployment && b.run_seen == JSON_IS_GIVEN)
		return err_tag(err, -EINVAL, TAG, "'run' and 'deploymentId' exclude each other");
	*c = (struct schedule_change){
		.name = b.name,
		.cron = b.cron,
		.timezone = b.timezone,
		.path = b.path,
		.retries = b.retries,
		.active = b.active_seen == JSON_IS_GIVEN ? b.active : -1,
		.payload = b.payload,
		.run = b.run_seen == JSON_IS_GIVEN ? b.run : NULL,
		.deployment = b.deployment && *b.deployment ? b.deployment : NULL,
	};
	return 0;
}

/* Values of variables and headers are secrets: only their names are shown. */
static void mask(json_t *run, const char *member)
{
	json_t *o = json_object_get(run, member), *v;
	const char *key;

	json_object_foreach(o, key, v) json_object_set_new(o, key, json_string("********"));
}

static json_t *parsed(const char *text)
{
	json_t *j = text && *text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

	return j ? j : json_null();
}

static json_t *shape_schedule(const struct store_schedule *s)
{
	json_t *run = parsed(s->run);

	mask(run, "envVars");
	mask(run, "env");
	mask(run, "customHeaders");
	return json_pack(
	        "{s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:i, s:o, s:b, s:o, s:o, s:o, s:o}", "id",
	        s->id, "accountId", s->account, "deploymentId", shape_text(s->deployment), "name",
	        shape_text(s->name), "path", shape_text(s->path), "cron", s->cron, "timezone",
	        s->timezone, "retries", (int)s->retries, "payload", parsed(s->payload), "active",
	        s->active, "createdAt", shape_time(s->created_ms), "updatedAt",
	        shape_time(s->updated_ms), "nextRunAt",
	        s->active && s->next_ms != INT64_MAX ? shape_time(s->next_ms) : json_null(),
	        "runConfig", run);
}

int own_schedule(struct request *req, struct store_schedule *ret, struct err *err)
{
	return store_schedule_get(deps_of(req)->store, who_of(req)->account,
	                          request_arg(req, "{schedule}"), ret, err);
}

int api_schedule_create(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_schedule_done) struct store_schedule sch = { 0 };
	struct schedule_change c;
	struct serverless *s;
	int r;

	if ((r = serverless_of(req, &s, err)) < 0 || (r = read_change(req, &c, err)) < 0 ||
	    (r = schedule_create(s, who_of(req)->account, &c, &sch, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:o}", "schedule", shape_schedule(&sch)), err);
}

int api_schedule_change(struct request *req, struct reply *res, struct err *err)
{
	struct schedule_change c;
	struct serverless *s;
	int r;

	if ((r = serverless_of(req, &s, err)) < 0 || (r = read_change(req, &c, err)) < 0 ||
	    (r = schedule_change(s, who_of(req)->account, request_arg(req, "{schedule}"), &c,
	                         err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:b}", "success", 1), err);
}

int api_schedule_get(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_schedule_done) struct store_schedule sch = { 0 };
	int r = own_schedule(req, &sch, err);

	return r < 0 ? r
	             : reply_json(res, json_pack("{s:o}", "schedule", shape_schedule(&sch)), err);
}

int api_schedule_delete(struct request *req, struct reply *res, struct err *err)
{
	int r = store_schedule_delete(deps_of(req)->store, who_of(req)->account,
	                              request_arg(req, "{schedule}"), err);

	return r < 0 ? r : reply_json(res, json_pack("{s:b}", "success", 1), err);
}

int api_schedule_list(struct request *req, struct reply *res, struct err *err)
{
	struct store_schedule *v = NULL;
	autofree char *deployment = NULL;
	autojson json_t *list = json_array();
	int64_t now = clock_wall_ms(), start, end;
	size_t n = 0;
	int r;

	if (!list)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = request_query(req, "deploymentId", &deployment, err)) < 0 ||
	    (r = request_time(req, "metricsEnd", now, &end, err)) < 0 ||
	    (r = request_time(req, "metricsStart", end - DAY_MS, &start, err)) < 0 ||
	    (r = store_schedule_list(deps_of(req)->store, who_of(req)->account, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct schedule_sums m;
		json_t *j;

		if (deployment && *deployment && strcmp(v[i].deployment, deployment) != 0)
			continue;
		if ((r = schedule_sums(deps_of(req)->store, v[i].id, start, end, &m, err)) < 0)
			break;
		j = shape_schedule(&v[i]);
		json_object_set_new(j, "successRate", schedule_success(&m));
		json_object_set_new(j, "averageLatencyMs", schedule_average(&m));
		json_object_set_new(j, "executionCount", json_integer(m.total));
		json_array_append_new(list, j);
	}
	store_schedules_free(v, n);
	return r < 0 ? r : reply_json(res, json_pack("{s:O}", "schedules", list), err);
}

static json_t *shape_attempt(const struct store_attempt *a)
{
	return json_pack("{s:s, s:s, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "id", a->id,
	                 "executionId", a->execution, "attemptNumber", (int)a->number, "status",
	                 cron_state_words[a->state], "instanceId", shape_text(a->run), "error",
	                 shape_text(a->error), "startedAt", shape_time(a->started_ms),
	                 "completedAt", shape_time(a->completed_ms), "createdAt",
	                 shape_time(a->started_ms), "updatedAt", shape_time(a->completed_ms));
}

static json_t *shape_execution(const struct store_execution *x, const char *deployment,
                               json_t *attempts)
{
	bool running = x->state == CRON_RUNNING;

	return json_pack(
	        "{s:s, s:s, s:o, s:o, s:o, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
	        "s:o}",
	        "id", x->id, "scheduleId", x->schedule, "deploymentId", shape_text(deployment),
	        "runAt", shape_time(x->run_at_ms), "nextRetryAt", shape_time(x->next_ms), "status",
	        cron_state_words[x->state], "attempts", (int)x->attempts, "maxAttempts",
	        (int)x->max_attempts, "lockedAt", running ? shape_time(x->locked_ms) : json_null(),
	        "lockOwner", running ? json_string("pandod") : json_null(), "lastError",
	        shape_text(x->error), "instanceId", shape_text(x->run), "startedAt",
	        shape_time(x->started_ms), "completedAt", shape_time(x->completed_ms), "createdAt",
	        shape_time(x->created_ms), "updatedAt", shape_time(x->updated_ms), "attemptHistory",
	        attempts);
}

static int add_execution(struct request *req, json_t *list, const struct store_execution *x,
                         const char *deployment, struct err *err)
{
	autofree struct store_attempt *v = NULL;
	json_t *attempts = json_array();
	size_t n = 0;
	int r = store_attempt_list(deps_of(req)->store, x->id, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		json_array_append_new(attempts, shape_attempt(&v[i]));
	if (r == 0)
		json_array_append_new(list, shape_execution(x, deployment, attempts));
	else
		json_decref(attempts);
	return r;
}

int api_execution_list(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_schedule_done) struct store_schedule sch = { 0 };
	autofree struct store_execution *v = NULL;
	autojson json_t *list = json_array();
	uint32_t limit = LIST_LIMIT, offset = 0, total = 0;
	size_t n = 0;
	int r;

	if (!list)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = own_schedule(req, &sch, err)) < 0 ||
	    (r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0)
		return r;
	limit = MIN(limit, (uint32_t)LIST_LIMIT_MAX);
	r = store_execution_list(deps_of(req)->store, sch.id, limit, offset, &v, &n, &total, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_execution(req, list, &v[i], sch.deployment, err);
	/* The SDK takes `offset` for the start of the next page. */
	return r < 0 ? r
	             : reply_json(res,
	                          json_pack("{s:O, s:I, s:I, s:I}", "executions", list, "total",
	                                    (json_int_t)total, "offset",
	                                    (json_int_t)(n ? offset + n : total), "limit",
	                                    (json_int_t)limit),
	                          err);
}
