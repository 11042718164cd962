/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hostile_pty.c - the host end of terminal sessions against hostile guests
 *
 * A thread plays the guest and answers a pty.attach with nonsense: the call fails or the
 * connection ends, nothing blocks, nothing malformed is accepted.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "guest/guest_pty.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"
#include "wire/agent_pty.h"

typedef void (*act_fn)(struct raw *w, uint32_t stream);

struct stage {
	struct guest *g;
	int fd;
	act_fn act;
	pthread_t thread;
};

static void piece(struct buf *b, uint8_t kind, const void *p, uint32_t n)
{
	uint8_t h[AGENT_PIECE_HDR] = { kind };

	put_be32(h + 1, n);
	buf_put(b, h, sizeof(h));
	buf_put(b, p, n);
}

static void info(struct buf *b, const char *id)
{
	autobuf struct buf m = { 0 };

	agent_pty_put(&m, &(struct agent_pty){ .serial = 1,
	                                       .id = id,
	                                       .user = "root",
	                                       .exec = "",
	                                       .cols = 80,
	                                       .rows = 24,
	                                       .running = true });
	piece(b, AGENT_PTY_INFO, m.p, (uint32_t)m.len);
}

static void data(struct raw *w, uint32_t stream, const struct buf *b)
{
	raw_send(w, AGENT_F_DATA, AGENT_OUT, stream, b->p, b->len);
}

static void *guest_main(void *arg)
{
	struct stage *st = arg;
	struct agent_frame f;
	struct raw w;

	raw_init(&w, st->fd);
	if (raw_greet(&w)) {
		do {
			if (!raw_recv(&w, &f))
				break;
		} while (f.type != AGENT_F_OPEN);
		if (f.type == AGENT_F_OPEN)
			st->act(&w, f.stream);
		while (raw_recv(&w, &f))
			;
	}
	raw_done(&w);
	return NULL;
}

static void stage_begin(struct stage *st, act_fn act)
{
	struct guest_identity id = { .reason = GUEST_THAW, .generation = 1, .hostname = "h" };
	struct err err = { 0 };
	int pair[2];

	memset(id.machine_id, '0', 32);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	*st = (struct stage){ .fd = pair[1], .act = act };
	assert_int_equal(guest_new("hostile", pair[0], &st->g, &err), 0);
	assert_int_equal(pthread_create(&st->thread, NULL, guest_main, st), 0);
	if (guest_hello(st->g, &id, deadline_in(TEST_DEADLINE_MS), NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
}

static void stage_end(struct stage *st)
{
	guest_close(st->g);
	pthread_join(st->thread, NULL);
	guest_unref(st->g);
	close(st->fd);
}

/* Attaches and reads to the end of it: how it ended. */
static int attach_and_read(act_fn act, size_t *ret_bytes)
{
	struct guest_pty_req q = { .id = "s", .cols = 80, .rows = 24 };
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);
	struct guest_pty_info i;
	struct guest_pty *t;
	struct err err = { 0 };
	struct stage st;
	ssize_t n;
	int r;

	*ret_bytes = 0;
	stage_begin(&st, act);
	r = guest_pty_attach(st.g, &q, deadline, &t, &i, &err);
	while (r == 0) {
		enum guest_pty_piece kind;
		const uint8_t *p;

		n = guest_pty_read(t, &kind, &p, &err);
		if (n == -EAGAIN) {
			assert_true(io_wait(guest_pty_fd(t), POLLIN, deadline) == 1);
		} else if (n < 0) {
			r = n == -ENODATA ? guest_pty_exit_code(t, &err) : (int)n;
			guest_pty_detach(t);
			break;
		} else {
			*ret_bytes += (size_t)n;
		}
	}
	stage_end(&st);
	return r;
}

static void act_output_first(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };

	piece(&b, AGENT_PTY_OUTPUT, "x", 1);
	data(w, s, &b);
}

static void act_bad_kind(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };

	info(&b, "s");
	piece(&b, 9, "x", 1);
	data(w, s, &b);
}

