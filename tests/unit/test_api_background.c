/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_background.c - requests that outlive their connection, and those that may be repeated */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "tests/unit/api_as.h"
#include "tests/unit/api_fx.h"

#define SLOW "{\"name\":\"slow\"}"

static void call_with(struct fx *f, const char *method, const char *path, const char *header,
                      const char *body, int want, struct http_reply *ret)
{
	char headers[512];

	snprintf(headers, sizeof(headers), "%s%s", f->auth_header, header);
	if (http_call(f->port, method, path, headers, body, body ? strlen(body) : 0, ret) < 0)
		fail_msg("%s %s: no reply", method, path);
	if (ret->status != want)
		fail_msg("%s %s: %d, not %d: %s", method, path, ret->status, want, ret->body);
	assert_non_null(ret->json);
}

static void poll_path(const struct http_reply *r, char *path, size_t size)
{
	snprintf(path, size, "/auth/v1/background-requests/%s", fx_str(r->json, "requestId"));
}

/* Polls until it is not 202 any more. */
static void wait_result(struct fx *f, const char *path, int want, struct http_reply *ret)
{
	uint64_t end = deadline_in(60000);

	for (;;) {
		if (http_call(f->port, "GET", path, f->auth_header, NULL, 0, ret) < 0)
			fail_msg("GET %s: no reply", path);
		if (ret->status != 202)
			break;
		assert_non_null(http_header(ret, "x-freestyle-background-request-id"));
		http_reply_done(ret);
		if (clock_ms() > end)
			fail_msg("GET %s: still 202", path);
		poll(NULL, 0, 10);
	}
	if (ret->status != want)
		fail_msg("GET %s: %d, not %d: %s", path, ret->status, want, ret->body);
}

static void a_quick_request_is_answered_as_ever(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };

	call_with(f, "POST", "/v1/vms", "x-freestyle-background-after-secs: 5\r\n", "{}", 200, &r);
	assert_int_equal(strlen(fx_str(r.json, "id")), 20);
	assert_null(http_header(&r, "x-freestyle-background-request-id"));
}

static unsigned count_source(const struct http_reply *r, const char *source)
{
	const json_t *line;
	unsigned n = 0;
	size_t i;

	json_array_foreach(json_object_get(r->json, "logs"), i, line) n +=
	        strcmp(fx_str(line, "source"), source) == 0;
	return n;
}

static void a_slow_one_goes_on_and_gives_its_result_later(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, p = { 0 }, again = { 0 }, logs = { 0 };
	char path[96], query[128];

	fx_hold(f);
	call_with(f, "POST", "/v1/vms", "x-freestyle-background-after-secs: 0\r\n", SLOW, 202, &r);
	assert_int_equal(strlen(fx_str(r.json, "requestId")), 23);
	assert_string_equal(fx_str(r.json, "requestId"),
	                    http_header(&r, "x-freestyle-background-request-id"));
	assert_string_equal(fx_str(r.json, "status"), "running");
	poll_path(&r, path, sizeof(path));
	fx_call(f, "GET", path, NULL, 202, &p);
	assert_string_equal(fx_str(p.json, "requestId"), fx_str(r.json, "requestId"));
	http_reply_done(&p);
	fx_release(f);
	wait_result(f, path, 200, &p);
	assert_int_equal(strlen(fx_str(p.json, "id")), 20);
	assert_true(json_is_array(json_object_get(p.json, "domains")));
	fx_call(f, "GET", path, NULL, 200, &again); /* from the store now */
	assert_string_equal(fx_str(again.json, "id"), fx_str(p.json, "id"));
	snprintf(query, sizeof(query), "/observability/v1/logs?requestId=%s",
	         fx_str(r.json, "requestId"));
	/* Its end is told when the result is there already. */
	for (uint64_t end = deadline_in(20000); deadline_left(end);) {
		http_reply_done(&logs);
		fx_call(f, "GET", query, NULL, 200, &logs);
		if (count_source(&logs, "request") >= 2)
			break;
		poll(NULL, 0, 20);
	}
	assert_int_equal(count_source(&logs, "request"), 2);
	assert_true(count_source(&logs, "vm") >= 1); /* what the manager did for it */
}

static void errors_come_through_with_their_code(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, p = { 0 };
	char path[96];

	fx_hold(f);
	f->gate.error = ENOSPC;
	call_with(f, "POST", "/v1/vms", "x-freestyle-background-after-secs: 0\r\n", SLOW, 202, &r);
	poll_path(&r, path, sizeof(path));
	fx_release(f);
	wait_result(f, path, 503, &p);
	assert_string_equal(fx_str(p.json, "code"), "NO_LOCAL_STORAGE_CAPACITY");
	assert_string_equal(fx_str(p.json, "error"), "NO_LOCAL_STORAGE_CAPACITY");
	http_reply_done(&r);
	/* One that fails at once is not answered 202. */
	call_with(f, "POST", "/v1/vms", "x-freestyle-background-after-secs: 60\r\n", "{\"name\":7}",
	          400, &r);
	assert_string_equal(fx_str(r.json, "code"), "CREATE_VM_BAD_REQUEST");
}

