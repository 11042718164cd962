/* SPDX-License-Identifier: Apache-2.0 */
/* test_starter.c - children by way of the starter are children like any other, and outside the
 * walls */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/seccomp.h"
#include "base/starter.h"

#define PATIENCE_MS 60000

static const char *check(const struct starter_job *j, uint64_t *ret_flags)
{
	*ret_flags = j->numbers[0];
	return strcmp(j->argv[0], "/bin/forbidden") == 0 ? "forbidden here" : NULL;
}

static const char *run(struct starter_job *j)
{
	starter_reset_signals();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return "ask for a signal";
	if (j->numbers[1] && starter_hand_over(j, j->fds[0]) < 0)
		return "hand it over";
	if (starter_arrange_fds(j) < 0)
		return "arrange descriptors";
	execve(j->argv[0], (char *const *)j->argv, (char *const *)j->env);
	return "run it";
}

static const struct starter_kind test_kind = { "test", NULL, check, run };
static const struct starter_kind *const kinds[] = { &test_kind };

static int sock; /* our end of the starter's, for what starter_run() would not send */

static int setup(void **state)
{
	struct err err = { 0 };

	(void)state;
	sock = dup(0);
	close(sock); /* the next descriptor */
	if (starter_open(kinds, 1, &err) < 0)
		fail_msg("%s", err.msg);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	starter_close();
	return 0;
}

static struct starter_job job(const char *a, const char *b, const char *c, int out)
{
	struct starter_job j = { .argv = { a, b, c },
		                 .env = { "A=b", "PATH=/usr/bin:/bin" },
		                 .n_fds = 3 };

	j.fds[0] = 0;
	j.fds[1] = out;
	j.fds[2] = 2;
	return j;
}

static struct proc started(const struct starter_job *j)
{
	struct err err = { 0 };
	struct proc p = PROC_NONE;

