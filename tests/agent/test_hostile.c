/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hostile.c - the host end against hostile guests
 *
 * A thread plays the guest. Whatever it does, the pending call ends with
 * an error, later calls fail with -ECONNRESET, memory stays bounded, and nothing
 * blocks.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

typedef void (*act_fn)(struct raw *w);

struct stage {
	struct guest *g;
	int guest_fd;
	bool greet;
	act_fn act; /* after the greeting */
	pthread_t thread;
};

static void *guest_main(void *arg)
{
	struct stage *st = arg;
	struct raw w;

	raw_init(&w, st->guest_fd);
	if (!st->greet || raw_greet(&w))
		st->act(&w);
	raw_done(&w);
	return NULL;
}

static void stage_begin(struct stage *st, act_fn act, bool greet)
{
	struct err err = { 0 };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	*st = (struct stage){ .guest_fd = pair[1], .act = act, .greet = greet };
	assert_int_equal(guest_new("hostile", pair[0], &st->g, &err), 0);
	assert_int_equal(pthread_create(&st->thread, NULL, guest_main, st), 0);
}

static int stage_hello(struct stage *st, unsigned ms, struct err *err)
{
	struct guest_identity id = { .reason = GUEST_THAW,
		                     .generation = 9,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "h" };

	return guest_hello(st->g, &id, deadline_in(ms), NULL, err);
}

static void stage_end(struct stage *st)
{
	guest_unref(st->g);
	shutdown(st->guest_fd, SHUT_RDWR);
	pthread_join(st->thread, NULL);
	close(st->guest_fd);
}

/* Greets and runs one command; it and everything after it must fail. */
static void expect_reset(act_fn act)
{
	struct guest_exec_req req = { .command = "x", .timeout_ms = 3000 };
	struct guest_exec_result x;
	struct err err = { 0 };
	struct stage st;

	stage_begin(&st, act, true);
	if (stage_hello(&st, 10000, &err) < 0)
		fail_msg("hello: %s", err.msg);
	assert_int_equal(guest_exec(st.g, &req, &x, &err), -ECONNRESET);
	assert_false(guest_alive(st.g));
	assert_int_equal(guest_ping(st.g, deadline_in(1000), &err), -ECONNRESET);
	stage_end(&st);
}

static uint32_t wait_open(struct raw *w)
{
	struct agent_frame f;

	raw_expect(w, AGENT_F_OPEN, &f);
	return f.stream;
}

static void put_until_closed(struct raw *w, const void *p, size_t n)
{
	for (int i = 0; i < 100000; i++)
		if (send(w->fd, p, n, MSG_NOSIGNAL) <= 0)
			return;
}

static void act_flood(struct raw *w)
{
	autobuf struct buf b = { 0 };
	static uint8_t data[AGENT_PAYLOAD_MAX];

	agent_frame_put(&b, AGENT_F_DATA, AGENT_OUT, wait_open(w), data, sizeof(data));
	put_until_closed(w, b.p, b.len);
}

static void act_garbage(struct raw *w)
{
	uint8_t junk[4096];

	wait_open(w);
	random_bytes(junk, sizeof(junk));
	put_until_closed(w, junk, sizeof(junk));
}

static void act_huge_length(struct raw *w)
{
	uint8_t hdr[AGENT_HDR_LEN];

	agent_frame_head(hdr, AGENT_F_DATA, AGENT_OUT, wait_open(w), 0xfffffff0);
	raw_write(w, hdr, sizeof(hdr));
}

static void act_just_too_long(struct raw *w)
{
	uint8_t hdr[AGENT_HDR_LEN];

	agent_frame_head(hdr, AGENT_F_DATA, AGENT_OUT, wait_open(w), AGENT_PAYLOAD_MAX + 1);
	raw_write(w, hdr, sizeof(hdr));
}

static void act_wrong_tail(struct raw *w)
{
	autobuf struct buf b = { 0 };

	agent_frame_put(&b, AGENT_F_DATA, AGENT_OUT, wait_open(w), "abc", 3);
	b.p[b.len - 1] ^= 1;
	raw_write(w, b.p, b.len);
}

static void act_wrong_stream(struct raw *w)
{
	raw_send(w, AGENT_F_DATA, AGENT_OUT, wait_open(w) + AGENT_STREAMS_MAX, "abc", 3);
}

static void act_stream_zero(struct raw *w)
{
	wait_open(w);
	raw_send(w, AGENT_F_EOF, AGENT_OUT, 0, NULL, 0);
}

