/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freestyle_login.c - what `freestyle login` and a CLI that is logged in ask for
 *
 * The CLI speaks with three services whose addresses are in its environment: one that logs in, one
 * with the page to confirm that, and one that passes its requests on. Here all are this server. A
 * login is a login request (logins.c); its key is what the CLI keeps as its refresh token, so it
 * is in the list of keys and can be revoked there. The account is the one team.
 *
 * /api/proxy/request has the key and the request in its body. It becomes a request inside this one,
 * which is admitted and recorded as if it had come by itself.
 */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#include "api/account/logins.h"
#include "base/auto.h"
#include "http/http.h"

#define TAG ERR_BAD_REQUEST

int api_freestyle_cli(struct request *req, struct reply *res, struct err *err)
{
	char secret[AUTH_SECRET_SIZE];
	struct auth_login l;
	int r = login_begin(req, "freestyle CLI", &l, secret, err);

	if (r < 0)
		return r;
	res->status = 201;
	r = reply_json(res,
	               json_pack("{s:o, s:s, s:o}", "polling_code",
	                         json_sprintf("%s.%s", l.id, secret), "login_code", l.code,
	                         "expires_at", shape_time(l.expires_ms)),
	               err);
	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}

struct poll_body {
	char code[ID_SIZE + AUTH_SECRET_SIZE + 8];
};
static const struct json_field poll_fields[] = {
	JSON_FIELD_STR(poll_body, code, "polling_code", JSON_REQUIRED),
};

int api_freestyle_poll(struct request *req, struct reply *res, struct err *err)
{
	autojson json_t *key = NULL;
	struct poll_body b = { 0 };
	struct err why = { 0 };
	char *dot;
	int r = request_fields(req, TAG, poll_fields, ARRAY_SIZE(poll_fields), &b, err);

	if (r < 0)
		return r;
	dot = strchr(b.code, '.');
	if (dot)
		*dot++ = '\0';
	r = login_poll(req, b.code, dot ? dot : "", &key, &why);
	/* The CLI shows the error of a 200; anything else it only counts. */
	if (r == -EACCES || r == -ESTALE)
		return reply_json(res,
		                  json_pack("{s:s, s:s}", "status",
		                            r == -EACCES ? "denied" : "expired", "error", why.msg),
		                  err);
	if (r < 0) {
		*err = why;
		return r;
	}
	if (r == 0)
		return reply_json(res, json_pack("{s:s}", "status", "waiting"), err);
	res->status = 201;
	return reply_json(res,
	                  json_pack("{s:s, s:O}", "status", "success", "refresh_token",
	                            json_object_get(key, "apiKey")),
	                  err);
}

/* The caller by its key; a wrong one counts as everywhere. */
static int identify(struct request *req, struct reply *res, const char *key, struct err *err)
{
	char bearer[AUTH_SECRET_SIZE + 64];
	int r;

	snprintf(bearer, sizeof(bearer), "Bearer %s", key);
	r = auth_check(deps_of(req)->auth, bearer, NULL, who_of(req), err);
	OPENSSL_cleanse(bearer, sizeof(bearer));
	if (r < 0) {
		admit_failed(req, r, err);
		if (req->quiet)
			res->status = 429;
	}
	return r;
}

int api_freestyle_refresh(struct request *req, struct reply *res, struct err *err)
{
	const char *token = request_header(req, "x-stack-refresh-token");
	int r = identify(req, res, token ? token : "", err);

	return r < 0 ? r
	             : reply_json(res,
	                          json_pack("{s:s, s:s}", "access_token", token, "refresh_token",
	                                    token),
	                          err);
}

struct outer_body {
	json_t *data;
};
static const struct json_field outer_fields[] = {
	JSON_FIELD(JSON_WANT_OBJECT, outer_body, data, "data", JSON_REQUIRED, 0, 0),
};
struct data_body {
	const char *token, *team, *path, *method, *body;
	json_t *headers;
};
static const struct json_field data_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, data_body, token, "accessToken", JSON_REQUIRED, 0, 256),
	JSON_FIELD(JSON_WANT_STRREF, data_body, team, "teamId", JSON_NULLABLE, 0, 256),
	JSON_FIELD(JSON_WANT_STRREF, data_body, path, "path", JSON_NULLABLE, 0, ROUTE_PATH_MAX),
	JSON_FIELD(JSON_WANT_STRREF, data_body, method, "method", JSON_NULLABLE, 0, 16),
	JSON_FIELD(JSON_WANT_STRREF, data_body, body, "body", JSON_NULLABLE, 0, MIB(8)),
	JSON_FIELD(JSON_WANT_OBJECT, data_body, headers, "headers", JSON_NULLABLE, 0, 0),
};

static int read_data(struct request *req, struct data_body *d, struct err *err)
{
	struct outer_body b = { 0 };
	int r = request_fields(req, TAG, outer_fields, ARRAY_SIZE(outer_fields), &b, err);

	if (r < 0)
		return r;
	r = json_fields_read(b.data, "data.", data_fields, ARRAY_SIZE(data_fields), d, err);
	if (r < 0)
		err->tag = TAG;
	return r;
}

int api_freestyle_teams(struct request *req, struct reply *res, struct err *err)
{
	struct data_body d = { 0 };
	struct store_account a;
	int r;

	if ((r = read_data(req, &d, err)) < 0 || (r = identify(req, res, d.token, err)) < 0 ||
	    (r = store_account_get(deps_of(req)->store, who_of(req)->account, &a, err)) < 0)
		return r;
	return reply_json(res, json_pack("[{s:s, s:s}]", "id", a.id, "displayName", a.name), err);
}

/* ---- requests that are passed on ---- */

