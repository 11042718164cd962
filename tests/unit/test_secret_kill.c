/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_secret_kill.c - the first sealing of a database and a change of keys survive kill -9 before
 * any system call that changes a file
 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/secret_fx.h"

#define STEPS_MAX 2000
#define KILLS 40 /* spread over the steps; with PANDO_LONG=1 before every one */

static bool changes_files(const struct __ptrace_syscall_info *i)
{
	switch (i->entry.nr) {
	case SYS_write:
		return i->entry.args[0] > 2;
	case SYS_openat:
		return i->entry.args[2] & O_CREAT;
	case SYS_pwrite64:
	case SYS_ftruncate:
	case SYS_fallocate:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_rename:
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_unlink:
	case SYS_unlinkat:
		return true;
	default:
		return false;
	}
}

static _Noreturn void child(const char *dir, bool rotate)
{
	struct server v;
	struct err e = { 0 };
	unsigned id;

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	if (server_start(dir, &v, &e) < 0)
		_exit(2);
	if (rotate && secrets_rotate(v.keys, &id, &e) < 0)
		_exit(3);
	_exit(0);
}

/* Ends it before its nth call that changes a file; false: it had fewer, and is done. */
static bool kill_before(const char *dir, bool rotate, unsigned nth, unsigned *ret_seen)
{
	pid_t pid = fork();
	unsigned seen = 0;
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		child(dir, rotate);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	for (;;) {
		struct __ptrace_syscall_info info;

		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			if (ret_seen)
				*ret_seen = seen;
			return false;
		}
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0);
		if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_files(&info) || ++seen < nth)
			continue;
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		return true;
	}
}

static unsigned count_steps(const char *dir, bool rotate)
{
	unsigned n = 0;

	assert_false(kill_before(dir, rotate, UINT_MAX, &n));
	return n;
}

static void killed_at_every_step(struct fx *f, const char *from, bool rotate, unsigned *steps)
{
	unsigned n, stride = 1;
	char dir[300];

	snprintf(dir, sizeof(dir), "%s/killed", f->tmp.path);
	copy_tree(from, dir);
	if (!getenv("PANDO_LONG"))
		stride = count_steps(dir, rotate) / KILLS + 1;
	for (n = 1; n < STEPS_MAX; n += stride) {
		struct server v;
		bool killed;

		OK(io_remove_tree(AT_FDCWD, dir, &err));
		copy_tree(from, dir);
		killed = kill_before(dir, rotate, n, NULL);
		if (server_start(dir, &v, &err) < 0)
			fail_msg("killed before step %u: %s", n, err.msg);
		check_all(v.store);
		assert_int_equal(keys_in(dir), 1);
		server_end(&v);
		nothing_plain(dir);
		if (!killed)
			break;
	}
	assert_true(n < STEPS_MAX);
	*steps = n - 1;
	print_message("%u changes of files, killed before every %u.\n", *steps, stride);
}

static void sealing_survives_kill_at_every_step(void **state)
{
	struct fx *f = *state;
	unsigned steps = 0;

	make_old(f->dir);
	killed_at_every_step(f, f->dir, /* rotate= */ false, &steps);
	assert_true(steps > 20);
}

static void rotating_survives_kill_at_every_step(void **state)
{
	struct fx *f = *state;
	struct server v;
	unsigned steps = 0;

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	server_end(&v);
	killed_at_every_step(f, f->dir, /* rotate= */ true, &steps);
	assert_true(steps > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
		T(sealing_survives_kill_at_every_step),
		T(rotating_survives_kill_at_every_step),
	};

	in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
