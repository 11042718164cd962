/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - what handlers ask of a request: headers, query, body */
#include "http/http_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"

#define TRACE_LEN 16 /* bytes of a trace id */

static const char *lookup(struct request *req, enum value_kind kind, const char *name)
{
	if (req->conn)
		return MHD_lookup_connection_value(
		        req->conn, kind == VALUE_QUERY ? MHD_GET_ARGUMENT_KIND : MHD_HEADER_KIND,
		        name);
	for (size_t i = 0; i < req->n_values; i++)
		if (req->values[i].kind == kind && strcasecmp(req->values[i].name, name) == 0)
			return req->values[i].value;
	return NULL;
}

int request_add_value(struct request *req, enum value_kind kind, const char *name,
                      const char *value, struct err *err)
{
	struct request_value *v = realloc(req->values, (req->n_values + 1) * sizeof(*v));

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	req->values = v;
	v += req->n_values++;
	*v = (struct request_value){ kind, strdup(name), strdup(value) };
	return v->name && v->value ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* ---- from beginning to end ---- */

/* match.text is large: clearing it would cost every request. */
static struct request *allocate(struct http *h, size_t *ret_own_at)
{
	size_t align = _Alignof(max_align_t);
	size_t at = (sizeof(struct request) + align - 1) / align * align;

	*ret_own_at = at;
	return malloc(at + h->app.request_bytes);
}

struct request *request_new(struct http *h)
{
	size_t own_at;
	struct request *req = allocate(h, &own_at);

	if (!req)
		return NULL;
	memset(req, 0, offsetof(struct request, match.text));
	req->own = (char *)req + own_at;
	memset(req->own, 0, h->app.request_bytes);
	req->http = h;
	req->app = h->app.ctx;
	req->body = BODY_EMPTY;
	req->start_us = clock_us();
	req->start_ms = req->start_us / 1000;
	return req;
}

struct request *request_inner(struct request *outer, const struct route *route)
{
	struct request *req = request_new(outer->http);

	if (!req)
		return NULL;
	req->outer = outer;
	memcpy(req->trace, outer->trace, sizeof(req->trace));
	memcpy(req->account, outer->account, sizeof(req->account));
	memcpy(req->holder, outer->holder, sizeof(req->holder));
	body_begin(req, &req->body);
	req->match.route = route;
	req->method_text = method_name(route->method);
	return req;
}

static enum MHD_Result copy_value(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
	enum value_kind k = kind == MHD_GET_ARGUMENT_KIND ? VALUE_QUERY : VALUE_HEADER;

	return request_add_value(ctx, k, name, value ? value : "", NULL) == 0 ? MHD_YES : MHD_NO;
}

static int copy_values(const struct request *from, struct request *to, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->n_values; i++)
		r = request_add_value(to, from->values[i].kind, from->values[i].name,
		                      from->values[i].value, err);
	return r;
}

/* Random, so that no two requests share one; drawn in large batches, because it is not a secret.
 */
void request_trace(char ret[33])
{
	static __thread uint8_t stock[TRACE_LEN * 64];
	static __thread size_t left;

	if (left == 0) {
		random_bytes(stock, sizeof(stock));
		left = sizeof(stock);
	}
	left -= TRACE_LEN;
	hex_encode(stock + left, TRACE_LEN, ret);
}

/* The copy is bounded: it all fitted into the library's memory for a connection. */
int request_detach(struct request *req, struct request **ret, struct err *err)
{
	static const enum MHD_ValueKind kinds[] = { MHD_HEADER_KIND, MHD_GET_ARGUMENT_KIND };
	size_t own_at;
	struct request *to = allocate(req->http, &own_at);
	int n;

	if (!to || !http_count_in(req->http)) {
		free(to);
		return err_tag(err, -ESHUTDOWN, ERR_UNAVAILABLE, "the server is shutting down");
	}
	*to = *req;
	to->own = (char *)to + own_at;
	memcpy(to->own, req->own, req->http->app.request_bytes);
	to->conn = NULL;
	to->timeout = NULL;
	to->visitor = NULL;
	to->values = NULL;
	to->n_values = 0;
	to->counted = true;
	to->shared = false; /* it needs no connection */
	req->parse_held = req->output_held = 0;
	to->body = BODY_EMPTY;
	to->json = NULL;
	to->outer = NULL;
	for (size_t i = 0; i < to->match.n_args && req->conn;
	     i++) /* they point into the text beside them */
		to->match.arg[i] = to->match.text + (req->match.arg[i] - req->match.text);
	to->method_text = method_name(req->match.route->method);
	if (!req->conn) { /* of request_inner(): its arguments point into its JSON, which moves
		             along */
		if ((n = copy_values(req, to, err)) < 0) {
			request_free(to);
			return n;
		}
	}
	for (size_t i = 0; req->conn && i < ARRAY_SIZE(kinds); i++) {
		size_t before = to->n_values;

		n = MHD_get_connection_values(req->conn, kinds[i], copy_value, to);
		if (n < 0 || to->n_values - before != (size_t)n) {
			request_free(to);
			return err_set(err, -ENOMEM, "out of memory");
		}
	}
	to->body = req->body;
	req->body = BODY_EMPTY;
	to->json = TAKE_PTR(req->json);
	*ret = to;
	return 0;
}

