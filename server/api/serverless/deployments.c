/* SPDX-License-Identifier: Apache-2.0 */
/* deployments.c - deployments: make, list, show, delete one; requests to its server */
#include "api/serverless/shared.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "domains/domains.h"
#include "events/events.h"
#include "h1/h1.h"
#include "serverless/deploy.h"

#define TAG ERR_INVALID_DEPLOYMENT_REQUEST
#define CALL_MS 280000 /* clients wait 300 s */

struct create_body {
	json_t *source, *config;
};
static const struct json_field create_fields[] = {
	JSON_FIELD(JSON_WANT_OBJECT, create_body, source, "source", JSON_REQUIRED, 0, 0,
	           "DeploymentSource"),
	JSON_FIELD(JSON_WANT_OBJECT, create_body, config, "config", JSON_NULLABLE, 0, 0,
	           "DeploymentConfig"),
};
JSON_TABLE(DeploymentNew, create_fields);

static bool client_gone(void *ctx)
{
	struct pollfd p = { .fd = *(int *)ctx, .events = POLLRDHUP };

	return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static int may_map(void *ctx, const char *account, const char *domain, struct err *err)
{
	return ctx ? domains_may_map(ctx, account, domain, err)
	           : err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	                     "domains are not available on this server");
}

static int map(void *ctx, const char *account, const char *domain, const char *deployment,
               struct err *err)
{
	struct store_mapping m;

	return domains_map_deployment(ctx, account, domain, deployment, &m, err);
}

static json_t *domains_of(struct request *req, const char *id)
{
	char(*names)[DOMAIN_SIZE] = NULL;
	json_t *list = json_array();
	size_t n = 0;

	if (store_deploy_domains(deps_of(req)->store, id, &names, &n, NULL) == 0)
		for (size_t i = 0; i < n; i++)
			json_array_append_new(list, json_string(names[i]));
	free(names);
	return list;
}

static json_t *config_of(const struct store_deploy *d)
{
	json_t *j = d->config && *d->config ? json_loads(d->config, 0, NULL) : NULL;

	return j ? j : json_object();
}

static json_t *entrypoint_of(const struct store_deploy *d)
{
	autojson json_t *config = config_of(d);
	const char *s = json_string_value(json_object_get(config, "entrypoint"));

	return s ? json_string(s) : json_null();
}

int api_deployment_create(struct request *req, struct reply *res, struct err *err)
{
	struct create_body b = { 0 };
	struct store_deploy row = { 0 };
	struct deploy_new made = { 0 };
	int client = request_client_fd(req);
	struct deploy_req q = { .account = who_of(req)->account,
		                .request_id = events_request(),
		                .may_map = may_map,
		                .map = map,
		                .ctx = deps_of(req)->domains,
		                .gone = client_gone,
		                .gone_ctx = &client };
	struct serverless *s;
	json_t *o;
	int r;

	if ((r = serverless_of(req, &s, err)) < 0 ||
	    (r = request_fields(req, TAG, create_fields, ARRAY_SIZE(create_fields), &b, err)) < 0)
		return r;
	q.source = b.source;
	q.config = b.config;
	r = deploy_create(s, &q, &made, err);
	if (made.extra) {
		reply_extras(res, made.extra);
		json_decref(made.extra);
	}
	if (r < 0)
		return r;
	if ((r = store_deploy_get(deps_of(req)->store, who_of(req)->account, made.id, &row, err)) <
	    0)
		return r;
	o = json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:o}", "deploymentId", made.id, "projectId",
	              made.id, "state", deploy_state_words[row.state], "domains",
	              domains_of(req, made.id), "entrypoint", entrypoint_of(&row), "accountId",
	              row.account, "buildId", shape_text(row.build));
	store_deploy_done(&row);
	return reply_json(res, o, err);
}

/* Values of variables are secrets: only their names are shown. */
static json_t *masked_env(const struct store_deploy *d)
{
	autojson json_t *config = config_of(d);
	json_t *env = json_object(), *v;
	const char *key;

	json_object_foreach(json_object_get(config, "env"), key, v)
	        json_object_set_new(env, key, json_string("********"));
	return env;
}

