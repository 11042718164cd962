/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_limits.c - large bodies, slow clients, long commands, many connections, the end */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "http/http_internal.h"
#include "tests/unit/api_as.h"
#include "tests/unit/api_fx.h"

static char *filled(size_t n)
{
	char *p = malloc(n + 1);

	assert_non_null(p);
	memset(p, 'x', n);
	p[n] = '\0';
	return p;
}

static void a_body_over_the_limit_is_refused_and_the_reply_arrives(void **state)
{
	struct fx *f = *state;
	autofree char *body = filled(12 << 20);
	autoreply struct http_reply r = { 0 }, s = { 0 };

	/* The client sends all of it before it reads: the reply must still be there. */
	assert_int_equal(http_call(f->port, "POST", "/v1/vms", f->auth_header, body, 12 << 20, &r),
	                 0);
	assert_int_equal(r.status, 413);
	assert_string_equal(fx_str(r.json, "code"), "INVALID_REQUEST");
	assert_non_null(strstr(fx_str(r.json, "message"), "8388608"));
	/* A route without a body takes a little, and no more. */
	assert_int_equal(http_call(f->port, "GET", "/v1/vms", f->auth_header, body, 4096, &s), 0);
	assert_int_equal(s.status, 200);
	http_reply_done(&s);
	assert_int_equal(http_call(f->port, "GET", "/v1/vms", f->auth_header, body, 4097, &s), 0);
	assert_int_equal(s.status, 413);
}

static void a_huge_promise_is_refused_at_once(void **state)
{
	struct fx *f = *state;
	autofd int fd = http_connect(f->port, 5000);
	autoreply struct http_reply r = { 0 };
	char head[512];
	int n = snprintf(head, sizeof(head),
	                 "PUT /v1/vms/abc/files/x HTTP/1.1\r\nHost: x\r\n%sContent-Length: "
	                 "99999999999999\r\n\r\n",
	                 f->auth_header);

	assert_true(fd >= 0);
	assert_true(http_send(fd, head, (size_t)n));
	assert_int_equal(http_receive(fd, &r), 0); /* without a byte of the body */
	assert_int_equal(r.status, 413);
}

static void chunked_bodies_are_counted_too(void **state)
{
	struct fx *f = *state;
	autofd int fd = http_connect(f->port, 5000), fd2 = http_connect(f->port, 20000);
	autoreply struct http_reply r = { 0 }, big = { 0 };
	autofree char *piece = filled(65536);
	char head[512];
	int n = snprintf(head, sizeof(head),
	                 "POST /v1/vms HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\n",
	                 f->auth_header);

	assert_true(fd >= 0 && fd2 >= 0);
	assert_true(http_send(fd, head, (size_t)n));
	assert_true(http_send(fd, "2\r\n{}\r\n0\r\n\r\n", 12));
	assert_int_equal(http_receive(fd, &r), 0);
	assert_int_equal(r.status, 200);
	assert_true(http_send(fd2, head, (size_t)n));
	for (int i = 0; i < 160; i++) { /* 10 MiB */
		assert_true(http_send(fd2, "10000\r\n", 7));
		assert_true(http_send(fd2, piece, 65536));
		assert_true(http_send(fd2, "\r\n", 2));
	}
	assert_true(http_send(fd2, "0\r\n\r\n", 5));
	assert_int_equal(http_receive(fd2, &big), 0);
	assert_int_equal(big.status, 413);
}

static void without_a_key_no_body_is_kept(void **state)
{
	struct fx *f = *state;
	autofree char *body = filled(8 << 20);
	autoreply struct http_reply r = { 0 };

	assert_int_equal(http_call(f->port, "PUT", "/v1/vms/abc/files/x", NULL, body, 8 << 20, &r),
	                 0);
	assert_int_equal(r.status, 401);
	assert_int_equal(budget_used(f->api->http->spool, NULL), 0);
}

static bool closed_within(int fd, unsigned ms)
{
	uint64_t end = deadline_in(ms);
	char b[512];

	while (io_wait(fd, POLLIN, end) == 1)
		if (recv(fd, b, sizeof(b), 0) <= 0)
			return true;
	return false;
}

static int setup_hasty(void **state)
{
	return fx_setup_with(state, /* header_ms= */ 1000);
}

