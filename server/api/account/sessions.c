/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions.c - signing in and out with a browser: /v1/session, /v1/sessions
 *
 * Signing in exchanges a key or token, which the page forgets, for a session in a cookie that it
 * cannot read (api/cookie.c). Every reply about the session has the token that other requests must
 * repeat. Signing in again replaces the browser's session.
 */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/auto.h"

struct login_body {
	char credential[AUTH_SECRET_SIZE + 16];
};
static const struct json_field login_fields[] = {
	JSON_FIELD_STR(login_body, credential, "credential", JSON_REQUIRED),
};
JSON_TABLE(SessionOpen, login_fields);

static json_t *shape_owner(struct request *req, const char *id)
{
	struct store_account a;

	if (!*id || store_account_get(deps_of(req)->store, id, &a, NULL) < 0)
		return json_null();
	return json_pack("{s:s, s:s}", "id", a.id, "name", a.name);
}

/* secret: of the session; NULL: the caller has none, it sent a key. */
static int reply_session(struct request *req, struct reply *res, const char *secret,
                         struct err *err)
{
	const struct auth_who *who = who_of(req);
	bool acting = *who->operator_account;
	char csrf[AUTH_CSRF_SIZE] = "";
	struct auth_session s = { 0 };
	int r;

	if (secret && ((r = auth_session_csrf(secret, csrf, err)) < 0 ||
	               (r = auth_session_get(deps_of(req)->auth, who->session, &s, err)) < 0))
		return r;
	reply_header(res, "Cache-Control", "no-store");
	return reply_json(
	        res,
	        json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "account",
	                  shape_owner(req, acting ? who->operator_account : who->account),
	                  "identity",
	                  *who->identity ? json_pack("{s:s}", "id", who->identity) : json_null(),
	                  "operator", (who->scopes & SCOPE_ADMIN) != 0, "actingAs",
	                  acting ? shape_owner(req, who->account) : json_null(), "csrf",
	                  shape_text(csrf), "expiresAt",
	                  secret ? shape_time(s.expires_ms) : json_null(), "sessionId",
	                  shape_text(who->session)),
	        err);
}

/* The program and the address, as the list of sessions shows them. */
static int open_session(struct request *req, const struct auth_who *who,
                        char ret_secret[AUTH_SECRET_SIZE], struct err *err)
{
	const char *agent = request_header(req, "User-Agent");
	char remote[SESSION_REMOTE_SIZE], client[SESSION_CLIENT_SIZE] = "";
	size_t n = 0;

	for (; agent && agent[n] && n < sizeof(client) - 1; n++)
		client[n] = (char)(agent[n] >= ' ' && agent[n] < 0x7f ? agent[n] : '?');
	client[n] = '\0';
	request_remote_text(req, remote, sizeof(remote));
	return auth_session_open(deps_of(req)->auth, who, remote, client, ret_secret, who_of(req),
	                         err);
}

/* The browser's session so far, if there is one: it is replaced. */
static void end_earlier(struct request *req)
{
	char secret[AUTH_SECRET_SIZE];
	struct auth_who old;

	if (cookie_read(req, secret) == 1 &&
	    auth_session_check(deps_of(req)->auth, secret, &old, NULL) == 0)
		auth_session_end(deps_of(req)->auth, old.session, NULL);
	OPENSSL_cleanse(secret, sizeof(secret));
}

