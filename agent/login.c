/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login.c - a user's own shell, on pipes or on a terminal, as a remote login starts it
 *
 * Without a command it is a login shell, else the shell runs the command; both start in the home
 * directory. It differs from exec when it loses its listener: a
 * terminal hangs up, pipes break, and background processes continue, as users
 * know it from a remote shell. Bytes are passed unchanged; terminals that keep their screen are in
 * pty.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "wire/agent_login.h"

#define LISTED_AS "(login shell)" /* in the list of processes, if there is no command */

static void environment(const struct user *u, const struct agent_login_req *r)
{
	static const char *const trust[] = { TRUST_ENV };
	static char node[NODE_DIR_MAX], path[NODE_DIR_MAX + 128];
	const char *tty = r->cols ? ttyname(STDIN_FILENO) : NULL;

	node_find(node);
	snprintf(path, sizeof(path), "%s%s%s", node, *node ? ":" : "", BASE_PATH);
	clearenv();
	for (size_t i = 0; i < ARRAY_SIZE(trust); i++)
		putenv((char *)(uintptr_t)trust[i]);
	setenv("PATH", path, 1);
	setenv("LANG", "C.UTF-8", 1);
	setenv("HOME", u->home, 1);
	setenv("USER", u->name, 1);
	setenv("LOGNAME", u->name, 1);
	setenv("SHELL", u->shell, 1);
	if (tty)
		setenv("SSH_TTY", tty, 1);
	environ_put();
	for (uint16_t i = 0; i < r->n_env; i++)
		putenv((char *)(uintptr_t)r->env[i]);
}

/* Takes the terminal while still root. */
static void take_terminal(const struct job_fds *fds, const struct agent_login_req *r)
{
	static struct user u;
	int e = *r->user ? user_find(r->user, &u) : user_find_uid(geteuid(), &u);

	if (e == 0)
		e = pty_take(&u);
	if (e < 0 && e != -ENOENT) /* no such user: child_become() reports it better */
		child_fail(fds, -e, AGENT_TAG_SPAWN_FAILED, "take the terminal: %s", err_name(e));
}

static __attribute__((noreturn)) void login_child(const struct job_fds *fds,
                                                  const struct agent_login_req *r)
{
	static struct user u;
	char name[AGENT_PATH_MAX + 2];
	const char *slash, *base;

	if (r->cols)
		take_terminal(fds, r);
	child_become(fds, r->user, &u);
	if (chdir(u.home) < 0 && chdir("/") < 0)
		child_fail(fds, errno, AGENT_TAG_CWD_FAILED, "enter /: %s", err_name(errno));
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL); /* ^C must work, whatever the agent was started with */
	environment(&u, r);
	slash = strrchr(u.shell, '/');
	base = slash ? slash + 1 : u.shell;
	snprintf(name, sizeof(name), "%s%s", *r->command ? "" : "-", base);
	if (*r->command)
		execl(u.shell, name, "-c", r->command, (char *)NULL);
	else
		execl(u.shell, name, (char *)NULL);
	child_fail(fds, errno, AGENT_TAG_SPAWN_FAILED, "run %.128s: %s", u.shell, err_name(errno));
}

static int start(struct agent *a, struct stream *s, const struct agent_login_req *r)
{
	autofd int master = -1, slave = -1;
	struct job_tty tty;
	struct job_fds fds;
	int k;

	s->tty = r->cols != 0;
	if (s->tty) {
		k = pty_pair(r->cols, r->rows, &master, &slave);
		if (k < 0)
			return k;
		tty = (struct job_tty){ .master = master, .slave = slave };
	}
	k = job_fork_on(a, s, JOB_IN | JOB_OUT | (s->tty ? 0 : JOB_ERR), s->tty ? &tty : NULL,
	                &fds);
	if (k == 1)
		login_child(&fds, r);
	return k;
}

void login_begin(struct agent *a, uint32_t id, struct rd *c)
{
	static struct agent_login_req r; /* large */
	struct agent_exec_req listed = { 0 };
	struct stream *s;
	int k = 0;

	if (agent_login_req_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed login request");
		return;
	}
	s = stream_new(a, id, AGENT_OP_LOGIN);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return;
	}
	listed.user = r.user;
	listed.command = *r.command ? r.command : LISTED_AS;
	s->proc = proc_new(a, &listed, /* attached= */ true, &k);
	if (s->proc) {
		s->proc->s = s;
		k = -start(a, s, &r);
	}
	if (k || !s->proc) {
		stream_result(a, s, k ? (uint32_t)k : ENOMEM, AGENT_TAG_SPAWN_FAILED,
		              "cannot start a process", NULL, 0);
		if (s->proc)
			proc_free(a, s->proc);
		return;
	}
	s->proc->pid = s->pid;
}

bool login_resize(struct stream *s, uint16_t cols, uint16_t rows)
{
	struct winsize w = { .ws_col = cols, .ws_row = rows };

	if (!s->tty)
		return false;
	if (s->out[AGENT_OUT].fd >= 0)
		ioctl(s->out[AGENT_OUT].fd, TIOCSWINSZ, &w);
	return true;
}
