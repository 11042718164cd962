/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hostile_flow.c - streams of hostile guests
 *
 * A thread plays the guest: it answers every OPEN with the test's data. The
 * call or the stream must end with an error; nothing malformed may be
 * accepted, and no answer may keep us busy for ever.
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
#include "base/io.h"
#include "guest/guest_code.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

/* What the guest says to each OPEN. */
struct script {
	const void *data; /* DATA on channel 1 */
	size_t n_data;
	bool opened; /* OPENED with this */
	const void *opened_with;
	size_t n_opened;
	bool silent; /* no RESULT */
	const void *body;
	size_t n_body;
	bool flood; /* DATA without end */
	bool pour;  /* the same, as fast as we take it: nothing is wrong with it */
};

struct stage {
	struct guest *g;
	int guest_fd;
	const struct script *s;
	pthread_t thread;
};

static atomic_uint poured; /* frames */

/* Events of a cell, for ever: little by little, so that the window is never used up and there is
 * always something on its way. */
static void pour(struct raw *w, uint32_t id)
{
	autobuf struct buf b = { 0 };
	uint32_t credit = AGENT_WINDOW;
	struct agent_frame f;

	while (b.len < 4096)
		agent_code_event_put(&b, &(struct agent_code_event){ .kind = AGENT_CODE_STDOUT,
		                                                     .p = (const uint8_t *)"x",
		                                                     .len = 1 });
	for (;;) {
		if (credit >= b.len) {
			raw_send(w, AGENT_F_DATA, AGENT_OUT, id, b.p, b.len);
			credit -= (uint32_t)b.len;
			poured++;
			usleep(200);
		}
		if (credit >= b.len && io_wait(w->fd, POLLIN, 0) != 1)
			continue;
		if (!raw_recv(w, &f) || f.type == AGENT_F_CANCEL)
			return;
		if (f.type == AGENT_F_CREDIT && f.stream == id)
			credit += get_be32(f.payload);
	}
}

static void play(struct raw *w, uint32_t id, const struct script *s)
{
	static uint8_t chunk[32768];
	autobuf struct buf b = { 0 };
	struct agent_result m = { .msg = "", .body = s->body, .body_len = s->n_body };

	if (s->opened)
		raw_send(w, AGENT_F_OPENED, 0, id, s->opened_with, s->n_opened);
	if (s->n_data)
		raw_send(w, AGENT_F_DATA, AGENT_OUT, id, s->data, s->n_data);
	if (s->flood) {
		autobuf struct buf f = { 0 };

		agent_frame_put(&f, AGENT_F_DATA, AGENT_OUT, id, chunk, sizeof(chunk));
		for (int i = 0; i < 100000; i++)
			if (send(w->fd, f.p, f.len, MSG_NOSIGNAL) <= 0)
				return;
	}
	if (s->pour) {
		pour(w, id);
		return;
	}
	agent_result_put(&b, &m);
	if (!s->silent)
		raw_send(w, AGENT_F_RESULT, 0, id, b.p, b.len);
}

static void *guest_main(void *arg)
{
	struct stage *st = arg;
	struct agent_frame f;
	struct raw w;

	raw_init(&w, st->guest_fd);
	if (raw_greet(&w))
		while (raw_recv(&w, &f))
			if (f.type == AGENT_F_OPEN)
				play(&w, f.stream, st->s);
	raw_done(&w);
	return NULL;
}

