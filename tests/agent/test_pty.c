/* SPDX-License-Identifier: Apache-2.0 */
/* test_pty.c - terminal sessions through the real agent */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "guest/guest_pty.h"
#include "tests/agent/util.h"

struct client {
	struct guest_pty *t;
	struct guest_pty_info info;
	struct buf seen; /* all that came, pictures too */
	unsigned pictures;
	int exit; /* -1: not yet */
};

static int try_begin(struct rig *r, struct client *c, bool attach, const struct guest_pty_req *req,
                     struct err *err)
{
	struct guest_pty_req q = *req;

	*c = (struct client){ .exit = -1 };
	q.cols = q.cols ? q.cols : 80;
	q.rows = q.rows ? q.rows : 24;
	return (attach ? guest_pty_attach : guest_pty_open)(r->g, &q, deadline_in(TEST_DEADLINE_MS),
	                                                    &c->t, &c->info, err);
}

static void begin(struct rig *r, struct client *c, bool attach, struct guest_pty_req req)
{
	struct err err = { 0 };

	if (try_begin(r, c, attach, &req, &err) < 0)
		fail_msg("%s: %s", attach ? "attach" : "open", err.msg);
}

static void end(struct client *c)
{
	guest_pty_detach(TAKE_PTR(c->t));
	buf_done(&c->seen);
}

/* Takes one piece if there is one within ms; false at the end of the program. */
static bool step(struct client *c, unsigned ms)
{
	enum guest_pty_piece kind;
	struct err err = { 0 };
	const uint8_t *p;
	ssize_t n = guest_pty_read(c->t, &kind, &p, &err);

	if (n == -EAGAIN) {
		io_wait(guest_pty_fd(c->t), POLLIN, deadline_in(ms));
		return true;
	}
	if (n == -ENODATA) {
		c->exit = guest_pty_exit_code(c->t, &err);
		return false;
	}
	if (n < 0)
		fail_msg("read: %s", err.msg);
	buf_put(&c->seen, p, (size_t)n);
	c->pictures += kind == GUEST_PTY_PICTURED;
	return true;
}

static bool holds(const struct client *c, const char *text)
{
	return c->seen.len && memmem(c->seen.p, c->seen.len, text, strlen(text));
}

static void expect(struct client *c, const char *text)
{
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);

	while (!holds(c, text)) {
		if (!step(c, 100) || clock_ms() > deadline)
			fail_msg("'%s' never came; what came: %.*s", text, (int)c->seen.len,
			         (const char *)c->seen.p);
	}
}

static void expect_exit(struct client *c, int code)
{
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);

	while (step(c, 100))
		if (clock_ms() > deadline)
			fail_msg("it never ended");
	assert_int_equal(c->exit, code);
}

static void type(struct client *c, const char *text)
{
	size_t n = strlen(text);
	struct err err = { 0 };

	while (n) {
		ssize_t k = guest_pty_write(c->t, text, n, &err);

		assert_true(k >= 0);
		text += k;
		n -= (size_t)k;
	}
}

static void test_shell(void **state)
{
	struct client c;

	begin(*state, &c, false,
	      (struct guest_pty_req){ .exec = "/bin/sh", .cols = 91, .rows = 33 });
	assert_string_equal(c.info.id, "pty-1");
	assert_true(c.info.running);
	assert_string_equal(c.info.user, "root");
	assert_int_equal(c.info.clients, 1);
	type(&c, "echo A$((40+2))Z; stty size; tty; echo T:$TERM H:$HOME U:$USER; pwd\n");
	expect(&c, "A42Z");
	expect(&c, "33 91");
	expect(&c, "/dev/pts/");
	expect(&c, "T:xterm-256color");
	expect(&c, "U:root");
	type(&c, "exit 7\n");
	expect_exit(&c, 7);
	end(&c);
}

