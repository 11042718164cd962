/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/supervise.c - supervises pandod; the loop of the main thread
 *
 * Theory of operation: pandod is started as the unprivileged user with one end
 * of a socket pair. It ends in one of four ways. Code 0: clean shutdown, nothing of
 * the instance is left. Code 2: its configuration is wrong, restarting
 * would not help. We were asked to stop and it ended otherwise, or --no-restart:
 * we end too. Anything else: it is restarted after a pause. In all cases except
 * the first, VMs and slots stay as they are; a new pandod finds them by asking.
 *
 * SIGINT and SIGTERM ask pandod to stop, which may take long because it freezes VMs. A
 * second signal gives it a few seconds, a third none.
 * If we die, pandod is killed with us (it can do nothing without us, and the
 * next start must find the data directory free); VMs are not.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "priv/confine.h"
#include "priv/priv.h"
#include "priv/worker.h"

#define PANDOD_FD 3             /* its end of the socket */
#define SECRET_FD 4             /* the key of secrets, if systemd has it */
#define BACKOFF_FIRST_MS 100    /* after the first unexpected end */
#define BACKOFF_MAX_MS 5000     /* doubled up to this */
#define STEADY_MS 30000         /* after running this long, the pause starts over */
#define STOP_DEADLINE_MS 600000 /* to freeze all VMs */
#define HURRY_DEADLINE_MS 5000  /* after the second signal */
#define REPLY_TIMEOUT_S 5       /* after this long without reading pandod counts as hung */
#define EXIT_CONFIG 2           /* pandod: my configuration is wrong */
#define ENV_MAX 256             /* variables passed on */
#define PANDOD_GROUP "pandod"   /* no VM has such a name: theirs have a dot */
#define STACKS_MB 16384         /* RLIMIT_DATA counts whole stacks of threads, used or not */
#define EVENTS_MAX 32           /* per round */

extern char **environ;

/* ---- polled descriptors ---- */

int poll_add(struct priv *p, int fd, enum poll_kind kind, uint32_t idx, struct err *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | idx };

	return epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? err_sys(err, -errno, "epoll") : 0;
}

void poll_del(struct priv *p, int fd)
{
	epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL); /* it may not be registered */
}

/* ---- start ---- */

/* PANDO_* and the variables that programs need; nothing else of root's environment. */
static bool env_handed_on(const char *e)
{
	static const char *const plain[] = {
		"PATH=", "TERM=",          "LANG=",         "LC_",
		"TZ=",   "NOTIFY_SOCKET=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",
	};

	if (!strncmp(e, "PANDO_", 6))
		return strncmp(e, "PANDO_PRIV_FD=", 14) != 0 &&
		       strncmp(e, "PANDO_SECRET_FD=", 16) != 0 &&
		       strncmp(e, "PANDO_DATA_DIR=", 15) != 0;
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (!strncmp(e, plain[i], strlen(plain[i])))
			return true;
	return false;
}

struct launch {
	char **argv;
	const char *env[ENV_MAX + 8];
	char home[PATH_MAX + 8], data[PATH_MAX + 16];
	int exe_fd, sock, err_fd, secret_fd; /* the last: -1 for none */
	struct rlimit memory;                /* rlim_cur 0: none */
	uid_t uid;
	gid_t gid;
};

static void launch_env(struct launch *l, const struct priv *p)
{
	size_t n = 0;

	for (char **e = environ; *e && n < ENV_MAX; e++)
		if (env_handed_on(*e))
			l->env[n++] = *e;
	snprintf(l->home, sizeof(l->home), "HOME=%s", p->in.data);
	snprintf(l->data, sizeof(l->data), "PANDO_DATA_DIR=%s", p->in.data);
	l->env[n++] = l->home;
	l->env[n++] = l->data;
	l->env[n++] = "PANDO_PRIV_FD=3";
	if (l->secret_fd >= 0)
		l->env[n++] = "PANDO_SECRET_FD=4";
	l->env[n] = NULL;
}

