/* SPDX-License-Identifier: MIT */
/*
 * control.c - the library's one thread: serves requests, waits for writers
 *
 * Theory of operation: poll over the listening socket (only while there is no client, so that a
 * second one waits its turn), the client and the pidfds of writers in flight. A request is carried
 * out at once and answered; the only slow work is done by forked children. Nothing here waits for a
 * client: the socket does not block, and one that does not take its answers, breaks the rules or
 * vanishes is dropped. A writer's result is kept until a client has received it, so a restarted
 * server learns about freezes begun before.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "layers/layers_internal.h"

#define THREAD_STACK (256u << 10) /* bytes; struct scan and struct stack are the large frames */
#define ACCEPT_PAUSE_MS 100       /* before the next try when a connection cannot be accepted */

static void close_fds(int *fds, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		close(fds[i]);
}

static void forget_stack(struct control *c)
{
	close_fds(c->layer_fds, c->n_layer_fds);
	c->n_layer_fds = 0;
	c->n_layers_due = 0;
}

static void drop_client(struct control *c)
{
	close(c->client_fd);
	c->client_fd = -1;
	forget_stack(c);
}

/* 0, or -errno and the client is gone. fd: goes along; -1: none. */
static int send_reply_fd(struct control *c, const struct layers_reply *reply, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	struct layers_reply copy = *reply;
	struct iovec iov = { .iov_base = &copy, .iov_len = sizeof(copy) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (c->client_fd < 0)
		return -ENOTCONN;
	if (fd >= 0) {
		mh.msg_control = u.buf;
		mh.msg_controllen = sizeof(u.buf);
		u.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
			                    .cmsg_type = SCM_RIGHTS,
			                    .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&u.align), &fd, sizeof(fd));
	}
	do
		n = sendmsg(c->client_fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n == sizeof(*reply))
		return 0;
	n = n < 0 ? -errno : -EIO;
	drop_client(c);
	return (int)n;
}

static int send_reply(struct control *c, const struct layers_reply *reply)
{
	return send_reply_fd(c, reply, -1);
}

static void report_ended(struct control *c)
{
	for (size_t i = 0; i < LAYERS_FREEZE_MAX; i++) {
		struct freeze *f = &c->freezes[i];

		if (f->state == FREEZE_ENDED && send_reply(c, &f->done) == 0)
			f->state = FREEZE_FREE;
	}
}

static int fail(struct layers_reply *reply, int code, const char *why)
{
	reply->status = code;
	snprintf(reply->why, sizeof(reply->why), "%s", why);
	return code;
}

/* Returns whether the request is complete and @reply is the answer to it. */
static bool on_map(struct control *c, const struct layers_req *req, int *fds, uint32_t *n_fds,
                   struct layers_reply *reply)
{
	if (req->flags != 0 || req->n_layers < 1 || req->n_layers > LAYER_STACK_MAX)
		fail(reply, -EINVAL, "a stack has 1 to 64 layers");
	else if (req->type == LAYERS_MAP && (c->mapped || c->broken))
		fail(reply, -EALREADY, "layers were mapped before");
	else if (req->type == LAYERS_SEED && (!c->mapped || c->broken || !park_enabled()))
		fail(reply, -EINVAL, "this process cannot become a seed");
	else if (req->type == LAYERS_SEED && freeze_in_flight(c))
		fail(reply, -EBUSY, "a freeze is in flight");
	else if (!ram_base())
		fail(reply, -EAGAIN, "guest memory is not mapped yet");
	else if (*n_fds == 0 || req->first != c->n_layer_fds ||
	         (c->n_layer_fds > 0 && req->n_layers != c->n_layers_due) ||
	         *n_fds > req->n_layers - c->n_layer_fds)
		fail(reply, -EINVAL, "descriptors do not continue the stack");
	if (reply->status < 0) {
		forget_stack(c);
		return true;
	}
	memcpy(c->layer_fds + c->n_layer_fds, fds, *n_fds * sizeof(*fds));
	c->n_layer_fds += *n_fds;
	c->n_layers_due = req->n_layers;
	*n_fds = 0; /* they are the stack's now */
	if (c->n_layer_fds < c->n_layers_due)
		return false;
	if (req->type == LAYERS_SEED)
		seed_start(c, reply);
	else
		map_stack(c, /* again= */ false, reply);
	forget_stack(c);
	return true;
}

static void on_stat(struct control *c, struct layers_reply *reply)
{
	uint64_t began = now_us();
	struct scan *s;
	int r;

	reply->mem_bytes = ram.bytes;
	reply->n_layers = c->n_layers;
	reply->n_mappings = c->n_mappings;
	reply->in_flight = freeze_in_flight(c);
	reply->can = LAYERS_CAN_FREE;
	if (c->broken)
		reply->flags |= LAYERS_RAM_BROKEN;
	if (!ram_base())
		return; /* nothing is private yet */
	s = malloc(sizeof(*s));
	r = s ? scan_private(ram_base(), ram.bytes, /* gap_pages= */ 0, /* use_ioctl= */ true, s)
	      : -ENOMEM;
	if (r < 0)
		fail(reply, r, "find private pages");
	else
		reply->pages = s->pages;
	free(s);
	reply->us = now_us() - began;
}

