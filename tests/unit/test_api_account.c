/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_account.c - accounts, keys, the audit log, browsers and failed attempts, over HTTP */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "tests/unit/api_as.h"

static void an_account_from_first_to_last(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply made = { 0 }, got = { 0 }, list = { 0 }, r = { 0 },
	                            gone = { 0 };
	struct acting other;
	char path[96];

	fx_call(f, "POST", "/v1/accounts", "{\"name\":\"acme\",\"quotas\":{\"vms\":3}}", 200,
	        &made);
	assert_string_equal(fx_str(made.json, "name"), "acme");
	assert_true(json_is_false(json_object_get(made.json, "admin")));
	assert_int_equal(number_at(made.json, "quotas", "vms"), 3);
	assert_true(json_is_null(json_object_get(json_object_get(made.json, "quotas"), "vcpus")));
	assert_int_equal(number_at(made.json, "usage", "vms"), 0);
	snprintf(path, sizeof(path), "/v1/accounts/%s", fx_str(made.json, "id"));
	fx_call(f, "PATCH", path, "{\"quotas\":{\"vms\":null,\"memoryMb\":-1}}", 200, &got);
	assert_true(json_is_null(json_object_get(json_object_get(got.json, "quotas"), "vms")));
	assert_int_equal(number_at(got.json, "quotas", "memoryMb"), -1);
	assert_string_equal(fx_str(got.json, "name"), "acme");
	fx_call(f, "GET", "/v1/accounts", NULL, 200, &list);
	assert_int_equal(json_array_size(json_object_get(list.json, "accounts")), 2);
	acting_key(f, fx_str(made.json, "id"), &other);
	as_refused(f, &other, "GET", path, NULL, 403, "FORBIDDEN"); /* not even its own */
	as_refused(f, &other, "POST", "/v1/accounts", "{\"name\":\"x\"}", 403, "FORBIDDEN");
	as_call(f, &other, "POST", "/v1/vms", "{}", 200, &r);
	fx_refused(f, "DELETE", path, NULL, 409, "CONFLICT", "");
	{
		char vm[64];
		autoreply struct http_reply d = { 0 };

		snprintf(vm, sizeof(vm), "/v1/vms/%s", fx_str(r.json, "id"));
		fx_refused(f, "DELETE", vm, NULL, 404, "VM_NOT_FOUND",
		           ""); /* the operator either */
		as_call(f, &other, "DELETE", vm, NULL, 200, &d);
	}
	fx_call(f, "DELETE", path, NULL, 200, &gone);
	as_refused(f, &other, "GET", "/auth/v1/whoami", NULL, 401, "UNAUTHORIZED_ERROR");
	fx_refused(f, "GET", path, NULL, 404, "NOT_FOUND", "no account");
	fx_refused(f, "DELETE", path, NULL, 404, "NOT_FOUND", "no account");
}

static void bodies_are_checked(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply who = { 0 };
	char path[96];

	fx_refused(f, "POST", "/v1/accounts", "{}", 400, "INVALID_PARAMETERS", "'name'");
	fx_refused(f, "POST", "/v1/accounts", "{\"name\":7}", 400, "INVALID_PARAMETERS", "'name'");
	fx_refused(f, "POST", "/v1/accounts", "{\"name\":\"a\",\"quotas\":{\"vms\":-2}}", 400,
	           "INVALID_PARAMETERS", "'quotas.vms'");
	fx_refused(f, "POST", "/v1/accounts", "{\"name\":\"a\",\"quotas\":[]}", 400,
	           "INVALID_PARAMETERS", "'quotas'");
	fx_refused(f, "POST", "/v1/keys", "{\"name\":[]}", 400, "INVALID_PARAMETERS", "'name'");
	fx_refused(f, "POST", "/v1/keys?accountId=nobody", "{}", 404, "NOT_FOUND", "no account");
	fx_refused(f, "DELETE", "/v1/keys/nonsense", NULL, 404, "NOT_FOUND", "");
	fx_refused(f, "DELETE", "/v1/keys/ak-aaaaaaaaaaaaaaaaaaaa", NULL, 404, "NOT_FOUND", "");
	fx_refused(f, "GET", "/v1/audit?limit=1001", NULL, 400, "INVALID_PARAMETERS", "'limit'");
	fx_refused(f, "GET", "/v1/audit?before=yesterday", NULL, 400, "INVALID_PARAMETERS",
	           "'before'");
	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &who);
	snprintf(path, sizeof(path), "/v1/accounts/%s", fx_str(who.json, "accountId"));
	fx_refused(f, "DELETE", path, NULL, 409, "CONFLICT", "operator");
}

