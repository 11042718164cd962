/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_session.c - web sessions: sign in, cookies, pages elsewhere, expiry, what ends them */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "tests/unit/api_web.h"

static void with(const struct browser *b, bool token, const char *more, struct acting *ret)
{
	snprintf(ret->header, sizeof(ret->header), "%s%s%s%s%s", b->cookie,
	         token ? "x-pando-csrf: " : "", token ? b->csrf : "", token ? "\r\n" : "", more);
}

static void is_over(struct fx *f, const struct browser *b)
{
	as_refused(f, &b->look, "GET", "/v1/session", NULL, 401, "UNAUTHORIZED");
	as_refused(f, &b->look, "GET", "/v1/vms", NULL, 401, "UNAUTHORIZED");
}

static void works(struct fx *f, const struct browser *b)
{
	autoreply struct http_reply r = { 0 };

	as_call(f, &b->look, "GET", "/v1/session", NULL, 200, &r);
}

static void a_key_becomes_a_cookie(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply s = { 0 }, who = { 0 }, mine = { 0 }, none = { 0 }, key = { 0 },
	                            list = { 0 };
	struct acting op, nobody = { "" };
	struct browser b;

	web_operator(f, &op);
	as_refused(f, &nobody, "GET", "/v1/session", NULL, 401, "UNAUTHORIZED_ERROR");
	web_sign_in_with(f, &op, "User-Agent: Lynx\x01 2\r\n", &b);
	assert_non_null(strstr(b.cookie, "Cookie: pando_session=pandows_"));
	as_call(f, &b.look, "GET", "/v1/session", NULL, 200, &s);
	assert_string_equal(fx_str(s.json, "csrf"), b.csrf);
	assert_true(json_is_true(json_object_get(s.json, "operator")));
	assert_true(json_is_null(json_object_get(s.json, "identity")));
	assert_true(json_is_null(json_object_get(s.json, "actingAs")));
	assert_true(json_is_string(json_object_get(s.json, "expiresAt")));
	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &who);
	as_call(f, &b.look, "GET", "/auth/v1/whoami", NULL, 200, &mine);
	assert_string_equal(fx_str(who.json, "accountId"), fx_str(mine.json, "accountId"));
	assert_string_equal(fx_str(json_object_get(s.json, "account"), "id"),
	                    fx_str(who.json, "accountId"));
	/* A key in a header is not a session: there is no token, and none is needed. */
	fx_call(f, "GET", "/v1/session", NULL, 200, &key);
	assert_true(json_is_null(json_object_get(key.json, "csrf")));
	as_call(f, &b.look, "GET", "/v1/sessions", NULL, 200, &list);
	assert_int_equal(json_array_size(json_object_get(list.json, "sessions")), 1);
	assert_non_null(strstr(list.body, "\"client\":\"Lynx? 2\""));
	assert_non_null(strstr(list.body, "\"address\":\"127.0.0.1\""));
	assert_null(strstr(list.body, "pandows_"));
	fx_refused(f, "DELETE", "/v1/session", NULL, 400, "BAD_REQUEST", "no session");
	as_call(f, &b.act, "DELETE", "/v1/session", NULL, 200, &none);
	assert_non_null(strstr(http_header(&none, "set-cookie"), "pando_session=; "));
	assert_non_null(strstr(http_header(&none, "set-cookie"), "Max-Age=0"));
	is_over(f, &b);
}

static void over_https_the_cookie_is_for_this_host_only(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	struct acting op, plain;
	struct browser b;

	web_operator(f, &op);
	web_sign_in_with(f, &op, "X-Forwarded-Proto: https\r\n", &b);
	assert_non_null(strstr(b.cookie, "Cookie: __Host-pando_session=pandows_"));
	with(&b, false, "X-Forwarded-Proto: https\r\n", &plain);
	as_call(f, &plain, "GET", "/v1/session", NULL, 200, &r);
	/* One that a page below the domain could have planted does not count there. */
	snprintf(plain.header, sizeof(plain.header), "X-Forwarded-Proto: https\r\nCookie: %s",
	         strstr(b.cookie, "pando_session"));
	as_refused(f, &plain, "GET", "/v1/session", NULL, 401, "UNAUTHORIZED_ERROR");
}