static void stage_begin(struct stage *st, const struct script *s)
{
	struct guest_identity id = { .reason = GUEST_THAW,
		                     .generation = 9,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "h" };
	struct err err = { 0 };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	*st = (struct stage){ .guest_fd = pair[1], .s = s };
	assert_int_equal(guest_new("hostile", pair[0], &st->g, &err), 0);
	assert_int_equal(pthread_create(&st->thread, NULL, guest_main, st), 0);
	if (guest_hello(st->g, &id, deadline_in(10000), NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
}

static void stage_end(struct stage *st)
{
	guest_unref(st->g);
	shutdown(st->guest_fd, SHUT_RDWR);
	pthread_join(st->thread, NULL);
	close(st->guest_fd);
}

/* Reads pieces or changes to the end and returns what it ended with. */
static int read_out(struct guest_flow *f, bool changes)
{
	uint64_t end = deadline_in(TEST_DEADLINE_MS);
	struct guest_change c;
	struct err err = { 0 };
	uint8_t p[4096];
	uint64_t off;
	int chan;

	for (;;) {
		ssize_t k = changes ? guest_watch_next(f, &c, &err)
		                    : guest_output_read(f, &chan, &off, p, sizeof(p), &err);

		if (k < 0)
			return (int)k;
		if (k == 0 && io_wait(guest_flow_fd(f), POLLIN, end) != 1)
			fail_msg("nothing came in time");
	}
}

static void test_run(void **state)
{
	static const struct script scripts[] = {
		{ .n_body = 0 },    /* never opened */
		{ .opened = true }, /* opened with nothing */
		{ .opened = true, .opened_with = "abcdefghi", .n_opened = 9 }, /* too much */
	};

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		struct guest_exec_req q = { .command = "x" };
		struct guest_started started;
		struct guest_flow *f = NULL;
		struct err err = { 0 };
		struct stage st;

		stage_begin(&st, &scripts[i]);
		assert_int_equal(guest_run(st.g, &q, false, &f, &started, &err), -EPROTO);
		assert_null(f);
		assert_int_equal(guest_start(st.g, &q, false, &started, &err), -EPROTO);
		stage_end(&st);
	}
}

static void test_run_result(void **state)
{
	const struct script s = { .opened = true,
		                  .opened_with = "\0\0\0\1\0\0\0\2",
		                  .n_opened = 8,
		                  .body = "\7",
		                  .n_body = 1 };
	struct guest_exec_req q = { .command = "x" };
	struct guest_exec_result res;
	struct guest_started started;
	struct guest_flow *f;
	struct err err = { 0 };
	struct stage st;
	uint8_t p[16];
	ssize_t k;

	stage_begin(&st, &s);
	assert_int_equal(guest_run(st.g, &q, false, &f, &started, &err), 0);
	while ((k = guest_flow_read(f, NULL, p, sizeof(p), &err)) == 0)
		assert_int_equal(io_wait(guest_flow_fd(f), POLLIN, deadline_in(10000)), 1);
	assert_int_equal(k, -ENODATA);
	assert_int_equal(guest_run_result(f, &res, &err), -EPROTO);
	guest_flow_close(f);
	stage_end(&st);
}

static void put_proc(struct buf *b, uint32_t id)
{
	agent_proc_put(b, &(struct agent_proc){ .proc = id, .user = "u", .command = "c" });
}

/* Repeating the same entry must not keep us asking for ever. */
static void test_list(void **state)
{
	autobuf struct buf same = { 0 }, twice = { 0 }, last = { 0 };
	struct guest_proc *all = NULL, one;
	size_t n;

	put_proc(&same, 7);
	put_proc(&twice, 7);
	put_proc(&twice, 7);
	put_proc(&last, UINT32_MAX);
	const struct script scripts[] = { { .body = same.p, .n_body = same.len },
		                          { .body = twice.p, .n_body = twice.len },
		                          { .body = last.p, .n_body = last.len },
		                          { .body = "abc", .n_body = 3 } };
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		struct err err = { 0 };
		struct stage st;

		stage_begin(&st, &scripts[i]);
		assert_int_equal(guest_procs(st.g, &all, &n, &err), -EPROTO);
		assert_int_equal(guest_proc(st.g, 8, &one, &err), -EPROTO); /* another one */
		stage_end(&st);
	}
}

static void test_output(void **state)
{
	static const struct {
		const char *p;
		size_t n;
	} pieces[] = {
		{ "\3\0\0\0\0\0\0\0\0\0\0\0\1x", 14 },   /* no such channel */
		{ "\1\0\0\0\0\0\0\0\0\0\0\0\0x", 14 },   /* no bytes */
		{ "\1\0\0\0\0\0\0\0\0\0\0\x80\1x", 14 }, /* too many */
		{ "\1\xff\0\0\0\0\0\0\0\0\0\0\1x", 14 }, /* an offset that cannot be */
		{ "\1\0\0\0\0\0\0\0\0\0\0\0\2x", 14 },   /* cut off */
		{ "\1\0\0\0", 4 },                       /* cut off in the head */
	};

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		const struct script s = { .data = pieces[i].p, .n_data = pieces[i].n };
		struct guest_flow *f;
		struct err err = { 0 };
		struct stage st;

		stage_begin(&st, &s);
		assert_int_equal(guest_output(st.g, 1, 2, 0, true, &f, &err), 0);
		assert_int_equal(read_out(f, false), -EPROTO);
		guest_flow_close(f);
		stage_end(&st);
	}
}