static void keys_are_shown_once_and_revoked_at_once(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply made = { 0 }, list = { 0 }, gone = { 0 }, first = { 0 },
	                            second = { 0 };
	struct acting key;
	char path[96], text[512];
	int fd;

	fx_call(f, "POST", "/v1/keys", "{\"name\":\"ci\"}", 200, &made);
	snprintf(key.header, sizeof(key.header), "Authorization: Bearer %s\r\n",
	         fx_str(made.json, "key"));
	fx_call(f, "GET", "/v1/keys", NULL, 200, &list);
	assert_int_equal(json_array_size(json_object_get(list.json, "keys")), 2);
	assert_null(strstr(list.body, "pando_"));
	assert_non_null(strstr(list.body, fx_str(made.json, "id")));
	/* Even for an open connection. */
	fd = http_connect(f->port, 10000);
	assert_true(fd >= 0);
	snprintf(text, sizeof(text), "GET /auth/v1/whoami HTTP/1.1\r\nHost: x\r\n%s\r\n",
	         key.header);
	assert_true(http_send(fd, text, strlen(text)));
	assert_int_equal(http_receive(fd, &first), 0);
	assert_int_equal(first.status, 200);
	snprintf(path, sizeof(path), "/v1/keys/%s", fx_str(made.json, "id"));
	fx_call(f, "DELETE", path, NULL, 200, &gone);
	assert_true(http_send(fd, text, strlen(text)));
	assert_int_equal(http_receive(fd, &second), 0);
	assert_int_equal(second.status, 401);
	close(fd);
}

static void the_operator_makes_keys_for_others(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply made = { 0 }, who = { 0 }, list = { 0 };
	struct acting other;
	char path[128];

	fx_call(f, "POST", "/v1/accounts", "{\"name\":\"other\"}", 200, &made);
	acting_key(f, fx_str(made.json, "id"), &other);
	as_call(f, &other, "GET", "/auth/v1/whoami", NULL, 200, &who);
	assert_string_equal(fx_str(who.json, "accountId"), fx_str(made.json, "id"));
	as_call(f, &other, "GET", "/v1/keys", NULL, 200, &list);
	assert_int_equal(json_array_size(json_object_get(list.json, "keys")), 1);
	snprintf(path, sizeof(path), "/v1/keys?accountId=%s", fx_str(made.json, "id"));
	as_refused(f, &other, "GET", "/v1/keys?accountId=nobody", NULL, 403, "FORBIDDEN");
	fx_refused(f, "GET", "/v1/keys?accountId=nobody", NULL, 404, "NOT_FOUND", "");
	{
		autoreply struct http_reply r = { 0 };

		as_call(f, &other, "GET", path, NULL, 200, &r); /* naming oneself is fine */
	}
}

static const json_t *last_record(struct http_reply *r)
{
	return json_array_get(json_object_get(r->json, "records"), 0);
}

