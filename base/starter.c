/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starter.c - see starter.h
 *
 * Theory of operation: requests are packets on one socket, so threads need no lock between them.
 * With a request goes one end of a socket pair, the line, on which the answers come: from the
 * starter the pid and pidfd of the child, from the child what failed, or a descriptor. Both then
 * close their end, the child by execve(), and the end of file is what is waited for. The order in
 * which the two talk does not matter.
 *
 * The starter never allocates, and neither does a child before its execve().
 */
#include "base/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/sock.h"

#define EXEC_MS 60000 /* from the request to the execve(), on a host that swaps */
#define FD_SPARE 64   /* descriptors are moved above this first */

enum answer_kind { ANSWER_STARTED, ANSWER_FAILED, ANSWER_DESCRIPTOR };

struct answer {
	uint32_t kind;
	int32_t pid, code;
	char what[100];
};

struct head {
	uint32_t kind, n_texts, n_argv, n_env;
	uint64_t numbers[STARTER_NUMBERS];
};

static struct {
	const struct starter_kind *const *kinds;
	size_t n;
	int sock; /* owned, as the next */
	struct proc proc;
} the = { .sock = -1, .proc = { -1, -1 } };

/* ---- in the starter and its children ---- */

static void answer(int line, enum answer_kind kind, int pid, int code, const char *what,
                   const int *fd)
{
	struct answer a = { .kind = kind, .pid = pid, .code = code };

	for (size_t i = 0; what && what[i] && i + 1 < sizeof(a.what); i++)
		a.what[i] = what[i];
	sock_send_fds(line, &a, sizeof(a), fd, fd ? 1 : 0); /* nobody may be there any more */
}

/* The next text of the packet, or NULL. */
static const char *take_text(const char **p, const char *end)
{
	const char *text = *p;
	const char *nul = memchr(text, 0, (size_t)(end - text));

	if (!nul)
		return NULL;
	*p = nul + 1;
	return text;
}

static const char *decode(const char *p, size_t n, struct starter_job *j)
{
	const char *end = p + n;
	struct head h;

	if (n < sizeof(h))
		return "a short request";
	memcpy(&h, p, sizeof(h));
	p += sizeof(h);
	if (h.kind >= the.n || h.n_texts > STARTER_TEXTS || h.n_argv < 1 ||
	    h.n_argv > STARTER_ARGS || h.n_env > STARTER_ARGS)
		return "a request out of bounds";
	*j = (struct starter_job){ .kind = h.kind };
	memcpy(j->numbers, h.numbers, sizeof(h.numbers));
	for (uint32_t i = 0; i < STARTER_TEXTS; i++)
		if (!(j->texts[i] = i < h.n_texts ? take_text(&p, end) : ""))
			return "a text without an end";
	for (uint32_t i = 0; i < h.n_argv; i++)
		if (!(j->argv[i] = take_text(&p, end)))
			return "an argument without an end";
	for (uint32_t i = 0; i < h.n_env; i++)
		if (!(j->env[i] = take_text(&p, end)))
			return "a variable without an end";
	return p == end ? NULL : "a request that is too long";
}

#ifdef __SANITIZE_THREAD__
/*
 * ThreadSanitizer has to hear of it, as it does of a fork(): otherwise the child may wait for ever
 * for a lock of ThreadSanitizer's own, and what it closes looks like files that threads share.
 */
void __sanitizer_syscall_pre_impl_fork(void);
void __sanitizer_syscall_post_impl_fork(long r);

__attribute__((no_sanitize("thread"))) static pid_t sys_clone(struct clone_args *args)
{
	long r;

	__sanitizer_syscall_pre_impl_fork();
	r = syscall(SYS_clone3, args, sizeof(*args));
	__sanitizer_syscall_post_impl_fork(r);
	return (pid_t)r;
}
#else
static pid_t sys_clone(struct clone_args *args)
{
	return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}
#endif

static void start_child(struct starter_job *j)
{
	const struct starter_kind *kind = the.kinds[j->kind];
	struct clone_args args = { 0 };
	uint64_t flags = 0;
	int pidfd = -1;
	const char *what = kind->check(j, &flags);
	pid_t pid;

	if (what) {
		answer(j->line, ANSWER_FAILED, 0, -EPERM, what, NULL);
		return;
	}
	/* The signal at its end is that of the starter, SIGCHLD: CLONE_PARENT allows no other. */
	args.flags = flags | CLONE_PARENT | CLONE_PIDFD;
	args.pidfd = (uintptr_t)&pidfd;
	pid = sys_clone(&args);
	if (pid == 0) {
		errno = 0;
		what = kind->run(j);
		answer(j->line, ANSWER_FAILED, 0, errno ? -errno : -EIO, what, NULL);
		_exit(127);
	}
	if (pid < 0) {
		answer(j->line, ANSWER_FAILED, 0, -errno, "clone", NULL);
		return;
	}
	answer(j->line, ANSWER_STARTED, pid, 0, NULL, &pidfd);
	close(pidfd);
}

