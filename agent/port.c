/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c - the virtio-serial port: bytes in, bytes out, without blocking
 *
 * The port is polled edge-triggered: while nothing is connected on the host it
 * polls as readable for ever and read(2) returns 0, which only means "not now".
 * The driver wakes us when that changes. Reading stops while TX_STOP bytes wait
 * to be sent, so a host that sends requests but does not read cannot make us grow.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"

#define READS_PER_TURN 8 /* then output gets its turn */
#define PORT_EVENTS (EPOLLIN | EPOLLRDHUP | EPOLLET)

/* Polls for writing only while something waits; otherwise every write would wake us again. */
static void port_await_room(struct agent *a, bool await)
{
	struct epoll_event ev = { .events = PORT_EVENTS | (await ? EPOLLOUT : 0),
		                  .data.u64 = REF_PORT };

	if (a->awaits_room != await && epoll_ctl(a->ep, EPOLL_CTL_MOD, a->port, &ev) == 0)
		a->awaits_room = await;
}

int port_attach(struct agent *a, int fd_consume)
{
	struct epoll_event ev = { .events = PORT_EVENTS, .data.u64 = REF_PORT };
	autofd int fd = fd_consume;

	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	if (epoll_ctl(a->ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	a->port = TAKE_FD(fd);
	a->readable = a->writable = true;
	return 0;
}

void port_on_event(struct agent *a, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP | EPOLLERR))
		a->readable = true;
	if (events & EPOLLOUT) {
		a->writable = true;
		port_await_room(a, false);
	}
}

/* Out of sync. The zero bytes of a flush are expected, anything else is logged. */
static void port_lost(struct agent *a)
{
	bool flush = a->rx.start < a->rx.end && a->rx.buf[a->rx.start] == 0;

	agent_rx_hunt(&a->rx, HUNTED);
	buf_reset(&a->open);
	a->open_id = 0;
	if (flush)
		return;
	log_warn("the channel lost sync, waiting for the host's greeting");
	a->greeted = false;
	stream_orphan_all(a);
	hello_ready(a, AGENT_READY_LOST);
}

static void port_dispatch(struct agent *a)
{
	struct agent_frame f;
	int r;

	while (port_queued(a) <= TX_STOP && (r = agent_rx_next(&a->rx, &f)) != 0) {
		if (r < 0) {
			port_lost(a);
			continue;
		}
		if (f.type == AGENT_F_HELLO) {
			bool hunting = a->rx.wanted != 0;

			if (hello_receive(a, &f) && hunting)
				agent_rx_accept(&a->rx);
			continue;
		}
		if (a->rx.wanted) { /* in front of the HELLO: who greets whom; anything else is old
			             */
			if (!f.stream && f.flags == AGENT_WHO_CHAN)
				self_on_who(a, &f);
			continue;
		}
		stream_on_frame(a, &f);
	}
}

bool port_receive(struct agent *a)
{
	port_dispatch(a); /* frames that were left when the queue was full */
	for (int i = 0; i < READS_PER_TURN && a->readable; i++) {
		size_t room;
		uint8_t *p;
		ssize_t n;

		if (port_queued(a) > TX_STOP)
			return false; /* continues when the queue has drained */
		p = agent_rx_space(&a->rx, &room);
		n = read(a->port, p, room);
		if (n > 0) {
			agent_rx_added(&a->rx, (size_t)n);
			port_dispatch(a);
		} else if (n == 0) {
			a->readable = false; /* no host at the moment */
			a->quit = a->port_is_sock;
		} else if (errno != EINTR) {
			a->readable = false;
			if (errno != EAGAIN) {
				log_error("read the port: %m");
				a->quit = true;
			}
		}
	}
	return a->readable;
}

size_t port_queued(const struct agent *a)
{
	return a->tx.len - a->tx_off;
}

void port_drop_queue(struct agent *a)
{
	buf_reset(&a->tx);
	a->tx_off = 0;
}

void port_flush(struct agent *a)
{
	while (a->writable && port_queued(a)) {
		ssize_t n = write(a->port, a->tx.p + a->tx_off, port_queued(a));

		if (n > 0) {
			a->tx_off += (size_t)n;
		} else if (n < 0 && errno != EINTR) {
			a->writable = false;
			if (errno != EAGAIN && a->port_is_sock)
				a->quit = true; /* the test is over */
			else if (errno != EAGAIN)
				log_warn("write to the port: %m");
			port_await_room(a, true);
		}
	}
	if (!port_queued(a)) {
		port_drop_queue(a);
	} else if (a->tx_off > a->tx.len / 2) {
		memmove(a->tx.p, a->tx.p + a->tx_off, port_queued(a));
		a->tx.len -= a->tx_off;
		a->tx_off = 0;
	}
}

void port_send(struct agent *a, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
               size_t n)
{
	agent_frame_put(&a->tx, type, flags, stream, p, n);
	if (!a->tx.failed)
		return;
	log_error("out of memory, dropping the connection");
	port_drop_queue(a);
	a->greeted = false;
	stream_orphan_all(a);
	agent_rx_hunt(&a->rx, HUNTED);
	if (a->tx.cap >= AGENT_HDR_LEN + AGENT_HELLO_MAX + AGENT_TAIL_LEN) /* no need to allocate */
		hello_ready(a, AGENT_READY_LOST);
}
