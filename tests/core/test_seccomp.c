/* SPDX-License-Identifier: Apache-2.0 */
/* test_seccomp.c - filters do what their tables say; each one is tried in a child of its own */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/seccomp.h"

/* Enough for a child that reports with its exit status, sanitizers included. */
#define PLAIN                                                                                  \
	SYSFILTER_ALLOW("read"), SYSFILTER_ALLOW("write"), SYSFILTER_ALLOW("close"),           \
	        SYSFILTER_ALLOW("exit_group"), SYSFILTER_ALLOW("rt_sigreturn"),                \
	        SYSFILTER_ALLOW("rt_sigprocmask"), SYSFILTER_ALLOW("getpid"),                  \
	        SYSFILTER_ALLOW("gettid"), SYSFILTER_ALLOW("tgkill"), SYSFILTER_ALLOW("mmap"), \
	        SYSFILTER_ALLOW("munmap"), SYSFILTER_ALLOW("futex"),                           \
	        SYSFILTER_ALLOW("sigaltstack")

enum { FINE = 7 };

static struct sysfilter built(const struct sysfilter_rule *rules, size_t n,
                              enum sysfilter_default otherwise)
{
	struct sysfilter f;
	struct err err = { 0 };

	if (sysfilter_build(rules, n, otherwise, &f, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(f.prog.len > 0);
	return f;
}

/* Waits for a child that installed the filter and then did `act`; its status. */
static int status_of(const struct sysfilter *f, int (*act)(void))
{
	int st = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (sysfilter_install(f, /* threads= */ false) < 0)
			_exit(99);
		_exit(act());
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	return st;
}

static int act_nothing(void)
{
	return FINE;
}

static int act_chdir(void)
{
	return chdir("/") == 0 ? FINE : errno;
}

static int act_sockets(void)
{
	int unix_fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (unix_fd < 0)
		return 1;
	return socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM ? FINE : 2;
}

static int act_upper_bits(void)
{
	/* the kernel looks at the lower half of an int argument only, and so must the rule */
	return syscall(SYS_socket, (uint64_t)1 << 32 | AF_UNIX, SOCK_STREAM, 0) >= 0 ? FINE : errno;
}

static int act_clone3(void)
{
	return syscall(SYS_clone3, NULL, 0) < 0 ? errno : FINE;
}

static int act_newest(void)
{
	return syscall(500) < 0 ? errno : FINE;
}

static void test_lists(void **state)
{
	static const struct sysfilter_rule rules[] = {
		PLAIN, SYSFILTER_IF("socket", 0, 0xffffffff, AF_UNIX),
		SYSFILTER_FAIL("clone3", ENOSYS)
	};
	struct sysfilter f = built(rules, ARRAY_SIZE(rules), SYSFILTER_EPERM);
	static const struct {
		int (*act)(void);
		int want;
	} cases[] = {
		{ act_nothing, FINE },    { act_chdir, EPERM },   { act_sockets, FINE },
		{ act_upper_bits, FINE }, { act_clone3, ENOSYS }, { act_newest, ENOSYS },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int st = status_of(&f, cases[i].act);

		assert_true(WIFEXITED(st));
		assert_int_equal(WEXITSTATUS(st), cases[i].want);
	}
	sysfilter_free(&f);
	assert_null(f.prog.filter);
}

static void test_kill(void **state)
{
	static const struct sysfilter_rule rules[] = { PLAIN };
	struct sysfilter f = built(rules, ARRAY_SIZE(rules), SYSFILTER_KILL);
	int st = status_of(&f, act_chdir);

	(void)state;
	assert_true(WIFSIGNALED(st));
	assert_int_equal(WTERMSIG(st), SIGSYS);
	st = status_of(&f, act_nothing);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == FINE);
	sysfilter_free(&f);
}

static void test_log_refuses_nothing(void **state)
{
	static const struct sysfilter_rule rules[] = { PLAIN };
	struct sysfilter f = built(rules, ARRAY_SIZE(rules), SYSFILTER_LOG);
	int st = status_of(&f, act_chdir);

	(void)state;
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == FINE);
	sysfilter_free(&f);
}

static int report_to;

static int act_reported(void)
{
	return sysfilter_report("tester", report_to) < 0 ? 98 : act_chdir();
}

static void test_report_names_the_call(void **state)
{
	static const struct sysfilter_rule rules[] = { PLAIN, SYSFILTER_ALLOW("rt_sigaction"),
		                                       SYSFILTER_ALLOW("brk") };
	struct sysfilter f = built(rules, ARRAY_SIZE(rules), SYSFILTER_TRAP);
	char text[300] = { 0 }, want[100];
	int p[2], st;

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	report_to = p[1];
	st = status_of(&f, act_reported);
	close(p[1]);
	assert_true(WIFSIGNALED(st));
	assert_int_equal(WTERMSIG(st), SIGSYS);
	assert_true(read(p[0], text, sizeof(text) - 1) > 0);
	snprintf(want, sizeof(want), "tester: system call 'chdir' (%d) is not allowed: ending\n",
	         SYS_chdir);
	assert_string_equal(text, want);
	close(p[0]);
	sysfilter_free(&f);
}

static void test_names(void **state)
{
	static const struct sysfilter_rule typo[] = { SYSFILTER_ALLOW("raed") };
	/* 32-bit x86 has it; where it isn't, the rule says nothing */
	static const struct sysfilter_rule other[] = { PLAIN, SYSFILTER_ALLOW("socketcall") };
	struct sysfilter f;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(sysfilter_build(typo, 1, SYSFILTER_KILL, &f, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "raed"));
	f = built(other, ARRAY_SIZE(other), SYSFILTER_KILL);
	sysfilter_free(&f);
}

static int without_seccomp(void **state)
{
	(void)state;
	if (sysfilter_available())
		return 0;
	print_message("this kernel has no seccomp: nothing to test\n");
	exit(77); /* meson: skipped */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_log_refuses_nothing),
		cmocka_unit_test(test_report_names_the_call),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, without_seccomp, NULL);
}