/* A program that ends at once loses no output, and a later client still learns how it ended. */
static void test_short_life(void **state)
{
	struct guest_pty_info *list;
	struct err err = { 0 };
	struct client c, d;
	size_t n;

	begin(*state, &c, false,
	      (struct guest_pty_req){ .id = "short", .exec = "printf 'gr\\303\\274n'; exit 3" });
	expect_exit(&c, 3);
	assert_true(holds(&c, "gr\xc3\xbcn"));
	begin(*state, &d, true, (struct guest_pty_req){ .id = "short" });
	assert_false(d.info.running);
	expect_exit(&d, 3);
	assert_true(holds(&d, "gr\xc3\xbcn"));
	assert_int_equal(guest_pty_list(((struct rig *)*state)->g, &list, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(list[0].id, "short");
	assert_int_equal(list[0].exit_code, 3);
	assert_false(list[0].running);
	assert_true(list[0].exited_ms >= list[0].created_ms);
	free(list);
	end(&c);
	end(&d);
}

static void test_signal_and_kill(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	struct client c;
	int code;

	begin(r, &c, false,
	      (struct guest_pty_req){
	              .exec = "echo R; exec sleep 1000" }); /* a shell in between may miss it */
	expect(&c, "R");
	type(&c, "\x03");
	expect_exit(&c, 130);
	end(&c);
	begin(r, &c, false,
	      (struct guest_pty_req){ .exec = "trap '' INT TERM HUP; echo R; exec sleep 1000" });
	expect(&c, "R");
	assert_int_equal(guest_pty_signal(c.t, SIGKILL, &err), 0);
	expect_exit(&c, 137);
	end(&c);
	begin(r, &c, false,
	      (struct guest_pty_req){ .id = "k",
	                              .exec = "sleep 1000 & trap '' HUP; echo R; sleep 1000" });
	expect(&c, "R");
	assert_int_equal(guest_pty_close(r->g, "k", NULL, &code, &err), 0);
	assert_int_equal(code, 137);
	expect_exit(&c, 137);
	assert_int_equal(guest_pty_close(r->g, "k", NULL, &code, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_SESSION_NOT_FOUND);
	end(&c);
}

static void test_refusals(void **state)
{
	struct rig *r = *state;
	struct err err = { 0 };
	struct client c, d;

	assert_true(try_begin(r, &c, true, &(struct guest_pty_req){ .id = "none" }, &err) < 0);
	assert_int_equal(err.tag, ERR_SESSION_NOT_FOUND);
	assert_true(try_begin(r, &c, false, &(struct guest_pty_req){ .user = "nobody-here" },
	                      &err) < 0);
	assert_int_equal(err.tag, ERR_USER_NOT_FOUND);
	begin(r, &c, false, (struct guest_pty_req){ .id = "a.b-C_1", .exec = "cat" });
	assert_true(try_begin(r, &d, false, &(struct guest_pty_req){ .id = "a.b-C_1" }, &err) < 0);
	assert_int_equal(err.tag, ERR_SESSION_ALREADY_EXISTS);
	assert_true(try_begin(r, &d, true,
	                      &(struct guest_pty_req){ .id = "a.b-C_1", .user = "nobody" },
	                      &err) < 0);
	assert_int_equal(err.tag, ERR_SESSION_USER_MISMATCH);
	begin(r, &d, true, (struct guest_pty_req){ .id = "a.b-C_1", .user = "root" });
	end(&d);
	end(&c);
	begin(r, &c, false,
	      (struct guest_pty_req){ .user = "nobody", .exec = "id -un; tty -s; echo $?" });
	expect(&c, "nobody\r\n0\r\n");
	end(&c);
}

/* An ended session stays for a while, then only its name is remembered, then the name can be
 * reused. */
static void test_retention(void **state)
{
	struct rig *r = *state;
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);
	struct err err = { 0 };
	struct client c;

	rig_stop(r);
	r->pty_retain = "1500";
	rig_spawn(r);
	rig_attach(r);
	assert_int_equal(rig_hello(r, GUEST_BOOT, 1, NULL, &err), 0);
	begin(r, &c, false, (struct guest_pty_req){ .id = "late", .exec = "echo last; exit 3" });
	expect_exit(&c, 3);
	end(&c);
	begin(r, &c, true, (struct guest_pty_req){ .id = "late" });
	expect_exit(&c, 3);
	assert_true(holds(&c, "last"));
	end(&c);
	while (try_begin(r, &c, true, &(struct guest_pty_req){ .id = "late" }, &err) == 0) {
		end(&c); /* nobody stays attached: that would keep it */
		assert_true(clock_ms() < deadline);
		io_wait(-1, 0, deadline_in(100));
	}
	assert_int_equal(err.tag, ERR_SESSION_EXPIRED);
	begin(r, &c, false, (struct guest_pty_req){ .id = "late", .exec = "exit 4" });
	expect_exit(&c, 4);
	end(&c);
}

static void test_cap(void **state)
{
	struct client c[GUEST_PTYS_MAX], d;
	struct guest_pty_info *list;
	struct rig *r = *state;
	struct err err = { 0 };
	size_t n;

	for (unsigned i = 0; i < GUEST_PTYS_MAX; i++)
		begin(r, &c[i], false, (struct guest_pty_req){ .exec = i % 2 ? "cat" : "true" });
	assert_true(try_begin(r, &d, false, &(struct guest_pty_req){ .exec = "cat" }, &err) < 0);
	assert_int_equal(err.tag, ERR_SESSION_CAP_REACHED);
	assert_int_equal(guest_pty_list(r->g, &list, &n, &err), 0);
	assert_int_equal(n, GUEST_PTYS_MAX);
	free(list);
	for (unsigned i = 0; i < GUEST_PTYS_MAX; i++) {
		int code;

		assert_int_equal(guest_pty_close(r->g, c[i].info.id, NULL, &code, &err), 0);
		end(&c[i]);
	}
	begin(r, &d, false, (struct guest_pty_req){ .exec = "cat" });
	end(&d);
}

/* The smallest window counts until its client leaves. */
static void test_sizes(void **state)
{
	struct err err = { 0 };
	struct client c, d;

	begin(*state, &c, false,
	      (struct guest_pty_req){
	              .id = "w",
	              .cols = 100,
	              .rows = 40,
	              .exec = "trap 'stty size' WINCH; echo R; while :; do sleep 0.05; done" });
	expect(&c, "R");
	begin(*state, &d, true, (struct guest_pty_req){ .id = "w", .cols = 60, .rows = 50 });
	assert_int_equal(d.info.cols, 60);
	assert_int_equal(d.info.rows, 40);
	expect(&c, "40 60");
	assert_int_equal(guest_pty_resize(d.t, 70, 20, &err), 0);
	expect(&c, "20 70");
	expect(&d, "20 70");
	end(&d);
	expect(&c, "40 100");
	end(&c);
}

/* All bytes reach the client that reads, while another one reads nothing. */
static void test_flood(void **state)
{
	struct rig *r = *state;
	struct client fast, slow;
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS * 2);
	long before;

	begin(r, &slow, false,
	      (struct guest_pty_req){ .id = "f",
	                              .exec = "stty raw -echo; echo READY; read x; "
	                                      "seq 1 400000; echo; echo END" });
	begin(r, &fast, true, (struct guest_pty_req){ .id = "f" });
	expect(&fast, "READY"); /* or the picture of it, if it came before */
	buf_reset(&fast.seen);
	before = rss_kb(r->agent);
	type(&fast, "\n");
	while (step(&fast, 100))
		assert_true(clock_ms() < deadline);
	assert_int_equal(fast.exit, 0);
	assert_int_equal(fast.pictures, 1);
	const uint8_t *p = fast.seen.p, *stop = p + fast.seen.len;
	for (unsigned i = 1; i <= 400000; i++) {
		char want[16];
		int n = snprintf(want, sizeof(want), "%u\n", i);

		if (stop - p < n || memcmp(p, want, (size_t)n) != 0)
			fail_msg("number %u is missing: %.20s", i, (const char *)p);
		p += n;
	}
#ifndef __SANITIZE_ADDRESS__ /* which keeps freed memory for a while */
	assert_true(rss_kb(r->agent) - before < 16L * 1024);
#else
	(void)before;
#endif
	/* The slow client gets its queue, then the current screen, then the end. */
	while (step(&slow, 100))
		assert_true(clock_ms() < deadline);
	assert_int_equal(slow.exit, 0);
	assert_int_equal(slow.pictures, 2);
	assert_true(slow.seen.len < fast.seen.len);
	assert_true(holds(&slow, "END"));
	end(&slow);
	end(&fast);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_shell, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_short_life, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_signal_and_kill, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_refusals, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_retention, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_cap, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_sizes, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_flood, rig_ready, rig_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