static void act_wrong_channel(struct raw *w)
{
	raw_send(w, AGENT_F_DATA, 3, wait_open(w), "abc", 3);
}

static void act_after_eof(struct raw *w)
{
	uint32_t s = wait_open(w);

	raw_send(w, AGENT_F_EOF, AGENT_OUT, s, NULL, 0);
	raw_send(w, AGENT_F_DATA, AGENT_OUT, s, "abc", 3);
}

static void act_credit_lie(struct raw *w)
{
	raw_send(w, AGENT_F_CREDIT, AGENT_IN, wait_open(w), "\xff\xff\xff\xff", 4);
}

static void act_bad_result(struct raw *w)
{
	raw_send(w, AGENT_F_RESULT, 0, wait_open(w), "abc", 3);
}

static void act_host_frame(struct raw *w)
{
	raw_send(w, AGENT_F_CANCEL, 0, wait_open(w), NULL, 0);
}

static void act_extra_ack(struct raw *w)
{
	wait_open(w);
	for (int i = 0; i < 64; i++)
		raw_send(w, AGENT_F_HELLO_ACK, 0, 0, "x", 1);
}

static void act_restart(struct raw *w)
{
	wait_open(w);
	raw_send(w, AGENT_F_READY, 0, 0, "\x01", 1);
}

static void act_close(struct raw *w)
{
	wait_open(w);
	shutdown(w->fd, SHUT_RDWR);
}

static void act_half_frame_then_close(struct raw *w)
{
	autobuf struct buf b = { 0 };

	agent_frame_put(&b, AGENT_F_DATA, AGENT_OUT, wait_open(w), "abcdef", 6);
	raw_write(w, b.p, b.len - 6);
	shutdown(w->fd, SHUT_RDWR);
}

static void test_violations(void **state)
{
	const act_fn acts[] = {
		act_flood,      act_garbage,      act_huge_length, act_just_too_long,
		act_wrong_tail, act_wrong_stream, act_stream_zero, act_wrong_channel,
		act_after_eof,  act_credit_lie,   act_bad_result,  act_host_frame,
		act_extra_ack,  act_restart,      act_close,       act_half_frame_then_close
	};
	unsigned fds = count_fds(getpid());

	for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
		expect_reset(acts[i]);
	for (uint64_t end = deadline_in(5000); count_fds(getpid()) > fds && clock_ms() < end;)
		usleep(1000); /* the readers let go */
	assert_int_equal(count_fds(getpid()), fds);
}

static void act_silence(struct raw *w)
{
	uint8_t p[4096];

	while (read(w->fd, p, sizeof(p)) > 0)
		;
}

/* ---- a deadline that comes while there is always more to read ---- */

static int more[2]; /* the reader asks for the next byte, before it takes the next step */

static void act_always_more(struct raw *w)
{
	uint32_t id = wait_open(w);
	autobuf struct buf res = { 0 };
	char c = 1;

	do
		raw_send(w, AGENT_F_DATA, AGENT_OUT, id, "x", 1);
	while (read(more[0], &c, 1) == 1 && c);
	agent_result_put(&res, &(struct agent_result){ .msg = "" });
	raw_send(w, AGENT_F_RESULT, 0, id, res.p, res.len);
	act_silence(w);
}

static int ask_for_more(void *ctx, const uint8_t *p, size_t n)
{
	int *left = ctx;
	char c = --*left > 0;

	(void)p;
	(void)n;
	assert_int_equal(write(more[1], &c, 1), 1);
	poll(NULL, 0, 20); /* slower than the guest */
	return 0;
}

static void test_deadline_with_data(void **state)
{
	struct err err = { 0 };
	struct stage st;
	int left = 500;

	(void)state;
	assert_int_equal(pipe(more), 0);
	stage_begin(&st, act_always_more, true);
	assert_int_equal(stage_hello(&st, 10000, &err), 0);
	assert_int_equal(guest_read_file(st.g, NULL, "/x", 0, 0, ask_for_more, &left,
	                                 deadline_in(1000), &err),
	                 -ETIMEDOUT);
	assert_true(left > 0);
	close(more[1]);
	stage_end(&st);
	close(more[0]);
}

/* ---- greeting ---- */

static void act_flood_before_ack(struct raw *w)
{
	static uint8_t junk[65536];

	random_bytes(junk, sizeof(junk));
	put_until_closed(w, junk, sizeof(junk));
}

