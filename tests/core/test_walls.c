/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_walls.c - each wall refuses what it is there for, and nothing that pandod does
 *
 * Every attempt is made in a child of its own that has put up the walls. Where a kernel lacks one,
 * the test is skipped, not passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/err.h"
#include "tests/unit/tmpdir.h"
#include "walls/walls.h"

static struct tmpdir inside, outside;

static int setup(void **state)
{
	(void)state;
	assert_int_equal(tmpdir_make(&inside), 0);
	assert_int_equal(tmpdir_make(&outside), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tmpdir_remove(&inside);
	tmpdir_remove(&outside);
	return 0;
}

/* The status of a child that puts up the walls and does `act`; its messages go to `ret_said`. */
static int behind(enum walls_mode mode, int (*act)(void), char *ret_said, size_t size)
{
	struct walls_conf c = { .mode = mode, .write = { inside.path } };
	struct walls_state ws;
	struct err err = { 0 };
	int p[2], st = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (ret_said && dup2(p[1], 2) < 0)
			_exit(97);
		if (walls_raise(&c, &ws, &err) < 0)
			_exit(98);
		_exit(act());
	}
	close(p[1]);
	n = ret_said ? read(p[0], ret_said, size - 1) : 0;
	if (ret_said)
		ret_said[MAX(n, 0)] = '\0';
	close(p[0]);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	return st;
}

static int act_exec(void)
{
	execl("/bin/true", "true", NULL);
	return 1;
}

static int act_mount(void)
{
	mount("none", "/mnt", "tmpfs", 0, NULL);
	return 1;
}

static int act_unshare(void)
{
	return unshare(CLONE_NEWUSER) < 0 ? 2 : 1;
}

static int act_clone(void)
{
	/* by clone() proper, whose flags the filter sees */
	return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) < 0 ? 2 : 1;
}

static int act_packet(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0) < 0 ? 2 : 1;
}

static int act_keys(void)
{
	return syscall(SYS_add_key, "user", "a", "b", 1, -2) < 0 ? 2 : 1;
}

static int act_bpf(void)
{
	return syscall(SYS_bpf, 0, NULL, 0) < 0 ? 2 : 1;
}

static int act_uring(void)
{
	return syscall(SYS_io_uring_setup, 1, NULL) < 0 ? 2 : 1;
}

static int act_memory_of_another(void)
{
	return syscall(SYS_process_vm_writev, getppid(), NULL, 0, NULL, 0, 0) < 0 ? 2 : 1;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which need it themselves */
static int act_ptrace(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? 2 : 1;
}
#endif

static void test_system_calls(void **state)
{
	static const struct {
		int (*act)(void);
		const char *name;
	} cases[] = {
		{ act_exec, "'execve'" },
		{ act_mount, "'mount'" },
		{ act_unshare, "'unshare'" },
		{ act_clone, "'clone'" },
		{ act_packet, "'socket'" },
		{ act_keys, "'add_key'" },
		{ act_bpf, "'bpf'" },
		{ act_uring, "'io_uring_setup'" },
		{ act_memory_of_another, "'process_vm_writev'" },
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		{ act_ptrace, "'ptrace'" },
#endif
	};
	char said[300];

	(void)state;
	if (!sysfilter_available())
		skip(); /* no seccomp filters in this kernel */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int st = behind(WALLS_ON, cases[i].act, said, sizeof(said));

		if (!WIFSIGNALED(st) || WTERMSIG(st) != SIGSYS || !strstr(said, cases[i].name))
			fail_msg("%s: status %x, '%s'", cases[i].name, (unsigned)st, said);
	}
}

/* A file that must not be written is written; what stopped it, or 0. */
static int try_file(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	int r = fd < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	return r;
}

enum { GOOD = 40 };

static int act_files(void)
{
	char in[300], out[300];

	snprintf(in, sizeof(in), "%s/file", inside.path);
	snprintf(out, sizeof(out), "%s/file", outside.path);
	if (try_file(in, O_WRONLY | O_CREAT) != 0)
		return 1;
	if (try_file(out, O_WRONLY | O_CREAT) != EACCES)
		return 2;
	snprintf(out, sizeof(out), "%s/there", outside.path);
	if (try_file(out, O_WRONLY) != EACCES || try_file(out, O_RDONLY) != 0)
		return 3;
	if (unlink(out) == 0 || rename(in, out) == 0 || link(in, out) == 0)
		return 4;
	if (mkdir("/tmp/pando-walls-dir", 0700) == 0)
		return 5;
	if (try_file("/dev/null", O_WRONLY) != 0)
		return 6;
	if (try_file(inside.path, O_TMPFILE | O_RDWR) != 0)
		return 7;
	snprintf(out, sizeof(out), "%s/sub", inside.path);
	if (mkdir(out, 0700) < 0)
		return 8;
	snprintf(out, sizeof(out), "%s/sub/file", inside.path);
	if (link(in, out) < 0 || rename(out, in) < 0) /* between directories: what ABI 1 can't */
		return 9;
	return GOOD;
}

static void test_files(void **state)
{
	const char *why;
	char path[300];
	int fd, st;

	(void)state;
	landlock_abi(&why);
	if (why) {
		print_message("%s\n", why);
		skip(); /* no Landlock in this kernel, or it is too old */
	}
	snprintf(path, sizeof(path), "%s/there", outside.path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	assert_true(fd >= 0);
	close(fd);
	st = behind(WALLS_ON, act_files, NULL, 0);
	assert_true(WIFEXITED(st));
	assert_int_equal(WEXITSTATUS(st), GOOD);
	assert_int_equal(access(path, F_OK), 0);
}

static void *nothing(void *arg)
{
	return arg;
}

/* What it does all day. */
static int act_work(void)
{
	pthread_t t;
	int p[2];
	char c;

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 1;
	if (pthread_create(&t, NULL, nothing, NULL) != 0 || pthread_join(t, NULL) != 0)
		return 2;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0 || write(p[0], "x", 1) != 1 ||
	    read(p[1], &c, 1) != 1)
		return 3;
	free(malloc(10 << 20));
	return GOOD;
}

static void test_work_goes_on(void **state)
{
	int st;

	(void)state;
	if (!sysfilter_available())
		skip(); /* no seccomp filters in this kernel */
	for (enum walls_mode m = WALLS_OFF; m <= WALLS_ON; m++) {
		st = behind(m, act_work, NULL, 0);
		assert_true(WIFEXITED(st));
		assert_int_equal(WEXITSTATUS(st), GOOD);
	}
	/* these two refuse nothing */
	st = behind(WALLS_LOG, act_exec, NULL, 0);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	st = behind(WALLS_OFF, act_exec, NULL, 0);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

static void test_modes(void **state)
{
	(void)state;
	assert_int_equal(walls_parse("off"), WALLS_OFF);
	assert_int_equal(walls_parse("log"), WALLS_LOG);
	assert_int_equal(walls_parse("on"), WALLS_ON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_system_calls),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_work_goes_on),
		cmocka_unit_test(test_modes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
