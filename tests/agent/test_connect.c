/* SPDX-License-Identifier: Apache-2.0 */
/* test_connect.c - TCP through the channel, to servers this test opens on the loopback */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "guest/guest_login.h"
#include "tests/agent/util.h"

#define DEADLINE deadline_in(TEST_DEADLINE_MS)
#define BULK (20u << 20)

static int listen_on(int family, uint16_t *ret_port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t len = family == AF_INET ? sizeof(v4) : sizeof(v6);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, sa, len) < 0 || listen(fd, 8) < 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	assert_int_equal(getsockname(fd, sa, &len), 0);
	*ret_port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	return fd;
}

static int accept_one(int fd)
{
	int k;

	assert_int_equal(io_wait(fd, POLLIN, DEADLINE), 1);
	k = accept(fd, NULL, NULL);
	assert_true(k >= 0);
	return k;
}

static void expect_read(int fd, const char *want)
{
	char got[256];
	size_t n = strlen(want);

	assert_int_equal(io_wait(fd, POLLIN, DEADLINE), 1);
	assert_int_equal(io_read_all(fd, got, n), 0);
	assert_memory_equal(got, want, n);
}

static void expect_end(int fd)
{
	char c;

	assert_int_equal(io_wait(fd, POLLIN, DEADLINE), 1);
	assert_int_equal(read(fd, &c, 1), 0);
}

static void flow_closep(struct guest_flow **f)
{
	guest_flow_close(*f);
}
#define autoflow AUTO(flow_closep)

static void flow_wait(struct guest_flow *f)
{
	assert_int_equal(io_wait(guest_flow_fd(f), POLLIN, DEADLINE), 1);
}

/* 1 when it stands, or what the guest says. */
static int dial(struct rig *r, uint16_t port, struct guest_flow **ret)
{
	struct err err = { 0 };
	int k;

	assert_int_equal(guest_dial(r->g, /* addr= */ NULL, port, ret, &err), 0);
	while ((k = guest_flow_opened(*ret, &err)) == 0) {
		flow_wait(*ret);
		guest_flow_seen(*ret);
	}
	return k;
}

static void flow_expect(struct guest_flow *f, const char *want)
{
	size_t n = strlen(want), got = 0;
	struct err err = { 0 };
	uint8_t p[256];

	while (got < n) {
		int chan = 0;
		ssize_t k = guest_flow_read(f, &chan, p + got, n - got, &err);

		if (k < 0)
			fail_msg("%zu bytes of '%s', then %zd %s", got, want, k, err.msg);
		assert_true(k == 0 || chan == 1);
		got += (size_t)k;
		if (k == 0)
			flow_wait(f);
	}
	assert_memory_equal(p, want, n);
}

/* The other side sends no more. */
static void flow_expect_end(struct guest_flow *f)
{
	while (!guest_flow_eof(f, 1)) {
		flow_wait(f);
		guest_flow_seen(f);
	}
}

static void flow_say(struct guest_flow *f, const char *text)
{
	struct err err = { 0 };

	assert_int_equal(guest_flow_write(f, (const uint8_t *)text, strlen(text), DEADLINE, &err),
	                 0);
}

static void test_both_ways(void **state)
{
	struct rig *r = *state;
	autoflow struct guest_flow *f = NULL;
	struct err err = { 0 };
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1;

	assert_int_equal(dial(r, port, &f), 1);
	peer = accept_one(srv);
	flow_say(f, "request");
	expect_read(peer, "request");
	assert_int_equal(write(peer, "hello", 5), 5);
	flow_expect(f, "hello");
	/* Each direction ends on its own. */
	assert_int_equal(guest_flow_feed_eof(f, &err), 0);
	expect_end(peer);
	assert_int_equal(write(peer, "still talking", 13), 13);
	flow_expect(f, "still talking");
	close(TAKE_FD(peer));
	flow_expect_end(f);
}

