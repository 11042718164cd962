/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_strangers.c - connections that have shown no key take no place from those that have one
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/http_internal.h"
#include "tests/unit/api_as.h"
#include "tests/unit/api_fx.h"

#define CROWD 700 /* more than all connections there were */

/* Time helps nobody: half of a header may take ten minutes. */
static int setup_patient(void **state)
{
	return fx_setup_with(state, /* header_ms= */ 600000);
}

static void open_crowd(struct fx *f, int fds[CROWD], const char *text)
{
	for (size_t i = 0; i < CROWD; i++) {
		fds[i] = http_connect(f->port, 60000);
		assert_true(fds[i] >= 0);
		(void)http_send(fds[i], text, strlen(text)); /* it may be closed already */
	}
}

static void close_crowd(int fds[CROWD])
{
	for (size_t i = 0; i < CROWD; i++)
		close(fds[i]);
}

static void the_key_works(struct fx *f)
{
	for (int i = 0; i < 5; i++) {
		autofd int fd = http_connect(f->port, 60000);
		autoreply struct http_reply r = { 0 };
		char text[512];
		int n = snprintf(text, sizeof(text),
		                 "GET /auth/v1/whoami HTTP/1.1\r\nHost: x\r\n%s\r\n",
		                 f->auth_header);

		assert_true(fd >= 0 && http_send(fd, text, (size_t)n));
		assert_int_equal(http_receive(fd, &r), 0);
		assert_int_equal(r.status, 200);
	}
}

static void half_sent_headers_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	int fds[CROWD];

	open_crowd(f, fds, "GET /v1/health HTTP/1.1\r\nHost: ");
	the_key_works(f);
	close_crowd(fds);
}

static void silent_connections_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	int fds[CROWD];

	open_crowd(f, fds, "");
	the_key_works(f);
	close_crowd(fds);
}

/* They were refused, but the server waits for their bodies so that they see it. */
static void half_sent_bodies_without_a_key_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	int fds[CROWD];

	open_crowd(f, fds, "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{");
	the_key_works(f);
	close_crowd(fds);
}

/* A public route takes a body too. */
static void half_sent_bodies_of_public_routes_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply made = { 0 };
	char text[256];
	int fds[CROWD];

	fx_call(f, "POST", "/git/v1/repo", "{\"name\":\"open\",\"public\":true}", 200, &made);
	snprintf(text, sizeof(text),
	         "POST /%s/info/lfs/objects/batch HTTP/1.1\r\nHost: x\r\nContent-Length: "
	         "100000\r\n\r\n{",
	         fx_str(made.json, "repoId"));
	open_crowd(f, fds, text);
	the_key_works(f);
	close_crowd(fds);
}

struct one {
	struct fx *f;
	int status;
};

static void *ask(void *arg)
{
	struct one *o = arg;
	autoreply struct http_reply r = { 0 };

	if (http_call(o->f->port, "GET", "/auth/v1/whoami", o->f->auth_header, NULL, 0, &r) == 0)
		o->status = r.status;
	return NULL;
}

/* A client that opens many connections at once is no attack: each of them is served. */
static void a_burst_of_a_good_client_is_served(void **state)
{
	enum { BURST = 300 };
	struct fx *f = *state;
	struct one ones[BURST];
	pthread_t t[BURST];

	for (size_t i = 0; i < BURST; i++) {
		ones[i] = (struct one){ .f = f };
		assert_int_equal(pthread_create(&t[i], NULL, ask, &ones[i]), 0);
	}
	for (size_t i = 0; i < BURST; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(ones[i].status, 200);
	}
}

/* Whoever had a request with a key keeps its connection while strangers come and go. */
static void connections_with_a_key_stay(void **state)
{
	struct fx *f = *state;
	autofd int kept = http_connect(f->port, 60000);
	autoreply struct http_reply r = { 0 }, again = { 0 };
	char text[512];
	int n = snprintf(text, sizeof(text), "GET /auth/v1/whoami HTTP/1.1\r\nHost: x\r\n%s\r\n",
	                 f->auth_header);
	int fds[CROWD];

	assert_true(http_send(kept, text, (size_t)n));
	assert_int_equal(http_receive(kept, &r), 0);
	open_crowd(f, fds, "GET /v1/health HTTP/1.1\r\n");
	the_key_works(f);
	assert_true(http_send(kept, text, (size_t)n));
	assert_int_equal(http_receive(kept, &again), 0);
	assert_int_equal(again.status, 200);
	close_crowd(fds);
}

int main(void)
{
	const struct rlimit files = { 8192, 8192 };
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_patient, fx_teardown)
		T(half_sent_headers_lock_nobody_out),
		T(silent_connections_lock_nobody_out),
		T(half_sent_bodies_without_a_key_lock_nobody_out),
		T(half_sent_bodies_of_public_routes_lock_nobody_out),
		T(a_burst_of_a_good_client_is_served),
		T(connections_with_a_key_stay),
	};

	setrlimit(RLIMIT_NOFILE, &files); /* both ends of the crowd are here */
	return FX_RUN(tests);
}
