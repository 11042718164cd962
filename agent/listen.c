/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.c - a port of this machine whose connections go to the host
 *
 * listen holds the sockets; accept waits for one connection and becomes it. The host keeps an
 * accept open as long as it wants more; otherwise new connections wait in the kernel's queue. So
 * nothing is accepted before it is wanted, and nothing has to be queued here. Only loopback
 * addresses: forwarded ports are for this machine, not for its network.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "wire/agent_login.h"

#define LISTEN_BACKLOG 32
#define PORT_PRIVILEGED 1024 /* lower ports are reserved for root */

static int bind_to(bool v6, uint16_t port, int *ret_fd, uint16_t *ret_port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
		                  .sin_port = htons(port),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 sa6 = { .sin6_family = AF_INET6,
		                    .sin6_port = htons(port),
		                    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *sa = v6 ? (struct sockaddr *)&sa6 : (struct sockaddr *)&v4;
	socklen_t len = v6 ? sizeof(sa6) : sizeof(v4);
	autofd int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
	    (v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 1 }, sizeof(int)) < 0) ||
	    bind(fd, sa, len) < 0 || listen(fd, LISTEN_BACKLOG) < 0 ||
	    getsockname(fd, sa, &len) < 0)
		return -errno;
	*ret_port = ntohs(v6 ? sa6.sin6_port : v4.sin_port);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int listen_on(struct agent *a, struct stream *s, const struct agent_addr *m)
{
	static struct user u;
	uint16_t port = m->port, same;
	int r = *m->text ? user_find(m->text, &u) : 0;

	if (r < 0)
		return r;
	if (*m->text && u.uid != 0 && port && port < PORT_PRIVILEGED)
		return -EACCES;
	r = bind_to(/* v6= */ false, port, &s->listen_fd[0], &port);
	if (r < 0)
		return r;
	s->port = port;
	/* Without IPv6, or if the port is taken there, IPv4 is enough. */
	if (bind_to(/* v6= */ true, port, &s->listen_fd[1], &same) < 0)
		s->listen_fd[1] = -1;
	for (size_t i = 0; i < ARRAY_SIZE(s->listen_fd) && r == 0; i++)
		if (s->listen_fd[i] >= 0)
			r = stream_poll(a, s, s->listen_fd[i], REF_LISTEN, EPOLLIN);
	return r;
}

void listen_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_addr m;
	uint8_t port[2];
	struct stream *s;
	int r;

	if (agent_listen_get(c, &m) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed listen request");
		return;
	}
	s = stream_new(a, id, AGENT_OP_LISTEN);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	r = listen_on(a, s, &m);
	if (r < 0) {
		stream_result(a, s, (uint32_t)-r,
		              r == -ENOENT ? AGENT_TAG_USER_NOT_FOUND : AGENT_TAG_NONE, err_name(r),
		              NULL, 0);
		job_orphan(a, s);
		return;
	}
	put_be16(port, s->port);
	port_send(a, AGENT_F_OPENED, 0, id, port, sizeof(port));
}

/* The next connection, from either address; -1: none now. */
static int knock(struct stream *s, struct agent_addr *ret, char text[AGENT_ADDR_MAX])
{
	for (size_t i = 0; i < ARRAY_SIZE(s->listen_fd); i++) {
		struct sockaddr_in6 sa = { 0 };
		socklen_t len = sizeof(sa);
		int fd = s->listen_fd[i] < 0 ? -1
		                             : accept4(s->listen_fd[i], (struct sockaddr *)&sa,
		                                       &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		if (sa.sin6_family == AF_INET6)
			inet_ntop(AF_INET6, &sa.sin6_addr, text, AGENT_ADDR_MAX);
		else
			inet_ntop(AF_INET, &((struct sockaddr_in *)&sa)->sin_addr, text,
			          AGENT_ADDR_MAX);
		*ret = (struct agent_addr){ .text = text, .port = ntohs(sa.sin6_port) };
		return fd;
	}
	return -1;
}

static struct stream *waiting_for(struct agent *a, const struct stream *s)
{
	for (unsigned i = 0; i < a->n_streams; i++) {
		struct stream *w = a->slot[i];

		if (w->op == AGENT_OP_ACCEPT && w->id && w->connecting && w->target == s->id)
			return w;
	}
	return NULL;
}

void listen_serve(struct agent *a, struct stream *s)
{
	struct stream *w;

	while (s->id && (w = waiting_for(a, s))) {
		char text[AGENT_ADDR_MAX];
		autobuf struct buf b = { 0 };
		struct agent_addr peer;
		int fd = knock(s, &peer, text);

		if (fd < 0)
			return;
		agent_addr_put(&b, &peer);
		w->in.fd = fd;
		w->port = s->port;
		w->in.writable = true;
		if (b.failed || stream_poll(a, w, fd, REF_IN, EPOLLOUT) < 0) {
			stream_result(a, w, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory", NULL, 0);
			job_orphan(a, w);
			continue;
		}
		connect_established(a, w, b.p, b.len);
	}
}

void accept_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct stream *s, *of;
	uint32_t target;

	if (rd_u32(c, &target) < 0 || rd_end(c) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed accept request");
		return;
	}
	of = stream_find(a, target);
	if (!of || of->op != AGENT_OP_LISTEN) {
		stream_answer(a, id, ENOENT, AGENT_TAG_NONE, "nothing listens there");
		return;
	}
	s = stream_new(a, id, AGENT_OP_ACCEPT);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	s->target = target;
	s->connecting = true;
	listen_serve(a, of);
}

void listen_end(struct agent *a, struct stream *s)
{
	/* Waiting accepts have lost their listener by now, or are cancelled by the host. */
	for (size_t i = 0; i < ARRAY_SIZE(s->listen_fd); i++)
		if (s->listen_fd[i] >= 0)
			close(TAKE_FD(s->listen_fd[i]));
}
