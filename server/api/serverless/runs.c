/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c - scripts: run one, list those that ran, show one */
#include "api/serverless/shared.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "events/events.h"

#define TAG ERR_BAD_REQUEST
#define LIST_LIMIT 50
#define LIST_LIMIT_MAX 200

struct run_body {
	const char *script, *name;
	json_t *config;
};
static const struct json_field run_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, run_body, script, "script", JSON_REQUIRED, 1, RUN_SCRIPT_MAX,
	           NULL, "an ES module in JavaScript or TypeScript"),
	JSON_FIELD(JSON_WANT_STRREF, run_body, name, "executionId", JSON_NULLABLE, 1,
	           RUN_NAME_SIZE - 1, NULL, "its name; none: one is made"),
	JSON_FIELD(JSON_WANT_OBJECT, run_body, config, "config", JSON_NULLABLE, 0, 0, "RunConfig"),
};
JSON_TABLE(RunNew, run_fields);

static bool client_gone(void *ctx)
{
	struct pollfd p = { .fd = *(int *)ctx, .events = POLLRDHUP };

	return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

/* For programs that print one text: messages, then what came out. */
static char *output_of(const struct run_done *d)
{
	autobuf struct buf b = { 0 };
	autofree char *result = json_is_null(d->result)
	                                ? NULL
	                                : json_dumps(d->result, JSON_COMPACT | JSON_ENCODE_ANY);
	json_t *log;
	size_t i;

	json_array_foreach(d->logs, i, log) buf_printf(
	        &b, "%s%s", b.len ? "\n" : "", json_string_value(json_object_get(log, "message")));
	if (result)
		buf_printf(&b, "%s%s", b.len ? "\n" : "", result);
	return buf_take_str(&b);
}

static int name_check(const char *name, struct err *err)
{
	if (!name || name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                               "0123456789._-")] == '\0')
		return 0;
	return err_tag(err, -EINVAL, TAG,
	               "'executionId' may have letters, digits, dots, dashes and underscores");
}

int serverless_of(struct request *req, struct serverless **ret, struct err *err)
{
	*ret = deps_of(req)->serverless;
	return *ret ? 0
	            : err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
	                      "this server runs no scripts: it has no builder");
}

int api_run_create(struct request *req, struct reply *res, struct err *err)
{
	AUTO(run_conf_done) struct run_conf conf = { 0 };
	AUTO(run_done_free) struct run_done done = { 0 };
	autofree char *output = NULL;
	struct run_body b = { 0 };
	struct serverless *s;
	int client = request_client_fd(req);
	struct run_req q = { .account = who_of(req)->account,
		             .request_id = events_request(),
		             .conf = &conf,
		             .gone = client_gone,
		             .ctx = &client };
	int r;

	if ((r = serverless_of(req, &s, err)) < 0 ||
	    (r = request_fields(req, TAG, run_fields, ARRAY_SIZE(run_fields), &b, err)) < 0 ||
	    (r = name_check(b.name, err)) < 0 ||
	    (r = run_conf_parse(b.config, "config.", &conf, err)) < 0)
		return r;
	q.script = b.script;
	q.name = b.name;
	if ((r = run_script(s, &q, &done, err)) < 0) {
		if (done.extra)
			reply_extras(res, done.extra);
		return r;
	}
	output = output_of(&done);
	return reply_json(
	        res,
	        json_pack("{s:O, s:O, s:s, s:o}", "result", done.result, "logs", done.logs, "runId",
	                  done.name, "output",
	                  shape_output(output ? output : "", output ? strlen(output) : 0)),
	        err);
}

static json_t *config_of(const struct store_run *r)
{
	json_t *j = r->config && *r->config ? json_loads(r->config, 0, NULL) : NULL;

	return j ? j : json_object();
}

static json_t *shape_run(const struct store_run *r)
{
	autojson json_t *config = config_of(r);
	json_t *env = json_object_get(config, "envVars"), *tags = json_object_get(config, "tags");
	char took[32] = "";

	if (r->state == RUN_COMPLETE && r->started_ms)
		snprintf(took, sizeof(took), "%.3fs", (double)(r->ended_ms - r->started_ms) / 1000);
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:b, s:o, s:o}", "deployment",
	                 r->name, "accountId", r->account, "provisionedAt",
	                 shape_time(r->created_ms), "startedAt", shape_time(r->started_ms),
	                 "duration", shape_text(took), "state", run_state_words[r->state],
	                 "envVars", env ? json_incref(env) : json_object(), "tags",
	                 tags ? json_incref(tags) : json_array(), "failed", r->failed, "vmId",
	                 shape_text(r->vm), "scheduleId", shape_text(r->schedule));
}

int api_run_list(struct request *req, struct reply *res, struct err *err)
{
	uint32_t limit = LIST_LIMIT, offset = 0, total = 0;
	struct store_run *v = NULL;
	json_t *list;
	size_t n = 0;
	int r;

	if ((r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0 ||
	    (r = store_run_list(deps_of(req)->store, who_of(req)->account,
	                        MIN(limit, (uint32_t)LIST_LIMIT_MAX), offset, &v, &n, &total,
	                        err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, shape_run(&v[i]));
	store_runs_free(v, n);
	/* The SDK takes `offset` for the start of the next page. */
	return reply_json(res,
	                  json_pack("{s:o, s:I, s:I}", "entries", list, "total", (json_int_t)total,
	                            "offset", (json_int_t)(n ? offset + n : total)),
	                  err);
}

static int own_run(struct request *req, struct store_run *ret, struct err *err)
{
	return store_run_get(deps_of(req)->store, who_of(req)->account, request_arg(req, "{run}"),
	                     ret, err);
}

int api_run_get(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_run_done) struct store_run run = { 0 };
	autojson json_t *config = NULL;
	json_t *code, *modules, *script;
	int r = own_run(req, &run, err);

	if (r < 0)
		return r;
	config = config_of(&run);
	modules = json_object_get(config, "nodeModules");
	script = json_object_get(config, "script");
	code = script ? json_pack("{s:O, s:o}", "code", script, "nodeModules",
	                          modules ? json_incref(modules) : json_object())
	              : json_null();
	return reply_json(res, json_pack("{s:o, s:o}", "metadata", shape_run(&run), "code", code),
	                  err);
}

int api_run_output(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_run_done) struct store_run run = { 0 };
	autojson json_t *out = NULL;
	json_t *result, *error, *logs;
	int r = own_run(req, &run, err);

	if (r < 0)
		return r;
	out = *run.output ? json_loads(run.output, 0, NULL) : NULL;
	result = json_object_get(out, "result");
	error = json_object_get(json_object_get(out, "error"), "message");
	logs = json_object_get(out, "logs");
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:o, s:o}", "status",
	                            run.state != RUN_COMPLETE ? run_state_words[run.state]
	                            : run.failed              ? "failed"
	                                                      : "succeeded",
	                            "result", result ? json_incref(result) : json_null(), "error",
	                            error ? json_incref(error) : json_null(), "logs",
	                            logs ? json_incref(logs) : json_array()),
	                  err);
}
