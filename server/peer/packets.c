/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packets.c - a socket of packets, and the streams that are passed along with them, carried to
 * another node
 *
 * What two processes of one machine say over a SOCK_SEQPACKET socket goes over a connection: the
 * packets, and for each descriptor that comes with one a stream, which is a socket of packets as
 * well. The other side makes a pair of sockets for it and passes one of them on with its packet. So
 * neither end notices that the other one is elsewhere.
 *
 * On the connection are frames: u8 kind, u32 stream, u32 bytes, and these. A stream has a window:
 * that much of it may be under way, and whoever takes it says so; a stream that nobody reads holds
 * up itself alone. Packets of the socket itself have none: while it takes nothing, nothing is read
 * from the connection. Each side says once that a stream has ended; what was sent before is passed
 * on first. A frame that makes no sense ends all of it.
 */
#include "peer/peer_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/sock.h"

#define WINDOW (128 << 10) /* bytes of a stream under way, each way; one packet more */
#define PACKET_COST 32     /* of each packet, beside its bytes */
#define STREAMS_MAX 128    /* that one side opens at a time, with those that end */
#define STREAMS_SPACE 256  /* twice as many: the other side may know less of what has ended */
#define STREAM_SNDBUF (64 << 10)
#define OUT_MAX                                                                             \
	(256u << 10)    /* waits for the connection, then nothing is taken; frames of a few \
	                   bytes are */
#define TURN_PACKETS 16 /* of one socket before the others have their turn */
#define HEAD 9
#define LEAVE_MS 5000 /* for the connection to take the rest */

enum frame { F_PACKET = 1, F_DATA = 2, F_TAKEN = 3, F_END = 4 };

struct stream {
	uint32_t id;
	int fd;           /* owned; -1: it has ended here, and the other side was told */
	struct buf queue; /* for fd: u32 bytes, and these */
	size_t at;
	int32_t room;   /* what the other side takes yet */
	uint32_t taken; /* what it does not know of yet */
	bool over;      /* it has ended there: once the queue is empty, here too */
};

struct carry {
	struct peer *c;
	int sock;
	const struct peer_carry *how;
	struct buf out, in; /* for the connection, and of it */
	size_t out_at;
	bool full;         /* the connection takes no more now */
	struct buf packet; /* for sock, with packet_fd; empty: none */
	int packet_fd;     /* owned; or -1 */
	uint64_t packet_since;
	struct stream streams[STREAMS_SPACE];
	size_t n;
	uint32_t last_id;
	uint8_t *mem;      /* PEER_PACKET_MAX */
	uint64_t leave_by; /* sock has ended; 0: not yet */
	bool moved;
};

static int senseless(struct carry *k, struct err *err)
{
	return peer_unavailable(k->c, err, "sent something that makes no sense");
}

static void put_frame(struct carry *k, enum frame kind, uint32_t id, const void *p, size_t n)
{
	buf_put_u8(&k->out, kind);
	buf_put_u32(&k->out, id);
	buf_put_u32(&k->out, (uint32_t)n);
	buf_put(&k->out, p, n);
}

static bool out_has_room(const struct carry *k)
{
	return k->out.len - k->out_at < OUT_MAX;
}

/* ---- streams ---- */

static struct stream *stream_new(struct carry *k, uint32_t id, int fd_consume)
{
	struct stream *s = &k->streams[k->n++];

	*s = (struct stream){ .id = id, .fd = fd_consume, .room = WINDOW };
	return s;
}

static struct stream *stream_find(struct carry *k, uint32_t id)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->streams[i].id == id)
			return &k->streams[i];
	return NULL;
}

static void stream_close(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	buf_done(&s->queue);
	s->queue = (struct buf){ 0 };
	s->at = 0;
}

/* It is over at this side; the other one is told, once. */
static void stream_end(struct carry *k, struct stream *s)
{
	stream_close(s);
	put_frame(k, F_END, s->id, NULL, 0);
}