static void nobody_gets_202_unasked(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, get = { 0 };

	fx_call(f, "POST", "/v1/vms", SLOW, 200, &r);
	/* Other routes do not know the header. */
	call_with(f, "GET", "/v1/vms", "x-freestyle-background-after-secs: 0\r\n", NULL, 200, &get);
}

static void a_bad_header_is_refused_with_a_code(void **state)
{
	static const char *const bad[] = { "x", "-1", "1.5", "99999999999999999999", "3601", "" };
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autoreply struct http_reply r = { 0 };
		char header[96];

		snprintf(header, sizeof(header), "x-freestyle-background-after-secs: %s\r\n",
		         bad[i]);
		call_with(f, "POST", "/v1/vms", header, "{}", 400, &r);
		assert_string_equal(fx_str(r.json, "code"), "INVALID_PARAMETERS");
	}
}

static void unknown_ids_have_a_code(void **state)
{
	struct fx *f = *state;

	fx_refused(f, "GET", "/auth/v1/background-requests/ri-aaaaaaaaaaaaaaaaaaaa", NULL, 404,
	           "NOT_FOUND", "no background request");
	fx_refused(f, "GET", "/auth/v1/background-requests/x", NULL, 404, "NOT_FOUND",
	           "no background request");
	fx_refused(f, "GET", "/auth/v1/background-requests/%2e%2e%2f", NULL, 404, "NOT_FOUND",
	           "no background request");
}

static void a_foreign_account_sees_nothing(void **state)
{
	struct fx *f = *state;
	struct store_request row = { .id = "ri-bbbbbbbbbbbbbbbbbbbb",
		                     .account = "somebody else",
		                     .route = "POST /v1/vms",
		                     .created_ms = clock_wall_ms() };

	OK(store_request_add(f->store, &row, &err));
	OK(store_request_finish(f->store, row.id, 200, "{\"id\":\"x\"}", &err));
	fx_refused(f, "GET", "/auth/v1/background-requests/ri-bbbbbbbbbbbbbbbbbbbb", NULL, 404,
	           "NOT_FOUND", "no background request");
}

static void a_restart_in_the_middle_is_said_with_a_code(void **state)
{
	struct fx *f = *state;
	struct store_request row = { .id = "ri-cccccccccccccccccccc",
		                     .route = "POST /v1/vms",
		                     .created_ms = clock_wall_ms() };
	struct api_deps deps = { .conf = &f->conf,
		                 .store = f->store,
		                 .vmm = f->vmm,
		                 .auth = f->auth,
		                 .events = f->events,
		                 .logs = f->logs };
	char url[96];

	OK(store_account_first(f->store, row.account, &err));
	OK(store_request_add(f->store, &row, &err)); /* as a server that was killed leaves it */
	OK(api_stop(f->api, 10000, &err));
	OK(api_start(&deps, &f->api, &err));
	assert_int_equal(sscanf(api_url(f->api, url, sizeof(url)), "http://127.0.0.1:%u", &f->port),
	                 1);
	fx_refused(f, "GET", "/auth/v1/background-requests/ri-cccccccccccccccccccc", NULL, 503,
	           "UNAVAILABLE", "restarted");
}

static void the_end_of_the_server_waits_for_them(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };

	fx_hold(f);
	call_with(f, "POST", "/v1/vms", "x-freestyle-background-after-secs: 0\r\n", SLOW, 202, &r);
	FAILS(-EBUSY, api_stop(f->api, 50, &err));
	fx_release(f); /* the teardown stops it for good */
}

static void results_are_bounded(void **state)
{
	struct fx *f = *state;
	struct store_request row = { .account = "a", .route = "POST /v1/vms" };
	struct store_request got;
	char first[ID_SIZE];

	for (int i = 0; i < STORE_REQUESTS_PER_ACCOUNT + 5; i++) {
		id_make("ri-", row.id);
		row.created_ms = clock_wall_ms() - STORE_REQUESTS_PER_ACCOUNT + i;
		OK(store_request_add(f->store, &row, &err));
		OK(store_request_finish(f->store, row.id, 200, "{}", &err));
		if (i == 0)
			snprintf(first, sizeof(first), "%s", row.id);
	}
	FAILS(-ENOENT, store_request_get(f->store, first, &got, NULL, &err));
	OK(store_request_get(f->store, row.id, &got, NULL, &err));
}

static unsigned count_vms(struct fx *f)
{
	autoreply struct http_reply r = { 0 };

	fx_call(f, "GET", "/v1/vms", NULL, 200, &r);
	return (unsigned)json_integer_value(json_object_get(r.json, "totalCount"));
}

