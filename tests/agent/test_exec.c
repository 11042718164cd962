/* SPDX-License-Identifier: Apache-2.0 */
/* test_exec.c - commands through the real agent */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/agent/util.h"

static void test_output_and_code(void **state)
{
	struct guest_exec_result x;

	run_ok(*state, "echo out; echo err >&2; exit 7", &x);
	assert_int_equal(x.exit_code, 7);
	assert_int_equal(x.signal, 0);
	assert_false(x.timed_out);
	assert_string_equal(x.out, "out\n");
	assert_string_equal(x.errout, "err\n");
	guest_exec_result_done(&x);

	run_ok(*state, "printf 'a\\000b'", &x);
	assert_int_equal(x.out_len, 3);
	assert_memory_equal(x.out, "a\0b", 3);
	guest_exec_result_done(&x);

	run_ok(*state, "true", &x);
	assert_int_equal(x.exit_code, 0);
	assert_int_equal(x.out_len + x.errout_len, 0);
	guest_exec_result_done(&x);
}

static void test_signal(void **state)
{
	struct guest_exec_result x;

	run_ok(*state, "kill -TERM $$", &x);
	assert_int_equal(x.signal, SIGTERM);
	assert_int_equal(x.exit_code, 128 + SIGTERM);
	guest_exec_result_done(&x);
}

