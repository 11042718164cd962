/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ws.c - wslay on a nonblocking socket
 *
 * A message of unknown length is sent as fragments: wslay asks for the next bytes
 * when it can send, and gets what is there. A client can make us buffer at most one
 * message of WS_MESSAGE_MAX; what we buffer for a client is bounded by the owner, which
 * checks ws_queued() before adding more.
 */
#include "pty/ws.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"

struct ws {
	int fd; /* the caller's */
	struct wslay_event_context *ctx;
	ws_message_fn on_message;
	void *owner;
	struct buf early;
	size_t early_off;
	struct buf part; /* of the message being sent in parts */
	size_t part_off;
	bool in_parts, last_part;
	uint16_t close_code;      /* 0: do not send one */
	const char *close_reason; /* static storage */
	bool full;                /* the socket accepts no more */
	bool ended;               /* the client's side is gone */
	uint64_t heard_ms;
};

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *p, size_t n, int flags, void *user)
{
	struct ws *w = user;
	size_t early = w->early.len - w->early_off;
	ssize_t k;

	if (early) {
		n = MIN(n, early);
		memcpy(p, w->early.p + w->early_off, n);
		w->early_off += n;
		return (ssize_t)n;
	}
	do {
		k = recv(w->fd, p, n, MSG_DONTWAIT);
	} while (k < 0 && errno == EINTR);
	if (k > 0) {
		w->heard_ms = clock_ms();
		return k;
	}
	if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	w->ended = true;
	wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *p, size_t n, int flags,
                       void *user)
{
	struct ws *w = user;
	int more = flags & WSLAY_MSG_MORE ? MSG_MORE : 0;
	ssize_t k;

	do {
		k = send(w->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL | more);
	} while (k < 0 && errno == EINTR);
	if (k >= 0)
		return k;
	w->full = errno == EAGAIN || errno == EWOULDBLOCK;
	w->ended |= !w->full;
	wslay_event_set_error(ctx, w->full ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static void on_msg(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                   void *user)
{
	struct ws *w = user;

	if (m->opcode == WSLAY_TEXT_FRAME || m->opcode == WSLAY_BINARY_FRAME)
		w->on_message(w->owner, m->opcode == WSLAY_TEXT_FRAME, m->msg, m->msg_length);
}

/* The next bytes of the message in parts; 0 without the end: not yet. */
static ssize_t on_part(wslay_event_context_ptr ctx, uint8_t *p, size_t n,
                       const union wslay_event_msg_source *source, int *eof, void *user)
{
	struct ws *w = source->data;
	size_t left = w->part.len - w->part_off;

	n = MIN(n, left);
	if (n)
		memcpy(p, w->part.p + w->part_off, n);
	w->part_off += n;
	if (n == left) {
		buf_reset(&w->part);
		w->part_off = 0;
		*eof = w->last_part;
		w->in_parts = !w->last_part;
	}
	return (ssize_t)n;
}

struct ws *ws_new(int fd, const void *early, size_t n_early, ws_message_fn on_message, void *ctx)
{
	static const struct wslay_event_callbacks calls = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.on_msg_recv_callback = on_msg,
	};
	struct ws *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = fd;
	w->on_message = on_message;
	w->owner = ctx;
	w->heard_ms = clock_ms();
	buf_put(&w->early, early, n_early);
	if (w->early.failed || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
	    wslay_event_context_server_init(&w->ctx, &calls, w) != 0)
		return ws_free(w);
	wslay_event_config_set_max_recv_msg_length(w->ctx, WS_MESSAGE_MAX);
	return w;
}

struct ws *ws_free(struct ws *w)
{
	if (!w)
		return NULL;
	if (w->ctx)
		wslay_event_context_free(w->ctx);
	buf_done(&w->early);
	buf_done(&w->part);
	free(w);
	return NULL;
}

static int queue(struct ws *w, uint8_t opcode, const void *p, size_t n)
{
	struct wslay_event_msg m = { .opcode = opcode, .msg = p, .msg_length = n };
	int r = wslay_event_queue_msg(w->ctx, &m);

	return r == 0 ? 0 : r == WSLAY_ERR_NOMEM ? -ENOMEM : -EPIPE;
}

int ws_text(struct ws *w, const char *p, size_t n)
{
	return queue(w, WSLAY_TEXT_FRAME, p, n);
}

int ws_binary(struct ws *w, const uint8_t *p, size_t n)
{
	return queue(w, WSLAY_BINARY_FRAME, p, n);
}

int ws_ping(struct ws *w)
{
	return queue(w, WSLAY_PING, NULL, 0);
}

int ws_part(struct ws *w, const uint8_t *p, size_t n, bool last)
{
	struct wslay_event_fragmented_msg m = { .opcode = WSLAY_BINARY_FRAME,
		                                .source.data = w,
		                                .read_callback = on_part };

	buf_put(&w->part, p, n);
	if (w->part.failed)
		return -ENOMEM;
	w->last_part = last;
	if (w->in_parts)
		return 0;
	w->in_parts = true;
	return wslay_event_queue_fragmented_msg(w->ctx, &m) == 0 ? 0 : -EPIPE;
}

/* wslay would send the close frame before pending data: it is queued when there is none. */
int ws_close(struct ws *w, enum ws_code code, const char *reason)
{
	w->close_code = (uint16_t)code;
	w->close_reason = reason;
	w->last_part = true; /* an unfinished message ends here */
	return 0;
}

static int close_now(struct ws *w)
{
	uint16_t code = w->close_code;

	if (!code || w->in_parts || wslay_event_get_queued_msg_count(w->ctx))
		return 0;
	w->close_code = 0;
	return wslay_event_queue_close(w->ctx, code, (const uint8_t *)w->close_reason,
	                               strlen(w->close_reason));
}

size_t ws_queued(const struct ws *w)
{
	return wslay_event_get_queued_msg_length(w->ctx) + w->part.len - w->part_off;
}

short ws_events(const struct ws *w, bool want_read)
{
	short e = w->full && wslay_event_want_write(w->ctx) ? POLLOUT : 0;

	return (short)(e | (want_read && wslay_event_want_read(w->ctx) ? POLLIN : 0));
}

int ws_move(struct ws *w, bool want_read)
{
	if (want_read && wslay_event_want_read(w->ctx) && wslay_event_recv(w->ctx) != 0)
		return -EPIPE;
	w->full = false;
	if (wslay_event_want_write(w->ctx) && wslay_event_send(w->ctx) != 0)
		return -EPIPE;
	if (close_now(w) != 0 ||
	    (wslay_event_want_write(w->ctx) && !w->full && wslay_event_send(w->ctx) != 0))
		return -EPIPE;
	if (w->ended)
		return -EPIPE;
	if (!wslay_event_want_read(w->ctx) && !wslay_event_want_write(w->ctx))
		return -ENOTCONN;
	return 0;
}

uint64_t ws_heard_ms(const struct ws *w)
{
	return w->heard_ms;
}
