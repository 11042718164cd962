/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - questions to pandod and its answers
 *
 * Theory of operation: a worker of the edge has a lane, a socket on which it asks and waits for the
 * answer; pandod answers these from memory, so that takes as long as two switches of context. What
 * takes longer goes through the control socket: the calling thread waits for the answer with its
 * id, which the main thread receives. When pandod closes the control socket every call fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sock.h"
#include "edgemain/edgemain.h"

#define ANSWER_S 30 /* for pandod to answer on a lane; it does so in microseconds */
#define IDLE_MS 250 /* how often the main thread does something by itself */
#define START_FDS_MAX (EDGEW_LANES_MAX + 4)

struct call {
	struct call *next;
	uint32_t id;
	bool done;
	struct edgew_msg *ret;
	int fd;
	struct cond cond;
};

struct link {
	int control, log, lanes[EDGEW_LANES_MAX];
	unsigned n_lanes;
	const struct edgew_tallies *tallies;
	uint8_t *packet; /* of the main thread */
	struct mutex lock;
	struct call *calls GUARDED_BY(lock); /* weak: on the stacks of their callers */
	uint32_t next_id GUARDED_BY(lock);
	bool over GUARDED_BY(lock);
};

unsigned link_lanes(const struct link *l)
{
	return l->n_lanes;
}

/* ---- lanes ---- */

static void __attribute__((noreturn)) lost(const char *what)
{
	log_error("%s: ending", what);
	_exit(1); /* pandod starts another one, or has ended itself */
}

void link_ask(struct link *l, unsigned lane, const struct edgew_msg *question,
              struct edgew_msg *ret)
{
	uint8_t packet[2048];
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	ssize_t n;

	if (edgew_encode(question, &b, &err) < 0)
		lost(err.msg);
	do
		n = send(l->lanes[lane], b.p, b.len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0) {
		do
			n = recv(l->lanes[lane], packet, sizeof(packet), 0);
		while (n < 0 && errno == EINTR);
	}
	if (n <= 0)
		lost(n < 0 && errno == EAGAIN ? "pandod does not answer" : "pandod is gone");
	if (edgew_decode(packet, (size_t)n, EDGEW_HOST_LANE, ret, &err) < 0)
		lost(err.msg);
}

/* ---- calls ---- */

int link_call(struct link *l, const struct edgew_msg *question, struct edgew_msg *ret, int *ret_fd)
{
	struct call c = { .ret = ret, .fd = -1 };
	struct edgew_msg m = *question;
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	ssize_t n;
	int r;

	cond_init(&c.cond);
	mutex_lock(&l->lock);
	c.id = m.id = l->next_id++;
	c.next = l->calls;
	l->calls = &c;
	r = l->over ? -ESHUTDOWN : 0;
	mutex_unlock(&l->lock);
	if (r == 0)
		r = edgew_encode(&m, &b, &err);
	if (r == 0) {
		do
			n = send(l->control, b.p, b.len, MSG_NOSIGNAL);
		while (n < 0 && errno == EINTR);
		r = n < 0 ? -errno : 0;
	}
	mutex_lock(&l->lock);
	while (r == 0 && !c.done && !l->over)
		cond_wait(&c.cond, &l->lock);
	if (r == 0 && !c.done)
		r = -ESHUTDOWN;
	for (struct call **p = &l->calls; *p; p = &(*p)->next) {
		if (*p == &c) {
			*p = c.next;
			break;
		}
	}
	mutex_unlock(&l->lock);
	cond_destroy(&c.cond);
	if (ret_fd)
		*ret_fd = c.fd;
	else if (c.fd >= 0)
		close(c.fd);
	return r;
}

void link_tell(struct link *l, const struct edgew_msg *m)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	if (edgew_encode(m, &b, &err) < 0)
		lost(err.msg);
	(void)!send(l->control, b.p, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void link_give(struct link *l, const struct edgew_msg *m)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	ssize_t n;

	if (edgew_encode(m, &b, &err) < 0)
		lost(err.msg);
	do
		n = send(l->control, b.p, b.len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
}

int link_log(struct link *l, const struct edgew_msg *m)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	if (edgew_encode(m, &b, &err) < 0)
		return -EAGAIN;
	return send(l->log, b.p, b.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -EAGAIN : 0;
}

/* Gives the answer to whoever waits for it. */
static void answered(struct link *l, const struct edgew_msg *m, int fd_consume)
{
	autofd int fd = fd_consume;

	LOCK_SCOPE(&l->lock);
	for (struct call *c = l->calls; c; c = c->next) {
		if (c->id != m->id || c->done)
			continue;
		*c->ret = *m;
		c->fd = TAKE_FD(fd);
		c->done = true;
		cond_signal(&c->cond);
		break;
	}
}

/*
 * One packet, and the descriptors that came with it. Where the limit of descriptors does not let
 * them in, the packet still counts: *ret_n is 0 then. Bytes, 0: the end, -errno.
 */
static ssize_t receive(int sock, uint8_t *p, size_t size, int *fds, size_t max, size_t *ret_n)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * START_FDS_MAX)];
		struct cmsghdr align;
	} u;
	struct iovec iov = { .iov_base = p, .iov_len = size };
	struct msghdr mh = { .msg_iov = &iov,
		             .msg_iovlen = 1,
		             .msg_control = u.buf,
		             .msg_controllen = CMSG_SPACE(sizeof(int) * max) };
	ssize_t n;

	*ret_n = 0;
	do
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (mh.msg_flags & MSG_TRUNC)
		return -EMSGSIZE;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
		size_t k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds + *ret_n, CMSG_DATA(c), k * sizeof(int));
		*ret_n += k;
	}
	return n;
}