static int add_query(struct request *in, char *query, struct err *err)
{
	char *save = NULL;
	int r = 0;

	for (char *p = strtok_r(query, "&", &save); p && r == 0; p = strtok_r(NULL, "&", &save)) {
		char *value = strchr(p, '=');

		if (value)
			*value++ = '\0';
		if (percent_decode(p, /* plus= */ true) < 0)
			return err_tag(err, -EINVAL, TAG, "the query is malformed");
		r = request_add_value(in, VALUE_QUERY, p, value ? value : "", err);
	}
	return r;
}

/* Those that a handler looks at; who it is, and where it comes from, is not for the client to say.
 */
static int add_headers(struct request *in, const struct data_body *d, struct err *err)
{
	static const char *const passed[] = { USER_HEADER, "Accept", "Idempotency-Key" };
	char bearer[300];
	const char *name;
	json_t *v;
	int r;

	snprintf(bearer, sizeof(bearer), "Bearer %s", d->token);
	r = request_add_value(in, VALUE_HEADER, "Authorization", bearer, err);
	OPENSSL_cleanse(bearer, sizeof(bearer));
	json_object_foreach(d->headers, name, v)
	{
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(passed); i++)
			if (json_is_string(v) && strcasecmp(name, passed[i]) == 0)
				r = request_add_value(in, VALUE_HEADER, passed[i],
				                      json_string_value(v), err);
	}
	return r;
}

static int find_route(const struct data_body *d, char *path, const struct route **ret,
                      struct err *err)
{
	int m = method_parse(d->method ? d->method : "GET"), r;
	struct route_match *match = malloc(sizeof(*match));

	if (!match)
		return err_set(err, -ENOMEM, "out of memory");
	r = m < 0 ? m : route_find(api_routes, api_n_routes, (enum method)m, path, match);
	*ret = r < 0 ? NULL : match->route;
	free(match);
	if (r == -ENOENT || r == -EOPNOTSUPP)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "no such route");
	if (r < 0)
		return err_tag(err, -EINVAL, TAG, "the method or path is malformed");
	if ((*ret)->intake || (*ret)->handler == api_freestyle_proxy)
		return err_tag(err, -EINVAL, TAG,
		               "this cannot be passed on: set FREESTYLE_API_KEY and "
		               "FREESTYLE_API_URL and ask directly");
	return 0;
}

static int fill(struct request *in, const struct data_body *d, char *path, char *query,
                struct err *err)
{
	const struct route *route = in->match.route;
	int r;

	route_find(api_routes, api_n_routes, route->method, path, &in->match);
	snprintf(in->path, sizeof(in->path), "%s (freestyle CLI)", route->pattern);
	if (d->body && *d->body) {
		if (strlen(d->body) > route->body_max)
			return err_tag(err, -EFBIG, ERR_INVALID_REQUEST, "the body is too large");
		if ((r = json_text_parse(d->body, strlen(d->body), &in->json, err)) < 0) {
			err->tag = ERR_INVALID_REQUEST;
			return r;
		}
	}
	return (r = add_headers(in, d, err)) < 0 || !query ? r : add_query(in, query, err);
}

static int handle(struct request *in, const struct data_body *d, struct reply *res, struct err *err)
{
	int r = api_admit(in, err);

	if (r == 0 && d->team && *d->team && *who_of(in)->account &&
	    strcmp(d->team, who_of(in)->account) != 0)
		return err_tag(err, -EACCES, ERR_FORBIDDEN,
		               "this login is for another team: run 'freestyle login' again");
	if (r == 0)
		r = api_handle(in, res, err);
	if (r == 0 && (res->stream || in->upgrade))
		return err_tag(err, -EINVAL, TAG,
		               "this reply is no JSON: set FREESTYLE_API_KEY and FREESTYLE_API_URL "
		               "and ask directly");
	return r;
}

int api_freestyle_proxy(struct request *req, struct reply *res, struct err *err)
{
	autofree char *path = NULL;
	struct data_body d = { 0 };
	const struct route *route = NULL;
	struct reply inner = { 0 };
	struct err why = { 0 };
	struct request *in;
	char *query;
	json_t *body;
	int r = read_data(req, &d, err);

	if (r < 0)
		return r;
	if (asprintf(&path, "/%s", d.path ? d.path : "") < 0)
		return err_set(err, -ENOMEM, "out of memory");
	query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	if ((r = find_route(&d, path, &route, err)) < 0)
		return r;
	in = request_inner(req, route);
	if (!in)
		return err_set(err, -ENOMEM, "out of memory");
	r = fill(in, &d, path, query, &why);
	if (r == 0)
		r = handle(in, &d, &inner, &why);
	if (r < 0 && in->quiet)
		inner.status = 429;
	body = reply_render(in, &inner, r, &why, &res->status);
	trail_leave(in, &inner, res->status, r < 0 ? err_code_name(code_of(&why)) : NULL);
	reply_done(&inner);
	request_free(in);
	return reply_json(res, body, err);
}

/* ---- the page that the CLI opens ---- */

int api_freestyle_page(struct request *req, struct reply *res, struct err *err)
{
	autofree char *code = NULL;
	char place[64];
	int r = request_query(req, "login_code", &code, err);

	if (r < 0)
		return r;
	if (!code || !*code || strlen(code) > 16 ||
	    strspn(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != strlen(code))
		return err_tag(err, -EINVAL, TAG, "'login_code' is missing or malformed");
	snprintf(place, sizeof(place), "/ui/confirm/%s", code);
	reply_header(res, "Location", place);
	res->status = 302;
	return reply_json(res, json_pack("{s:s}", "url", place), err);
}