/* What the other side sent goes to the socket. */
static void stream_give(struct carry *k, struct stream *s)
{
	while (s->fd >= 0 && s->at < s->queue.len) {
		uint32_t n = get_be32(s->queue.p + s->at);
		ssize_t r = send(s->fd, s->queue.p + s->at + 4, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && (errno == EAGAIN || errno == ENOBUFS))
			return;
		/* Whoever had it has left, and needs no more; what it said before is still taken.
		 */
		if (r < 0 && (errno == EPIPE || errno == ECONNRESET))
			break;
		if (r < 0) {
			stream_end(k, s);
			return;
		}
		s->at += 4 + n;
		s->taken += n + PACKET_COST;
		k->moved = true;
		if (s->taken >= WINDOW / 4) {
			uint8_t v[4];

			put_be32(v, s->taken);
			put_frame(k, F_TAKEN, s->id, v, sizeof(v));
			s->taken = 0;
		}
	}
	if (s->fd < 0)
		return;
	buf_reset(&s->queue);
	s->at = 0;
	if (s->over)
		stream_end(k, s);
}

/* What came to the socket goes to the other side. */
static int stream_take(struct carry *k, struct stream *s, struct err *err)
{
	for (int i = 0; i < TURN_PACKETS; i++) {
		ssize_t n;

		if (s->fd < 0 || s->over || s->room <= 0 || !out_has_room(k))
			return 0;
		n = recv(s->fd, k->mem, PEER_PACKET_MAX, MSG_DONTWAIT | MSG_TRUNC);
		/* Whoever closed it with unread data is an error first; the rest is still there. */
		if (n < 0 && (errno == EINTR || errno == ECONNRESET))
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n > (ssize_t)PEER_PACKET_MAX)
			return err_set(err, -EMSGSIZE, "a packet of %zd bytes", n);
		k->moved = true;
		if (n <= 0) {
			stream_end(k, s);
			return 0;
		}
		put_frame(k, F_DATA, s->id, k->mem, (size_t)n);
		s->room -= (int32_t)n + PACKET_COST;
	}
	return 0;
}

static int streams_turn(struct carry *k, struct err *err)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < k->n; i++) {
		struct stream *s = &k->streams[i];

		stream_give(k, s);
		if (r == 0)
			r = stream_take(k, s, err);
		if (s->fd >= 0 || !s->over) /* else both sides know that it ended */
			k->streams[n++] = *s;
	}
	k->n = n;
	return r;
}

/* ---- from the other node ---- */

/* A stream comes with the packet that is to be passed on. */
static int take_stream(struct carry *k, uint32_t id, struct err *err)
{
	int pair[2];

	if (!k->how->takes || k->n == STREAMS_SPACE || stream_find(k, id))
		return senseless(k, err);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(err, -errno, "make a socket pair");
	for (int i = 0; i < 2; i++)
		setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &(int){ STREAM_SNDBUF }, sizeof(int));
	stream_new(k, id, pair[0]);
	k->packet_fd = pair[1];
	return 0;
}

static int take_frame(struct carry *k, enum frame kind, uint32_t id, const uint8_t *p, uint32_t n,
                      struct err *err)
{
	struct stream *s = kind == F_PACKET ? NULL : stream_find(k, id);

	if (kind != F_PACKET && !s)
		return senseless(k, err);
	switch (kind) {
	case F_PACKET:
		if (n == 0)
			return senseless(k, err);
		if (k->leave_by)
			return 0;
		buf_put(&k->packet, p, n);
		k->packet_since = clock_ms();
		return id ? take_stream(k, id, err) : 0;
	case F_DATA:
		if (n == 0 || s->over || s->queue.len - s->at > WINDOW + PEER_PACKET_MAX)
			return senseless(k, err);
		if (s->fd < 0)
			return 0;
		buf_put_u32(&s->queue, n);
		buf_put(&s->queue, p, n);
		return s->queue.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
	case F_TAKEN:
		if (n != 4 || get_be32(p) > 2 * (WINDOW + PEER_PACKET_MAX))
			return senseless(k, err);
		s->room += (int32_t)get_be32(p);
		return s->room > WINDOW ? senseless(k, err) : 0;
	case F_END:
		if (n || s->over)
			return senseless(k, err);
		s->over = true;
		return 0;
	default:
		return senseless(k, err);
	}
}

