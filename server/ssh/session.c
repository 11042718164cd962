/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - what the process of a logged-in client asks for: sessions, terminals, commands
 *
 * A session gets its terminal and its environment first and then one program: a shell, a command
 * or a subsystem. The request succeeds before the guest has started it, as with every SSH server; a
 * later failure is a message on its stderr and exit status 255. sftp is the guest's own
 * sftp-server, so permissions are the kernel's; there is no sshd in the guest.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ssh/ssh_internal.h"

#define SFTP_COMMAND "exec /usr/lib/openssh/sftp-server"

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "ABRT", SIGABRT }, { "ALRM", SIGALRM }, { "FPE", SIGFPE },   { "HUP", SIGHUP },
	{ "ILL", SIGILL },   { "INT", SIGINT },   { "KILL", SIGKILL }, { "PIPE", SIGPIPE },
	{ "QUIT", SIGQUIT }, { "SEGV", SIGSEGV }, { "TERM", SIGTERM }, { "USR1", SIGUSR1 },
	{ "USR2", SIGUSR2 },
};

const char *signal_name(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (signals[i].number == number)
			return signals[i].name;
	return NULL;
}

static bool open_session(struct conn *c, const struct sshw_msg *m)
{
	return chan_new(c, m->id) != NULL;
}

static bool env_add(struct chan *x, const char *name, const char *value)
{
	autofree char *kv = NULL;

	if (x->n_env >= SSHD_ENV_MAX || strlen(name) + strlen(value) + 2 > SSHD_ENV_BYTES ||
	    asprintf(&kv, "%s=%s", name, value) < 0)
		return false;
	x->env[x->n_env++] = TAKE_PTR(kv);
	return true;
}

/* Variables about language and appearance; none that change which program runs. */
static bool env_allowed(const char *name)
{
	static const char *const names[] = { "LANG",         "LANGUAGE",
		                             "COLORTERM",    "NO_COLOR",
		                             "TZ",           "GIT_PROTOCOL",
		                             "TERM_PROGRAM", "TERM_PROGRAM_VERSION" };
	static const char *const prefixes[] = { "LC_", "GIT_AUTHOR_", "GIT_COMMITTER_" };

	if (name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")])
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

static bool set_env(struct chan *x, const struct sshw_msg *m)
{
	return x->state == CHAN_NEW && env_allowed(m->name) && env_add(x, m->name, m->value);
}

static void read_size(struct chan *x, const struct sshw_msg *m)
{
	x->cols = m->cols;
	x->rows = m->rows;
	guest_login_fit(&x->cols, &x->rows);
}

static bool set_pty(struct chan *x, const struct sshw_msg *m)
{
	const char *term = m->name;

	if (x->state != CHAN_NEW || x->has_pty)
		return false;
	x->has_pty = true;
	read_size(x, m);
	if (*term && !term[strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                                "0123456789+-._")])
		return env_add(x, "TERM", term);
	return env_add(x, "TERM", "xterm-256color");
}

static void resize(struct chan *x, const struct sshw_msg *m)
{
	if (!x->has_pty)
		return;
	read_size(x, m);
	if (x->f)
		guest_login_resize(x->f, x->cols, x->rows, NULL);
}

static void send_signal(struct chan *x, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals) && x->program && x->f; i++)
		if (strcmp(signals[i].name, name) == 0)
			guest_flow_signal(x->f, (unsigned)signals[i].number, NULL);
}

/* SSH_CLIENT and SSH_CONNECTION, as programs expect them. */
static void set_connection(struct chan *x)
{
	struct conn *c = x->c;
	char text[160], host[64];
	char *port;

	snprintf(host, sizeof(host), "%s", c->d->address);
	port = strrchr(host, ':');
	if (port)
		*port++ = '\0';
	snprintf(text, sizeof(text), "%s %u %s %s", c->remote, c->remote_port, host,
	         port ? port : "0");
	env_add(x, "SSH_CONNECTION", text);
}