static json_t *shape_deployment(struct request *req, const struct store_deploy *d, bool list)
{
	char ms[24];

	snprintf(ms, sizeof(ms), "%u", d->idle_ms);
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "deploymentId",
	                 d->id, "accountId", d->account, "name", shape_text(d->name),
	                 "provisionedAt", shape_time(d->created_ms), "timeout",
	                 list ? json_string(ms) : json_integer(d->idle_ms), "state",
	                 deploy_state_words[d->state], "deployedAt", shape_time(d->deployed_ms),
	                 "domains", domains_of(req, d->id), "envVars", masked_env(d), "buildId",
	                 shape_text(d->build), "failedReason", shape_text(d->why));
}

int api_deployment_list(struct request *req, struct reply *res, struct err *err)
{
	struct store_deploy *v = NULL;
	autofree char *search = NULL;
	autojson json_t *list = json_array();
	size_t n = 0, first = 0, end = 0;
	uint32_t offset = 0;
	int r;

	if (!list)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = request_query(req, "search", &search, err)) < 0 ||
	    (r = store_deploy_list(deps_of(req)->store, who_of(req)->account, search ? search : "",
	                           &v, &n, err)) < 0)
		return r;
	r = request_page(req, n, &first, &end, &offset, err);
	for (size_t i = first; r >= 0 && i < end; i++)
		json_array_append_new(list, shape_deployment(req, &v[i], true));
	store_deploys_free(v, n);
	return r < 0 ? r
	             : reply_json(res,
	                          json_pack("{s:O, s:I, s:I}", "entries", list, "total",
	                                    (json_int_t)n, "offset", (json_int_t)end),
	                          err);
}

static json_t *shape_instances(struct serverless *s, const char *id)
{
	autofree struct deploy_instance *v = NULL;
	json_t *list = json_array();
	size_t n = 0;

	if (deploy_instances(s, id, &v, &n, NULL) < 0)
		return list;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(
		        list, json_pack("{s:o, s:s, s:i, s:o}", "vmId", shape_text(v[i].vm),
		                        "state", v[i].ready ? "ready" : "starting", "requests",
		                        (int)v[i].requests, "since", shape_time(v[i].since_ms)));
	return list;
}

static void add_event(json_t *list, const char *type, int64_t at_ms, const char *message)
{
	json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "type", type, "timestamp",
	                                      shape_time(at_ms), "message", message));
}

int api_deployment_get(struct request *req, struct reply *res, struct err *err)
{
	AUTO(store_deploy_done) struct store_deploy d = { 0 };
	json_t *info, *events;
	struct serverless *s;
	int r;

	if ((r = serverless_of(req, &s, err)) < 0 ||
	    (r = store_deploy_get(deps_of(req)->store, who_of(req)->account,
	                          request_arg(req, "{deployment_id}"), &d, err)) < 0)
		return r;
	info = shape_deployment(req, &d, false);
	json_object_set_new(info, "snapshotId", shape_text(d.snapshot));
	json_object_set_new(info, "port", json_integer(d.port));
	json_object_set_new(info, "maxInstances", json_integer(d.instances));
	json_object_set_new(info, "requestsPerInstance", json_integer(d.requests));
	json_object_set_new(info, "entrypoint", entrypoint_of(&d));
	json_object_set_new(info, "instances", shape_instances(s, d.id));
	events = json_array();
	add_event(events, "provisioned", d.created_ms, "the deployment was asked for");
	if (d.state == DEPLOY_DEPLOYED)
		add_event(events, "deployed", d.deployed_ms, "its server answered and was frozen");
	else if (d.state == DEPLOY_FAILED)
		add_event(events, "failed", d.created_ms, d.why);
	return reply_json(res, json_pack("{s:o, s:o}", "info", info, "events", events), err);
}

int api_deployment_delete(struct request *req, struct reply *res, struct err *err)
{
	const char *id = request_arg(req, "{deployment_id}");
	struct serverless *s;
	int r;

	if ((r = serverless_of(req, &s, err)) < 0 ||
	    (r = deploy_delete(s, who_of(req)->account, id, err)) < 0)
		return r;
	if (deps_of(req)->domains)
		domains_reload(deps_of(req)->domains, NULL);
	return reply_json(res, json_pack("{s:s}", "deploymentId", id), err);
}

/* ---- requests ---- */

