/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready.c - a shell that is loaded ahead of the next command
 *
 * Theory of operation: after a thaw an emulated machine translates all code anew, and most of
 * what a first command runs is the kernel's fork and exec, the loader and the C library. So one
 * child of the agent has all that behind it: it is /bin/sh, with a library (ready_main.c) that
 * waits before the shell's main() for a request, takes on its descriptors, account, directory and
 * environment, and goes on as `/bin/sh -c COMMAND`. The agent makes the next one when it was quiet
 * for a moment. Whatever is unusual (another user, a long request, LD_* in the environment, a shell
 * that was replaced, none that waits) takes the ordinary way: the outcome is the same.
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

#define QUIET_MS 20   /* after a command, before the next shell is made */
#define SETTLE_MS 500 /* for one to be loaded before a freeze */
#define BUSY_MS 1000  /* more, while commands run: it would take their time */

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

static void child(struct agent *a, int fd)
{
	static char preload[AGENT_PATH_MAX + 16] = "LD_PRELOAD=", now[] = "LD_BIND_NOW=1";
	static char shell[] = EXEC_SHELL;
	char *argv[] = { shell, NULL }, *env[] = { preload, now, NULL };
	struct job_fds fds = { -1, -1, -1, -1, -1 };
	int null;

	strncat(preload, a->ready.lib, AGENT_PATH_MAX);
	fds.result = fd;
	child_setup(a, &fds); /* the descriptor is 3 now, */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fcntl(fds.result, F_SETFD, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		_exit(126);
	close_range(READY_FD + 1, ~0u, 0);
	execve(shell, argv, env); /* and open over there */
	_exit(127);
}

static void spawn(struct agent *a)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
		                  .data.u64 = (uint64_t)REF_READY << 56 };
	struct ready *y = &a->ready;
	struct stat st;
	int sv[2];

	if (stat(EXEC_SHELL, &st) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return;
	y->shell_ctime = st.st_ctim;
	y->pid = fork();
	if (y->pid == 0)
		child(a, sv[1]);
	close(sv[1]);
	if (y->pid < 0) {
		close(sv[0]);
		y->pid = 0;
		return;
	}
	y->fd = sv[0];
	y->waits = false;
	if (epoll_ctl(a->ep, EPOLL_CTL_ADD, y->fd, &ev) < 0)
		log_warn("cannot watch the shell that is loaded ahead: %m");
}

/* Its end of the socket is gone, so it ends; nothing of a user's ran in it. */
static void discard(struct ready *y)
{
	if (y->pid <= 0)
		return;
	close(TAKE_FD(y->fd));
	kill(y->pid, SIGKILL);
	while (waitpid(y->pid, NULL, 0) < 0 && errno == EINTR)
		;
	y->pid = 0;
	y->waits = false;
}

static int send_request(int fd, const struct job_fds *fds, const void *req, size_t n)
{
	int all[READY_FDS_MAX] = { fds->out, fds->err, fds->result, fds->in };
	size_t k = fds->in >= 0 ? READY_FDS_MAX : READY_FDS_MAX - 1;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(all))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)req, n };
	struct msghdr m = { .msg_iov = &iov,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = CMSG_SPACE(k * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(k * sizeof(int));
	memcpy(CMSG_DATA(c), all, k * sizeof(int));
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n ? 0 : -EAGAIN;
}

int ready_give(struct agent *a, const struct job_fds *fds, const void *req, size_t n, pid_t *ret)
{
	struct ready *y = &a->ready;

	if (!y->waits)
		return -EAGAIN; /* still loading */
	if (send_request(y->fd, fds, req, n) < 0) {
		discard(y);
		return -ECHILD;
	}
	close(TAKE_FD(y->fd));
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

/* Whoever settles is told when there is a shell, or will be none soon. */
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
