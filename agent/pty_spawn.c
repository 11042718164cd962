/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty_spawn.c - starts a program on its own terminal
 *
 * The account is looked up before the fork, so that a wrong name is an error and not a session that
 * ends at once. Errors after the fork are written to the terminal, as login(1)
 * does, where the user sees them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "agent/pty.h"
#include "agent/vt.h"
#include "base/auto.h"
#include "base/err.h"

#define TTY_GROUP 5 /* the usual number */
#define TTY_MODE 0620

void pty_set_size(struct pty *p, uint16_t cols, uint16_t rows)
{
	struct winsize w = { .ws_col = cols, .ws_row = rows };

	if (vt_resize(p->vt, cols, rows) < 0)
		return; /* out of memory: the size stays, for the program too */
	p->cols = cols;
	p->rows = rows;
	if (p->master >= 0)
		ioctl(p->master, TIOCSWINSZ, &w);
}

static void environment(const struct user *u, const struct agent_pty_open *m)
{
	static const char *const trust[] = { TRUST_ENV };

	clearenv();
	for (size_t i = 0; i < ARRAY_SIZE(trust); i++)
		putenv((char *)(uintptr_t)trust[i]);
	setenv("PATH", BASE_PATH, 1);
	setenv("LANG", "C.UTF-8", 1);
	setenv("TERM", "xterm-256color", 1);
	setenv("HOME", u->home, 1);
	setenv("USER", u->name, 1);
	setenv("LOGNAME", u->name, 1);
	setenv("SHELL", u->shell, 1);
	environ_put();
	for (uint16_t i = 0; i < m->n_env; i++)
		putenv((char *)(uintptr_t)m->env[i]);
}

static __attribute__((noreturn)) void run(const struct user *u, const struct agent_pty_open *m)
{
	const char *slash = strrchr(u->shell, '/');
	char name[AGENT_PATH_MAX + 2];

	if (*m->exec) { /* the shell parses it, finds the program and execs it */
		execl("/bin/sh", "sh", "-c", m->exec, (char *)NULL);
		dprintf(2, "pando: cannot run /bin/sh: %s\r\n", err_name(errno));
		_exit(127);
	}
	snprintf(name, sizeof(name), "-%s", slash ? slash + 1 : u->shell);
	execl(u->shell, name, (char *)NULL);
	dprintf(2, "pando: cannot run %s: %s\r\n", u->shell, err_name(errno));
	execl("/bin/sh", "-sh", (char *)NULL);
	_exit(127);
}

int pty_take(const struct user *u)
{
	if (ioctl(0, TIOCSCTTY, 0) < 0)
		return -errno;
	/* This needs root; tests run without it. */
	if (fchown(0, u->uid, TTY_GROUP) == 0 && fchmod(0, TTY_MODE) < 0)
		return -errno;
	return 0;
}

static __attribute__((noreturn)) void child(struct agent *a, int slave, const struct user *u,
                                            const struct agent_pty_open *m)
{
	const char *cwd = *m->cwd ? m->cwd : u->home;

	setsid();
	if (dup2(slave, 0) < 0 || dup2(slave, 1) < 0 || dup2(slave, 2) < 0)
		_exit(126);
	close_range(3, ~0u, 0);
	if (pty_take(u) < 0)
		_exit(126);
	child_reset(a);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL); /* ^C must work, whatever the agent was started with */
	if (*m->user && user_become(u) < 0) {
		dprintf(2, "pando: cannot become %s: %s\r\n", u->name, err_name(errno));
		_exit(126);
	}
	if (chdir(cwd) < 0) {
		if (*m->cwd)
			dprintf(2, "pando: cannot enter %s: %s\r\n", cwd, err_name(errno));
		if (chdir("/") < 0)
			_exit(126);
	}
	environment(u, m);
	run(u, m);
}

static int find_user(const char *name, struct user *ret, struct pty_failure *f)
{
	int r = *name ? user_find(name, ret) : user_find_uid(geteuid(), ret);

	if (!*name && r < 0) {
		*ret = (struct user){ .name = "root", .home = "/", .shell = "/bin/sh" };
		return 0;
	}
	if (r == -ENOENT) {
		f->tag = AGENT_TAG_USER_NOT_FOUND;
		snprintf(f->msg, sizeof(f->msg), "there is no user '%s' in this VM", name);
	} else if (r < 0) {
		snprintf(f->msg, sizeof(f->msg), "look up user '%s': %s", name, err_name(r));
	}
	return r;
}

int pty_pair(uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave)
{
	autofd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
	struct winsize w = { .ws_col = cols, .ws_row = rows };
	struct termios tio;

	if (master < 0 || unlockpt(master) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || tcgetattr(slave, &tio) < 0)
		return -errno;
	tio.c_iflag |= IUTF8; /* erase removes whole characters */
	if (tcsetattr(slave, TCSANOW, &tio) < 0 || ioctl(slave, TIOCSWINSZ, &w) < 0 ||
	    fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return -errno;
	*ret_master = TAKE_FD(master);
	*ret_slave = TAKE_FD(slave);
	return 0;
}

static int poll_fd(struct agent *a, const struct pty *p, int fd, enum ref_kind kind,
                   uint32_t events)
{
	struct epoll_event ev = { .events = events | EPOLLET,
		                  .data.u64 = (uint64_t)kind << 56 | p->serial };

	return epoll_ctl(a->ep, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int pty_spawn(struct agent *a, struct pty *p, const struct agent_pty_open *m, struct pty_failure *f)
{
	static struct user u; /* large */
	autofd int slave = -1;
	int r = find_user(m->user, &u, f);

	if (r < 0)
		return r;
	snprintf(p->user, sizeof(p->user), "%s", u.name);
	f->tag = AGENT_TAG_SPAWN_FAILED;
	r = pty_pair(m->cols, m->rows, &p->master, &slave);
	if (r < 0) {
		snprintf(f->msg, sizeof(f->msg), "open a terminal: %s", err_name(r));
		return r;
	}
	p->pid = fork();
	if (p->pid == 0)
		child(a, slave, &u, m);
	if (p->pid < 0) {
		r = -errno;
		p->pid = 0;
		snprintf(f->msg, sizeof(f->msg), "start a process: %s", err_name(r));
		return r;
	}
	p->pidfd = pidfd_open(p->pid, 0);
	r = p->pidfd < 0 ? -errno : 0;
	if (r == 0)
		r = poll_fd(a, p, p->pidfd, REF_PTY_PROC, EPOLLIN);
	if (r == 0)
		r = poll_fd(a, p, p->master, REF_PTY, EPOLLIN);
	p->readable = true;
	if (r < 0)
		snprintf(f->msg, sizeof(f->msg), "poll a terminal: %s", err_name(r));
	return r;
}