/* Passes the packet that waits on to the socket. */
static int give_packet(struct carry *k, struct err *err)
{
	struct pollfd p = { .fd = k->sock, .events = POLLOUT };
	ssize_t r;

	if (!k->packet.len)
		return 0;
	/* Descriptors on their way count for all of pandod: what was sent before has to have been
	 * read, or most of it. */
	if (k->packet_fd >= 0 && !k->leave_by && poll(&p, 1, 0) <= 0)
		r = -EAGAIN;
	else
		r = sock_send_fds(k->sock, k->packet.p, k->packet.len, &k->packet_fd,
		                  k->packet_fd >= 0 ? 1 : 0);
	if (!k->leave_by && (r == -EAGAIN || r == -ETOOMANYREFS || r == -ENOBUFS))
		return k->how->stuck_ms && clock_ms() - k->packet_since > k->how->stuck_ms
		               ? err_set(err, -ETIMEDOUT, "it does not read its answers")
		               : 0;
	if (k->packet_fd >= 0)
		close(TAKE_FD(k->packet_fd));
	explicit_bzero(k->packet.p, k->packet.len);
	buf_reset(&k->packet);
	k->moved = true;
	return 0; /* one that nobody takes any more is seen by its end */
}

static int parse(struct carry *k, struct err *err)
{
	size_t at = 0;
	int r = 0;

	while (r == 0 && !k->packet.len && k->in.len - at >= HEAD) {
		const uint8_t *h = k->in.p + at;
		uint32_t n = get_be32(h + 5);

		if (n > PEER_PACKET_MAX)
			return senseless(k, err);
		if (k->in.len - at < HEAD + n)
			break;
		r = take_frame(k, h[0], get_be32(h + 1), h + HEAD, n, err);
		if (r == 0)
			r = give_packet(k, err);
		at += HEAD + n;
		k->moved = true;
	}
	if (at) {
		k->in.len -= at;
		memmove(k->in.p, k->in.p + at, k->in.len);
	}
	return r;
}

/* -ENODATA: the other side has ended it in the order of things. */
static int from_peer(struct carry *k, struct err *err)
{
	int r = give_packet(k, err);

	for (int i = 0; r == 0 && i < TURN_PACKETS; i++) {
		ssize_t n;

		if ((r = parse(k, err)) < 0 || k->packet.len)
			return r;
		n = peer_read(k->c, k->mem, RELAY_BYTES, err);
		if (n <= 0)
			return (int)n;
		buf_put(&k->in, k->mem, (size_t)n);
		if (k->in.failed)
			return err_set(err, -ENOMEM, "out of memory");
		k->moved = true;
	}
	return r;
}

/* ---- to the other node ---- */

/* With a packet may come a descriptor; of whom none are expected the kernel drops them. */
static ssize_t receive(struct carry *k, int *ret_fd)
{
	size_t n_fds = 0;
	ssize_t n;

	*ret_fd = -1;
	if (k->how->opens)
		return sock_recv_fds(k->sock, k->mem, PEER_PACKET_MAX, ret_fd, 1, &n_fds);
	n = recv(k->sock, k->mem, PEER_PACKET_MAX, MSG_DONTWAIT | MSG_TRUNC);
	return n < 0 ? -errno : n > (ssize_t)PEER_PACKET_MAX ? -EMSGSIZE : n;
}

static int from_sock(struct carry *k, struct err *err)
{
	for (int i = 0; i < TURN_PACKETS; i++) {
		uint32_t id = 0;
		ssize_t n;
		int fd;

		if (k->leave_by || !out_has_room(k) || (k->how->opens && k->n >= STREAMS_MAX))
			return 0;
		n = receive(k, &fd);
		if (n == -EAGAIN || n == -EINTR)
			return 0;
		if (n == -EMSGSIZE)
			return err_set(err, -EMSGSIZE, "a packet is too long");
		k->moved = true;
		if (n == -ECONNRESET)
			continue;
		if (n <= 0) {
			k->leave_by = deadline_in(LEAVE_MS);
			return 0;
		}
		if (fd >= 0)
			stream_new(k, id = ++k->last_id, fd);
		put_frame(k, F_PACKET, id, k->mem, (size_t)n);
	}
	return 0;
}