static void of_two_cookies_none_counts(void **state)
{
	struct fx *f = *state;
	struct acting op, both;
	struct browser b;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	snprintf(both.header, sizeof(both.header), "Cookie: a=b; pando_session=x; %s",
	         b.cookie + strlen("Cookie: "));
	as_refused(f, &both, "GET", "/v1/vms", NULL, 401, "UNAUTHORIZED");
	snprintf(both.header, sizeof(both.header),
	         "Cookie: pando_session=pandows_"
	         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
	as_refused(f, &both, "GET", "/v1/vms", NULL, 401, "UNAUTHORIZED");
	works(f, &b);
}

static void changes_need_the_token(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, mcp = { 0 };
	struct acting op, wrong, json;
	struct browser b, other;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	web_sign_in(f, &op, &other);
	as_refused(f, &b.look, "POST", "/v1/keys", "{}", 403, "CSRF_TOKEN_INVALID");
	as_refused(f, &b.look, "DELETE", "/v1/session", NULL, 403, "CSRF_TOKEN_INVALID");
	as_refused(f, &b.look, "DELETE", "/v1/sessions", NULL, 403, "CSRF_TOKEN_INVALID");
	as_refused(f, &b.look, "POST", "/mcp", "{}", 403, "CSRF_TOKEN_INVALID");
	snprintf(wrong.header, sizeof(wrong.header), "%sx-pando-csrf: %s\r\n", b.cookie,
	         other.csrf);
	as_refused(f, &wrong, "POST", "/v1/keys", "{}", 403, "CSRF_TOKEN_INVALID");
	as_call(f, &b.act, "POST", "/v1/keys", "{\"name\":\"x\"}", 200, &r);
	with(&b, true, "Content-Type: application/json\r\nAccept: application/json\r\n", &json);
	as_call(f, &json, "POST", "/mcp", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", 200,
	        &mcp);
}

static void pages_elsewhere_cannot_use_it(void **state)
{
	static const char *const foreign[] = {
		"Origin: http://evil.example\r\n",
		"Origin: null\r\n",
		"Origin: https://localhost\r\n",
		"Origin: http://localhost.evil.example\r\n",
		"Origin: http://vm.localhost\r\n",
		"Sec-Fetch-Site: cross-site\r\n",
		"Sec-Fetch-Site: same-site\r\n",
		"Origin: http://localhost\r\nSec-Fetch-Site: same-site\r\n",
	};
	static const char *const own[] = { "Sec-Fetch-Site: same-origin\r\n",
		                           "Sec-Fetch-Site: none\r\n", "" };
	struct fx *f = *state;
	struct acting op, page;
	struct browser b;
	char body[128], origin[96];

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		with(&b, true, foreign[i], &page);
		as_refused(f, &page, "GET", "/v1/vms", NULL, 403, "CROSS_SITE_REQUEST");
		as_refused(f, &page, "POST", "/v1/keys", "{}", 403, "CROSS_SITE_REQUEST");
	}
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		autoreply struct http_reply r = { 0 }, made = { 0 };

		snprintf(origin, sizeof(origin), "Origin: http://localhost\r\n%s", own[i]);
		with(&b, true, origin, &page);
		as_call(f, &page, "GET", "/v1/vms", NULL, 200, &r);
		as_call(f, &page, "POST", "/v1/keys", "{\"name\":\"x\"}", 200, &made);
	}
	/* Nor can they sign somebody in to an account of theirs. */
	snprintf(body, sizeof(body), "{\"credential\":\"%s\"}", f->key);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		snprintf(page.header, sizeof(page.header), "%s", foreign[i]);
		as_refused(f, &page, "POST", "/v1/session", body, 403, "CROSS_SITE_REQUEST");
	}
}

