/* SPDX-License-Identifier: Apache-2.0 */
/*
 * udp.c - datagrams from outside to a port of a VM
 *
 * All clients of a port come to one socket. The accepting thread tells them apart by their address
 * and puts what they send into a pair of sockets, one per client; at the other end of the pair a
 * thread (relay.c) wakes the VM and passes datagrams on and back, like bytes of a connection. What
 * does not fit into the pair is dropped, as UDP may: so much waits for a VM that is being woken. A
 * client that is silent for a while is forgotten.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "ports/ports_internal.h"

#define TAKE_MAX 64             /* datagrams of one socket before the others have their turn */
#define QUEUE_BYTES (128 << 10) /* of one client, with the kernel's own */
#define SILENT_MS 60000

static struct port_conn *find(struct ports *p, const struct store_port *row,
                              const struct sockaddr_storage *from, socklen_t len) REQUIRES(&p->lock)
{
	struct port_conn *c = p->conns;

	while (c && (c->feed < 0 || c->cut || c->row.port != row->port || c->from_len != len ||
	             memcmp(&c->from, from, len) != 0))
		c = c->next;
	return c;
}

static struct port_conn *make(const struct entry *e, const struct sockaddr_storage *from,
                              socklen_t len)
{
	struct port_conn *c = port_conn_new(&e->row, from, len);
	int pair[2], size = QUEUE_BYTES;

	if (!c)
		return NULL;
	c->back = fcntl(e->fd, F_DUPFD_CLOEXEC, 0);
	if (c->back < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
		port_conn_free(c);
		return NULL;
	}
	c->client = pair[0];
	c->feed = pair[1];
	setsockopt(c->feed, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return c;
}

struct port_conn *udp_take(struct ports *p, const struct entry *e)
{
	static char buf[65536]; /* of the one thread that calls this */

	for (int i = 0; i < TAKE_MAX; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(e->fd, buf, sizeof(buf), MSG_DONTWAIT,
		                     (struct sockaddr *)&from, &len);
		struct port_conn *c, *known;

		if (n < 0)
			return NULL;
		known = c = find(p, &e->row, &from, len);
		if (!c && !(c = make(e, &from, len)))
			continue;
		if (n > 0) /* an empty one would look like the end of the pair */
			(void)!send(c->feed, buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (!known)
			return c; /* the rest is still there */
	}
	return NULL;
}

static void answer(struct port_conn *c, const char *p, size_t n)
{
	if (c->back < 0) /* the client is at another node, and this a pair */
		(void)!send(c->client, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		(void)!sendto(c->back, p, n, MSG_DONTWAIT | MSG_NOSIGNAL,
		              (struct sockaddr *)&c->from, c->from_len);
}

void udp_relay(struct port_conn *c, char *mem, size_t size)
{
	uint64_t until = deadline_in(MIN(c->p->idle_ms, SILENT_MS));

	for (;;) {
		struct pollfd v[2] = { { .fd = c->client, .events = POLLIN },
			               { .fd = c->up, .events = POLLIN } };
		int left = deadline_left(until);
		ssize_t n;

		if (left <= 0 || (poll(v, 2, left) < 0 && errno != EINTR))
			return;
		n = recv(c->client, mem, size, MSG_DONTWAIT);
		if (n == 0) /* cut */
			return;
		if (n > 0) {
			(void)!send(c->up, mem, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
			until = deadline_in(MIN(c->p->idle_ms, SILENT_MS));
		}
		/* Refused: nothing listens there, at the moment; the client may try again. */
		n = recv(c->up, mem, size, MSG_DONTWAIT);
		if (n == 0 && c->far) /* its node has ended it: the next datagram begins anew */
			return;
		if (n > 0) {
			answer(c, mem, (size_t)n);
			until = deadline_in(MIN(c->p->idle_ms, SILENT_MS));
		}
	}
}