/* In the child: system calls only. Returns where it failed. */
static const char *launch_child(struct launch *l)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t no;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &dfl, NULL);
	sigemptyset(&no);
	sigprocmask(SIG_SETMASK, &no, NULL);
	oom_score(OOM_PANDOD, OOM_PANDOD_ELSE);
	if (l->memory.rlim_cur && setrlimit(RLIMIT_DATA, &l->memory) < 0)
		return "limit its memory";
	setpgid(0, 0); /* we pass on ^C from the terminal ourselves */
	if ((l->exe_fd = fcntl(l->exe_fd, F_DUPFD_CLOEXEC, 16)) < 0 ||
	    (l->err_fd = fcntl(l->err_fd, F_DUPFD_CLOEXEC, 16)) < 0 ||
	    (l->secret_fd >= 0 && (l->secret_fd = fcntl(l->secret_fd, F_DUPFD_CLOEXEC, 16)) < 0) ||
	    dup2(l->sock, PANDOD_FD) < 0 || close_range(PANDOD_FD + 1, 15, 0) < 0 ||
	    (l->secret_fd >= 0 && dup2(l->secret_fd, SECRET_FD) < 0))
		return "arrange descriptors";
	if (l->sock == PANDOD_FD && fcntl(PANDOD_FD, F_SETFD, 0) < 0)
		return "arrange descriptors";
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	if (syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, l->gid, l->gid, l->gid) < 0 ||
	    syscall(SYS_setresuid, l->uid, l->uid, l->uid) < 0 || syscall(SYS_capset, &h, none) < 0)
		return "change the user";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) /* after setresuid, which clears it */
		return "set process attributes";
	syscall(SYS_execveat, l->exe_fd, "", l->argv, l->env, AT_EMPTY_PATH);
	return "run it";
}

/* The credential is root's alone: pandod gets it open. -1: there is none. */
static int secret_open(void)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	char path[PATH_MAX];

	if (!dir || snprintf(path, sizeof(path), "%s/pando.secret-key", dir) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* Everything else of ours is close-on-exec. */
static int launch(struct priv *p, struct launch *l, struct proc *ret, struct err *err)
{
	struct {
		int error;
		char step[60];
	} f = { 0 };
	int ep[2], pair[2];
	struct proc proc = PROC_NONE;
	int r = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, -errno, "socket pair");
	autofd int ours = pair[0], theirs = pair[1];
	if (pipe2(ep, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "pipe");
	autofd int rd = ep[0], wr = ep[1];
	l->sock = theirs;
	l->err_fd = wr;
	proc.pid = fork();
	if (proc.pid == 0) {
		const char *step = launch_child(l);

		f.error = errno;
		memccpy(f.step, step, 0, sizeof(f.step) - 1);
		_exit(write(l->err_fd, &f, sizeof(f)) < 0 ? 125 : 126);
	}
	if (proc.pid < 0)
		return err_sys(err, -errno, "fork");
	close(TAKE_FD(wr));
	if (read(rd, &f, sizeof(f)) == (ssize_t)sizeof(f))
		r = err_sys(err, -f.error, "start '%s': %s", l->argv[0], f.step);
	else
		r = proc_open(proc.pid, &proc, err);
	if (r < 0) {
		kill(proc.pid, SIGKILL);
		waitpid(proc.pid, NULL, 0);
		return r;
	}
	setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_sec = REPLY_TIMEOUT_S },
	           sizeof(struct timeval));
	p->super.conn = TAKE_FD(ours);
	*ret = proc;
	return 0;
}

/* A service has the limits of its unit; else a cgroup holds it, or, without one, this. */
static void limit_data(const struct priv *p, struct launch *l)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they map terabytes */
	bool group = p->cg.mode == CGROUP_V1 || p->cg.mode == CGROUP_V2;

	if (p->conf.pandod_mb && !group && !getenv("NOTIFY_SOCKET"))
		l->memory.rlim_cur = l->memory.rlim_max = ((rlim_t)p->conf.pandod_mb + STACKS_MB)
		                                          << 20;
