/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other.c - a client whose VM or repository another node has
 *
 * The client's process, pando-ssh, stays at the node that the client came to. Once its login was
 * checked here, what the process says goes to the owner (peer/packets.c), its login first, and the
 * owner serves it as one of its own: it checks the secret again, wakes the VM, makes streams and
 * says when to leave. Nothing of that is decided here any more. The process can ask what it could
 * ask before, and the owner believes it no more than its own (link.c).
 *
 * Both nodes count the connection as one of the account's. When the connection between them ends,
 * or the owner is dead, the client is told so and may connect again: to whoever has the VM then.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/sock.h"
#include "ssh/ssh_internal.h"

#define UNSENT_BYTES (128 << 10) /* of a repository's client: as repo.c */

static_assert(PEER_PACKET_MAX >= SSHW_MSG_MAX && PEER_PACKET_MAX >= SSHW_FRAME_MAX,
              "messages and frames are carried as packets");

struct ask {
	uint32_t version; /* of wire/ssh.h */
	uint32_t from_len;
	struct sockaddr_storage from; /* of the client */
	char vm[ID_SIZE], repo[UUID_SIZE];
};

static struct place place_of(struct sshd *d, const char *vm, const char *repo, struct err *err)
{
	return *repo ? place_of_repo(d->deps.peers, repo, err)
	             : place_of_vm(d->deps.peers, vm, err);
}

/* ---- at the node that the client came to ---- */

bool other_has(struct conn *c)
{
	struct err err = { 0 };
	struct place at = place_of(c->d, c->name.vm, c->name.repo, &err);
	struct ask q = { .version = SSHW_VERSION,
		         .from_len = sizeof(struct sockaddr_in6),
		         .from = c->peer };
	uint32_t unused;
	int r = -1;

	if (at.kind == PLACE_HERE)
		return false;
	snprintf(q.vm, sizeof(q.vm), "%s", c->name.vm);
	snprintf(q.repo, sizeof(q.repo), "%s", c->name.repo);
	/* If it has moved between the two looks there is a second one. */
	for (int i = 0; i < 2 && at.kind == PLACE_NODE; i++) {
		r = peer_dial(c->d->deps.peers, at.node, PEER_SSH, &c->other, &err);
		if (r == 0)
			r = peer_ask(c->other, &q, sizeof(q), &unused, &err);
		if (r == 0)
			return true;
		c->other = peer_drop(c->other);
		if (r != -ESTALE)
			break;
		at = place_of(c->d, c->name.vm, c->name.repo, &err);
		if (at.kind == PLACE_HERE)
			return false;
	}
	snprintf(c->unreachable, sizeof(c->unreachable), "%s", err.msg);
	return false;
}

struct carried {
	struct conn *c;
	struct peer_carry how;
};

static bool turn(void *ctx)
{
	struct carried *k = ctx;
	struct pollfd p = { .fd = k->c->d->stop_fd, .events = POLLIN };

	link_take_lines(k->c);
	k->how.also[0] = k->c->speaker.errs; /* until it is closed */
	if (poll(&p, 1, 0) > 0)
		conn_end(k->c, "the server is shutting down");
	return !k->c->leave;
}

/* The client is told why first, as long as its streams are there. */
static void over(void *ctx, int r, const struct err *err)
{
	struct conn *c = ((struct carried *)ctx)->c;

	if (r == 0) {
		c->gone = true; /* the client left, or its process died */
		return;
	}
	/* The owner, if it is there, has said why before. */
	conn_end(c, "%s", r == -ENODATA ? "its node has ended the connection" : err->msg);
	link_end(c);
}

void other_serve(struct conn *c)
{
	struct carried k = { .c = c,
		             .how = { .takes = true,
		                      .stuck_ms = SSHD_STUCK_MS,
		                      .turn = turn,
		                      .over = over,
		                      .ctx = &k,
		                      .also = { c->speaker.errs, c->d->stop_fd } } };
	struct err err = { 0 };
	int r;

	if (*c->name.repo)
		setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){ UNSENT_BYTES },
		           sizeof(int));
	/* The login is the first thing that is said. */
	r = peer_carry_packet(c->other, c->packet, c->packet_len, &err);
	explicit_bzero(c->packet, c->packet_len);
	if (r == 0)
		peer_carry(c->other, c->speaker.sock, &k.how, &err);
	else
		conn_end(c, "%s", err.msg);
	c->other = peer_drop(c->other);
}

/* ---- at the owner ---- */

static int admit(struct sshd *d, const struct ask *q, struct conn **ret, int *ret_fd,
                 struct err *err)
{
	int pair[2], r;

	if (q->version != SSHW_VERSION)
		return err_tag(err, -EPROTO, ERR_NODE_UNAVAILABLE,
		               "the nodes have different versions of Pando, which do not pass on "
		               "SSH: install the same one on both");
	if (place_of(d, q->vm, q->repo, err).kind != PLACE_HERE)
		return err_tag(err, -ESTALE, ERR_NODE_UNAVAILABLE,
		               "%s %s is on its way to another node: try again",
		               *q->repo ? "repository" : "VM", *q->repo ? q->repo : q->vm);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(err, -errno, "SSH: make a socket");
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){ SSHW_UNREAD }, sizeof(int));
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &(int){ SSHW_SNDBUF }, sizeof(int));
	r = sshd_door_of_node(d, &q->from, q->from_len, pair[0], ret, err);
	if (r < 0)
		close(pair[1]);
	else
		*ret_fd = pair[1];
	return r;
}

static bool is_ask(const struct ask *q)
{
	return memchr(q->vm, '\0', sizeof(q->vm)) && memchr(q->repo, '\0', sizeof(q->repo)) &&
	       q->from_len <= sizeof(q->from) && !*q->vm != !*q->repo;
}

void other_come(void *ctx, struct peer *p)
{
	static const struct peer_carry how = { .opens = true };
	struct sshd *d = ctx;
	struct err err = { 0 };
	struct conn *c = NULL;
	autofd int fd = -1;
	struct ask q;
	int r;

	if (peer_hear(p, &q, sizeof(q), &err) < 0 || !is_ask(&q))
		return;
	r = admit(d, &q, &c, &fd, &err);
	/* Once it runs it ends by itself, when our end of the pair is closed. */
	if (r == 0)
		r = sshd_door_run(c, &err);
	if (peer_tell(p, r, &err, 0) == 0 && r == 0)
		peer_carry(p, fd, &how, &err);
}
