/* SPDX-License-Identifier: Apache-2.0 */
/* test_hello.c - greeting, identity and resynchronisation, host end against the real agent */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

static unsigned count_lines(const char *text, const char *begin)
{
	unsigned n = 0;

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		n += !strncmp(p, begin, strlen(begin));
	}
	return n;
}

static void test_boot(void **state)
{
	struct rig *r = *state;
	struct guest_info info;
	struct err err = { 0 };
	autofree char *steps = NULL, *id = NULL;
	unsigned long long first, second;
	const char *p;

	rig_attach(r);
	assert_int_equal(guest_ping(r->g, deadline_in(1000), &err), -ENOTCONN);
	assert_false(guest_alive(r->g));
	assert_int_equal(rig_hello(r, GUEST_BOOT, 41, &info, &err), 0);
	assert_true(guest_alive(r->g));
	assert_int_equal(info.version, AGENT_VERSION_MAX);
	assert_int_equal(info.generation, 41);
	assert_string_equal(info.agent_version, PANDO_VERSION);
	assert_int_equal(strlen(info.boot_id), 36);
	assert_int_equal(guest_ping(r->g, deadline_in(TEST_DEADLINE_MS), &err), 0);
	assert_int_equal(rig_hello(r, GUEST_BOOT, 41, &info, &err), -EALREADY);

	steps = rig_text(r, "steps");
	assert_non_null(strstr(steps, "entropy 64 bytes\n"));
	assert_non_null(strstr(steps, "hostname pando-test\n"));
	assert_int_equal(count_lines(steps, "clock "), 2); /* in HELLO, and fresh afterwards */
	p = strstr(steps, "clock ");
	assert_int_equal(sscanf(p, "clock %llu", &first), 1);
	assert_int_equal(sscanf(strstr(p + 1, "clock "), "clock %llu", &second), 1);
	assert_true(second > first && clock_wall_ns() - second < 10000000000u);
	id = rig_text(r, "etc/machine-id");
	assert_string_equal(id, "0123456789abcdef0123456789abcdef\n");
}

/* A step that cannot be done is an error, and nothing else is served. */
static void test_step_fails_closed(void **state)
{
	struct rig *r = *state;
	struct guest_identity id = { .reason = GUEST_THAW,
		                     .generation = 2,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "not/a/name" };
	struct err err = { 0 };

	rig_attach(r);
	assert_int_equal(guest_hello(r->g, &id, deadline_in(TEST_DEADLINE_MS), NULL, &err), -EIO);
	assert_non_null(strstr(err.msg, "hostname"));
	assert_false(guest_alive(r->g));
	assert_int_equal(guest_ping(r->g, deadline_in(1000), &err), -ECONNRESET);
}

static void test_hooks(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	autofree char *said = NULL;
	char script[256], path[128];

	const char *dirs[] = { "usr", "usr/lib", "usr/lib/pando", "usr/lib/pando/identity.d" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", r->dir, dirs[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	snprintf(script, sizeof(script),
	         "#!/bin/sh\necho $PANDO_REASON $PANDO_GENERATION >%s/said\n", r->dir);
	rig_write(r, "usr/lib/pando/identity.d/good", script, 0755);
	rig_write(r, "usr/lib/pando/identity.d/not-executable", "#!/bin/sh\nexit 1\n", 0644);
	assert_int_equal(rig_hello(r, GUEST_THAW, 7, NULL, &err), 0);
	said = rig_text(r, "said");
	assert_string_equal(said, "thaw 7\n");

	rig_stop(r);
	rig_spawn(r);
	rig_write(r, "usr/lib/pando/identity.d/bad", "#!/bin/sh\nexit 3\n", 0755);
	assert_int_equal(rig_hello(r, GUEST_THAW, 8, NULL, &err), -EIO);
	assert_non_null(strstr(err.msg, "hooks"));
}

/* The generation survives a restart of the agent, and nothing is done twice. */
static void test_reconnect(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	autofree char *steps = NULL, *later = NULL;
	struct guest_info info;

	assert_int_equal(rig_hello(r, GUEST_RECONNECT, 5, NULL, &err), -ESTALE);
	rig_stop(r);
	rig_spawn(r);
	assert_int_equal(rig_hello(r, GUEST_BOOT, 5, NULL, &err), 0);
	rig_stop(r);
	steps = rig_text(r, "steps");
	rig_spawn(r);
	assert_int_equal(rig_hello(r, GUEST_RECONNECT, 5, &info, &err), 0);
	assert_int_equal(info.generation, 5);
	later = rig_text(r, "steps");
	assert_string_equal(steps, later);
	rig_stop(r);
	rig_spawn(r);
	assert_int_equal(rig_hello(r, GUEST_RECONNECT, 6, NULL, &err), -ESTALE);
}