static void test_watch(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		int want;
	} records[] = {
		{ "\7\0\0\0\1\0\7\0\0\0\1\0", 12, -EPROTO }, /* twice that it is ready */
		{ "\0\0\0\0\2x", 7, -EPROTO },               /* no such kind */
		{ "\x63\0\0\0\2x", 7, -EPROTO },             /* ditto */
		{ "\1\0\1\0\0", 5, -EPROTO },                /* a path that is too long */
		{ "\1\0\0\0\2xy", 7, -EPROTO },              /* without its NUL */
		{ "\1\0\0\0\0", 5, -EPROTO },                /* nothing at all */
		{ "\1\0\0\0\3/x\0\2\0", 10, -ENODATA },      /* a half one at the end is dropped */
	};

	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		const struct script s = { .data = records[i].p, .n_data = records[i].n };
		struct guest_flow *f;
		struct err err = { 0 };
		struct stage st;

		stage_begin(&st, &s);
		assert_int_equal(guest_watch(st.g, NULL, NULL, &f, &err), 0);
		assert_int_equal(read_out(f, true), records[i].want);
		guest_flow_close(f);
		stage_end(&st);
	}
}

static void test_get(void **state)
{
	struct agent_got good = { .st = { .kind = AGENT_FILE, .size = 10 },
		                  .satisfiable = true,
		                  .off = 0,
		                  .len = 10 },
	                 beyond = good, later = good;
	struct buf b[3] = { 0 };

	beyond.len = 11;
	later.off = 11;
	agent_got_put(&b[0], &good);
	agent_got_put(&b[1], &beyond);
	agent_got_put(&b[2], &later);
	const struct script scripts[] = { { .data = b[0].p, .n_data = b[0].len - 1 },
		                          { .data = b[1].p, .n_data = b[1].len },
		                          { .data = b[2].p, .n_data = b[2].len },
		                          { .n_body = 0 } };
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		struct guest_get get = { 0 };
		struct guest_flow *f = NULL;
		struct err err = { 0 };
		struct stage st;

		stage_begin(&st, &scripts[i]);
		assert_int_equal(guest_get_file(st.g, NULL, "/x", &get, &f, &err), -EPROTO);
		assert_null(f);
		assert_int_equal(guest_tar(st.g, NULL, "/x", false, &f, &err),
		                 scripts[i].n_data ? 0 : -EPROTO);
		guest_flow_close(f);
		stage_end(&st);
	}
	for (size_t i = 0; i < ARRAY_SIZE(b); i++)
		buf_done(&b[i]);
}

/* More than the window: the connection ends, and nothing was kept of it. */
static void test_flood(void **state)
{
	const struct script s = { .flood = true, .silent = true };
	struct guest_flow *f;
	struct err err = { 0 };
	struct stage st;
	int r;

	stage_begin(&st, &s);
	r = guest_output(st.g, 1, 2, 0, true, &f, &err);
	if (r == 0) {
		r = read_out(f, false);
		guest_flow_close(f);
	}
	assert_true(r == -ECONNRESET || r == -EPROTO);
	stage_end(&st);
	assert_true(rss_kb(getpid()) < 64 << 10);
}

/* Slower than the guest: there is more when it returns. */
static int take_slowly(void *ctx, const uint8_t *p, size_t n)
{
	unsigned seen = poured;

	while (poured < seen + 4)
		usleep(500);
	return 0;
}

/* Bytes that are all right, but never end: the deadline does. */
static void test_without_end(void **state)
{
	const struct script s = { .pour = true };
	struct guest_code_req q = { .language = AGENT_LANG_PYTHON, .code = "" };
	struct err err = { 0 };
	struct stage st;

	stage_begin(&st, &s);
	assert_int_equal(
	        guest_read_file(st.g, NULL, "/x", 0, 0, take_slowly, NULL, deadline_in(200), &err),
	        -ETIMEDOUT);
	assert_int_equal(guest_code_warm(st.g, &q, 200, &err), -ETIMEDOUT);
	stage_end(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run),   cmocka_unit_test(test_run_result),
		cmocka_unit_test(test_list),  cmocka_unit_test(test_output),
		cmocka_unit_test(test_watch), cmocka_unit_test(test_get),
		cmocka_unit_test(test_flood), cmocka_unit_test(test_without_end),
	};

	alarm(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