/* Not for the program: who asked, and what belongs to the connection. */
static bool passed_on(const char *name)
{
	static const struct h1_text kept[] = { H1_TEXT("Host"),           H1_TEXT("Content-Length"),
		                               H1_TEXT("Authorization"),  H1_TEXT("Cookie"),
		                               H1_TEXT("Expect"),         H1_TEXT("Upgrade"),
		                               H1_TEXT("Accept-Encoding") };
	struct h1_text t = { name, strlen(name) };

	return !h1_among(t, kept, ARRAY_SIZE(kept)) && !h1_hop_name(t) && h1_token(t.p, t.n) &&
	       strncasecmp(name, "X-Freestyle-", 12) != 0 &&
	       strncasecmp(name, "X-Pando-", 8) != 0 && strncasecmp(name, "X-Forwarded-", 12) != 0;
}

static bool add_header(void *ctx, const char *name, const char *value)
{
	if (passed_on(name) && h1_value(value, strlen(value)))
		buf_printf(ctx, "%s: %s\r\n", name, value);
	return true;
}

/* Path and query of "X-Freestyle-Request-Url". */
static int read_target(struct request *req, char **ret, struct err *err)
{
	const char *url = request_header(req, "X-Freestyle-Request-Url");
	const char *scheme = url ? strstr(url, "://") : NULL;
	autofree char *target = NULL;

	if (!url || !*url)
		url = "/";
	else if (scheme && strcspn(url, "/?#") > (size_t)(scheme - url))
		url = scheme + 3 + strcspn(scheme + 3, "/?#");
	if (asprintf(&target, "%s%.*s", *url == '/' ? "" : "/", (int)strcspn(url, "#"), url) < 0) {
		target = NULL;
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (!h1_target(target, strlen(target)))
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "X-Freestyle-Request-Url must be a path or a URL, percent-encoded");
	*ret = TAKE_PTR(target);
	return 0;
}

/*
 * The response comes from a program that is not trusted, and on the API's own origin: a browser
 * must neither run it as a page of this server nor take cookies from it.
 */
static void add_fields(struct reply *res, const json_t *fields)
{
	json_t *f;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)fields, i, f)
	{
		const char *name = json_string_value(json_array_get(f, 0)),
		           *value = json_string_value(json_array_get(f, 1));

		if (name && value && strcasecmp(name, "Set-Cookie") != 0 &&
		    strcasecmp(name, "Content-Security-Policy") != 0 &&
		    strcasecmp(name, "Service-Worker-Allowed") != 0 &&
		    strncasecmp(name, "Access-Control-", 15) != 0 &&
		    strcasecmp(name, "Date") != 0 && strcasecmp(name, "Clear-Site-Data") != 0)
			(void)reply_field(res, name, value); /* one that is none is left out */
	}
	reply_header(res, "Content-Security-Policy", "sandbox");
}

int api_deployment_fetch(struct request *req, struct reply *res, struct err *err)
{
	AUTO(deploy_answer_done) struct deploy_answer a = { 0 };
	AUTO(store_deploy_done) struct store_deploy d = { 0 };
	const char *id = request_arg(req, "{deployment_id}"), *body = NULL;
	autobuf struct buf fields = { 0 };
	autofree char *target = NULL;
	struct deploy_call c = { .method = req->method_text, .timeout_ms = CALL_MS };
	struct serverless *s;
	size_t n = 0;
	int r;

	if ((r = serverless_of(req, &s, err)) < 0 ||
	    (r = store_deploy_get(deps_of(req)->store, who_of(req)->account, id, &d, err)) < 0 ||
	    (r = read_target(req, &target, err)) < 0 ||
	    (r = body_view(&req->body, &body, &n, err)) < 0)
		return r;
	request_headers(req, add_header, &fields);
	buf_put_u8(&fields, 0);
	if (fields.failed)
		return err_set(err, -ENOMEM, "out of memory");
	c.target = target;
	c.fields = (const char *)fields.p;
	c.body = n ? body : NULL;
	c.body_len = n;
	if ((r = deploy_call(s, id, &c, &a, err)) < 0)
		return r;
	r = reply_bytes(res, NULL, a.body, a.len, err);
	a.body = NULL;
	if (r < 0)
		return r;
	res->status = a.status;
	add_fields(res, a.fields);
	return 0;
}
