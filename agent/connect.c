/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c - a TCP connection to a port of this machine, as a stream
 *
 * 127.0.0.1 first, ::1 when nothing listens there. OPENED tells the host that it is connected; then
 * bytes go both ways and each direction ends on its own. dial connects to the given address, and
 * accept (listen.c) already has a socket. The two directions have one descriptor each (dup), so
 * they are polled and closed separately. RESULT comes when both have ended, or with the errno that
 * broke it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "wire/agent_login.h"

static void refuse(struct agent *a, struct stream *s, int err_no)
{
	char msg[96];

	snprintf(msg, sizeof(msg), "connect to port %u: %s", s->port, err_name(err_no));
	s->connecting = false;
	stream_result(a, s, (uint32_t)err_no, AGENT_TAG_NONE, msg, NULL, 0);
	job_orphan(a, s);
}

void connect_established(struct agent *a, struct stream *s, const void *opened, size_t n)
{
	int fd = fcntl(s->in.fd, F_DUPFD_CLOEXEC, 3), r;

	if (fd < 0) {
		refuse(a, s, errno);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	s->connecting = false;
	s->in.writable = true;
	s->out[AGENT_OUT].fd = fd;
	s->out[AGENT_OUT].readable = true;
	r = stream_poll(a, s, fd, REF_OUT, EPOLLIN | EPOLLRDHUP);
	if (r < 0) {
		refuse(a, s, -r);
		return;
	}
	port_send(a, AGENT_F_OPENED, 0, s->id, opened, n);
	pump_in(a, s);
}

/* Begins the connect; 0 if it is connected or in progress, else a positive errno. */
static int attempt(struct agent *a, struct stream *s, bool v6)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
		                  .sin_port = htons(s->port),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 sa6 = { .sin6_family = AF_INET6,
		                    .sin6_port = htons(s->port),
		                    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct sockaddr *sa = v6 ? (struct sockaddr *)&sa6 : (struct sockaddr *)&v4;
	int r;

	if (s->op == AGENT_OP_DIAL) {
		v6 = s->dial_v6;
		sa = v6 ? (struct sockaddr *)&sa6 : (struct sockaddr *)&v4;
		memcpy(&sa6.sin6_addr, s->dial_addr, sizeof(sa6.sin6_addr));
		memcpy(&v4.sin_addr, s->dial_addr, sizeof(v4.sin_addr));
	}
	stream_close_in(s);
	s->try_v6 = !v6 && s->op == AGENT_OP_CONNECT;
	s->in.fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->in.fd < 0)
		return errno;
	r = connect(s->in.fd, sa, v6 ? sizeof(sa6) : sizeof(v4)) < 0 ? errno : 0;
	if (r && r != EINPROGRESS)
		return r;
	s->in.writable = false; /* an event reports it, even if it is already connected */
	return -stream_poll(a, s, s->in.fd, REF_IN, EPOLLOUT);
}

static void next_attempt(struct agent *a, struct stream *s, int err_no)
{
	int first = err_no;

	if (err_no && s->try_v6)
		err_no = attempt(a, s, /* v6= */ true);
	if (err_no)
		refuse(a, s, first);
}

static struct stream *begin(struct agent *a, uint32_t id, uint16_t op, uint16_t port)
{
	struct stream *s = stream_new(a, id, op);

	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return NULL;
	}
	s->port = port;
	s->connecting = true;
	return s;
}

void dial_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_addr m;
	struct stream *s;

	if (agent_dial_get(c, &m) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed dial request");
		return;
	}
	s = begin(a, id, AGENT_OP_DIAL, m.port);
	if (!s)
		return;
	s->dial_v6 = strchr(m.text, ':') != NULL;
	inet_pton(s->dial_v6 ? AF_INET6 : AF_INET, m.text, s->dial_addr);
	next_attempt(a, s, attempt(a, s, /* v6= */ false));
}

void connect_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct stream *s;
	uint16_t port;

	if (rd_u16(c, &port) < 0 || rd_end(c) < 0 || !port) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed connect request");
		return;
	}
	s = begin(a, id, AGENT_OP_CONNECT, port);
	if (s)
		next_attempt(a, s, attempt(a, s, /* v6= */ false));
}

void connect_on_writable(struct agent *a, struct stream *s)
{
	socklen_t len = sizeof(int);
	int e = 0;

	if (getsockopt(s->in.fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0)
		e = errno;
	if (e)
		next_attempt(a, s, e);
	else
		connect_established(a, s, NULL, 0);
}
