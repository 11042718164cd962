/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cron_run.c - schedules: which time comes next, and a run for each
 *
 * The store knows when a schedule is due; threads (hook/crew.c) take what is due and run it. A time
 * is taken before anything happens, in the transaction that also moves the schedule on
 * (store_cron.h): a crash after that loses an execution at most, it never makes two. Executions
 * that were running when the server ended count as failed attempts; they are tried again only if
 * the schedule has retries.
 *
 * Times that passed while the server was down are not made up for one by one: the latest one is,
 * if it is not older than CRON_LATE_MS.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json_field.h"
#include "base/log.h"
#include "base/utf8.h"
#include "hook/hook.h"
#include "serverless/cron.h"
#include "serverless/deploy.h"
#include "serverless/serverless_internal.h"
#include "vm/vmm.h"

#define TAG ERR_BAD_REQUEST
#define THREADS 4
#define RETRY_MS \
	INT64_C(30000) /* before the second attempt; twice as long before each further one */
#define CALL_MS 280000 /* for a deployment to answer */
#define RETRY_MAX_MS INT64_C(3600000)

struct cron_job {
	struct store_execution x;
	struct store_schedule sch; /* run NULL: its schedule is gone */
};

/* ---- what a schedule is ---- */

static int next_time(const struct store_schedule *sch, int64_t after_ms, int64_t *ret,
                     struct err *err)
{
	AUTO(tz_freep) struct tz *z = NULL;
	struct cron c;
	int r;

	if ((r = cron_parse(sch->cron, &c, err)) < 0 ||
	    (r = tz_load(TZ_DIR, sch->timezone, &z, err)) < 0)
		return r;
	*ret = cron_next(&c, z, after_ms);
	return 0;
}

static int put_text(char *dst, size_t size, const char *name, const char *text, struct err *err)
{
	if (!text)
		return 0;
	if (strlen(text) >= size)
		return err_tag(err, -EINVAL, TAG, "'%s' has more than %zu bytes", name, size - 1);
	snprintf(dst, size, "%s", text);
	return 0;
}

/* What a schedule's run has beside what it is run with. */
static const struct json_field run_more[] = { JSON_NAME("code") };