#endif
}

static int pandod_start(struct priv *p, struct err *err)
{
	struct super *s = &p->super;
	autofree struct launch *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_set(err, -ENOMEM, "start pandod: out of memory");
	l->argv = p->conf.argv;
	l->exe_fd = s->exe_fd;
	l->uid = p->conf.uid;
	l->gid = p->conf.gid;
	autofd int secret = secret_open();

	l->secret_fd = secret;
	launch_env(l, p);
	limit_data(p, l);
	s->gen++;
	s->hello = false;
	s->paused = false;
	s->restart_at = 0;
	s->started_at = clock_ms();
	if ((r = launch(p, l, &s->pandod, err)) < 0 ||
	    (r = poll_add(p, s->pandod.pidfd, POLL_PANDOD, 0, err)) < 0 ||
	    (r = poll_add(p, s->conn, POLL_CONN, 0, err)) < 0)
		return r;
	if (p->conf.pandod_mb &&
	    !getenv("NOTIFY_SOCKET")) /* a service has the limits of its unit */
		cgroup_hold(&p->cg, PANDOD_GROUP, p->conf.pandod_mb, s->pandod.pid);
	log_info("pandod runs as process %d, user %s", (int)s->pandod.pid, p->conf.user);
	return 0;
}

/* ---- end ---- */

static void conn_close(struct priv *p)
{
	if (p->super.conn < 0)
		return;
	poll_del(p, p->super.conn);
	close(TAKE_FD(p->super.conn));
}

static void end(struct super *s, int code, bool clean)
{
	s->over = true;
	s->exit_code = code;
	s->clean = clean;
}

static void on_pandod_end(struct priv *p)
{
	struct super *s = &p->super;
	int status = 0, code;
	pid_t r;

	do {
		r = waitpid(s->pandod.pid, &status, WNOHANG);
	} while (r < 0 && errno == EINTR);
	if (r != s->pandod.pid)
		return;
	poll_del(p, s->pandod.pidfd);
	proc_close(&s->pandod);
	conn_close(p);
	code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (code == 0) {
		log_info("pandod has ended, cleaning up");
		end(s, 0, /* clean= */ true);
	} else if (code == EXIT_CONFIG) {
		log_error("pandod reports a configuration error");
		end(s, EXIT_CONFIG, /* clean= */ false);
	} else if (s->signals || !p->conf.restart) {
		log_warn("pandod ended with code %d; running VMs are left for the next start",
		         code);
		end(s, code, /* clean= */ false);
	} else {
		if (clock_ms() - s->started_at >= STEADY_MS || !s->backoff_ms)
			s->backoff_ms = BACKOFF_FIRST_MS;
		else
			s->backoff_ms = MIN(s->backoff_ms * 2, BACKOFF_MAX_MS);
		log_error("pandod ended unexpectedly with code %d, starting it again in %u ms",
		          code, s->backoff_ms);
		s->restart_at = deadline_in(s->backoff_ms);
	}
}

static void on_signal(struct priv *p)
{
	struct signalfd_siginfo si;
	struct super *s = &p->super;

	while (read(p->signals, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		s->signals++;
		if (s->pandod.pidfd < 0) {
			log_warn("stopped while pandod was down; running VMs are left for the next "
			         "start");
			end(s, 1, /* clean= */ false);
			return;
		}
		if (s->signals == 1) {
			log_info("asked to stop: pandod suspends its VMs; a second signal limits "
			         "the time");
			s->stop_by = deadline_in(STOP_DEADLINE_MS);
		} else {
			log_warn("asked to stop again: pandod has %d s left",
			         HURRY_DEADLINE_MS / 1000);
			s->stop_by = MIN(s->stop_by, deadline_in(HURRY_DEADLINE_MS));
		}
		proc_kill(&s->pandod, s->signals <= 2 ? SIGTERM : SIGKILL);
	}
}

/* ---- the loop ---- */

/* Whether requests are read: not while they come too fast. */
static void conn_listen(struct priv *p, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN : 0,
		                  .data.u64 = (uint64_t)POLL_CONN << 32 };

	if (on != p->super.paused)
		return;
	if (!on)
		log_debug("requests come too fast, waiting");
	p->super.paused = !on;
	epoll_ctl(p->epoll, EPOLL_CTL_MOD, p->super.conn, &ev);
}

