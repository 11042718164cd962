/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan.c - copies bytes between a channel of the client and a flow of the guest, or one of Git's
 * programs
 *
 * Each direction buffers at most one chunk here. No more is taken from the guest than the client's
 * window has room for, and nothing while earlier bytes still wait for the socket; nothing is taken
 * from the client until the guest has accepted the last chunk. The two directions end
 * independently. A program's end is reported when all its output has been passed on.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "git/git.h"
#include "ssh/ssh_internal.h"

#define EXIT_FAILED 255 /* as OpenSSH's client: the connection failed, not the program */

struct chan *chan_new(struct conn *c)
{
	struct chan *x = c->n_chans < SSHD_CHANNELS_MAX ? calloc(1, sizeof(*x)) : NULL;

	if (!x)
		return NULL;
	x->c = c;
	c->chans[c->n_chans++] = x;
	atomic_fetch_add(&c->d->n_channels, 1);
	return x;
}

void chan_free(struct chan *x)
{
	guest_flow_close(x->f);
	if (x->talk) {
		talk_free(x->talk, /* now= */ x->c->leave);
		sshd_door_talk_over(x->c);
	}
	if (x->asked) {
		if (!x->c->broken)
			ssh_message_reply_default(x->asked);
		ssh_message_free(x->asked);
	}
	if (x->ch && !x->c->broken) {
		if (x->cb)
			ssh_remove_channel_callbacks(x->ch, x->cb);
		ssh_channel_free(x->ch); /* closes it, and waits by itself for the client's close */
	}
	for (size_t i = 0; i < x->n_env; i++)
		free(x->env[i]);
	buf_done(&x->in);
	buf_done(&x->out);
	buf_done(&x->answer);
	atomic_fetch_sub(&x->c->d->n_channels, 1);
	free(x->cb);
	free(x);
}

void chan_over(struct chan *x)
{
	x->state = CHAN_OVER;
}

void chan_say(struct chan *x, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 2, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n = MIN(n, (int)sizeof(text) - 3);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "%s", x->has_pty ? "\r\n" : "\n");
	if (chan_write(x, /* to_stderr= */ true, text, 1) == 1)
		chan_write(x, /* to_stderr= */ true, text + 1, (uint32_t)n - 1);
}

/* ---- what is behind it: a flow or a talk ---- */

int chan_fd(const struct chan *x)
{
	return x->talk ? talk_fd(x->talk) : guest_flow_fd(x->f);
}

static void behind_seen(struct chan *x)
{
	if (x->talk)
		talk_seen(x->talk);
	else if (x->f)
		guest_flow_seen(x->f);
}

static ssize_t behind_read(struct chan *x, size_t n, struct err *err)
{
	if (x->talk)
		return talk_read(x->talk, &x->out_chan, x->c->chunk, n);
	return guest_flow_read(x->f, &x->out_chan, x->c->chunk, n, err);
}

/* Nothing more will come except a program's exit status. */
static bool behind_eof(struct chan *x)
{
	if (x->talk)
		return talk_eof(x->talk);
	return guest_flow_eof(x->f, 1) && (!x->program || guest_flow_eof(x->f, 2));
}

static ssize_t behind_feed(struct chan *x, const void *p, size_t n)
{
	ssize_t k;

	if (!x->talk)
		return guest_flow_feed(x->f, p, n, NULL);
	k = talk_feed(x->talk, p, n);
	return k < 0 ? (ssize_t)n : k; /* Git has read enough: the rest is dropped */
}

static void behind_feed_end(struct chan *x)
{
	if (x->talk)
		talk_feed_end(x->talk);
	else
		guest_flow_feed_eof(x->f, NULL);
}

/* ---- to the client ---- */

static void tell_exit(struct chan *x)
{
	struct guest_exec_result res = { 0 };
	struct err err = { 0 };
	const char *name;

	if (x->talk) {
		ssh_channel_request_send_exit_status(x->ch, talk_status(x->talk));
		return;
	}
	if (guest_run_result(x->f, &res, &err) < 0) {
		chan_say(x, "pando: %s", err.msg);
		ssh_channel_request_send_exit_status(x->ch, EXIT_FAILED);
		return;
	}
	name = res.signal ? signal_name(res.signal) : NULL;
	if (name)
		ssh_channel_request_send_exit_signal(x->ch, name, 0, "", "");
	else
		ssh_channel_request_send_exit_status(x->ch, res.exit_code);
}

