/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - client connections: sockets, TLS, deadlines
 *
 * Theory of operation: conn_run() is called whenever something may move. It finishes the TLS
 * handshake, then lets the protocol (h1_conn.c, h2_conn.c) move bytes until nothing moves, and
 * yields after a number of rounds. To end a connection, set `closing`: pending output is sent, our
 * end is shut down, and what the client still sends is read and discarded for a moment, so that it
 * sees the response and not a reset.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "edge/edge_internal.h"

#define LINGER_MS 2000
#define ROUNDS_MAX 16 /* of moving bytes before other connections get a turn */
#define READ_PIECE (16u << 10)

static void peer_name(const struct sockaddr_storage *sa, char *ret, size_t size)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;

	ret[0] = '\0';
	if (sa->ss_family == AF_INET)
		inet_ntop(AF_INET, &v4->sin_addr, ret, (socklen_t)size);
	else if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], ret, (socklen_t)size);
	else
		inet_ntop(AF_INET6, &v6->sin6_addr, ret, (socklen_t)size);
}

static void not_taken(struct worker *w, const struct handed *h)
{
	close(h->fd);
	free(h->guest);
	guard_leave(w->e->guard, h->client);
	w->n_conns--;
}

void conn_new(struct worker *w, const struct handed *h)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		not_taken(w, h);
		return;
	}
	c->io = (struct io){ .kind = IO_CLIENT, .fd = h->fd };
	c->w = w;
	c->tls = h->tls;
	c->shaken = !h->tls;
	c->client = h->client;
	c->guest = h->guest;
	c->moved_ms = c->sent_ms = c->busy_ms = w->now;
	c->deadline = w->now + w->e->conf.head_ms;
	peer_name(&h->peer, c->peer, sizeof(c->peer));
	if ((c->tls && tls_open(c) < 0) ||
	    worker_poll(w, &c->io, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0) {
		SSL_free(c->ssl);
		free(c);
		not_taken(w, h);
		return;
	}
	c->next = w->conns;
	if (w->conns)
		w->conns->prev = c;
	w->conns = c;
	atomic_fetch_add(&w->e->connections, 1);
	atomic_fetch_add(&w->e->open, 1);
}

void conn_close(struct conn *c)
{
	struct worker *w = c->w;

	if (c->dead)
		return;
	c->dead = true;
	if (c->h2)
		h2_close(c);
	else if (c->x)
		xchg_free(c->x);
	c->x = NULL;
	if (c->prev)
		c->prev->next = c->next;
	else
		w->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	w->n_conns--;
	atomic_fetch_sub(&w->e->open, 1);
	if (c->ssl && c->shaken && !c->lingering && !c->io.hup)
		(void)SSL_shutdown(c->ssl);
	worker_close_io(w, &c->io);
	guard_leave(w->e->guard, c->client);
	c->next = w->dead_conns;
	w->dead_conns = c;
}

void conn_free(struct conn *c)
{
	SSL_free(c->ssl);
	free(c->cert_name);
	free(c->guest);
	ebuf_done(&c->in);
	ebuf_done(&c->out);
	ebuf_done(&c->wire);
	free(c);
}

void conn_asks(const struct conn *c, const char *name, char ret[EDGE_HOST_SIZE])
{
	if (c->guest && *name)
		snprintf(ret, EDGE_HOST_SIZE, "%c%s", EDGE_INSIDE, name);
	else
		snprintf(ret, EDGE_HOST_SIZE, "%s", name);
}

bool conn_readable(const struct conn *c)
{
	return c->io.readable || (c->ssl && SSL_has_pending(c->ssl));
}

int conn_read(struct conn *c)
{
	uint8_t *p = ebuf_room(&c->in, READ_PIECE, EDGE_BUF + READ_PIECE);
	ssize_t n;

	if (!p)
		return 0;
	if (c->ssl) {
		n = tls_read(c, p, READ_PIECE);
		if (n <= 0)
			return (int)n;
	} else {
		n = recv(c->io.fd, p, READ_PIECE, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			c->io.readable = errno == EINTR;
			return 0;
		}
		if (n <= 0)
			return -1;
		if ((size_t)n < READ_PIECE && !c->io.ended)
			c->io.readable = false;
	}
	c->in.len += (size_t)n;
	c->moved_ms = c->w->now;
	return (int)n;
}

static int flushed(struct conn *c, int n)
{
	if (n > 0) {
		c->moved_ms = c->sent_ms = c->w->now;
		c->acked_known = false;
	}
	return n;
}

int conn_flush(struct conn *c)
{
	ssize_t n;

	if (!conn_unsent(c) || !c->io.writable)
		return 0;
	if (c->ssl)
		return flushed(c, tls_flush(c));
	n = send(c->io.fd, ebuf_at(&c->out), c->out.len, MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		c->io.writable = errno == EINTR;
		return 0;
	}
	if (n < 0)
		return -1;
	ebuf_take(&c->out, (size_t)n);
	return flushed(c, (int)n);
}

/* 1: done, 0: not yet, -1: broken. */
static int handshake(struct conn *c)
{
	const unsigned char *alpn = NULL;
	unsigned n = 0;
	int r = tls_handshake(c);

	if (r != 1 || c->raw)
		return r;
	c->shaken = true;
	c->deadline = c->w->now + c->w->e->conf.keep_ms;
	SSL_get0_alpn_selected(c->ssl, &alpn, &n);
	if (n == 2 && memcmp(alpn, "h2", 2) == 0)
		return h2_open(c) < 0 ? -1 : 1;
	return 1;
}

