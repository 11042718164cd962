/* SPDX-License-Identifier: Apache-2.0 */
#include "priv/seedns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/jail.h"

/* ---- the user namespace ---- */

static int write_map(pid_t pid, const char *name, uid_t first, unsigned n, struct err *err)
{
	char path[64], text[64];
	autofd int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	snprintf(text, sizeof(text), "%u %u %u\n", (unsigned)first, (unsigned)first, n);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return err_sys(err, -errno, "write '%s'", path);
	return 0;
}

int seedns_users(uid_t first, unsigned n, int *ret_fd, struct err *err)
{
	int up[2], down[2], fd = -1, r = 0;
	char path[64], word = 0;
	pid_t pid;

	if (pipe2(up, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "pipe");
	if (pipe2(down, O_CLOEXEC) < 0) {
		r = err_sys(err, -errno, "pipe");
		close(up[0]);
		close(up[1]);
		return r;
	}
	pid = fork();
	if (pid == 0) {
		close(down[1]);
		word = unshare(CLONE_NEWUSER) < 0 ? 'n' : 'y';
		if (io_write_all(up[1], &word, 1) < 0)
			_exit(1);
		_exit(read(down[0], &word, 1) == 0 ? 0 : 1); /* until our parent has opened it */
	}
	close(up[1]);
	close(down[0]);
	if (pid < 0)
		r = err_sys(err, -errno, "fork");
	else if (io_read_all(up[0], &word, 1) < 0 || word != 'y')
		r = err_set(err, -EPERM, "this host permits no user namespaces");
	if (r == 0 && (r = write_map(pid, "uid_map", first, n, err)) == 0)
		r = write_map(pid, "gid_map", first, n, err);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			r = err_sys(err, -errno, "open '%s'", path);
	}
	close(up[0]);
	close(down[1]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	*ret_fd = fd;
	return r;
}

/* ---- process 1 of a seed's pid namespace ---- */

/* System calls only. It keeps one descriptor, the pipe, as number 0. */
static _Noreturn void keeper_main(const struct jail *jail, uid_t uid, int pipe_fd)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct sigaction ign = { .sa_handler = SIG_IGN };
	struct pollfd p = { .fd = 0 };
	sigset_t empty;

	sigemptyset(&empty);
	if (setsid() < 0 || setns(jail->mnt, CLONE_NEWNS) < 0 || dup2(pipe_fd, 0) < 0 ||
	    close_range(1, ~0u, 0) < 0)
		_exit(1);
	/* whoever loses its parent in here is reaped by the kernel */
	if (sigaction(SIGCHLD, &ign, NULL) < 0 || sigprocmask(SIG_SETMASK, &empty, NULL) < 0)
		_exit(1);
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
	    syscall(SYS_setresuid, uid, uid, uid) < 0 || syscall(SYS_capset, &h, none) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		_exit(1);
	prctl(PR_SET_NAME, "pando-keeper", 0, 0, 0);
	/* POLLERR: nobody has the other end any more */
	while (poll(&p, 1, -1) < 1 || !(p.revents & (POLLERR | POLLHUP | POLLNVAL)))
		;
	_exit(0);
}

int seedns_open(const struct jail *jail, uid_t uid, struct seedns *ret, struct err *err)
{
	struct seedns s = SEEDNS_NONE;
	struct clone_args a = {
		.flags = CLONE_NEWPID | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&s.keeper.pidfd,
		.exit_signal = SIGCHLD,
	};
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "seed: pipe");
	s.keeper.pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (s.keeper.pid == 0) {
		close(ends[0]);
		keeper_main(jail, uid, ends[1]);
	}
	close(ends[1]);
	if (s.keeper.pid < 0) {
		int r = err_sys(err, -errno, "seed: clone");

		close(ends[0]);
		return r;
	}
	s.hold_fd = ends[0];
	*ret = s;
	return 0;
}

void seedns_close(struct seedns *s)
{
	proc_close(&s->keeper);
	if (s->hold_fd >= 0)
		close(s->hold_fd);
	*s = SEEDNS_NONE;
}

int seedns_enter(const struct seedns *s, struct err *err)
{
	if (setns(s->keeper.pidfd, CLONE_NEWPID) < 0)
		return err_sys(err, -errno, "seed: enter its pid namespace");
	return 0;
}

void seedns_leave(void)
{
	int fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWPID) < 0) {
		log_error("cannot return to the pid namespace: %s; giving up", err_name(errno));
		abort(); /* every process from here on would be in the seed's */
	}
	close(fd);
}
