/* SPDX-License-Identifier: Apache-2.0 */
/* test_fault.c - the injectors themselves: each fails the call it was told to, and no other */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "store/store.h"
#include "tests/agent/util.h"
#include "tests/fault/fault.h"
#include "tests/unit/check.h"
#include "tests/unit/tmpdir.h"

#define CALLS_MAX 2000 /* more than any of these makes: a loop that never ends fails */

static void plan(unsigned kinds, unsigned long nth, int error)
{
	struct fault_plan p = { .kinds = kinds, .nth = nth, .error = error };

	fault_set(&p);
	fault_arm();
}

/* ---- the counter ---- */

static void the_nth_call_fails_and_no_other(void **state)
{
	plan(FAULT_BIT(FAULT_ENGINE) | FAULT_BIT(FAULT_HELPER), 3, EBUSY);
	assert_int_equal(fault_hit(FAULT_ENGINE, "spawn", "m1"), 0);
	assert_int_equal(fault_hit(FAULT_STORE, "xRead", ""), 0); /* does not count */
	assert_int_equal(fault_hit(FAULT_HELPER, "slot", NULL), 0);
	assert_false(fault_fired());
	assert_string_equal(fault_what(), "");
	assert_int_equal(fault_hit(FAULT_ENGINE, "load", "m1"), EBUSY);
	assert_int_equal(fault_hit(FAULT_ENGINE, "cont", "m1"), 0);
	assert_true(fault_fired());
	assert_int_equal(fault_count(), 4);
	assert_string_equal(fault_what(), "engine: load m1");
	fault_set(NULL);
	assert_int_equal(fault_count(), 0);
}

static void a_plan_may_stay(void **state)
{
	struct fault_plan p = {
		.kinds = FAULT_BIT(FAULT_FILE), .nth = 2, .error = ENOSPC, .stays = true
	};

	fault_set(&p);
	assert_int_equal(fault_hit(FAULT_FILE, "write", ""), 0); /* not armed: not counted */
	fault_arm();
	assert_int_equal(fault_hit(FAULT_FILE, "write", ""), 0);
	assert_int_equal(fault_hit(FAULT_FILE, "write", ""), ENOSPC);
	assert_int_equal(fault_hit(FAULT_FILE, "fsync", ""), ENOSPC);
	fault_disarm();
	assert_int_equal(fault_hit(FAULT_FILE, "write", ""), 0);
	assert_int_equal(fault_count(), 3);
	fault_set(NULL);
}

