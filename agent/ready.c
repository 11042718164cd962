/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready.c - preloads a shell for the next command
 *
 * Theory of operation: after a thaw an emulated machine translates all code again, and most of
 * what a first command runs is the kernel's fork and exec, the loader and the C library. So one
 * child of the agent has all that behind it: it is /bin/sh, with a library (ready_main.c) that
 * waits before the shell's main() for a request, switches to its descriptors, account, directory
 * and environment, and continues as `/bin/sh -c COMMAND`. The agent starts the next one after it
 * was idle for a moment. Unusual requests (another user, a long request, LD_* in the environment, a
 * replaced shell, no shell waiting) take the ordinary way, with the same result.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/ready.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define QUIET_MS 20   /* after a command, before the next shell is started */
#define SETTLE_MS 500 /* for one to be loaded before a freeze */
#define BUSY_MS 1000  /* longer while commands run, so as not to slow them down */

static bool shell_is(const struct ready *y)
{
	struct stat st;

	return stat(EXEC_SHELL, &st) == 0 && st.st_ctim.tv_sec == y->shell_ctime.tv_sec &&
	       st.st_ctim.tv_nsec == y->shell_ctime.tv_nsec;
}

/* The loader and the C library read these before our code runs. */
static bool is_loaders(const char *kv)
{
	return !strncmp(kv, "LD_", 3) || !strncmp(kv, "GLIBC_", 6) || !strncmp(kv, "MALLOC_", 7);
}

bool ready_fits(const struct agent *a, const struct agent_exec_req *r, size_t n)
{
	if (a->ready.pid <= 0 || *r->user || n > READY_REQ_MAX || !shell_is(&a->ready))
		return false;
	for (unsigned i = 0; i < r->n_env; i++)
		if (is_loaders(r->env[i]))
			return false;
	return true;
}

/* fds: the socket as result and the result pipe as commit, which become 3 and 4. */
static void child(struct agent *a, struct job_fds *fds)
{
	static char preload[AGENT_PATH_MAX + 16] = "LD_PRELOAD=", now[] = "LD_BIND_NOW=1";
	static char shell[] = EXEC_SHELL;
	char *argv[] = { shell, NULL }, *env[] = { preload, now, NULL };

	strncat(preload, a->ready.lib, AGENT_PATH_MAX);
	child_setup(a, fds);
	if (fcntl(READY_FD, F_SETFD, 0) < 0 || fcntl(READY_RESULT_FD, F_SETFD, 0) < 0)
		_exit(126);
	execve(shell, argv, env);
	_exit(127);
}

static void close_ends(struct ready *y)
{
	int *all[] = { &y->fd, &y->spent, &y->out, &y->err, &y->result };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (*all[i] >= 0)
			close(TAKE_FD(*all[i]));
}

/* p: pipes as job.c makes them, and the socket in the place of in. */
static pid_t fork_shell(struct agent *a, int p[5][2])
{
	pid_t pid = fork();

	if (pid == 0)
		child(a, &(struct job_fds){ -1, p[1][1], p[2][1], p[0][1], p[3][1] });
	return pid;
}

static void spawn(struct agent *a)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
		                  .data.u64 = (uint64_t)REF_READY << 56 };
	struct ready *y = &a->ready;
	struct stat st;
	int p[5][2];

	close_ends(y);
	if (job_pipes(JOB_OUT | JOB_ERR, /* tty= */ NULL, p) == 0 && stat(EXEC_SHELL, &st) == 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p[0]) == 0)
		y->pid = fork_shell(a, p);
	for (size_t i = 0; i < 5; i++)
		if (p[i][1] >= 0)
			close(p[i][1]);
	y->fd = p[0][0];
	y->out = p[1][0];
	y->err = p[2][0];
	y->result = p[3][0];
	y->waits = false;
	if (y->pid <= 0) {
		y->pid = 0;
		close_ends(y);
		return;
	}
	y->shell_ctime = st.st_ctim;
	if (epoll_ctl(a->ep, EPOLL_CTL_ADD, y->fd, &ev) < 0)
		log_warn("cannot monitor the preloaded shell: %m");
}

/* It ends because its socket is closed; it has not run anything of a user. */
static void discard(struct ready *y)
{
	close_ends(y);
	if (y->pid <= 0)
		return;
	kill(y->pid, SIGKILL);
	while (waitpid(y->pid, NULL, 0) < 0 && errno == EINTR)
		;
	y->pid = 0;
	y->waits = false;
}

static int send_request(int fd, int in, const void *req, size_t n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(in))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)req, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (in >= 0) {
		struct cmsghdr *c;

		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(in));
		memcpy(CMSG_DATA(c), &in, sizeof(in));
	}
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n ? 0 : -EAGAIN;
}

int ready_give(struct agent *a, int in, const void *req, size_t n, pid_t *ret, int ret_ends[3])
{
	struct ready *y = &a->ready;

	if (!y->waits)
		return -EAGAIN; /* still loading */
	if (send_request(y->fd, in, req, n) < 0) {
		discard(y);
		return -ECHILD;
	}
	y->spent = TAKE_FD(y->fd);
	ret_ends[0] = TAKE_FD(y->out);
	ret_ends[1] = TAKE_FD(y->err);
	ret_ends[2] = TAKE_FD(y->result);
	*ret = y->pid;
	y->pid = 0;
	y->waits = false;
	ready_plan(a, QUIET_MS);
	return 0;
}

void ready_on_event(struct agent *a)
{
	struct ready *y = &a->ready;
	char word;

	if (y->pid <= 0)
		return;
	y->waits = recv(y->fd, &word, 1, MSG_DONTWAIT) == 1;
	if (!y->waits)
		discard(y);
}

void ready_settle(struct agent *a, uint32_t id)
{
	struct stream *s =
	        a->ready.lib && !a->ready.waits ? stream_new(a, id, AGENT_OP_SETTLE) : NULL;

	if (!s) {
		stream_answer(a, id, 0, AGENT_TAG_NONE, "");
		return;
	}
	s->kill_at = clock_ms() + SETTLE_MS;
	a->ready.spawn_at = 0;
	if (a->ready.pid <= 0)
		spawn(a);
}

/* Answers a settle if a shell is ready, or none will be soon. */
static void settle_tick(struct agent *a, uint64_t now)
{
	for (unsigned i = a->n_streams; i-- > 0;) {
		struct stream *s = a->slot[i];

		if (s->op == AGENT_OP_SETTLE && s->id &&
		    (a->ready.waits || a->ready.pid <= 0 || now >= s->kill_at))
			stream_result(a, s, 0, AGENT_TAG_NONE, "", NULL, 0);
	}
}

void ready_plan(struct agent *a, unsigned ms)
{
	if (a->ready.lib && a->ready.pid <= 0)
		a->ready.spawn_at = clock_ms() + ms;
}

static bool busy(const struct agent *a)
{
	for (unsigned i = 0; i < a->n_streams; i++)
		if (a->slot[i]->id && a->slot[i]->pid > 0)
			return true;
	return false;
}

uint64_t ready_next_timer(const struct agent *a)
{
	uint64_t at = a->ready.spawn_at;

	return !at ? UINT64_MAX : busy(a) ? at + BUSY_MS : at;
}

void ready_tick(struct agent *a, uint64_t now)
{
	settle_tick(a, now);
	if (now < ready_next_timer(a))
		return;
	a->ready.spawn_at = 0;
	if (a->ready.pid <= 0)
		spawn(a);
}

void ready_close(struct agent *a)
{
	discard(&a->ready);
}
