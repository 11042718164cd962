/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_http.c - requests that no HTTP client sends: every reply is JSON with a code, or the
 * connection ends, and the server continues
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/buf.h"
#include "tests/unit/api_fx.h"

#define autoreply AUTO(http_reply_done)

/* Sends the bytes; status 0 if the server closes without a reply. */
static void send_raw(struct fx *f, const void *p, size_t n, struct http_reply *ret)
{
	autofd int fd = http_connect(f->port, 20000);

	assert_true(fd >= 0);
	(void)http_send(fd, p, n); /* it may be refused before the end */
	if (http_receive(fd, ret) < 0)
		ret->status = 0;
}

static void is_refusal(const struct http_reply *r, int status, const char *what)
{
	if (r->status != status)
		fail_msg("%s: %d, not %d: %.200s", what, r->status, status, r->body ? r->body : "");
	if (!r->json || !json_is_object(r->json))
		fail_msg("%s: not JSON: %.200s", what, r->body);
	if (!fx_str(r->json, "message")[0] ||
	    strcmp(fx_str(r->json, "code"), fx_str(r->json, "error")) != 0)
		fail_msg("%s: no code or message: %s", what, r->body);
	if (err_code_status(err_code_parse(fx_str(r->json, "code"))) == 0)
		fail_msg("%s: code %s is not of the contract", what, fx_str(r->json, "code"));
	if (!http_header(r, "x-freestyle-trace-id") ||
	    strlen(http_header(r, "x-freestyle-trace-id")) != 32)
		fail_msg("%s: no trace id", what);
	if (!strstr(http_header(r, "content-type"), "application/json"))
		fail_msg("%s: it does not say that it is JSON", what);
}

static void still_works(struct fx *f)
{
	autoreply struct http_reply r = { 0 };

	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &r);
}

static void what_is_no_http_is_refused_in_json(void **state)
{
	static const struct {
		const char *what, *bytes;
		int status;
	} cases[] = {
		{ "no version", "GET /v1/vms\r\n\r\n", 400 },
		{ "a header without a colon",
		  "GET /v1/health HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", 400 },
		{ "an HTTP version of the future", "GET /v1/health HTTP/2.0\r\nHost: x\r\n\r\n",
		  505 },
		{ "a wrong version", "GET /v1/health HTTP/x.y\r\nHost: x\r\n\r\n", 400 },
		{ "no Host", "GET /v1/health HTTP/1.1\r\n\r\n", 400 },
		{ "two Hosts", "GET /v1/health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400 },
		{ "length no number",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400 },
		{ "length negative",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400 },
		{ "length with a tail",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: 5 5\r\n\r\nhello", 400 },
		{ "length too large",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: "
		  "99999999999999999999999999\r\n\r\n",
		  413 },
		{ "two lengths",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: "
		  "3\r\n\r\n{}",
		  400 },
		{ "length and chunks",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: "
		  "chunked\r\n\r\n{}",
		  400 },
		{ "unknown encoding",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400 },
		{ "two encodings",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		  400 },
		{ "encoding twice",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n"
		  "Transfer-Encoding: chunked\r\n\r\n",
		  400 },
		{ "a chunk that is no number",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
		  "chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		  400 },
		{ "a chunk that is too large",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
		  "chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n",
		  413 },
		{ "a chunk longer than it says",
		  "POST /v1/vms HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
		  "chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
		  400 },
	};
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autoreply struct http_reply r = { 0 };

		send_raw(f, cases[i].bytes, strlen(cases[i].bytes), &r);
		is_refusal(&r, cases[i].status, cases[i].what);
	}
	still_works(f);
}

/* Without a path there is no request to answer: the library closes the connection. */
static void what_is_no_request_line_ends_the_connection(void **state)
{
	static const char *const bytes[] = { "HELLO\r\n\r\n", "GET\r\n\r\n",
		                             "\x16\x03\x01\x02\r\n\r\n" };
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++) {
		autoreply struct http_reply r = { 0 };

		send_raw(f, bytes[i], strlen(bytes[i]), &r);
		assert_int_equal(r.status, 0);
	}
	still_works(f);
}

/* A request whose head ends in n bytes of filling. */
static void send_filled(struct fx *f, const char *before, size_t n, const char *after,
                        struct http_reply *ret)
{
	autobuf struct buf b = { 0 };

	buf_put(&b, before, strlen(before));
	for (size_t i = 0; i < n; i++)
		buf_put_u8(&b, 'a');
	buf_put(&b, after, strlen(after));
	assert_false(b.failed);
	send_raw(f, b.p, b.len, ret);
}

static void large_heads(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }, e = { 0 };

	send_filled(f, "GET /", 17000, " HTTP/1.1\r\nHost: x\r\n\r\n", &a);
	is_refusal(&a, 414, "a long path");
	send_filled(f, "GET /", 200000, " HTTP/1.1\r\nHost: x\r\n\r\n", &b);
	is_refusal(&b, 414, "a very long path");
	send_filled(f, "GET /v1/health HTTP/1.1\r\nHost: x\r\nX: ", 200000, "\r\n\r\n", &c);
	is_refusal(&c, 431, "a large header");
	send_filled(f, "GET /v1/health?x=", 100000, " HTTP/1.1\r\nHost: x\r\n\r\n", &d);
	assert_true(d.status == 200 || d.status == 414 || d.status == 431);
	send_filled(f, "", 200000, " / HTTP/1.1\r\nHost: x\r\n\r\n", &e);
	assert_true(e.status >= 400);
	assert_non_null(e.json);
	still_works(f);
}

