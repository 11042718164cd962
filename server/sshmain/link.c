/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - questions to pandod and its answers
 *
 * One question at a time, whose answer is waited for; what pandod says meanwhile about channels is
 * noted on them. Without pandod there is nothing to do: then the process ends at once.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/sock.h"
#include "sshmain/sshmain.h"

static void __attribute__((noreturn)) lost(const char *what)
{
	if (what)
		log_error("%s: ending", what);
	_exit(what ? 1 : 0);
}

/* One message, with at most one descriptor; false: none now. */
static bool receive(struct conn *c, bool wait, struct sshw_msg *ret, int *ret_fd)
{
	struct pollfd p = { .fd = c->sock, .events = POLLIN };
	struct err err = { 0 };
	size_t n_fds = 0;
	ssize_t n;

	*ret_fd = -1;
	while (poll(&p, 1, wait ? -1 : 0) < 0 && errno == EINTR)
		;
	if (!p.revents)
		return false;
	n = sock_recv_fds(c->sock, c->packet, sizeof(c->packet), ret_fd, 1, &n_fds);
	if (n == 0 || n == -ECONNRESET)
		lost(NULL); /* pandod is gone, or has no client for us */
	if (n < 0 || sshw_decode(c->packet, (size_t)n, SSHW_HOST, ret, &err) < 0)
		lost(n < 0 ? "pandod's message was lost" : err.msg);
	if (!n_fds)
		*ret_fd = -1;
	return true;
}

static void forget(int fd)
{
	if (fd >= 0)
		close(fd);
}

void link_start(struct conn *c, struct sshw_msg *ret)
{
	int fd;

	if (!receive(c, /* wait= */ true, ret, &fd) || ret->kind != SSHW_START ||
	    ret->version != SSHW_VERSION)
		lost("pandod speaks another version of the protocol");
	forget(fd);
}

void link_connect(struct conn *c)
{
	static struct sshw_msg m;

	if (!receive(c, /* wait= */ true, &m, &c->fd) || m.kind != SSHW_CONNECT || c->fd < 0)
		lost("there is no client");
}

void link_tell(struct conn *c, const struct sshw_msg *m)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	ssize_t n;

	if (sshw_encode(m, &b, &err) < 0)
		lost(err.msg);
	do
		n = send(c->sock, b.p, b.len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (m->kind == SSHW_AUTH)
		explicit_bzero(b.p, b.len);
	if (n < 0)
		lost(errno == EPIPE || errno == ECONNRESET ? NULL : "pandod cannot be asked");
}

/* What pandod says without being asked. */
static void note(struct conn *c, const struct sshw_msg *m, int fd_consume)
{
	switch (m->kind) {
	case SSHW_LEAVE:
		conn_end(c, m->text);
		forget(fd_consume);
		break;
	case SSHW_DIALED:
		direct_dialed(c, m->id, fd_consume);
		break;
	case SSHW_KNOCK:
		forward_knock(c, m, fd_consume);
		break;
	default:
		lost("pandod answers what was not asked");
	}
}

bool link_ask(struct conn *c, const struct sshw_msg *m, uint16_t *ret_port, int *ret_fd)
{
	static struct sshw_msg answer;
	int fd;

	link_tell(c, m);
	for (;;) {
		receive(c, /* wait= */ true, &answer, &fd);
		if (answer.kind == SSHW_ANSWER)
			break;
		note(c, &answer, fd);
		if (c->leave)
			return false;
	}
	if (ret_port)
		*ret_port = answer.port;
	if (ret_fd && answer.ok)
		*ret_fd = TAKE_FD(fd);
	forget(fd);
	return answer.ok;
}

void link_hear(struct conn *c)
{
	static struct sshw_msg m;
	int fd;

	while (!c->leave && receive(c, /* wait= */ false, &m, &fd))
		note(c, &m, fd);
}