/* All of its output was passed on. */
static void ended(struct chan *x)
{
	if (x->program)
		tell_exit(x);
	if (!x->out_eof)
		ssh_channel_send_eof(x->ch);
	x->out_eof = true;
	ssh_channel_close(x->ch);
	chan_over(x);
}

/* Sends what waits for the client; false if it cannot continue now. */
static bool flush(struct chan *x)
{
	while (x->out_off < x->out.len) {
		const uint8_t *p = x->out.p + x->out_off;
		uint32_t n = (uint32_t)(x->out.len - x->out_off);
		int k = chan_write(x, x->out_chan == 2, p, n);

		if (k < 0 && k != SSH_AGAIN) { /* the client no longer accepts data */
			x->out_off = x->out.len;
			break;
		}
		if (k <= 0)
			return false;
		x->out_off += (size_t)k;
	}
	buf_reset(&x->out);
	x->out_off = 0;
	return true;
}

static bool move_out(struct chan *x)
{
	uint32_t room;
	struct err err = { 0 };
	ssize_t n;

	if (!flush(x) || conn_write_waits(x->c))
		return false;
	room = ssh_channel_window_size(x->ch);
	if (!room && !behind_eof(x))
		return false; /* the end needs no window */
	n = behind_read(x, MIN(room, SSHD_CHUNK), &err);
	if (n > 0) {
		x->given += (size_t)n;
		buf_put(&x->out, x->c->chunk, (size_t)n);
		if (x->out.failed)
			conn_end(x->c, "out of memory");
		flush(x);
		return !x->c->broken;
	}
	if (n == -ENODATA)
		ended(x);
	else if (n < 0)
		x->c->look_at = 0; /* the machine has ended: the next check finds out how */
	else if (!x->program && !x->out_eof && behind_eof(x)) {
		ssh_channel_send_eof(x->ch);
		x->out_eof = true;
	}
	return false;
}

/* Passes on what the guest has not accepted yet; false if it accepts no more now. */
static bool feed(struct chan *x)
{
	while (x->in_off < x->in.len) {
		ssize_t k = behind_feed(x, x->in.p + x->in_off, x->in.len - x->in_off);

		if (k < 0)
			x->c->look_at = 0;
		if (k <= 0)
			return false;
		x->in_off += (size_t)k;
	}
	buf_reset(&x->in);
	x->in_off = 0;
	return true;
}

static bool move_in(struct chan *x)
{
	int n;

	if (x->in_eof)
		return false;
	if (!feed(x)) {
		n = ssh_channel_poll(x->ch, 0);
		x->c->held += n > 0 ? (size_t)n : 0;
		return false;
	}
	n = ssh_channel_read_nonblocking(x->ch, x->c->chunk, SSHD_CHUNK, 0);
	if (n > 0) {
		buf_put(&x->in, x->c->chunk, (size_t)n);
		if (x->in.failed)
			conn_end(x->c, "out of memory");
		feed(x);
		return true;
	}
	if (n == SSH_EOF || ssh_channel_is_eof(x->ch)) {
		x->in_eof = true;
		behind_feed_end(x);
	}
	return false;
}

/* The remaining output, then the end. */
static void say_last(struct chan *x)
{
	if (ssh_channel_is_closed(x->ch)) {
		chan_over(x);
		return;
	}
	if (!flush(x))
		return;
	ssh_channel_request_send_exit_status(x->ch, x->status);
	ssh_channel_send_eof(x->ch);
	ssh_channel_close(x->ch);
	chan_over(x);
}

bool chan_turn(struct chan *x)
{
	bool moved;

	if (x->c->broken)
		return false;
	behind_seen(x);
	switch (x->state) {
	case CHAN_RESOLVING:
	case CHAN_DIALING:
		direct_turn(x);
		return false;
	case CHAN_KNOCKING:
		forward_knock(x);
		return false;
	case CHAN_NEW:
		if (ssh_channel_is_closed(x->ch))
			chan_over(x);
		return false;
	case CHAN_LAST:
		say_last(x);
		return false;
	case CHAN_OPEN:
		break;
	default:
		return false;
	}
	moved = move_in(x);
	if (ssh_channel_is_closed(x->ch)) {
		chan_over(x); /* closing the flow hangs up */
		return moved;
	}
	moved |= move_out(x);
	if (x->talk)
		repo_look(x, moved);
	return moved;
}