static void a_terminal_checks_the_page(void **state)
{
	static const char ws[] = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-"
	                         "Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
	struct fx *f = *state;
	autoreply struct http_reply t = { 0 };
	char vm[32], path[96], text[1024];
	struct acting op;
	struct browser b;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	fx_vm(f, vm);
	snprintf(path, sizeof(path), "/v1/vms/%s/pty", vm);
	for (int i = 0; i < 4; i++) {
		autoreply struct http_reply r = { 0 };
		char origin[96] = "";
		int fd = http_connect(f->port, 20000);

		if (i == 1)
			snprintf(origin, sizeof(origin), "Origin: http://evil.example\r\n");
		if (i >= 2)
			snprintf(origin, sizeof(origin), "Origin: http://127.0.0.1:%u\r\n",
			         f->port);
		snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s%s%s\r\n",
		         path, f->port, ws, i < 3 ? b.cookie : "", origin);
		assert_true(http_send(fd, text, strlen(text)));
		assert_int_equal(http_receive(fd, &r), 0);
		if (r.status != (i == 2 ? 101 : i == 3 ? 401 : 403))
			fail_msg("%d: %d %s", i, r.status, r.body);
		if (i == 2) { /* and it ends with the session */
			struct pollfd p = { .fd = fd, .events = POLLRDHUP };
			autoreply struct http_reply out = { 0 }, ticket = { 0 };

			snprintf(path, sizeof(path), "/v1/vms/%s/pty/tickets", vm);
			as_refused(f, &b.look, "POST", path, "{}", 403, "CSRF_TOKEN_INVALID");
			as_call(f, &b.act, "POST", path, "{}", 200, &ticket);
			as_call(f, &b.act, "DELETE", "/v1/session", NULL, 200, &out);
			assert_int_equal(poll(&p, 1, 20000), 1);
			/* The ticket, too. */
			snprintf(path, sizeof(path), "/v1/vms/%s/pty?ticket=%s", vm,
			         fx_str(ticket.json, "ticket"));
		}
		close(fd);
	}
}

static void sessions_expire(void **state)
{
	struct fx *f = *state;
	struct acting op;
	struct browser idle, old;

	web_operator(f, &op);
	web_sign_in(f, &op, &idle);
	works(f, &idle);
	f->auth->session_idle_ms = -1;
	is_over(f, &idle);
	f->auth->session_idle_ms = AUTH_SESSION_IDLE_MS;
	works(f, &idle); /* it was only the clock */
	web_sign_in(f, &op, &old);
	f->auth->session_max_ms = -1;
	is_over(f, &old);
	sessions_tend(f->auth);
	f->auth->session_max_ms = AUTH_SESSION_MAX_MS;
	is_over(f, &old); /* now it is gone, from the store as well */
	{
		autofree struct store_session *v = NULL;
		size_t n = 1;

		OK(store_session_list(f->store, &v, &n, &err));
		assert_int_equal(n, 0);
	}
}

static void a_use_prolongs_it(void **state)
{
	struct fx *f = *state;
	autofree struct store_session *v = NULL;
	struct acting op;
	struct browser b;
	size_t n = 0;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	rwlock_wrlock(&f->auth->creds_lock);
	for (unsigned i = 0; i < SESSION_BUCKETS; i++)
		for (struct session *s = f->auth->sessions[i]; s; s = s->next) {
			s->row.used_ms -= AUTH_SESSION_IDLE_MS - 60000;
			atomic_store(&s->used_ms, s->row.used_ms);
		}
	rwlock_unlock(&f->auth->creds_lock);
	works(f, &b);
	sessions_tend(f->auth);
	OK(store_session_list(f->store, &v, &n, &err));
	assert_int_equal(n, 1);
	assert_true(v[0].used_ms >= v[0].created_ms);
	/* The server starts again: an auth of its own over the same store. */
	{
		struct auth *again = NULL;
		struct auth_who who;
		char secret[AUTH_SECRET_SIZE];

		OK(auth_open(f->store, f->dir.path, &again, NULL, &err));
		assert_int_equal(sscanf(b.cookie, "Cookie: pando_session=%48[^\r]", secret), 1);
		OK(auth_session_check(again, secret, &who, &err));
		assert_true(*who.session && (who.scopes & SCOPE_ADMIN));
		auth_close(again);
	}
}

