/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/spawn.c - clone into new namespaces, drop privileges, exec QEMU
 *
 * Theory of operation: everything that needs memory is prepared before the
 * clone, because other threads may hold any lock at that moment: the child only makes
 * system calls. The steps are in one table; the child walks it and, if a
 * step fails, writes {step, errno} to a close-on-exec pipe. End of file on that
 * pipe means that exec succeeded. Meanwhile the parent writes the
 * record of the new process; the child waits for that before it execs, so there is never a QEMU
 * that a later start does not know about. If the parent dies meanwhile, the child reads end of file
 * and ends. The child does not ask to be killed with its parent: VMs outlive us.
 */
#include "priv/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/confine.h"
#include "priv/jail.h"
#include "priv/seedns.h"
#include "wire/priv.h"

#define SPAWN_DEADLINE_MS 15000 /* from clone to exec, on a host that swaps */
#define SPAWN_NOFILE 4096       /* descriptors: disk layers of a long chain */
#define HIGH_FD 128             /* above every descriptor that QEMU is given */
#define ERR_FD 100              /* the error pipe while QEMU's descriptors are in place */

static const char sandbox[] = "on,obsolete=deny,elevateprivileges=deny,spawn=allow,"
                              "resourcecontrol=deny";
/* A seed's forks become other users: the layer library forbids all of it but that. */
static const char sandbox_seed[] = "on,obsolete=deny,elevateprivileges=allow,spawn=allow,"
                                   "resourcecontrol=deny";

/* Options with which QEMU would leave, weaken or replace its jail. */
static const char *const denied_args[] = { "sandbox", "runas",    "chroot",    "daemonize",
	                                   "user",    "run-with", "readconfig" };

struct child {
	const struct spawn *s;
	const char **argv, **envp; /* owned by the parent */
	int mnt, null_fd, go_fd, err_fd;
	int users; /* user namespace of a seed, else -1 */
	int fds[SPAWN_FDS_MAX];
	int log_fd, tap_fd;
	int hold_fd; /* of a seed, else -1 */
	struct rlimit nofile;
};

int spawn_check(const struct priv_req *req, struct err *err)
{
	for (uint32_t i = 0; i < req->spawn.n_argv; i++) {
		const char *a = req->spawn.argv[i];

		while (*a == '-')
			a++;
		for (size_t k = 0; a != req->spawn.argv[i] && k < ARRAY_SIZE(denied_args); k++)
			if (!strcmp(a, denied_args[k]))
				return err_set(err, -EPERM, "spawn: QEMU option -%s is not allowed",
				               a);
	}
	for (uint32_t i = 0; i < req->spawn.n_env; i++) {
		const char *e = req->spawn.env[i];
		size_t n = strspn(e, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

		if (strncmp(e, "PANDO_", 6) != 0 || e[n] != '=')
			return err_set(err, -EPERM,
			               "spawn: only variables named PANDO_... are accepted");
	}
	return 0;
}

/* ---- in the child: system calls only, 0 or -1 with errno ---- */

static int step_session(struct child *c)
{
	oom_score(OOM_QEMU, NULL); /* in the host's /proc: the jail's comes next */
	/* Signals of the terminal are not for VMs. */
	return setsid() < 0 ? -1 : 0;
}

static int step_root(struct child *c)
{
	/* Enters the template's namespace, then makes a private copy of its mounts. */
	return setns(c->mnt, CLONE_NEWNS) < 0 || unshare(CLONE_NEWNS) < 0 ? -1 : 0;
}

static int step_proc(struct child *c)
{
	/* Writable so that the layer writer can make itself the first victim of the OOM killer. */
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
	             "subset=pid,hidepid=2");
}

static int step_hostname(struct child *c)
{
	return sethostname("vm", 2);
}

static int raise_fd(int *fd)
{
	int n;

	if (*fd < 0 || *fd >= HIGH_FD)
		return 0;
	n = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH_FD);
	if (n < 0)
		return -1;
	*fd = n;
	return 0;
}

/* First moves all descriptors out of the way, so that no target is another's source. */
static int step_descriptors(struct child *c)
{
	int after = SPAWN_FD_FIRST + (int)c->s->n_fds;
	int *all[] = { &c->err_fd, &c->go_fd,   &c->null_fd, &c->log_fd,
		       &c->tap_fd, &c->hold_fd, &c->users };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (raise_fd(all[i]) < 0)
			return -1;
	for (size_t i = 0; i < c->s->n_fds; i++)
		if (raise_fd(&c->fds[i]) < 0)
			return -1;
	if (dup2(c->null_fd, 0) < 0 || dup2(c->log_fd, 1) < 0 || dup2(c->log_fd, 2) < 0)
		return -1;
	close_range(3, HIGH_FD - 1, 0);
	if (c->tap_fd >= 0 && dup2(c->tap_fd, SPAWN_FD_TAP) < 0)
		return -1;
	if (c->hold_fd >= 0 && dup2(c->hold_fd, SPAWN_FD_HOLD) < 0)
		return -1;
	for (size_t i = 0; i < c->s->n_fds; i++)
		if (dup2(c->fds[i], SPAWN_FD_FIRST + (int)i) < 0)
			return -1;
	if (dup3(c->err_fd, ERR_FD, O_CLOEXEC) < 0 || dup3(c->go_fd, ERR_FD + 1, O_CLOEXEC) < 0 ||
	    (c->users >= 0 && dup3(c->users, ERR_FD + 2, O_CLOEXEC) < 0))
		return -1;
	c->err_fd = ERR_FD;
	c->go_fd = ERR_FD + 1;
	if (close_range((unsigned)after, ERR_FD - 1, 0) < 0)
		return -1;
	if (c->users < 0)
		return close_range(ERR_FD + 2, ~0u, 0);
	c->users = ERR_FD + 2;
	return close_range(ERR_FD + 3, ~0u, 0);
}

