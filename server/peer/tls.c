/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.c - one connection: handshake, bytes in both directions, the end
 *
 * Sockets do not block; whoever waits does so with poll() in steps of LOOK_MS and looks after each
 * whether the other node still lives. So a node that hangs costs its callers the time until its
 * lease is over, and no more. A reply that ends without the other side saying so is an error.
 */
#include "peer/peer_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/auto.h"
#include "base/clock.h"
#include "node/node.h"

#define KEEP_IDLE_S 5
#define KEEP_EACH_S 3
#define KEEP_N 3
#define SILENT_MS 15000 /* as long as a lease */

const char *tls_why(char *dst, size_t size)
{
	unsigned long e = ERR_peek_last_error();

	if (e)
		ERR_error_string_n(e, dst, size);
	else
		snprintf(dst, size, "%s", errno ? err_name(-errno) : "the connection was closed");
	ERR_clear_error();
	return dst;
}

static const char *name_of(const struct peer *c, char ret[NODE_NAME_SIZE])
{
	char address[NODE_ADDRESS_SIZE];

	if (node_address(c->peers->conf.node, c->node, address, ret, NULL) < 0)
		snprintf(ret, NODE_NAME_SIZE, "%s", c->node);
	return ret;
}

int peer_unavailable(const struct peer *c, struct err *err, const char *what)
{
	char name[NODE_NAME_SIZE];

	return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	               "node '%s' %s: try again in a few seconds", name_of(c, name), what);
}

/* What OpenSSL answered: 0 for "not now". */
static ssize_t result(struct peer *c, int k, struct err *err)
{
	char why[160], what[220];
	int e = SSL_get_error(c->ssl, k);

	if (k > 0)
		return k;
	switch (e) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		return -ENODATA;
	default:
		snprintf(what, sizeof(what), "has ended the connection (%s)",
		         tls_why(why, sizeof(why)));
		peer_unavailable(c, err, what);
		return -EHOSTUNREACH;
	}
}

bool peer_alive(const struct peer *c, struct err *err)
{
	if (atomic_load(&c->peers->ending)) {
		err_tag(err, -ESHUTDOWN, ERR_UNAVAILABLE, "the server is shutting down");
		return false;
	}
	if (place_is_member(c->peers, c->node))
		return true;
	peer_unavailable(c, err, "is down");
	return false;
}

int peer_fd(const struct peer *c)
{
	return c->fd;
}

ssize_t peer_read(struct peer *c, void *p, size_t n, struct err *err)
{
	ERR_clear_error();
	errno = 0;
	return result(c, SSL_read(c->ssl, p, (int)MIN(n, (size_t)INT32_MAX)), err);
}

ssize_t peer_write_some(struct peer *c, const void *p, size_t n, struct err *err)
{
	ssize_t k;

	ERR_clear_error();
	errno = 0;
	k = result(c, SSL_write(c->ssl, p, (int)MIN(n, (size_t)INT32_MAX)), err);
	return k == -ENODATA ? peer_unavailable(c, err, "takes nothing any more") : k;
}

/* Until it may go on with what it wants, or LOOK_MS. */
static int wait_for(const struct peer *c, short events, unsigned ms)
{
	struct pollfd p = { .fd = c->fd,
		            .events = SSL_want_write(c->ssl)  ? POLLOUT
		                      : SSL_want_read(c->ssl) ? POLLIN
		                                              : events };

	return poll(&p, 1, (int)ms);
}

int peer_write(struct peer *c, const void *p, size_t n, struct err *err)
{
	uint64_t until = deadline_in(STALL_MS);
	const char *at = p;

	while (n) {
		ssize_t k = peer_write_some(c, at, n, err);

		if (k < 0)
			return -EHOSTUNREACH;
		if (k == 0 && wait_for(c, POLLOUT, LOOK_MS) == 0 && !peer_alive(c, err))
			return -EHOSTUNREACH;
		if (k == 0 && clock_ms() >= until)
			return peer_unavailable(c, err, "takes nothing any more");
		if (k > 0)
			until = deadline_in(STALL_MS);
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

int tls_read_all(struct peer *c, void *p, size_t n, uint64_t deadline_ms, struct err *err)
{
	char *at = p;

	while (n) {
		ssize_t k = peer_read(c, at, n, err);

		if (k == -ENODATA)
			peer_unavailable(c, err, "has ended the connection");
		if (k < 0)
			return (int)k;
		if (k == 0 && !deadline_left(deadline_ms))
			return peer_unavailable(c, err, "does not answer");
		if (k == 0 &&
		    wait_for(c, POLLIN, MIN((unsigned)deadline_left(deadline_ms), LOOK_MS)) == 0 &&
		    !peer_alive(c, err))
			return -EHOSTUNREACH;
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

void peer_finish(struct peer *c)
{
	if (!c->finished)
		SSL_shutdown(c->ssl);
	c->finished = true;
}

struct peer *peer_drop(struct peer *c)
{
	if (!c)
		return NULL;
	if (c->ours)
		atomic_fetch_sub(&c->peers->n_out, 1);
	SSL_free(c->ssl);
	close(c->fd);
	free(c);
	return NULL;
}

static void set_up(int fd)
{
	int on = 1, idle = KEEP_IDLE_S, each = KEEP_EACH_S, n = KEEP_N, silent = SILENT_MS;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof(each));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof(silent));
}

static int shake_hands(struct peer *c, struct err *err)
{
	uint64_t until = deadline_in(HANDSHAKE_MS);
	char why[160];

	for (;;) {
		int k, e;

		ERR_clear_error();
		errno = 0;
		k = SSL_do_handshake(c->ssl);
		if (k == 1)
			return 0;
		e = SSL_get_error(c->ssl, k);
		if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE)
			return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
			               "no TLS connection with the other node: %s",
			               tls_why(why, sizeof(why)));
		if (!deadline_left(until) || atomic_load(&c->peers->ending))
			return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
			               "no TLS connection with the other node after %d s: try "
			               "again in a few seconds",
			               HANDSHAKE_MS / 1000);
		wait_for(c, POLLIN, MIN((unsigned)deadline_left(until), LOOK_MS));
	}
}