	if (starter_run(j, &p, NULL, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(p.pid > 0 && p.pidfd >= 0);
	return p;
}

static int reaped(struct proc *p)
{
	int st = -1;

	assert_int_equal(waitpid(p->pid, &st, 0), p->pid);
	proc_close(p);
	return st;
}

/* What `script` prints. */
static void said(const char *script, uint64_t flags, char *ret, size_t size)
{
	int pipe_fds[2], st;
	struct starter_job j;
	struct proc p;
	size_t len = 0;
	ssize_t n;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	j = job("/bin/sh", "-c", script, pipe_fds[1]);
	j.numbers[0] = flags;
	p = started(&j);
	close(pipe_fds[1]);
	while ((n = read(pipe_fds[0], ret + len, size - 1 - len)) > 0) /* it prints in pieces */
		len += (size_t)n;
	assert_int_equal(n, 0);
	ret[len] = '\0';
	close(pipe_fds[0]);
	st = reaped(&p);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

static void test_it_is_our_child(void **state)
{
	char got[100], want[100];

	(void)state;
	said("echo $PPID $A; ls /proc/self/fd | wc -l", 0, got, sizeof(got));
	snprintf(want, sizeof(want), "%d b\n4\n", (int)getpid()); /* 0 to 2, and ls's own */
	assert_string_equal(got, want);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* the starter, and nothing left over */
}

static void test_namespaces(void **state)
{
	struct starter_job j = job("/bin/true", NULL, NULL, 1);
	struct proc p = PROC_NONE;
	struct err err = { 0 };
	char got[100];

	(void)state;
	j.numbers[0] = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
	if (starter_run(&j, &p, NULL, &err) == -EPERM)
		skip(); /* no namespaces without privileges on this host */
	assert_int_equal(err.code, 0);
	reaped(&p);
	said("echo $$", CLONE_NEWUSER | CLONE_NEWPID, got, sizeof(got));
	assert_string_equal(got,
	                    "1\n"); /* the first process of its namespace, and still our child */
}

static void test_refusals(void **state)
{
	struct starter_job j = job("/bin/forbidden", NULL, NULL, 1);
	struct err err = { 0 };
	struct proc p;

	(void)state;
	assert_int_equal(starter_run(&j, &p, NULL, &err), -EPERM);
	assert_non_null(strstr(err.msg, "forbidden here"));
	j = job("/nonexistent/program", NULL, NULL, 1);
	assert_int_equal(starter_run(&j, &p, NULL, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "run it"));
	j.kind = 1;
	assert_int_equal(starter_run(&j, &p, NULL, &err), -EINVAL);
	assert_int_equal(starter_open(kinds, 1, &err), -EALREADY);
	assert_int_equal(starter_kind("test"), 0);
	assert_int_equal(starter_kind("other"), -ENOENT);
	assert_true(waitpid(-1, NULL, WNOHANG) <= 0);
}

static void test_it_is_bounded(void **state)
{
	static char huge[STARTER_MSG_MAX + 1];
	struct starter_job j;
	struct err err = { 0 };
	struct proc p;
	char got[20];

	(void)state;
	memset(huge, 'x', sizeof(huge) - 1);
	j = job("/bin/true", huge, NULL, 1);
	assert_int_equal(starter_run(&j, &p, NULL, &err), -E2BIG);
	/* what a pandod in the wrong hands might send: it is dropped, and the next one served */
	assert_int_equal(send(sock, "", 1, 0), 1);
	assert_int_equal(send(sock, huge, 4096, 0), 4096);
	assert_true(send(sock, huge, sizeof(huge), 0) > 0);
	said("echo $A", 0, got, sizeof(got));
	assert_string_equal(got, "b\n");
}

static void test_a_descriptor(void **state)
{
	struct starter_job j = job("/bin/true", NULL, NULL, 1);
	struct err err = { 0 };
	struct proc p;
	int p2[2], fd = -1;
	char c = 0;

	(void)state;
	assert_int_equal(pipe2(p2, O_CLOEXEC), 0);
	j.fds[0] = p2[0];
	j.numbers[1] = 1;
	assert_int_equal(starter_run(&j, &p, &fd, &err), 0);
	assert_true(fd >= 0);
	assert_int_equal(write(p2[1], "!", 1), 1);
	assert_int_equal(read(fd, &c, 1), 1);
	assert_int_equal(c, '!');
	close(fd);
	close(p2[0]);
	close(p2[1]);
	reaped(&p);
}

static void *start_and_leave(void *arg)
{
	struct starter_job j = job("/bin/cat", NULL, NULL, 1);

	j.fds[0] = *(int *)arg;
	return memcpy(malloc(sizeof(struct proc)), &(struct proc[]){ started(&j) },
	              sizeof(struct proc));
}

/* A child that asks to end with its parent means the process, whichever thread asked for it. */
static void test_it_outlives_the_thread(void **state)
{
	pthread_t t;
	void *ret;
	int p2[2], st;

	(void)state;
	assert_int_equal(pipe2(p2, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&t, NULL, start_and_leave, &p2[0]), 0);
	assert_int_equal(pthread_join(t, &ret), 0);
	close(p2[0]);
	close(p2[1]); /* cat ends by itself at the end of its input */
	st = reaped(ret);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	free(ret);
}

static void *storm(void *arg)
{
	for (int i = 0; i < 25; i++) {
		struct starter_job j = job("/bin/true", NULL, NULL, 1);
		struct proc p = started(&j);
		int st = reaped(&p);

		if (!WIFEXITED(st) || WEXITSTATUS(st) != 0)
			return arg;
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	pthread_t t[8];
	void *bad;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, storm, &sock), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_int_equal(pthread_join(t[i], &bad), 0);
		assert_null(bad);
	}
}

/* Children whose pidfd does not fit any more are ended, not lost. */
static void test_too_many_files(void **state)
{
	struct starter_job j = job("/bin/cat", NULL, NULL, 1);
	struct rlimit old, few;
	struct err err = { 0 };
	struct proc p;
	int p2[2], r;

	(void)state;
	assert_int_equal(pipe2(p2, O_CLOEXEC), 0);
	j.fds[0] = p2[0];
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)p2[1] + 1 + 2; /* the line is two, of which one is closed by then */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = starter_run(&j, &p, NULL, &err);
	if (r == 0) { /* the one that was closed was used for it */
		close(p2[1]);
		p2[1] = -1;
		reaped(&p);
	} else {
		assert_int_equal(r, -EMFILE);
	}
	few.rlim_cur = (rlim_t)p2[0] + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(starter_run(&j, &p, NULL, &err), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	close(p2[0]);
	if (p2[1] >= 0)
		close(p2[1]);
	assert_true(waitpid(-1, NULL, WNOHANG) <= 0);
}

/* In a process that has forbidden itself to execute anything. */
static int behind_the_wall(void)
{
	static const struct sysfilter_rule no_exec[] = { SYSFILTER_FAIL("execve", EPERM),
		                                         SYSFILTER_FAIL("execveat", EPERM) };
	struct starter_job j = job("/bin/true", NULL, NULL, 1);
	struct sysfilter f;
	struct err err = { 0 };
	struct proc p;
	int st = 0;

	/* everything else "is logged", which is: allowed */
	if (starter_open(kinds, 1, &err) < 0 ||
	    sysfilter_build(no_exec, ARRAY_SIZE(no_exec), SYSFILTER_LOG, &f, &err) < 0 ||
	    sysfilter_install(&f, true) < 0)
		return 1;
	execl("/bin/false", "false", NULL);
	if (errno != EPERM)
		return 2;
	if (starter_run(&j, &p, NULL, &err) < 0 || waitpid(p.pid, &st, 0) != p.pid)
		return 3;
	return WIFEXITED(st) && WEXITSTATUS(st) == 0 ? 0 : 4;
}

static void test_children_have_no_walls(void **state)
{
	pid_t pid;
	int st;

	(void)state;
	if (!sysfilter_available())
		skip(); /* no seccomp filters in this kernel */
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		starter_close(); /* our parent's, not ours */
		_exit(behind_the_wall());
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st));
	assert_int_equal(WEXITSTATUS(st), 0);
}