static int step_limits(struct child *c)
{
	static const struct rlimit none = { 0 }, file = { PRIV_FILE_MAX, PRIV_FILE_MAX };

	/* Not for disks, which have their own size: for logs, see server/engine/guestlog.c. */
	if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_FSIZE, &file) < 0)
		return -1;
	return setrlimit(RLIMIT_NOFILE, &c->nofile);
}

static int step_signals(struct child *c)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	struct sigaction ign = { .sa_handler = SIG_IGN };
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &dfl, NULL);       /* fails for KILL and STOP, and may */
	if (sigaction(SIGXFSZ, &ign, NULL) < 0) /* a full log is no reason to end */
		return -1;
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

static int step_keyring(struct child *c)
{
	/* A session keyring of its own; kernels without keyrings need none. */
	syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL, 0, 0, 0);
	return 0;
}

static int step_capabilities(struct child *c)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	return errno == EINVAL ? 0 : -1; /* one past the last */
}

#define CAPS_FORK ((1u << CAP_SETUID) | (1u << CAP_SETGID))

/* Into the user namespace, as one of its users, with what its forks need to become others. */
static int seed_user(struct child *c)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const uint32_t all = CAPS_FORK | (1u << CAP_SETPCAP);
	struct __user_cap_data_struct first[2] = { { all, all, CAPS_FORK } },
	                              last[2] = { { CAPS_FORK, CAPS_FORK, CAPS_FORK } };
	uid_t id = c->s->uid;

	if (setns(c->users, CLONE_NEWUSER) < 0 || syscall(SYS_capset, &h, first) < 0 ||
	    step_capabilities(c) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return -1;
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
	    syscall(SYS_setresuid, id, id, id) < 0 || syscall(SYS_capset, &h, last) < 0)
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0) < 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETGID, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int step_user(struct child *c)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	uid_t id = c->s->uid;

	if (c->s->seed)
		return seed_user(c);
	/* The raw calls: glibc's would signal threads that exist only in the parent. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
	    syscall(SYS_setresuid, id, id, id) < 0 || syscall(SYS_capset, &h, none) < 0)
		return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int step_record(struct child *c)
{
	char go;
	ssize_t n;

	do {
		n = read(c->go_fd, &go, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		errno = ECANCELED;
	close(c->go_fd);
	return n == 1 ? 0 : -1;
}

static int step_exec(struct child *c)
{
	umask(077);
	return execve(c->s->jail->qemu, (char *const *)c->argv, (char *const *)c->envp);
}

static const struct {
	const char *name; /* "jail: <name>: <error>" */
	int (*fn)(struct child *c);
} steps[] = {
	{ "new session", step_session },
	{ "enter the root", step_root },
	{ "mount proc", step_proc },
	{ "set the host name", step_hostname },
	{ "arrange descriptors", step_descriptors },
	{ "set limits", step_limits },
	{ "reset signals", step_signals },
	{ "leave the keyring", step_keyring },
	{ "drop capabilities", step_capabilities },
	{ "change the user", step_user },
	{ "wait for its record", step_record },
	{ "run QEMU", step_exec },
};

struct failure {
	uint32_t step;
	int32_t error;
};

static void child_main(struct child *c)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct failure f = { .step = i };

		if (steps[i].fn(c) == 0)
			continue;
		f.error = errno;
		if (write(c->err_fd, &f, sizeof(f)) < 0)
			_exit(125);
		_exit(126);
	}
	_exit(127);
}

/* ---- in the parent ---- */

static const char **make_argv(const struct spawn *s)
{
	uint32_t n = s->req->spawn.n_argv;
	const char **v = calloc(n + 4, sizeof(*v));

	if (!v)
		return NULL;
	v[0] = s->jail->qemu;
	memcpy(v + 1, s->req->spawn.argv, n * sizeof(*v));
	v[n + 1] = "-sandbox";
	v[n + 2] = s->seed ? sandbox_seed : sandbox;
	return v;
}

