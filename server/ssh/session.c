/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - requests of a logged-in client: sessions, terminals, commands
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

static struct chan *find(struct conn *c, ssh_channel ch)
{
	for (size_t i = 0; i < c->n_chans; i++)
		if (ch && c->chans[i]->ch == ch)
			return c->chans[i];
	return NULL;
}

/* Called while the library reads, so it must not call the library. */
static void on_signal(ssh_session s, ssh_channel ch, const char *name, void *ctx)
{
	struct chan *x = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(signals) && x->program && x->f; i++)
		if (name && strcmp(signals[i].name, name) == 0)
			guest_flow_signal(x->f, (unsigned)signals[i].number, NULL);
}

static void open_session(struct conn *c, ssh_message m)
{
	struct chan *x = chan_new(c);

	if (!x) {
		ssh_message_reply_default(m);
		return;
	}
	x->ch = ssh_message_channel_request_open_reply_accept(m);
	x->cb = calloc(1, sizeof(*x->cb));
	if (!x->ch || !x->cb) {
		chan_over(x);
		return;
	}
	x->cb->userdata = x;
	x->cb->channel_signal_function = on_signal;
	ssh_callbacks_init(x->cb);
	ssh_set_channel_callbacks(x->ch, x->cb);
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

static bool set_env(struct chan *x, ssh_message m)
{
	const char *name = ssh_message_channel_request_env_name(m);
	const char *value = ssh_message_channel_request_env_value(m);

	return x->state == CHAN_NEW && name && value && env_allowed(name) &&
	       env_add(x, name, value);
}

static void read_size(struct chan *x, ssh_message m)
{
	int cols = ssh_message_channel_request_pty_width(m);
	int rows = ssh_message_channel_request_pty_height(m);

	x->cols = cols > 0 ? (unsigned)cols : 0;
	x->rows = rows > 0 ? (unsigned)rows : 0;
	guest_login_fit(&x->cols, &x->rows);
}

static bool set_pty(struct chan *x, ssh_message m)
{
	const char *term = ssh_message_channel_request_pty_term(m);

	if (x->state != CHAN_NEW || x->has_pty)
		return false;
	x->has_pty = true;
	read_size(x, m);
	if (term && *term &&
	    !term[strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                       "0123456789+-._")])
		return env_add(x, "TERM", term);
	return env_add(x, "TERM", "xterm-256color");
}

static bool resize(struct chan *x, ssh_message m)
{
	if (!x->has_pty)
		return false;
	read_size(x, m);
	if (x->f)
		guest_login_resize(x->f, x->cols, x->rows, NULL);
	return true;
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

static bool subsystem(struct chan *x, ssh_message m)
{
	const char *name = ssh_message_channel_request_subsystem(m);

	if (*x->c->name.repo)
		return repo_session(x);
	return name && strcmp(name, "sftp") == 0 && start(x, SFTP_COMMAND);
}

static bool command(struct chan *x, ssh_message m)
{
	const char *text = ssh_message_channel_request_command(m);

	return text && *text && start(x, text);
}

/*
 * OpenSSH's client sends "eow@openssh.com" when a command's output is no longer read; the library
 * reports it as unknown. That client sends nothing else that is unknown to a session without a
 * terminal.
 */
static void unknown(struct chan *x)
{
	const char *client = ssh_get_clientbanner(x->c->s);

	if (x->talk || !client || !strstr(client, "-OpenSSH_") || x->has_pty || !x->program)
		return;
	guest_flow_close(TAKE_PTR(x->f)); /* its pipes break */
	ssh_channel_request_send_exit_signal(x->ch, "PIPE", 0, "", "");
	ssh_channel_close(x->ch);
	chan_over(x);
}

static void channel_request(struct conn *c, ssh_message m)
{
	struct chan *x = find(c, ssh_message_channel_request_channel(m));
	bool done = false;

	if (x) {
		switch (ssh_message_subtype(m)) {
		case SSH_CHANNEL_REQUEST_PTY:
			done = set_pty(x, m);
			break;
		case SSH_CHANNEL_REQUEST_ENV:
			done = set_env(x, m);
			break;
		case SSH_CHANNEL_REQUEST_WINDOW_CHANGE:
			done = resize(x, m);
			break;
		case SSH_CHANNEL_REQUEST_SHELL:
			done = start(x, NULL);
			break;
		case SSH_CHANNEL_REQUEST_EXEC:
			done = command(x, m);
			break;
		case SSH_CHANNEL_REQUEST_SUBSYSTEM:
			done = subsystem(x, m);
			break;
		case SSH_CHANNEL_REQUEST_UNKNOWN:
			unknown(x);
			break;
		default: /* X11 */
			break;
		}
	}
	if (done)
		ssh_message_channel_request_reply_success(m);
	else
		ssh_message_reply_default(m);
}

void session_message(struct conn *c, ssh_message m_consume)
{
	switch (ssh_message_type(m_consume)) {
	case SSH_REQUEST_CHANNEL_OPEN:
		if (ssh_message_subtype(m_consume) == SSH_CHANNEL_DIRECT_TCPIP && c->g) {
			direct_open(c, m_consume);
			return;
		}
		if (ssh_message_subtype(m_consume) == SSH_CHANNEL_SESSION)
			open_session(c, m_consume);
		else
			ssh_message_reply_default(m_consume);
		break;
	case SSH_REQUEST_CHANNEL:
		channel_request(c, m_consume);
		break;
	case SSH_REQUEST_GLOBAL:
		if (c->g)
			forward_request(c, m_consume);
		else
			ssh_message_reply_default(m_consume);
		break;
	default:
		ssh_message_reply_default(m_consume);
		break;
	}
	ssh_message_free(m_consume);
}