static void serve(int sock)
{
	static char packet[STARTER_MSG_MAX];
	static struct starter_job j;
	int fds[STARTER_FDS + 1]; /* the line, and those for the child */
	size_t n_fds = 0;
	ssize_t n = sock_recv_fds(sock, packet, sizeof(packet), fds, STARTER_FDS + 1, &n_fds);
	const char *what;

	if (n == 0 || n == -ECONNRESET)
		_exit(0); /* who made us is gone */
	if (n < 0 || n_fds < 1)
		return; /* more than is allowed: whoever waits sees the line's end */
	what = decode(packet, (size_t)n, &j);
	j.line = fds[0];
	j.n_fds = (uint32_t)n_fds - 1;
	memcpy(j.fds, fds + 1, (n_fds - 1) * sizeof(int));
	if (what)
		answer(j.line, ANSWER_FAILED, 0, -EINVAL, what, NULL);
	else
		start_child(&j);
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	explicit_bzero(packet, (size_t)n); /* there may be a password among the variables */
}

/* Does not return. */
static void starter_main(int sock, pid_t maker)
{
	struct sigaction ign = { .sa_handler = SIG_IGN };
	sigset_t none;

	prctl(PR_SET_NAME, "pando-starter", 0, 0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != maker)
		_exit(1);
	/* What asks its maker to stop is not for us: programs are started until the end. */
	sigaction(SIGINT, &ign, NULL);
	sigaction(SIGTERM, &ign, NULL);
	sigaction(SIGHUP, &ign, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Nothing of our maker is kept, above all not the way to pando-priv. */
	if ((sock > 3 && syscall(SYS_close_range, 3u, (unsigned)sock - 1, 0u) < 0) ||
	    syscall(SYS_close_range, (unsigned)sock + 1, ~0u, 0u) < 0)
		_exit(1);
	for (size_t i = 0; i < the.n; i++)
		if (the.kinds[i]->begin && the.kinds[i]->begin() < 0)
			_exit(1);
	for (;;)
		serve(sock);
}

int starter_hand_over(const struct starter_job *j, int fd)
{
	struct answer a = { .kind = ANSWER_DESCRIPTOR };
	ssize_t n = sock_send_fds(j->line, &a, sizeof(a), &fd, 1);

	return n < 0 ? (int)n : 0;
}

void starter_reset_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int starter_arrange_fds(struct starter_job *j)
{
	for (uint32_t i = 0; i < j->n_fds; i++)
		if ((j->fds[i] = fcntl(j->fds[i], F_DUPFD_CLOEXEC, FD_SPARE)) < 0)
			return -1;
	if ((j->line = fcntl(j->line, F_DUPFD_CLOEXEC, FD_SPARE)) < 0)
		return -1;
	for (uint32_t i = 0; i < j->n_fds; i++)
		if (dup2(j->fds[i], (int)i) < 0)
			return -1;
	/* Everything of ours is close-on-exec; this is for what a library opened. */
	return (int)syscall(SYS_close_range, j->n_fds, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
}

void starter_oom_score(const char *text)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	(void)n; /* a wish */
	if (fd >= 0)
		close(fd);
}

/* ---- in who made it ---- */

int starter_open(const struct starter_kind *const *kinds, size_t n, struct err *err)
{
	int pair[2];
	pid_t pid, me = getpid();
	int r;

	if (the.sock >= 0)
		return err_set(err, -EALREADY, "there is a starter already");
	if (n > STARTER_KINDS)
		return err_set(err, -EINVAL, "%zu kinds of children", n);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, -errno, "socket pair of the starter");
	the.kinds = kinds;
	the.n = n;
	pid = fork();
	if (pid == 0)
		starter_main(pair[1], me);
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (r == 0)
		r = proc_open(pid, &the.proc, err);
	else
		err_sys(err, r, "fork the starter");
	if (r < 0) {
		close(pair[0]);
		return r;
	}
	the.sock = pair[0];
	return 0;
}

void starter_close(void)
{
	if (the.sock < 0)
		return;
	close(TAKE_FD(the.sock));
	while (waitpid(the.proc.pid, NULL, 0) < 0 && errno == EINTR)
		;
	proc_close(&the.proc);
}

int starter_kind(const char *name)
{
	for (size_t i = 0; the.sock >= 0 && i < the.n; i++)
		if (strcmp(the.kinds[i]->name, name) == 0)
			return (int)i;
	return -ENOENT;
}