/* Answers by itself: in the seed to its client, in the child to the child's own. */
static int on_fork(struct control *c, const struct layers_req *req, int *fds, uint32_t *n_fds)
{
	struct layers_reply reply = { .type = LAYERS_FORK };
	int pidfd = -1, r;

	if (req->flags != 0 || req->n_layers != LAYERS_FORK_FDS || *n_fds != LAYERS_FORK_FDS)
		return -EPROTO;
	r = seed_fork(c, fds, &pidfd, &reply);
	if (r == 0)
		*n_fds = 0; /* the child's, and in their places */
	send_reply_fd(c, &reply, r > 0 ? pidfd : -1);
	if (r > 0)
		close(pidfd);
	return 0;
}

/* 0, or -EPROTO if the client breaks the rules. Takes over the descriptors it zeroes from *@n_fds.
 */
static int on_request(struct control *c, const struct layers_req *req, int *fds, uint32_t *n_fds)
{
	struct layers_reply reply = { .type = req->type };

	if (c->n_layer_fds > 0 && req->type != c->stack_for)
		forget_stack(c); /* half a stack, then something else */
	switch (req->type) {
	case LAYERS_MAP:
	case LAYERS_SEED:
		c->stack_for = req->type;
		if (!on_map(c, req, fds, n_fds, &reply))
			return 0;
		break;
	case LAYERS_FREEZE:
		freeze_start(c, req, *n_fds == 1 ? fds[0] : -1, &reply);
		break;
	case LAYERS_DISCARD:
		reply.token = req->token;
		reply.status = freeze_discard(c, req->token);
		break;
	case LAYERS_STAT:
		on_stat(c, &reply);
		break;
	case LAYERS_SWEEP:
		sweep_serve(c, req, &reply);
		break;
	case LAYERS_FORK:
		return on_fork(c, req, fds, n_fds);
	default:
		return -EPROTO;
	}
	send_reply(c, &reply);
	return 0;
}

/* The descriptors that came with a packet; there is room for LAYERS_FDS_MAX. */
static uint32_t take_fds(struct msghdr *mh, int *ret_fds)
{
	uint32_t n = 0;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm; cm = CMSG_NXTHDR(mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
			if (n < LAYERS_FDS_MAX)
				ret_fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

static void on_client(struct control *c)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(LAYERS_FDS_MAX * sizeof(int))];
	} u;
	struct layers_req req;
	struct iovec iov = { .iov_base = &req, .iov_len = sizeof(req) };
	struct msghdr mh = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = u.buf,
		.msg_controllen = sizeof(u.buf),
	};
	int fds[LAYERS_FDS_MAX];
	uint32_t n_fds;
	ssize_t n = recvmsg(c->client_fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int r;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		drop_client(c);
		return;
	}
	n_fds = take_fds(&mh, fds);
	if (n != sizeof(req) || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		r = -EPROTO;
	else
		r = on_request(c, &req, fds, &n_fds);
	close_fds(fds, n_fds);
	if (r < 0 && c->client_fd >= 0)
		drop_client(c);
}

static void on_connection(struct control *c)
{
	int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		/* it went away again; or we are out of descriptors, and poll would not wait */
		c->accept_later = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
		return;
	}
	c->client_fd = fd;
	report_ended(c);
}

static void control_turn(struct control *c)
{
	struct pollfd p[2 + LAYERS_FREEZE_MAX];
	int n;

	bool accepting = c->client_fd < 0 && !c->accept_later;

	p[0] = (struct pollfd){ .fd = accepting ? c->listen_fd : -1, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = c->client_fd, .events = POLLIN };
	for (size_t i = 0; i < LAYERS_FREEZE_MAX; i++)
		p[2 + i] = (struct pollfd){ .fd = c->freezes[i].pidfd, .events = POLLIN };
	/* otherwise without a deadline: this thread's only work is what these bring */
	n = poll(p, sizeof(p) / sizeof(p[0]), c->accept_later ? ACCEPT_PAUSE_MS : -1);
	c->accept_later = false;
	if (n <= 0)
		return;
	for (size_t i = 0; i < LAYERS_FREEZE_MAX; i++)
		if (p[2 + i].revents != 0)
			freeze_reap(&c->freezes[i]);
	report_ended(c);
	if (p[1].revents != 0 && c->client_fd == p[1].fd)
		on_client(c);
	else if (p[0].revents != 0)
		on_connection(c);
}

static void *control_run(void *arg)
{
	struct control *c = arg;

	pthread_setname_np(pthread_self(), "pando-layers");
	for (;;)
		control_turn(c);
	return NULL;
}

int control_start(int listen_fd_consume)
{
	static struct control control; /* as long-lived as the process */
	struct control *c = &control;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	socklen_t len = sizeof(int);
	int listening = 0, type = 0, r;

	if (getsockopt(listen_fd_consume, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 ||
	    !listening)
		return -ENOTSOCK;
	len = sizeof(int);
	if (getsockopt(listen_fd_consume, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET)
		return -EPROTOTYPE;
	if (fcntl(listen_fd_consume, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(listen_fd_consume, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	c->listen_fd = listen_fd_consume;
	c->client_fd = -1;
	if ((r = freeze_init(c)) < 0)
		return r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_attr_init(&attr);
	if (r == 0) {
		pthread_attr_setstacksize(&attr, THREAD_STACK);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		r = pthread_create(&thread, &attr, control_run, c);
		pthread_attr_destroy(&attr);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}
