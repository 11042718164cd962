/* SPDX-License-Identifier: Apache-2.0 */
/* test_ready.c - the preloaded shell: used when possible, and indistinguishable from
 * an ordinary one */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "tests/agent/util.h"

/* The shell reads its own status and lists its own descriptors: to a child, it may still be in the
 * middle of the fork. */
#define LOOK                                                                                       \
	"env | sort | grep -v ^_=; pwd; umask; ulimit -n; echo $0 $# $-; for f in /proc/$$/fd/*; " \
	"do echo fd ${f##*/}; done; "                                                              \
	"readlink /proc/$$/exe /proc/$$/fd/0; cut -d' ' -f5,6,7 /proc/$$/stat | sed s/$$/self/g; " \
	"while read -r k v; do case $k in Sig[BIC]*|Cap*|NoNew*|Uid:|Gid:|Groups:) "               \
	"echo $k $v;; esac; done </proc/self/status"
/* These move only with CAP_SYS_RESOURCE, which a guest's root has and a container's may not. */
#define LOOK_PROC "tr '\\0' '|' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ | sort; "

static int with_shell(void **state)
{
	setenv("PANDO_READY", getenv("PANDO_READY_LIB"), 1);
	return rig_ready(state);
}

static int without_shell(void **state)
{
	int r = rig_done(state);

	unsetenv("PANDO_READY");
	return r;
}

/* What the command said, and the pid it ran as, which is that of its shell. */
static char *say(struct rig *r, const char *command, pid_t *ret_pid)
{
	autofree char *text = NULL;
	struct guest_exec_result x;
	char *rest, *out;

	if (asprintf(&text, "echo $$; %s", command) < 0)
		fail();
	run_ok(r, text, &x);
	assert_int_equal(x.exit_code, 0);
	assert_string_equal(x.errout, "");
	*ret_pid = (pid_t)strtol(x.out, &rest, 10);
	out = strdup(rest + 1);
	guest_exec_result_done(&x);
	return out;
}

static void test_taken_and_alike(void **state)
{
	struct rig *r = *state;
	bool may = prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE, 0, 0, 0) == 1;
	const char *look = may ? LOOK_PROC LOOK : LOOK;
	autofree char *ahead = NULL, *plain = NULL;
	pid_t shell = rig_await_shell(r), pid;

	ahead = say(r, look, &pid);
	assert_int_equal(pid, shell);
	rig_stop(r); /* once more, with an agent that has none */
	unsetenv("PANDO_READY");
	rig_spawn(r);
	rig_attach(r);
	assert_int_equal(rig_hello(r, GUEST_BOOT, 1, NULL, &(struct err){ 0 }), 0);
	plain = say(r, look, &pid);
	assert_string_equal(ahead, plain);
}

static void test_next_one_follows(void **state)
{
	struct rig *r = *state;
	pid_t first = rig_await_shell(r), pid, second;
	autofree char *a = say(r, "true", &pid);

	assert_int_equal(pid, first);
	second = rig_await_shell(r);
	assert_int_not_equal(second, first);
	autofree char *b = say(r, "true", &pid);
	assert_int_equal(pid, second);
}

static void test_loaders_variables_take_the_other_way(void **state)
{
	const char *env[] = { "LD_BIND_NOW=1", NULL };
	struct guest_exec_req req = { .command = "echo $$ $LD_BIND_NOW",
		                      .env = env,
		                      .timeout_ms = TEST_DEADLINE_MS };
	struct rig *r = *state;
	pid_t shell = rig_await_shell(r);
	struct guest_exec_result x;
	struct err err = { 0 };
	char *rest;

	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_int_not_equal(strtol(x.out, &rest, 10), shell);
	assert_string_equal(rest, " 1\n");
	guest_exec_result_done(&x);
}

static void test_directory_and_error(void **state)
{
	struct guest_exec_req req = { .command = "pwd",
		                      .cwd = "/nonexistent-dir",
		                      .timeout_ms = TEST_DEADLINE_MS };
	struct rig *r = *state;
	struct guest_exec_result x;
	struct err err = { 0 };

	rig_await_shell(r);
	assert_int_equal(guest_exec(r->g, &req, &x, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_CWD_FAILED);
	rig_await_shell(r);
	req.cwd = "/usr/bin";
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_string_equal(x.out, "/usr/bin\n");
	guest_exec_result_done(&x);
}

static void test_killed_while_it_waits(void **state)
{
	struct rig *r = *state;
	pid_t shell = rig_await_shell(r), pid;
	autofd int pidfd = pidfd_open(shell, 0);
	autofree char *text = NULL;

	assert_int_equal(kill(shell, SIGKILL), 0);
	assert_int_equal(io_wait(pidfd, POLLIN, deadline_in(TEST_DEADLINE_MS)), 1);
	text = say(r, "echo here", &pid);
	assert_string_equal(text, "here\n");
	assert_int_not_equal(pid, shell);
}

static void test_stdin_and_signal(void **state)
{
	struct rig *r = *state;
	struct guest_exec_result x;

	rig_await_shell(r);
	run_ok(r, "cat; echo end; kill -9 $$", &x);
	assert_string_equal(x.out, "end\n");
	assert_int_equal(x.signal, SIGKILL);
	guest_exec_result_done(&x);
}

static void test_settled_is_loaded(void **state)
{
	struct rig *r = *state;
	pid_t first = rig_await_shell(r), pid;
	autofree char *a = say(r, "true", &pid), *b = NULL;

	assert_int_equal(pid, first);
	guest_settle(r->g, deadline_in(TEST_DEADLINE_MS)); /* not later, and already complete */
	b = say(r, "grep -c libpando-ready /proc/$$/maps", &pid);
	assert_string_not_equal(b, "0\n");
	assert_int_not_equal(pid, first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, with_shell, without_shell)
		T(test_taken_and_alike),
		T(test_next_one_follows),
		T(test_loaders_variables_take_the_other_way),
		T(test_directory_and_error),
		T(test_killed_while_it_waits),
		T(test_stdin_and_signal),
		T(test_settled_is_loaded),
	};

	if (!getenv("PANDO_READY_LIB")) {
		fputs("PANDO_READY_LIB names no library: meson test sets it\n", stderr);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
