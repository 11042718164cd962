/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - every reply goes out here, and every failure is logged here, once
 *
 * Errors are {code, error, message, description} and what the route adds (vmId, path,
 * ...). The sentence that the client reads is the sentence in the log, beside the
 * trace id that both have.
 */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

int reply_json(struct reply *res, json_t *json_consume, struct err *err)
{
	if (!json_consume)
		return err_set(err, -ENOMEM, "out of memory");
	json_decref(res->json);
	res->json = json_consume;
	return 0;
}

void reply_extra(struct reply *res, const char *name, json_t *value_consume)
{
	if (!res->extra)
		res->extra = json_object();
	json_object_set_new(res->extra, name, value_consume); /* a missing extra is no failure */
}

void reply_done(struct reply *res)
{
	json_decref(res->json);
	json_decref(res->extra);
	if (res->stream)
		MHD_destroy_response(res->stream);
	*res = (struct reply){ 0 };
}

/* The ids in the path say what the error is about. */
static void add_path_ids(struct request *req, json_t *body)
{
	static const struct {
		const char *param, *member;
	} names[] = { { "{vm_id}", "vmId" },
		      { "{snapshot_id}", "snapshotId" },
		      { "{build_id}", "buildId" },
		      { "{request_id}", "requestId" },
		      { "{repo}", "repoId" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *arg = request_arg(req, names[i].param);

		if (arg && !json_object_get(body, names[i].member))
			json_object_set_new(body, names[i].member, shape_output(arg, strlen(arg)));
	}
}

static json_t *error_body(struct request *req, struct reply *res, enum err_code code,
                          const struct err *err)
{
	/* The sentence may quote bytes of a guest or a client. */
	json_t *text = shape_output(err->msg, strlen(err->msg));
	const char *name = err_code_name(code);
	json_t *body = json_pack("{s:s, s:s, s:O, s:O}", "code", name, "error", name, "message",
	                         text, "description", text);

	json_decref(text);
	if (!body)
		return NULL;
	for (unsigned i = 0; i < err->n_facts; i++)
		json_object_set_new(body, err->facts[i].name, json_integer(err->facts[i].value));
	if (res->extra)
		json_object_update(body, res->extra);
	add_path_ids(req, body);
	if (code == ERR_UNAUTHORIZED_ERROR)
		json_object_set_new(body, "route", shape_output(req->path, strlen(req->path)));
	return body;
}

static void log_failure(struct request *req, unsigned status, enum err_code code,
                        const struct err *err)
{
	log_obj(status >= 500 ? LOG_LV_WARN : LOG_LV_INFO, "request", req->trace,
	        "%s %s: %u %s after %llu ms: %s", req->method_text, req->path, status,
	        err_code_name(code), (unsigned long long)(clock_ms() - req->start_ms), err->msg);
}

static void add_headers(struct request *req, const struct reply *res, struct MHD_Response *m)
{
	char allow[64] = "";
	size_t n = 0;

	MHD_add_response_header(m, "X-Freestyle-Trace-Id", req->trace);
	MHD_add_response_header(m, "Cache-Control", "no-store");
	MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
	for (int i = 0; res->allow && i < METHOD_MAX; i++)
		if (res->allow & BIT(i))
			n += (size_t)snprintf(allow + n, sizeof(allow) - n, "%s%s", n ? ", " : "",
			                      method_name((enum method)i));
	if (n)
		MHD_add_response_header(m, MHD_HTTP_HEADER_ALLOW, allow);
	if (res->content_range[0])
		MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_RANGE, res->content_range);
	if (*res->background)
		MHD_add_response_header(m, "x-freestyle-background-request-id", res->background);
	if (res->close)
		MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, "close");
	if (req->quiet)
		MHD_add_response_header(m, MHD_HTTP_HEADER_RETRY_AFTER, "60");
	if (req->challenge)
		MHD_add_response_header(m, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
		                        "Basic realm=\"Pando Git\"");
	cors_headers(req, m);
}

static struct MHD_Response *response_of(json_t *json, uint64_t *ret_len)
{
	struct MHD_Response *m;
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	if (!text)
		return NULL;
	m = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	if (!m) {
		free(text);
		return NULL;
	}
	*ret_len = strlen(text);
	MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
	return m;
}

json_t *reply_render(struct request *req, struct reply *res, int r, const struct err *err,
                     unsigned *ret_status)
{
	enum err_code code;

	if (r >= 0) {
		*ret_status = res->status ? res->status : MHD_HTTP_OK;
		return json_incref(res->json);
	}
	code = code_of(err);
	*ret_status = res->status ? res->status : err_code_status(code);
	if (!req->quiet)
		log_failure(req, *ret_status, code, err);
	return error_body(req, res, code, err);
}

enum MHD_Result reply_send(struct request *req, struct reply *res, int r, const struct err *err)
{
	static char out_of_memory[] = "{\"code\":\"UNAVAILABLE\",\"error\":\"UNAVAILABLE\","
	                              "\"message\":\"out of memory\"}";
	unsigned status = res->status ? res->status : MHD_HTTP_OK;
	struct MHD_Response *m = NULL;
	const char *code = NULL;
	enum MHD_Result ok;
	uint64_t len = res->stream_len;

	if (r >= 0 && res->stream) {
		m = TAKE_PTR(res->stream);
	} else if (r < 0 || res->json) {
		autojson json_t *body = reply_render(req, res, r, err, &status);

		m = response_of(body, &len);
	} else if (req->preflight) {
		m = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	}
	if (!m) {
		status = MHD_HTTP_SERVICE_UNAVAILABLE;
		m = MHD_create_response_from_buffer(strlen(out_of_memory), out_of_memory,
		                                    MHD_RESPMEM_PERSISTENT);
		if (!m)
			return MHD_NO;
	}
	add_headers(req, res, m);
	if (status >= 400) /* also of a result that was there already: background.c */
		code = r < 0 ? err_code_name(code_of(err))
		             : json_string_value(json_object_get(res->json, "code"));
	trail_leave(req, res, status, code);
	watch_deadline(req->api->watch, req->watched, watch_move(len));
	ok = queue_reply(req->conn, status, m);
	MHD_destroy_response(m);
	return ok;
}