static void test_server_ends_first(void **state)
{
	struct rig *r = *state;
	autoflow struct guest_flow *f = NULL;
	struct err err = { 0 };
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1;

	assert_int_equal(dial(r, port, &f), 1);
	peer = accept_one(srv);
	assert_int_equal(write(peer, "bye", 3), 3);
	assert_int_equal(shutdown(peer, SHUT_WR), 0);
	flow_expect(f, "bye");
	flow_expect_end(f);
	flow_say(f, "and you");
	expect_read(peer, "and you");
	flow_say(f, "last");
	assert_int_equal(guest_flow_finish(f, DEADLINE, &err), 0);
	expect_read(peer, "last");
	expect_end(peer);
}

static void test_refused_and_v6(void **state)
{
	struct rig *r = *state;
	autoflow struct guest_flow *gone = NULL, *zero = NULL, *f = NULL;
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), v6 = -1, peer = -1;

	close(TAKE_FD(srv)); /* a port where surely nobody listens */
	assert_int_equal(dial(r, port, &gone), -ECONNREFUSED);
	assert_int_equal(dial(r, 0, &zero), -EBADMSG);
	v6 = listen_on(AF_INET6, &port);
	if (v6 < 0)
		skip(); /* no IPv6 here */
	assert_int_equal(dial(r, port, &f), 1);
	peer = accept_one(v6);
	assert_int_equal(write(peer, "six", 3), 3);
	flow_expect(f, "six");
}

static void *echo_main(void *arg)
{
	int fd = *(int *)arg;
	static uint8_t p[65536];
	ssize_t n;

	while ((n = read(fd, p, sizeof(p))) > 0)
		if (io_write_all(fd, p, (size_t)n) < 0)
			break;
	shutdown(fd, SHUT_WR);
	return NULL;
}

/* One thread sends and takes what comes back, as a flow's user does; byte i is i % 65536 * 31. */
static void test_bulk_echo(void **state)
{
	struct rig *r = *state;
	autoflow struct guest_flow *f = NULL;
	struct err err = { 0 };
	static uint8_t out[65536], in[65536];
	uint16_t port = 0;
	size_t sent = 0, got = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1;
	pthread_t echo;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 31);
	assert_int_equal(dial(r, port, &f), 1);
	peer = accept_one(srv);
	assert_int_equal(pthread_create(&echo, NULL, echo_main, &peer), 0);
	while (got < BULK) {
		size_t at = sent % sizeof(out);
		ssize_t k = 0, n;

		guest_flow_seen(f);
		if (sent < BULK) {
			k = guest_flow_feed(f, out + at, sizeof(out) - at, &err);
			assert_true(k >= 0);
			sent += (size_t)k;
			if (sent == BULK)
				assert_int_equal(guest_flow_feed_eof(f, &err), 0);
		}
		n = guest_flow_read(f, NULL, in, sizeof(in), &err);
		if (n < 0 && !(n == -ENODATA && got == BULK))
			fail_msg("after %zu bytes: %zd %s", got, n, err.msg);
		for (ssize_t i = 0; i < n; i++)
			if (in[i] != (uint8_t)((got + (size_t)i) % sizeof(out) * 31))
				fail_msg("wrong byte at %zu", got + (size_t)i);
		got += (size_t)n;
		if (k == 0 && n == 0)
			flow_wait(f);
	}
	flow_expect_end(f);
	pthread_join(echo, NULL);
	assert_int_equal(got, BULK);
	assert_true(rss_kb(r->agent) < 32 << 10);
}

/* The connection to the guest ends: the flow says so, and nothing is left. */
static void test_guest_goes(void **state)
{
	struct rig *r = *state;
	struct guest_flow *f = NULL;
	unsigned fds = count_fds(getpid());
	struct err err = { 0 };
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1;
	uint8_t c;

	assert_int_equal(dial(r, port, &f), 1);
	peer = accept_one(srv);
	guest_close(r->g);
	flow_wait(f);
	assert_int_equal(guest_flow_read(f, NULL, &c, 1, &err), -ECONNRESET);
	guest_flow_close(f);
	close(TAKE_FD(peer));
	close(TAKE_FD(srv));
	assert_true(count_fds(getpid()) <= fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_ready, rig_done)
		T(test_both_ways), T(test_server_ends_first), T(test_refused_and_v6),
		T(test_bulk_echo), T(test_guest_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