static void many_headers(void **state)
{
	struct fx *f = *state;
	autobuf struct buf b = { 0 };
	autoreply struct http_reply r = { 0 };

	buf_printf(&b, "GET /v1/health HTTP/1.1\r\nHost: x\r\n");
	for (int i = 0; i < 200; i++)
		buf_printf(&b, "X-%d: y\r\n", i);
	buf_printf(&b, "\r\n");
	send_raw(f, b.p, b.len, &r);
	is_refusal(&r, 400, "200 headers");
	assert_non_null(strstr(fx_str(r.json, "message"), "too many headers"));
}

static void zero_bytes(void **state)
{
	static const char path[] = "GET /v1/hea\0lth HTTP/1.1\r\nHost: x\r\n\r\n";
	static const char value[] = "GET /v1/health HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n";
	static const char name[] = "GET /v1/health HTTP/1.1\r\nHost: x\r\nX\0Y: a\r\n\r\n";
	static const char body[] = "Content-Length: 5\r\n\r\n{\"a\0";
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	char head[512];
	size_t n;

	/* The library ends a text at a NUL, so what follows it is not visible. */
	send_raw(f, path, sizeof(path) - 1, &a);
	is_refusal(&a, 404, "a NUL in the path");
	send_raw(f, value, sizeof(value) - 1, &b);
	assert_int_equal(b.status, 200);
	send_raw(f, name, sizeof(name) - 1, &c);
	is_refusal(&c, 400, "a NUL in a header's name");
	n = (size_t)snprintf(head, sizeof(head), "POST /v1/vms HTTP/1.1\r\nHost: x\r\n%s",
	                     f->auth_header);
	memcpy(head + n, body, sizeof(body)); /* its last NUL too */
	send_raw(f, head, n + sizeof(body), &d);
	is_refusal(&d, 400, "a NUL in the body");
	still_works(f);
}

static void a_head_request_has_no_body(void **state)
{
	struct fx *f = *state;
	autofd int fd = http_connect(f->port, 5000);
	char b[2048], head[512];
	ssize_t n;
	size_t got = 0;
	int k = snprintf(head, sizeof(head),
	                 "HEAD /auth/v1/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n",
	                 f->auth_header);

	assert_true(http_send(fd, head, (size_t)k));
	while ((n = recv(fd, b + got, sizeof(b) - 1 - got, 0)) > 0)
		got += (size_t)n;
	b[got] = '\0';
	assert_non_null(strstr(b, "HTTP/1.1 200"));
	assert_non_null(strstr(b, "Content-Length: "));
	assert_string_equal(strstr(b, "\r\n\r\n"), "\r\n\r\n");
}

static void pipelined_requests_are_answered_in_order(void **state)
{
	struct fx *f = *state;
	autofd int fd = http_connect(f->port, 10000);
	autobuf struct buf b = { 0 };
	char all[65536];
	size_t got = 0;
	ssize_t n;
	int whoami = 0, missing = 0;

	for (int i = 0; i < 20; i++)
		buf_printf(&b, "GET %s HTTP/1.1\r\nHost: x\r\n%s%s\r\n",
		           i % 2 ? "/nothing" : "/auth/v1/whoami", f->auth_header,
		           i == 19 ? "Connection: close\r\n" : "");
	assert_true(http_send(fd, b.p, b.len));
	while ((n = recv(fd, all + got, sizeof(all) - 1 - got, 0)) > 0)
		got += (size_t)n;
	all[got] = '\0';
	for (const char *p = all; (p = strstr(p, "HTTP/1.1 ")); p++) {
		if (strncmp(p + 9, "200", 3) == 0)
			assert_int_equal(whoami++, missing);
		else
			missing++;
	}
	assert_int_equal(whoami, 10);
	assert_int_equal(missing, 10);
}

