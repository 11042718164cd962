/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan.c - copies bytes between a channel's stream and a flow of the guest, or one of Git's
 * programs
 *
 * The stream's other end is in pando-ssh (wire/ssh.h). Each direction buffers at most one frame
 * here: no more is taken from the guest until the stream has taken the last one, and nothing from
 * the stream until the guest has. The two directions end independently. A program's end is reported
 * when all its output has been passed on.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "git/git.h"
#include "ssh/ssh_internal.h"

#define EXIT_FAILED 255 /* as OpenSSH's client: the connection failed, not the program */
#define CLOSED_MS 10000 /* for the guest to accept what a client sent before it closed */

struct chan *chan_new(struct conn *c, uint32_t id)
{
	struct chan *x;

	if (c->n_chans == SSHD_CHANNELS_MAX)
		conn_turn(c); /* one may have just ended */
	x = c->n_chans < SSHD_CHANNELS_MAX ? calloc(1, sizeof(*x)) : NULL;
	if (!x)
		return NULL;
	x->c = c;
	x->id = id;
	x->sock = -1;
	c->chans[c->n_chans++] = x;
	atomic_fetch_add(&c->d->n_channels, 1);
	return x;
}

struct chan *chan_find(struct conn *c, uint32_t id)
{
	for (size_t i = 0; i < c->n_chans; i++)
		if (c->chans[i]->id == id)
			return c->chans[i];
	return NULL;
}

void chan_free(struct chan *x)
{
	guest_flow_close(x->f);
	if (x->talk) {
		talk_free(x->talk, /* now= */ x->c->leave);
		sshd_door_talk_over(x->c);
	}
	if (x->sock >= 0)
		close(x->sock);
	for (size_t i = 0; i < x->n_env; i++)
		free(x->env[i]);
	buf_done(&x->in);
	buf_done(&x->out);
	buf_done(&x->end);
	buf_done(&x->answer);
	atomic_fetch_sub(&x->c->d->n_channels, 1);
	free(x);
}

void chan_over(struct chan *x)
{
	x->state = CHAN_OVER;
}

int chan_stream(struct chan *x)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &(int){ SSHW_STREAM_BYTES },
		           sizeof(int));
	if (x->sock >= 0)
		close(x->sock);
	x->sock = pair[0];
	return pair[1];
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