static void test_environment(void **state)
{
	const char *env[] = { "PANDO_X=a b=c", "LANG=de_DE", "PANDO_EMPTY=", NULL };
	struct guest_exec_req req = { .command = "env; pwd; cat",
		                      .env = env,
		                      .cwd = "/usr/bin",
		                      .timeout_ms = TEST_DEADLINE_MS };
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };

	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_non_null(strstr(x.out, "PANDO_X=a b=c\n"));
	assert_non_null(strstr(x.out, "LANG=de_DE\n"));
	assert_null(strstr(x.out, "C.UTF-8"));
	assert_non_null(strstr(x.out, "PANDO_EMPTY=\n"));
	assert_non_null(strstr(x.out, "HOME=/"));
	assert_non_null(strstr(
	        x.out, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"));
	assert_non_null(strstr(x.out, "\n/usr/bin\n"));
	assert_null(strstr(x.out, "PANDO_AGENT"));
	guest_exec_result_done(&x);

	req.cwd = "/nonexistent-dir";
	assert_int_equal(guest_exec(r->g, &req, &x, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_CWD_FAILED);
}

static void test_no_descriptor_leaks_into_it(void **state)
{
	struct guest_exec_result x;

	run_ok(*state, "ls /proc/self/fd | wc -l", &x);
	assert_string_equal(x.out, "4\n"); /* 0, 1, 2 and the directory */
	guest_exec_result_done(&x);
}

static void test_user(void **state)
{
	struct guest_exec_req req = { .command = "id -un; id -G; echo $HOME $USER $LOGNAME",
		                      .user = "nobody",
		                      .timeout_ms = TEST_DEADLINE_MS };
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };

	if (geteuid() != 0)
		skip(); /* acting as another user needs root */
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_string_equal(x.out, "nobody\n65534\n/nonexistent nobody nobody\n");
	guest_exec_result_done(&x);

	req.command = "cat /etc/shadow";
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_int_not_equal(x.exit_code, 0);
	assert_int_equal(x.out_len, 0);
	guest_exec_result_done(&x);

	req.user = "no-such-user";
	assert_int_equal(guest_exec(r->g, &req, &x, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_USER_NOT_FOUND);
	assert_non_null(strstr(err.msg, "no-such-user"));
}

/* The group kill reaches children, also those a shell with job control put elsewhere. */
static void test_timeout(void **state)
{
	struct guest_exec_req req = {
		.command = "set -m; echo before; sleep 987 & (sleep 986 & wait); echo never",
		.timeout_ms = 500
	};
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };
	uint64_t begin = clock_ms();

	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_true(x.timed_out);
	assert_int_equal(x.signal, SIGKILL);
	assert_string_equal(x.out, "before\n");
	assert_true(clock_ms() - begin < 10000);
	guest_exec_result_done(&x);

	run_ok(r, "pgrep -x -f 'sleep 98[67]'; echo $?", &x);
	assert_string_equal(x.out, "1\n");
	guest_exec_result_done(&x);
}

static pid_t pid_in(const char *text)
{
	const char *p = strstr(text, "pid ");

	assert_non_null(p);
	return (pid_t)strtol(p + 4, NULL, 10);
}

static void wait_for_file(const char *path)
{
	uint64_t end = deadline_in(TEST_DEADLINE_MS);

	while (access(path, F_OK) < 0) {
		assert_true(clock_ms() < end);
		usleep(20000);
	}
}

static void test_background_child(void **state)
{
	struct rig *r = *state;
	struct guest_exec_result x;
	char command[256], mark[128];
	pid_t pid;

	/* Keeps both pipes open, and writes to them long after the shell has ended. */
	snprintf(mark, sizeof(mark), "%s/mark", r->dir);
	snprintf(command, sizeof(command),
	         "(sleep 2; echo late; echo late >&2; touch %s; exec sleep 300) & echo pid $!",
	         mark);
	run_ok(r, command, &x);
	assert_int_equal(access(mark, F_OK), -1); /* not waited for */
	assert_int_equal(x.exit_code, 0);
	pid = pid_in(x.out);
	guest_exec_result_done(&x);
	wait_for_file(mark);
	assert_int_equal(kill(pid, 0), 0); /* its write did not kill it */
	assert_int_equal(kill(pid, SIGKILL), 0);

	/* Even a child that writes all the time does not keep the command open. */
	run_ok(r, "(while :; do echo y; sleep 0.01; done) & echo pid $!", &x);
	pid = pid_in(x.out);
	guest_exec_result_done(&x);
	assert_int_equal(kill(pid, SIGKILL), 0);

	/* Has closed the pipes. */
	run_ok(r, "setsid sleep 300 >/dev/null 2>&1 </dev/null & echo pid $!", &x);
	pid = pid_in(x.out);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	guest_exec_result_done(&x);
}

struct counter {
	uint64_t bytes;
	int cancel_after;
};

static int on_count(void *ctx, int chan, const uint8_t *p, size_t n)
{
	struct counter *c = ctx;

	for (size_t i = 0; i < n; i++)
		if (p[i] != '\0')
			return -EIO;
	c->bytes += n;
	return c->cancel_after && c->bytes > (uint64_t)c->cancel_after ? -ECANCELED : 0;
}

static void test_large_output(void **state)
{
	struct counter c = { 0 };
	struct guest_exec_req req = { .command = "head -c 52428800 /dev/zero",
		                      .timeout_ms = TEST_DEADLINE_MS,
		                      .on_output = on_count,
		                      .ctx = &c };
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };

	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_int_equal(x.exit_code, 0);
	assert_int_equal(c.bytes, 52428800);
	guest_exec_result_done(&x);

	/* Collected: cut at the limit, and the command still runs to its end. */
	req.on_output = NULL;
	req.max_output = 100000;
	req.command = "head -c 5000000 /dev/zero; echo done >&2";
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_int_equal(x.out_len, 100000);
	assert_true(x.truncated[1]);
	assert_false(x.truncated[2]);
	assert_string_equal(x.errout, "done\n");
	guest_exec_result_done(&x);
}

static void test_cancel(void **state)
{
	struct counter c = { .cancel_after = 1 };
	struct guest_exec_req req = { .command = "head -c 100000 /dev/zero; exec sleep 985",
		                      .timeout_ms = TEST_DEADLINE_MS,
		                      .on_output = on_count,
		                      .ctx = &c };
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };

	assert_int_equal(guest_exec(r->g, &req, &x, &err), -ECANCELED);
	run_ok(r, "pgrep -x -f 'sleep 985'; echo $?", &x);
	assert_string_equal(x.out, "1\n");
	guest_exec_result_done(&x);
}

