/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate_relay.c - copies bytes between two ends, plain or TLS
 *
 * One thread, two buffers, one poll: what one end does not accept stays in its
 * buffer, and no more is read for it. All descriptors are non-blocking. The end
 * of one direction of a plain connection is passed on; the end of a TLS connection ends both.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "net/gate_internal.h"
#include "privc/privc.h"

#define RELAY_BUF (32u << 10) /* bytes per direction */
#define RELAY_IDLE_MS 1800000 /* without any bytes in either direction */
#define CONNECT_MS 20000

struct flow {
	struct relay_end *from, *to;
	uint8_t *buf;
	size_t at, len;
	bool eof, shut;
};

/* Bytes, 0 at the end, -EAGAIN or another -errno. */
static ssize_t end_read(struct relay_end *e, void *p, size_t n)
{
	ssize_t r;
	int code;

	if (!e->ssl) {
		r = recv(e->fd, p, n, MSG_DONTWAIT);
		return r < 0 ? (errno == EINTR ? -EAGAIN : -errno) : r;
	}
	r = SSL_read(e->ssl, p, (int)n);
	if (r > 0)
		return r;
	code = SSL_get_error(e->ssl, (int)r);
	if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	return code == SSL_ERROR_ZERO_RETURN ? 0 : -ECONNRESET;
}