static void take(struct link *l, const struct edgew_msg *m, int fd_consume,
                 const struct link_events *ev)
{
	struct edgew_msg failed = *m;

	switch (m->kind) {
	case EDGEW_OPENED:
		if (m->code == 0 && fd_consume < 0) {
			failed.code = -EMFILE;
			m = &failed;
		}
		answered(l, m, fd_consume);
		return;
	case EDGEW_CERTED:
		if (m->code == 0)
			ev->cert(ev->ctx, m);
		answered(l, m, -1);
		break;
	case EDGEW_GUEST:
		if (fd_consume >= 0)
			ev->guest(ev->ctx, m, fd_consume);
		return;
	case EDGEW_ENDED:
		ev->ended(ev->ctx, *m->instance ? m->instance : NULL);
		break;
	default:
		lost("pandod began twice");
	}
	if (fd_consume >= 0)
		close(fd_consume);
}

void link_serve(struct link *l, const struct link_events *ev)
{
	for (;;) {
		struct pollfd p = { .fd = l->control, .events = POLLIN };
		int n = poll(&p, 1, IDLE_MS), fd = -1;
		struct edgew_msg m;
		struct err err = { 0 };
		size_t n_fds;
		ssize_t k;

		if (n == 0)
			ev->idle(ev->ctx);
		if (n <= 0)
			continue;
		k = receive(l->control, l->packet, EDGEW_MSG_MAX, &fd, 1, &n_fds);
		if (k == -EAGAIN)
			continue;
		if (k <= 0)
			break;
		if (edgew_decode(l->packet, (size_t)k, EDGEW_HOST, &m, &err) < 0)
			lost(err.msg);
		take(l, &m, n_fds ? fd : -1, ev);
	}
	LOCK_SCOPE(&l->lock);
	l->over = true;
	for (struct call *c = l->calls; c; c = c->next)
		cond_signal(&c->cond);
}

/* ---- life ---- */

static void link_freep(struct link **l)
{
	link_free(*l);
}

struct link *link_free(struct link *l)
{
	if (!l)
		return NULL;
	for (size_t i = 0; i < EDGEW_LANES_MAX; i++)
		if (l->lanes[i] >= 0)
			close(l->lanes[i]);
	if (l->tallies)
		munmap((void *)l->tallies, sizeof(*l->tallies));
	close(l->control);
	if (l->log >= 0)
		close(l->log);
	free(l->packet);
	mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

/* Takes the descriptors of START, in their order; each is taken, or the caller's still. */
static int take_start(struct link *l, const struct edgew_start *s, int *fds, size_t n,
                      struct link_start *ret, struct err *err)
{
	struct timeval patience = { .tv_sec = ANSWER_S };
	size_t at = 0;
	void *p;

	if (s->version != EDGEW_VERSION)
		return err_set(err, -EPROTO, "pandod speaks version %u of the protocol, not %u",
		               s->version, EDGEW_VERSION);
	if (!s->workers || n != 2u + s->workers + s->tls + s->http)
		return err_set(err, -EBADMSG, "%zu descriptors for %u workers", n, s->workers);
	p = mmap(NULL, sizeof(*l->tallies), PROT_READ, MAP_SHARED, fds[at++], 0);
	if (p == MAP_FAILED)
		return err_sys(err, -errno, "map the counters");
	l->tallies = p;
	for (unsigned i = 0; i < s->workers; i++, l->n_lanes++) {
		l->lanes[i] = TAKE_FD(fds[at]);
		at++;
		(void)setsockopt(l->lanes[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	}
	l->log = TAKE_FD(fds[at]);
	at++;
	*ret = (struct link_start){
		.start = *s, .tallies = l->tallies, .tls_fd = -1, .http_fd = -1
	};
	if (s->tls) {
		ret->tls_fd = TAKE_FD(fds[at]);
		at++;
	}
	if (s->http)
		ret->http_fd = TAKE_FD(fds[at]);
	return 0;
}

int link_open(int control_consume, struct link **ret, struct link_start *ret_start, struct err *err)
{
	AUTO(link_freep) struct link *l = calloc(1, sizeof(*l));
	int fds[START_FDS_MAX];
	struct edgew_msg m;
	size_t n_fds = 0;
	ssize_t n;
	int r;

	if (!l) {
		close(control_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	l->control = control_consume;
	l->log = -1;
	for (size_t i = 0; i < EDGEW_LANES_MAX; i++)
		l->lanes[i] = -1;
	mutex_init(&l->lock, "edge link");
	l->packet = malloc(EDGEW_MSG_MAX);
	if (!l->packet)
		return err_set(err, -ENOMEM, "out of memory");
	n = receive(l->control, l->packet, EDGEW_MSG_MAX, fds, START_FDS_MAX, &n_fds);
	if (n <= 0)
		return err_sys(err, n < 0 ? (int)n : -EPIPE,
		               "no settings on descriptor %d: pando-edge is started by pandod",
		               EDGEW_FD);
	r = edgew_decode(l->packet, (size_t)n, EDGEW_HOST, &m, err);
	if (r == 0 && m.kind != EDGEW_START)
		r = err_set(err, -EBADMSG, "pandod does not begin with the settings");
	if (r == 0)
		r = take_start(l, &m.start, fds, n_fds, ret_start, err);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (r == 0)
		*ret = TAKE_PTR(l);
	return r;
}
