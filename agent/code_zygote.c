/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_zygote.c - the warm Python process that kernels are forked from
 *
 * Theory of operation: the zygote (kernels/zygote.py) has imported what nearly every
 * cell needs and waits on a socket. A request is one packet: number of the kernel,
 * user, directory, environment, and the kernel's descriptors. It forks with
 * CLONE_PARENT, so the kernel is our child like any other, and answers with its
 * pid. Until that answer a context is "forking": nothing that needs the pid
 * happens to it. A zygote that ends or does not answer in time is dropped, and kernels that wait
 * for it are started the slow way. It is started with the template only (AGENT_CODE_WARM); a
 * machine that was booted has none.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/code.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define ANSWER_MS 20000     /* for a fork */
#define ANSWER_MAX 64u      /* bytes of an answer */
#define ASK_MAX (64u << 10) /* bytes of a request; longer ones use the slow way */

struct zygote {
	pid_t pid;       /* 0: reaped */
	int pidfd, sock; /* owned */
	uint64_t by;     /* clock_ms(): an answer is due; 0: none */
	bool ready;      /* it has reported so */
};

static void zygote_free(struct agent *a)
{
	struct zygote *z = TAKE_PTR(a->zygote);

	if (!z)
		return;
	if (z->sock >= 0)
		close(z->sock);
	if (z->pidfd >= 0)
		close(z->pidfd);
	free(z);
}

static void exec_zygote(struct agent *a, int sock)
{
	static const struct code_ctx nobody = { .lang = AGENT_LANG_PYTHON };
	struct job_fds fds = { -1, -1, -1, sock, -1 };
	static struct code_env env;
	static struct user u;

	child_setup(a, &fds);
	fcntl(fds.result, F_SETFD, 0); /* descriptor 3 */
	code_user(&nobody, &u);
	if (chdir("/") < 0)
		_exit(126);
	code_env_make(&nobody, &u, &env);
	env.v[env.n++] = (char *)(uintptr_t) "PANDO_KERNEL_ZYGOTE=1";
	code_exec(a, AGENT_LANG_PYTHON, &env);
}