static ssize_t end_write(struct relay_end *e, const void *p, size_t n)
{
	ssize_t r;
	int code;

	if (!e->ssl) {
		r = send(e->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		return r < 0 ? (errno == EINTR ? -EAGAIN : -errno) : r;
	}
	r = SSL_write(e->ssl, p, (int)n);
	if (r > 0)
		return r;
	code = SSL_get_error(e->ssl, (int)r);
	return code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE ? -EAGAIN : -ECONNRESET;
}

/* After -EAGAIN: until it may go on; 1, or -errno. */
static int end_wait(const struct relay_end *e, bool to_write, uint64_t deadline_ms)
{
	short ev = to_write ? POLLOUT : POLLIN;
	int r;

	if (e->ssl)
		ev = SSL_want_write(e->ssl) ? POLLOUT : POLLIN;
	r = io_wait(e->fd, ev, deadline_ms);
	return r == 0 ? -ETIMEDOUT : r;
}

ssize_t gate_read(struct relay_end *e, void *p, size_t n, uint64_t deadline_ms)
{
	for (;;) {
		ssize_t k = end_read(e, p, n);
		int r;

		if (k != -EAGAIN)
			return k;
		if ((r = end_wait(e, /* to_write= */ false, deadline_ms)) < 0)
			return r;
	}
}

int gate_write(struct relay_end *e, const void *p, size_t n, uint64_t deadline_ms)
{
	const uint8_t *at = p;

	while (n) {
		ssize_t k = end_write(e, at, n);
		int r;

		if (k == -EAGAIN) {
			if ((r = end_wait(e, /* to_write= */ true, deadline_ms)) < 0)
				return r;
			continue;
		}
		if (k < 0)
			return (int)k;
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

/* 1: something moved; 0: it waits; -errno. */
static int flow_step(struct flow *f)
{
	ssize_t n;
	int moved = 0;

	if (!f->len && !f->eof) {
		n = end_read(f->from, f->buf, RELAY_BUF);
		if (n < 0 && n != -EAGAIN)
			return (int)n;
		if (n >= 0)
			moved = 1;
		f->eof = n == 0;
		f->at = 0;
		f->len = n > 0 ? (size_t)n : 0;
	}
	while (f->len) {
		n = end_write(f->to, f->buf + f->at, f->len);
		if (n == -EAGAIN)
			break;
		if (n < 0)
			return (int)n;
		f->at += (size_t)n;
		f->len -= (size_t)n;
		moved = 1;
	}
	if (f->eof && !f->len && !f->shut) {
		f->shut = true;
		if (f->to->ssl || f->from->ssl)
			return -EPIPE; /* TLS: done */
		shutdown(f->to->fd, SHUT_WR);
	}
	return moved;
}

/* The events end e waits for: it is read for flow `out` and written for flow `in`. */
static short events_of(const struct relay_end *e, const struct flow *out, const struct flow *in)
{
	short ev = 0;

	if (!out->len && !out->eof)
		ev |= e->ssl && SSL_want_write(e->ssl) ? POLLOUT : POLLIN;
	if (in->len)
		ev |= e->ssl && SSL_want_read(e->ssl) ? POLLIN : POLLOUT;
	return ev;
}

int gate_relay(struct relay_end *a, struct relay_end *b, const void *pre, size_t n_pre)
{
	autofree uint8_t *ab = malloc(MAX(RELAY_BUF, n_pre));
	autofree uint8_t *ba = malloc(RELAY_BUF);
	struct flow out = { .from = a, .to = b, .buf = ab, .len = n_pre };
	struct flow in = { .from = b, .to = a, .buf = ba };

	if (!ab || !ba)
		return -ENOMEM;
	if (n_pre)
		memcpy(ab, pre, n_pre);
	while (!out.shut || !in.shut) {
		struct pollfd p[2];
		int r = flow_step(&out), k = flow_step(&in);

		if (r < 0 || k < 0)
			return r == -EPIPE || k == -EPIPE ? 0 : MIN(r, k);
		if (r || k)
			continue;
		p[0] = (struct pollfd){ .fd = a->fd, .events = events_of(a, &out, &in) };
		p[1] = (struct pollfd){ .fd = b->fd, .events = events_of(b, &in, &out) };
		/* An end that waits for nothing would report its hang-up over and over. */
		for (int i = 0; i < 2; i++)
			if (!p[i].events)
				p[i].fd = -1;
		r = poll(p, 2, RELAY_IDLE_MS);
		if (r == 0)
			return -ETIMEDOUT;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
	return 0;
}

/* ---- steps with a deadline ---- */

static int tls_wait(SSL *ssl, int r, uint64_t deadline_ms)
{
	int code = SSL_get_error(ssl, r);

	if (code != SSL_ERROR_WANT_READ && code != SSL_ERROR_WANT_WRITE)
		return code == SSL_ERROR_ZERO_RETURN ? -EPIPE : -EPROTO;
	r = io_wait(SSL_get_fd(ssl), code == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline_ms);
	return r == 0 ? -ETIMEDOUT : MIN(r, 0);
}

int gate_tls_do(SSL *ssl, int (*op)(SSL *ssl), uint64_t deadline_ms)
{
	for (;;) {
		int r = op(ssl);

		if (r == 1)
			return 0;
		r = tls_wait(ssl, r, deadline_ms);
		if (r < 0)
			return r;
	}
}

int gate_tls_read(SSL *ssl, void *p, size_t n, uint64_t deadline_ms)
{
	for (;;) {
		int r = SSL_read(ssl, p, (int)n);

		if (r > 0)
			return r;
		r = tls_wait(ssl, r, deadline_ms);
		if (r < 0)
			return r;
	}
}

int gate_tls_write(SSL *ssl, const void *p, size_t n, uint64_t deadline_ms)
{
	const uint8_t *at = p;

	while (n) {
		int r = SSL_write(ssl, at, (int)n);

		if (r > 0) {
			at += r;
			n -= (size_t)r;
			continue;
		}
		r = tls_wait(ssl, r, deadline_ms);
		if (r < 0)
			return r;
	}
	return 0;
}

int gate_upstream(struct proxied *c, struct err *err)
{
	if (c->site)
		return gate_site_upstream(c, err);
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(c->port),
		                  .sin_addr.s_addr = htonl(c->addr) };
	uint64_t deadline = deadline_in(CONNECT_MS);
	autofd int fd = -1;
	int r = privc_slot_socket(c->g->priv, c->slot, false, &fd, err), on = 1;
	socklen_t len = sizeof(r);

	if (r < 0)
		return r;
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS)
		return -errno;
	r = io_wait(fd, POLLOUT, deadline);
	if (r <= 0)
		return r < 0 ? r : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &r, &len) < 0 || r)
		return r > 0 ? -r : -EIO;
	LOCK_SCOPE(&c->g->lock);
	if (c->down < 0)
		return -ECANCELED;
	c->up = TAKE_FD(fd);
	return 0;
}