static void slow_headers_end_the_connection(void **state)
{
	struct fx *f = *state;
	autofd int silent = http_connect(f->port, 5000), dripping = http_connect(f->port, 5000);
	static const char head[] = "GET /v1/health HTTP/1.1\r\nX: ";
	uint64_t begin = clock_ms();
	autoreply struct http_reply r = { 0 };
	bool sending = true;

	assert_true(silent >= 0 && dripping >= 0);
	assert_true(http_send(dripping, head, sizeof(head) - 1));
	/* A byte now and then does not keep a connection open. */
	while (sending && clock_ms() - begin < 30000) {
		poll(NULL, 0, 100);
		sending = http_send(dripping, "y", 1);
	}
	assert_false(sending);
	assert_true(closed_within(silent, 30000));
	assert_int_equal(http_call(f->port, "GET", "/v1/health", NULL, NULL, 0, &r), 0);
	assert_int_equal(r.status, 200);
}

struct long_call {
	struct fx *f;
	char path[96];
	unsigned timeout_ms;
	struct http_reply reply;
};

static void *run_long_call(void *arg)
{
	struct long_call *c = arg;
	char body[512], command[320];
	int n = snprintf(body, sizeof(body), "{\"command\":\"%s\",\"timeoutMs\":%u}",
	                 fx_block(c->f, command, sizeof(command)), c->timeout_ms);

	http_call(c->f->port, "POST", c->path, c->f->auth_header, body, (size_t)n, &c->reply);
	return NULL;
}

static void wait_blocked(struct fx *f, unsigned n)
{
	uint64_t end = deadline_in(60000);

	while (fx_blocked(f) < n && clock_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(fx_blocked(f), n);
}

static void long_commands_block_nobody(void **state)
{
	struct fx *f = *state;
	struct long_call calls[20];
	pthread_t t[ARRAY_SIZE(calls)];
	char id[32];

	fx_vm(f, id);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		calls[i] = (struct long_call){ .f = f, .timeout_ms = 60000 };
		snprintf(calls[i].path, sizeof(calls[i].path), "/v1/vms/%s/exec-await", id);
		assert_int_equal(pthread_create(&t[i], NULL, run_long_call, &calls[i]), 0);
	}
	wait_blocked(f, ARRAY_SIZE(calls));
	for (int i = 0; i < 5; i++) {
		autoreply struct http_reply r = { 0 };
		uint64_t begin = clock_ms();

		fx_call(f, "GET", "/v1/vms", NULL, 200, &r);
		assert_true(clock_ms() - begin < 20000); /* the calls above hold for 60 s */
	}
	fx_release(f);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(calls[i].reply.status, 200);
		assert_string_equal(fx_str(calls[i].reply.json, "stderr"), "released");
		http_reply_done(&calls[i].reply);
	}
}

/* With header_ms = 1000: a command that takes longer still gets its reply. */
static void a_working_handler_has_no_deadline(void **state)
{
	struct fx *f = *state;
	struct long_call c = { .f = f, .timeout_ms = 3500 };
	char id[32];

	fx_vm(f, id);
	snprintf(c.path, sizeof(c.path), "/v1/vms/%s/exec-await", id);
	run_long_call(&c);
	assert_int_equal(c.reply.status, 408);
	http_reply_done(&c.reply);
}

static void clients_that_leave_do_no_harm(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	char id[32], text[1024], body[512], command[320];
	int n;

	fx_vm(f, id);
	snprintf(body, sizeof(body), "{\"command\":\"%s\",\"timeoutMs\":60000}",
	         fx_block(f, command, sizeof(command)));
	for (int i = 0; i < 10; i++) {
		autofd int fd = http_connect(f->port, 2000);

		n = snprintf(text, sizeof(text),
		             "POST /v1/vms/%s/exec-await HTTP/1.1\r\nHost: x\r\n%sContent-Length: "
		             "%zu\r\n\r\n%s",
		             id, f->auth_header, strlen(body) + (i % 2 ? 0 : 1000),
		             body); /* half of them incomplete */
		assert_true(http_send(fd, text, (size_t)n));
	}
	wait_blocked(f, 5);
	fx_release(f);
	fx_call(f, "GET", "/v1/vms", NULL, 200, &r);
}

static uint64_t spooled(struct api *a)
{
	return budget_used(a->http->spool, NULL);
}

