/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_login.c - programs that ask for a key: codes, secrets, who may confirm; freestyle's way
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "tests/unit/api_web.h"

static const struct acting nobody = { "" };

struct asked {
	char id[32], code[16], secret[64];
};

static void ask(struct fx *f, const char *client, struct asked *ret)
{
	autoreply struct http_reply r = { 0 };
	char body[160];

	snprintf(body, sizeof(body), "{\"client\":\"%s\"}", client);
	as_call(f, &nobody, "POST", "/v1/login-requests", body, 200, &r);
	snprintf(ret->id, sizeof(ret->id), "%s", fx_str(r.json, "id"));
	snprintf(ret->code, sizeof(ret->code), "%s", fx_str(r.json, "code"));
	snprintf(ret->secret, sizeof(ret->secret), "%s", fx_str(r.json, "secret"));
	assert_int_equal(strlen(ret->code), 9);
	assert_non_null(strstr(fx_str(r.json, "url"), "http://localhost/ui/confirm/"));
	assert_non_null(strstr(fx_str(r.json, "url"), ret->code));
}

static void poll_with(struct fx *f, const struct asked *q, const char *secret, int want,
                      struct http_reply *ret)
{
	char path[96], body[128];

	snprintf(path, sizeof(path), "/v1/login-requests/%s/poll", q->id);
	snprintf(body, sizeof(body), "{\"secret\":\"%s\"}", secret);
	as_call(f, &nobody, "POST", path, body, want, ret);
}

static void polled(struct fx *f, const struct asked *q, int want, const char *code)
{
	autoreply struct http_reply r = { 0 };

	poll_with(f, q, q->secret, want, &r);
	if (code)
		assert_string_equal(fx_str(r.json, "code"), code);
}

static const char *by_code(const char *code, const char *verb)
{
	static char path[96];

	snprintf(path, sizeof(path), "/v1/login-requests/by-code/%s%s", code, verb);
	return path;
}

