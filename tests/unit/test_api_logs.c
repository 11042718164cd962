/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_logs.c - events in GET /observability/v1/logs, and a guest's journal */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "tests/unit/api_fx.h"

#define WEEK_MS (INT64_C(7) * 24 * 3600 * 1000)
#define autoreply AUTO(http_reply_done)

static void say(struct fx *f, const char *account, const char *vm, int64_t at_ms, const char *text)
{
	char mine[ACCOUNT_SIZE];

	OK(store_account_first(f->store, mine, &err));
	events_publish(f->events, &(struct event){ .at_ms = at_ms,
	                                           .source = "vm",
	                                           .account = account ? account : mine,
	                                           .vm = vm,
	                                           .message = text });
}

static size_t ask(struct fx *f, const char *query, struct http_reply *ret)
{
	char path[512];

	snprintf(path, sizeof(path), "/observability/v1/logs%s", query);
	fx_call(f, "GET", path, NULL, 200, ret);
	return json_array_size(json_object_get(ret->json, "logs"));
}

/* Counted from the newest; a page is in the order of time. */
static const char *line(const struct http_reply *r, size_t i, const char *name)
{
	const json_t *logs = json_object_get(r->json, "logs");

	return fx_str(json_array_get(logs, json_array_size(logs) - 1 - i), name);
}

static void events_can_be_read_at_once(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };

	say(f, NULL, "vm1", 0, "first");
	say(f, NULL, "vm2", 0, "\xff bad \xe2\x82\xac");
	say(f, "another account", "vm1", 0, "secret");
	assert_int_equal(ask(f, "", &r), 2);
	assert_string_equal(line(&r, 0, "message"), "\xef\xbf\xbd bad \xe2\x82\xac");
	assert_string_equal(line(&r, 1, "message"), "first");
	assert_string_equal(line(&r, 1, "resourceId"), "vm1");
	assert_string_equal(line(&r, 1, "resourceType"), "vm");
	assert_string_equal(line(&r, 1, "level"), "info");
	assert_int_equal(strlen(line(&r, 1, "timestamp")), 24);
	assert_true(json_is_null(json_object_get(r.json, "nextPageToken")));
}

static void filters(void **state)
{
	static const struct {
		const char *query;
		size_t want;
	} cases[] = {
		{ "?vmId=vm1", 2 },        { "?vmId=vm2", 1 },
		{ "?vmId=unknown", 0 },    { "?search=HELLO", 2 },
		{ "?search=100%25", 1 },   { "?search=_", 0 },
		{ "?search=%5C", 0 },      { "?vmId=vm1&search=hello", 1 },
		{ "?resourceType=vm", 3 }, { "?resourceType=deployment", 0 },
		{ "?deploymentId=x", 0 },  { "?buildId=bld-x", 0 },
		{ "?requestId=ri-x", 0 },  { "?startTime=2030-01-01T00:00:00Z", 0 },
	};
	struct fx *f = *state;

	say(f, NULL, "vm1", 0, "Hello 100%");
	say(f, NULL, "vm1", 0, "bye");
	say(f, NULL, "vm2", 0, "hello again");
	say(f, NULL, "vm3", clock_wall_ms() - 10 * WEEK_MS, "too old to be kept");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autoreply struct http_reply r = { 0 };
		size_t n = ask(f, cases[i].query, &r);

		if (n != cases[i].want)
			fail_msg("%s: %zu lines, not %zu", cases[i].query, n, cases[i].want);
	}
}

static void times(void **state)
{
	struct fx *f = *state;
	int64_t at = clock_wall_ms() - WEEK_MS / 3;
	const struct {
		int64_t from, to; /* against it */
		size_t want;
	} cases[] = { { 0, 0, 1 }, { -1, 1, 1 }, { 1, 2, 0 }, { -2, -1, 0 }, { -5000, 5000, 1 } };
	autoreply struct http_reply r = { 0 }, since = { 0 };
	char query[256], a[CLOCK_RFC3339_LEN], b[CLOCK_RFC3339_LEN];

	say(f, NULL, "vm1", at, "days ago");
	assert_int_equal(ask(f, "", &r), 0); /* the last 24 hours */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autoreply struct http_reply got = { 0 };

		snprintf(query, sizeof(query), "?startTime=%s&endTime=%s",
		         clock_rfc3339(at + cases[i].from, a), clock_rfc3339(at + cases[i].to, b));
		if (ask(f, query, &got) != cases[i].want)
			fail_msg("%s: not %zu lines", query, cases[i].want);
	}
	snprintf(query, sizeof(query), "?startTime=%.19s%%2B00:00", clock_rfc3339(at - 1000, a));
	assert_int_equal(ask(f, query, &since), 1);
	snprintf(query, sizeof(query), "?startTime=%.19s-02:00", clock_rfc3339(at - 1000, a));
	http_reply_done(&since);
	assert_int_equal(ask(f, query, &since), 0); /* two hours later */
}