/* All output is sent: shuts our end down and waits for the client to close. */
static void linger(struct conn *c)
{
	if (!c->lingering) {
		c->lingering = true;
		c->deadline = c->w->now + LINGER_MS;
		if (c->ssl)
			(void)SSL_shutdown(c->ssl);
		shutdown(c->io.fd, SHUT_WR);
		ebuf_done(&c->in);
	}
	while (c->io.readable && c->dropped < EDGE_DISCARD_MAX) {
		ssize_t n = recv(c->io.fd, c->w->scratch, sizeof(c->w->scratch), 0);

		if (n <= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
			conn_close(c);
			return;
		}
		if (n < 0) {
			c->io.readable = errno == EINTR;
			continue;
		}
		c->dropped += (uint64_t)n;
	}
	if (c->dropped >= EDGE_DISCARD_MAX)
		conn_close(c);
}

void conn_run(struct conn *c)
{
	if (c->dead)
		return;
	if (!c->shaken) {
		int r = handshake(c);

		if (r < 0)
			conn_close(c);
		if (r <= 0)
			return;
	}
	for (int i = 0; !c->dead && !c->lingering; i++) {
		if (i == ROUNDS_MAX) {
			worker_again(c->w, c);
			return;
		}
		if (!(c->h2 ? h2_run(c) : c->raw ? raw_run(c) : h1_run(c)))
			break;
	}
	if (c->dead)
		return;
	if (c->lingering || (c->closing && !conn_unsent(c)))
		linger(c);
}

/* ---- deadlines ---- */

uint64_t conn_stall_ms(const struct conn *c)
{
	const struct edge *e = c->w->e;

	return guard_tight(e->guard) ? MIN(e->conf.stall_ms, EDGE_TIGHT_STALL_MS)
	                             : e->conf.stall_ms;
}

bool conn_arrived(const struct conn *c)
{
	int waiting = 0;

	return !conn_unsent(c) && ioctl(c->io.fd, SIOCOUTQ, &waiting) == 0 && !waiting;
}

/*
 * Does the client take what is unsent? The kernel asks for more only when a good part of its own
 * buffer is free, which may be megabytes: someone who reads slowly can be busy with those for
 * longer than the deadline. So the bytes that the client's side has confirmed count, too.
 */
static bool drains(struct conn *c)
{
	uint64_t now = c->w->now;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (!conn_unsent(c)) {
		c->sent_ms = now;
		c->acked_known = false;
		return true;
	}
	if (c->acked_known && now - c->sent_ms <= conn_stall_ms(c))
		return true;
	/* A guest's is a socket of this host; whoever is at its other end takes what there is. */
	if (getsockopt(c->io.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return c->guest && now - c->sent_ms <= conn_stall_ms(c);
	if (c->acked_known && info.tcpi_bytes_acked - c->acked < EDGE_DRAIN_MIN)
		return false;
	if (c->acked_known)
		c->sent_ms = now;
	c->acked_known = true;
	c->acked = info.tcpi_bytes_acked;
	return true;
}

/* Of the handshake, of the next head, or of the client's close after ours. */
static void deadline_over(struct conn *c)
{
	static const char late[] = "HTTP/1.1 408 Request Timeout\r\n"
	                           "Connection: close\r\n"
	                           "Content-Length: 0\r\n\r\n";

	if (c->shaken && !c->lingering && c->first_byte && !c->closing) {
		ebuf_put(&c->out, late, sizeof(late) - 1);
		c->closing = true;
		c->deadline = c->w->now + LINGER_MS;
		conn_run(c);
	} else if (c->cert == CERT_WAITS) {
		tls_cert_over(c, false); /* the client is told by an alert */
		conn_run(c);
	} else {
		conn_close(c);
	}
}

/* Between requests, or before the first. */
static void tick_idle(struct conn *c)
{
	uint64_t now = c->w->now;

	if (conn_unsent(c) && !c->first_byte && !c->lingering)
		c->deadline = now + c->w->e->conf.keep_ms; /* it is still reading its response */
	else if (guard_tight(c->w->e->guard) && now - c->busy_ms > EDGE_TIGHT_IDLE_MS)
		conn_close(c);
	else if (c->deadline && now >= c->deadline)
		deadline_over(c);
}

void conn_tick(struct conn *c)
{
	struct xchg *x = c->x;

	if (c->shaken && !c->lingering && !drains(c)) {
		conn_close(c);
		return;
	}
	if (c->lingering || !c->shaken || (!x && !c->h2)) {
		tick_idle(c);
		return;
	}
	if (c->h2) {
		h2_tick(c);
		return;
	}
	/* A WebSocket has no body to send. */
	if (x->state == X_ACTIVE && !x->req_over && !c->eof && xchg_room(x) > 0 &&
	    c->w->now - c->moved_ms > conn_stall_ms(c)) {
		conn_close(c);
		return;
	}
	if (conn_unsent(c))
		x->moved_ms = c->w->now; /* waiting for the client, not for the VM */
	if (xchg_late(x))
		conn_run(c);
}