static void test_stdin(void **state)
{
	const size_t n = 3000000;
	autofree uint8_t *data = malloc(n);
	struct guest_exec_req req = {
		.command = "cat", .stdin_data = data, .stdin_len = n, .timeout_ms = TEST_DEADLINE_MS
	};
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };

	for (size_t i = 0; i < n; i++)
		data[i] = (uint8_t)(i * 7 >> 3);
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_int_equal(x.out_len, n);
	assert_memory_equal(x.out, data, n);
	guest_exec_result_done(&x);

	/* Nothing reads it: the command still ends, and so does the call. */
	req.command = "exec <&-; echo ok";
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_string_equal(x.out, "ok\n");
	guest_exec_result_done(&x);

	/* Empty, but there. */
	req.command = "cat; echo end";
	req.stdin_len = 0;
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_string_equal(x.out, "end\n");
	guest_exec_result_done(&x);
}

static void test_long_command(void **state)
{
	const size_t n = 120000;
	autofree char *command = malloc(n + 200000);
	struct guest_exec_req req = { .command = command, .timeout_ms = TEST_DEADLINE_MS };
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };
	int k = snprintf(command, 16, "echo -n '");

	memset(command + k, 'x', n);
	snprintf(command + k + n, 16, "' | wc -c");
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_string_equal(x.out, "120000\n");
	guest_exec_result_done(&x);

	memset(command, 'x', 200000);
	command[200000] = '\0';
	assert_int_equal(guest_exec(r->g, &req, &x, &err), -E2BIG);
	assert_int_equal(err.tag, ERR_COMMAND_TOO_LONG);
}

struct worker {
	struct rig *r;
	int number;
	char problem[128];
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 5; i++) {
		char command[128], want[32];
		struct guest_exec_result x;
		struct err err = { 0 };

		snprintf(command, sizeof(command),
		         "head -c 300000 /dev/zero | tr '\\0' x | wc -c; echo w%d-%d", w->number,
		         i);
		snprintf(want, sizeof(want), "300000\nw%d-%d\n", w->number, i);
		if (run(w->r, command, &x, &err) < 0) {
			snprintf(w->problem, sizeof(w->problem), "%.100s", err.msg);
			break;
		}
		if (strcmp(x.out, want) != 0)
			snprintf(w->problem, sizeof(w->problem), "got %.80s", x.out);
		guest_exec_result_done(&x);
	}
	return NULL;
}

static void test_many_at_once(void **state)
{
	struct worker w[20];
	pthread_t t[20];

	for (int i = 0; i < 20; i++) {
		w[i] = (struct worker){ .r = *state, .number = i };
		assert_int_equal(pthread_create(&t[i], NULL, worker_main, &w[i]), 0);
	}
	for (int i = 0; i < 20; i++) {
		pthread_join(t[i], NULL);
		assert_string_equal(w[i].problem, "");
	}
}

/* A stuck consumer delays only itself. */
struct gate {
	sem_t arrived, go;
};

static int on_gate(void *ctx, int chan, const uint8_t *p, size_t n)
{
	struct gate *gt = ctx;

	sem_post(&gt->arrived);
	while (sem_wait(&gt->go) < 0)
		;
	sem_post(&gt->go);
	return 0;
}

struct slow {
	struct rig *r;
	struct gate gate;
	int result;
};

static void *slow_main(void *arg)
{
	struct slow *s = arg;
	struct guest_exec_req req = { .command = "head -c 20000000 /dev/zero",
		                      .timeout_ms = TEST_DEADLINE_MS,
		                      .on_output = on_gate,
		                      .ctx = &s->gate };
	struct guest_exec_result x;
	struct err err = { 0 };

	s->result = guest_exec(s->r->g, &req, &x, &err);
	if (s->result == 0)
		guest_exec_result_done(&x);
	return NULL;
}

static void test_slow_consumer(void **state)
{
	struct slow s = { .r = *state };
	struct guest_exec_result x;
	pthread_t t;

	sem_init(&s.gate.arrived, 0, 0);
	sem_init(&s.gate.go, 0, 0);
	assert_int_equal(pthread_create(&t, NULL, slow_main, &s), 0);
	assert_int_equal(sem_wait(&s.gate.arrived), 0);
	for (int i = 0; i < 5; i++) {
		run_ok(*state, "head -c 2000000 /dev/zero | tr '\\0' x", &x);
		assert_int_equal(x.out_len, 2000000);
		guest_exec_result_done(&x);
	}
	sem_post(&s.gate.go);
	pthread_join(t, NULL);
	assert_int_equal(s.result, 0);
	sem_destroy(&s.gate.arrived);
	sem_destroy(&s.gate.go);
}