static void a_person_confirms_a_program(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply seen = { 0 }, done = { 0 }, key = { 0 }, who = { 0 },
	                            log = { 0 }, small = { 0 };
	struct acting op, made;
	struct browser b;
	struct asked q;
	char lower[16];

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	ask(f, "pando on <b>host</b>", &q);
	polled(f, &q, 202, NULL);
	as_call(f, &b.look, "GET", by_code(q.code, ""), NULL, 200, &seen);
	assert_string_equal(fx_str(seen.json, "client"), "pando on <b>host</b>");
	assert_string_equal(fx_str(seen.json, "address"), "127.0.0.1");
	assert_string_equal(fx_str(seen.json, "state"), "pending");
	assert_null(strstr(seen.body, q.secret));
	for (size_t i = 0; i < sizeof(lower); i++) /* as people type it */
		lower[i] = (char)(q.code[i] >= 'A' ? q.code[i] + 32 : q.code[i]);
	memmove(lower + 4, lower + 5, 5);
	as_call(f, &b.look, "GET", by_code(lower, ""), NULL, 200, &small);
	/* Only a session, with its token, from a page of this server. */
	as_refused(f, &op, "POST", by_code(q.code, "/confirm"), NULL, 403, "FORBIDDEN");
	as_refused(f, &nobody, "POST", by_code(q.code, "/confirm"), NULL, 401,
	           "UNAUTHORIZED_ERROR");
	as_refused(f, &b.look, "POST", by_code(q.code, "/confirm"), NULL, 403,
	           "CSRF_TOKEN_INVALID");
	polled(f, &q, 202, NULL);
	as_call(f, &b.act, "POST", by_code(q.code, "/confirm"), NULL, 200, &done);
	as_refused(f, &b.act, "POST", by_code(q.code, "/deny"), NULL, 409, "CONFLICT");
	{ /* the code alone gives nothing */
		autoreply struct http_reply r = { 0 };

		poll_with(f, &q, "pandolr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 410, &r);
	}
	poll_with(f, &q, q.secret, 200, &key);
	snprintf(made.header, sizeof(made.header), "Authorization: Bearer %s\r\n",
	         fx_str(key.json, "apiKey"));
	as_call(f, &made, "GET", "/auth/v1/whoami", NULL, 200, &who);
	assert_string_equal(fx_str(who.json, "accountId"), fx_str(key.json, "accountId"));
	/* Once. */
	polled(f, &q, 410, "LOGIN_REQUEST_EXPIRED");
	as_refused(f, &b.look, "GET", by_code(q.code, ""), NULL, 404, "LOGIN_REQUEST_NOT_FOUND");
	fx_call(f, "GET", "/v1/audit?limit=5&action=/v1/login-requests/{login_id}/poll", NULL, 200,
	        &log);
	assert_non_null(strstr(log.body, fx_str(key.json, "keyId")));
	assert_null(strstr(log.body, "pandolr_"));
}

static void what_is_denied_or_too_old_gets_nothing(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, s = { 0 }, gone = { 0 };
	struct acting op;
	struct browser b, c;
	struct asked no, old, left;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	web_sign_in(f, &op, &c);
	ask(f, "x", &no);
	ask(f, "x", &old);
	ask(f, "x", &left);
	as_call(f, &b.act, "POST", by_code(no.code, "/deny"), NULL, 200, &r);
	polled(f, &no, 403, "LOGIN_REQUEST_DENIED");
	polled(f, &no, 410, "LOGIN_REQUEST_EXPIRED");
	mutex_lock(&f->auth->logins_lock);
	for (size_t i = 0; i < AUTH_LOGINS_MAX; i++)
		if (strcmp(f->auth->logins[i].info.id, old.id) == 0)
			f->auth->logins[i].until_ms = clock_ms();
	mutex_unlock(&f->auth->logins_lock);
	as_refused(f, &b.act, "POST", by_code(old.code, "/confirm"), NULL, 404,
	           "LOGIN_REQUEST_NOT_FOUND");
	polled(f, &old, 410, "LOGIN_REQUEST_EXPIRED");
	/* Whoever confirmed it signs out before it was fetched. */
	as_call(f, &c.act, "POST", by_code(left.code, "/confirm"), NULL, 200, &s);
	as_call(f, &c.act, "DELETE", "/v1/session", NULL, 200, &gone);
	polled(f, &left, 403, "LOGIN_REQUEST_DENIED");
}

static void an_address_has_so_many_and_guesses_are_counted(void **state)
{
	struct fx *f = *state;
	struct acting op;
	struct browser b;
	struct asked q;
	int status = 0;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	for (int i = 0; i < AUTH_LOGINS_EACH; i++)
		ask(f, "x", &q);
	as_refused(f, &nobody, "POST", "/v1/login-requests", "{}", 429, "LIMIT_EXCEEDED");
	as_refused(f, &b.look, "GET", by_code("AAAA", ""), NULL, 404, "LOGIN_REQUEST_NOT_FOUND");
	for (int i = 0; i < 20 * AUTH_FAIL_BURST && status != 429; i++) {
		autoreply struct http_reply r = { 0 };

		assert_int_equal(http_call(f->port, "GET", by_code("BCDF-GHJK", ""), b.look.header,
		                           NULL, 0, &r),
		                 0);
		status = r.status;
	}
	assert_int_equal(status, 429);
}

/* What the CLI sends when it is logged in. */
static void proxied(struct fx *f, const char *token, const char *team, const char *method,
                    const char *path, const char *body, int want, struct http_reply *ret)
{
	autojson json_t *j =
	        json_pack("{s:{s:s, s:s?, s:s, s:s, s:{s:s}, s:s?}}", "data", "accessToken", token,
	                  "teamId", team, "path", path, "method", method, "headers",
	                  "authorization", "Bearer placeholder", "body", body);
	autofree char *text = json_dumps(j, 0);

	as_call(f, &nobody, "POST", "/api/proxy/request", text, want, ret);
}

static void the_freestyle_cli_logs_in(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply q = { 0 }, w = { 0 }, c = { 0 }, ok = { 0 }, again = { 0 },
	                            fresh = { 0 }, teams = { 0 }, page = { 0 }, made = { 0 },
	                            list = { 0 }, none = { 0 }, bad = { 0 }, nest = { 0 },
	                            who = { 0 }, gone = { 0 }, keys = { 0 }, over = { 0 };
	char body[256], path[128], key[64];
	struct acting op, refresh;
	struct browser b;
	const char *team;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	as_call(f, &nobody, "POST", "/api/v1/auth/cli", "{\"expires_in_millis\":600000}", 201, &q);
	snprintf(path, sizeof(path), "/handler/cli-auth-confirm?login_code=%s",
	         fx_str(q.json, "login_code"));
	as_call(f, &nobody, "GET", path, NULL, 302, &page);
	snprintf(path, sizeof(path), "/ui/confirm/%s", fx_str(q.json, "login_code"));
	assert_string_equal(http_header(&page, "location"), path);
	as_refused(f, &nobody, "GET", "/handler/cli-auth-confirm?login_code=%0d%0aX:y", NULL, 400,
	           "BAD_REQUEST");
	snprintf(body, sizeof(body), "{\"polling_code\":\"%s\"}", fx_str(q.json, "polling_code"));
	as_call(f, &nobody, "POST", "/api/v1/auth/cli/poll", body, 200, &w);
	assert_string_equal(fx_str(w.json, "status"), "waiting");
	as_call(f, &b.act, "POST", by_code(fx_str(q.json, "login_code"), "/confirm"), NULL, 200,
	        &c);
	as_call(f, &nobody, "POST", "/api/v1/auth/cli/poll", body, 201, &ok);
	assert_string_equal(fx_str(ok.json, "status"), "success");
	snprintf(key, sizeof(key), "%s", fx_str(ok.json, "refresh_token"));
	as_call(f, &nobody, "POST", "/api/v1/auth/cli/poll", body, 200, &again);
	assert_string_equal(fx_str(again.json, "status"), "expired");
	snprintf(refresh.header, sizeof(refresh.header), "x-stack-refresh-token: %s\r\n", key);
	as_call(f, &refresh, "POST", "/api/v1/auth/sessions/current/refresh", "{}", 200, &fresh);
	snprintf(body, sizeof(body), "{\"data\":{\"accessToken\":\"%s\"}}",
	         fx_str(fresh.json, "access_token"));
	as_call(f, &nobody, "POST", "/api/cli/teams", body, 200, &teams);
	team = fx_str(json_array_get(teams.json, 0), "id");

	proxied(f, key, team, "GET", "auth/v1/whoami", NULL, 200, &who);
	assert_string_equal(fx_str(who.json, "accountId"), team);
	proxied(f, key, team, "POST", "v1/vms", "{\"name\":\"via\"}", 200, &made);
	proxied(f, key, team, "GET", "v1/vms?limit=5&offset=0", NULL, 200, &list);
	assert_non_null(strstr(list.body, fx_str(made.json, "id")));
	proxied(f, key, team, "GET", "v1/vms/nosuchvm", NULL, 404, &none);
	assert_string_equal(fx_str(none.json, "code"), "VM_NOT_FOUND");
	proxied(f, key, "another", "GET", "v1/vms", NULL, 403, &bad);
	proxied(f, key, team, "POST", "api/proxy/request", "{}", 400, &nest);
	as_refused(f, &nobody, "POST", "/api/cli/teams", "{\"data\":{\"accessToken\":\"pando_x\"}}",
	           401, "UNAUTHORIZED_ERROR");
	/* It is a key like any other. */
	fx_call(f, "GET", "/v1/keys", NULL, 200, &keys);
	assert_non_null(strstr(keys.body, "freestyle CLI"));
	snprintf(path, sizeof(path), "/v1/keys/%s",
	         fx_str(json_array_get(json_object_get(keys.json, "keys"), 1), "id"));
	fx_call(f, "DELETE", path, NULL, 200, &gone);
	proxied(f, key, team, "GET", "v1/vms", NULL, 401, &over);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(a_person_confirms_a_program),
		T(what_is_denied_or_too_old_gets_nothing),
		T(an_address_has_so_many_and_guesses_are_counted),
		T(the_freestyle_cli_logs_in),
#undef T
	};

	return FX_RUN(tests);
}
