/* SPDX-License-Identifier: Apache-2.0 */
/* test_login.c - remote shells and connections of the agent, on this machine */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "guest/guest_login.h"
#include "tests/agent/util.h"

#define DEADLINE deadline_in(TEST_DEADLINE_MS)

static void flow_closep(struct guest_flow **f)
{
	guest_flow_close(*f);
}
#define autoflow AUTO(flow_closep)

static int await_opened(struct guest_flow *f, struct err *err)
{
	uint64_t until = DEADLINE;
	int r;

	while ((r = guest_flow_opened(f, err)) == 0) {
		assert_int_equal(io_wait(guest_flow_fd(f), POLLIN, until), 1);
		guest_flow_seen(f);
	}
	return r;
}

/* All that comes until the text, or the end when it is NULL. */
static void read_until(struct guest_flow *f, const char *text, struct buf *all)
{
	uint64_t until = DEADLINE;
	struct err err = { 0 };
	uint8_t chunk[1024];

	for (;;) {
		ssize_t n = guest_flow_read(f, NULL, chunk, sizeof(chunk), &err);

		if (n > 0)
			buf_put(all, chunk, (size_t)n);
		if (n == -ENODATA && !text)
			return;
		if (n < 0)
			fail_msg("ended: %s", err.msg);
		if (text && all->len && memmem(all->p, all->len, text, strlen(text)))
			return;
		if (n == 0 && io_wait(guest_flow_fd(f), POLLIN, until) != 1)
			fail_msg("no '%s' in '%.*s'", text ? text : "(end)", (int)all->len,
			         (const char *)all->p);
	}
}

static void login(struct rig *r, const struct guest_login_req *q, struct guest_flow **ret)
{
	struct err err = { 0 };

	if (guest_login(r->g, q, ret, &err) < 0 || await_opened(*ret, &err) != 1)
		fail_msg("login: %s", err.msg);
}

static void test_command_and_streams(void **state)
{
	const char *const env[] = { "LC_X=y z", NULL };
	struct guest_login_req q = { .command = "echo $LC_X; echo err >&2; cat; exit 3",
		                     .env = env };
	struct guest_exec_result res;
	autobuf struct buf all = { 0 };
	struct err err = { 0 };
	autoflow struct guest_flow *f = NULL;

	login(*state, &q, &f);
	assert_int_equal(guest_flow_feed(f, (const uint8_t *)"typed", 5, &err), 5);
	assert_int_equal(guest_flow_feed_eof(f, &err), 0);
	read_until(f, NULL, &all);
	buf_put_u8(&all, 0);
	assert_non_null(strstr((char *)all.p, "y z\n"));
	assert_non_null(strstr((char *)all.p, "err\n"));
	assert_non_null(strstr((char *)all.p, "typed"));
	assert_int_equal(guest_run_result(f, &res, &err), 0);
	assert_int_equal(res.exit_code, 3);
	assert_true(guest_flow_eof(f, 1) && guest_flow_eof(f, 2));
}

static void test_terminal_and_signals(void **state)
{
	struct guest_login_req q = { .command = "tty; stty size; trap 'stty size' WINCH; "
		                                "trap 'echo terminated; exit 8' TERM; echo ready; "
		                                "while :; do sleep 0.1; done",
		                     .cols = 91,
		                     .rows = 23 };
	struct guest_exec_result res;
	autobuf struct buf all = { 0 };
	struct err err = { 0 };
	autoflow struct guest_flow *f = NULL;

	login(*state, &q, &f);
	read_until(f, "/dev/pts/", &all);
	read_until(f, "23 91\r\n", &all);
	read_until(f, "ready", &all);
	assert_int_equal(guest_login_resize(f, 70, 20, &err), 0);
	read_until(f, "20 70", &all);
	assert_int_equal(guest_flow_signal(f, SIGTERM, &err), 0);
	read_until(f, NULL, &all);
	assert_int_equal(guest_run_result(f, &res, &err), 0);
	assert_int_equal(res.exit_code, 8);
}

static void test_killed_by_a_signal(void **state)
{
	struct guest_login_req q = { .command = "kill -KILL $$" };
	struct guest_exec_result res;
	autobuf struct buf all = { 0 };
	struct err err = { 0 };
	autoflow struct guest_flow *f = NULL;

	login(*state, &q, &f);
	read_until(f, NULL, &all);
	assert_int_equal(guest_run_result(f, &res, &err), 0);
	assert_int_equal(res.signal, SIGKILL);
}

static void test_no_such_user(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };

	for (unsigned cols = 0; cols <= 80; cols += 80) {
		struct guest_login_req q = {
			.command = "true", .user = "nosuchuser", .cols = cols, .rows = cols ? 24 : 0
		};
		autoflow struct guest_flow *f = NULL;

		assert_int_equal(guest_login(r->g, &q, &f, &err), 0);
		assert_int_equal(await_opened(f, &err), -ENOENT);
		assert_non_null(strstr(err.msg, "nosuchuser"));
	}
}

/* True while a process with that text in its command line is there. */
static bool runs(struct rig *r, const char *marker)
{
	struct guest_exec_result res;
	char command[128];
	bool there;

	snprintf(command, sizeof(command), "pgrep -f '[%c]%s'", marker[0], marker + 1);
	run_ok(r, command, &res);
	there = res.exit_code == 0;
	guest_exec_result_done(&res);
	return there;
}

