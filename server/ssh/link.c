/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - messages of one pando-ssh, which is taken to be its client's
 *
 * It is believed nothing: a message that cannot be decoded, that is not expected or whose answers
 * are not read ends the process, and with it this one connection. It may ask quickly, but only so
 * much in a window of time. What it writes to its stderr becomes a few lines of the log.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"
#include "ssh/ssh_internal.h"

#ifdef LOCK_CHECK /* a build with a sanitizer, which looks for leaks at the end */
#define END_MS 10000
#else
#define END_MS 2000 /* for the process to say goodbye and end; then it is killed */
#endif

void link_broken(struct conn *c, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!c->gone)
		conn_log(c, LOG_LV_WARN, "process %d is ended: %s", (int)c->speaker.proc.pid, text);
	c->gone = true;
	proc_kill(&c->speaker.proc, SIGKILL);
}

bool link_may_ask(struct conn *c, int *ret_ms)
{
	uint64_t now = clock_ms();

	if (now - c->asks_since >= SSHD_ASKS_WINDOW_MS) {
		c->asks_since = now;
		c->asks = 0;
	}
	*ret_ms = (int)(SSHD_ASKS_WINDOW_MS - (now - c->asks_since));
	return c->asks < SSHD_ASKS_MAX;
}

static int hello(struct conn *c, const struct sshw_msg *m)
{
	if (c->speaker.ready || m->version != SSHW_VERSION)
		link_broken(c, "it greets twice, or with version %u instead of %u", m->version,
		            SSHW_VERSION);
	c->speaker.ready = true;
	return 0;
}

int link_hear(struct conn *c, struct sshw_msg *ret)
{
	struct err err = { 0 };
	ssize_t n;
	int ms;

	if (c->gone || !link_may_ask(c, &ms))
		return 0;
	/* Descriptors are not asked for, so the kernel drops them. */
	n = recv(c->speaker.sock, c->packet, SSHW_MSG_MAX, MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		c->gone = true; /* the client left, or the process died */
		return 0;
	}
	c->asks++;
	if (n > (ssize_t)SSHW_MSG_MAX) {
		link_broken(c, "a message of %zd bytes", n);
		return 0;
	}
	if (sshw_decode(c->packet, (size_t)n, SSHW_CHILD, ret, &err) < 0) {
		link_broken(c, "%s", err.msg);
		return 0;
	}
	c->packet_len = (size_t)n;
	if (ret->kind == SSHW_READY)
		return hello(c, ret);
	if (!c->speaker.ready) {
		link_broken(c, "it asks before it is ready");
		return 0;
	}
	return 1;
}

void link_send(struct conn *c, const struct sshw_msg *m, int fd)
{
	uint64_t deadline = deadline_in(SSHD_STUCK_MS);
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	ssize_t k;

	if (c->gone)
		return;
	if (sshw_encode(m, &b, &err) < 0) {
		link_broken(c, "%s", err.msg);
		return;
	}
	/* Descriptors on their way count for all of pandod: it has to have read most of what it was
	 * sent. */
	if (fd >= 0 && io_wait(c->speaker.sock, POLLOUT, deadline) <= 0) {
		link_broken(c, "it does not read its answers");
		return;
	}
	do {
		k = sock_send_fds(c->speaker.sock, b.p, b.len, &fd, fd >= 0 ? 1 : 0);
		if (k >= 0)
			return;
	} while ((k == -EAGAIN || k == -ETOOMANYREFS) &&
	         io_wait(c->speaker.sock, POLLOUT, deadline) > 0 && clock_ms() < deadline);
	if (k == -EPIPE || k == -ECONNRESET)
		c->gone = true;
	else
		link_broken(c, "it does not read its answers (%s)", err_name((int)k));
}

void link_answer(struct conn *c, bool ok, uint16_t port, int fd)
{
	struct sshw_msg m = { .kind = SSHW_ANSWER, .ok = ok, .port = port };

	link_send(c, &m, ok ? fd : -1);
}

/* Lines of its stderr become lines of the log, which replaces control characters. */
void link_take_lines(struct conn *c)
{
	ssize_t n;
	char *end;

	if (c->speaker.errs < 0)
		return;
	n = read(c->speaker.errs, c->line + c->line_len, sizeof(c->line) - 1 - c->line_len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || c->lines >= SSHD_LINES_MAX) {
		close(TAKE_FD(c->speaker.errs));
		return;
	}
	c->line_len += (size_t)n;
	while (c->line_len &&
	       ((end = memchr(c->line, '\n', c->line_len)) || c->line_len == sizeof(c->line) - 1)) {
		size_t len = end ? (size_t)(end - c->line) : c->line_len;
		size_t took = end ? len + 1 : len;

		if (c->lines++ < SSHD_LINES_MAX)
			conn_log(c, LOG_LV_WARN, "pando-ssh: %.*s", (int)len, c->line);
		memmove(c->line, c->line + took, c->line_len - took);
		c->line_len -= took;
	}
}

/* It is told to leave, or has left. */
void link_end(struct conn *c)
{
	uint64_t until = deadline_in(END_MS);
	char how[64];

	if (c->leave && !c->gone && c->speaker.sock >= 0) {
		struct sshw_msg m = { .kind = SSHW_LEAVE };

		snprintf(m.text, sizeof(m.text), "%s", c->why);
		link_send(c, &m, -1);
	}
	/* Its end is the end of the pipe, too; its last words come before that. */
	while (c->speaker.errs >= 0 && io_wait(c->speaker.errs, POLLIN, until) > 0)
		link_take_lines(c);
	speaker_end(&c->speaker, (unsigned)deadline_left(until), how);
	if (!*how)
		return;
	conn_log(c, LOG_LV_WARN, "the process of this connection %s", how);
	LOCK_SCOPE(&c->d->lock);
	c->d->ended_badly++;
}