static void send_ack(struct raw *w, const struct agent_hello *h, struct agent_hello_ack *ack)
{
	autobuf struct buf b = { 0 };

	memcpy(ack->nonce, h->nonce, sizeof(ack->nonce));
	agent_hello_ack_put(&b, ack);
	raw_send(w, AGENT_F_HELLO_ACK, 0, 0, b.p, b.len);
}

static struct agent_hello get_hello(struct raw *w)
{
	struct agent_hello h;
	struct agent_frame f;

	raw_expect(w, AGENT_F_HELLO, &f);
	assert_int_equal(agent_hello_get(f.payload, f.len, &h), 0);
	return h;
}

static const struct agent_hello_ack good_ack = { .version = AGENT_VERSION_MAX,
	                                         .generation = 9,
	                                         .steps_done = AGENT_STEPS_ALL,
	                                         .failed_step = AGENT_STEP_NONE };

static void act_wrong_nonce(struct raw *w)
{
	struct agent_hello h = get_hello(w);
	struct agent_hello_ack ack = good_ack;

	h.nonce[3] ^= 0x40;
	send_ack(w, &h, &ack);
	act_silence(w);
}

static void act_wrong_generation(struct raw *w)
{
	struct agent_hello h = get_hello(w);
	struct agent_hello_ack ack = good_ack;

	ack.generation = 8;
	send_ack(w, &h, &ack);
}

static void act_step_missing(struct raw *w)
{
	struct agent_hello h = get_hello(w);
	struct agent_hello_ack ack = good_ack;

	ack.steps_done &= ~BIT(AGENT_STEP_ENTROPY);
	send_ack(w, &h, &ack);
}

static void act_step_failed(struct raw *w)
{
	struct agent_hello h = get_hello(w);
	struct agent_hello_ack ack = good_ack;

	ack.failed_step = AGENT_STEP_CLOCK;
	ack.failed_errno = EPERM;
	send_ack(w, &h, &ack);
}

static void act_odd_version(struct raw *w)
{
	struct agent_hello h = get_hello(w);
	struct agent_hello_ack ack = good_ack;

	ack.version = AGENT_VERSION_MAX + 1;
	send_ack(w, &h, &ack);
}

static void act_ready_storm(struct raw *w)
{
	autobuf struct buf b = { 0 };

	agent_frame_put(&b, AGENT_F_READY, 0, 0, "\x01", 1);
	put_until_closed(w, b.p, b.len);
}

static void act_hang_up(struct raw *w)
{
	shutdown(w->fd, SHUT_RDWR);
}

