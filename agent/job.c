/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c - a stream's process: start, end, cancel, lose the listener
 *
 * Theory of operation: job_fork() creates the pipes and the child. A helper (fs.*)
 * does its work there and writes its RESULT to a separate pipe; an exec
 * writes there only if it could not be started. The end is noticed by
 * pidfd. A helper is done when it has ended and its pipe is empty. An exec is done
 * when its shell has ended and each pipe has reached its end, or has only bytes that came
 * after that and was quiet for GRACE_IDLE_MS: a background child that holds the
 * pipe is neither waited for nor killed, and its output is drained until it ends.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"

#define PIPE_BYTES (256 << 10) /* requested; less is fine */
#define CHILD_FD_BASE 16 /* descriptors are moved above it before they get their final numbers */

void child_reset(const struct agent *a)
{
	struct rlimit rl = { .rlim_cur = a->nofile_soft, .rlim_max = a->nofile_hard };
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	setrlimit(RLIMIT_NOFILE, &rl);
	if (a->reset_oom) {
		autofd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

		if (fd >= 0 && write(fd, "0", 1) != 1)
			log_warn("cannot reset oom_score_adj, ignoring");
	}
}

/* In the child: nothing of the agent is left except the pipes. */
void child_setup(struct agent *a, struct job_fds *fds)
{
	int *all[] = { &fds->in, &fds->out, &fds->err, &fds->result, &fds->commit };

	setsid();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (*all[i] >= 0 && (*all[i] = fcntl(*all[i], F_DUPFD_CLOEXEC, CHILD_FD_BASE)) < 0)
			_exit(126);
	}
	if (fds->result >= 0 && (fds->result = dup3(fds->result, 3, O_CLOEXEC)) < 0)
		_exit(126);
	if (fds->commit >= 0 && (fds->commit = dup3(fds->commit, 4, O_CLOEXEC)) < 0)
		_exit(126);
	if (fds->in < 0)
		fds->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (dup2(fds->in, 0) < 0 || (fds->out >= 0 && dup2(fds->out, 1) < 0) ||
	    (fds->err >= 0 && dup2(fds->err, 2) < 0))
		_exit(126);
	close_range(fds->commit >= 0 ? 5 : 4, ~0u, 0);
	fds->in = 0;
	fds->out = fds->out >= 0 ? 1 : -1;
	fds->err = fds->err >= 0 ? 2 : -1;
	child_reset(a);
}

static int poll_out(struct agent *a, struct stream *s, int chan, int fd_consume)
{
	s->out[chan].fd = fd_consume;
	s->out[chan].readable = true;
	if (fcntl(fd_consume, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return stream_poll(a, s, fd_consume, chan == AGENT_OUT ? REF_OUT : REF_ERR, EPOLLIN);
}

static int adopt(struct agent *a, struct stream *s, unsigned pipes, int p[5][2])
{
	int r = 0;

	s->pidfd = pidfd_open(s->pid, 0);
	if (s->pidfd < 0)
		return -errno;
	s->result_fd = TAKE_FD(p[3][0]);
	if (s->proc)
		r = stream_poll(a, s, s->result_fd, REF_RESULT, EPOLLIN);
	if (r == 0 && (pipes & JOB_IN)) {
		s->in.fd = TAKE_FD(p[0][1]);
		s->in.writable = true;
		if (fcntl(s->in.fd, F_SETFL, O_NONBLOCK) < 0)
			return -errno;
		r = stream_poll(a, s, s->in.fd, REF_IN, EPOLLOUT);
	}
	if (r == 0 && (pipes & JOB_OUT))
		r = poll_out(a, s, AGENT_OUT, TAKE_FD(p[1][0]));
	if (r == 0 && (pipes & JOB_ERR))
		r = poll_out(a, s, AGENT_ERR, TAKE_FD(p[2][0]));
	if (pipes & JOB_COMMIT)
		s->commit_fd = TAKE_FD(p[4][1]);
	return r < 0 ? r : stream_poll(a, s, s->pidfd, REF_PROC, EPOLLIN);
}

/* One pipe; or a terminal instead of the first three, with the child's end where it expects it. */
static int make_pipe(int i, const struct job_tty *tty, int p[2])
{
	if (!tty || i >= 3) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return -errno;
		if (i < 3)
			fcntl(p[1], F_SETPIPE_SZ, PIPE_BYTES);
		return 0;
	}
	for (int k = 0; k < 2; k++) {
		bool childs = (i == 0) == (k == 0);

		p[k] = fcntl(childs ? tty->slave : tty->master, F_DUPFD_CLOEXEC, 3);
		if (p[k] < 0)
			return -errno;
	}
	return 0;
}

int job_pipes(unsigned pipes, const struct job_tty *tty, int p[5][2])
{
	const bool want[5] = { pipes & JOB_IN, pipes & JOB_OUT, pipes & JOB_ERR || tty, true,
		               pipes & JOB_COMMIT };

	for (int i = 0; i < 5; i++) {
		int r;

		p[i][0] = p[i][1] = -1;
		if (want[i] && (r = make_pipe(i, tty, p[i])) < 0)
			return r;
	}
	return 0;
}

/* Closes unused descriptors; a process that cannot be supervised is killed. */
static int settle(struct stream *s, int p[5][2], int r)
{
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < 2; k++)
			if (p[i][k] >= 0)
				close(p[i][k]);
	if (r == 0)
		return 0;
	stream_close_in(s);
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++)
		stream_close_out(s, i);
	if (s->result_fd >= 0)
		close(TAKE_FD(s->result_fd));
	if (s->pidfd >= 0)
		close(TAKE_FD(s->pidfd));
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
		s->pid = 0;
	}
	return r;
}

