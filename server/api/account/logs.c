/* SPDX-License-Identifier: Apache-2.0 */
/* logs.c - GET /observability/v1/logs: filters in, one page of lines out */
#include "api/call.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "events/logs.h"
#include "guest/guest.h"
#include "store/store_run.h"

#define TAG ERR_INVALID_QUERY
#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* The query, decoded; "" for absent members. */
struct logs_args {
	char *vm, *instance, *build, *request, *service, *search, *type, *start, *end, *token;
	char *domain, *source;
	char *run;
	char *elsewhere; /* a filter for things that this server does not have */
};

static void logs_args_done(struct logs_args *a)
{
	char **all[] = { &a->vm,        &a->instance, &a->build,  &a->request, &a->service,
		         &a->search,    &a->type,     &a->start,  &a->end,     &a->token,
		         &a->elsewhere, &a->domain,   &a->source, &a->run };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		free(*all[i]);
}

static int read_args(struct request *req, struct logs_args *a, struct err *err)
{
	const struct {
		const char *name;
		char **ret;
	} all[] = { { "vmId", &a->vm },           { "instanceId", &a->instance },
		    { "buildId", &a->build },     { "requestId", &a->request },
		    { "vmService", &a->service }, { "search", &a->search },
		    { "resourceType", &a->type }, { "startTime", &a->start },
		    { "endTime", &a->end },       { "pageToken", &a->token },
		    { "domain", &a->domain },     { "source", &a->source },
		    { "runId", &a->run } };
	static const char *const elsewhere[] = { "deploymentId" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if ((r = request_query(req, all[i].name, all[i].ret, err)) < 0) {
			err->tag = r == -EINVAL ? TAG : err->tag;
			return r;
		}
		if (!*all[i].ret && !(*all[i].ret = strdup("")))
			return err_set(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere) && !a->elsewhere; i++)
		if ((r = request_query(req, elsewhere[i], &a->elsewhere, err)) < 0)
			return r;
	return 0;
}

static int read_time(const char *name, const char *text, int64_t absent, int64_t *ret,
                     struct err *err)
{
	*ret = absent;
	if (!*text || clock_rfc3339_parse(text, ret) == 0)
		return 0;
	return err_tag(err, -EINVAL, TAG, "'%s' must be a time like 2026-01-31T12:00:00Z", name);
}

static int read_query(struct request *req, const struct logs_args *a, struct log_query *q,
                      struct err *err)
{
	uint32_t size = LOGS_PAGE_MAX;
	int64_t now = clock_wall_ms();
	int r;

	*q = (struct log_query){ .account = who_of(req)->account,
		                 .vm = a->vm,
		                 .instance = a->instance,
		                 .build = a->build,
		                 .request = a->request,
		                 .service = a->service,
		                 .search = a->search,
		                 .domain = a->domain,
		                 .access = strcmp(a->source, "access") == 0,
		                 .before = LOG_PLACE_END };
	if ((r = read_time("endTime", a->end, now, &q->to_ms, err)) < 0 ||
	    (r = read_time("startTime", a->start, MIN(now, q->to_ms) - DAY_MS, &q->from_ms, err)) <
	            0)
		return r;
	if ((r = request_query_u32(req, "pageSize", UINT32_MAX, &size, err)) < 0 || size == 0)
		return err_tag(err, -EINVAL, TAG, "'pageSize' must be a whole number from 1");
	q->limit = MIN(size, LOGS_PAGE_MAX);
	if (*a->token && log_place_parse(a->token, &q->before) < 0)
		return err_tag(err, -EINVAL, TAG, "'pageToken' must come from an earlier reply");
	if (*a->service && !logs_service_valid(a->service))
		return err_tag(err, -EINVAL, TAG, "'vmService' must be the name of a systemd unit");
	if (*a->type && strcmp(a->type, "vm") != 0 && strcmp(a->type, "deployment") != 0 &&
	    strcmp(a->type, "run") != 0)
		return err_tag(err, -EINVAL, TAG, "'resourceType' must be vm, deployment or run");
	if (*a->source && !q->access)
		return err_tag(err, -EINVAL, TAG, "'source' must be access, or left out");
	for (char *p = a->domain; *p; p++)
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
	return 0;
}

