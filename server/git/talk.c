/* SPDX-License-Identifier: Apache-2.0 */
/*
 * talk.c - upload-pack and receive-pack for a front that has both directions at once: SSH
 *
 * Three pipes and the child; nothing here ever waits. One epoll descriptor is readable when there
 * is something to read, room for what could not be written, or the child's end. A client that
 * leaves closes the child's input: a push that is not whole then fails by itself, one that is whole
 * comes to its end, and either way what moved is told. A talk that is broken off (a right was
 * withdrawn) ends the child at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "git/shared.h"
#include "metrics/metrics.h"

#define LEFT_MS 60000 /* for a push whose client has left to come to its end */

struct talk {
	struct pack k;
	int in, out, err; /* owned; our ends; -1: closed */
	int ep;           /* owned */
	bool over;        /* the child has ended and everybody knows what it did */
	int status;
	char words[420]; /* of ours to the client; "": none */
};

static int poll_pipes(struct talk *t, struct err *err)
{
	const int fds[] = { t->in, t->out, t->err, t->k.c.p.pidfd };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		struct epoll_event e = { .events = (i == 0 ? EPOLLOUT : EPOLLIN) | EPOLLET };

		if (epoll_ctl(t->ep, EPOLL_CTL_ADD, fds[i], &e) < 0)
			return err_sys(err, -errno, "poll a pipe");
	}
	return 0;
}

static int make_pipe(int p[2], int ours, struct err *err)
{
	if (pipe2(p, O_CLOEXEC) < 0 || fcntl(p[ours], F_SETFL, O_NONBLOCK) < 0)
		return err_sys(err, -errno, "make a pipe");
	return 0;
}

static int start(struct talk *t, const struct svc_opts *o, struct err *err)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, ep[2] = { -1, -1 }, r;
	struct pack_cmd cmd;

	if ((r = pack_prepare(&t->k, o, /* stateless= */ false, &cmd, err)) == 0 &&
	    (r = make_pipe(in, 1, err)) == 0 && (r = make_pipe(out, 0, err)) == 0 &&
	    (r = make_pipe(ep, 0, err)) == 0)
		r = child_start(t->k.g,
		                &(struct child_opts){ .argv = cmd.argv,
		                                      .env = cmd.env,
		                                      .repo = cmd.path,
		                                      .in = in[0],
		                                      .out = out[1],
		                                      .err = ep[1],
		                                      .extra = t->k.note.fd,
		                                      .talk = hook_fd(t->k.hook),
		                                      .write = t->k.push,
		                                      .cpu_s = SERVICE_CPU_S,
		                                      .mem_mb = SERVICE_MB,
		                                      .client = o->client },
		                &t->k.c, NULL, err);
	hook_started(t->k.hook);
	for (int i = 0; i < 3; i++) {
		int theirs = i == 0 ? in[0] : i == 1 ? out[1] : ep[1];

		if (theirs >= 0)
			close(theirs);
	}
	t->in = in[1];
	t->out = out[0];
	t->err = ep[0];
	return r < 0 ? r : poll_pipes(t, err);
}

int talk_start(struct repos *g, const struct store_repo *r, const struct svc_opts *o,
               struct talk **ret, struct err *err)
{
	struct talk *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->in = t->out = t->err = -1;
	pack_init(&t->k, g, r, o->client);
	t->ep = epoll_create1(EPOLL_CLOEXEC);
	rc = t->ep < 0 ? err_sys(err, -errno, "make an epoll") : start(t, o, err);
	if (rc < 0) {
		talk_free(t, /* now= */ true);
		return rc;
	}
	*ret = t;
	return 0;
}

int talk_fd(const struct talk *t)
{
	return t->ep;
}

void talk_seen(struct talk *t)
{
	struct epoll_event e[4];

	(void)!epoll_wait(t->ep, e, ARRAY_SIZE(e), 0);
}

bool talk_eof(const struct talk *t)
{
	return t->out < 0 && t->err < 0;
}

/* Both ends of it are silent: it ends now, or soon. */
static ssize_t at_end(struct talk *t)
{
	struct err err = { 0 };

	if (t->over)
		return -ENODATA;
	if (proc_wait_end(&t->k.c.p, clock_ms()) != 1)
		return 0;
	t->status = child_wait(&t->k.c, clock_ms());
	t->over = true;
	if (pack_tell(&t->k, &err) < 0)
		t->status = t->status ? t->status : 1;
	return -ENODATA;
}

static ssize_t take(struct talk *t, int *fd, void *p, size_t n)
{
	ssize_t k;

	if (*fd < 0)
		return 0;
	do
		k = read(*fd, p, n);
	while (k < 0 && errno == EINTR);
	if (k > 0) {
		metrics_add(METRIC_GIT_BYTES, LABEL_OUT, (uint64_t)k);
		return k;
	}
	if (k == 0 || errno != EAGAIN)
		close(TAKE_FD(*fd)); /* which takes it out of the epoll as well */
	return 0;
}

ssize_t talk_read(struct talk *t, int *ret_chan, void *p, size_t n)
{
	ssize_t k;

	if (n > 0 && *t->words) {
		*ret_chan = 2;
		k = (ssize_t)MIN(n, strlen(t->words));
		memcpy(p, t->words, (size_t)k);
		t->words[0] = '\0';
		return k;
	}
	if (n > 0) {
		*ret_chan = 2; /* first: what is wrong is said before the end */
		if ((k = take(t, &t->err, p, n)) > 0)
			return k;
		*ret_chan = 1;
		if ((k = take(t, &t->out, p, n)) > 0)
			return k;
	}
	return talk_eof(t) ? at_end(t) : 0;
}

ssize_t talk_feed(struct talk *t, const void *p, size_t n)
{
	struct err err = { 0 };
	ssize_t k;

	if (t->in < 0)
		return -EPIPE;
	if (pack_takes(&t->k, n, &err) < 0) {
		snprintf(t->words, sizeof(t->words), "pando: %s\n", err.msg);
		close(TAKE_FD(t->in));
		return -EPIPE;
	}
	do
		k = write(t->in, p, n);
	while (k < 0 && errno == EINTR);
	t->k.fed -= (int64_t)(n - (size_t)MAX(k, 0)); /* the rest comes again */
	metrics_add(METRIC_GIT_BYTES, LABEL_IN, (uint64_t)MAX(k, 0));
	if (k < 0 && errno == EAGAIN)
		return 0;
	if (k < 0)
		close(TAKE_FD(t->in));
	return k < 0 ? -EPIPE : k;
}

void talk_feed_end(struct talk *t)
{
	if (t->in >= 0)
		close(TAKE_FD(t->in));
}

int talk_status(const struct talk *t)
{
	return t->status;
}

/* Nobody listens any more: what it says is thrown away. */
static void let_end(struct talk *t)
{
	uint64_t until = deadline_in(LEFT_MS);
	char sink[4096];
	ssize_t n;
	int chan;

	talk_feed_end(t);
	do {
		talk_seen(t);
		n = talk_read(t, &chan, sink, sizeof(sink));
		if (n == 0 && io_wait(t->ep, POLLIN, until) != 1)
			break;
	} while (n >= 0);
}

struct talk *talk_free(struct talk *t, bool now)
{
	if (!t)
		return NULL;
	if (t->k.c.g && t->k.push && !now && !t->over)
		let_end(t);
	pack_end(&t->k);
	for (int i = 0; i < 4; i++) {
		int fd = i == 0 ? t->in : i == 1 ? t->out : i == 2 ? t->err : t->ep;

		if (fd >= 0)
			close(fd);
	}
	free(t);
	return NULL;
}