static void it_ends_with_its_key(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply made = { 0 }, gone = { 0 };
	struct acting key;
	struct browser b;
	char path[96];

	fx_call(f, "POST", "/v1/keys", "{\"name\":\"laptop\"}", 200, &made);
	snprintf(key.header, sizeof(key.header), "Authorization: Bearer %s\r\n",
	         fx_str(made.json, "key"));
	web_sign_in(f, &key, &b);
	works(f, &b);
	snprintf(path, sizeof(path), "/v1/keys/%s", fx_str(made.json, "id"));
	fx_call(f, "DELETE", path, NULL, 200, &gone);
	is_over(f, &b);
}

static void it_has_the_rights_of_its_token_and_ends_with_it(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply idn = { 0 }, tok = { 0 }, grant = { 0 }, gone = { 0 },
	                            s = { 0 }, one = { 0 };
	char path[160], mine[32], other[32];
	struct acting token;
	struct browser b;

	fx_vm(f, mine);
	fx_vm(f, other);
	fx_call(f, "POST", "/identity/v1/identities", "{}", 200, &idn);
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens", fx_str(idn.json, "id"));
	fx_call(f, "POST", path, "{}", 200, &tok);
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/permissions/vm/%s",
	         fx_str(idn.json, "id"), mine);
	fx_call(f, "POST", path, "{}", 200, &grant);
	snprintf(token.header, sizeof(token.header), "Authorization: Bearer %s\r\n",
	         fx_str(tok.json, "token"));
	web_sign_in(f, &token, &b);
	as_call(f, &b.look, "GET", "/v1/session", NULL, 200, &s);
	assert_string_equal(fx_str(json_object_get(s.json, "identity"), "id"),
	                    fx_str(idn.json, "id"));
	assert_true(json_is_false(json_object_get(s.json, "operator")));
	snprintf(path, sizeof(path), "/v1/vms/%s", mine);
	as_call(f, &b.look, "GET", path, NULL, 200, &one);
	snprintf(path, sizeof(path), "/v1/vms/%s", other);
	as_refused(f, &b.look, "GET", path, NULL, 403, "VM_ACCESS_DENIED");
	as_refused(f, &b.act, "POST", "/v1/keys", "{}", 403, "FORBIDDEN");
	as_refused(f, &b.act, "PUT", "/v1/session/account", "{\"accountId\":null}", 403,
	           "FORBIDDEN");
	snprintf(path, sizeof(path), "/identity/v1/identities/%s", fx_str(idn.json, "id"));
	fx_call(f, "DELETE", path, NULL, 200, &gone);
	is_over(f, &b);
}

static void sign_out_everywhere(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, none = { 0 };
	struct acting op, stranger;
	struct browser a, b, other;

	web_operator(f, &op);
	acting_account(f, &stranger);
	web_sign_in(f, &op, &a);
	web_sign_in(f, &op, &b);
	web_sign_in(f, &stranger, &other);
	as_call(f, &a.act, "DELETE", "/v1/sessions", NULL, 200, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "ended")), 2);
	assert_non_null(strstr(http_header(&r, "set-cookie"), "Max-Age=0"));
	is_over(f, &a);
	is_over(f, &b);
	works(f, &other);
	as_call(f, &stranger, "DELETE", "/v1/sessions", NULL, 200, &none); /* with the key */
	is_over(f, &other);
}