struct request *request_free(struct request *req)
{
	if (!req)
		return NULL;
	limits_leave(req);
	if (req->counted)
		http_count_out(req->http);
	if (req->intake)
		req->taker->drop(req->intake);
	body_done(&req->body);
	if (req->upgrade)
		req->upgrade->free(req->upgrade);
	json_decref(req->json);
	for (size_t i = 0; i < req->n_values; i++) {
		free(req->values[i].name);
		free(req->values[i].value);
	}
	free(req->values);
	free(req);
	return NULL;
}

/* ---- the client ---- */

int request_client_fd(struct request *req)
{
	const union MHD_ConnectionInfo *ci =
	        req->conn ? MHD_get_connection_info(req->conn, MHD_CONNECTION_INFO_CONNECTION_FD)
	                  : NULL;

	return ci ? ci->connect_fd : -1;
}

/* ---- headers, path, query ---- */

const char *request_header(struct request *req, const char *name)
{
	return lookup(req, VALUE_HEADER, name);
}

struct each {
	bool (*fn)(void *ctx, const char *name, const char *value);
	void *ctx;
};

static enum MHD_Result one_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
	const struct each *e = ctx;

	return e->fn(e->ctx, name, value ? value : "") ? MHD_YES : MHD_NO;
}

void request_headers(struct request *req,
                     bool (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	struct each e = { fn, ctx };

	if (req->conn) {
		MHD_get_connection_values(req->conn, MHD_HEADER_KIND, one_header, &e);
		return;
	}
	for (size_t i = 0; i < req->n_values; i++)
		if (req->values[i].kind == VALUE_HEADER &&
		    !fn(ctx, req->values[i].name, req->values[i].value))
			return;
}

const char *request_arg(const struct request *req, const char *param)
{
	const struct route *route = req->match.route;
	const char *p = route ? route->pattern : "";
	size_t i = 0;

	for (p = strchr(p, '{'); p; p = strchr(p + 1, '{'), i++)
		if (strncmp(p, param, strlen(param)) == 0)
			return i < req->match.n_args ? req->match.arg[i] : NULL;
	return NULL;
}

int request_page(struct request *req, size_t n, size_t *ret_first, size_t *ret_end,
                 uint32_t *ret_offset, struct err *err)
{
	uint32_t limit = UINT32_MAX, offset = 0;
	int r;

	if ((r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0)
		return r;
	*ret_offset = offset;
	*ret_first = MIN(n, (size_t)offset);
	*ret_end = *ret_first + MIN(n - *ret_first, (size_t)limit);
	return 0;
}

int request_query(struct request *req, const char *name, char **ret, struct err *err)
{
	const char *v = lookup(req, VALUE_QUERY, name);
	autofree char *s = NULL;

	*ret = NULL;
	if (!v)
		return 0;
	s = strdup(v);
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	/* The library has already turned '+' into spaces. */
	if (percent_decode(s, /* plus= */ false) < 0)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS, "'%s' is not properly encoded",
		               name);
	*ret = TAKE_PTR(s);
	return 0;
}

int request_query_u32(struct request *req, const char *name, uint32_t max, uint32_t *ret,
                      struct err *err)
{
	autofree char *s = NULL;
	unsigned long long v;
	char *end;
	int r = request_query(req, name, &s, err);

	if (r < 0 || !s)
		return r;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (!isdigit((unsigned char)s[0]) || *end || errno || v > max)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'%s' must be a whole number from 0 to %u", name, max);
	*ret = (uint32_t)v;
	return 0;
}

int request_query_bool(struct request *req, const char *name, bool *ret, struct err *err)
{
	autofree char *s = NULL;
	int r = request_query(req, name, &s, err);

	if (r < 0 || !s)
		return r;
	if (strcmp(s, "true") != 0 && strcmp(s, "false") != 0)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS, "'%s' must be true or false",
		               name);
	*ret = s[0] == 't';
	return 0;
}

/* ---- body ---- */

int request_text(struct request *req, const char **ret, size_t *ret_n, struct err *err)
{
	size_t max = req->match.route->flags & ROUTE_MANY ? VALUES_MANY : JSON_VALUES_MAX;
	size_t values;
	int r = body_view(&req->body, ret, ret_n, err);

	if (r < 0 || (r = json_text_check(*ret, *ret_n, max, &values, err)) < 0)
		return r;
	return limits_parse(req, *ret_n, values, err);
}

int request_json(struct request *req, enum err_code tag, json_t **ret, struct err *err)
{
	const char *p;
	size_t n;
	int r;

	if (!req->json) {
		r = request_text(req, &p, &n, err);
		if (r == 0) {
			r = json_text_load(p, n, &req->json, err);
			limits_parsed(req, n);
		}
		if (r == -EBADMSG || r == -E2BIG) {
			err->tag = tag;
			err->code = -EINVAL;
			return -EINVAL;
		}
		if (r < 0)
			return r;
		if (!json_is_object(req->json))
			return err_tag(err, -EINVAL, tag, "the body must be a JSON object");
	}
	*ret = req->json;
	return 0;
}

int request_fields(struct request *req, enum err_code tag, const struct json_field *fields,
                   size_t n, void *dst, struct err *err)
{
	json_t *j;
	int r = request_json(req, tag, &j, err);

	if (r < 0)
		return r;
	r = json_fields_read(j, "", fields, n, dst, err);
	if (r == -EINVAL)
		err->tag = tag;
	return r;
}