static void bad_queries(void **state)
{
	static const char *const bad[] = { "startTime=yesterday",
		                           "startTime=2026-02-30T00:00:00Z",
		                           "startTime=2026-01-01T00:00:00",
		                           "endTime=2026-01-01",
		                           "endTime=2026-13-01T00:00:00Z",
		                           "pageSize=0",
		                           "pageSize=x",
		                           "pageSize=-1",
		                           "pageToken=x",
		                           "pageToken=1.9.1",
		                           "pageToken=1.0.99999999999999999999",
		                           "vmService=a%20b",
		                           "vmService=-x",
		                           "vmService=a%27b",
		                           "resourceType=cat",
		                           "search=%ZZ" };
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char path[256];

		snprintf(path, sizeof(path), "/observability/v1/logs?%s", bad[i]);
		fx_refused(f, "GET", path, NULL, 400, "INVALID_QUERY", "");
	}
}

static void pages(void **state)
{
	struct fx *f = *state;
	int64_t now = clock_wall_ms();
	char seen[25] = "", token[96] = "";

	for (int i = 0; i < 20; i++) {
		char text[2] = { (char)('a' + i), '\0' };

		say(f, NULL, "vm1", now - 100 + i / 4, text); /* four in each millisecond */
	}
	for (int pages_left = 10; pages_left; pages_left--) {
		autoreply struct http_reply r = { 0 };
		char query[160];
		size_t n;

		snprintf(query, sizeof(query), "?pageSize=3%s%s", *token ? "&pageToken=" : "",
		         token);
		n = ask(f, query, &r);
		for (size_t i = 0; i < n; i++)
			snprintf(seen + strlen(seen), 2, "%s", line(&r, i, "message"));
		if (json_is_null(json_object_get(r.json, "nextPageToken")))
			break;
		assert_int_equal(n, 3);
		snprintf(token, sizeof(token), "%s", fx_str(r.json, "nextPageToken"));
	}
	assert_string_equal(seen, "tsrqponmlkjihgfedcba");
}

static void lines_of_a_build(void **state)
{
	struct fx *f = *state;
	int64_t now = clock_wall_ms();
	struct store_build b = { .id = "bld-aaaaaaaaaaaaaaaaaaaa",
		                 .request_id = "ri-aaaaaaaaaaaaaaaaaaaa",
		                 .started_ms = now },
	                   other = b;
	struct store_build_log lines[] = { { .build_id = "bld-aaaaaaaaaaaaaaaaaaaa",
		                             .seq = 1,
		                             .at_ms = now - 10,
		                             .phase = "apt",
		                             .message = "Get:1 curl" },
		                           { .build_id = "bld-aaaaaaaaaaaaaaaaaaaa",
		                             .seq = 2,
		                             .at_ms = now - 5,
		                             .phase = "apt",
		                             .message = "done" } };
	struct store_build_log foreign = {
		.build_id = "bld-bbbbbbbbbbbbbbbbbbbb", .seq = 1, .at_ms = now, .message = "secret"
	};
	autoreply struct http_reply by_id = { 0 }, by_request = { 0 }, page = { 0 },
	                            not_mine = { 0 };

	OK(store_account_first(f->store, b.account, &err));
	snprintf(other.id, sizeof(other.id), "%s", foreign.build_id);
	snprintf(other.account, sizeof(other.account), "another account");
	OK(store_build_add(f->store, &b, &err));
	OK(store_build_add(f->store, &other, &err));
	OK(store_build_log_add(f->store, lines, 2, &err));
	OK(store_build_log_add(f->store, &foreign, 1, &err));
	assert_int_equal(ask(f, "?buildId=bld-aaaaaaaaaaaaaaaaaaaa", &by_id), 2);
	assert_string_equal(line(&by_id, 0, "message"), "done");
	assert_string_equal(line(&by_id, 0, "source"), "build");
	assert_string_equal(line(&by_id, 0, "buildId"), "bld-aaaaaaaaaaaaaaaaaaaa");
	assert_int_equal(ask(f, "?requestId=ri-aaaaaaaaaaaaaaaaaaaa", &by_request), 2);
	assert_int_equal(ask(f, "?buildId=bld-aaaaaaaaaaaaaaaaaaaa&search=CURL&pageSize=1", &page),
	                 1);
	assert_int_equal(ask(f, "?buildId=bld-bbbbbbbbbbbbbbbbbbbb", &not_mine), 0);
}