static void garbage_after_a_request_ends_the_connection(void **state)
{
	static const char bytes[] =
	        "GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01\r\n\r\n";
	struct fx *f = *state;
	autofd int fd = http_connect(f->port, 10000);
	char all[8192];
	size_t got = 0;
	ssize_t n;

	assert_true(http_send(fd, bytes, sizeof(bytes) - 1));
	while ((n = recv(fd, all + got, sizeof(all) - 1 - got, 0)) > 0)
		got += (size_t)n;
	all[got] = '\0';
	assert_non_null(strstr(all, "HTTP/1.1 200"));
	assert_null(strstr(all, "<html"));
	still_works(f);
}

/* ---- bodies ---- */

static void json_that_is_none(void **state)
{
	static const char *const bad[] = {
		"{",
		"[]",
		"7",
		"\"x\"",
		"nul",
		"{\"a\":1,\"a\":2}",
		"{\"a\":01}",
		"{'a':1}",
		"{\"a\":1,}",
		"{\"a\":\"\xff\"}",
		"\xff\xfe{}",
		"{} {}",
		"{\"a\":1e999}",
		"{\"a\":\"\\ud800\"}",
		"{\"a\":\"\\u0000\"}x",
	};
	struct fx *f = *state;
	char deep[4096];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		fx_refused(f, "POST", "/v1/vms", bad[i], 400, "CREATE_VM_BAD_REQUEST", "");
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	memcpy(deep, "{\"x\":", 5);
	fx_refused(f, "POST", "/v1/vms", deep, 400, "CREATE_VM_BAD_REQUEST", "");
}

static void wrong_types_are_named(void **state)
{
	static const struct {
		const char *path, *member;
		const char *good; /* kinds that may pass, each with a space before it */
	} fields[] = {
		{ "/v1/vms", "name", " \"s\" null" },
		{ "/v1/vms", "idleTimeoutSeconds", " 7 null" },
		{ "/v1/vms", "activityThresholdBytes", " 7 null" },
		{ "/v1/vms", "waitForReadySignal", " true null" },
		{ "/v1/vms", "readySignalTimeoutSeconds", " 7 null" },
		{ "/v1/vms", "persistence", " null" },
		{ "/v1/vms/VM/start", "idleTimeoutSeconds", " 7 null" },
		{ "/v1/vms/VM/start", "activityThresholdBytes", " 7 null" },
		{ "/v1/vms/VM/fork", "count", " 7 null" },
		{ "/v1/vms/VM/fork", "persistence", " null" },
		{ "/v1/vms/VM/snapshot", "name", " \"s\" null" },
		{ "/v1/vms/VM/snapshot", "persistence", " null" },
		{ "/v1/vms/VM/exec-await", "command", " \"s\"" },
		{ "/v1/vms/VM/exec-await", "timeoutMs", " 7 null" },
		{ "/v1/vms/VM/exec", "command", " \"s\"" },
		{ "/v1/vms/VM/exec", "cwd", " \"s\" null" },
		{ "/v1/vms/VM/exec", "env", " {} null {\"type\":\"cat\"}" },
		{ "/v1/vms/VM/exec", "detach", " true null" },
		{ "/v1/vms/VM/exec", "timeoutMs", " 7 null" },
	};
	static const char *const kinds[] = { "\"s\"",
		                             "7",
		                             "-1",
		                             "1.5",
		                             "1e30",
		                             "true",
		                             "null",
		                             "{}",
		                             "[]",
		                             "{\"type\":7}",
		                             "{\"type\":\"cat\"}",
		                             "99999999999999999999" };
	struct fx *f = *state;
	char vm[32], path[128], body[256];

	fx_vm(f, vm);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *tail = strstr(fields[i].path, "VM");

		if (tail)
			snprintf(path, sizeof(path), "/v1/vms/%s%s", vm, tail + 2);
		else
			snprintf(path, sizeof(path), "%s", fields[i].path);
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			autoreply struct http_reply r = { 0 };
			char word[64];

			snprintf(word, sizeof(word), " %s", kinds[k]);
			if (strstr(fields[i].good, word))
				continue;
			snprintf(body, sizeof(body), "{\"%s\":%s%s}", fields[i].member, kinds[k],
			         strstr(path, "exec") && strcmp(fields[i].member, "command") != 0
			                 ? ",\"command\":\"true\""
			                 : "");
			fx_call(f, "POST", path, body, 400, &r);
			is_refusal(&r, 400, body);
		}
	}
}