static void an_upload_that_breaks_off_leaves_nothing(void **state)
{
	struct fx *f = *state;
	autofree char *part = filled(5 << 20);
	uint64_t end = deadline_in(10000);
	int fd = http_connect(f->port, 5000);
	char head[512];
	int n = snprintf(head, sizeof(head),
	                 "PUT /v1/vms/abc/files/x HTTP/1.1\r\nHost: x\r\n%sContent-Length: "
	                 "10000000\r\n\r\n",
	                 f->auth_header);

	assert_true(http_send(fd, head, (size_t)n) && http_send(fd, part, 5 << 20));
	while (spooled(f->api) < 5 << 20 && clock_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(spooled(f->api), 5 << 20);
	close(fd);
	while (spooled(f->api) && clock_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(spooled(f->api), 0);
}

static size_t open_fds(void)
{
	autodir DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	return n;
}

static void starting_and_stopping_leaks_no_descriptor(void **state)
{
	struct fx *f = *state;
	struct api_deps deps = {
		.conf = &f->conf, .store = f->store, .vmm = f->vmm, .auth = f->auth
	};
	size_t before = open_fds();

	for (int i = 0; i < 3; i++) {
		autoreply struct http_reply r = { 0 };
		struct api *a = NULL;
		unsigned port = 0;
		char url[96];

		OK(api_start(&deps, &a, &err));
		assert_int_equal(sscanf(api_url(a, url, sizeof(url)), "http://127.0.0.1:%u", &port),
		                 1);
		assert_int_equal(http_call(port, "GET", "/v1/health", NULL, NULL, 0, &r), 0);
		OK(api_stop(a, 5000, &err));
	}
	assert_int_equal(open_fds(), before);
}

static void many_requests_on_one_connection(void **state)
{
	struct fx *f = *state;
	autofd int fd = http_connect(f->port, 5000);
	char text[512];
	int n = snprintf(text, sizeof(text), "GET /auth/v1/whoami HTTP/1.1\r\nHost: x\r\n%s\r\n",
	                 f->auth_header);

	for (int i = 0; i < 50; i++) {
		autoreply struct http_reply r = { 0 };

		assert_true(http_send(fd, text, (size_t)n));
		assert_int_equal(http_receive(fd, &r), 0);
		assert_int_equal(r.status, 200);
	}
}

/* Requests of one account that have begun and do not end: their bodies never come. */
static void an_account_leaves_connections_for_the_others(void **state)
{
	enum { SHARE = HTTP_REQUESTS_MAX / 4 * 3 };
	struct fx *f = *state;
	autoreply struct http_reply whole = { 0 };
	struct acting other;
	int fds[SHARE];
	char text[512];
	int n, status = 0;
	uint64_t end;

	acting_account(f, &other);
	n = snprintf(text, sizeof(text),
	             "POST /v1/vms HTTP/1.1\r\nHost: x\r\n%sContent-Length: 100\r\n\r\n{",
	             f->auth_header);
	for (size_t i = 0; i < SHARE; i++) {
		fds[i] = http_connect(f->port, 5000);
		assert_true(fds[i] >= 0);
		assert_true(http_send(fds[i], text, (size_t)n));
	}
	end = deadline_in(20000);
	while (status != 429 && deadline_left(end) > 0) { /* they all have begun */
		autoreply struct http_reply r = { 0 };

		assert_int_equal(
		        http_call(f->port, "GET", "/auth/v1/whoami", f->auth_header, NULL, 0, &r),
		        0);
		status = (int)r.status;
		if (status == 429) {
			assert_string_equal(fx_str(r.json, "code"), "LIMIT_EXCEEDED");
			assert_non_null(strstr(fx_str(r.json, "message"), "384"));
		}
	}
	assert_int_equal(status, 429);
	as_call(f, &other, "GET", "/auth/v1/whoami", NULL, 200, &whole);
	close(fds[0]);
	end = deadline_in(20000);
	while (status != 200 && deadline_left(end) > 0) {
		autoreply struct http_reply r = { 0 };

		assert_int_equal(
		        http_call(f->port, "GET", "/auth/v1/whoami", f->auth_header, NULL, 0, &r),
		        0);
		status = (int)r.status;
	}
	assert_int_equal(status, 200);
	for (size_t i = 1; i < SHARE; i++)
		close(fds[i]);
}

/* A request of any kind that does not end by itself. */
struct endless {
	unsigned port;
	char text[768];
	char first[512]; /* what came of its reply */
};

static void *endless_main(void *arg)
{
	struct endless *e = arg;
	autofd int fd = http_connect(e->port, 120000);
	char rest[4096];

	if (fd < 0 || !http_send(fd, e->text, strlen(e->text)))
		return NULL;
	(void)!read(fd, e->first, sizeof(e->first) - 1);
	while (read(fd, rest, sizeof(rest)) > 0)
		;
	return NULL;
}

/*
 * Nothing is freed that a request uses, and none keeps the server from its end: AddressSanitizer
 * looks on.
 */
static void the_end_while_requests_run(void **state)
{
	static const struct {
		const char *path, *header;
		bool runs; /* the command that nobody releases */
	} calls[] = { { "exec-await", "", true },
		      { "exec-await", "x-freestyle-background-after-secs: 0\r\n", true },
		      { "exec", "", true },
		      { "watch-files", "", false },
		      { "await", "", false } };
	struct endless e[ARRAY_SIZE(calls)] = { 0 };
	pthread_t t[ARRAY_SIZE(e)];
	char id[32], command[320], body[400];
	void *own = NULL;
	struct fx *f;

	(void)state;
	assert_int_equal(fx_setup(&own), 0);
	f = own;
	fx_vm(f, id);
	snprintf(body, sizeof(body), "{\"command\":\"%s\"}", fx_block(f, command, sizeof(command)));
	for (size_t i = 0; i < ARRAY_SIZE(e); i++) {
		const char *text = calls[i].runs ? body : "";

		e[i].port = f->port;
		snprintf(e[i].text, sizeof(e[i].text),
		         "POST /v1/vms/%s/%s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: "
		         "%zu\r\n\r\n%s",
		         id, calls[i].path, f->auth_header, calls[i].header, strlen(text), text);
		assert_int_equal(pthread_create(&t[i], NULL, endless_main, &e[i]), 0);
	}
	wait_blocked(f, 3);
	fx_stop(f); /* nobody releases them */
	f->api = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(e); i++) {
		pthread_join(t[i], NULL);
		if (calls[i].runs && strncmp(e[i].first, "HTTP/1.1 ", 9) != 0)
			fail_msg("no reply to '%.40s'", e[i].text);
	}
	assert_int_equal(fx_teardown(&own), 0);
}

static void stopping_waits_and_says_who_is_left(void **state)
{
	struct fx *f = *state;
	struct long_call c = { .f = f, .timeout_ms = 60000 };
	autofd int kept = http_connect(f->port, 5000);
	autoreply struct http_reply r = { 0 }, late = { 0 };
	char id[32], text[512];
	pthread_t t;
	int n = snprintf(text, sizeof(text), "GET /auth/v1/whoami HTTP/1.1\r\nHost: x\r\n%s\r\n",
	                 f->auth_header);

	fx_vm(f, id);
	assert_true(http_send(kept, text, (size_t)n));
	assert_int_equal(http_receive(kept, &r), 0);
	snprintf(c.path, sizeof(c.path), "/v1/vms/%s/exec-await", id);
	assert_int_equal(pthread_create(&t, NULL, run_long_call, &c), 0);
	wait_blocked(f, 1);
	FAILS(-EBUSY, api_stop(f->api, 200, &err));
	assert_non_null(strstr(err.msg, "1 request"));
	assert_int_equal(http_connect(f->port, 1000), -1); /* no new connections, */
	assert_true(http_send(kept, text, (size_t)n));     /* no new requests on old ones */
	assert_int_equal(http_receive(kept, &late), 0);
	assert_int_equal(late.status, 503);
	fx_release(f);
	OK(api_stop(f->api, 10000, &err));
	f->api = NULL;
	pthread_join(t, NULL);
	assert_int_equal(c.reply.status, 200); /* the one that ran got its reply */
	http_reply_done(&c.reply);
}

static void a_taken_port_is_said_in_a_sentence(void **state)
{
	struct fx *f = *state;
	struct conf conf = f->conf;
	struct api_deps deps = { .conf = &conf, .store = f->store, .vmm = f->vmm, .auth = f->auth };
	struct api *second = NULL;

	snprintf(conf.listen, sizeof(conf.listen), "127.0.0.1:%u", f->port);
	FAILS(-EADDRINUSE, api_start(&deps, &second, &err));
	assert_non_null(strstr(err.msg, "PANDO_LISTEN"));
	assert_non_null(strstr(err.msg, conf.listen));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
#define HASTY(name) cmocka_unit_test_setup_teardown(name, setup_hasty, fx_teardown)
		T(a_body_over_the_limit_is_refused_and_the_reply_arrives),
		T(a_huge_promise_is_refused_at_once),
		T(chunked_bodies_are_counted_too),
		T(without_a_key_no_body_is_kept),
		HASTY(slow_headers_end_the_connection),
		HASTY(a_working_handler_has_no_deadline),
		T(long_commands_block_nobody),
		T(clients_that_leave_do_no_harm),
		T(an_upload_that_breaks_off_leaves_nothing),
		T(starting_and_stopping_leaks_no_descriptor),
		T(many_requests_on_one_connection),
		T(an_account_leaves_connections_for_the_others),
		T(stopping_waits_and_says_who_is_left),
		cmocka_unit_test(the_end_while_requests_run),
		T(a_taken_port_is_said_in_a_sentence),
	};

	return FX_RUN(tests);
}
