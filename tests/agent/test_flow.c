/* SPDX-License-Identifier: Apache-2.0 */
/* test_flow.c - streams through the real agent: processes that outlive their connection, pace,
 * ranges */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

static struct guest_exec_req command(const char *text)
{
	return (struct guest_exec_req){ .command = text };
}

/* The next bytes, waited for; -ENODATA at the end. */
static ssize_t read_some(struct guest_flow *f, int *chan, uint8_t *p, size_t n)
{
	uint64_t end = deadline_in(TEST_DEADLINE_MS);
	struct err err = { 0 };

	for (;;) {
		ssize_t k = guest_flow_read(f, chan, p, n, &err);

		if (k < 0 && k != -ENODATA)
			fail_msg("read: %s", err.msg);
		if (k)
			return k;
		if (io_wait(guest_flow_fd(f), POLLIN, end) != 1)
			fail_msg("nothing came in time");
	}
}

static size_t count_to_end(struct guest_flow *f)
{
	static uint8_t p[8192];
	size_t all = 0;
	ssize_t k;
	int chan;

	while ((k = read_some(f, &chan, p, sizeof(p))) > 0)
		all += (size_t)k;
	return all;
}

static void test_run(void **state)
{
	struct guest_exec_req q = command("read x; echo \"<$x>\"; exit 4");
	struct guest_exec_result res;
	struct guest_started st;
	struct guest_flow *f;
	struct rig *r = *state;
	struct err err = { 0 };
	uint8_t p[64];
	int chan;

	assert_int_equal(guest_run(r->g, &q, true, &f, &st, &err), 0);
	assert_true(st.proc > 0 && st.pid > 1);
	assert_int_equal(kill((pid_t)st.pid, 0), 0);
	assert_int_equal(guest_flow_feed(f, (const uint8_t *)"in\n", 3, &err), 3);
	assert_int_equal(read_some(f, &chan, p, sizeof(p)), 5);
	assert_memory_equal(p, "<in>\n", 5);
	assert_int_equal(read_some(f, &chan, p, sizeof(p)), -ENODATA);
	assert_int_equal(guest_run_result(f, &res, &err), 0);
	assert_int_equal(res.exit_code, 4);
	guest_flow_close(f);

	q = command("true");
	q.user = "no-such-user";
	assert_int_equal(guest_run(r->g, &q, false, &f, &st, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_USER_NOT_FOUND);
	assert_int_equal(guest_start(r->g, &q, false, &st, &err), -ENOENT);
	q.user = NULL;
	q.cwd = "/no/such";
	assert_int_equal(guest_run(r->g, &q, false, &f, &st, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_CWD_FAILED);
}

/* A consumer that does not read delays the command, not the channel. */
static void test_pace(void **state)
{
	struct guest_exec_req q = command("head -c 20000000 /dev/zero; echo done >pace");
	struct guest_exec_result x;
	struct guest_started st;
	struct guest_flow *f;
	struct rig *r = *state;
	struct err err = { 0 };
	autofree char *text = NULL;

	q.cwd = r->dir;
	assert_int_equal(guest_run(r->g, &q, false, &f, &st, &err), 0);
	for (int i = 0; i < 20; i++) {
		run_ok(r, "true", &x);
		guest_exec_result_done(&x);
	}
	run_ok(r, "sleep 1", &x);
	guest_exec_result_done(&x);
	text = rig_text(r, "pace");
	assert_string_equal(text, ""); /* it waits for us */
	assert_int_equal(count_to_end(f), 20000000);
	guest_flow_close(f);
	assert_true(rss_kb(r->agent) < 16 << 10);
}

static void wait_ended(struct rig *r, uint32_t proc, struct guest_proc *ret)
{
	uint64_t end = deadline_in(TEST_DEADLINE_MS);
	struct err err = { 0 };

	do {
		if (guest_proc(r->g, proc, ret, &err) < 0)
			fail_msg("process: %s", err.msg);
		assert_true(clock_ms() < end);
		if (ret->running)
			usleep(10000);
	} while (ret->running);
}

/* The connection ends, the process and its output stay, as in a suspend and resume. */
static void test_detached_survives(void **state)
{
	struct guest_exec_req q = command("echo before; sleep 1; echo after; echo e >&2");
	struct rig *r = *state;
	struct guest_started st;
	struct guest_proc p;
	struct guest_flow *f;
	struct err err = { 0 };
	uint8_t text[64];
	uint64_t off;
	struct cable c;
	size_t got = 0;
	int chan, agent_fd;

	rig_new(state);
	r = *state;
	agent_fd = TAKE_FD(r->fd);
	r->fd = cable_plug(&c, agent_fd);
	if (rig_hello(r, GUEST_BOOT, 1, NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
	assert_int_equal(guest_start(r->g, &q, false, &st, &err), 0);
	assert_int_equal(guest_output(r->g, st.proc, 2, 0, true, &f, &err), 0);
	cable_pull(&c);
	guest_flow_close(f); /* a follower that lost its channel */
	guest_close(r->g);
	guest_unref(TAKE_PTR(r->g));

	r->fd = cable_plug(&c, agent_fd);
	if (rig_hello(r, GUEST_THAW, 2, NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
	wait_ended(r, st.proc, &p);
	assert_int_equal(p.pid, st.pid);
	assert_int_equal(p.end[1], 13);
	assert_int_equal(p.end[2], 2);
	assert_int_equal(guest_output(r->g, st.proc, 2, 7, true, &f, &err), 0);
	while (got < 6) {
		ssize_t k = guest_output_read(f, &chan, &off, text + got, sizeof(text) - got, &err);

		assert_true(k >= 0);
		if (k == 0)
			assert_int_equal(io_wait(guest_flow_fd(f), POLLIN, deadline_in(30000)), 1);
		else
			assert_int_equal(off, 7 + got);
		got += (size_t)k;
	}
	assert_memory_equal(text, "after\n", 6);
	guest_flow_close(f);
	assert_int_equal(guest_proc_forget(r->g, st.proc, &err), 0);
	assert_int_equal(guest_proc(r->g, st.proc, &p, &err), -ENOENT);
	cable_pull(&c);
	close(agent_fd);
}

static void test_list(void **state)
{
	struct guest_exec_req q = command("sleep 1000");
	struct guest_started st[9], run;
	struct rig *r = *state;
	struct guest_proc *all, one;
	struct guest_flow *f;
	struct err err = { 0 };
	char *lots = malloc(5001);
	size_t n;

	memset(lots, ' ', 5000);
	memcpy(lots, "sleep 1000 ", 11);
	lots[5000] = '\0';
	q.command = lots;
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(guest_start(r->g, &q, false, &st[i], &err), 0);
	assert_int_equal(guest_run(r->g, &q, false, &f, &run, &err), 0);
	assert_int_equal(guest_procs(r->g, &all, &n, &err), 0);
	assert_int_equal(n, 10); /* several answers: entries are long */
	for (size_t i = 0; i < 9; i++) {
		assert_int_equal(all[i].proc, st[i].proc);
		assert_true(all[i].running && !all[i].attached && all[i].command_cut);
		assert_int_equal(strlen(all[i].command), 1023);
	}
	assert_true(all[9].attached);
	free(all);
	assert_int_equal(guest_proc_signal(r->g, st[0].proc, 0, &err), -EINVAL);
	assert_int_equal(guest_proc_signal(r->g, st[0].proc, 1000, &err), -EINVAL);
	assert_int_equal(guest_proc_signal(r->g, 9999, SIGTERM, &err), -ENOENT);
	assert_int_equal(guest_proc_forget(r->g, st[0].proc, &err), -EBUSY);
	for (size_t i = 0; i < 9; i++) {
		assert_int_equal(guest_proc_signal(r->g, st[i].proc, SIGTERM, &err), 0);
		wait_ended(r, st[i].proc, &one);
		assert_int_equal(one.signal, SIGTERM);
		assert_int_equal(guest_proc_signal(r->g, st[i].proc, SIGTERM, &err), -ESRCH);
	}
	guest_flow_close(f); /* kills the attached one */
	for (uint64_t end = deadline_in(TEST_DEADLINE_MS); kill((pid_t)run.pid, 0) == 0;) {
		assert_true(clock_ms() < end);
		usleep(10000);
	}
	free(lots);
}

/* Over a hundred short ones: the number of descriptors and memory use do not grow. */
#define READY_FDS 4 /* of a preloaded shell, which may or may not be there yet */

static void test_nothing_is_left(void **state)
{
	struct guest_exec_req q = command("echo x");
	struct rig *r = *state;
	struct guest_started st;
	struct guest_proc p;
	struct err err = { 0 };
	unsigned fds = 0;

	for (int i = 0; i < 150; i++) {
		assert_int_equal(guest_start(r->g, &q, i & 1, &st, &err), 0);
		wait_ended(r, st.proc, &p);
		if (i == 10)
			fds = count_fds(r->agent);
		if (i >= 10)
			assert_int_equal(guest_proc_forget(r->g, st.proc, &err), 0);
	}
	assert_true(count_fds(r->agent) <= fds + READY_FDS);
}

static void test_get(void **state)
{
	struct guest_get get = { .range = GUEST_RANGE_LAST, .len = 4 };
	struct rig *r = *state;
	struct guest_flow *f;
	struct err err = { 0 };
	uint8_t p[64];
	char path[128];
	int chan;

	rig_write(r, "file", "0123456789", 0640);
	snprintf(path, sizeof(path), "%s/file", r->dir);
	assert_int_equal(guest_get_file(r->g, NULL, path, &get, &f, &err), 0);
	assert_true(get.satisfiable);
	assert_int_equal(get.st.size, 10);
	assert_int_equal(get.st.mode, 0640);
	assert_int_equal(get.got_off, 6);
	assert_int_equal(get.got_len, 4);
	assert_int_equal(read_some(f, &chan, p, sizeof(p)), 4);
	assert_memory_equal(p, "6789", 4);
	assert_int_equal(read_some(f, &chan, p, sizeof(p)), -ENODATA);
	assert_int_equal(guest_flow_result(f, &err), 0);
	guest_flow_close(f);

	get = (struct guest_get){ .range = GUEST_RANGE_FROM, .off = 10 };
	assert_int_equal(guest_get_file(r->g, NULL, path, &get, &f, &err), 0);
	assert_false(get.satisfiable);
	guest_flow_close(f);
	get = (struct guest_get){ 0 };
	assert_int_equal(guest_get_file(r->g, NULL, "/no/such", &get, &f, &err), -ENOENT);
	assert_int_equal(guest_get_file(r->g, NULL, r->dir, &get, &f, &err), -EISDIR);
	assert_int_equal(guest_get_file(r->g, NULL, "relative", &get, &f, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_run, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_pace, rig_ready, rig_done),
		cmocka_unit_test_teardown(test_detached_survives, rig_done),
		cmocka_unit_test_setup_teardown(test_list, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_nothing_is_left, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_get, rig_ready, rig_done),
	};

	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