static void unknown_ids_of_every_kind(void **state)
{
	static const struct {
		const char *method, *path, *body, *code;
	} calls[] = {
		{ "GET", "/v1/vms/aaaaaaaaaaaaaaaaaaaa", NULL, "VM_NOT_FOUND" },
		{ "DELETE", "/v1/vms/aaaaaaaaaaaaaaaaaaaa", NULL, "VM_NOT_FOUND" },
		{ "POST", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/start", "{}", "VM_NOT_FOUND" },
		{ "POST", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/stop", NULL, "VM_NOT_FOUND" },
		{ "POST", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/kill", NULL, "VM_NOT_FOUND" },
		{ "POST", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/suspend", NULL, "VM_NOT_FOUND" },
		{ "POST", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/snapshot", "{}", "VM_NOT_FOUND" },
		{ "POST", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/exec-await", "{\"command\":\"true\"}",
		  "VM_NOT_FOUND" },
		{ "GET", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/files/%2Fx", NULL, "VM_NOT_FOUND" },
		{ "PUT", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/files/%2Fx", "{\"content\":\"\"}",
		  "VM_NOT_FOUND" },
		{ "GET", "/v1/vms/snapshots/sc-aaaaaaaaaaaaaaaaaaaa", NULL, "SNAPSHOT_NOT_FOUND" },
		{ "GET", "/v1/vms/snapshots/..", NULL, "SNAPSHOT_NOT_FOUND" },
		{ "DELETE", "/v1/vms/snapshots/sc-aaaaaaaaaaaaaaaaaaaa", NULL,
		  "SNAPSHOT_NOT_FOUND" },
		{ "PATCH", "/v1/vms/snapshots/sc-aaaaaaaaaaaaaaaaaaaa", "{\"name\":\"x\"}",
		  "SNAPSHOT_NOT_FOUND" },
		{ "GET", "/auth/v1/background-requests/ri-aaaaaaaaaaaaaaaaaaaa", NULL,
		  "NOT_FOUND" },
	};
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		fx_refused(f, calls[i].method, calls[i].path, calls[i].body, 404, calls[i].code,
		           "");
	fx_refused(f, "GET", "/v1/vms/NOT-AN-ID", NULL, 400, "INVALID_VM_ID", "");
	fx_refused(f, "GET", "/v1/vms/%E2%82%AC", NULL, 400, "INVALID_VM_ID", "");
	fx_refused(f, "GET", "/v1/vms/%FF", NULL, 400, "INVALID_VM_ID", "");
}

static void paths_that_try_to_leave(void **state)
{
	static const char *const paths[] = { "/v1/vms/../health",
		                             "/v1/./health",
		                             "//v1/health",
		                             "/v1//health",
		                             "/v1/health/",
		                             "/v1/%68ealth",
		                             "/v1/vms/x/files/../../../health",
		                             "/v1/vms/x/files/",
		                             "http://x/v1/health",
		                             "*",
		                             "/v1/health%00",
		                             "/%" };
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		autoreply struct http_reply r = { 0 };

		if (http_call(f->port, "GET", paths[i], f->auth_header, NULL, 0, &r) < 0)
			fail_msg("%s: no reply", paths[i]);
		if (r.status != 404 && r.status != 400)
			fail_msg("%s: %d", paths[i], r.status);
		is_refusal(&r, r.status, paths[i]);
	}
}

/* ---- many ---- */

#define PARALLEL 200

static void *ask_often(void *arg)
{
	struct fx *f = arg;

	for (int i = 0; i < 3; i++) {
		autoreply struct http_reply r = { 0 };

		if (http_call(f->port, "GET", i % 2 ? "/v1/vms" : "/auth/v1/whoami", f->auth_header,
		              NULL, 0, &r) < 0 ||
		    r.status != 200 || !r.json)
			return f;
	}
	return NULL;
}

static void two_hundred_at_once(void **state)
{
	struct fx *f = *state;
	pthread_t t[PARALLEL];
	void *why;

	for (size_t i = 0; i < PARALLEL; i++)
		assert_int_equal(pthread_create(&t[i], NULL, ask_often, f), 0);
	for (size_t i = 0; i < PARALLEL; i++) {
		pthread_join(t[i], &why);
		assert_null(why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(what_is_no_http_is_refused_in_json),
		T(what_is_no_request_line_ends_the_connection),
		T(large_heads),
		T(many_headers),
		T(zero_bytes),
		T(a_head_request_has_no_body),
		T(pipelined_requests_are_answered_in_order),
		T(garbage_after_a_request_ends_the_connection),
		T(json_that_is_none),
		T(wrong_types_are_named),
		T(unknown_ids_of_every_kind),
		T(paths_that_try_to_leave),
		T(two_hundred_at_once),
	};

	return FX_RUN(tests);
}
