/* SPDX-License-Identifier: Apache-2.0 */
/* test_protocol.c - a host that violates the protocol, and frames that our host end never sends */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/io.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

static struct raw greeted(struct rig *r)
{
	struct agent_hello_ack ack;
	struct raw w;

	raw_init(&w, r->fd);
	raw_hello(&w, AGENT_BOOT, 1, &ack);
	assert_int_equal(ack.failed_errno, 0);
	return w;
}

/* Still running, still in sync. */
static void assert_serving(struct raw *w, uint32_t stream)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, AGENT_OP_PING);
	raw_send(w, AGENT_F_OPEN, 0, stream, b.p, b.len);
	assert_int_equal(raw_result(w, stream, NULL), 0);
}

static void test_bad_requests(void **state)
{
	struct raw w = greeted(*state);
	uint32_t id = 1;

	raw_send(&w, AGENT_F_OPEN, 0, id, NULL, 0);
	assert_int_equal(raw_result(&w, id++, NULL), EBADMSG);
	raw_send(&w, AGENT_F_OPEN, 0, id, "\x12\x34", 2);
	assert_int_equal(raw_result(&w, id++, NULL), EOPNOTSUPP);
	for (unsigned op = AGENT_OP_EXEC; op <= AGENT_OP_CONNECT; op++) {
		autobuf struct buf b = { 0 };

		buf_put_u16(&b, (uint16_t)op);
		buf_put(&b, "\xff\xff\xff\xff junk", 9);
		raw_send(&w, AGENT_F_OPEN, 0, id, b.p, b.len);
		assert_int_equal(raw_result(&w, id++, NULL), EBADMSG);
	}
	/* Frames for streams that are not there, and ones only the guest may send. */
	raw_send(&w, AGENT_F_DATA, AGENT_IN, 4711, "x", 1);
	raw_send(&w, AGENT_F_CANCEL, 0, 4711, NULL, 0);
	raw_send(&w, AGENT_F_SIGNAL, 0, 4711, "\0\0\0\x09", 4);
	raw_send(&w, AGENT_F_CREDIT, 77, 4711, "\xff\xff\xff\xff", 4);
	raw_send(&w, AGENT_F_RESULT, 0, 4711, "x", 1);
	assert_serving(&w, id);
	raw_done(&w);
}

static void test_long_requests(void **state)
{
	struct raw w = greeted(*state);
	static uint8_t junk[AGENT_PAYLOAD_MAX];
	struct agent_result m;

	for (int i = 0; i < 8; i++) /* twice what is allowed */
		raw_send(&w, AGENT_F_OPEN, AGENT_OPEN_MORE, 1, junk, sizeof(junk));
	raw_send(&w, AGENT_F_OPEN, 0, 1, junk, 10);
	assert_int_equal(raw_result(&w, 1, &m), E2BIG);
	/* Another frame comes in between. */
	raw_send(&w, AGENT_F_OPEN, AGENT_OPEN_MORE, 2, junk, 10);
	assert_serving(&w, 3);
	raw_done(&w);
}

static void test_credit_overrun_by_host(void **state)
{
	struct raw w = greeted(*state);
	static uint8_t junk[AGENT_PAYLOAD_MAX];

	raw_open_exec(&w, 1, "exec sleep 3", true); /* does not read: its pipe takes one window */
	for (int i = 0; i < 10; i++)
		raw_send(&w, AGENT_F_DATA, AGENT_IN, 1, junk, sizeof(junk));
	assert_int_equal(raw_result(&w, 1, NULL), EPROTO);
	assert_serving(&w, 2);
	raw_done(&w);
}

static void test_signal_frame(void **state)
{
	struct raw w = greeted(*state);
	struct agent_exec_result x;
	struct agent_result m;
	struct agent_frame f;

	raw_open_exec(&w, 1,
	              "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.05; done",
	              false);
	raw_expect(&w, AGENT_F_DATA, &f);
	raw_send(&w, AGENT_F_SIGNAL, 0, 1, "\0\0\0\x0a", 4);
	assert_int_equal(raw_result(&w, 1, &m), 0);
	assert_int_equal(agent_exec_result_get(m.body, m.body_len, &x), 0);
	assert_int_equal(x.exit_code, 5);
	raw_done(&w);
}

static void test_streams_limit(void **state)
{
	struct raw w = greeted(*state);
	unsigned refused = 0, ended = 0;

	for (uint32_t i = 1; i <= AGENT_STREAMS_MAX + 10; i++)
		raw_open_exec(&w, i, "read x", true);
	for (uint32_t i = 1; i <= AGENT_STREAMS_MAX; i++)
		raw_send(&w, AGENT_F_EOF, AGENT_IN, i, NULL, 0);
	while (refused + ended < AGENT_STREAMS_MAX + 10) {
		struct agent_result m;
		struct agent_frame f;

		raw_expect(&w, AGENT_F_RESULT, &f);
		assert_int_equal(agent_result_get(f.payload, f.len, &m), 0);
		if (m.status == 0)
			ended++;
		else if (m.status == EAGAIN && m.tag == AGENT_TAG_GUEST_BUSY)
			refused++;
		else
			fail_msg("status %u: %s", m.status, m.msg);
	}
	assert_int_equal(refused, 10);
	assert_serving(&w, 9999);
	raw_done(&w);
}

