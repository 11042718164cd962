/* SPDX-License-Identifier: Apache-2.0 */
/*
 * far.c - mapped ports of VMs that another node has
 *
 * All nodes listen on all mapped ports. A client of a VM elsewhere is carried to its owner, which
 * looks itself where the port leads, and serves the client as one of its own: it wakes the VM,
 * waits for the port there, and cuts the connection when the VM ends or the mapping goes. Bytes of
 * TCP go as bytes, datagrams as packets (peer/packets.c). Both nodes count the connection.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "ports/ports_internal.h"

struct ask {
	uint32_t port, udp;
	uint32_t from_len;
	struct sockaddr_storage from; /* of the client */
};

/* ---- at the node that the client came to ---- */

int port_far_open(struct port_conn *c, const char *node, struct err *err)
{
	struct ask q = { .port = c->row.port,
		         .udp = port_is_udp(&c->row),
		         .from_len = c->from_len,
		         .from = c->from };
	struct peer *peer;
	uint32_t unused;
	int fd, r = peer_dial(c->p->peers, node, PEER_PORT, &peer, err);

	if (r < 0)
		return r;
	if ((r = peer_ask(peer, &q, sizeof(q), &unused, err)) < 0) {
		peer_drop(peer);
		return r == -ESTALE ? -EAGAIN : r;
	}
	r = peer_hand_over(peer, q.udp ? SOCK_SEQPACKET : SOCK_STREAM, &fd, err);
	if (r < 0)
		return r;
	LOCK_SCOPE(&c->p->lock);
	c->up = fd;
	c->far = true;
	if (c->cut) /* in the meantime */
		port_conn_cut(c);
	return 0;
}

/* ---- at the owner ---- */

static bool find_row(struct ports *p, const struct ask *q, struct store_port *ret)
{
	LOCK_SCOPE(&p->lock);
	for (size_t i = 0; i < p->n; i++)
		if (p->entries[i].row.port == q->port &&
		    port_is_udp(&p->entries[i].row) == (q->udp != 0)) {
			*ret = p->entries[i].row;
			return true;
		}
	return false;
}

/* *ret_fd: the other end of what takes the client's place. */
static int admit(struct ports *p, const struct ask *q, int *ret_fd, struct err *err)
{
	struct store_port row;
	struct port_conn *c;
	int pair[2];

	if (q->port != PORTS_OWN_NAME && !find_row(p, q, &row))
		ports_refresh(p); /* it was mapped elsewhere, a moment ago */
	if (q->port == PORTS_OWN_NAME || !find_row(p, q, &row))
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "port %u leads nowhere", q->port);
	if (place_of_vm(p->peers, row.vm, err).kind != PLACE_HERE)
		return err_tag(err, -ESTALE, ERR_NODE_UNAVAILABLE,
		               "VM %s is on its way to another node: try again", row.vm);
	c = port_conn_new(&row, &q->from, q->from_len);
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	if (socketpair(AF_UNIX,
	               (q->udp ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
	               pair) < 0) {
		port_conn_free(c);
		return err_sys(err, -errno, "make a socket pair");
	}
	c->client = pair[0];
	*ret_fd = pair[1];
	port_conn_begin(p, c); /* one too many is closed at once */
	return 0;
}

void port_far_come(void *ctx, struct peer *peer)
{
	static const struct peer_carry packets;
	struct ports *p = ctx;
	struct err err = { 0 };
	autofd int fd = -1;
	struct ask q;
	int r;

	if (peer_hear(peer, &q, sizeof(q), &err) < 0 || q.from_len > sizeof(q.from))
		return;
	r = admit(p, &q, &fd, &err);
	if (peer_tell(peer, r, &err, 0) < 0 || r < 0)
		return;
	if (q.udp)
		peer_carry(peer, fd, &packets, &err);
	else
		peer_relay(peer, fd);
}