static void what_was_done_is_on_record(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, vm = { 0 }, key = { 0 }, none = { 0 }, fail = { 0 },
	                            mine = { 0 }, made = { 0 };
	struct acting other;
	const json_t *a;
	char path[256];

	fx_call(f, "POST", "/v1/vms", "{\"name\":\"secret-name\"}", 200, &vm);
	fx_call(f, "GET", "/v1/audit", NULL, 200, &r);
	a = last_record(&r);
	assert_string_equal(fx_str(a, "method"), "POST");
	assert_string_equal(fx_str(a, "route"), "/v1/vms");
	assert_string_equal(fx_str(a, "target"), fx_str(vm.json, "id"));
	assert_string_equal(fx_str(a, "remote"), "127.0.0.1");
	assert_string_equal(fx_str(a, "traceId"), http_header(&vm, "x-freestyle-trace-id"));
	assert_memory_equal(fx_str(a, "keyId"), "ak-", 3);
	assert_int_equal(json_integer_value(json_object_get(a, "status")), 200);
	assert_null(strstr(r.body, "secret-name"));
	http_reply_done(&r);
	/* Reads are not recorded, failures are. */
	fx_call(f, "GET", "/v1/vms", NULL, 200, &none);
	fx_refused(f, "DELETE", "/v1/vms/nothinglikethis", NULL, 404, "VM_NOT_FOUND", "");
	fx_call(f, "GET", "/v1/audit?limit=1&target=nothinglikethis", NULL, 200, &r);
	assert_string_equal(fx_str(last_record(&r), "code"), "VM_NOT_FOUND");
	assert_int_equal(json_array_size(json_object_get(r.json, "records")), 1);
	http_reply_done(&r);
	/* Nor is a secret, wherever it was put. */
	snprintf(path, sizeof(path), "/v1/keys/%s", f->key);
	fx_refused(f, "DELETE", path, NULL, 404, "NOT_FOUND", "");
	fx_call(f, "POST", "/v1/keys", "{}", 200, &key);
	fx_call(f, "GET", "/v1/audit", NULL, 200, &r);
	assert_null(strstr(r.body, f->key + 10));
	assert_null(strstr(r.body, fx_str(key.json, "key") + 6));
	http_reply_done(&r);
	/* A failed attempt, without an account. */
	assert_int_equal(http_call(f->port, "GET", "/auth/v1/whoami", "", NULL, 0, &fail), 0);
	fx_call(f, "GET", "/v1/audit?limit=1", NULL, 200, &r);
	assert_string_equal(fx_str(last_record(&r), "code"), "UNAUTHORIZED_ERROR");
	assert_true(json_is_null(json_object_get(last_record(&r), "accountId")));
	/* Other accounts see their own. */
	fx_call(f, "POST", "/v1/accounts", "{\"name\":\"other\"}", 200, &made);
	acting_key(f, fx_str(made.json, "id"), &other);
	as_call(f, &other, "GET", "/v1/audit", NULL, 200, &mine);
	assert_int_equal(json_array_size(json_object_get(mine.json, "records")), 0);
	http_reply_done(&mine);
	{
		autoreply struct http_reply own = { 0 };

		as_call(f, &other, "POST", "/identity/v1/identities", NULL, 200, &own);
		as_call(f, &other, "GET", "/v1/audit", NULL, 200, &mine);
		assert_int_equal(json_array_size(json_object_get(mine.json, "records")), 1);
		assert_string_equal(fx_str(last_record(&mine), "target"), fx_str(own.json, "id"));
	}
}

static void records_are_paged(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply page = { 0 }, next = { 0 }, time = { 0 };
	json_int_t last;
	char path[96];

	for (int i = 0; i < 5; i++) {
		autoreply struct http_reply r = { 0 };

		fx_call(f, "POST", "/identity/v1/identities", NULL, 200, &r);
	}
	fx_call(f, "GET", "/v1/audit?limit=3", NULL, 200, &page);
	assert_int_equal(json_array_size(json_object_get(page.json, "records")), 3);
	last = json_integer_value(
	        json_object_get(json_array_get(json_object_get(page.json, "records"), 2), "id"));
	snprintf(path, sizeof(path), "/v1/audit?before=%lld", (long long)last);
	fx_call(f, "GET", path, NULL, 200, &next);
	assert_int_equal(json_array_size(json_object_get(next.json, "records")), 2);
	fx_call(f, "GET", "/v1/audit?after=2999-01-01T00:00:00Z", NULL, 200, &time);
	assert_int_equal(json_array_size(json_object_get(time.json, "records")), 0);
	http_reply_done(&time);
	fx_call(f, "GET",
	        "/v1/audit?after=2001-01-01T00:00:00.123Z&before=2999-01-01T00:00:00Z"
	        "&action=POST%20%2Fidentity%2Fv1%2Fidentities",
	        NULL, 200, &time);
	assert_int_equal(json_array_size(json_object_get(time.json, "records")), 5);
}