/* No credit, no data: exactly the window arrives, then silence until credit. */
static void test_flow_control(void **state)
{
	struct raw w = greeted(*state);
	struct agent_frame f;
	uint64_t got = 0;
	uint8_t p[4];

	raw_open_exec(&w, 1, "head -c 1000000 /dev/zero", false);
	while (got < AGENT_WINDOW) {
		raw_expect(&w, AGENT_F_DATA, &f);
		got += f.len;
	}
	assert_int_equal(got, AGENT_WINDOW);
	for (uint32_t i = 2; i < 30; i++) { /* answers, and no more data among them */
		autobuf struct buf b = { 0 };

		buf_put_u16(&b, AGENT_OP_PING);
		raw_send(&w, AGENT_F_OPEN, 0, i, b.p, b.len);
		assert_true(raw_recv(&w, &f));
		assert_int_equal(f.type, AGENT_F_RESULT);
	}
	put_be32(p, 1000);
	raw_send(&w, AGENT_F_CREDIT, AGENT_OUT, 1, p, 4);
	for (got = 0; got < 1000; got += f.len)
		raw_expect(&w, AGENT_F_DATA, &f);
	assert_int_equal(got, 1000);
	put_be32(p, 0xffffffff); /* more than there can be: taken as much */
	raw_send(&w, AGENT_F_CREDIT, AGENT_OUT, 1, p, 4);
	assert_int_equal(raw_result(&w, 1, NULL), 0);
	raw_done(&w);
}

/* An endless stream does not block another one. */
static void test_fairness(void **state)
{
	struct raw w = greeted(*state);
	struct agent_frame f;
	uint64_t busy = 0;
	uint8_t p[4];

	put_be32(p, AGENT_CREDIT_MAX / 2);
	for (uint32_t i = 1; i <= 3; i++) {
		raw_open_exec(&w, i, "exec cat /dev/zero", false);
		raw_send(&w, AGENT_F_CREDIT, AGENT_OUT, i, p, 4);
	}
	do {
		raw_expect(&w, AGENT_F_DATA, &f);
	} while (f.stream != 3); /* all are running */
	raw_open_exec(&w, 4, "echo quick", false);
	for (;;) {
		assert_true(raw_recv(&w, &f));
		if (f.stream == 4)
			break;
		busy += f.len;
	}
	assert_true(busy < 256u << 20);
	for (uint32_t i = 1; i <= 3; i++)
		raw_send(&w, AGENT_F_CANCEL, 0, i, NULL, 0);
	for (uint32_t i = 1; i <= 3; i++)
		raw_expect(&w, AGENT_F_RESULT, &f);
	raw_done(&w);
}

/* Garbage of all kinds: the agent survives, reports lost sync, and accepts a HELLO. */
static void test_garbage(void **state)
{
	struct rig *r = *state;
	struct raw w = greeted(r);
	struct agent_hello_ack ack;
	struct agent_frame f;
	uint8_t junk[40000];

	for (int round = 0; round < 20; round++) {
		random_bytes(junk, sizeof(junk));
		if (round % 2) /* many headers that are nearly right */
			for (size_t i = 0; i + 20 < sizeof(junk); i += 24) {
				agent_frame_head(junk + i, AGENT_F_HELLO, 0, 0, 900);
				junk[i + 16 + (size_t)round % 4] ^= 1;
			}
		junk[0] |= 1;
		raw_write(&w, junk, sizeof(junk));
		raw_expect(&w, AGENT_F_READY, &f);
		assert_int_equal(f.payload[0], AGENT_READY_LOST);
		raw_hello(&w, AGENT_THAW, 2 + (uint64_t)round, &ack);
	}
	assert_serving(&w, 1);
	raw_done(&w);
}

/* false when the channel stayed full for a while. */
static bool send_nowait(struct raw *w, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t k = send(w->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0 && io_wait(w->fd, POLLOUT, deadline_in(500)) != 1)
			return false;
		p += MAX(k, 0);
		n -= (size_t)MAX(k, 0);
	}
	return true;
}

/* Sends requests and never reads: the agent stops reading instead of growing. */
static void test_host_does_not_read(void **state)
{
	struct rig *r = *state;
	struct raw w = greeted(r);
	struct agent_frame f;
	unsigned sent = 0, answered = 0;
	long before = rss_kb(r->agent);

	for (;;) { /* until the channel is full in both directions */
		autobuf struct buf b = { 0 };
		uint8_t req[2] = { 0, AGENT_OP_PING };

		agent_frame_put(&b, AGENT_F_OPEN, 0, ++sent, req, 2);
		if (send_nowait(&w, b.p, b.len))
			continue;
		break;
	}
	assert_true(rss_kb(r->agent) - before < 16 << 10);
	while (answered < sent - 1) {
		raw_expect(&w, AGENT_F_RESULT, &f);
		answered++;
	}
	raw_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_new, rig_done)
		T(test_bad_requests), T(test_long_requests), T(test_credit_overrun_by_host),
		T(test_signal_frame), T(test_streams_limit), T(test_flow_control),
		T(test_fairness),     T(test_garbage),       T(test_host_does_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
