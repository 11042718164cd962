/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_silence.c - the host end against guests that stop answering without hanging up
 *
 * A thread plays the guest and decides which requests it answers. One that answers nothing at all
 * is given up; one that is merely busy keeps its connection.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

#define SILENCE_MS 400
#define CALL_MS 100 /* a call that gets no answer */

struct stage {
	struct guest *g;
	int guest_fd;
	atomic_bool pings;  /* are answered */
	atomic_bool speaks; /* a byte of the exec's output for each request that comes */
	atomic_uint n_pings;
	pthread_t thread;
};

static void answer(struct raw *w, uint32_t stream)
{
	autobuf struct buf b = { 0 };

	agent_result_put(&b, &(struct agent_result){ .msg = "" });
	raw_send(w, AGENT_F_RESULT, 0, stream, b.p, b.len);
}

static void *guest_main(void *arg)
{
	struct stage *st = arg;
	uint32_t exec = 0;
	struct agent_frame f;
	struct raw w;

	raw_init(&w, st->guest_fd);
	for (bool on = raw_greet(&w); on && raw_recv(&w, &f);) {
		uint16_t op =
		        f.type == AGENT_F_OPEN ? (uint16_t)(f.payload[0] << 8 | f.payload[1]) : 0;

		if (op == AGENT_OP_EXEC)
			exec = f.stream;
		st->n_pings += op == AGENT_OP_PING;
		if (op == AGENT_OP_PING && st->pings)
			answer(&w, f.stream);
		if (exec && st->speaks)
			raw_send(&w, AGENT_F_DATA, AGENT_OUT, exec, "x", 1);
	}
	raw_done(&w);
	return NULL;
}

static void stage_begin(struct stage *st)
{
	struct guest_identity id = { .reason = GUEST_THAW,
		                     .generation = 9,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "h" };
	struct err err = { 0 };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	st->guest_fd = pair[1];
	assert_int_equal(guest_new("silent", pair[0], &st->g, &err), 0);
	guest_silence(st->g, SILENCE_MS);
	assert_int_equal(pthread_create(&st->thread, NULL, guest_main, st), 0);
	if (guest_hello(st->g, &id, deadline_in(TEST_DEADLINE_MS), NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
}

static void stage_end(struct stage *st)
{
	guest_unref(st->g);
	shutdown(st->guest_fd, SHUT_RDWR);
	pthread_join(st->thread, NULL);
	close(st->guest_fd);
}

static int on_bytes(void *ctx, const uint8_t *p, size_t n)
{
	(void)ctx;
	(void)p;
	(void)n;
	return 0;
}

/* A call that nobody answers. */
static int ask(struct stage *st, unsigned ms)
{
	return guest_read_file(st->g, NULL, "/x", 0, 0, on_bytes, NULL, deadline_in(ms), NULL);
}

/* A command without a deadline, on a thread of its own. */
struct command {
	struct guest *g;
	int result;
	pthread_t thread;
};

static void *command_main(void *arg)
{
	struct command *c = arg;
	AUTO(guest_exec_result_done) struct guest_exec_result res = { 0 };

	c->result = guest_exec(c->g, &(struct guest_exec_req){ .command = "x" }, &res, NULL);
	guest_unref(c->g);
	return NULL;
}

static void command_begin(struct command *c, struct guest *g)
{
	uint64_t marks;

	c->g = guest_ref(g); /* it may still be in there when the test has no more use for it */
	assert_int_equal(pthread_create(&c->thread, NULL, command_main, c), 0);
	while (!guest_activity(g, &marks))
		poll(NULL, 0, 1);
}

/* Longer than silence is tolerated, and than our guest needs to get a turn on a busy host. */
static void wait_out(void)
{
	poll(NULL, 0, 4 * SILENCE_MS);
}

static void silent_for_ever(void **state)
{
	struct stage st = { 0 };
	struct command c;

	stage_begin(&st);
	command_begin(&c, st.g);
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	/* What waits, and what comes next, is told before its own deadline. */
	assert_int_equal(ask(&st, TEST_DEADLINE_MS), -ECONNRESET);
	assert_false(guest_alive(st.g));
	pthread_join(c.thread, NULL);
	assert_int_equal(c.result, -ECONNRESET);
	assert_int_equal(st.n_pings, 1);
	stage_end(&st);
}

/* Nobody calls any more, but somebody waits, or looks. */
static void silent_and_waited_for(void **state)
{
	struct stage st = { 0 };
	struct command c;

	stage_begin(&st);
	command_begin(&c, st.g);
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	pthread_join(c.thread, NULL);
	assert_int_equal(c.result, -ECONNRESET);
	stage_end(&st);

	stage_begin(&st);
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	wait_out();
	assert_false(guest_alive(st.g));
	stage_end(&st);
}

static void busy_but_answers_pings(void **state)
{
	struct stage st = { .pings = true };

	stage_begin(&st);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
		wait_out();
		assert_true(guest_alive(st.g));
	}
	assert_int_equal(guest_ping(st.g, deadline_in(TEST_DEADLINE_MS), NULL), 0);
	stage_end(&st);
}

/* Too busy for the ping, while a command's output arrives. */
static void busy_but_speaks(void **state)
{
	struct stage st = { .speaks = true };
	struct command c;

	stage_begin(&st);
	command_begin(&c, st.g);
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	wait_out();
	assert_true(guest_alive(st.g));
	stage_end(&st);
	pthread_join(c.thread, NULL);
}

static void paused(void **state)
{
	struct stage st = { 0 };

	stage_begin(&st);
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	guest_pause(st.g, true);
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	wait_out();
	assert_true(guest_alive(st.g));
	guest_pause(st.g, false);
	wait_out();
	assert_true(guest_alive(st.g)); /* nobody has asked it since */
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	wait_out();
	assert_false(guest_alive(st.g));
	stage_end(&st);
}

/* While it is frozen nothing can be sent to it, and calls time out. */
static void frozen(void **state)
{
	struct stage st = { .pings = true };

	stage_begin(&st);
	assert_int_equal(guest_quiesce(st.g, deadline_in(TEST_DEADLINE_MS), NULL), 0);
	assert_int_equal(ask(&st, CALL_MS), -ETIMEDOUT);
	wait_out();
	assert_true(guest_alive(st.g));
	guest_resume(st.g);
	assert_int_equal(guest_ping(st.g, deadline_in(TEST_DEADLINE_MS), NULL), 0);
	stage_end(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_for_ever),
		cmocka_unit_test(silent_and_waited_for),
		cmocka_unit_test(busy_but_answers_pings),
		cmocka_unit_test(busy_but_speaks),
		cmocka_unit_test(paused),
		cmocka_unit_test(frozen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
