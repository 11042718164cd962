/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c - starts pando-edge with one socket and nothing else
 *
 * What else it needs (listening sockets, lanes, the page of counters) comes with the first message.
 * Its environment is empty, but for the settings of sanitizers in builds for tests. After fork(2)
 * the child makes system calls only: other threads may have held any lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/sock.h"
#include "edgehost/host_internal.h"

#define PROGRAM "pando-edge"
#define FD_SPARE 64 /* descriptors are moved above this first */
#define ENV_MAX 8
#define STACK_BYTES (1u << 20) /* of each thread: they count as memory of the process */

int spawn_find(char *ret, size_t size, struct err *err)
{
	static const char *const at[] = { "", "../libexec/pando/" };
	char exe[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return err_sys(err, -errno, "edge: find this program");
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return err_set(err, -ENOENT, "edge: this program is '%s'", exe);
	slash[1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		snprintf(ret, size, "%s%s" PROGRAM, exe, at[i]);
		if (access(ret, X_OK) == 0)
			return 0;
	}
	return err_set(err, -ENOENT,
	               "edge: the program '" PROGRAM "' is neither in '%s' nor in "
	               "'%s../libexec/pando': install Pando again",
	               exe, exe);
}

/* ---- in the child ---- */

static int limit(int what, rlim_t n)
{
	struct rlimit now, r = { n, n };

	if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < n)
		r.rlim_cur = r.rlim_max = now.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &r);
}

static void __attribute__((noreturn))
child(const struct edgehost *h, int control, int errs, char *const *env)
{
	char *const argv[] = { (char *)PROGRAM, NULL };
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;
	int null;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* It ends with the thread that started it, whatever it is doing. */
	if (null < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    (control = fcntl(control, F_DUPFD_CLOEXEC, FD_SPARE)) < 0 ||
	    (errs = fcntl(errs, F_DUPFD_CLOEXEC, FD_SPARE)) < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0 || dup2(errs, 2) < 0 || dup2(control, EDGEW_FD) < 0 ||
	    limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NOFILE, h->nofile) < 0 || chdir("/") < 0)
		_exit(126);
#ifndef LOCK_CHECK /* sanitizers need more */
	if (limit(RLIMIT_STACK, STACK_BYTES) < 0)
		_exit(126);
#endif
	syscall(SYS_close_range, EDGEW_FD + 1, ~0u, 0u);
	setpgid(0, 0); /* ^C is for pandod; in its session, or it would be scheduled apart */
	execve(h->program, argv, env);
	_exit(127);
}

/* ---- in the parent ---- */

static void sanitizer_env(char *ret[ENV_MAX + 1])
{
	static const char *const names[] = { "ASAN_OPTIONS=", "LSAN_OPTIONS=", "UBSAN_OPTIONS=",
		                             "TSAN_OPTIONS=", "LOCK_ORDER_DIR=" };
	size_t n = 0;

	for (char **e = environ; e && *e && n < ENV_MAX; e++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strncmp(*e, names[i], strlen(names[i])) == 0 && n < ENV_MAX)
				ret[n++] = *e;
	ret[n] = NULL;
}

static void close_all(int *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (v[i] >= 0)
			close(v[i]);
		v[i] = -1;
	}
}

static unsigned lanes_of(const struct edgehost *h)
{
	return h->conf.workers;
}

static struct edgew_start start_of(const struct edgehost *h)
{
	const struct edge_conf *c = &h->conf;
	struct edgew_start s = { .version = EDGEW_VERSION,
		                 .workers = lanes_of(h),
		                 .wait_ms = c->wait_ms,
		                 .hsts_s = c->hsts_s,
		                 .head_ms = c->head_ms,
		                 .keep_ms = c->keep_ms,
		                 .stall_ms = c->stall_ms,
		                 .answer_ms = c->answer_ms,
		                 .idle_ms = c->idle_ms,
		                 .addr_conns = c->addr_conns,
		                 .addr_requests = c->addr_requests,
		                 .fd_reserve = c->fd_reserve,
		                 .mem_mb = h->mem_mb,
		                 .log_level = (uint32_t)h->log,
		                 .tls = c->tls_fd >= 0,
		                 .http = c->http_fd >= 0 };

	memcpy(s.field, h->field, sizeof(s.field));
	return s;
}

/* The last process may have shut it down, which is the same socket here. */
static int listening(int fd)
{
	if (listen(fd, SOMAXCONN) < 0)
		log_warn("edge: listen again: %s, ignoring", err_name(errno));
	return fd;
}

/* START, with the page of counters, the lanes and the listening sockets. */
static int send_start(const struct edgehost *h, int control, const int *lanes, struct err *err)
{
	int fds[EDGEW_LANES_MAX + 3];
	autobuf struct buf b = { 0 };
	struct edgew_msg m = { .kind = EDGEW_START, .start = start_of(h) };
	size_t n = 0;
	ssize_t k;
	int r;

	fds[n++] = h->tallies_fd;
	for (unsigned i = 0; i < lanes_of(h); i++)
		fds[n++] = lanes[i];
	if (h->conf.tls_fd >= 0)
		fds[n++] = listening(h->conf.tls_fd);
	if (h->conf.http_fd >= 0)
		fds[n++] = listening(h->conf.http_fd);
	r = edgew_encode(&m, &b, err);
	if (r < 0)
		return r;
	k = sock_send_fds(control, b.p, b.len, fds, n);
	return k < 0 ? err_sys(err, (int)k, "edge: send the settings") : 0;
}

int spawn_edge(struct edgehost *h, struct proc *ret, int *ret_control, int *ret_err,
               int ret_lanes[EDGEW_LANES_MAX], struct err *err)
{
	int pair[2] = { -1, -1 }, errs[2] = { -1, -1 }, theirs[EDGEW_LANES_MAX];
	char *env[ENV_MAX + 1];
	pid_t pid = -1;
	int r = 0;

	for (unsigned i = 0; i < EDGEW_LANES_MAX; i++)
		theirs[i] = ret_lanes[i] = -1;
	for (unsigned i = 0; i < lanes_of(h) && r == 0; i++) {
		int l[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, l) < 0) {
			r = err_sys(err, -errno, "edge: make a socket");
			break;
		}
		ret_lanes[i] = l[0];
		theirs[i] = l[1];
	}
	if (r == 0 && (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
	               pipe2(errs, O_CLOEXEC) < 0 || fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0 ||
	               fcntl(errs[0], F_SETFL, O_NONBLOCK) < 0))
		r = err_sys(err, -errno, "edge: make a socket");
	if (r == 0)
		r = send_start(h, pair[0], theirs, err);
	close_all(theirs, EDGEW_LANES_MAX);
	if (r == 0) {
		sanitizer_env(env);
		pid = fork();
		if (pid == 0)
			child(h, pair[1], errs[1], env);
		if (pid < 0)
			r = err_sys(err, -errno, "edge: start '%s'", h->program);
	}
	if (r == 0 && (r = proc_open(pid, ret, err)) < 0) {
		kill(pid, SIGKILL); /* our child, not reaped yet: the pid is still its own */
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close_all(&pair[1], 1);
	close_all(&errs[1], 1);
	if (r < 0) {
		close_all(&pair[0], 1);
		close_all(&errs[0], 1);
		close_all(ret_lanes, EDGEW_LANES_MAX);
		return r;
	}
	*ret_control = pair[0];
	*ret_err = errs[0];
	return 0;
}
