/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan.c - copies bytes between a channel of the client and its stream to pandod
 *
 * Each direction buffers at most one frame here. A frame is taken from the stream when the last one
 * has gone into the client's window, and not while earlier bytes still wait for the socket; nothing
 * is taken from the client until pandod has taken the last frame. The two directions end
 * independently.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "sshmain/sshmain.h"

struct chan *chan_new(struct conn *c, uint32_t id)
{
	struct chan *x = c->n_chans < SSHW_CHANNELS_MAX ? calloc(1, sizeof(*x)) : NULL;

	if (!x)
		return NULL;
	x->c = c;
	x->id = id;
	x->sock = -1;
	c->chans[c->n_chans++] = x;
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
	if (x->sock >= 0)
		close(x->sock);
	else if (!x->asked && !x->c->over)
		link_tell(x->c, &(struct sshw_msg){ .kind = SSHW_CLOSE, .id = x->id });
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
	buf_done(&x->in);
	buf_done(&x->out);
	free(x->cb);
	free(x);
}

void chan_over(struct chan *x)
{
	x->state = CHAN_OVER;
}

void chan_say(struct chan *x, const char *text)
{
	char line[SSHW_TEXT_SIZE + 32];
	int n = snprintf(line, sizeof(line), "%s%s", text, x->has_pty ? "\r\n" : "\n");

	if (chan_write(x, /* to_stderr= */ true, line, 1) == 1)
		chan_write(x, /* to_stderr= */ true, line + 1, (uint32_t)n - 1);
}

short chan_events(const struct chan *x)
{
	bool waits = x->out_off < x->out.len || conn_write_waits(x->c);

	if (x->state != CHAN_OPEN)
		return 0;
	return (short)((waits ? 0 : POLLIN) | (x->in.len ? POLLOUT : 0));
}

/* ---- to the client ---- */

/* Sends what waits for the client; false if it cannot continue now. */
static bool flush(struct chan *x)
{
	while (x->out_off < x->out.len) {
		const uint8_t *p = x->out.p + x->out_off;
		uint32_t n = (uint32_t)(x->out.len - x->out_off);
		int k = chan_write(x, x->out_err, p, n);

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

static void send_eof(struct chan *x)
{
	if (!x->out_eof)
		ssh_channel_send_eof(x->ch);
	x->out_eof = true;
}

/* The program or the connection has ended. */
static void ended(struct chan *x)
{
	send_eof(x);
	ssh_channel_close(x->ch);
	chan_over(x);
}

static void take_frame(struct chan *x, size_t n)
{
	struct sshw_frame f;

	if (sshw_frame_decode(x->c->chunk, n, SSHW_HOST, &f) < 0) {
		log_error("a frame of %zu bytes that makes no sense", n);
		_exit(1);
	}
	switch (f.kind) {
	case SSHW_DATA:
	case SSHW_ERR:
		x->out_err = f.kind == SSHW_ERR;
		buf_put(&x->out, f.p, f.n);
		if (x->out.failed)
			conn_end(x->c, "out of memory");
		flush(x);
		break;
	case SSHW_EOF:
		send_eof(x);
		break;
	case SSHW_EXIT:
		ssh_channel_request_send_exit_status(x->ch, f.status);
		ended(x);
		break;
	case SSHW_KILLED:
		ssh_channel_request_send_exit_signal(x->ch, f.name, 0, "", "");
		ended(x);
		break;
	}
}

static bool move_out(struct chan *x)
{
	ssize_t n;

	if (!flush(x) || conn_write_waits(x->c))
		return false;
	do /* pandod closed it with something unread: an error first, then what it sent */
		n = recv(x->sock, x->c->chunk, sizeof(x->c->chunk), MSG_DONTWAIT);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n > 0)
		take_frame(x, (size_t)n);
	else if (n == 0)
		ended(x);
	return n > 0 && !x->c->broken;
}

/* ---- from the client ---- */

/* False: pandod takes no more now. */
static bool send_frame(struct chan *x)
{
	ssize_t k;

	if (!x->in.len)
		return true;
	do
		k = send(x->sock, x->in.p, x->in.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (k < 0 && errno == EINTR);
	if (k < 0 && (errno == EAGAIN || errno == ENOBUFS))
		return false;
	buf_reset(&x->in); /* if it was closed: the other direction says so */
	return true;
}

static void put_frame(struct chan *x, enum sshw_frame_kind kind, const void *p, size_t n)
{
	buf_put_u8(&x->in, (uint8_t)kind);
	buf_put(&x->in, p, n);
	if (x->in.failed)
		conn_end(x->c, "out of memory");
	send_frame(x);
}

static bool move_in(struct chan *x)
{
	int n;

	if (!send_frame(x)) {
		n = ssh_channel_poll(x->ch, 0);
		x->c->held += n > 0 ? (size_t)n : 0;
		return false;
	}
	if (x->in_eof)
		return false;
	n = ssh_channel_read_nonblocking(x->ch, x->c->chunk, SSHW_CHUNK, 0);
	if (n > 0) {
		put_frame(x, SSHW_DATA, x->c->chunk, (size_t)n);
		return true;
	}
	if (n == SSH_EOF || ssh_channel_is_eof(x->ch)) {
		x->in_eof = true;
		put_frame(x, SSHW_EOF, NULL, 0);
	}
	return false;
}

bool chan_turn(struct chan *x)
{
	bool moved;

	if (x->c->broken)
		return false;
	switch (x->state) {
	case CHAN_DIALED:
		direct_turn(x);
		return false;
	case CHAN_KNOCKING:
		forward_turn(x);
		return false;
	case CHAN_NEW:
		if (ssh_channel_is_closed(x->ch))
			chan_over(x);
		return false;
	case CHAN_OPEN:
		break;
	default:
		return false;
	}
	moved = move_in(x);
	if (!x->in.len && ssh_channel_is_closed(x->ch)) {
		chan_over(x); /* closing the stream hangs up */
		return moved;
	}
	return move_out(x) || moved;
}
