/* SPDX-License-Identifier: Apache-2.0 */
/* logs.c - GET /observability/v1/logs: filters in, one page of lines out */
#include "api/call.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "events/logs.h"
#include "guest/guest.h"
#include "serverless/deploy.h"
#include "store/store_deploy.h"
#include "store/store_run.h"

#define TAG ERR_INVALID_QUERY
#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* The query, decoded; "" for absent members. */
struct logs_args {
	char *vm, *instance, *build, *request, *service, *search, *type, *start, *end, *token;
	char *domain, *source;
	char *run, *deployment;
};

static void logs_args_done(struct logs_args *a)
{
	char **all[] = { &a->vm,         &a->instance, &a->build,  &a->request, &a->service,
		         &a->search,     &a->type,     &a->start,  &a->end,     &a->token,
		         &a->deployment, &a->domain,   &a->source, &a->run };

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
		    { "runId", &a->run },         { "deploymentId", &a->deployment } };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if ((r = request_query(req, all[i].name, all[i].ret, err)) < 0) {
			err->tag = r == -EINVAL ? TAG : err->tag;
			return r;
		}
		if (!*all[i].ret && !(*all[i].ret = strdup("")))
			return err_set(err, -ENOMEM, "out of memory");
	}
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

static int64_t time_of(const json_t *line)
{
	return json_integer_value(json_object_get(line, "at"));
}

/* Into a list that is sorted by time, oldest first. */
static void add_sorted(json_t *list, const struct log_page *page, const char *deployment)
{
	for (size_t i = page->n; i-- > 0;) {
		const struct log_line *l = &page->v[i];
		size_t at = json_array_size(list);
		json_t *o = shape_line(l);

		json_object_set_new(o, "at", json_integer(l->place.at_ms));
		json_object_set_new(o, "resourceType", json_string("deployment"));
		json_object_set_new(o, "resourceId", json_string(deployment));
		json_object_set_new(o, "instanceId", l->access ? json_null() : shape_text(l->vm));
		json_object_set_new(o, "requestId", json_null());
		while (at && time_of(json_array_get(list, at - 1)) > l->place.at_ms)
			at--;
		json_array_insert_new(list, at, o);
	}
}

/* What its running instances have printed so far, as far as it is not kept yet. */
static int add_instances(struct request *req, json_t *list, const char *id,
                         const struct log_query *all, struct err *err)
{
	autofree struct deploy_instance *v = NULL;
	size_t n = 0;
	int r = 0;

	if (!deps_of(req)->serverless ||
	    (r = deploy_instances(deps_of(req)->serverless, id, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		AUTO(log_page_done) struct log_page page = { 0 };
		struct log_query q = *all;
		struct guest *guest = NULL;

		if (!v[i].ready || (*all->instance && strcmp(all->instance, v[i].vm) != 0) ||
		    vmm_guest_running(deps_of(req)->vmm, q.account, v[i].vm, &guest, NULL) < 0)
			continue;
		q.vm = v[i].vm;
		q.service = DEPLOY_SERVICE;
		q.from_ms = MAX(q.from_ms, v[i].since_ms);
		q.instance = "";
		q.guest = guest;
		r = logs_query(deps_of(req)->logs, &q, &page, err);
		guest_unref(guest);
		add_sorted(list, &page, id);
	}
	return r;
}

/* What its instances printed, and the requests for its names. */
static int deployment_logs(struct request *req, struct reply *res, const char *id,
                           const struct log_query *all, struct err *err)
{
	AUTO(store_deploy_done) struct store_deploy row = { 0 };
	autojson json_t *list = json_array();
	autofree char(*names)[DOMAIN_SIZE] = NULL;
	struct log_query q = *all;
	json_t *line;
	size_t n = 0, i;
	int r;

	r = store_deploy_get(deps_of(req)->store, q.account, id, &row, err);
	if (r == -ENOENT)
		return reply_json(res, json_pack("{s:[], s:n}", "logs", "nextPageToken"), err);
	if (r < 0 || (r = store_deploy_domains(deps_of(req)->store, id, &names, &n, err)) < 0)
		return r;
	q.vm = *q.instance ? q.instance : "";
	q.instance = "";
	q.request = id; /* under which deploy_logs.c keeps them */
	{
		AUTO(log_page_done) struct log_page page = { 0 };

		if ((r = logs_query(deps_of(req)->logs, &q, &page, err)) < 0)
			return r;
		add_sorted(list, &page, id);
	}
	if ((r = add_instances(req, list, id, all, err)) < 0)
		return r;
	q.request = "";
	for (i = 0; i < n && !*all->instance; i++) {
		AUTO(log_page_done) struct log_page page = { 0 };

		q.domain = names[i];
		q.access = true;
		if ((r = logs_query(deps_of(req)->logs, &q, &page, err)) < 0)
			return r;
		add_sorted(list, &page, id);
	}
	while (json_array_size(list) > all->limit)
		json_array_remove(list, 0);
	json_array_foreach(list, i, line) json_object_del(line, "at");
	return reply_json(res, json_pack("{s:O, s:n}", "logs", list, "nextPageToken"), err);
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
	if (*a.deployment)
		return deployment_logs(req, res, a.deployment, &q, err);
	/* Logs of runs and deployments are found by their ids only. */
	if (*a.type && strcmp(a.type, "vm") != 0)
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