static int put_run(struct store_schedule *sch, const json_t *run, struct err *err)
{
	AUTO(run_conf_done) struct run_conf conf = { 0 };
	const json_t *code = json_object_get(run, "code");
	int r = run_conf_parse(run, "run.", &conf, err);

	if (r < 0)
		return r;
	json_fields_know(run, "run.", run_more, ARRAY_SIZE(run_more));
	if (!json_is_string(code) || !json_string_length(code) ||
	    json_string_length(code) > RUN_SCRIPT_MAX ||
	    strlen(json_string_value(code)) != json_string_length(code))
		return err_tag(err, -EINVAL, TAG, "'run.code' must be a script of at most %u bytes",
		               RUN_SCRIPT_MAX);
	free(sch->run);
	sch->run = json_dumps(run, JSON_COMPACT);
	return sch->run ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int put_payload(struct store_schedule *sch, const json_t *payload, struct err *err)
{
	char *text = json_dumps(payload, JSON_COMPACT | JSON_ENCODE_ANY);

	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	if (strlen(text) > CRON_PAYLOAD_MAX) {
		free(text);
		return err_tag(err, -EINVAL, TAG, "'payload' has more than %u bytes as JSON",
		               CRON_PAYLOAD_MAX);
	}
	free(sch->payload);
	sch->payload = text;
	return 0;
}

/* It calls a deployment from now on, and runs no script. */
static int put_deployment(struct serverless *s, struct store_schedule *sch, const char *id,
                          struct err *err)
{
	AUTO(store_deploy_done) struct store_deploy row = { 0 };
	int r = store_deploy_get(s->conf.store, sch->account, id, &row, err);

	if (r < 0)
		return r;
	snprintf(sch->deployment, sizeof(sch->deployment), "%s", id);
	free(sch->run);
	sch->run = strdup("");
	return sch->run ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int apply(struct serverless *s, struct store_schedule *sch, const struct schedule_change *c,
                 struct err *err)
{
	int64_t next;
	int r;

	if ((r = put_text(sch->name, sizeof(sch->name), "name", c->name, err)) < 0 ||
	    (r = put_text(sch->path, sizeof(sch->path), "path", c->path, err)) < 0 ||
	    (r = put_text(sch->cron, sizeof(sch->cron), "cron", c->cron, err)) < 0 ||
	    (r = put_text(sch->timezone, sizeof(sch->timezone), "timezone", c->timezone, err)) <
	            0 ||
	    (c->payload && (r = put_payload(sch, c->payload, err)) < 0) ||
	    (c->run && (r = put_run(sch, c->run, err)) < 0) ||
	    (c->deployment && (r = put_deployment(s, sch, c->deployment, err)) < 0))
		return r;
	if (c->run)
		sch->deployment[0] = '\0';
	if (*sch->path && *sch->path != '/')
		return err_tag(err, -EINVAL, TAG, "'path' must begin with '/'");
	if (c->retries > CRON_RETRIES_MAX)
		return err_tag(err, -EINVAL, TAG, "'retries' is at most %d", CRON_RETRIES_MAX);
	if (c->retries >= 0)
		sch->retries = (uint32_t)c->retries;
	sch->updated_ms = clock_wall_ms();
	/* Times before a change, or in a pause, are over. */
	if ((r = next_time(sch, sch->updated_ms, &next, err)) < 0)
		return r;
	if (!next)
		return err_tag(err, -EINVAL, TAG, "'cron': '%s' never comes", sch->cron);
	if (c->active >= 0)
		sch->active = c->active;
	sch->next_ms = next;
	return 0;
}

int schedule_create(struct serverless *s, const char *account, const struct schedule_change *c,
                    struct store_schedule *ret, struct err *err)
{
	struct store_schedule sch = { .active = true, .created_ms = clock_wall_ms() };
	int r;

	if (!c->cron)
		return err_tag(err, -EINVAL, TAG, "'cron' is missing");
	if (!c->run == !c->deployment)
		return err_tag(err, -EINVAL, TAG,
		               "either 'run' or 'deploymentId' is needed, and not both");
	id_make("sch-", sch.id);
	snprintf(sch.account, sizeof(sch.account), "%s", account);
	snprintf(sch.timezone, sizeof(sch.timezone), "UTC");
	sch.payload = strdup("{}");
	r = sch.payload ? apply(s, &sch, c, err) : err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = store_schedule_add(s->conf.store, &sch, err);
	if (r < 0) {
		store_schedule_done(&sch);
		return r;
	}
	crew_wake(s->cron);
	*ret = sch;
	return 0;
}

int schedule_change(struct serverless *s, const char *account, const char *id,
                    const struct schedule_change *c, struct err *err)
{
	AUTO(store_schedule_done) struct store_schedule sch = { 0 };
	int r;

	if ((r = store_schedule_get(s->conf.store, account, id, &sch, err)) < 0 ||
	    (r = apply(s, &sch, c, err)) < 0 ||
	    (r = store_schedule_put(s->conf.store, &sch, err)) < 0)
		return r;
	crew_wake(s->cron);
	return 0;
}

/* ---- executing one ---- */

static void say(char dst[CRON_NOTE_SIZE], const char *text)
{
	autobuf struct buf b = { 0 };

	utf8_put_clean(&b, (const uint8_t *)text, strnlen(text, CRON_NOTE_SIZE - 4));
	snprintf(dst, CRON_NOTE_SIZE, "%.*s", (int)b.len, (const char *)b.p);
}

/* After an attempt: it is over, or waits for the next one. */
static int settle(struct serverless *s, struct store_execution *x, bool ok, const char *why,
                  struct err *err)
{
	struct store_attempt a = { .number = x->attempts + 1 };
	int64_t now = clock_wall_ms(), wait = RETRY_MS;

	x->attempts++;
	x->updated_ms = now;
	for (uint32_t i = 1; i < x->attempts; i++)
		wait = MIN(wait * 2, RETRY_MAX_MS);
	x->state = ok ? CRON_SUCCEEDED : x->attempts < x->max_attempts ? CRON_RETRY : CRON_FAILED;
	x->next_ms = x->state == CRON_RETRY ? now + wait : 0;
	x->completed_ms = x->state == CRON_RETRY ? 0 : now;
	say(x->error, why);
	id_make("att-", a.id);
	snprintf(a.execution, sizeof(a.execution), "%s", x->id);
	snprintf(a.schedule, sizeof(a.schedule), "%s", x->schedule);
	snprintf(a.run, sizeof(a.run), "%s", x->run);
	snprintf(a.error, sizeof(a.error), "%s", x->error);
	a.state = ok ? CRON_SUCCEEDED : CRON_FAILED;
	a.started_ms = x->locked_ms;
	a.completed_ms = now;
	return store_cron_done(s->conf.store, x, &a, err);
}

/* A POST with the payload; any status below 400 is a success. */
static int call(struct serverless *s, struct cron_job *job, struct err *err)
{
	AUTO(deploy_answer_done) struct deploy_answer a = { 0 };
	char fields[256];
	struct deploy_call c = { .method = "POST",
		                 .target = *job->sch.path ? job->sch.path : "/",
		                 .fields = fields,
		                 .body = job->sch.payload,
		                 .body_len = strlen(job->sch.payload),
		                 .timeout_ms = CALL_MS };
	int r;

	snprintf(fields, sizeof(fields),
	         "Content-Type: application/json\r\nUser-Agent: pando-cron\r\n"
	         "X-Pando-Schedule: %s\r\nX-Pando-Execution: %s\r\n",
	         job->sch.id, job->x.id);
	r = deploy_call(s, job->sch.deployment, &c, &a, err);
	if (r < 0)
		return r;
	return a.status < 400
	               ? 0
	               : err_set(err, -EIO, "the deployment answered with status %u", a.status);
}

static int execute(struct serverless *s, struct cron_job *job, struct err *err)
{
	AUTO(run_conf_done) struct run_conf conf = { 0 };
	AUTO(run_done_free) struct run_done done = { 0 };
	autojson json_t *run = json_loads(job->sch.run, 0, NULL);
	autojson json_t *payload = json_loads(job->sch.payload, JSON_DECODE_ANY, NULL);
	struct run_req q = { .account = job->x.account,
		             .schedule = job->sch.id,
		             .script = json_string_value(json_object_get(run, "code")),
		             .conf = &conf,
		             .payload = payload };
	int r = run_conf_parse(run, "run.", &conf, err);

	if (r < 0 || !q.script)
		return r < 0 ? r : err_set(err, -EINVAL, "the schedule has no script");
	r = run_script(s, &q, &done, err);
	snprintf(job->x.run, sizeof(job->x.run), "%s", done.name);
	return r;
}

static void work(void *ctx, void *p)
{
	struct serverless *s = ctx;
	struct cron_job *job = p;
	struct err err = { 0 }, late = { 0 };
	int r = !job->sch.run          ? err_set(&err, -ENOENT, "the schedule was deleted")
	        : *job->sch.deployment ? call(s, job, &err)
	                               : execute(s, job, &err);

	if (settle(s, &job->x, r == 0, r < 0 ? err.msg : "", &late) < 0)
		log_warn("cron: the result of execution %s is not kept: %s", job->x.id, late.msg);
	store_schedule_done(&job->sch);
}

/* ---- taking what is due ---- */

/* The latest time of the schedule that has come; *ret_next the first that has not. */
static int times(const struct store_schedule *sch, int64_t now, int64_t *ret_at, int64_t *ret_next,
                 struct err *err)
{
	int64_t at = sch->next_ms, next = 0;
	int r = next_time(sch, now, &next, err);

	if (r < 0)
		return r;
	/* It was down for longer: look back from now, an hour at most. */
	if (now - at > 60000) {
		int64_t t = MAX(at - 1, now - CRON_LATE_MS), later;

		while ((r = next_time(sch, t, &later, err)) == 0 && later && later <= now)
			t = at = later;
		if (r < 0)
			return r;
	}
	*ret_at = at;
	*ret_next = next ? next : INT64_MAX;
	return 0;
}

static int claim_time(struct serverless *s, struct cron_job *job, struct err *err)
{
	for (;;) {
		int64_t now = clock_wall_ms(), at, next;
		struct store_execution *x = &job->x;
		bool late;
		int r = store_cron_due(s->conf.store, now, &job->sch, err);

		if (r < 0)
			return r;
		if ((r = times(&job->sch, now, &at, &next, err)) < 0) {
			/* The zone is gone: nothing can be said about its times. */
			log_warn("cron: schedule %s waits a day: %s", job->sch.id, err->msg);
			at = 0;
			next = now + INT64_C(86400000);
		}
		late = now - at > CRON_LATE_MS;
		*x = (struct store_execution){ .run_at_ms = at,
			                       .state = CRON_RUNNING,
			                       .max_attempts = job->sch.retries + 1,
			                       .locked_ms = now,
			                       .started_ms = now,
			                       .created_ms = now,
			                       .updated_ms = now };
		id_make("exe-", x->id);
		snprintf(x->account, sizeof(x->account), "%s", job->sch.account);
		snprintf(x->schedule, sizeof(x->schedule), "%s", job->sch.id);
		r = store_cron_take(s->conf.store, &job->sch, next, late ? NULL : x, err);
		if (r == 0 && !late)
			return 0;
		store_schedule_done(&job->sch);
		if (r < 0 && r != -ESTALE)
			return r;
	}
}

static int claim_retry(struct serverless *s, struct cron_job *job, struct err *err)
{
	int r = store_cron_retry(s->conf.store, clock_wall_ms(), &job->x, err);

	if (r < 0)
		return r;
	job->sch = (struct store_schedule){ 0 };
	/* If it is gone, work() says so. */
	store_schedule_get(s->conf.store, job->x.account, job->x.schedule, &job->sch, NULL);
	return 0;
}

static int claim(void *ctx, void *job, struct err *err)
{
	struct serverless *s = ctx;
	int r;

	if (vmm_draining(s->conf.vmm)) /* other nodes take it, or this one later */
		return -ENOENT;
	r = claim_time(ctx, job, err);
	return r == -ENOENT ? claim_retry(ctx, job, err) : r;
}

static int next_due(void *ctx, int64_t *ret_ms, struct err *err)
{
	struct serverless *s = ctx;

	return store_cron_next(s->conf.store, ret_ms, err);
}

static const struct crew_ops ops = {
	.job_size = sizeof(struct cron_job), .claim = claim, .next = next_due, .work = work
};

int cron_start(struct serverless *s, struct err *err)
{
	autofree struct store_execution *v = NULL;
	size_t n = 0;
	int r = store_cron_running(s->conf.store, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = settle(s, &v[i], false, "the server stopped while it ran", err);
	return r < 0 ? r : crew_start(&ops, s, THREADS, &s->cron, err);
}