int starter_fd(void)
{
	return the.proc.pidfd;
}

static uint32_t count(const char *const *v)
{
	uint32_t n = 0;

	while (v[n])
		n++;
	return n;
}

static void put_text(struct buf *b, const char *text)
{
	buf_put(b, text ? text : "", strlen(text ? text : "") + 1);
}

static int ask(const struct starter_job *j, int line, struct err *err)
{
	struct head h = { .kind = j->kind,
		          .n_texts = STARTER_TEXTS,
		          .n_argv = count(j->argv),
		          .n_env = count(j->env) };
	int fds[STARTER_FDS + 1] = { line };
	autobuf struct buf b = { 0 };
	ssize_t n;

	memcpy(h.numbers, j->numbers, sizeof(h.numbers));
	buf_put(&b, &h, sizeof(h));
	for (uint32_t i = 0; i < STARTER_TEXTS; i++)
		put_text(&b, j->texts[i]);
	for (uint32_t i = 0; i < h.n_argv; i++)
		put_text(&b, j->argv[i]);
	for (uint32_t i = 0; i < h.n_env; i++)
		put_text(&b, j->env[i]);
	memcpy(fds + 1, j->fds, j->n_fds * sizeof(int));
	if (b.len > STARTER_MSG_MAX)
		return err_set(err, -E2BIG, "start '%s': its arguments have more than %u bytes",
		               j->argv[0], STARTER_MSG_MAX);
	n = sock_send_fds(the.sock, b.p, b.len, fds, j->n_fds + 1);
	return n < 0 ? err_sys(err, (int)n, "start '%s': ask the starter", j->argv[0]) : 0;
}

struct started {
	struct proc p;
	int fd, code;
	char what[100];
};

/* 1: there may be more, 0: the end, -errno. */
static int hear(int line, struct started *s)
{
	struct answer a = { 0 };
	size_t n_fds = 0;
	int fd = -1;
	ssize_t n = sock_recv_fds(line, &a, sizeof(a), &fd, 1, &n_fds);

	if (n == -EMSGSIZE && a.kind == ANSWER_STARTED && a.pid > 0) {
		/* The pidfd got lost because we have too many open files; the child is there. */
		s->p.pid = a.pid;
		return 1;
	}
	if (n <= 0)
		return (int)n;
	if (n != (ssize_t)sizeof(a)) {
		if (n_fds)
			close(fd);
		return -EBADMSG;
	}
	switch ((enum answer_kind)a.kind) {
	case ANSWER_STARTED:
		s->p.pid = a.pid;
		s->p.pidfd = n_fds ? fd : -1;
		return 1;
	case ANSWER_FAILED:
		s->code = a.code < 0 ? a.code : -EIO;
		memccpy(s->what, a.what, 0, sizeof(s->what) - 1);
		break;
	case ANSWER_DESCRIPTOR:
		s->fd = n_fds ? fd : -1;
		return 1;
	}
	if (n_fds)
		close(fd);
	return 1;
}

static void give_up(struct started *s)
{
	if (s->p.pid > 0) {
		kill(s->p.pid, SIGKILL); /* our child, not reaped yet: the pid is still its own */
		while (waitpid(s->p.pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	proc_close(&s->p);
	if (s->fd >= 0)
		close(s->fd);
}

int starter_run(const struct starter_job *j, struct proc *ret, int *ret_fd, struct err *err)
{
	uint64_t deadline = deadline_in(EXEC_MS);
	struct started s = { .p = PROC_NONE, .fd = -1 };
	autofd int line = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, -errno, "prepare for '%s'", j->argv[0]);
	line = pair[0];
	theirs = pair[1];
	if ((r = ask(j, theirs, err)) < 0)
		return r;
	close(TAKE_FD(theirs));
	do {
		r = io_wait(line, POLLIN, deadline);
		if (r > 0)
			r = hear(line, &s);
		else if (r == 0)
			r = -ETIMEDOUT;
	} while (r > 0);
	if (r == 0 && s.code < 0)
		r = err_sys(err, s.code, "start '%s': %s", j->argv[0], s.what);
	else if (r == 0 && s.p.pid <= 0)
		r = err_set(err, -EPIPE, "start '%s': the starter has ended", j->argv[0]);
	else if (r == 0 && s.p.pidfd < 0)
		r = err_set(err, -EMFILE, "start '%s': too many open files", j->argv[0]);
	else if (r < 0)
		err_sys(err, r, "start '%s'", j->argv[0]);
	if (r < 0) {
		give_up(&s);
		return r;
	}
	*ret = s.p;
	if (ret_fd)
		*ret_fd = s.fd;
	else if (s.fd >= 0)
		close(s.fd);
	return 0;
}
