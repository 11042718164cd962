/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - every reply goes out here, and every failure is logged here, once
 *
 * An error is {code, error, message, description} and what the route adds (vmId, path, ...). The
 * message in the log is the one sent to the client, with the same trace id.
 */
#include "http/http_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

#define DUMP_SMALL 4096u   /* bytes of most replies, and more */
#define DUMP_ONCE MIB(1)   /* a reply up to this size is made without measuring it first */
#define REPLY_FREE KIB(64) /* a reply of this size is not worth counting */

int reply_json(struct reply *res, json_t *json_consume, struct err *err)
{
	if (!json_consume)
		return err_set(err, -ENOMEM, "out of memory");
	json_decref(res->json);
	res->json = json_consume;
	return 0;
}

int reply_bytes(struct reply *res, const char *type, void *p_consume, size_t n, struct err *err)
{
	res->stream = MHD_create_response_from_buffer(n, p_consume, MHD_RESPMEM_MUST_FREE);
	if (!res->stream) {
		free(p_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (type)
		MHD_add_response_header(res->stream, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	res->stream_len = n;
	return 0;
}

int reply_static(struct reply *res, const char *type, const void *p, size_t n, struct err *err)
{
	/* The library only reads it, but says "void *". */
	res->stream =
	        MHD_create_response_from_buffer(n, (void *)(uintptr_t)p, MHD_RESPMEM_PERSISTENT);
	if (!res->stream)
		return err_set(err, -ENOMEM, "out of memory");
	MHD_add_response_header(res->stream, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	res->stream_len = n;
	return 0;
}

int reply_file(struct reply *res, const char *type, int fd_consume, uint64_t len, struct err *err)
{
	res->stream = MHD_create_response_from_fd64(len, fd_consume); /* takes the descriptor */
	if (!res->stream) {
		close(fd_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	MHD_add_response_header(res->stream, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	res->stream_len = len;
	return 0;
}

void reply_header(struct reply *res, const char *name, const char *value)
{
	assert(res->n_headers < REPLY_HEADERS_MAX && strlen(value) < REPLY_HEADER_SIZE);
	res->headers[res->n_headers].name = name;
	snprintf(res->headers[res->n_headers++].value, REPLY_HEADER_SIZE, "%s", value);
}

int reply_field(struct reply *res, const char *name, const char *value)
{
	return MHD_add_response_header(res->stream, name, value) == MHD_YES ? 0 : -EINVAL;
}

void reply_warn(struct request *req, struct reply *res, const char *text)
{
	char value[REPLY_HEADER_SIZE];
	uint64_t missed;

	snprintf(value, sizeof(value), "%s", text);
	for (char *p = value; *p; p++) /* names of members can be anything */
		if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
			*p = '?';
	reply_header(res, WARNING_HEADER, value);
	if (limits_log(req, /* ours= */ false, &missed))
		log_obj(LOG_LV_INFO, "request", req->trace, "%s %s: %s", req->method_text,
		        req->path, value);
}

void reply_extra(struct reply *res, const char *name, json_t *value_consume)
{
	if (!res->extra)
		res->extra = json_object();
	json_object_set_new(res->extra, name, value_consume); /* a missing extra is not a failure */
}

void reply_extras(struct reply *res, json_t *extra)
{
	const char *name;
	json_t *value;

	json_object_foreach(extra, name, value)
	{
		reply_extra(res, name, json_incref(value));
	}
}

void reply_done(struct reply *res)
{
	json_decref(res->json);
	json_decref(res->extra);
	if (res->stream)
		MHD_destroy_response(res->stream);
	*res = (struct reply){ 0 };
}

static const struct {
	int code;
	enum err_code name;
} by_errno[] = {
	{ -EINVAL, ERR_BAD_REQUEST },
	{ -E2BIG, ERR_BAD_REQUEST },
	{ -ENAMETOOLONG, ERR_BAD_REQUEST },
	{ -ERANGE, ERR_BAD_REQUEST },
	{ -ENOTSUP, ERR_BAD_REQUEST },
	{ -ENOENT, ERR_NOT_FOUND },
	{ -EACCES, ERR_FORBIDDEN },
	{ -EPERM, ERR_FORBIDDEN },
	{ -EEXIST, ERR_CONFLICT },
	{ -EBUSY, ERR_CONFLICT },
	{ -EAGAIN, ERR_UNAVAILABLE },
	{ -ENOMEM, ERR_UNAVAILABLE },
	{ -ENOBUFS, ERR_UNAVAILABLE },
	{ -ETIMEDOUT, ERR_UNAVAILABLE },
	{ -ESHUTDOWN, ERR_UNAVAILABLE },
	{ -ENOSPC, ERR_NO_LOCAL_STORAGE_CAPACITY },
	{ -EDQUOT, ERR_NO_LOCAL_STORAGE_CAPACITY },
	{ -ECONNRESET, ERR_VM_NOT_RUNNING },
	{ -ENOTCONN, ERR_VM_NOT_RUNNING },
};

enum err_code code_of(const struct err *err)
{
	if (err_code_status(err->tag))
		return err->tag;
	for (size_t i = 0; i < ARRAY_SIZE(by_errno); i++)
		if (by_errno[i].code == err->code)
			return by_errno[i].name;
	return ERR_INTERNAL_ERROR;
}

static json_t *error_body(struct request *req, struct reply *res, enum err_code code,
                          const struct err *err)
{
	/* The message may quote bytes of a guest or a client. */
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
	req->http->app.describe(req, code, body);
	return body;
}

static void log_failure(struct request *req, unsigned status, enum err_code code,
                        const struct err *err)
{
	uint64_t missed;

	if (!limits_log(req, status >= 500, &missed))
		return;
	log_obj(status >= 500 ? LOG_LV_WARN : LOG_LV_INFO, "request", req->trace,
	        "%s %s: %u %s after %llu ms: %s", req->method_text, req->path, status,
	        err_code_name(code), (unsigned long long)(clock_ms() - req->start_ms), err->msg);
	if (missed)
		log_obj(LOG_LV_WARN, *req->account ? "account" : "address", req->holder,
		        "%llu further failed requests were not logged", (unsigned long long)missed);
}

/* "LIMIT_EXCEEDED" is 403, but 429 where waiting helps. */
static unsigned status_of(const struct err *err, enum err_code code)
{
	return code == ERR_LIMIT_EXCEEDED && err_fact_get(err, ERR_FACT_RETRY) >= 0
	               ? MHD_HTTP_TOO_MANY_REQUESTS
	               : err_code_status(code);
}

static void add_retry(struct MHD_Response *m, const struct err *err)
{
	long long s = err_fact_get(err, ERR_FACT_RETRY);
	char text[24];

	if (s < 0)
		return;
	snprintf(text, sizeof(text), "%lld", s);
	MHD_add_response_header(m, MHD_HTTP_HEADER_RETRY_AFTER, text);
}

static bool has_header(const struct reply *res, const char *name)
{
	for (size_t i = 0; i < res->n_headers; i++)
		if (strcmp(res->headers[i].name, name) == 0)
			return true;
	return false;
}

static void add_headers(struct request *req, const struct reply *res, struct MHD_Response *m)
{
	char allow[64] = "";
	size_t n = 0;

	MHD_add_response_header(m, "X-Freestyle-Trace-Id", req->trace);
	if (!has_header(res, "Cache-Control"))
		MHD_add_response_header(m, "Cache-Control", "no-store");
	MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
	for (int i = 0; res->allow && i < METHOD_MAX; i++)
		if (res->allow & BIT(i))
			n += (size_t)snprintf(allow + n, sizeof(allow) - n, "%s%s", n ? ", " : "",
			                      method_name((enum method)i));
	if (n)
		MHD_add_response_header(m, MHD_HTTP_HEADER_ALLOW, allow);
	for (size_t i = 0; i < res->n_headers; i++)
		MHD_add_response_header(m, res->headers[i].name, res->headers[i].value);
	if (res->close || *req->origin)
		MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, "close");
	if (req->challenge)
		MHD_add_response_header(m, MHD_HTTP_HEADER_WWW_AUTHENTICATE, req->challenge);
	cors_headers(req, m);
}

/* Text of a reply while it is made: grows up to DUMP_ONCE, then it is only counted. */
struct dump {
	struct request *req;
	struct err *err; /* NULL: not counted as output */
	char *p;         /* owned */
	size_t cap, n;
	bool over;
	int r; /* why it was broken off */
};

/* A large reply is output on its way, unless its handler has counted it already. */
static int dump_hold(struct dump *d, size_t n)
{
	if (!d->err || n <= REPLY_FREE || n <= d->req->output_held)
		return 0;
	return request_hold_output(d->req, n - d->req->output_held, d->err);
}

static int dump_add(const char *text, size_t n, void *ctx)
{
	struct dump *d = ctx;

	if (!d->over && d->n + n > d->cap) {
		size_t cap = MAX(d->cap ? d->cap * 2 : DUMP_SMALL, d->n + n);
		char *p;

		if (cap <= DUMP_ONCE && (d->r = dump_hold(d, cap)) < 0)
			return -1;
		p = cap <= DUMP_ONCE ? realloc(d->p, cap) : NULL;
		d->over = !p;
		d->p = p ? p : d->p;
		d->cap = p ? cap : d->cap;
	}
	if (!d->over)
		memcpy(d->p + d->n, text, n);
	d->n += n;
	return 0;
}

/*
 * Most replies are made in one pass. One over DUMP_ONCE is measured first and then made in memory
 * of just its size, because growing a large one by doubling takes three times as much. err NULL: it
 * goes out in any case. 0: *ret is NULL when there was no memory.
 */
static int dump(struct request *req, json_t *json, char **ret, size_t *ret_n, struct err *err)
{
	const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
	struct dump d = { .req = req, .err = err };
	bool made = json && json_dump_callback(json, dump_add, &d, flags) == 0;
	autofree char *p = d.p;
	int r;

	*ret = NULL;
	if (!made)
		return d.r;
	if ((r = dump_hold(&d, d.n)) < 0)
		return r;
	if (d.over) {
		free(p);
		p = malloc(d.n);
		if (p)
			json_dumpb(json, p, d.n, flags);
	}
	*ret = TAKE_PTR(p);
	*ret_n = d.n;
	return 0;
}

static struct MHD_Response *response_of(char *text_consume, size_t n)
{
	struct MHD_Response *m;

	if (!text_consume)
		return NULL;
	m = MHD_create_response_from_buffer(n, text_consume, MHD_RESPMEM_MUST_FREE);
	if (!m) {
		free(text_consume);
		return NULL;
	}
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
	*ret_status = res->status >= 400 ? res->status : status_of(err, code);
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
	struct err full = { 0 };
	const char *code = NULL;
	enum MHD_Result ok;
	uint64_t len = res->stream_len;
	char *text = NULL;
	size_t n = 0;

	if (r >= 0 && res->json && !res->stream && (r = dump(req, res->json, &text, &n, &full)) < 0)
		err = &full; /* it would be too much for the server's memory now */
	if (r >= 0 && res->stream) {
		m = TAKE_PTR(res->stream);
	} else if (r >= 0 && res->json) {
		m = response_of(text, n);
		len = n;
	} else if (r < 0) {
		autojson json_t *body = reply_render(req, res, r, err, &status);

		dump(req, body, &text, &n, NULL);
		m = response_of(text, n);
		len = n;
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
	if (r < 0)
		add_retry(m, err);
	if (status >= 400) /* also of a stored result: api/background.c */
		code = r < 0 ? err_code_name(code_of(err))
		             : json_string_value(json_object_get(res->json, "code"));
	req->http->app.replied(req, res, status, code);
	timeout_set(req->timeout, timeout_for(len));
	ok = queue_reply(req->conn, status, m);
	MHD_destroy_response(m);
	return ok;
}