static void test_greeting(void **state)
{
	const struct {
		act_fn act;
		int result;
		unsigned ms;
	} cases[] = {
		{ act_silence, -ETIMEDOUT, 600 },         { act_wrong_nonce, -ETIMEDOUT, 600 },
		{ act_flood_before_ack, -EPROTO, 30000 }, { act_wrong_generation, -EPROTO, 10000 },
		{ act_step_missing, -EPROTO, 10000 },     { act_step_failed, -EIO, 10000 },
		{ act_odd_version, -EPROTO, 10000 },      { act_ready_storm, 0, 2000 },
		{ act_hang_up, -ECONNRESET, 10000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { 0 };
		struct stage st;
		int r;

		stage_begin(&st, cases[i].act, false);
		r = stage_hello(&st, cases[i].ms, &err);
		if (cases[i].result ? r != cases[i].result : r >= 0)
			fail_msg("case %zu: %d: %s", i, r, err.msg);
		assert_true(err.msg[0]);
		assert_false(guest_alive(st.g));
		assert_int_equal(guest_ping(st.g, deadline_in(100), &err), -ECONNRESET);
		stage_end(&st);
	}
}

/* Forged answers around the real one. */
static void act_forged_then_real(struct raw *w)
{
	struct agent_hello h = get_hello(w), other = h;
	struct agent_hello_ack ack = good_ack;
	uint8_t hdr[AGENT_HDR_LEN];

	raw_write(w, "\x9f", 1);
	raw_write(w, "\x9fPAN\x9fPA", 7);
	other.nonce[0]++;
	send_ack(w, &other, &ack);
	/* Claims more than will ever come, with the real one inside. */
	agent_frame_head(hdr, AGENT_F_HELLO_ACK, 0, 0, AGENT_HELLO_MAX);
	raw_write(w, hdr, sizeof(hdr));
	send_ack(w, &h, &ack);
	act_silence(w);
}

static void test_forged_answer(void **state)
{
	struct err err = { 0 };
	struct stage st;
	uint64_t begin = clock_ms();

	stage_begin(&st, act_forged_then_real, false);
	assert_int_equal(stage_hello(&st, 10000, &err), 0);
	assert_true(clock_ms() - begin < 5000);
	assert_true(guest_alive(st.g));
	stage_end(&st);
}

/* ---- a guest that is merely stuck ---- */

static void test_silence_after_greeting(void **state)
{
	struct err err = { 0 };
	struct stage st;
	uint64_t begin;

	stage_begin(&st, act_silence, true);
	assert_int_equal(stage_hello(&st, 10000, &err), 0);
	begin = clock_ms();
	assert_int_equal(guest_ping(st.g, deadline_in(200), &err), -ETIMEDOUT);
	assert_int_equal(guest_ping(st.g, deadline_in(200), &err), -ETIMEDOUT);
	assert_true(clock_ms() - begin < 5000);
	assert_true(guest_alive(st.g)); /* slow is not a violation */
	/* Never confirms a CANCEL: it uses up its own streams, and then says busy. */
	for (unsigned i = 0; i < AGENT_STREAMS_MAX - 3; i++) /* and one ping of silence.c */
		assert_int_equal(guest_ping(st.g, clock_ms(), &err), -ETIMEDOUT);
	assert_int_equal(guest_ping(st.g, clock_ms(), &err), -EAGAIN);
	assert_int_equal(err.tag, ERR_GUEST_BUSY);
	stage_end(&st);
}

static void act_do_not_read(struct raw *w)
{
	struct pollfd p = { .fd = w->fd, .events = POLLRDHUP };

	poll(&p, 1, TEST_DEADLINE_MS);
}

static ssize_t on_zeros(void *ctx, uint8_t *p, size_t n)
{
	memset(p, 0, n);
	return (ssize_t)n;
}

static void *closer_main(void *arg)
{
	usleep(700000);
	guest_close(arg);
	return NULL;
}

static void test_guest_does_not_read(void **state)
{
	struct err err = { 0 };
	struct stage st;
	uint64_t begin;
	pthread_t t;

	stage_begin(&st, act_do_not_read, true);
	assert_int_equal(stage_hello(&st, 10000, &err), 0);
	/* Its deadline is kept although the socket is full, and the connection is not dropped for
	 * it. */
	begin = clock_ms();
	assert_int_equal(
	        guest_write_file(st.g, NULL, "/x", 0, on_zeros, NULL, deadline_in(400), &err),
	        -ETIMEDOUT);
	assert_true(clock_ms() - begin < 10000);
	/* And the owner's close ends it at once. */
	assert_int_equal(pthread_create(&t, NULL, closer_main, st.g), 0);
	begin = clock_ms();
	assert_int_equal(
	        guest_write_file(st.g, NULL, "/x", 0, on_zeros, NULL, deadline_in(40000), &err),
	        -ECONNRESET);
	assert_true(clock_ms() - begin < 10000);
	pthread_join(t, NULL);
	stage_end(&st);
}

/* Names that would lead a careless caller elsewhere. */
static void act_bad_list(struct raw *w)
{
	uint32_t s = wait_open(w);
	autobuf struct buf b = { 0 }, res = { 0 };

	buf_put_u8(&b, AGENT_FILE);
	agent_text_put(&b, "../../etc/passwd");
	raw_send(w, AGENT_F_DATA, AGENT_OUT, s, b.p, b.len);
	agent_result_put(&res, &(struct agent_result){ .msg = "" });
	raw_send(w, AGENT_F_RESULT, 0, s, res.p, res.len);
	act_silence(w);
}

static void test_bad_list(void **state)
{
	struct guest_dirent *d;
	struct err err = { 0 };
	struct stage st;
	size_t n;

	stage_begin(&st, act_bad_list, true);
	assert_int_equal(stage_hello(&st, 10000, &err), 0);
	assert_int_equal(guest_list_dir(st.g, NULL, "/", &d, &n, &err), -EPROTO);
	stage_end(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadline_with_data),
		cmocka_unit_test(test_violations),
		cmocka_unit_test(test_greeting),
		cmocka_unit_test(test_forged_answer),
		cmocka_unit_test(test_silence_after_greeting),
		cmocka_unit_test(test_guest_does_not_read),
		cmocka_unit_test(test_bad_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