static void act_too_long(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };
	uint8_t h[AGENT_PIECE_HDR] = { AGENT_PTY_OUTPUT, 0xff, 0xff, 0xff, 0xff };

	info(&b, "s");
	buf_put(&b, h, sizeof(h));
	data(w, s, &b);
}

static void act_info_twice(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };

	info(&b, "s");
	info(&b, "s");
	data(w, s, &b);
}

static void act_output_in_picture(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };

	info(&b, "s");
	piece(&b, AGENT_PTY_PICTURE, "half", 4);
	piece(&b, AGENT_PTY_OUTPUT, "x", 1);
	data(w, s, &b);
}

static void act_bad_id(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };

	info(&b, "../x");
	data(w, s, &b);
}

static void result(struct raw *w, uint32_t s, const void *body, size_t n)
{
	autobuf struct buf b = { 0 };

	agent_result_put(&b, &(struct agent_result){ .msg = "", .body = body, .body_len = n });
	raw_send(w, AGENT_F_RESULT, 0, s, b.p, b.len);
}

static void act_result_first(struct raw *w, uint32_t s)
{
	result(w, s, "\0\0\0\0\0", 5);
}

static void act_half_a_piece(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };
	uint8_t h[AGENT_PIECE_HDR] = { AGENT_PTY_OUTPUT, 0, 0, 0, 9 };

	info(&b, "s");
	buf_put(&b, h, sizeof(h));
	data(w, s, &b);
	result(w, s, "\0\0\0\0\0", 5);
}

static void act_bad_end(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };

	info(&b, "s");
	data(w, s, &b);
	result(w, s, "\0\0\0\7\7", 5);
}

static void act_good(struct raw *w, uint32_t s)
{
	autobuf struct buf b = { 0 };

	info(&b, "s");
	piece(&b, AGENT_PTY_PICTURED, "", 0);
	piece(&b, AGENT_PTY_OUTPUT, "hello", 5);
	for (size_t i = 0; i < b.len; i++) /* in frames of one byte */
		raw_send(w, AGENT_F_DATA, AGENT_OUT, s, b.p + i, 1);
	result(w, s, "\0\0\0\0\7", 5);
}

/* On a channel that terminals do not have, and nothing else: not to be waited for. */
static void act_wrong_channel(struct raw *w, uint32_t s)
{
	raw_send(w, AGENT_F_DATA, AGENT_ERR, s, "x", 1);
}

static void test_lies(void **state)
{
	static const act_fn lies[] = { act_output_first, act_bad_kind,          act_too_long,
		                       act_info_twice,   act_output_in_picture, act_bad_id,
		                       act_result_first, act_half_a_piece,      act_wrong_channel };
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		assert_int_equal(attach_and_read(lies[i], &n), -ECONNRESET);
	assert_int_equal(attach_and_read(act_bad_end, &n), -EPROTO);
	assert_int_equal(attach_and_read(act_good, &n), 7);
	assert_int_equal(n, 5);
}

/* A list that never ends, or goes in circles. */
static void act_list(struct raw *w, uint32_t s)
{
	struct agent_frame f;

	for (;;) {
		autobuf struct buf m = { 0 };

		agent_pty_put(&m, &(struct agent_pty){ .serial = 7,
		                                       .id = "s",
		                                       .user = "u",
		                                       .exec = "",
		                                       .cols = 1,
		                                       .rows = 1 });
		result(w, s, m.p, m.len);
		do {
			if (!raw_recv(w, &f))
				return;
		} while (f.type != AGENT_F_OPEN);
		s = f.stream;
	}
}

static void test_list_in_circles(void **state)
{
	struct guest_pty_info *list;
	struct err err = { 0 };
	struct stage st;
	size_t n;

	stage_begin(&st, act_list);
	assert_int_equal(guest_pty_list(st.g, &list, &n, &err), -EPROTO);
	stage_end(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_list_in_circles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
