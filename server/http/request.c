/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - what handlers ask of a request: headers, query, body, ids */
#include "api/call.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"

#define VM_ID_MAX 20

static const char *lookup(struct request *req, enum MHD_ValueKind kind, const char *name)
{
	if (req->conn)
		return MHD_lookup_connection_value(req->conn, kind, name);
	for (size_t i = 0; i < req->n_values; i++)
		if (req->values[i].kind == kind && strcasecmp(req->values[i].name, name) == 0)
			return req->values[i].value;
	return NULL;
}

static enum MHD_Result copy_value(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
	struct request *to = ctx;
	struct request_value *v = realloc(to->values, (to->n_values + 1) * sizeof(*v));

	if (!v)
		return MHD_NO;
	to->values = v;
	v += to->n_values++;
	*v = (struct request_value){ kind, strdup(name), strdup(value ? value : "") };
	return v->name && v->value ? MHD_YES : MHD_NO;
}

/* What is copied is bounded: it all fitted into the library's memory for a connection. */
int request_detach(struct request *req, struct request **ret, struct err *err)
{
	static const enum MHD_ValueKind kinds[] = { MHD_HEADER_KIND, MHD_GET_ARGUMENT_KIND };
	struct request *to = malloc(sizeof(*to));
	int n;

	if (!to || !api_count_in(req->api)) {
		free(to);
		return err_tag(err, -ESHUTDOWN, ERR_UNAVAILABLE, "the server is shutting down");
	}
	*to = *req;
	to->conn = NULL;
	to->watched = NULL;
	to->values = NULL;
	to->n_values = 0;
	to->counted = true;
	to->shared = false; /* it needs no connection */
	to->body = BODY_EMPTY;
	to->json = NULL;
	for (size_t i = 0; i < to->match.n_args; i++) /* they point into the text beside them */
		to->match.arg[i] = to->match.text + (req->match.arg[i] - req->match.text);
	to->method_text = method_name(req->match.route->method);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
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

struct request *request_new(void)
{
	struct request *req = malloc(sizeof(*req));

	if (req)
		memset(req, 0, offsetof(struct request, match.text));
	return req;
}

struct request *request_free(struct request *req)
{
	if (!req)
		return NULL;
	if (req->shared)
		share_out(req->api->share, req->who.account);
	if (req->counted)
		api_count_out(req->api);
	if (req->intake)
		req->match.route->intake->drop(req->intake);
	body_done(req->api, &req->body);
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

const char *request_header(struct request *req, const char *name)
{
	return lookup(req, MHD_HEADER_KIND, name);
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

const char *request_target(const struct request *req)
{
	unsigned git = SCOPE_GIT_READ | SCOPE_GIT_WRITE | SCOPE_GIT_WIRE;

	return *req->repo_id && (req->match.route->scope & git) ? req->repo_id
	                                                        : request_arg(req, "{vm_id}");
}

void request_lease(struct request *req, struct auth_lease *ret)
{
	auth_lease_take(req->api->deps.auth, &req->who,
	                req->scope ? req->scope : req->match.route->scope, request_target(req),
	                request_header(req, "X-Freestyle-Vm-Linux-User-Id"), ret);
}

int request_account(struct request *req, char ret[ACCOUNT_SIZE], struct err *err)
{
	autofree char *id = NULL;
	struct store_account a;
	int r = request_query(req, "accountId", &id, err);

	if (r < 0)
		return r;
	snprintf(ret, ACCOUNT_SIZE, "%s", req->who.account);
	if (!id || strcmp(id, ret) == 0)
		return 0;
	if (!(req->who.scopes & SCOPE_ADMIN))
		return err_tag(err, -EACCES, ERR_FORBIDDEN,
		               "'accountId' takes a key of the operator's account");
	if ((r = store_account_get(req->api->deps.store, id, &a, err)) < 0)
		return r;
	snprintf(ret, ACCOUNT_SIZE, "%s", a.id);
	return 0;
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
	const char *v = lookup(req, MHD_GET_ARGUMENT_KIND, name);
	autofree char *s = NULL;

	*ret = NULL;
	if (!v)
		return 0;
	s = strdup(v);
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	/* The library has made spaces of '+' already. */
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

int request_json(struct request *req, enum err_code tag, json_t **ret, struct err *err)
{
	const char *p;
	size_t n;
	int r;

	if (!req->json) {
		if ((r = body_view(&req->body, &p, &n, err)) < 0)
			return r;
		r = json_text_parse(p, n, &req->json, err);
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

/* Older ids are shorter; none has other characters. Such an id may exist; any other cannot. */
int request_vm_id(struct request *req, size_t i, const char **ret, struct err *err)
{
	const char *id = req->match.arg[i];
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

	if (n == 0 || n > VM_ID_MAX || id[n] != '\0')
		return err_tag(err, -EINVAL, ERR_INVALID_VM_ID,
		               "a VM id is up to %d letters and digits in lower case", VM_ID_MAX);
	*ret = id;
	return 0;
}

int request_snapshot_id(struct request *req, size_t i, const char **ret, struct err *err)
{
	const char *id = req->match.arg[i];

	if (!id_valid("sc-", id))
		return err_tag(err, -ENOENT, ERR_SNAPSHOT_NOT_FOUND,
		               "no such snapshot: an id is 'sc-' and 20 letters and digits");
	*ret = id;
	return 0;
}

int request_user(struct request *req, enum err_code tag, const char **ret, struct err *err)
{
	const char *u = req->by_ticket ? req->ticket_user
	                               : request_header(req, "X-Freestyle-Vm-Linux-User-Id");

	*ret = NULL;
	if (!u || !*u)
		return 0;
	if (!linux_user_valid(u))
		return err_tag(err, -EINVAL, tag,
		               "X-Freestyle-Vm-Linux-User-Id must be a Linux user name");
	*ret = u;
	return 0;
}
