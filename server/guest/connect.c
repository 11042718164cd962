/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c - a TCP connection inside the guest, as a local socket
 *
 * The caller gets one end of a socketpair; a relay thread joins the other end to
 * the stream. Each direction ends on its own. Nothing is kept beyond the window:
 * the guest gets credit when the caller's side took the bytes, and the caller's
 * side is only read when the guest gave credit.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

#define RELAY_LINGER_MS 10000 /* for the guest to take the last bytes of a caller that is gone */

struct relay {
	struct guest *g;  /* held */
	struct stream *s; /* owned */
	int fd;           /* owned; our end of the pair */
	struct buf out;   /* from the guest, not yet written */
	size_t out_off;
	bool in_ended;  /* the caller's side reached its end */
	bool out_ended; /* ditto the guest's, and it was passed on */
	bool hup;       /* the caller closed its end: the reader is gone */
	uint8_t chunk[GUEST_CHUNK];
};

static void relay_free(struct relay *x)
{
	struct guest *g = x->g;

	stream_close(x->s);
	close(x->fd);
	buf_done(&x->out);
	free(x);
	guest_drop(g);
}

/* The caller's bytes to the guest, as far as credit goes. -errno: it is over. */
static int relay_in(struct relay *x)
{
	ssize_t n = recv(x->fd, x->chunk, stream_room(x->s, GUEST_CHUNK), MSG_DONTWAIT);

	if (n > 0)
		return stream_send(x->s, x->chunk, (size_t)n, GUEST_NEVER, NULL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return -errno;
	x->in_ended = true;
	return stream_send_eof(x->s, GUEST_NEVER, NULL);
}

static int relay_out(struct relay *x)
{
	ssize_t n = send(x->fd, x->out.p + x->out_off, x->out.len - x->out_off,
	                 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno == EPIPE) {
		x->hup = true;
		return 0;
	}
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	x->out_off += (size_t)n;
	return stream_consumed(x->s, AGENT_OUT, (size_t)n, NULL);
}

struct view {
	bool credit, eof, done, dead;
};

static struct view relay_look(struct relay *x)
{
	struct stream *s = x->s;
	LOCK_SCOPE(&x->g->lock);

	return (struct view){ .credit = s->tx_credit > 0,
		              .eof = s->rx[AGENT_OUT].eof && !s->rx[AGENT_OUT].b.len,
		              .done = s->done && !s->rx[AGENT_OUT].b.len,
		              .dead = x->g->dead && !s->done };
}

/* What came from the guest: pass it on, or drop it if the caller is gone. 1: the end. */
static int relay_turn(struct relay *x, struct view *ret)
{
	if (x->out_off == x->out.len) {
		x->out_off = 0;
		stream_take(x->s, AGENT_OUT, &x->out);
	}
	*ret = relay_look(x);
	if (x->hup && x->out.len) {
		x->out_off = x->out.len;
		return stream_consumed(x->s, AGENT_OUT, x->out.len, NULL);
	}
	if (ret->dead || (!x->out.len && ret->done))
		return 1;
	if (!x->out.len && ret->eof && !x->out_ended) {
		x->out_ended = true;
		shutdown(x->fd, SHUT_WR);
	}
	return 0;
}

static void *relay_main(void *arg)
{
	struct relay *x = arg;
	uint64_t linger = GUEST_NEVER;
	int r = 0;

	while (r == 0) {
		struct pollfd p[2] = { { .fd = x->s->event_fd, .events = POLLIN },
			               { .fd = x->hup ? -1 : x->fd } };
		struct view v;
		eventfd_t e;
		int n;

		eventfd_read(x->s->event_fd, &e); /* before looking: what comes later wakes us */
		r = relay_turn(x, &v);
		if (r != 0)
			break;
		if (x->hup && !x->in_ended && v.credit) {
			r = relay_in(x); /* what the caller left behind when it went */
			continue;
		}
		if (x->hup && x->in_ended && linger == GUEST_NEVER)
			linger = deadline_in(RELAY_LINGER_MS);
		if (x->out_off < x->out.len)
			p[1].events |= POLLOUT;
		if (!x->in_ended && v.credit)
			p[1].events |= POLLIN;
		n = poll(p, 2, linger == GUEST_NEVER ? -1 : deadline_left(linger));
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		if (n < 0)
			continue;
		x->hup |= (p[1].revents & (POLLHUP | POLLERR)) != 0;
		if (p[1].revents & POLLOUT && !x->hup)
			r = relay_out(x);
		if (r == 0 && (p[1].revents & POLLIN))
			r = relay_in(x);
	}
	relay_free(x);
	return NULL;
}

static int relay_start(struct guest *g, struct stream *s, int fd, struct err *err)
{
	struct relay *x = calloc(1, sizeof(*x));
	pthread_attr_t at;
	pthread_t t;
	int r;

	if (!x)
		return err_set(err, -ENOMEM, "out of memory for a connection");
	x->g = g;
	x->s = s;
	x->fd = fd;
	guest_hold(g);
	pthread_attr_init(&at);
	pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &at, relay_main, x);
	pthread_attr_destroy(&at);
	if (r) {
		free(x);
		guest_drop(g);
		return err_sys(err, -r, "start a relay");
	}
	return 0;
}

int guest_connect(struct guest *g, uint16_t port, uint64_t deadline_ms, int *ret_fd,
                  struct err *err)
{
	autobuf struct buf req = { 0 };
	autostream struct stream *s = NULL;
	const uint8_t *body;
	int pair[2], r;
	size_t n;

	buf_put_u16(&req, AGENT_OP_CONNECT);
	buf_put_u16(&req, port);
	r = stream_open(g, &req, STREAM_EVENTS, deadline_ms, &s, err);
	if (r < 0)
		return r;
	r = stream_wait(s, STREAM_OPENED | STREAM_DONE, deadline_ms, err);
	if (r < 0)
		return r;
	if (!(r & STREAM_OPENED)) {
		r = stream_result(s, &body, &n, err);
		return r < 0 ? r : err_set(err, -EPROTO, "the guest sent a malformed reply");
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, -errno, "socketpair for port %u", port);
	r = relay_start(g, s, pair[1], err);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	TAKE_PTR(s);
	*ret_fd = pair[0];
	return 0;
}