static json_t *shape_access(const struct access_line *a)
{
	return json_pack("{s:I, s:s, s:s, s:s, s:s, s:b, s:o, s:I, s:I, s:I, s:s, s:b, s:b, s:o}",
	                 "seq", (json_int_t)a->seq, "method", a->method, "host", a->host, "path",
	                 a->path, "protocol", access_protocol(a), "tls", a->tls, "status",
	                 a->status ? json_integer(a->status) : json_null(), "bytesIn",
	                 (json_int_t)a->in, "bytesOut", (json_int_t)a->out, "durationMs",
	                 (json_int_t)a->ms, "client", a->client, "clientIsVm", a->guest, "wokeVm",
	                 a->woke, "error", shape_text(a->error));
}

static json_t *shape_line(const struct log_line *l)
{
	const char *about = *l->vm ? l->vm : *l->build ? l->build : l->request;
	json_t *o;

	o = json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o}", "timestamp",
	              shape_time(l->place.at_ms), "message",
	              shape_output(l->message, strlen(l->message)), "source", l->source,
	              "resourceType", "vm", "resourceId", shape_text(about), "instanceId",
	              shape_text(l->instance), "level", l->level, "vmService",
	              shape_text(l->service), "buildId", shape_text(l->build), "requestId",
	              shape_text(l->request));
	if (o && l->access) {
		json_object_set_new(o, "domain", json_string(l->access->host));
		json_object_set_new(o, "access", shape_access(l->access));
	}
	return o;
}

/* Those of a run are kept with it, as many as there may be, and all are of the time of its end. */
static int run_logs(struct request *req, struct reply *res, const char *id,
                    const struct log_query *q, struct err *err)
{
	AUTO(store_run_done) struct store_run run = { 0 };
	autojson json_t *out = NULL, *lines = json_array();
	json_t *log;
	size_t i;
	int r = store_run_get(deps_of(req)->store, q->account, id, &run, err);

	if (r < 0 && r != -ENOENT)
		return r;
	out = r == 0 && *run.output ? json_loads(run.output, 0, NULL) : NULL;
	json_array_foreach(json_object_get(out, "logs"), i, log)
	{
		json_t *text = json_object_get(log, "message"),
		       *type = json_object_get(log, "type");
		bool error = !strcmp(json_string_value(type) ?: "", "error");

		if (run.ended_ms < q->from_ms || run.ended_ms > q->to_ms ||
		    (*q->search && !strcasestr(json_string_value(text) ?: "", q->search)))
			continue;
		json_array_append_new(
		        lines,
		        json_pack("{s:o, s:O, s:s, s:s, s:s, s:n, s:s, s:n, s:n, s:n}", "timestamp",
		                  shape_time(run.ended_ms), "message", text, "source",
		                  error ? "stderr" : "stdout", "resourceType", "run", "resourceId",
		                  run.name, "instanceId", "level", error ? "error" : "info",
		                  "vmService", "buildId", "requestId"));
	}
	/* The newest, as of everything else. */
	while (json_array_size(lines) > q->limit)
		json_array_remove(lines, 0);
	return reply_json(res, json_pack("{s:O, s:n}", "logs", lines, "nextPageToken"), err);
}

int api_logs(struct request *req, struct reply *res, struct err *err)
{
	AUTO(logs_args_done) struct logs_args a = { 0 };
	AUTO(log_page_done) struct log_page page = { 0 };
	autojson json_t *lines = json_array();
	char token[LOG_PLACE_TEXT];
	struct guest *guest = NULL;
	struct log_query q;
	int r;

	if ((r = read_args(req, &a, err)) < 0 || (r = read_query(req, &a, &q, err)) < 0)
		return r;
	if (*a.run)
		return run_logs(req, res, a.run, &q, err);
	/* Logs of runs are found by their id only, and there are no deployments. */
	if (a.elsewhere || (*a.type && strcmp(a.type, "vm") != 0))
		return reply_json(res, json_pack("{s:[], s:n}", "logs", "nextPageToken"), err);
	if (*q.service && *q.vm &&
	    vmm_guest_running(deps_of(req)->vmm, who_of(req)->account, q.vm, &guest, NULL) == 0)
		q.guest = guest;
	r = logs_query(deps_of(req)->logs, &q, &page, err);
	guest_unref(guest);
	if (r < 0)
		return r;
	/* The newest page, read from top to bottom. */
	for (size_t i = page.n; i-- > 0;)
		if (json_array_append_new(lines, shape_line(&page.v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(
	        res,
	        json_pack("{s:O, s:o}", "logs", lines, "nextPageToken",
	                  page.more ? json_string(log_place_text(&page.v[page.n - 1].place, token))
	                            : json_null()),
	        err);
}
