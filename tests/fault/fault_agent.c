/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_agent.c - a thread between the host end and the agent
 *
 * Two lanes, one for each direction. A lane collects bytes until a whole frame is there, asks
 * fault_hit() about it, and passes it on, loses it, stops, or hangs up. Only the header is
 * understood (wire/agent.h). Bytes that are not a frame (the zeros of a flush, noise)
 * pass untouched and are not counted; what is left when an end hangs up is passed on before
 * the other end is closed. A full lane is not read, so back pressure works as usual.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "tests/fault/fault.h"
#include "wire/agent.h"

#define LANE_CAP ((size_t)2 * AGENT_FRAME_MAX) /* one whole frame always fits */

struct lane {
	const char *from; /* "host" or "guest" */
	int in, out;      /* weak */
	uint8_t *buf;     /* owned */
	size_t len;       /* bytes in buf */
	size_t pass;      /* of these, from the front: checked and to be sent */
	bool eof;         /* in has ended */
};

enum fate { GOES_ON, STALLED, HUNG_UP };

struct fault_agent {
	int agent_fd, host_fd, stop_fd; /* owned */
	struct lane lanes[2];
	enum fate fate;
	pthread_t thread;
};

static bool may_begin_frame(const uint8_t *p, size_t n)
{
	uint8_t magic[4];

	put_be32(magic, AGENT_MAGIC);
	return memcmp(p, magic, MIN(n, sizeof(magic))) == 0;
}

/* The frame at p: its length; 0 when there is none; -EAGAIN when it is not whole yet. */
static ssize_t frame_at(const uint8_t *p, size_t n, struct agent_frame *ret)
{
	uint32_t tail;
	size_t len;

	if (!may_begin_frame(p, n))
		return 0;
	if (n < AGENT_HDR_LEN)
		return -EAGAIN;
	if (agent_frame_parse(p, ret, &tail) < 0)
		return 0;
	len = AGENT_HDR_LEN + (ret->len ? ret->len + AGENT_TAIL_LEN : 0);
	return n < len ? -EAGAIN : (ssize_t)len;
}

static void lane_drop(struct lane *l, size_t at, size_t n)
{
	memmove(l->buf + at, l->buf + at + n, l->len - at - n);
	l->len -= n;
}

/* Checks what has arrived. */
static enum fate lane_judge(struct lane *l)
{
	while (l->pass < l->len) {
		struct agent_frame f;
		ssize_t n = frame_at(l->buf + l->pass, l->len - l->pass, &f);
		char what[48];

		if (n == -EAGAIN && !l->eof)
			break;
		if (n <= 0) { /* not a frame, or one that its sender cut short */
			l->pass++;
			continue;
		}
		snprintf(what, sizeof(what), "%s %s", l->from, agent_frame_name(f.type));
		switch (fault_hit(FAULT_AGENT, what, "")) {
		case 0:
			l->pass += (size_t)n;
			break;
		case FAULT_SWALLOW:
			lane_drop(l, l->pass, (size_t)n);
			break;
		case FAULT_STALL:
			lane_drop(l, l->pass, (size_t)n);
			return STALLED;
		default:
			lane_drop(l, l->pass, (size_t)n);
			return HUNG_UP;
		}
	}
	return GOES_ON;
}

static void lane_read(struct lane *l)
{
	ssize_t n = recv(l->in, l->buf + l->len, LANE_CAP - l->len, MSG_DONTWAIT);

	if (n > 0)
		l->len += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		l->eof = true;
}

/* false: there is no listener any more. */
static bool lane_write(struct lane *l)
{
	while (l->pass) {
		ssize_t n = send(l->out, l->buf, l->pass, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		l->pass -= (size_t)n;
		lane_drop(l, 0, (size_t)n);
	}
	return true;
}

/* One turn of the loop; false when it is over. */
static bool turn(struct fault_agent *a)
{
	struct pollfd p[5] = { { .fd = a->stop_fd, .events = POLLIN } };

	for (int i = 0; i < 2; i++) {
		struct lane *l = &a->lanes[i];

		/* A stalled channel is looked at only for its end. */
		p[1 + 2 * i] = (struct pollfd){ .fd = l->eof ? -1 : l->in };
		if (a->fate == GOES_ON && l->len < LANE_CAP)
			p[1 + 2 * i].events = POLLIN;
		p[2 + 2 * i] = (struct pollfd){ .fd = l->pass ? l->out : -1, .events = POLLOUT };
	}
	if (poll(p, ARRAY_SIZE(p), -1) < 0)
		return errno == EINTR;
	if (p[0].revents)
		return false;
	for (int i = 0; i < 2; i++) {
		struct lane *l = &a->lanes[i];

		if (a->fate == STALLED) {
			if (p[1 + 2 * i].revents & (POLLHUP | POLLERR))
				return false;
			continue;
		}
		if (p[1 + 2 * i].revents)
			lane_read(l);
		a->fate = lane_judge(l);
		if (!lane_write(l) || a->fate == HUNG_UP)
			return false;
		if (l->eof && !l->len)
			return false;
		if (a->fate == STALLED)
			l->len = l->pass = 0;
	}
	return true;
}

static void *agent_main(void *arg)
{
	struct fault_agent *a = arg;

	while (turn(a))
		;
	/* The descriptors are closed by fault_agent_stop(): their numbers stay ours until then. */
	shutdown(a->agent_fd, SHUT_RDWR);
	shutdown(a->host_fd, SHUT_RDWR);
	return NULL;
}

static void agent_free(struct fault_agent *a)
{
	for (int i = 0; i < 2; i++)
		free(a->lanes[i].buf);
	auto_close_(&a->agent_fd);
	auto_close_(&a->host_fd);
	auto_close_(&a->stop_fd);
	free(a);
}

int fault_agent_start(int agent_fd_consume, int *ret_host_fd, struct fault_agent **ret,
                      struct err *err)
{
	FAULT_QUIET;
	autofd int host_end = -1;
	struct fault_agent *a = calloc(1, sizeof(*a));
	int pair[2], r = 0;

	if (!a) {
		close(agent_fd_consume);
		return err_set(err, -ENOMEM, "fault injector: out of memory");
	}
	a->agent_fd = agent_fd_consume;
	a->host_fd = -1;
	a->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (a->stop_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		r = err_sys(err, -errno, "fault injector: socketpair");
		agent_free(a);
		return r;
	}
	host_end = pair[0];
	a->host_fd = pair[1];
	a->lanes[0] = (struct lane){ "host", a->host_fd, a->agent_fd, malloc(LANE_CAP) };
	a->lanes[1] = (struct lane){ "guest", a->agent_fd, a->host_fd, malloc(LANE_CAP) };
	r = a->lanes[0].buf && a->lanes[1].buf ? -pthread_create(&a->thread, NULL, agent_main, a)
	                                       : -ENOMEM;
	if (r < 0) {
		agent_free(a);
		return err_sys(err, r, "fault injector: start a thread");
	}
	*ret_host_fd = TAKE_FD(host_end);
	*ret = a;
	return 0;
}

struct fault_agent *fault_agent_stop(struct fault_agent *a)
{
	if (!a)
		return NULL;
	eventfd_write(a->stop_fd, 1);
	pthread_join(a->thread, NULL);
	agent_free(a);
	return NULL;
}