static void failures_are_bounded_and_good_keys_are_not(void **state)
{
	struct fx *f = *state;
	unsigned unauthorized = 0, limited = 0;
	autoreply struct http_reply good = { 0 };

	for (int i = 0; i < 130; i++) {
		autoreply struct http_reply r = { 0 };

		assert_int_equal(http_call(f->port, "GET", "/auth/v1/whoami",
		                           "Authorization: Bearer nonsense\r\n", NULL, 0, &r),
		                 0);
		assert_string_equal(fx_str(r.json, "code"), "UNAUTHORIZED_ERROR");
		unauthorized += r.status == 401;
		limited += r.status == 429;
		if (r.status == 429)
			assert_non_null(http_header(&r, "retry-after"));
	}
	assert_int_equal(unauthorized + limited, 130);
	assert_true(unauthorized >= 100 && limited >= 1);
	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &good);
}

static void origin(struct fx *f, const char *policy, const char *asks, const char *answer)
{
	autoreply struct http_reply pre = { 0 }, get = { 0 };
	char headers[256];

	snprintf(f->conf.cors_origins, sizeof(f->conf.cors_origins), "%s", policy);
	snprintf(headers, sizeof(headers),
	         "Origin: %s\r\nAccess-Control-Request-Method: PUT\r\n"
	         "Access-Control-Request-Headers: user-agent\r\n",
	         asks);
	assert_int_equal(http_call(f->port, "OPTIONS", "/v1/vms/x/files/y", headers, NULL, 0, &pre),
	                 0);
	assert_int_equal(pre.status, 204);
	snprintf(headers, sizeof(headers), "Origin: %s\r\n%s", asks, f->auth_header);
	assert_int_equal(http_call(f->port, "GET", "/auth/v1/whoami", headers, NULL, 0, &get), 0);
	assert_int_equal(get.status, 200);
	if (!answer) {
		assert_null(http_header(&pre, "access-control-allow-origin"));
		assert_null(http_header(&get, "access-control-allow-origin"));
		assert_non_null(http_header(&get, "vary"));
		return;
	}
	assert_string_equal(http_header(&pre, "access-control-allow-origin"), answer);
	assert_non_null(strstr(http_header(&pre, "access-control-allow-methods"), "DELETE"));
	assert_non_null(strstr(http_header(&pre, "access-control-allow-headers"), "User-Agent"));
	assert_non_null(strstr(http_header(&pre, "access-control-allow-headers"),
	                       "X-Freestyle-Identity-Access-Token"));
	assert_non_null(http_header(&pre, "vary"));
	assert_string_equal(http_header(&get, "access-control-allow-origin"), answer);
	assert_non_null(strstr(http_header(&get, "access-control-expose-headers"),
	                       "x-freestyle-background-request-id"));
}

static void pages_are_let_in_by_origin(void **state)
{
	struct fx *f = *state;

	origin(f, "*", "https://app.example", "*");
	origin(f, "https://a.example https://b.example", "https://b.example", "https://b.example");
	origin(f, "https://a.example https://b.example", "https://c.example", NULL);
	origin(f, "https://a.example", "https://a.example.evil", NULL);
	origin(f, "none", "https://a.example", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(an_account_from_first_to_last),
		T(bodies_are_checked),
		T(keys_are_shown_once_and_revoked_at_once),
		T(the_operator_makes_keys_for_others),
		T(what_was_done_is_on_record),
		T(records_are_paged),
		T(failures_are_bounded_and_good_keys_are_not),
		T(pages_are_let_in_by_origin),
	};

	return FX_RUN(tests);
}