/* NULL: the login shell. */
static bool start(struct chan *x, const char *command)
{
	struct guest_login_req q = { .user = *x->c->name.user ? x->c->name.user : NULL,
		                     .command = command,
		                     .env = (const char *const *)x->env };
	struct err err = { 0 };

	if (x->state != CHAN_NEW)
		return false;
	if (*x->c->name.repo)
		return command ? repo_exec(x, command) : repo_session(x);
	set_connection(x);
	if (x->has_pty) {
		q.cols = x->cols;
		q.rows = x->rows;
	}
	if (guest_login(x->c->g, &q, &x->f, &err) < 0) {
		conn_log(x->c, LOG_LV_DEBUG, "start a program: %s", err.msg);
		return false;
	}
	x->program = true;
	x->state = CHAN_OPEN;
	return true;
}

static bool run(struct chan *x, const struct sshw_msg *m)
{
	autofree char *text = strndup(m->command.n ? m->command.p : "", m->command.n);

	if (!text)
		return false;
	switch ((enum sshw_run)m->run) {
	case SSHW_SHELL:
		return start(x, NULL);
	case SSHW_EXEC:
		return *text && start(x, text);
	default: /* a subsystem */
		if (*x->c->name.repo)
			return repo_session(x);
		return strcmp(text, "sftp") == 0 && start(x, SFTP_COMMAND);
	}
}

/* The answer brings the program's stream. */
static void run_program(struct chan *x, const struct sshw_msg *m)
{
	autofd int fd = -1;
	bool done = false;

	if (x->state == CHAN_NEW && (fd = chan_stream(x)) >= 0)
		done = run(x, m);
	if (!done && x->state == CHAN_NEW && x->sock >= 0)
		close(TAKE_FD(x->sock));
	link_answer(x->c, done, 0, fd);
}

/* Of a channel that may have ended in the meantime: then the answer is no. */
static void channel_message(struct chan *x, struct conn *c, const struct sshw_msg *m)
{
	switch (m->kind) {
	case SSHW_ENV:
		link_answer(c, x && set_env(x, m), 0, -1);
		break;
	case SSHW_PTY:
		link_answer(c, x && set_pty(x, m), 0, -1);
		break;
	case SSHW_RUN:
		if (x)
			run_program(x, m);
		else
			link_answer(c, /* ok= */ false, 0, -1);
		break;
	case SSHW_RESIZE:
		if (x)
			resize(x, m);
		break;
	case SSHW_SIGNAL:
		if (x)
			send_signal(x, m->name);
		break;
	default: /* CLOSE: of a session without a program; others close their stream */
		if (x && x->state == CHAN_NEW)
			chan_over(x);
		break;
	}
}

/* A channel that the client opens has an id that no other one has. */
static bool new_id(struct conn *c, const struct sshw_msg *m)
{
	if (!(m->id & SSHW_GUESTS_ID) && !chan_find(c, m->id))
		return true;
	link_broken(c, "channel %u is there already", m->id);
	return false;
}

void session_message(struct conn *c, const struct sshw_msg *m)
{
	switch (m->kind) {
	case SSHW_SESSION:
		if (new_id(c, m))
			link_answer(c, open_session(c, m), 0, -1);
		break;
	case SSHW_DIRECT:
		if (c->g && new_id(c, m))
			direct_open(c, m);
		else if (!c->g)
			link_send(c, &(struct sshw_msg){ .kind = SSHW_DIALED, .id = m->id }, -1);
		break;
	case SSHW_LISTEN:
	case SSHW_CANCEL:
		if (c->g)
			forward_request(c, m);
		else
			link_answer(c, /* ok= */ false, 0, -1);
		break;
	case SSHW_AUTH:
		link_broken(c, "a second login");
		break;
	default:
		channel_message(chan_find(c, m->id), c, m);
		break;
	}
}