/* Starts a child and tells its pid and the starter's, then waits to be killed. */
static void maker(int tell)
{
	struct starter_job j = job("/bin/sleep", "1000", NULL, 1);
	struct err err = { 0 };
	struct proc p;
	pid_t pids[2];
	char path[64], text[64] = "";
	int fd;

	if (starter_open(kinds, 1, &err) < 0 || starter_run(&j, &p, NULL, &err) < 0)
		_exit(1);
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		_exit(2);
	pids[0] = p.pid;
	pids[1] = (pid_t)strtol(text, NULL, 10); /* the older one */
	if (write(tell, pids, sizeof(pids)) != sizeof(pids))
		_exit(3);
	pause();
}

static void test_all_end_with_their_maker(void **state)
{
	struct proc ended[2];
	pid_t pids[2], pid;
	int p2[2];

	(void)state;
	assert_int_equal(pipe2(p2, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		starter_close(); /* our parent's, not ours */
		maker(p2[1]);
	}
	close(p2[1]);
	assert_int_equal(io_read_all(p2[0], pids, sizeof(pids)), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(proc_open(pids[i], &ended[i], NULL), 0);
	assert_true(proc_alive(&ended[0]) && proc_alive(&ended[1]));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(proc_wait_end(&ended[i], deadline_in(PATIENCE_MS)), 1);
		proc_close(&ended[i]);
	}
	close(p2[0]);
}

/* Last: there is none afterwards. */
static void test_the_starter_dies(void **state)
{
	struct starter_job j = job("/bin/true", NULL, NULL, 1);
	struct err err = { 0 };
	struct proc p;

	(void)state;
	assert_int_equal(io_wait(starter_fd(), POLLIN, 0), 0);
	assert_int_equal(pidfd_send_signal(starter_fd(), SIGTERM, NULL, 0), 0); /* not for it */
	p = started(&j);
	reaped(&p);
	assert_int_equal(pidfd_send_signal(starter_fd(), SIGKILL, NULL, 0), 0);
	assert_int_equal(io_wait(starter_fd(), POLLIN, deadline_in(PATIENCE_MS)), 1);
	assert_int_equal(starter_run(&j, &p, NULL, &err), -EPIPE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_is_our_child),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_it_is_bounded),
		cmocka_unit_test(test_a_descriptor),
		cmocka_unit_test(test_it_outlives_the_thread),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_too_many_files),
		cmocka_unit_test(test_children_have_no_walls),
		cmocka_unit_test(test_all_end_with_their_maker),
		cmocka_unit_test(test_the_starter_dies),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, setup, teardown);
}