int job_fork(struct agent *a, struct stream *s, unsigned pipes, struct job_fds *ret_fds)
{
	return job_fork_on(a, s, pipes, NULL, ret_fds);
}

int job_fork_on(struct agent *a, struct stream *s, unsigned pipes, const struct job_tty *tty,
                struct job_fds *ret_fds)
{
	int p[5][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	int r = job_pipes(pipes, tty, p);

	if (r == 0 && (s->pid = fork()) < 0) {
		r = -errno;
		s->pid = 0;
	}
	if (r == 0 && s->pid == 0) {
		*ret_fds = (struct job_fds){ p[0][0], p[1][1], p[2][1], p[3][1], p[4][0] };
		child_setup(a, ret_fds);
		return 1;
	}
	if (r == 0)
		r = adopt(a, s, pipes, p);
	return settle(s, p, r);
}

int job_hand_over(struct agent *a, struct stream *s, unsigned pipes, const void *req, size_t n)
{
	int p[5][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	int ends[3] = { -1, -1, -1 };
	int r = pipes & JOB_IN ? make_pipe(0, /* tty= */ NULL, p[0]) : 0;

	if (r == 0)
		r = ready_give(a, p[0][0], req, n, &s->pid, ends);
	for (int i = 0; i < 3; i++)
		p[1 + i][0] = ends[i];
	if (r == 0)
		r = adopt(a, s, pipes, p);
	return settle(s, p, r);
}

void job_on_exit(struct agent *a, struct stream *s)
{
	uint64_t now = clock_ms();

	if (s->pid <= 0 || waitpid(s->pid, &s->wstatus, WNOHANG) != s->pid)
		return;
	s->pid = 0;
	s->exited = true;
	close(TAKE_FD(s->pidfd));
	s->timeout_at = s->kill_at = 0;
	s->idle_at = now + GRACE_IDLE_MS;
	s->grace_end = now + GRACE_TOTAL_MS;
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++) {
		int n = 0;

		if (s->out[i].fd >= 0 && ioctl(s->out[i].fd, FIONREAD, &n) == 0)
			s->out[i].owed = (size_t)n;
		s->out[i].readable = s->out[i].fd >= 0;
	}
	if (s->proc)
		proc_on_exit(a, s);
}

/* No listener: the user's processes continue, our own work for the host is ended. */
void job_orphan(struct agent *a, struct stream *s)
{
	s->id = 0;
	stream_close_in(s);
	if (s->pty)
		pty_detach(a, s);
	if (s->commit_fd >= 0) /* without the byte: the helper removes its temporary file */
		close(TAKE_FD(s->commit_fd));
	switch (s->op) {
	case AGENT_OP_FS_READ:
	case AGENT_OP_FS_LIST:
	case AGENT_OP_FS_STAT:
	case AGENT_OP_FS_WALK:
	case AGENT_OP_FS_HASH:
	case AGENT_OP_TERM_LIST:
	case AGENT_OP_TERM_READ:
		if (s->pid > 0)
			kill(s->pid, SIGKILL);
		break;
	case AGENT_OP_FS_GET:
	case AGENT_OP_FS_TAR: /* these have children of their own */
	case AGENT_OP_FS_UNTAR:
	case AGENT_OP_FS_WATCH:
		if (s->pid > 0)
			session_kill(s->pid);
		break;
	case AGENT_OP_FS_WRITE:
		if (s->pid > 0)
			s->kill_at = clock_ms() + HELPER_ABORT_MS;
		break;
	case AGENT_OP_CONNECT:
	case AGENT_OP_DIAL:
	case AGENT_OP_ACCEPT:
	case AGENT_OP_SELF_TAKE:
		stream_close_out(s, AGENT_OUT);
		break;
	case AGENT_OP_LISTEN:
		listen_end(a, s);
		break;
	case AGENT_OP_LOGIN:
		/* As when the connection to a remote shell is lost: a terminal hangs up, and a
		 * writer to a pipe gets SIGPIPE. */
		for (int i = AGENT_OUT; i <= AGENT_ERR && (s->tty || !s->exited); i++)
			stream_close_out(s, i);
		break;
	case AGENT_OP_CODE_RUN:
		code_orphan(a, s, /* cancelled= */ false);
		break;
	default:
		break;
	}
}

void job_cancel(struct agent *a, struct stream *s)
{
	stream_result(a, s, ECANCELED, AGENT_TAG_NONE, "cancelled", NULL, 0);
	if (s->op == AGENT_OP_CODE_RUN)
		code_orphan(a, s, /* cancelled= */ true);
	if (s->op == AGENT_OP_LOGIN)
		; /* it is hung up, like any remote shell; background processes continue */
	else if (is_command(s) && s->pid > 0)
		session_kill(s->pid);
	else if (s->pid > 0 && s->op != AGENT_OP_FS_WRITE)
		kill(s->pid, SIGKILL);
	job_orphan(a, s);
}

/* What the child itself reported: a whole RESULT payload. */
static bool forward_result(struct agent *a, struct stream *s)
{
	uint8_t p[AGENT_RESULT_MAX];
	struct agent_result m;
	ssize_t n;

	fcntl(s->result_fd, F_SETFL, O_NONBLOCK);
	n = read(s->result_fd, p, sizeof(p));
	if (n <= 0 || agent_result_get(p, (size_t)n, &m) < 0)
		return false;
	port_send(a, AGENT_F_RESULT, 0, s->id, p, (size_t)n);
	s->id = 0;
	return true;
}

static void finish(struct agent *a, struct stream *s)
{
	int sig = WIFSIGNALED(s->wstatus) ? WTERMSIG(s->wstatus) : 0;
	struct agent_exec_result m = { .timed_out = s->timed_out,
		                       .signal = (uint32_t)sig,
		                       .exit_code = sig ? 128u + (uint32_t)sig
		                                        : (uint32_t)WEXITSTATUS(s->wstatus) };
	autobuf struct buf b = { 0 };
	char msg[96];

	if (!s->id || forward_result(a, s))
		return;
	if (!is_command(s)) {
		snprintf(msg, sizeof(msg), "the agent's helper ended with wait status 0x%x",
		         (unsigned)s->wstatus);
		stream_result(a, s, EIO, AGENT_TAG_NONE, msg, NULL, 0);
		return;
	}
	agent_exec_result_put(&b, &m);
	if (b.failed)
		stream_result(a, s, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory", NULL, 0);
	else
		stream_result(a, s, 0, AGENT_TAG_NONE, "", b.p, b.len);
}

static bool out_settled(const struct stream *s, const struct out_chan *o, uint64_t now)
{
	if (o->fd < 0)
		return true;
	if (!is_command(s) || o->owed)
		return false;
	return now >= s->idle_at || now >= s->grace_end;
}

void job_tick(struct agent *a, struct stream *s, uint64_t now)
{
	bool settled = true, held = s->pid > 0 || s->in.fd >= 0;

	if (s->timeout_at && now >= s->timeout_at && s->pid > 0) {
		s->timeout_at = 0;
		s->timed_out = true;
		session_kill(s->pid);
	}
	if (s->kill_at && now >= s->kill_at && s->pid > 0) {
		s->kill_at = 0;
		kill(s->pid, SIGKILL);
	}
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++) {
		settled &= out_settled(s, &s->out[i], now);
		held |= s->out[i].fd >= 0;
	}
	if (s->exited && settled && s->proc)
		s->proc->settled = true;
	if (s->exited && settled && s->id) {
		finish(a, s);
		job_orphan(a, s);
		held = s->out[AGENT_OUT].fd >= 0 || s->out[AGENT_ERR].fd >= 0;
	}
	if (is_socket(s) && s->id && !held && !s->connecting) {
		stream_result(a, s, 0, AGENT_TAG_NONE, "", NULL, 0); /* both directions ended */
		job_orphan(a, s);
	}
	if (s->op == AGENT_OP_PROC_STDIN)
		proc_stdin_tick(a, s);
	if (!s->id && !held)
		stream_free(a, s);
}

uint64_t job_next_timer(const struct stream *s)
{
	uint64_t t = UINT64_MAX;

	if (s->timeout_at)
		t = MIN(t, s->timeout_at);
	if (s->kill_at)
		t = MIN(t, s->kill_at);
	if (s->exited && (s->id || (s->proc && !s->proc->settled)))
		t = MIN(t, MIN(s->idle_at, s->grace_end));
	return t;
}
