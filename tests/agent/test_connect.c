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

static void test_both_ways(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1, fd = -1;

	assert_int_equal(guest_connect(r->g, port, DEADLINE, &fd, &err), 0);
	peer = accept_one(srv);
	assert_int_equal(write(fd, "request", 7), 7);
	expect_read(peer, "request");
	assert_int_equal(write(peer, "hello", 5), 5);
	expect_read(fd, "hello");
	/* Each direction ends on its own. */
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	expect_end(peer);
	assert_int_equal(write(peer, "still talking", 13), 13);
	expect_read(fd, "still talking");
	close(TAKE_FD(peer));
	expect_end(fd);
}

static void test_server_ends_first(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1, fd = -1;

	assert_int_equal(guest_connect(r->g, port, DEADLINE, &fd, &err), 0);
	peer = accept_one(srv);
	assert_int_equal(write(peer, "bye", 3), 3);
	assert_int_equal(shutdown(peer, SHUT_WR), 0);
	expect_read(fd, "bye");
	expect_end(fd);
	assert_int_equal(write(fd, "and you", 7), 7);
	expect_read(peer, "and you");
	/* Gone without a word: what was said before still arrives. */
	assert_int_equal(write(fd, "last", 4), 4);
	close(TAKE_FD(fd));
	expect_read(peer, "last");
	expect_end(peer);
}

static void test_refused_and_v6(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), v6 = -1, peer = -1, fd = -1;

	close(TAKE_FD(srv)); /* a port where surely nobody listens */
	assert_int_equal(guest_connect(r->g, port, DEADLINE, &fd, &err), -ECONNREFUSED);
	assert_int_equal(guest_connect(r->g, 0, DEADLINE, &fd, &err), -EBADMSG);
	v6 = listen_on(AF_INET6, &port);
	if (v6 < 0)
		skip(); /* no IPv6 here */
	assert_int_equal(guest_connect(r->g, port, DEADLINE, &fd, &err), 0);
	peer = accept_one(v6);
	assert_int_equal(write(peer, "six", 3), 3);
	expect_read(fd, "six");
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

static void *pour_main(void *arg)
{
	int fd = *(int *)arg;
	static uint8_t p[65536];

	for (size_t i = 0; i < sizeof(p); i++)
		p[i] = (uint8_t)(i * 31);
	for (size_t left = BULK; left; left -= sizeof(p))
		if (io_write_all(fd, p, sizeof(p)) < 0)
			break;
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void test_bulk_echo(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	static uint8_t p[65536];
	uint16_t port = 0;
	size_t got = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1, fd = -1;
	pthread_t echo, pour;

	assert_int_equal(guest_connect(r->g, port, DEADLINE, &fd, &err), 0);
	peer = accept_one(srv);
	assert_int_equal(pthread_create(&echo, NULL, echo_main, &peer), 0);
	assert_int_equal(pthread_create(&pour, NULL, pour_main, &fd), 0);
	for (;;) {
		ssize_t n;

		assert_int_equal(io_wait(fd, POLLIN, DEADLINE), 1);
		n = read(fd, p, sizeof(p));
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			if (p[i] != (uint8_t)((got + (size_t)i) % 65536 * 31))
				fail_msg("wrong byte at %zu", got + (size_t)i);
		got += (size_t)n;
	}
	assert_int_equal(got, BULK);
	pthread_join(pour, NULL);
	pthread_join(echo, NULL);
	assert_true(rss_kb(r->agent) < 32 << 10);
}

/* The connection to the guest ends: the caller's socket does too, and nothing is left. */
static void test_guest_goes(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	unsigned fds = count_fds(getpid());
	uint16_t port = 0;
	autofd int srv = listen_on(AF_INET, &port), peer = -1, fd = -1;

	assert_int_equal(guest_connect(r->g, port, DEADLINE, &fd, &err), 0);
	peer = accept_one(srv);
	guest_close(r->g);
	expect_end(fd);
	close(TAKE_FD(fd));
	close(TAKE_FD(peer));
	close(TAKE_FD(srv));
	for (uint64_t end = deadline_in(5000); count_fds(getpid()) > fds && clock_ms() < end;)
		usleep(1000); /* the relay's thread lets go */
	assert_int_equal(count_fds(getpid()), fds);
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