/* Kernels that were loaded before compare the whole line: two machines that begin at one point have
 * the same generation, and must not look like one. */
static void test_machines_of_one_generation_differ(void **state)
{
	struct rig *r = *state;
	autofree char *first = NULL, *second = NULL;
	struct err err = { 0 };

	assert_int_equal(rig_hello(r, GUEST_BOOT, 1, NULL, &err), 0);
	first = rig_text(r, "run/pando/generation");
	assert_int_equal(strtoull(first, NULL, 10), 1);
	rig_stop(r);
	rig_spawn(r);
	assert_int_equal(rig_hello(r, GUEST_THAW, 1, NULL, &err), 0);
	second = rig_text(r, "run/pando/generation");
	assert_int_equal(strtoull(second, NULL, 10), 1);
	assert_int_equal(strlen(first), strlen(second));
	assert_string_not_equal(first, second);
}

static void test_same_nonce_once(void **state)
{
	struct rig *r = *state;
	autobuf struct buf b = { 0 };
	autofree char *steps = NULL;
	struct agent_hello h;
	struct agent_frame f;
	struct raw w;

	raw_init(&w, r->fd);
	raw_hello_fill(&h, AGENT_BOOT, 3);
	agent_hello_put(&b, &h);
	for (int i = 0; i < 3; i++)
		raw_send(&w, AGENT_F_HELLO, 0, 0, b.p, b.len);
	for (int i = 0; i < 3; i++)
		raw_expect(&w, AGENT_F_HELLO_ACK, &f);
	steps = rig_text(r, "steps");
	assert_int_equal(count_lines(steps, "clock "), 1);
	assert_int_equal(count_lines(steps, "entropy "), 1);
	raw_done(&w);
}

static void test_version(void **state)
{
	struct rig *r = *state;
	autobuf struct buf b = { 0 };
	struct agent_hello_ack ack;
	struct agent_hello h;
	struct agent_frame f;
	struct raw w;

	raw_init(&w, r->fd);
	raw_hello_fill(&h, AGENT_BOOT, 3);
	h.version_min = 200;
	h.version_max = 300;
	agent_hello_put(&b, &h);
	raw_send(&w, AGENT_F_HELLO, 0, 0, b.p, b.len);
	raw_expect(&w, AGENT_F_HELLO_ACK, &f);
	assert_int_equal(agent_hello_ack_get(f.payload, f.len, &ack), 0);
	assert_int_equal(ack.version, 0);
	assert_int_equal(ack.failed_errno, EPROTONOSUPPORT);
	assert_int_equal(ack.steps_done, 0);
	/* Requests are refused: no greeting was accepted. */
	raw_open_exec(&w, 1, "true", false);
	assert_int_equal(raw_result(&w, 1, NULL), ENOTCONN);
	raw_done(&w);
}