static int poll_fd(struct agent *a, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = (uint64_t)REF_CODE_ZYGOTE << 56 };

	return epoll_ctl(a->ep, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int zygote_start(struct agent *a)
{
	struct zygote *z = calloc(1, sizeof(*z));
	int p[2] = { -1, -1 }, r = 0;

	if (!z)
		return -ENOMEM;
	a->zygote = z;
	z->pidfd = z->sock = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0 || (z->pid = fork()) < 0) {
		r = -errno;
		z->pid = 0;
	}
	if (r == 0 && z->pid == 0)
		exec_zygote(a, p[1]);
	if (p[1] >= 0)
		close(p[1]);
	z->sock = p[0];
	if (r == 0) {
		fcntl(z->sock, F_SETFL, O_NONBLOCK);
		z->pidfd = pidfd_open(z->pid, 0);
		if (z->pidfd < 0 || (r = poll_fd(a, z->sock)) < 0 || (r = poll_fd(a, z->pidfd)) < 0)
			r = r < 0 ? r : -errno;
	}
	if (r < 0) {
		log_warn("cannot start the warm Python process: %s", strerrorname_np(-r));
		if (z->pid > 0) {
			kill(z->pid, SIGKILL);
			while (waitpid(z->pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		zygote_free(a);
	}
	return r;
}

/* kernel, uid, gid, groups, oom score, directory, variables: each followed by a NUL. */
static void question(const struct agent *a, const struct code_ctx *x, const struct user *u,
                     const struct code_env *env, struct buf *b)
{
	buf_printf(b, "%u%c%u%c%u%c", x->kernel, 0, u->uid, 0, u->gid, 0);
	for (size_t i = 0; i < u->n_groups; i++)
		buf_printf(b, "%s%u", i ? "," : "", u->groups[i]);
	buf_printf(b, "%c%s%c%s%c", 0, a->reset_oom ? CODE_OOM_SCORE : "", 0, x->cwd, 0);
	for (size_t i = 0; i < env->n; i++)
		buf_printf(b, "%s%c", env->v[i], 0);
}

bool zygote_ask(struct agent *a, struct code_ctx *x, const int fds[3], bool may_start)
{
	static struct user u;
	static struct code_env env;
	autobuf struct buf b = { 0 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = { 0 };
	struct iovec iov;
	struct msghdr m = { .msg_iov = &iov,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (x->lang != AGENT_LANG_PYTHON || x->cold ||
	    (!a->zygote && (!may_start || zygote_start(a) < 0)) || code_user(x, &u) < 0)
		return false;
	code_env_make(x, &u, &env);
	question(a, x, &u, &env, &b);
	if (b.failed || b.len > ASK_MAX)
		return false;
	iov = (struct iovec){ b.p, b.len };
	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
		               .cmsg_type = SCM_RIGHTS,
		               .cmsg_len = CMSG_LEN(3 * sizeof(int)) };
	memcpy(CMSG_DATA(c), fds, 3 * sizeof(int));
	if (sendmsg(a->zygote->sock, &m, MSG_NOSIGNAL) < 0)
		return false; /* it is busy or gone: use the slow way */
	x->forking = true;
	if (!a->zygote->by)
		a->zygote->by = clock_ms() + (a->zygote->ready ? ANSWER_MS : CODE_START_MS);
	return true;
}

/* Contexts that waited for it use the slow way. */
static void start_again(struct agent *a, struct code_ctx *x)
{
	int r = 0;

	x->forking = false;
	x->cold = true;
	if (x->deleted)
		code_forget_kernel(x);
	else
		r = code_start(a, x, x->warm);
	if (r < 0)
		log_warn("cannot start a kernel: %s", strerrorname_np(-r));
}

static void give_up(struct agent *a, const char *why)
{
	struct zygote *z = a->zygote;

	log_warn("the warm Python process is dropped: %s", why);
	if (z->pid > 0)
		kill(z->pid, SIGKILL);
	close(TAKE_FD(z->sock));
	z->by = 0;
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (x->forking)
			start_again(a, x);
}

static bool is_child(pid_t pid)
{
	siginfo_t si;

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void took(struct agent *a, uint32_t kernel, pid_t pid)
{
	int r;

	for (struct code_ctx *x = a->code; x; x = x->next) {
		if (!x->forking || x->kernel != kernel)
			continue;
		x->forking = false;
		if (pid <= 1 || !is_child(pid)) {
			start_again(a, x); /* it could not fork */
			return;
		}
		r = code_adopt_pid(a, x, pid);
		if (r < 0)
			code_abandon(x); /* its next cell tries again */
		else if (x->killed || x->deleted)
			code_kill(x);
		return;
	}
	if (pid > 1 && is_child(pid)) { /* its context ran out of memory */
		session_kill(pid);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
}

static bool waited_for(const struct agent *a)
{
	for (const struct code_ctx *x = a->code; x; x = x->next)
		if (x->forking)
			return true;
	return false;
}

void zygote_on_event(struct agent *a)
{
	struct zygote *z = a->zygote;
	char text[ANSWER_MAX];
	unsigned kernel;
	ssize_t n;
	int pid;

	if (!z)
		return;
	while (z->sock >= 0 && (n = recv(z->sock, text, sizeof(text) - 1, 0)) != -1) {
		text[n > 0 ? n : 0] = '\0';
		if (n > 0 && !strcmp(text, "ready")) {
			z->ready = true;
		} else if (n > 0 && sscanf(text, "forked %u %d", &kernel, &pid) == 2) {
			took(a, kernel, (pid_t)pid);
		} else {
			give_up(a, n > 0 ? "it sent a malformed reply" : "it closed its socket");
			break;
		}
		z->by = waited_for(a) ? clock_ms() + ANSWER_MS : 0;
	}
	if (z->pid > 0 && waitpid(z->pid, NULL, WNOHANG) == z->pid) {
		z->pid = 0;
		if (z->sock >= 0)
			give_up(a, "it ended");
		zygote_free(a);
	}
}

void zygote_tick(struct agent *a, uint64_t now)
{
	if (a->zygote && a->zygote->by && now >= a->zygote->by)
		give_up(a, "it does not answer");
}

uint64_t zygote_next_timer(const struct agent *a)
{
	return a->zygote && a->zygote->by ? a->zygote->by : UINT64_MAX;
}

void zygote_close(struct agent *a)
{
	if (a->zygote && a->zygote->pid > 0)
		kill(a->zygote->pid, SIGKILL); /* init reaps it */
	zygote_free(a);
}