static void lines_are_bounded(void **state)
{
	struct fx *f = *state;
	autofree struct store_event *v = calloc(1001, sizeof(*v));
	autofree struct store_event *got = NULL;
	struct store_event_query q = { .account = "a",
		                       .vm = "",
		                       .instance = "",
		                       .build = "",
		                       .request = "",
		                       .search = "",
		                       .to_ms = INT64_MAX,
		                       .before_ms = INT64_MAX,
		                       .before_seq = INT64_MAX,
		                       .limit = STORE_EVENTS_PER_ACCOUNT + 2000 };
	size_t n = 0;
	char *huge = malloc(100001);
	autoreply struct http_reply r = { 0 };

	assert_non_null(v);
	for (int i = 0; i < 1001; i++) {
		snprintf(v[i].account, sizeof(v[i].account), "a");
		v[i].at_ms = clock_wall_ms();
	}
	for (int i = 0; i < STORE_EVENTS_PER_ACCOUNT / 1001 + 2; i++)
		OK(store_event_add(f->store, v, 1001, &err));
	OK(store_event_list(f->store, &q, &got, &n, &err));
	assert_true(n <= STORE_EVENTS_PER_ACCOUNT + 1001);
	memset(huge, 'x', 100000);
	huge[100000] = '\0';
	say(f, NULL, "vm1", 0, huge);
	free(huge);
	assert_int_equal(ask(f, "", &r), 1);
	assert_int_equal(strlen(line(&r, 0, "message")), STORE_EVENT_TEXT - 1);
}

/* What journalctl prints in guests of this program, in place of the script that succeeds. */
static void visit(struct fx *f, const char *account, const char *name, const char *vm,
                  const char *path)
{
	struct access_line l = { .at_ms = clock_wall_ms(),
		                 .status = 404,
		                 .proto = 20,
		                 .tls = true,
		                 .in = 5,
		                 .out = 6,
		                 .ms = 7 };
	char mine[ACCOUNT_SIZE];

	OK(store_account_first(f->store, mine, &err));
	snprintf(l.host, sizeof(l.host), "%s", name);
	snprintf(l.vm, sizeof(l.vm), "%s", vm);
	snprintf(l.method, sizeof(l.method), "PUT");
	snprintf(l.client, sizeof(l.client), "192.0.2.1");
	access_path(path, l.path);
	access_add(logs_access(f->logs), account ? account : mine, name, &l);
}

static size_t count(struct fx *f, const char *query)
{
	autoreply struct http_reply r = { 0 };

	return ask(f, query, &r);
}

static void the_access_log(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	const json_t *a;

	say(f, NULL, "vm1", 0, "created");
	visit(f, NULL, "app.test", "vm1", "/1");
	visit(f, NULL, "app.test", "vm1", "/1"); /* twice the same is two */
	visit(f, NULL, "other.test", "vm1", "/2");
	visit(f, "another account", "app.test", "vm2", "/secret");
	assert_int_equal(ask(f, "?domain=APP.test", &r), 2);
	assert_string_equal(line(&r, 0, "message"),
	                    "192.0.2.1 PUT app.test/1 HTTP/2 404, 5 B in, 6 B out, 7 ms");
	assert_string_equal(line(&r, 0, "resourceId"), "vm1");
	assert_string_equal(line(&r, 0, "source"), "access");
	a = json_object_get(json_array_get(json_object_get(r.json, "logs"), 0), "access");
	assert_string_equal(fx_str(a, "path"), "/1");
	assert_string_equal(fx_str(a, "protocol"), "HTTP/2");
	assert_int_equal(json_integer_value(json_object_get(a, "status")), 404);
	assert_true(json_is_true(json_object_get(a, "tls")));
	assert_true(json_is_null(json_object_get(a, "error")));
	assert_int_equal(count(f, "?vmId=vm1&source=access"), 3);
	assert_int_equal(count(f, "?source=access&pageSize=2"), 2);
	assert_int_equal(count(f, "?vmId=vm2&source=access"), 0);
	assert_int_equal(count(f, "?domain=app.test&vmId=vm2"), 0);
	assert_int_equal(count(f, "?domain=app.test&search=/9"), 0);
	assert_int_equal(count(f, "?domain=app.test&buildId=x"), 0);
	assert_int_equal(count(f, "?domain=app.test&startTime=2030-01-01T00:00:00Z"), 0);
	assert_int_equal(count(f, "?vmId=vm1"), 1); /* what happened to the VM, as before */
	fx_refused(f, "GET", "/observability/v1/logs?source=journal", NULL, 400, "INVALID_QUERY",
	           "'source'");
}

