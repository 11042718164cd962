/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logins.c - a program asks for a key (pando login --web), a person confirms it in the dashboard
 *
 * auth/auth_login.c has the rules. Only a session can decide, with its token (api/cookie.c): the
 * person has seen on a page of this server what asks, from where and since when.
 */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>

#include "api/account/logins.h"
#include "base/auto.h"
#include "base/sock.h"

#define INTERVAL_S 2 /* between two polls */

/* Printable, and no longer than a key's name. */
static void clean(const char *text, char ret[AUTH_CLIENT_SIZE])
{
	size_t n = 0;

	for (; text[n] && n < AUTH_CLIENT_SIZE - 1; n++)
		ret[n] = (char)(text[n] >= ' ' && text[n] < 0x7f ? text[n] : '?');
	ret[n] = '\0';
}

int login_begin(struct request *req, const char *client, struct auth_login *ret,
                char ret_secret[AUTH_SECRET_SIZE], struct err *err)
{
	char name[AUTH_CLIENT_SIZE], remote[SESSION_REMOTE_SIZE], net[SOCK_NET_SIZE];

	clean(client, name);
	request_remote_text(req, remote, sizeof(remote));
	return auth_login_begin(deps_of(req)->auth, name, remote,
	                        sock_net_text(request_remote(req), net), ret, ret_secret, err);
}

int login_poll(struct request *req, const char *id, const char *secret, json_t **ret_key,
               struct err *err)
{
	char key[AUTH_SECRET_SIZE], account[ACCOUNT_SIZE];
	struct auth_key made;
	int r = auth_login_poll(deps_of(req)->auth, id, secret, &made, account, key, err);

	if (r <= 0)
		return r;
	/* For the audit log: the account has a new key. */
	memcpy(who_of(req)->account, account, sizeof(account));
	memcpy(who_of(req)->key, made.id, sizeof(made.id));
	*ret_key =
	        json_pack("{s:s, s:s, s:s}", "apiKey", key, "accountId", account, "keyId", made.id);
	OPENSSL_cleanse(key, sizeof(key));
	return *ret_key ? 1 : err_set(err, -ENOMEM, "out of memory");
}

struct begin_body {
	char client[AUTH_CLIENT_SIZE];
};
static const struct json_field begin_fields[] = {
	JSON_FIELD_STR(begin_body, client, "client", JSON_NULLABLE),
};
JSON_TABLE(LoginNew, begin_fields);

int api_login_begin(struct request *req, struct reply *res, struct err *err)
{
	struct begin_body b = { 0 };
	char secret[AUTH_SECRET_SIZE], base[300];
	struct auth_login l;
	int r;

	if ((r = request_fields(req, ERR_INVALID_PARAMETERS, begin_fields, ARRAY_SIZE(begin_fields),
	                        &b, err)) < 0 ||
	    (r = login_begin(req, *b.client ? b.client : "a program", &l, secret, err)) < 0)
		return r;
	r = reply_json(res,
	               json_pack("{s:s, s:s, s:s, s:o, s:o, s:i}", "id", l.id, "code", l.code,
	                         "secret", secret, "url",
	                         json_sprintf("%s/ui/confirm/%s",
	                                      request_base(req, base, sizeof(base)), l.code),
	                         "expiresAt", shape_time(l.expires_ms), "intervalSeconds",
	                         INTERVAL_S),
	               err);
	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}

struct poll_body {
	char secret[AUTH_SECRET_SIZE + 8];
};
static const struct json_field poll_fields[] = {
	JSON_FIELD_STR(poll_body, secret, "secret", JSON_REQUIRED),
};
JSON_TABLE(LoginPoll, poll_fields);

int api_login_poll(struct request *req, struct reply *res, struct err *err)
{
	struct poll_body b = { 0 };
	json_t *key = NULL;
	int r = request_fields(req, ERR_INVALID_PARAMETERS, poll_fields, ARRAY_SIZE(poll_fields),
	                       &b, err);

	if (r < 0 || (r = login_poll(req, req->match.arg[0], b.secret, &key, err)) < 0)
		return r;
	if (r > 0)
		return reply_json(res, key, err);
	res->status = 202;
	return reply_json(res, json_pack("{s:s}", "state", "pending"), err);
}

static json_t *shape_login(const struct auth_login *l)
{
	static const char *const states[] = { [LOGIN_PENDING] = "pending",
		                              [LOGIN_CONFIRMED] = "confirmed",
		                              [LOGIN_DENIED] = "denied" };

	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s}", "code", l->code, "client", l->client,
	                 "address", l->remote, "createdAt", shape_time(l->created_ms), "expiresAt",
	                 shape_time(l->expires_ms), "state", states[l->state]);
}

/* Wrong codes are failed attempts: they are counted by address. */
static int judge(struct request *req, struct reply *res, int r, struct err *err)
{
	if (r != -ENOENT)
		return r;
	caller_of(req)->denied = true;
	if (!auth_failure(deps_of(req)->auth, request_remote(req))) {
		req->quiet = true;
		res->status = 429;
	}
	return r;
}

static int need_session(struct request *req, struct err *err)
{
	return *who_of(req)->session
	               ? 0
	               : err_tag(err, -EACCES, ERR_FORBIDDEN,
	                         "login requests are confirmed by a person who is signed in to "
	                         "the dashboard, not with a key");
}

int api_login_get(struct request *req, struct reply *res, struct err *err)
{
	struct auth_login l;
	int r = need_session(req, err);

	if (r < 0 ||
	    (r = judge(req, res, auth_login_find(deps_of(req)->auth, req->match.arg[0], &l, err),
	               err)) < 0)
		return r;
	return reply_json(res, shape_login(&l), err);
}

static int decide(struct request *req, struct reply *res, bool confirmed, struct err *err)
{
	struct auth_login l;
	int r = need_session(req, err);

	if (r < 0 || (r = judge(req, res,
	                        auth_login_decide(deps_of(req)->auth, req->match.arg[0],
	                                          who_of(req), confirmed, &l, err),
	                        err)) < 0)
		return r;
	return reply_json(res, shape_login(&l), err);
}

int api_login_confirm(struct request *req, struct reply *res, struct err *err)
{
	return decide(req, res, true, err);
}

int api_login_deny(struct request *req, struct reply *res, struct err *err)
{
	return decide(req, res, false, err);
}