static void the_same_key_makes_one_vm(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, other = { 0 }, more = { 0 };

	call_with(f, "POST", "/v1/vms", "Idempotency-Key: k1\r\n", "{}", 200, &a);
	call_with(f, "POST", "/v1/vms", "Idempotency-Key: k1\r\n", "{}", 200, &b);
	assert_string_equal(fx_str(a.json, "id"), fx_str(b.json, "id"));
	assert_int_equal(count_vms(f), 1);
	call_with(f, "POST", "/v1/vms", "Idempotency-Key: k1\r\n", "{\"name\":\"other\"}", 409,
	          &other);
	assert_string_equal(fx_str(other.json, "code"), "CONFLICT");
	call_with(f, "POST", "/v1/vms", "Idempotency-Key: k2\r\n", "{}", 200, &more);
	assert_int_equal(count_vms(f), 2);
}

static void a_repeated_call_waits_for_the_first(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, p = { 0 };
	char path[96];

	fx_hold(f);
	call_with(f, "POST", "/v1/vms",
	          "Idempotency-Key: k\r\nx-freestyle-background-after-secs: 0\r\n", SLOW, 202, &a);
	call_with(f, "POST", "/v1/vms",
	          "Idempotency-Key: k\r\nx-freestyle-background-after-secs: 0\r\n", SLOW, 202, &b);
	assert_string_equal(fx_str(a.json, "requestId"), fx_str(b.json, "requestId"));
	poll_path(&a, path, sizeof(path));
	fx_release(f);
	wait_result(f, path, 200, &p);
	http_reply_done(&b);
	call_with(f, "POST", "/v1/vms", "Idempotency-Key: k\r\n", SLOW, 200, &b);
	assert_string_equal(fx_str(b.json, "id"), fx_str(p.json, "id"));
	assert_int_equal(count_vms(f), 1);
}

static void *post_same(void *arg)
{
	struct fx *f = arg;
	autoreply struct http_reply r = { 0 };

	call_with(f, "POST", "/v1/vms", "Idempotency-Key: together\r\n", "{}", 200, &r);
	return strdup(fx_str(r.json, "id"));
}

static void many_at_once_make_one(void **state)
{
	struct fx *f = *state;
	pthread_t t[16];
	void *id[16];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, post_same, f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], &id[i]);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_string_equal(id[i], id[0]);
		if (i)
			free(id[i]);
	}
	free(id[0]);
	assert_int_equal(count_vms(f), 1);
}

static void few_places(struct conf *c)
{
	c->background = 8;
}

static int setup_few(void **state)
{
	return fx_setup_tuned(state, 0, few_places);
}

/* Six of eight places, and its next request has to wait: the others find something. */
static void an_account_leaves_places_for_the_others(void **state)
{
	struct fx *f = *state;
	autofd int waits = http_connect(f->port, 60000);
	struct acting who;
	char text[512], path[96];
	autoreply struct http_reply theirs = { 0 }, refused = { 0 }, last = { 0 }, p = { 0 };
	int n;

	acting_account(f, &who);
	fx_hold(f);
	for (int i = 0; i < 6; i++) {
		autoreply struct http_reply r = { 0 };

		call_with(f, "POST", "/v1/vms", "x-freestyle-background-after-secs: 0\r\n", "{}",
		          202, &r);
		poll_path(&r, path, sizeof(path));
	}
	/* It may not be run twice, so it is not run at all. */
	call_with(f, "POST", "/v1/vms",
	          "Idempotency-Key: k\r\nx-freestyle-background-after-secs: 0\r\n", "{}", 429,
	          &refused);
	assert_string_equal(fx_str(refused.json, "code"), "LIMIT_EXCEEDED");
	assert_non_null(strstr(fx_str(refused.json, "message"), "up to 6"));
	assert_non_null(http_header(&refused, "retry-after"));
	n = snprintf(text, sizeof(text),
	             "POST /v1/vms HTTP/1.1\r\nHost: x\r\n%sContent-Length: 2\r\n"
	             "x-freestyle-background-after-secs: 0\r\n\r\n{}",
	             f->auth_header);
	assert_true(http_send(waits, text, (size_t)n));
	n = (int)strlen(who.header);
	snprintf(who.header + n, sizeof(who.header) - (size_t)n,
	         "x-freestyle-background-after-secs: 0\r\n");
	as_call(f, &who, "POST", "/v1/vms", "{}", 202, &theirs);
	fx_release(f);
	assert_int_equal(http_receive(waits, &last), 0);
	assert_int_equal(last.status, 200); /* it was run, not refused */
	wait_result(f, path, 200, &p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(a_quick_request_is_answered_as_ever),
		T(a_slow_one_goes_on_and_gives_its_result_later),
		T(errors_come_through_with_their_code),
		T(nobody_gets_202_unasked),
		T(a_bad_header_is_refused_with_a_code),
		T(unknown_ids_have_a_code),
		T(a_foreign_account_sees_nothing),
		T(a_restart_in_the_middle_is_said_with_a_code),
		T(the_end_of_the_server_waits_for_them),
		T(results_are_bounded),
		T(the_same_key_makes_one_vm),
		T(a_repeated_call_waits_for_the_first),
		T(many_at_once_make_one),
		cmocka_unit_test_setup_teardown(an_account_leaves_places_for_the_others, setup_few,
		                                fx_teardown),
	};

	return FX_RUN(tests);
}