/* However a command ends, its resources are released. */
static void test_nothing_leaks(void **state)
{
	struct counter c = { .cancel_after = 1 };
	struct rig *r = *state;
	unsigned before = count_fds(r->agent);

	for (int i = 0; i < 40; i++) {
		struct guest_exec_req req = { .command = "head -c 1000 /dev/zero; sleep 0.05; cat",
			                      .user = i % 5 == 0 ? "no-such-user" : NULL,
			                      .cwd = i % 5 == 1 ? "/nonexistent" : NULL,
			                      .timeout_ms = i % 5 == 2 ? 1 : TEST_DEADLINE_MS,
			                      .on_output = i % 5 == 3 ? on_count : NULL,
			                      .stdin_data = i % 2 ? (const uint8_t *)"x" : NULL,
			                      .stdin_len = 1,
			                      .ctx = &c };
		struct guest_exec_result x;

		if (guest_exec(r->g, &req, &x, NULL) == 0)
			guest_exec_result_done(&x);
	}
	for (uint64_t end = deadline_in(TEST_DEADLINE_MS);
	     count_fds(r->agent) != before && clock_ms() < end;)
		usleep(10000); /* cancelled ones are reaped and a shell is started in the background
		                */
	assert_int_equal(count_fds(r->agent), before);
}

struct late {
	struct rig *r;
	int result;
};

static void *late_main(void *arg)
{
	struct late *l = arg;

	l->result = guest_ping(l->r->g, deadline_in(TEST_DEADLINE_MS), NULL);
	return NULL;
}

/* While quiesced nothing is sent, even in the middle of a command's input; then everything
 * continues. */
static void test_quiesce(void **state)
{
	struct rig *r = *state;
	struct late l = { .r = r, .result = 1 };
	struct slow s = { .r = r };
	struct err err = { 0 };
	pthread_t t, t2;

	sem_init(&s.gate.arrived, 0, 0);
	sem_init(&s.gate.go, 0, 0);
	assert_int_equal(pthread_create(&t2, NULL, slow_main, &s), 0);
	assert_int_equal(sem_wait(&s.gate.arrived), 0);
	sem_post(&s.gate.go); /* output flows, and wants to give credit */
	assert_int_equal(guest_quiesce(r->g, deadline_in(TEST_DEADLINE_MS), &err), 0);
	assert_int_equal(pthread_create(&t, NULL, late_main, &l), 0);
	assert_int_equal(guest_ping(r->g, deadline_in(300), &err), -ETIMEDOUT);
	assert_int_equal(l.result, 1);
	guest_resume(r->g);
	pthread_join(t, NULL);
	pthread_join(t2, NULL);
	assert_int_equal(l.result, 0);
	assert_int_equal(s.result, 0);

	/* Nobody resumes: closing is enough. */
	assert_int_equal(guest_quiesce(r->g, deadline_in(TEST_DEADLINE_MS), &err), 0);
	assert_int_equal(guest_quiesce(r->g, deadline_in(50), &err), -ETIMEDOUT);
	assert_int_equal(pthread_create(&t, NULL, late_main, &l), 0);
	guest_close(r->g);
	pthread_join(t, NULL);
	assert_int_equal(l.result, -ECONNRESET);
	sem_destroy(&s.gate.arrived);
	sem_destroy(&s.gate.go);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_ready, rig_done)
		T(test_output_and_code),
		T(test_signal),
		T(test_environment),
		T(test_no_descriptor_leaks_into_it),
		T(test_user),
		T(test_timeout),
		T(test_background_child),
		T(test_large_output),
		T(test_cancel),
		T(test_stdin),
		T(test_long_command),
		T(test_many_at_once),
		T(test_slow_consumer),
		T(test_quiesce),
		T(test_nothing_leaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