static void on_conn(struct priv *p)
{
	struct err err = { 0 };

	if (p->super.conn < 0)
		return;
	if (!pace_take(&p->pace, clock_ms())) {
		conn_listen(p, false);
		return;
	}
	if (table_serve(p, &err) == 0)
		return;
	if (err.code != -EPIPE && err.code != -ECONNRESET)
		log_error("%s; closing the connection", err.msg);
	conn_close(p);
}

static void on_worker(struct priv *p)
{
	struct job *j;

	while ((j = worker_done(p->worker))) {
		op_job_done(p, j);
		free(j);
	}
}

static void on_event(struct priv *p, uint64_t data)
{
	struct err err = { 0 };

	switch ((enum poll_kind)(data >> 32)) {
	case POLL_SIGNAL:
		on_signal(p);
		break;
	case POLL_CONN:
		on_conn(p);
		break;
	case POLL_PANDOD:
		if (p->super.pandod.pidfd >= 0)
			on_pandod_end(p);
		break;
	case POLL_WORKER:
		on_worker(p);
		break;
	case POLL_ROUTES:
		if (hostnet_refresh(&p->net, &err) < 0)
			log_warn("the host's routes changed: %s, ignoring", err.msg);
		break;
	case POLL_VM:
		op_vm_ended(p, (uint32_t)data);
		break;
	case POLL_FENCE:
		fence_due(p);
		break;
	}
}

static int next_timeout(const struct priv *p)
{
	const struct super *s = &p->super;
	uint64_t at = s->restart_at, attach = op_attach_next(p);

	if (s->stop_by && s->pandod.pidfd >= 0)
		at = s->stop_by;
	if (attach && (!at || attach < at))
		at = attach;
	if (s->paused && s->conn >= 0 && (!at || pace_next(&p->pace) < at))
		at = pace_next(&p->pace);
	return at ? deadline_left(at) : -1;
}

static int on_timeout(struct priv *p, struct err *err)
{
	struct super *s = &p->super;

	op_attach_due(p);
	if (s->paused && s->conn >= 0 && !deadline_left(pace_next(&p->pace)))
		conn_listen(p, true);
	if (s->pandod.pidfd >= 0 && s->stop_by && !deadline_left(s->stop_by)) {
		log_warn("pandod did not stop in time, killing it");
		proc_kill(&s->pandod, SIGKILL);
		s->stop_by = deadline_in(STOP_DEADLINE_MS);
	}
	if (s->pandod.pidfd < 0 && s->restart_at && !deadline_left(s->restart_at))
		return pandod_start(p, err);
	return 0;
}

int supervise(struct priv *p, struct err *err)
{
	int r;

	if ((r = poll_add(p, p->signals, POLL_SIGNAL, 0, err)) < 0 ||
	    (r = poll_add(p, worker_fd(p->worker), POLL_WORKER, 0, err)) < 0 ||
	    (r = poll_add(p, p->net.routes_fd, POLL_ROUTES, 0, err)) < 0 ||
	    (r = fence_open(p, err)) < 0 || (r = pandod_start(p, err)) < 0)
		return r;
	while (!p->super.over) {
		struct epoll_event ev[EVENTS_MAX];
		int n = epoll_wait(p->epoll, ev, EVENTS_MAX, next_timeout(p));

		if (n < 0 && errno != EINTR)
			return err_sys(err, -errno, "epoll_wait");
		for (int i = 0; i < n && !p->super.over; i++)
			on_event(p, ev[i].data.u64);
		if ((r = on_timeout(p, err)) < 0)
			return r;
	}
	return 0;
}