static void quiet_calls_do_not_count(void **state)
{
	int status;
	pid_t pid;

	plan(FAULT_BIT(FAULT_MEMORY), 1, 0);
	{
		FAULT_QUIET;
		void *p = malloc(8);

		assert_non_null(p);
		free(p);
	}
	assert_int_equal(fault_count(), 0);
	pid = fork();
	if (pid == 0) {
		void *volatile p = malloc(8);

		_exit(p && fault_count() == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_null(malloc(8));
	assert_int_equal(errno, ENOMEM);
	fault_set(NULL);
}

static atomic_uint failed;

static void *hammer(void *arg)
{
	for (int i = 0; i < 1000; i++)
		if (fault_hit(FAULT_ENGINE, "call", ""))
			failed++;
	return NULL;
}

static void one_call_fails_whatever_the_threads(void **state)
{
	pthread_t t[4];

	failed = 0;
	plan(FAULT_BIT(FAULT_ENGINE), 2222, 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, hammer, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(fault_count(), 4000);
	assert_int_equal(failed, 1);
	fault_set(NULL);
}

static int every_second(enum fault_kind kind, const char *what, void *arg)
{
	void *p = malloc(1); /* the hook's own calls are quiet */

	assert_non_null(p);
	free(p);
	return ++*(int *)arg % 2 ? 0 : EINTR;
}

static void a_hook_sees_every_call(void **state)
{
	int n = 0;

	fault_on_call(every_second, &n);
	assert_int_equal(fault_hit(FAULT_ENGINE, "a", ""), 0);
	assert_int_equal(fault_hit(FAULT_ENGINE, "b", ""), EINTR);
	assert_int_equal(fault_hit(FAULT_HELPER, "c", ""), 0);
	fault_on_call(NULL, NULL);
	assert_int_equal(n, 3);
}

/* ---- files and memory ---- */

/* Whatever fails, the file has the old text or the new one, and nothing lies beside it. */
static void files_fail_at_every_call(void **state)
{
	static const int errors[] = { EIO, ENOSPC };
	struct tmpdir d;
	char path[256];

	assert_int_equal(tmpdir_make(&d), 0);
	tmpdir_file(&d, "f", path, sizeof(path));
	for (size_t e = 0; e < ARRAY_SIZE(errors); e++) {
		bool seen_sync = false, seen_rename = false;
		unsigned long n = 0;
		int r;

		OK(io_write_file(AT_FDCWD, path, "old", 3, 0600, &err));
		do {
			autofree char *text = NULL, *ls = NULL;
			struct err why = { 0 };
			DIR *dir;
			int files = 0;

			plan(FAULT_BIT(FAULT_FILE), ++n, errors[e]);
			r = io_write_file(AT_FDCWD, path, "new!", 4, 0600, &why);
			fault_disarm();
			assert_true(n < CALLS_MAX);
			assert_int_equal(r, fault_fired() ? -errors[e] : 0);
			assert_true(r == 0 || why.msg[0]);
			seen_sync |= strstr(fault_what(), "fsync") != NULL;
			seen_rename |= strstr(fault_what(), "rename") != NULL;
			OK(io_read_file(AT_FDCWD, path, 100, &text, &err));
			assert_true(!strcmp(text, "old") || !strcmp(text, "new!"));
			dir = opendir(d.path);
			while (readdir(dir))
				files++;
			closedir(dir);
			assert_int_equal(files, 3); /* . .. f */
		} while (r < 0);
		assert_true(n > 4 && seen_sync && seen_rename);
	}
	fault_set(NULL);
	assert_int_equal(tmpdir_remove(&d), 0);
}

static void sockets_are_not_files(void **state)
{
	int p[2];

	assert_int_equal(pipe(p), 0);
	plan(FAULT_BIT(FAULT_FILE), 1, EIO);
	assert_int_equal(write(p[1], "x", 1), 1);
	assert_int_equal(fault_count(), 0);
	fault_set(NULL);
	close(p[0]);
	close(p[1]);
}

static void removals_are_a_kind_of_their_own(void **state)
{
	struct tmpdir d;
	char path[256];

	assert_int_equal(tmpdir_make(&d), 0);
	tmpdir_file(&d, "f", path, sizeof(path));
	OK(io_write_file(AT_FDCWD, path, "x", 1, 0600, &err));
	plan(FAULT_BIT(FAULT_REMOVE), 1, EIO);
	assert_int_equal(unlink(path), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(unlink(path), 0);
	fault_set(NULL);
	assert_int_equal(tmpdir_remove(&d), 0);
}

static void memory_fails_at_every_call(void **state)
{
	unsigned long n = 0;
	struct tmpdir d;
	char path[256];
	int r;

	assert_int_equal(tmpdir_make(&d), 0);
	tmpdir_file(&d, "f", path, sizeof(path));
	OK(io_write_file(AT_FDCWD, path, "text", 4, 0600, &err));
	do {
		struct err why = { 0 };
		autofree char *text = NULL;

		plan(FAULT_BIT(FAULT_MEMORY), ++n, 0);
		r = io_read_file(AT_FDCWD, path, 100, &text, &why);
		fault_disarm();
		assert_true(n < CALLS_MAX);
		assert_int_equal(r, fault_fired() ? -ENOMEM : 0);
		assert_true(r < 0 ? why.msg[0] && !text : !strcmp(text, "text"));
	} while (r < 0);
	assert_true(n > 1);
	fault_set(NULL);
	assert_int_equal(tmpdir_remove(&d), 0);
}

/* ---- the store ---- */

static int add_two(struct store *s, unsigned long seq, struct err *e)
{
	struct store_vm v[2];
	struct store_layer l[2];

	for (int i = 0; i < 2; i++) {
		v[i] = (struct store_vm){ .slot = -1, .info.created_ms = 1 };
		l[i] = (struct store_layer){ .kind = LAYER_DISK, .format = "qcow2" };
		snprintf(v[i].info.id, ID_SIZE, "vm-%lu-%d", seq, i);
		snprintf(l[i].id, ID_SIZE, "ly-%lu-%d", seq, i);
		snprintf(v[i].disk_layer, ID_SIZE, "ly-%lu-%d", seq, i);
	}
	return store_vm_add_many(s, v, 2, l, 2, NULL, e);
}

static bool has(struct store *s, unsigned long seq, int i)
{
	struct store_vm v;
	char id[ID_SIZE];
	struct err e = { 0 };
	int r;

	snprintf(id, sizeof(id), "vm-%lu-%d", seq, i);
	r = store_vm_get(s, id, &v, &e);
	if (r < 0 && r != -ENOENT)
		fail_msg("read %s back: %s", id, e.msg);
	return r == 0;
}

/* Both rows or none; none when the call failed; and the next write works. */
static void store_fails_at_every_call(void **state)
{
	static const struct {
		unsigned kind;
		int error, want;
	} ways[] = {
		{ FAULT_BIT(FAULT_STORE), EIO, -EIO },
		{ FAULT_BIT(FAULT_STORE), ENOSPC, -ENOSPC },
		{ FAULT_BIT(FAULT_STORE), ENOMEM, -ENOMEM },
		{ FAULT_BIT(FAULT_STORE_MEMORY), 0, -ENOMEM },
	};
	struct store *s = NULL;
	struct tmpdir d;
	unsigned long seq = 0;
	char db[256];

	assert_int_equal(tmpdir_make(&d), 0);
	tmpdir_file(&d, "t.db", db, sizeof(db));
	for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
		unsigned long n = 0;
		int r;

		do {
			struct err why = { 0 };

			OK(store_open(db, &s, &err)); /* an empty cache: reads count, too */
			seq++;
			plan(ways[w].kind, ++n, ways[w].error);
			r = add_two(s, seq, &why);
			fault_disarm();
			assert_true(n < CALLS_MAX);
			if (r < 0 && (!fault_fired() || !why.msg[0]))
				fail_msg("call %lu (%s): %d '%s'", n, fault_what(), r, why.msg);
			if (r < 0 && r != ways[w].want && r != -EIO)
				fail_msg("call %lu (%s): %d, not %d: %s", n, fault_what(), r,
				         ways[w].want, why.msg);
			for (int again = 0; again < 2; again++) {
				assert_int_equal(has(s, seq, 0), has(s, seq, 1));
				assert_int_equal(has(s, seq, 0), r == 0);
				store_close(s);
				OK(store_open(db, &s, &err)); /* and after a restart */
			}
			OK(add_two(s, ++seq, &err));
			s = store_close(s);
		} while (fault_fired());
		assert_int_equal(r, 0);
		assert_true(n > 3);
	}
	fault_set(NULL);
	assert_int_equal(tmpdir_remove(&d), 0);
}

/* ---- the agent channel ---- */

/* exec_ms: for the command */
static int hello_and_run(struct rig *r, unsigned exec_ms, struct err *e)
{
	struct guest_identity id = { .reason = GUEST_BOOT,
		                     .generation = 1,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "pando-test" };
	struct guest_exec_req req = { .command = "echo hi", .timeout_ms = exec_ms };
	struct guest_exec_result res = { 0 };
	int x = guest_hello(r->g, &id, deadline_in(TEST_DEADLINE_MS), NULL, e);

	if (x == 0)
		x = guest_exec(r->g, &req, &res, e);
	if (x == 0 && !fault_fired())
		assert_string_equal(res.out, "hi\n");
	guest_exec_result_done(&res);
	return x;
}

/* Through the injector, with the n-th message failing like that; the result of the run. */
static int talk(unsigned long n, int error, unsigned ms, struct err *e)
{
	struct fault_agent *a = NULL;
	void *state = NULL;
	struct rig *r;
	int x;

	assert_int_equal(rig_new(&state), 0);
	r = state;
	plan(FAULT_BIT(FAULT_AGENT), n, error);
	OK(fault_agent_start(TAKE_FD(r->fd), &r->fd, &a, &err));
	rig_attach(r);
	x = hello_and_run(r, ms, e);
	fault_disarm();
	fault_agent_stop(a);
	assert_int_equal(rig_done(&state), 0);
	return x;
}

static void agent_hangs_up_at_every_message(void **state)
{
	unsigned long n = 0;
	int r;

	do {
		struct err why = { 0 };

		r = talk(++n, FAULT_HANG_UP, TEST_DEADLINE_MS, &why);
		assert_true(n < CALLS_MAX);
		assert_true(r == 0 || (fault_fired() && why.msg[0]));
	} while (fault_fired());
	assert_int_equal(r, 0);
	assert_true(n > 4); /* HELLO, HELLO_ACK, OPEN, DATA, RESULT at least */
}

static int on_result(enum fault_kind kind, const char *what, void *arg)
{
	return kind == FAULT_AGENT && !strcmp(what, "guest RESULT") ? *(int *)arg : 0;
}

static void a_result_that_is_lost_times_out(void **state)
{
	int ways[] = { FAULT_SWALLOW, FAULT_STALL };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct err why = { 0 };
		int r;

		fault_on_call(on_result, &ways[i]);
		r = talk(/* n= */ 0, 0, 1500, &why);
		fault_on_call(NULL, NULL);
		assert_true(r < 0 && why.msg[0]);
	}
}

/* Bytes in both directions, larger than any buffer on the way, and not one of them changed. */
static void what_passes_is_untouched(void **state)
{
	struct fault_agent *a = NULL;
	void *rig = NULL;
	struct rig *r;
	struct guest_exec_result res = { 0 };
	struct guest_exec_req req = { .command = "cat", .timeout_ms = TEST_DEADLINE_MS };
	size_t n = 3u << 20;
	uint8_t *big = malloc(n);

	assert_non_null(big);
	for (size_t i = 0; i < n; i++)
		big[i] = (uint8_t)(i * 2654435761u >> 13);
	assert_int_equal(rig_new(&rig), 0);
	r = rig;
	fault_set(NULL);
	OK(fault_agent_start(TAKE_FD(r->fd), &r->fd, &a, &err));
	rig_attach(r);
	OK(hello_and_run(r, TEST_DEADLINE_MS, &err));
	req.stdin_data = big;
	req.stdin_len = n;
	OK(guest_exec(r->g, &req, &res, &err));
	assert_int_equal(res.out_len, n);
	assert_memory_equal(res.out, big, n);
	guest_exec_result_done(&res);
	free(big);
	fault_agent_stop(a);
	assert_int_equal(rig_done(&rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_call_fails_and_no_other),
		cmocka_unit_test(a_plan_may_stay),
		cmocka_unit_test(quiet_calls_do_not_count),
		cmocka_unit_test(one_call_fails_whatever_the_threads),
		cmocka_unit_test(a_hook_sees_every_call),
		cmocka_unit_test(files_fail_at_every_call),
		cmocka_unit_test(sockets_are_not_files),
		cmocka_unit_test(removals_are_a_kind_of_their_own),
		cmocka_unit_test(memory_fails_at_every_call),
		cmocka_unit_test(store_fails_at_every_call),
		cmocka_unit_test(agent_hangs_up_at_every_message),
		cmocka_unit_test(a_result_that_is_lost_times_out),
		cmocka_unit_test(what_passes_is_untouched),
	};

	if (fault_store_install(/* memory= */ true) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