static int to_peer(struct carry *k, struct err *err)
{
	if (k->out.failed)
		return err_set(err, -ENOMEM, "out of memory");
	k->full = false;
	while (k->out_at < k->out.len) {
		ssize_t n =
		        peer_write_some(k->c, k->out.p + k->out_at, k->out.len - k->out_at, err);

		if (n < 0)
			return (int)n;
		k->full = n == 0;
		if (k->full)
			break;
		k->out_at += (size_t)n;
		k->moved = true;
	}
	if (k->out_at == k->out.len) {
		buf_reset(&k->out);
		k->out_at = 0;
	} else if (k->out_at > OUT_MAX) { /* frames of a few bytes were added without end */
		k->out.len -= k->out_at;
		memmove(k->out.p, k->out.p + k->out_at, k->out.len);
		k->out_at = 0;
	}
	return 0;
}

/* ---- both ---- */

static void wait_for(struct carry *k)
{
	struct pollfd p[2 + PEER_CARRY_ALSO + STREAMS_SPACE];
	nfds_t n = 2;

	p[0] = (struct pollfd){ .fd = k->c->fd,
		                .events = (short)((k->packet.len ? 0 : POLLIN) |
		                                  (k->full ? POLLOUT : 0)) };
	p[1] = (struct pollfd){ .fd = k->sock, .events = k->packet.len ? POLLOUT : 0 };
	if (!k->leave_by && out_has_room(k) && !(k->how->opens && k->n >= STREAMS_MAX))
		p[1].events |= POLLIN;
	for (size_t i = 0; i < PEER_CARRY_ALSO && k->how->turn; i++)
		p[n++] = (struct pollfd){ .fd = k->how->also[i], .events = POLLIN };
	for (size_t i = 0; i < k->n; i++) {
		const struct stream *s = &k->streams[i];

		p[n++] = (struct pollfd){ .fd = s->fd,
			                  .events = (short)(s->at < s->queue.len ? POLLOUT : 0) };
		if (!s->over && s->room > 0 && out_has_room(k))
			p[n - 1].events |= POLLIN;
	}
	for (nfds_t i = 0; i < n; i++)
		if (!p[i].events)
			p[i].fd = -1; /* or its end would be reported again and again */
	poll(p, n, k->moved ? 0 : LOOK_MS);
}

static int run(struct carry *k, struct err *err)
{
	uint64_t look = deadline_in(LOOK_MS);
	int r;

	for (;;) {
		k->moved = false;
		if ((r = from_peer(k, err)) < 0 || (r = from_sock(k, err)) < 0 ||
		    (r = streams_turn(k, err)) < 0 || (r = to_peer(k, err)) < 0)
			return r;
		if (k->leave_by && (!k->out.len || !deadline_left(k->leave_by)))
			return 0;
		wait_for(k);
		if (k->how->turn && !k->how->turn(k->how->ctx))
			return -ECANCELED;
		if (deadline_left(look))
			continue;
		look = deadline_in(LOOK_MS);
		if (!peer_alive(k->c, err))
			return -EHOSTUNREACH;
	}
}

int peer_carry_packet(struct peer *c, const void *p, size_t n, struct err *err)
{
	autobuf struct buf b = { 0 };
	int r;

	buf_put_u8(&b, F_PACKET);
	buf_put_u32(&b, 0);
	buf_put_blob(&b, p, n);
	r = b.failed ? err_set(err, -ENOMEM, "out of memory") : peer_write(c, b.p, b.len, err);
	if (b.p)
		explicit_bzero(b.p, b.len);
	return r;
}

int peer_carry(struct peer *c, int sock, const struct peer_carry *how, struct err *err)
{
	struct carry *k = calloc(1, sizeof(*k));
	int r;

	if (!k || !(k->mem = malloc(PEER_PACKET_MAX))) {
		free(k);
		return err_set(err, -ENOMEM, "out of memory");
	}
	k->c = c;
	k->sock = sock;
	k->how = how;
	k->packet_fd = -1;
	fcntl(sock, F_SETFL, O_NONBLOCK);
	r = run(k, err);
	if (how->over)
		how->over(how->ctx, r, err);
	for (size_t i = 0; i < k->n; i++)
		stream_close(&k->streams[i]);
	if (k->packet_fd >= 0)
		close(k->packet_fd);
	if (r == 0)
		peer_finish(c);
	buf_done(&k->out);
	buf_done(&k->in);
	buf_done(&k->packet);
	explicit_bzero(k->mem, PEER_PACKET_MAX);
	free(k->mem);
	free(k);
	return r;
}