static void one_session_is_ended(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, own = { 0 };
	struct acting op, stranger;
	struct browser a, b, other;
	char path[120];

	web_operator(f, &op);
	acting_account(f, &stranger);
	web_sign_in(f, &op, &a);
	web_sign_in(f, &op, &b);
	web_sign_in(f, &stranger, &other);
	as_call(f, &b.look, "GET", "/v1/session", NULL, 200, &r);
	snprintf(path, sizeof(path), "/v1/sessions/%s", fx_str(r.json, "sessionId"));
	as_refused(f, &other.act, "DELETE", path, NULL, 404, "NOT_FOUND");
	as_refused(f, &stranger, "DELETE", path, NULL, 404, "NOT_FOUND");
	as_refused(f, &a.look, "DELETE", path, NULL, 403, "CSRF_TOKEN_INVALID");
	works(f, &b);
	http_reply_done(&r);
	as_call(f, &a.act, "DELETE", path, NULL, 200, &r);
	assert_null(http_header(&r, "set-cookie")); /* not the browser's own */
	is_over(f, &b);
	works(f, &a);
	works(f, &other);
	as_refused(f, &a.act, "DELETE", path, NULL, 404, "NOT_FOUND");
	as_call(f, &a.look, "GET", "/v1/session", NULL, 200, &own);
	snprintf(path, sizeof(path), "/v1/sessions/%s", fx_str(own.json, "sessionId"));
	http_reply_done(&r);
	as_call(f, &a.act, "DELETE", path, NULL, 200, &r);
	assert_non_null(strstr(http_header(&r, "set-cookie"), "Max-Age=0"));
	is_over(f, &a);
	http_reply_done(&own);
	as_call(f, &stranger, "DELETE", "/v1/sessions", NULL, 200, &own); /* with the key */
}

/* The newest record of the audit log about that route. */
static json_t *newest(struct fx *f, const char *route, struct http_reply *r)
{
	char path[160];

	snprintf(path, sizeof(path), "/v1/audit?limit=1&action=%s", route);
	fx_call(f, "GET", path, NULL, 200, r);
	return json_array_get(json_object_get(r->json, "records"), 0);
}

static void the_operator_acts_as_another_account(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply acc = { 0 }, s = { 0 }, vm = { 0 }, list = { 0 }, log = { 0 },
	                            own = { 0 }, all = { 0 }, once = { 0 }, gone = { 0 },
	                            again = { 0 }, d = { 0 };
	char body[96], path[96], me[64];
	struct acting op, other;
	struct browser b, o;
	json_t *rec;

	web_operator(f, &op);
	fx_call(f, "POST", "/v1/accounts", "{\"name\":\"acme\"}", 200, &acc);
	acting_key(f, fx_str(acc.json, "id"), &other);
	web_sign_in(f, &op, &b);
	web_sign_in(f, &other, &o);
	snprintf(body, sizeof(body), "{\"accountId\":\"%s\"}", fx_str(acc.json, "id"));
	as_refused(f, &o.act, "PUT", "/v1/session/account", body, 403, "FORBIDDEN");
	as_refused(f, &op, "PUT", "/v1/session/account", body, 400, "BAD_REQUEST");
	as_refused(f, &b.act, "PUT", "/v1/session/account", "{}", 400, "INVALID_PARAMETERS");
	as_refused(f, &b.act, "PUT", "/v1/session/account", "{\"accountId\":\"nobody\"}", 404,
	           "NOT_FOUND");
	as_call(f, &b.act, "PUT", "/v1/session/account", body, 200, &s);
	assert_string_equal(fx_str(json_object_get(s.json, "actingAs"), "name"), "acme");
	snprintf(me, sizeof(me), "%s", fx_str(json_object_get(s.json, "account"), "id"));
	assert_string_not_equal(me, fx_str(acc.json, "id"));
	as_call(f, &b.act, "POST", "/v1/vms", "{}", 200, &vm);
	as_call(f, &other, "GET", "/v1/vms", NULL, 200, &list);
	assert_non_null(strstr(list.body, fx_str(vm.json, "id"))); /* it is theirs */
	rec = newest(f, "/v1/vms", &log);
	assert_string_equal(fx_str(rec, "accountId"), fx_str(acc.json, "id"));
	assert_string_equal(fx_str(rec, "operatorAccountId"), me);
	as_call(f, &b.look, "GET", "/v1/audit", NULL, 200, &own); /* that account's */
	assert_null(strstr(own.body, "\"route\":\"/v1/accounts\""));
	as_call(f, &b.look, "GET", "/v1/accounts", NULL, 200, &all); /* to choose another */
	snprintf(path, sizeof(path), "/v1/vms/%s", fx_str(vm.json, "id"));
	as_call(f, &b.act, "DELETE", path, NULL, 200, &d);
	as_call(f, &b.act, "PUT", "/v1/session/account", "{\"accountId\":null}", 200, &again);
	assert_true(json_is_null(json_object_get(again.json, "actingAs")));
	/* The account is deleted: the session does not become the operator's own by itself. */
	as_call(f, &b.act, "PUT", "/v1/session/account", body, 200, &once);
	snprintf(path, sizeof(path), "/v1/accounts/%s", fx_str(acc.json, "id"));
	fx_call(f, "DELETE", path, NULL, 200, &gone);
	is_over(f, &b);
	is_over(f, &o);
}

