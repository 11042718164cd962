/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - requests of a logged-in client: sessions, terminals, commands
 *
 * Each is passed to pandod, whose answer is the client's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "sshmain/sshmain.h"

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
	struct sshw_msg m = { .kind = SSHW_SIGNAL, .id = x->id };

	if (!x->program || !name || strlen(name) >= sizeof(m.name))
		return;
	snprintf(m.name, sizeof(m.name), "%s", name);
	link_tell(x->c, &m);
}

/* Not while it is told to leave: clients take a refusal for the end, and never read the reason. */
static void refuse(struct conn *c, ssh_message m)
{
	if (!c->leave)
		ssh_message_reply_default(m);
}

static void open_session(struct conn *c, ssh_message m)
{
	struct sshw_msg q = { .kind = SSHW_SESSION, .id = c->next_id };
	struct chan *x = chan_new(c, c->next_id++ & ~SSHW_GUESTS_ID);

	if (!x || !link_ask(c, &q, NULL, NULL)) {
		if (x)
			chan_over(x);
		refuse(c, m);
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

static bool set_env(struct chan *x, ssh_message m)
{
	const char *name = ssh_message_channel_request_env_name(m);
	const char *value = ssh_message_channel_request_env_value(m);
	struct sshw_msg q = { .kind = SSHW_ENV, .id = x->id };

	if (x->state != CHAN_NEW || !name || !value || strlen(name) >= sizeof(q.name) ||
	    strlen(value) >= sizeof(q.value))
		return false;
	snprintf(q.name, sizeof(q.name), "%s", name);
	snprintf(q.value, sizeof(q.value), "%s", value);
	return link_ask(x->c, &q, NULL, NULL);
}

static void read_size(ssh_message m, struct sshw_msg *q)
{
	int cols = ssh_message_channel_request_pty_width(m);
	int rows = ssh_message_channel_request_pty_height(m);

	q->cols = cols > 0 ? (uint32_t)cols : 0;
	q->rows = rows > 0 ? (uint32_t)rows : 0;
}

static bool set_pty(struct chan *x, ssh_message m)
{
	const char *term = ssh_message_channel_request_pty_term(m);
	struct sshw_msg q = { .kind = SSHW_PTY, .id = x->id };

	if (x->state != CHAN_NEW)
		return false;
	if (term && strlen(term) < sizeof(q.name))
		snprintf(q.name, sizeof(q.name), "%s", term);
	read_size(m, &q);
	if (!link_ask(x->c, &q, NULL, NULL))
		return false;
	x->has_pty = true;
	return true;
}

static bool resize(struct chan *x, ssh_message m)
{
	struct sshw_msg q = { .kind = SSHW_RESIZE, .id = x->id };

	if (!x->has_pty)
		return false;
	read_size(m, &q);
	link_tell(x->c, &q);
	return true;
}

static bool run(struct chan *x, enum sshw_run how, const char *text)
{
	struct sshw_msg q = { .kind = SSHW_RUN, .id = x->id, .run = (uint8_t)how };

	if (x->state != CHAN_NEW || !text || strlen(text) > SSHW_COMMAND_MAX)
		return false;
	q.command = (struct sshw_text){ text, strlen(text) };
	if (!link_ask(x->c, &q, NULL, &x->sock))
		return false;
	x->program = true;
	x->state = CHAN_OPEN;
	return true;
}

/*
 * OpenSSH's client sends "eow@openssh.com" when a command's output is no longer read; the library
 * reports it as unknown. That client sends nothing else that is unknown to a session without a
 * terminal. Closing the stream breaks the program's pipes.
 */
static void unknown(struct chan *x)
{
	const char *client = ssh_get_clientbanner(x->c->s);

	if (!client || !strstr(client, "-OpenSSH_") || x->has_pty || !x->program)
		return;
	ssh_channel_request_send_exit_signal(x->ch, "PIPE", 0, "", "");
	ssh_channel_close(x->ch);
	chan_over(x);
}

static void channel_request(struct conn *c, ssh_message m)
{
	struct chan *x = find(c, ssh_message_channel_request_channel(m));
	bool done = false;

	if (x && x->state != CHAN_OVER) {
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
			done = run(x, SSHW_SHELL, "");
			break;
		case SSH_CHANNEL_REQUEST_EXEC:
			done = run(x, SSHW_EXEC, ssh_message_channel_request_command(m));
			break;
		case SSH_CHANNEL_REQUEST_SUBSYSTEM:
			done = run(x, SSHW_SUBSYSTEM, ssh_message_channel_request_subsystem(m));
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
		refuse(c, m);
}

void session_message(struct conn *c, ssh_message m_consume)
{
	switch (ssh_message_type(m_consume)) {
	case SSH_REQUEST_CHANNEL_OPEN:
		if (ssh_message_subtype(m_consume) == SSH_CHANNEL_DIRECT_TCPIP) {
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
		forward_request(c, m_consume);
		break;
	default:
		ssh_message_reply_default(m_consume);
		break;
	}
	ssh_message_free(m_consume);
}