int api_session_open(struct request *req, struct reply *res, struct err *err)
{
	char bearer[sizeof(struct login_body) + 8], secret[AUTH_SECRET_SIZE];
	struct login_body b = { 0 };
	struct auth_who who = { 0 };
	int r;

	/* A page elsewhere must not sign somebody in to an account of its own. */
	if ((r = same_origin_check(req, err)) < 0 ||
	    (r = request_fields(req, ERR_INVALID_PARAMETERS, login_fields, ARRAY_SIZE(login_fields),
	                        &b, err)) < 0)
		return r;
	snprintf(bearer, sizeof(bearer), "Bearer %s", b.credential);
	r = auth_check(deps_of(req)->auth, bearer, NULL, &who, err);
	OPENSSL_cleanse(bearer, sizeof(bearer));
	OPENSSL_cleanse(&b, sizeof(b));
	if (r < 0) {
		admit_failed(req, r, err);
		if (req->quiet) /* too many from this address */
			res->status = 429;
		return r;
	}
	end_earlier(req);
	if ((r = open_session(req, &who, secret, err)) < 0)
		return r;
	if ((r = reply_session(req, res, secret, err)) == 0)
		cookie_set(req, res, secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}

int api_session_get(struct request *req, struct reply *res, struct err *err)
{
	char secret[AUTH_SECRET_SIZE];
	bool has = *who_of(req)->session && cookie_read(req, secret) == 1;
	int r = reply_session(req, res, has ? secret : NULL, err);

	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}

static int need_session(struct request *req, struct err *err)
{
	return *who_of(req)->session
	               ? 0
	               : err_tag(err, -EINVAL, ERR_BAD_REQUEST,
	                         "this request has no session: it was made with a key or token");
}

int api_session_end(struct request *req, struct reply *res, struct err *err)
{
	const char *id = who_of(req)->session;
	int r;

	if ((r = need_session(req, err)) < 0 ||
	    (r = auth_session_end(deps_of(req)->auth, id, err)) < 0)
		return r;
	cookie_set(req, res, NULL);
	return reply_json(res, json_pack("{s:s}", "sessionId", id), err);
}

/* The account whose key or token it is, also while the operator acts as another one. */
static const char *own_account(struct request *req)
{
	const struct auth_who *who = who_of(req);

	return *who->operator_account ? who->operator_account : who->account;
}

int api_session_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct auth_session *v = NULL;
	autojson json_t *items = json_array();
	size_t n = 0;
	int r = auth_session_list(deps_of(req)->auth, own_account(req), who_of(req)->identity, &v,
	                          &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		json_t *j = json_pack(
		        "{s:s, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "id", v[i].id, "current",
		        strcmp(v[i].id, who_of(req)->session) == 0, "address", v[i].remote,
		        "client", v[i].client, "createdAt", shape_time(v[i].created_ms),
		        "lastUsedAt", shape_time(v[i].used_ms), "expiresAt",
		        shape_time(v[i].expires_ms), "actingAs", shape_owner(req, v[i].acting));

		if (json_array_append_new(items, j) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res, json_pack("{s:O}", "sessions", items), err);
}

int api_session_end_all(struct request *req, struct reply *res, struct err *err)
{
	size_t n = 0;
	int r = auth_session_end_all(deps_of(req)->auth, own_account(req), who_of(req)->identity,
	                             &n, err);

	if (r < 0)
		return r;
	if (*who_of(req)->session)
		cookie_set(req, res, NULL);
	return reply_json(res, json_pack("{s:I}", "ended", (json_int_t)n), err);
}

int api_session_end_one(struct request *req, struct reply *res, struct err *err)
{
	const char *id = req->match.arg[0];
	struct auth_session s = { 0 };
	int r = auth_session_get(deps_of(req)->auth, id, &s, NULL);

	/* Somebody else's is as good as none. */
	if (r < 0 || strcmp(s.account, own_account(req)) != 0 ||
	    strcmp(s.identity, who_of(req)->identity) != 0)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND,
		               "there is no web session '%.60s': it has ended, or it is not yours",
		               id);
	if ((r = auth_session_end(deps_of(req)->auth, s.id, err)) < 0)
		return r;
	if (strcmp(s.id, who_of(req)->session) == 0)
		cookie_set(req, res, NULL);
	return reply_json(res, json_pack("{s:s}", "sessionId", s.id), err);
}

struct act_body {
	char account[ACCOUNT_SIZE];
	enum json_presence seen;
};
static const struct json_field act_fields[] = {
	JSON_FIELD_P(JSON_WANT_STR, act_body, account, seen, "accountId",
	             JSON_REQUIRED | JSON_NULLABLE, 0, ACCOUNT_SIZE),
};
JSON_TABLE(SessionAct, act_fields);

int api_session_act(struct request *req, struct reply *res, struct err *err)
{
	struct act_body b = { 0 };
	struct store_account a = { 0 };
	char secret[AUTH_SECRET_SIZE];
	int r = need_session(req, err);

	if (r < 0)
		return r;
	if (!(who_of(req)->scopes & SCOPE_ADMIN))
		return err_tag(err, -EACCES, ERR_FORBIDDEN,
		               "only the operator may act as another account");
	if ((r = request_fields(req, ERR_INVALID_PARAMETERS, act_fields, ARRAY_SIZE(act_fields), &b,
	                        err)) < 0 ||
	    (b.seen == JSON_IS_GIVEN &&
	     (r = store_account_get(deps_of(req)->store, b.account, &a, err)) < 0))
		return r;
	if (strcmp(a.id, own_account(req)) == 0)
		a.id[0] = '\0';
	if ((r = auth_session_act(deps_of(req)->auth, who_of(req)->session, *a.id ? a.id : NULL,
	                          err)) < 0)
		return r;
	if (cookie_read(req, secret) != 1 ||
	    (r = auth_session_check(deps_of(req)->auth, secret, who_of(req), err)) < 0)
		return r < 0 ? r : err_set(err, -EIO, "the session's cookie is gone");
	r = reply_session(req, res, secret, err);
	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}