static void there_are_so_many_of_a_key(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply list = { 0 };
	struct browser first, second, b;
	struct acting op;

	web_operator(f, &op);
	web_sign_in(f, &op, &first);
	web_sign_in(f, &op, &second);
	usleep(2000);
	works(f, &first); /* so the other is the one used least recently */
	for (int i = 0; i < AUTH_SESSIONS_PER_KEY - 1; i++)
		web_sign_in(f, &op, &b);
	as_call(f, &b.look, "GET", "/v1/sessions", NULL, 200, &list);
	assert_int_equal(json_array_size(json_object_get(list.json, "sessions")),
	                 AUTH_SESSIONS_PER_KEY);
	is_over(f, &second);
	works(f, &first);
	{ /* signing in again with the same browser replaces its session */
		struct browser next;

		web_sign_in_with(f, &op, b.cookie, &next);
		is_over(f, &b);
		works(f, &next);
	}
}

static void wrong_keys_are_counted(void **state)
{
	struct fx *f = *state;
	static const char wrong[] =
	        "{\"credential\":\"pando_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
	struct acting op, nobody = { "" };
	struct browser b;
	int status = 0;

	web_operator(f, &op);
	as_refused(f, &nobody, "POST", "/v1/session", "{\"credential\":7}", 400,
	           "INVALID_PARAMETERS");
	as_refused(f, &nobody, "POST", "/v1/session", wrong, 401, "UNAUTHORIZED_ERROR");
	for (int i = 0; i < 20 * AUTH_FAIL_BURST && status != 429; i++) {
		autoreply struct http_reply r = { 0 };

		assert_int_equal(
		        http_call(f->port, "POST", "/v1/session", NULL, wrong, strlen(wrong), &r),
		        0);
		status = r.status;
	}
	assert_int_equal(status, 429);
	web_sign_in(f, &op, &b); /* a good one works from any address at any time */
	works(f, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(a_key_becomes_a_cookie),
		T(over_https_the_cookie_is_for_this_host_only),
		T(of_two_cookies_none_counts),
		T(changes_need_the_token),
		T(pages_elsewhere_cannot_use_it),
		T(a_terminal_checks_the_page),
		T(sessions_expire),
		T(a_use_prolongs_it),
		T(it_ends_with_its_key),
		T(it_has_the_rights_of_its_token_and_ends_with_it),
		T(sign_out_everywhere),
		T(one_session_is_ended),
		T(the_operator_acts_as_another_account),
		T(there_are_so_many_of_a_key),
		T(wrong_keys_are_counted),
#undef T
	};

	return FX_RUN(tests);
}