static const char **make_env(const struct spawn *s)
{
	uint32_t n = s->req->spawn.n_env;
	const char **v = calloc(n + 2, sizeof(*v));

	if (!v)
		return NULL;
	memcpy(v, s->req->spawn.env, n * sizeof(*v));
	if (s->jail->layers)
		v[n] = "LD_PRELOAD=" JAIL_LAYERS;
	return v;
}

static pid_t clone_child(const struct spawn *s, int *ret_pidfd)
{
	struct clone_args a = {
		.flags = (s->seed ? 0 : CLONE_NEWPID) | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		         CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;

	if (s->cgroup_fd >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)s->cgroup_fd;
		pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
		if (pid >= 0)
			return pid;
		/* A cgroup that cannot be entered must not prevent a VM from starting. */
		log_warn("jail: clone into its cgroup: %s, continuing without", err_name(errno));
		a.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
		a.cgroup = 0;
	}
	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

/* Waits until exec closed the pipe; anything else from the child becomes the error. */
static int await_exec(int fd, struct err *err)
{
	struct failure f = { 0 };
	int r = io_wait(fd, POLLIN, deadline_in(SPAWN_DEADLINE_MS));
	ssize_t n;

	if (r <= 0)
		return err_set(err, r < 0 ? r : -ETIMEDOUT, "jail: not ready within %d ms",
		               SPAWN_DEADLINE_MS);
	n = read(fd, &f, sizeof(f));
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(f) || f.step >= ARRAY_SIZE(steps))
		return err_set(err, -EIO, "jail: unexpected message from its process");
	return err_sys(err, -f.error, "jail: %s", steps[f.step].name);
}

/* A seed is not process 1 of its pid namespace. */
static int clone_in_place(const struct spawn *s, const struct seedns *ns, struct proc *ret,
                          struct err *err)
{
	int r = s->seed ? seedns_enter(ns, err) : 0, saved;

	if (r < 0)
		return r;
	ret->pid = clone_child(s, &ret->pidfd);
	if (ret->pid == 0)
		return 0;
	saved = errno;
	if (s->seed)
		seedns_leave();
	return ret->pid < 0 ? err_sys(err, -saved, "jail: clone") : 0;
}

static void give_up(struct proc *p)
{
	proc_kill(p, SIGKILL);
	while (waitpid(p->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	proc_close(p);
}

int spawn_run(const struct spawn *s, struct proc *ret, struct err *err)
{
	autofree const char **argv = make_argv(s);
	autofree const char **envp = make_env(s);
	autofd int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int ep[2] = { -1, -1 }, go[2] = { -1, -1 };
	struct child c = {
		.s = s, .argv = argv, .envp = envp, .null_fd = null_fd, .hold_fd = -1, .users = -1
	};
	AUTO(seedns_close) struct seedns ns = SEEDNS_NONE;
	struct proc p = PROC_NONE;
	int r;

	if (!argv || !envp || s->n_fds > SPAWN_FDS_MAX || s->uid == 0)
		return err_set(err, -EINVAL, "jail: out of memory or out of range");
	c.mnt = s->req->spawn.kvm ? s->jail->mnt_kvm : s->jail->mnt;
	if (c.mnt < 0)
		return err_set(err, -ENODEV, "jail: this host has no /dev/kvm");
	if (null_fd < 0 || pipe2(ep, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "jail: pipe");
	autofd int err_rd = ep[0], err_wr = ep[1];
	if (pipe2(go, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "jail: pipe");
	autofd int go_rd = go[0], go_wr = go[1];
	c.err_fd = err_wr;
	c.go_fd = go_rd;
	c.log_fd = s->log_fd;
	c.tap_fd = s->tap_fd;
	if (s->n_fds)
		memcpy(c.fds, s->fds, s->n_fds * sizeof(int));
	getrlimit(RLIMIT_NOFILE, &c.nofile);
	c.nofile.rlim_max = c.nofile.rlim_cur = MIN(c.nofile.rlim_max, SPAWN_NOFILE);

	if (s->seed && s->jail->users < 0)
		return err_set(err, -ENOTSUP, "jail: this host permits no user namespaces");
	if (s->seed && (r = seedns_open(s->jail, s->uid, &ns, err)) < 0)
		return r;
	c.hold_fd = ns.hold_fd;
	c.users = s->seed ? s->jail->users : -1;

	r = clone_in_place(s, &ns, &p, err);
	if (r < 0)
		return r;
	if (p.pid == 0) {
		close(go_wr); /* or the child would keep its own pipe open */
		child_main(&c);
	}
	close(TAKE_FD(err_wr));
	close(TAKE_FD(go_rd));
	r = s->record(&p, s->ctx, err);
	if (r == 0 && io_write_all(go_wr, "g", 1) < 0)
		r = 0; /* the child has already ended and reported why */
	if (r == 0)
		r = await_exec(err_rd, err);
	if (r < 0) {
		give_up(&p);
		return r;
	}
	*ret = p;
	return 0;
}
