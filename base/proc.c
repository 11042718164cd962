/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/starter.h"

int proc_open(pid_t pid, struct proc *ret, struct err *err)
{
	int fd = pidfd_open(pid, 0);

	if (fd < 0)
		return err_sys(err, -errno, "open process %d", (int)pid);
	*ret = (struct proc){ .pid = pid, .pidfd = fd };
	return 0;
}

void proc_close(struct proc *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	*p = PROC_NONE;
}

int proc_kill(const struct proc *p, int sig)
{
	return pidfd_send_signal(p->pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

int proc_wait_end(const struct proc *p, uint64_t deadline_ms)
{
	return io_wait(p->pidfd, POLLIN, deadline_ms);
}

bool proc_alive(const struct proc *p)
{
	return p->pidfd >= 0 && io_wait(p->pidfd, POLLIN, 0) == 0;
}

int proc_start_time(pid_t pid, uint64_t *ret_ticks)
{
	char path[64], *p;
	autofree char *text = NULL;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = io_read_file(AT_FDCWD, path, 4096, &text, NULL);
	if (r < 0)
		return r;
	p = strrchr(text, ')'); /* the command may contain spaces and parentheses */
	if (!p)
		return -EBADMSG;
	p += 2;
	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (!p)
			return -EBADMSG;
		p++;
	}
	*ret_ticks = strtoull(p, NULL, 10);
	return 0;
}

static void child_exec(const char *const *argv, int in, int out, int errfd)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(errfd, 2) < 0)
		_exit(126);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

/* Reads both pipes, feeds stdin, until both are closed or the deadline passes. */
static int pump(int in_consume, const char *text, int out, int errfd, struct buf *ob,
                struct buf *eb, size_t max, uint64_t deadline)
{
	autofd int in = in_consume;
	size_t left = text ? strlen(text) : 0;
	bool o_open = true, e_open = true;

	if (!left && in >= 0)
		close(TAKE_FD(in));
	while (o_open || e_open) {
		struct pollfd p[3] = { { .fd = o_open ? out : -1, .events = POLLIN },
			               { .fd = e_open ? errfd : -1, .events = POLLIN },
			               { .fd = in, .events = POLLOUT } };
		int n = poll(p, 3, deadline_left(deadline));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ETIMEDOUT;
		for (int i = 0; i < 2; i++) {
			struct buf *b = i ? eb : ob;
			char tmp[16384];
			ssize_t k;

			if (!p[i].revents)
				continue;
			k = read(p[i].fd, tmp, sizeof(tmp));
			if (k <= 0)
				*(i ? &e_open : &o_open) = false;
			else if (b->len < max)
				buf_put(b, tmp, MIN((size_t)k, max - b->len));
		}
		if (p[2].revents) {
			ssize_t k = write(in, text, left);

			if (k > 0) {
				text += k;
				left -= (size_t)k;
			}
			if (k < 0 || !left)
				close(TAKE_FD(in));
		}
	}
	return 0;
}

/* By the starter, if there is one for this. */
static int start(const struct proc_run_opts *o, int in, int out, int errfd, pid_t *ret,
                 struct err *err)
{
	struct starter_job j = { .fds = { in, out, errfd }, .n_fds = 3 };
	struct proc p = PROC_NONE;
	int kind = starter_kind(PROC_KIND), r;

	if (kind < 0) {
		*ret = fork();
		if (*ret == 0)
			child_exec(o->argv, in, out, errfd);
		return *ret < 0 ? err_sys(err, -errno, "fork for '%s'", o->argv[0]) : 0;
	}
	j.kind = (uint32_t)kind;
	for (size_t i = 0; o->argv[i]; i++) {
		if (i == STARTER_ARGS)
			return err_set(err, -E2BIG, "'%s' has too many arguments", o->argv[0]);
		j.argv[i] = o->argv[i];
	}
	r = starter_run(&j, &p, NULL, err);
	*ret = p.pid;
	proc_close(&p);
	return r == -ENOENT ? err_set(err, r, "program '%s' is not installed", o->argv[0]) : r;
}

int proc_run(const struct proc_run_opts *o, char **ret_out, char **ret_errout, struct err *err)
{
	uint64_t deadline = deadline_in(o->deadline_ms ? o->deadline_ms : 60000);
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, ep[2] = { -1, -1 };
	autobuf struct buf ob = { 0 }, eb = { 0 };
	size_t max = o->max_output ? o->max_output : 1 << 20;
	pid_t pid;
	int r, st = 0;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(ep, O_CLOEXEC) < 0) {
		r = err_sys(err, -errno, "pipe for '%s'", o->argv[0]);
		pid = -1;
	} else {
		r = start(o, in[0], out[1], ep[1], &pid, err);
	}
	int ours[] = { in[0], out[1], ep[1] };
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (ours[i] >= 0)
			close(ours[i]);
	if (r == 0) {
		r = pump(TAKE_FD(in[1]), o->stdin_text, out[0], ep[0], &ob, &eb, max, deadline);
		if (r < 0) {
			kill(pid,
			     SIGKILL); /* our child, not reaped yet: the pid is still its own */
			err_sys(err, r, "run '%s'", o->argv[0]);
		}
		while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
			;
	}
	int rest[] = { in[1], out[0], ep[0] };
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++)
		if (rest[i] >= 0)
			close(rest[i]);
	if (r < 0)
		return r;
	if (WIFEXITED(st) && WEXITSTATUS(st) == 127 && !eb.len)
		return err_set(err, -ENOENT, "program '%s' is not installed", o->argv[0]);
	if (ret_out)
		*ret_out = buf_take_str(&ob);
	if (ret_errout)
		*ret_errout = buf_take_str(&eb);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}
