/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw.c - connections that are passed to their VM as they are: whoever listens there ends TLS
 *
 * Theory of operation: a client's first message says which name it wants. tls.c keeps the bytes
 * until OpenSSL has read that name; if it leads to a program that speaks TLS itself, OpenSSL is let
 * go and the connection becomes one exchange without a head: it waits for its VM as a request does,
 * counts as one, and then carries bytes both ways, the kept ones first. Each direction ends by
 * itself. As long as the VM has sent nothing, the edge can still say that something is wrong: by an
 * alert, which no key protects at this point. Nothing else of ours is ever in the stream.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

/* A fatal alert as a record: internal_error. */
static const uint8_t alert[] = { 21, 3, 3, 0, 2, 2, 80 };

void raw_begin(struct conn *c, const char *name)
{
	struct xchg *x = xchg_new(c);

	if (!x) {
		conn_close(c);
		return;
	}
	c->raw = true;
	c->x = x;
	c->requests++;
	c->deadline = 0;
	x->raw = true;
	x->upgrade = true; /* needs a connection of its own */
	x->close_after = true;
	snprintf(x->method, sizeof(x->method), "CONNECT");
	snprintf(x->host, sizeof(x->host), "%s", name);
	xchg_begin(x);
}

void raw_refuse(struct xchg *x)
{
	if (!x->resp_begun)
		ebuf_put(&x->c->out, alert, sizeof(alert));
	x->resp_over = true;
}

void raw_connected(struct up *u)
{
	struct xchg *x = u->x;

	x->state = X_TUNNEL;
	u->state = UP_BODY;
	u->framing = H1_BODY_CLOSE;
}

/* Bytes for the VM; its end when the client has ended. */
static bool pass_in(struct conn *c, struct xchg *x)
{
	size_t n = MIN(c->in.len, xchg_room(x));
	struct up *u = x->up;

	if (x->state != X_TUNNEL || !u)
		return false;
	if (n) {
		if (xchg_data(x, ebuf_at(&c->in), n) < 0) {
			resp_break(x);
			return true;
		}
		ebuf_take(&c->in, n);
		return true;
	}
	if (!c->eof || c->in.len || u->out.len || u->shut)
		return false;
	u->shut = true;
	shutdown(u->io.fd, SHUT_WR);
	return true;
}

/* The client's end when the VM has ended. */
static bool pass_end(struct conn *c, struct xchg *x)
{
	struct up *u = x->up;

	if (x->resp_over || x->state != X_TUNNEL || !u || !u->eof || conn_unsent(c))
		return false;
	if (!u->got_any && !c->eof) {
		xchg_up_failed(x, ECONNRESET); /* it hung up on the first message */
		return true;
	}
	if (!c->shut) {
		c->shut = true;
		shutdown(c->io.fd, SHUT_WR);
	}
	x->resp_over = u->shut;
	return u->shut;
}

/*
 * Is it of no use any more: before the VM was reached nobody can have ended well, and a reset is
 * the end of both directions. Many clients close without waiting for the VM's goodbye, which then
 * causes a reset; they have not left early.
 */
static bool gone(const struct conn *c, struct xchg *x)
{
	if (c->eof && x->state != X_TUNNEL && x->state != X_LOCAL)
		return true;
	if (!c->io.hup || !c->eof || c->shut)
		return false;
	x->resp_over = x->resp_begun && x->up && x->up->shut;
	return true;
}

bool raw_run(struct conn *c)
{
	struct xchg *x = c->x;
	bool moved = false;
	int n;

	if (x && !c->eof && c->in.len < EDGE_BUF && conn_readable(c)) {
		n = conn_read(c);
		c->eof = n < 0;
		moved |= n != 0;
	}
	if (x && gone(c, x)) {
		conn_close(c);
		return false;
	}
	if (x) {
		moved |= pass_in(c, x);
		moved |= x->up && up_run(x->up);
		x->resp_begun |= x->up && x->up->got_any;
	}
	n = conn_flush(c);
	if (n < 0) {
		conn_close(c);
		return false;
	}
	moved |= n > 0;
	if (x)
		moved |= pass_end(c, x);
	if (x && x->resp_over) {
		c->closing = true; /* when the rest is sent */
		c->x = NULL;
		xchg_free(x);
		moved = true;
	}
	return moved;
}