/* Pulls the plug in the middle of a stdin frame, then thaws. */
static void thaw_after_half(struct rig *r, const void *half, size_t n, unsigned at_least_ms)
{
	struct agent_hello_ack ack;
	autofree char *got = NULL;
	struct guest_exec_result x;
	struct err err = { 0 };
	struct cable c;
	char command[160];
	struct raw w;
	uint64_t begin;

	raw_init(&w, r->fd);
	raw_hello(&w, AGENT_BOOT, 1, &ack);
	snprintf(command, sizeof(command), "cat >%s/got; echo end >>%s/got", r->dir, r->dir);
	raw_open_exec(&w, 9, command, true);
	raw_send(&w, AGENT_F_DATA, AGENT_IN, 9, "whole\n", 6);
	raw_write(&w, half, n);
	raw_done(&w);

	assert_int_equal(guest_new("test", cable_plug(&c, r->fd), &r->g, &err), 0);
	begin = clock_ms();
	if (rig_hello(r, GUEST_THAW, 2, NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
	assert_true(clock_ms() - begin >= at_least_ms);
	assert_true(clock_ms() - begin < 5000);
	/* The old stream ended; its process continued and got nothing of the half frame. */
	snprintf(command, sizeof(command), "until grep -q end %s/got; do sleep 0.05; done", r->dir);
	run_ok(r, command, &x);
	guest_exec_result_done(&x);
	got = rig_text(r, "got");
	assert_string_equal(got, "whole\nend\n");
	guest_unref(TAKE_PTR(r->g));
	cable_pull(&c);
}

static void test_half_payload_to_guest(void **state)
{
	autobuf struct buf b = { 0 };
	static uint8_t data[60000];

	memset(data, 'S', sizeof(data));
	agent_frame_put(&b, AGENT_F_DATA, AGENT_IN, 9, data, sizeof(data));
	thaw_after_half(*state, b.p, 20000, 200);
}

static void test_half_header_to_guest(void **state)
{
	autobuf struct buf b = { 0 };

	agent_frame_put(&b, AGENT_F_DATA, AGENT_IN, 9, "spliced", 7);
	thaw_after_half(*state, b.p, 13, 0);
}

static void test_all_but_tail_to_guest(void **state)
{
	autobuf struct buf b = { 0 };
	static uint8_t data[AGENT_PAYLOAD_MAX];

	agent_frame_put(&b, AGENT_F_DATA, AGENT_IN, 9, data, sizeof(data));
	thaw_after_half(*state, b.p, b.len - 1, 0);
}

/* Old output is in transit to the host, cut anywhere, with a forged answer in it. */
static void test_leftovers_to_host(void **state)
{
	struct rig *r = *state;
	struct agent_hello_ack ack;
	struct guest_exec_result x;
	struct err err = { 0 };
	char skip_some[7001];
	struct cable c;
	struct raw w;

	raw_init(&w, r->fd);
	raw_hello(&w, AGENT_BOOT, 1, &ack);
	raw_open_exec(&w, 1, "head -c 200000 /dev/urandom; head -c 1000000 /dev/zero", false);
	raw_open_exec(&w, 2, "yes \"$(printf '\\237PAN')\" | head -c 1000000", false);
	for (size_t n = 0; n < sizeof(skip_some);) {
		ssize_t k = read(r->fd, skip_some + n, sizeof(skip_some) - n);

		assert_true(k > 0);
		n += (size_t)k;
	}
	raw_done(&w);
	assert_int_equal(guest_new("test", cable_plug(&c, r->fd), &r->g, &err), 0);
	if (rig_hello(r, GUEST_THAW, 2, NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
	run_ok(r, "echo in step", &x);
	assert_string_equal(x.out, "in step\n");
	guest_exec_result_done(&x);
	guest_unref(TAKE_PTR(r->g));
	cable_pull(&c);
}

/* Repeatedly: connect, work, pull the plug at a random moment. */
static void test_many_thaws(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };

	for (unsigned i = 1; i <= 12; i++) {
		struct guest_exec_result x;
		struct cable c;
		int host = cable_plug(&c, r->fd);

		assert_int_equal(guest_new("test", host, &r->g, &err), 0);
		if (rig_hello(r, GUEST_THAW, i, NULL, &err) < 0)
			fail_msg("hello %u: %s", i, err.msg);
		run_ok(r, "echo one", &x);
		assert_string_equal(x.out, "one\n");
		guest_exec_result_done(&x);
		/* Leave one running, whose output is on the way when the plug goes. */
		struct guest_exec_req req = { .command = "head -c 3000000 /dev/zero; sleep 1",
			                      .timeout_ms = 20 + i };
		if (guest_exec(r->g, &req, &x, &err) == 0)
			guest_exec_result_done(&x);
		guest_unref(TAKE_PTR(r->g));
		cable_pull(&c);
	}
}

struct booting {
	struct rig *r;
	int result;
	struct err err;
};

static void *boot_main(void *arg)
{
	struct booting *b = arg;

	b->result = rig_hello(b->r, GUEST_BOOT, 1, NULL, &b->err);
	return NULL;
}

/* Nothing reads for a while; little accumulates, and then it works. */
static void test_slow_boot(void **state)
{
	struct rig *r = *state;
	struct booting b = { .r = r };
	struct guest_exec_result x;
	autofree char *waiting = malloc(1 << 20);
	struct cable c;
	int pair[2], agent_fd = TAKE_FD(r->fd);
	pthread_t t;
	ssize_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	r->fd = pair[0];
	assert_int_equal(pthread_create(&t, NULL, boot_main, &b), 0);
	usleep(2500000); /* the boot */
	n = recv(pair[1], waiting, 1 << 20, MSG_PEEK);
	assert_true(n > 0 && n < 4096);
	cable_join(&c, agent_fd, pair[1]); /* now the guest opens its port */
	pthread_join(t, NULL);
	assert_int_equal(b.result, 0);
	run_ok(r, "echo up", &x);
	guest_exec_result_done(&x);
	guest_unref(TAKE_PTR(r->g));
	cable_pull(&c);
	r->fd = agent_fd;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_new, rig_done)
		T(test_boot),
		T(test_step_fails_closed),
		T(test_hooks),
		T(test_reconnect),
		T(test_machines_of_one_generation_differ),
		T(test_same_nonce_once),
		T(test_version),
		T(test_half_payload_to_guest),
		T(test_half_header_to_guest),
		T(test_all_but_tail_to_guest),
		T(test_leftovers_to_host),
		T(test_many_thaws),
		T(test_slow_boot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