static void set_journal(struct fx *f, const char *vm, const char *text)
{
	autoreply struct http_reply r = { 0 };
	char path[256], body[512];
	FILE *file = fopen(tmpdir_file(&f->dir, "journal", path, sizeof(path)), "w");

	assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", vm);
	snprintf(body, sizeof(body),
	         "{\"command\":\"printf '#!/bin/sh\\\\necho $* >%s/asked; cat %s/journal\\\\n' "
	         ">/usr/local/sbin/journalctl\"}",
	         f->dir.path, f->dir.path);
	body[sizeof(body) - 1] = '\0';
	fx_call(f, "POST", path, body, 200, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "statusCode")), 0);
}

static void the_journal_of_a_running_vm(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, search = { 0 }, page = { 0 }, none = { 0 };
	long long now_us = (long long)clock_wall_ms() * 1000;
	char id[32], query[256], text[2048], path[256];
	autofree char *asked = NULL;

	fx_vm(f, id);
	snprintf(
	        text, sizeof(text),
	        "{\"__REALTIME_TIMESTAMP\":\"%lld\",\"MESSAGE\":\"newer\",\"PRIORITY\":\"3\"}\n"
	        "{\"__REALTIME_TIMESTAMP\":\"%lld\",\"MESSAGE\":[104,105,255],\"PRIORITY\":\"6\"}\n"
	        "{\"__REALTIME_TIMESTAMP\":\"x\",\"MESSAGE\":\"no time\"}\n"
	        "{\"__REALTIME_TIMESTAMP\":\"%lld\",\"MESSAGE\":{}}\n"
	        "not json\n[1]\n\n{\"MESSAGE\":",
	        now_us - 1000000, now_us - 2000000, now_us - 3000000);
	set_journal(f, id, text);
	snprintf(query, sizeof(query), "?vmId=%s&vmService=app%%40x.service", id);
	assert_int_equal(ask(f, query, &r), 2);
	assert_string_equal(line(&r, 0, "message"), "newer");
	assert_string_equal(line(&r, 0, "level"), "error");
	assert_string_equal(line(&r, 0, "vmService"), "app@x.service");
	assert_string_equal(line(&r, 1, "message"), "hi\xef\xbf\xbd");
	OK(io_read_file(AT_FDCWD, tmpdir_file(&f->dir, "asked", path, sizeof(path)), 4096, &asked,
	                &err));
	assert_non_null(strstr(asked, " -u app@x.service "));
	snprintf(query, sizeof(query), "?vmId=%s&vmService=app&search=NEW", id);
	assert_int_equal(ask(f, query, &search), 1);
	snprintf(query, sizeof(query), "?vmId=%s&vmService=app&pageSize=1", id);
	assert_int_equal(ask(f, query, &page), 1);
	snprintf(query, sizeof(query), "?vmId=%s&vmService=app&pageToken=%s", id,
	         fx_str(page.json, "nextPageToken"));
	http_reply_done(&page);
	assert_int_equal(ask(f, query, &page), 1);
	assert_string_equal(line(&page, 0, "message"), "hi\xef\xbf\xbd");
	/* One that sleeps is left alone. */
	fx_suspend(f, id);
	snprintf(query, sizeof(query), "?vmId=%s&vmService=app", id);
	assert_int_equal(ask(f, query, &none), 0);
	fx_state(f, id, "suspended");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(events_can_be_read_at_once),
		T(filters),
		T(times),
		T(bad_queries),
		T(pages),
		T(lines_of_a_build),
		T(lines_are_bounded),
		T(the_access_log),
		T(the_journal_of_a_running_vm),
	};

	return FX_RUN(tests);
}