/* By enum peer_use: length and name. */
static const char *const uses[PEER_USE_MAX] = { "\x0epando-requests", "\x0cpando-socket",
	                                        "\x09pando-ssh", "\x0apando-port" };

static int use_of(SSL *ssl)
{
	const unsigned char *p;
	unsigned n;

	SSL_get0_alpn_selected(ssl, &p, &n);
	for (int i = 0; i < PEER_USE_MAX; i++)
		if (n == (unsigned char)uses[i][0] && memcmp(p, uses[i] + 1, n) == 0)
			return i;
	return -EPROTO;
}

static void peer_dropp(struct peer **c)
{
	peer_drop(*c);
}

int tls_begin(struct peers *p, int fd_consume, bool server, enum peer_use use, struct peer **ret,
              struct err *err)
{
	AUTO(peer_dropp) struct peer *c = calloc(1, sizeof(*c));
	SSL_CTX *ctx = peers_ctx(p);
	autofd int fd = fd_consume;
	int r;

	if (c) {
		c->peers = p;
		c->fd = -1;
		c->ssl = SSL_new(ctx);
	}
	SSL_CTX_free(ctx);
	if (!c || !c->ssl || SSL_set_fd(c->ssl, fd) != 1)
		return err_set(err, -ENOMEM, "out of memory");
	c->fd = TAKE_FD(fd);
	set_up(c->fd);
	if (server)
		SSL_set_accept_state(c->ssl);
	else
		SSL_set_connect_state(c->ssl);
	if (!server && SSL_set_alpn_protos(c->ssl, (const unsigned char *)uses[use],
	                                   (unsigned)strlen(uses[use])) != 0)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = shake_hands(c, err)) < 0)
		return r;
	if ((r = use_of(c->ssl)) < 0 || cert_node(c->ssl, c->node) < 0)
		return err_tag(err, -EACCES, ERR_NODE_UNAVAILABLE,
		               "the other side is no node of this cluster");
	c->use = (enum peer_use)r;
	*ret = TAKE_PTR(c);
	return 0;
}

/* ---- bytes between it and a socket ---- */

struct half {
	uint8_t p[RELAY_BYTES];
	size_t at, n;
	bool ended, told;
};

/* From the other node to the socket. False: it is over. */
static bool move_in(struct peer *c, int fd, struct half *h)
{
	struct err err = { 0 };

	for (;;) {
		ssize_t k;

		while (h->n &&
		       (k = send(fd, h->p + h->at, h->n, MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0) {
			h->at += (size_t)k;
			h->n -= (size_t)k;
		}
		if (h->n)
			return errno == EAGAIN || errno == EINTR;
		if (h->ended)
			break;
		k = peer_read(c, h->p, sizeof(h->p), &err);
		if (k == 0)
			return true;
		if (k < 0 && k != -ENODATA)
			return false;
		h->ended = k < 0;
		h->at = 0;
		h->n = k > 0 ? (size_t)k : 0;
	}
	if (!h->told)
		shutdown(fd, SHUT_WR);
	h->told = true;
	return true;
}

/* From the socket to the other node; *ret_full: it takes no more now. */
static bool move_out(struct peer *c, int fd, struct half *h, bool *ret_full)
{
	struct err err = { 0 };

	*ret_full = false;
	for (;;) {
		ssize_t k;

		while (h->n) {
			ERR_clear_error();
			k = result(c, SSL_write(c->ssl, h->p + h->at, (int)h->n), &err);
			*ret_full = k == 0;
			if (k <= 0)
				return k == 0;
			h->at += (size_t)k;
			h->n -= (size_t)k;
		}
		if (h->ended)
			break;
		k = recv(fd, h->p, sizeof(h->p), MSG_DONTWAIT);
		if (k < 0)
			return errno == EAGAIN || errno == EINTR;
		h->ended = k == 0;
		h->at = 0;
		h->n = (size_t)k;
	}
	if (!h->told)
		peer_finish(c);
	h->told = true;
	return true;
}

static void carry(struct peer *c, int fd, struct half *in, struct half *out)
{
	uint64_t look = deadline_in(LOOK_MS);
	struct err err = { 0 };

	for (;;) {
		struct pollfd p[2] = { { .fd = c->fd }, { .fd = fd } };
		bool full;

		if (!move_in(c, fd, in) || !move_out(c, fd, out, &full) || (in->told && out->told))
			return;
		if (!in->n && !in->ended)
			p[0].events |= POLLIN;
		if (full)
			p[0].events |= POLLOUT;
		if (in->n)
			p[1].events |= POLLOUT;
		if (!out->n && !out->ended)
			p[1].events |= POLLIN;
		for (int i = 0; i < 2; i++)
			if (!p[i].events)
				p[i].fd = -1; /* or its end would be reported again and again */
		poll(p, 2, LOOK_MS);
		if (deadline_left(look))
			continue;
		look = deadline_in(LOOK_MS);
		if (!peer_alive(c, &err))
			return;
	}
}

void peer_relay(struct peer *c, int fd)
{
	autofree struct half *in = malloc(sizeof(*in)), *out = malloc(sizeof(*out));

	if (in && out) {
		in->at = in->n = out->at = out->n = 0;
		in->ended = in->told = out->ended = out->told = false;
		carry(c, fd, in, out);
	}
	shutdown(fd, SHUT_RDWR);
}