static ssize_t behind_read(struct chan *x, int *ret_chan, size_t n, struct err *err)
{
	if (x->talk)
		return talk_read(x->talk, ret_chan, x->c->chunk, n);
	return guest_flow_read(x->f, ret_chan, x->c->chunk, n, err);
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

static void put_frame(struct chan *x, struct buf *b, enum sshw_frame_kind kind, const void *p,
                      size_t n)
{
	buf_reset(b);
	buf_put_u8(b, (uint8_t)kind);
	buf_put(b, p, n);
	if (b->failed)
		conn_end(x->c, "out of memory");
}

static void put_text(struct chan *x, enum sshw_frame_kind kind, const char *text)
{
	put_frame(x, &x->out, kind, text, MIN(strlen(text), SSHW_CHUNK));
}

static void put_exit(struct chan *x, uint8_t status)
{
	put_frame(x, &x->end, SSHW_EXIT, &status, 1);
}

void chan_last(struct chan *x, enum sshw_frame_kind to, uint8_t status, const char *text)
{
	put_text(x, to, text);
	put_exit(x, status);
	x->state = CHAN_LAST;
}

static void tell_exit(struct chan *x)
{
	struct guest_exec_result res = { 0 };
	struct err err = { 0 };
	const char *name;
	char text[sizeof(err.msg) + 16];

	if (x->talk) {
		put_exit(x, (uint8_t)talk_status(x->talk));
		return;
	}
	if (guest_run_result(x->f, &res, &err) < 0) {
		snprintf(text, sizeof(text), "pando: %s%s", err.msg, x->has_pty ? "\r\n" : "\n");
		chan_last(x, SSHW_ERR, EXIT_FAILED, text);
		return;
	}
	name = res.signal ? signal_name(res.signal) : NULL;
	if (name)
		put_frame(x, &x->end, SSHW_KILLED, name, strlen(name));
	else
		put_exit(x, (uint8_t)res.exit_code);
}

/* Sends the frame; false if it cannot now. One that nobody will take is dropped. */
static bool send_frame(struct chan *x, struct buf *b)
{
	ssize_t k;

	if (!b->len)
		return true;
	do
		k = send(x->sock, b->p, b->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (k < 0 && errno == EINTR);
	if (k < 0 && (errno == EAGAIN || errno == ENOBUFS))
		return false;
	buf_reset(b);
	return true;
}

/* The remaining output, then the end: the stream is closed. */
static void say_last(struct chan *x)
{
	if (send_frame(x, &x->out) && send_frame(x, &x->end))
		chan_over(x);
}

static bool move_out(struct chan *x)
{
	struct err err = { 0 };
	int from = 1;
	ssize_t n;

	if (!send_frame(x, &x->out))
		return false;
	n = behind_read(x, &from, SSHD_CHUNK, &err);
	if (n > 0) {
		x->given += (size_t)n;
		put_frame(x, &x->out, from == 2 ? SSHW_ERR : SSHW_DATA, x->c->chunk, (size_t)n);
		send_frame(x, &x->out);
		return true;
	}
	if (n == -ENODATA) { /* all of its output was passed on */
		x->state = CHAN_LAST;
		if (x->program)
			tell_exit(x);
		say_last(x);
	} else if (n < 0) {
		x->c->look_at = 0; /* the machine has ended: the next check finds out how */
	} else if (!x->program && !x->out_eof && behind_eof(x)) {
		put_frame(x, &x->out, SSHW_EOF, NULL, 0);
		send_frame(x, &x->out);
		x->out_eof = true;
	}
	return false;
}

/* ---- from the client ---- */

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

static void take_frame(struct chan *x, size_t n)
{
	struct sshw_frame f;

	if (sshw_frame_decode(x->c->chunk, n, SSHW_CHILD, &f) < 0 || x->in_eof) {
		link_broken(x->c, "a frame of %zu bytes that makes no sense", n);
		return;
	}
	if (f.kind == SSHW_EOF) {
		x->in_eof = true;
		behind_feed_end(x);
		return;
	}
	buf_put(&x->in, f.p, f.n);
	if (x->in.failed)
		conn_end(x->c, "out of memory");
	feed(x);
}

static bool move_in(struct chan *x)
{
	ssize_t n;

	if (!feed(x)) {
		if (x->closed && (x->program || clock_ms() >= x->deadline))
			chan_over(x);
		return false;
	}
	do /* a peer that closed with unread data is an error first; what it sent is still there */
		n = recv(x->sock, x->c->chunk, SSHW_FRAME_MAX, MSG_DONTWAIT | MSG_TRUNC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n > 0)
		take_frame(x, (size_t)n);
	else if (n == 0)
		chan_over(x); /* closing the flow hangs up */
	return n > 0;
}

short chan_events(const struct chan *x)
{
	return (short)((x->state == CHAN_OPEN && x->in_off == x->in.len ? POLLIN : 0) |
	               (x->out.len || x->end.len ? POLLOUT : 0));
}

void chan_hung_up(struct chan *x)
{
	x->closed = true;
	if (!x->talk)
		x->deadline = deadline_in(CLOSED_MS);
	if (x->state == CHAN_LAST)
		chan_over(x);
}

bool chan_turn(struct chan *x)
{
	bool moved;

	if (x->c->gone)
		return false;
	behind_seen(x);
	switch (x->state) {
	case CHAN_RESOLVING:
	case CHAN_DIALING:
		direct_turn(x);
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
	if (x->state != CHAN_OPEN)
		return moved;
	moved |= move_out(x);
	if (x->talk && x->state == CHAN_OPEN)
		repo_look(x, moved);
	return moved;
}
