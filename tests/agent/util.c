/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/agent/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

#define STOP_MS 10000 /* for the agent to end when its channel does */

/* In the child: other accounts, in a mount namespace of its own. */
static void see_accounts(const struct rig *r)
{
	static const char *const names[] = { "passwd", "group" };

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		_exit(77);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char from[128], to[32];

		snprintf(from, sizeof(from), "%s/%s", r->dir, names[i]);
		snprintf(to, sizeof(to), "/etc/%s", names[i]);
		if (mount(from, to, NULL, MS_BIND, NULL) < 0)
			_exit(77);
	}
}

void rig_spawn(struct rig *r)
{
	const char *exe = getenv("PANDO_AGENT"), *ready = getenv("PANDO_READY");
	int pair[2];
	pid_t parent = getpid();

	if (!exe)
		fail_msg("PANDO_AGENT names no agent");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	r->agent = fork();
	assert_true(r->agent >= 0);
	if (r->agent == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || dup2(pair[1], 3) < 0)
			_exit(1);
		close_range(4, ~0u, 0);
		if (r->accounts)
			see_accounts(r);
		execl(exe, "pando-agent", "--fd", "3", "--test-root", r->dir, "--pty-retain",
		      r->pty_retain ? r->pty_retain : "60000", ready ? "--ready" : NULL, ready,
		      NULL);
		_exit(127);
	}
	close(pair[1]);
	r->fd = pair[0];
}

/* The agent's wait status; 0 when there was none. */
static int stop(struct rig *r)
{
	int st = 0, pidfd;

	if (r->g) {
		guest_close(r->g);
		guest_unref(TAKE_PTR(r->g));
	}
	if (r->fd >= 0)
		close(TAKE_FD(r->fd));
	if (!r->agent)
		return 0;
	pidfd = pidfd_open(r->agent, 0);
	if (io_wait(pidfd, POLLIN, deadline_in(STOP_MS)) != 1)
		kill(r->agent, SIGKILL);
	close(pidfd);
	if (waitpid(r->agent, &st, 0) != r->agent)
		st = -1;
	r->agent = 0;
	return st;
}

void rig_stop(struct rig *r)
{
	int st = stop(r);

	/* 0: it ended by itself, and with a sanitizer: without a complaint. */
	if (st != 0)
		fail_msg("the agent ended with wait status 0x%x", (unsigned)st);
}

int rig_new(void **state)
{
	const char *base = getenv("TMPDIR");
	struct rig *r = calloc(1, sizeof(*r));
	char sub[128];

	assert_non_null(r);
	r->fd = -1;
	snprintf(r->dir, sizeof(r->dir), "%s/pando-agent-test-XXXXXX",
	         base && *base ? base : "/tmp");
	assert_non_null(mkdtemp(r->dir));
	chmod(r->dir, 0755);
	const char *dirs[] = { "etc", "run", "var", "var/lib", "var/lib/dbus" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(sub, sizeof(sub), "%s/%s", r->dir, dirs[i]);
		assert_int_equal(mkdir(sub, 0755), 0);
	}
	rig_spawn(r);
	*state = r;
	return 0;
}

void rig_attach(struct rig *r)
{
	struct err err = { 0 };

	assert_int_equal(guest_new("test", TAKE_FD(r->fd), &r->g, &err), 0);
}

int rig_hello(struct rig *r, enum guest_reason reason, uint64_t generation, struct guest_info *info,
              struct err *err)
{
	struct guest_identity id = { .reason = reason,
		                     .generation = generation,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "pando-test" };

	if (!r->g)
		rig_attach(r);
	return guest_hello(r->g, &id, deadline_in(TEST_DEADLINE_MS), info, err);
}

/* In recvmsg(2), where a shell that was loaded ahead waits. */
static bool waits(pid_t pid)
{
	autofree char *text = NULL;
	char path[64], want[16];

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	snprintf(want, sizeof(want), "%d ", SYS_recvmsg);
	return io_read_file(AT_FDCWD, path, 4096, &text, NULL) == 0 &&
	       strncmp(text, want, strlen(want)) == 0;
}

pid_t rig_await_shell(struct rig *r)
{
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)r->agent, (int)r->agent);
	while (clock_ms() < deadline) {
		autofree char *text = NULL;

		if (io_read_file(AT_FDCWD, path, 4096, &text, NULL) == 0) {
			char *end, *at = text;

			for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end)
				if (waits((pid_t)pid))
					return (pid_t)pid;
		}
		poll(NULL, 0, 5); /* the kernel tells nobody when a process begins to wait */
	}
	fail_msg("no shell was loaded ahead");
	return 0;
}

int rig_ready(void **state)
{
	struct err err = { 0 };
	struct rig *r;

	rig_new(state);
	r = *state;
	if (rig_hello(r, GUEST_BOOT, 1, NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
	return 0;
}

int rig_done(void **state)
{
	struct rig *r = *state;
	int st = stop(r);

	io_remove_tree(AT_FDCWD, r->dir, NULL);
	free(r);
	if (st != 0)
		fail_msg("the agent ended with wait status 0x%x", (unsigned)st);
	return 0;
}

char *rig_text(struct rig *r, const char *name)
{
	char path[256], *text = NULL;

	snprintf(path, sizeof(path), "%s/%s", r->dir, name);
	if (io_read_file(AT_FDCWD, path, 1 << 20, &text, NULL) < 0)
		text = strdup("");
	return text;
}

void rig_write(struct rig *r, const char *name, const char *text, mode_t mode)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", r->dir, name);
	assert_int_equal(io_write_file(AT_FDCWD, path, text, strlen(text), mode, NULL), 0);
	assert_int_equal(chmod(path, mode), 0);
}

long rss_kb(pid_t pid)
{
	autofree char *text = NULL;
	char path[64], *p;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	assert_int_equal(io_read_file(AT_FDCWD, path, 1 << 16, &text, NULL), 0);
	p = strstr(text, "VmHWM:");
	assert_non_null(p);
	return strtol(p + 6, NULL, 10);
}

unsigned count_fds(pid_t pid)
{
	autodir DIR *d = NULL;
	unsigned n = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	return n;
}

int run(struct rig *r, const char *command, struct guest_exec_result *ret, struct err *err)
{
	struct guest_exec_req req = { .command = command, .timeout_ms = TEST_DEADLINE_MS };

	return guest_exec(r->g, &req, ret, err);
}