static void await_gone(struct rig *r, const char *marker)
{
	uint64_t until = DEADLINE;

	while (runs(r, marker)) {
		if (clock_ms() > until)
			fail_msg("'%s' still runs", marker);
		poll(NULL, 0, 20);
	}
}

/* Closing the flow: a terminal hangs up, a writer's pipe breaks, the background continues. */
static void test_hang_up(void **state)
{
	struct rig *r = *state;
	struct guest_login_req tty = { .command = "echo on; exec sleep 98761",
		                       .cols = 80,
		                       .rows = 24 };
	struct guest_login_req pipe = { .command = "sleep 98762 >/dev/null 2>&1 </dev/null & "
		                                   "echo on; exec yes 98763" };
	autobuf struct buf all = { 0 };
	struct guest_exec_result res;
	struct guest_flow *f = NULL;

	login(r, &tty, &f);
	read_until(f, "on", &all);
	guest_flow_close(f);
	await_gone(r, "sleep 98761");
	login(r, &pipe, &f);
	read_until(f, "98763", &all);
	guest_flow_close(f);
	await_gone(r, "yes 98763");
	assert_true(runs(r, "sleep 98762"));
	run_ok(r, "pkill -f '[s]leep 98762'", &res);
	guest_exec_result_done(&res);
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(port),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* listen and accept are the server, dial the client. */
static void test_dial_listen_accept(void **state)
{
	struct rig *r = *state;
	autoflow struct guest_flow *l = NULL, *a = NULL, *d = NULL;
	autobuf struct buf got = { 0 };
	char from[GUEST_ADDR_SIZE];
	struct err err = { 0 };
	uint16_t port = 0, from_port = 0;

	assert_int_equal(guest_listen(r->g, NULL, 0, &l, &err), 0);
	assert_int_equal(await_opened(l, &err), 1);
	assert_int_equal(guest_listen_port(l, &port, &err), 0);
	assert_int_equal(guest_accept(l, &a, &err), 0);
	assert_int_equal(guest_dial(r->g, "127.0.0.1", port, &d, &err), 0);
	assert_int_equal(await_opened(d, &err), 1);
	assert_int_equal(await_opened(a, &err), 1);
	assert_int_equal(guest_accept_peer(a, from, &from_port, &err), 0);
	assert_string_equal(from, "127.0.0.1");
	assert_int_equal(guest_flow_feed(d, (const uint8_t *)"ping", 4, &err), 4);
	read_until(a, "ping", &got);
	assert_int_equal(guest_flow_feed(a, (const uint8_t *)"pong", 4, &err), 4);
	read_until(d, "pong", &got);
	assert_int_equal(guest_flow_feed_eof(d, &err), 0);
	assert_int_equal(guest_flow_feed_eof(a, &err), 0);
	read_until(a, NULL, &got);
	read_until(d, NULL, &got);
}

static void test_queue_and_end_of_listening(void **state)
{
	struct rig *r = *state;
	struct guest_flow *l = NULL;
	autoflow struct guest_flow *a = NULL, *b = NULL, *again = NULL;
	struct err err = { 0 };
	uint16_t port = 0;

	assert_int_equal(guest_listen(r->g, NULL, 0, &l, &err), 0);
	assert_int_equal(await_opened(l, &err), 1);
	assert_int_equal(guest_listen_port(l, &port, &err), 0);
	autofd int one = connect_to(port), two = connect_to(port); /* before anyone accepts */
	assert_int_equal(guest_accept(l, &a, &err), 0);
	assert_int_equal(guest_accept(l, &b, &err), 0);
	assert_int_equal(await_opened(a, &err), 1);
	assert_int_equal(await_opened(b, &err), 1);
	/* taken while it lasts, free afterwards */
	assert_int_equal(guest_listen(r->g, NULL, port, &again, &err), 0);
	assert_int_equal(await_opened(again, &err), -EADDRINUSE);
	guest_flow_close(TAKE_PTR(again));
	guest_flow_close(l);
	assert_int_equal(guest_listen(r->g, NULL, port, &again, &err), 0);
	assert_int_equal(await_opened(again, &err), 1);
	assert_true(one >= 0 && two >= 0);
}

static void test_refusals(void **state)
{
	struct rig *r = *state;
	autoflow struct guest_flow *d = NULL, *l = NULL, *u = NULL;
	struct err err = { 0 };

	assert_int_equal(guest_dial(r->g, "127.0.0.1", 1, &d, &err), 0);
	assert_int_equal(await_opened(d, &err), -ECONNREFUSED);
	assert_int_equal(guest_listen(r->g, "nobody", 81, &l, &err), 0);
	assert_int_equal(await_opened(l, &err), -EACCES);
	assert_int_equal(guest_listen(r->g, "nosuchuser", 0, &u, &err), 0);
	assert_int_equal(await_opened(u, &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_command_and_streams, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_terminal_and_signals, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_killed_by_a_signal, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_no_such_user, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_hang_up, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_dial_listen_accept, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_queue_and_end_of_listening, rig_ready,
		                                rig_done),
		cmocka_unit_test_setup_teardown(test_refusals, rig_ready, rig_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
