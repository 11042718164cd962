/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.c - one thread that looks after pando-edge: starts it, answers it, starts it again
 *
 * Theory of operation: the thread waits for the process's end (pidfd), its questions (control
 * socket and lanes) and what it logs (a pipe). Questions on lanes are answered at once from memory;
 * the others become jobs. It never waits for the process: a message that cannot be sent because the
 * process does not read is tried again for a while, then the process is killed. Whoever took the
 * process over can ask quickly, but only so much in a window of time.
 *
 * When the process ends, all connections of clients are gone with it. The next one is started at
 * once; if that does not live long either, after a pause that doubles.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/sock.h"
#include "edgehost/host_internal.h"

#ifdef LOCK_CHECK /* a build with a sanitizer, which looks for leaks at the end */
#define STOP_MS 30000
#else
#define STOP_MS 2000 /* for the process to end when it is told to; then it is killed */
#endif
#define STUCK_MS 5000    /* for the process to read what it was sent */
#define WINDOW_MS 100    /* of these bounds: */
#define WINDOW_ASKS 2000 /* questions; further ones wait for the next window */
#define WINDOW_LINES 20  /* lines of its log, likewise */
#define WINDOW_LOGS 100  /* packets of the access log; what does not fit is dropped there */
#define SETTLED_MS 10000 /* one that has lived for so long may be started again at once */
#define BACKOFF_MS 100   /* otherwise after so long, then twice that, */
#define BACKOFF_MAX_MS 5000

/* ---- what others call ---- */

/* 0, or -EAGAIN if the process does not read; fd may be -1. */
static int send_now(struct edgehost *h, const struct edgew_msg *m, int fd) REQUIRES(&h->lock)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	ssize_t k;

	if (edgew_encode(m, &b, &err) < 0) {
		log_warn("edge: %s", err.msg);
		return 0;
	}
	k = sock_send_fds(h->control, b.p, b.len, &fd, fd >= 0 ? 1 : 0);
	if (m->kind == EDGEW_CERTED)
		explicit_bzero(b.p, b.len);
	return k == -EAGAIN || k == -ENOBUFS || k == -ETOOMANYREFS ? -EAGAIN : 0;
}

void edgehost_ended(struct edgehost *h, const char *instance)
{
	struct edgew_msg m = { .kind = EDGEW_ENDED };

	snprintf(m.instance, sizeof(m.instance), "%s", instance ? instance : "");
	LOCK_SCOPE(&h->lock);
	if (h->control < 0 || h->owed_ended || send_now(h, &m, -1) == 0)
		return;
	h->owed_ended = true;
	(void)eventfd_write(h->wake, 1);
}

int edgehost_guest(struct edgehost *h, const struct edgehost_guest *g, int fd_consume)
{
	struct edgew_msg m = { .kind = EDGEW_GUEST,
		               .guest = { .tls = g->tls, .key = hash_text(g->vm, h->place_seed) } };
	autofd int fd = fd_consume;

	snprintf(m.guest.caller, sizeof(m.guest.caller), "%s", g->caller);
	snprintf(m.host, sizeof(m.host), "%s", g->only);
	LOCK_SCOPE(&h->lock);
	return h->control < 0 ? -EAGAIN : send_now(h, &m, fd);
}

void host_send(struct edgehost *h, uint64_t gen, const struct edgew_msg *m, int fd)
{
	uint64_t deadline = deadline_in(STUCK_MS);

	for (;;) {
		int r = 0;

		mutex_lock(&h->lock);
		if (h->gen == gen && h->control >= 0)
			r = send_now(h, m, fd);
		if (r < 0 && clock_ms() >= deadline) {
			h->broken = true;
			(void)eventfd_write(h->wake, 1);
			r = 0;
		}
		mutex_unlock(&h->lock);
		if (r == 0)
			return;
		usleep(10000); /* it is about to be read, or the process is about to be killed */
	}
}

/* ---- answers ---- */

void host_way(struct edgehost *h, const struct edgehost_way *w, struct edgew_way *ret)
{
	*ret = (struct edgew_way){ .kind = (uint8_t)w->kind,
		                   .look = (uint8_t)w->look,
		                   .port = w->port,
		                   .cert = w->cert,
		                   .speaks = (uint8_t)w->speaks,
		                   .many = w->many };
	if (w->kind != EDGE_VM)
		return;
	ret->tally = tally_of(h, w->vm);
	snprintf(ret->place, sizeof(ret->place), "%016llx",
	         (unsigned long long)hash_text(w->vm, h->place_seed));
	snprintf(ret->instance, sizeof(ret->instance), "%s", w->instance);
}

/* The counters are read before what they count: a change in between makes the answer stale. */
static void answer_way(struct edgehost *h, const char *host, struct edgew_way *ret)
{
	struct edgehost_way w = { .kind = EDGE_NOWHERE };
	uint32_t names = tally(h, 0), vm = 0;

	h->ops.way(h->ops.ctx, host, &w);
	if (w.kind == EDGE_VM) {
		vm = tally(h, tally_of(h, w.vm));
		h->ops.look(h->ops.ctx, &w);
	}
	host_way(h, &w, ret);
	ret->names = names;
	ret->vm = vm;
}

/* 0, or the process has to be ended. */
static int answer_lane(struct edgehost *h, int lane, struct err *err)
{
	static _Thread_local uint8_t packet[2048]; /* a question is short */
	struct edgew_msg m, reply = { 0 };
	autobuf struct buf b = { 0 };
	ssize_t n = recv(lane, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || n > (ssize_t)sizeof(packet))
		return err_set(err, -EBADMSG, "a question of %zd bytes", n);
	r = edgew_decode(packet, (size_t)n, EDGEW_EDGE_LANE, &m, err);
	if (r < 0)
		return r;
	reply.id = m.id;
	if (m.kind == EDGEW_WAY) {
		reply.kind = EDGEW_WAY_IS;
		answer_way(h, m.host, &reply.way);
	} else {
		reply.kind = EDGEW_CHALLENGE_IS;
		if (!h->ops.challenge || h->ops.challenge(h->ops.ctx, m.token, reply.text) < 0)
			reply.text[0] = '\0';
	}
	r = edgew_encode(&reply, &b, err);
	if (r == 0 && send(lane, b.p, b.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		r = err_sys(err, -errno, "answer a question");
	return r;
}

static struct edge_stats stats_of(const struct edgew_stats *s)
{
	return (struct edge_stats){ s->connections, s->requests, s->refused, s->woken,
		                    s->open,        s->most,     s->fewest };
}

static int hello(struct edgehost *h, const struct edgew_msg *m, struct err *err)
{
	if (m->version != EDGEW_VERSION)
		return err_set(
		        err, -EPROTO,
		        "pando-edge speaks version %u of the protocol, not %u: install Pando "
		        "again",
		        m->version, EDGEW_VERSION);
	LOCK_SCOPE(&h->lock);
	h->ready = true;
	cond_broadcast(&h->cond);
	return 0;
}

/* 0, or the process has to be ended. */
static int take_control(struct edgehost *h, int control, uint64_t gen, struct err *err)
{
	static _Thread_local uint8_t packet[2048];
	struct edgew_msg m, reply = { 0 };
	/* Descriptors are not asked for, so the kernel drops them. */
	ssize_t n = recv(control, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || n > (ssize_t)sizeof(packet))
		return err_set(err, -EBADMSG, "a message of %zd bytes", n);
	r = edgew_decode(packet, (size_t)n, EDGEW_EDGE, &m, err);
	if (r < 0)
		return r;
	switch (m.kind) {
	case EDGEW_READY:
		return hello(h, &m, err);
	case EDGEW_STATS: {
		LOCK_SCOPE(&h->lock);
		h->now = stats_of(&m.stats);
		return 0;
	}
	case EDGEW_DONE:
		tickets_done(h, m.ticket);
		return 0;
	default:
		r = jobs_add(h, gen, &m);
		if (r == 0)
			return 0;
		reply.kind = m.kind == EDGEW_OPEN ? EDGEW_OPENED : EDGEW_CERTED;
		reply.id = m.id;
		reply.code = r;
		mutex_lock(&h->lock);
		r = send_now(h, &reply, -1);
		mutex_unlock(&h->lock);
		return r < 0 ? err_set(err, r, "it does not read its answers") : 0;
	}
}

/* Lines of its stderr become lines of the log; the log replaces control characters. */
static void take_lines(struct edgehost *h)
{
	char *end;
	ssize_t n = read(h->err_fd, h->line + h->line_len, sizeof(h->line) - 1 - h->line_len);

	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			close(h->err_fd);
			h->err_fd = -1;
		}
		return;
	}
	h->line_len += (size_t)n;
	h->line[h->line_len] = '\0';
	while (h->line_len &&
	       ((end = memchr(h->line, '\n', h->line_len)) || h->line_len == sizeof(h->line) - 1)) {
		size_t len = end ? (size_t)(end - h->line) : h->line_len;
		size_t took = end ? len + 1 : len;

		log_warn("pando-edge: %.*s", (int)len, h->line);
		memmove(h->line, h->line + took, h->line_len - took);
		h->line_len -= took;
		h->lines++;
	}
}

/* ---- the process ---- */

static void start(struct edgehost *h)
{
	struct err err = { 0 };
	int control = -1;

	h->started_ms = clock_ms();
	h->line_len = 0;
	h->owed_ms = 0;
	if (spawn_edge(h, &h->proc, &control, &h->err_fd, &h->log_fd, h->lanes, &err) < 0) {
		log_error("%s", err.msg);
		h->backoff_ms = h->backoff_ms ? MIN(2 * h->backoff_ms, BACKOFF_MAX_MS) : BACKOFF_MS;
		h->next_ms = h->started_ms + h->backoff_ms;
		return;
	}
	LOCK_SCOPE(&h->lock);
	h->control = control;
	h->pid = h->proc.pid;
	h->starts++;
	h->broken = false;
	h->owed_ended = false; /* it knows no machine yet */
	if (h->starts > 1)
		log_info("edge: started again, process %d", (int)h->proc.pid);
}

/* Reaps it; text: how it ended. true: as it should when it was told to end. */
static bool reap(struct edgehost *h, char *text, size_t size)
{
	int st = 0;
	pid_t pid;

	do
		pid = waitpid(h->proc.pid, &st, 0);
	while (pid < 0 && errno == EINTR);
	if (pid < 0)
		snprintf(text, size, "was lost");
	else if (WIFSIGNALED(st))
		snprintf(text, size, "was ended by signal %d", WTERMSIG(st));
	else
		snprintf(text, size, "ended with %d", WEXITSTATUS(st));
	proc_close(&h->proc);
	return pid >= 0 && WIFEXITED(st) && WEXITSTATUS(st) == 0;
}

/* What it logged before its end. */
static void take_last_lines(struct edgehost *h)
{
	struct err none = { 0 };

	for (unsigned i = 0; i < WINDOW_LOGS && h->log_fd >= 0 &&
	                     io_wait(h->log_fd, POLLIN, 0) > 0 && host_lines(h, &none) == 0;
	     i++)
		;
}

static void forget_process(struct edgehost *h, bool bad)
{
	take_last_lines(h);
	for (size_t i = 0; i < EDGEW_LANES_MAX; i++) {
		if (h->lanes[i] >= 0)
			close(h->lanes[i]);
		h->lanes[i] = -1;
	}
	if (h->err_fd >= 0)
		close(h->err_fd);
	if (h->log_fd >= 0)
		close(h->log_fd);
	h->err_fd = h->log_fd = -1;
	LOCK_SCOPE(&h->lock);
	if (h->control >= 0)
		close(h->control);
	h->control = -1;
	h->pid = -1;
	h->gen++;
	h->ended_badly += bad;
	h->past.connections += h->now.connections;
	h->past.requests += h->now.requests;
	h->past.refused += h->now.refused;
	h->past.woken += h->now.woken;
	h->now = (struct edge_stats){ 0 };
	cond_broadcast(&h->cond);
}

static void forget(struct edgehost *h, bool bad)
{
	forget_process(h, bad);
	tickets_drop(h);
}

/* It has ended, or has to. */
static void end(struct edgehost *h, const struct err *why)
{
	uint64_t now, lived;
	char how[64];

	if (*why->msg)
		log_error("edge: process %d is ended: %s", (int)h->proc.pid, why->msg);
	proc_kill(&h->proc, SIGKILL);
	while (h->err_fd >= 0 && proc_wait_end(&h->proc, deadline_in(STOP_MS)) > 0 &&
	       io_wait(h->err_fd, POLLIN, 0) > 0 && h->lines++ < 10 * WINDOW_LINES)
		take_lines(h); /* its last words */
	reap(h, how, sizeof(how));
	now = clock_ms();
	lived = now - h->started_ms;
	h->backoff_ms = lived >= SETTLED_MS ? 0
	                : h->backoff_ms     ? MIN(2 * h->backoff_ms, BACKOFF_MAX_MS)
	                                    : BACKOFF_MS;
	h->next_ms = now + h->backoff_ms;
	forget(h, /* bad= */ true);
	log_error("edge: process %s after %llu ms; its connections are lost. The next one starts "
	          "in %u ms",
	          how, (unsigned long long)lived, h->backoff_ms);
}

/* It is told to end by the end of its control socket. */
static void stop(struct edgehost *h)
{
	uint64_t deadline = deadline_in(STOP_MS);
	char how[64];
	bool well;

	mutex_lock(&h->lock);
	shutdown(h->control, SHUT_RDWR);
	mutex_unlock(&h->lock);
	while (h->err_fd >= 0 && !proc_wait_end(&h->proc, clock_ms()) &&
	       io_wait(h->err_fd, POLLIN, deadline) > 0 && clock_ms() < deadline)
		take_lines(h); /* until it closes the pipe, which it does by ending */
	if (proc_wait_end(&h->proc, deadline) <= 0)
		proc_kill(&h->proc, SIGKILL);
	while (h->err_fd >= 0 && io_wait(h->err_fd, POLLIN, 0) > 0 && clock_ms() < deadline)
		take_lines(h);
	well = reap(h, how, sizeof(how));
	if (!well)
		log_warn("edge: the process %s when it was told to end", how);
	forget(h, !well);
}

struct watch {
	struct pollfd p[5 + EDGEW_LANES_MAX];
	int control;
	uint64_t gen;
	bool stopping, broken, owed;
};

/* true: go on */
static bool look(struct edgehost *h, struct watch *w)
{
	LOCK_SCOPE(&h->lock);
	w->control = h->control;
	w->gen = h->gen;
	w->stopping = h->stopping;
	w->broken = h->broken;
	w->owed = h->owed_ended;
	return !w->stopping;
}

static void pay_owed(struct edgehost *h, struct err *err)
{
	struct edgew_msg m = { .kind = EDGEW_ENDED };
	int r;

	mutex_lock(&h->lock);
	r = send_now(h, &m, -1);
	h->owed_ended = r < 0;
	mutex_unlock(&h->lock);
	if (r == 0)
		h->owed_ms = 0;
	else if (!h->owed_ms)
		h->owed_ms = clock_ms();
	else if (clock_ms() - h->owed_ms >= STUCK_MS)
		err_set(err, -EAGAIN, "it does not read what it is sent");
}

static int watch_ms(const struct edgehost *h, const struct watch *w, uint64_t now)
{
	if (w->control < 0)
		return h->next_ms > now ? (int)(h->next_ms - now) : 0;
	if (w->owed || h->asked >= WINDOW_ASKS || h->lines >= WINDOW_LINES ||
	    h->logged >= WINDOW_LOGS)
		return WINDOW_MS;
	return -1;
}

/* Waits, and does what is to be done for the process; err: it has to be ended. */
static void serve(struct edgehost *h, struct watch *w, struct err *err)
{
	uint64_t now = clock_ms();
	bool ask, hear, log;

	if (now - h->window_ms >= WINDOW_MS) {
		h->window_ms = now;
		h->asked = h->lines = h->logged = 0;
	}
	ask = h->asked < WINDOW_ASKS;
	hear = h->lines < WINDOW_LINES;
	log = h->logged < WINDOW_LOGS;
	w->p[0] = (struct pollfd){ .fd = h->wake, .events = POLLIN };
	w->p[1] = (struct pollfd){ .fd = h->proc.pidfd, .events = POLLIN };
	w->p[2] = (struct pollfd){ .fd = ask ? w->control : -1, .events = POLLIN };
	w->p[3] = (struct pollfd){ .fd = hear ? h->err_fd : -1, .events = POLLIN };
	w->p[4] = (struct pollfd){ .fd = log ? h->log_fd : -1, .events = POLLIN };
	for (size_t i = 0; i < EDGEW_LANES_MAX; i++)
		w->p[5 + i] = (struct pollfd){ .fd = ask ? h->lanes[i] : -1, .events = POLLIN };
	if (poll(w->p, ARRAY_SIZE(w->p), watch_ms(h, w, now)) <= 0)
		return;
	if (w->p[0].revents) {
		eventfd_t n;

		(void)eventfd_read(h->wake, &n);
	}
	if (w->p[1].revents) {
		err->code = -ECHILD; /* it ended by itself; how is logged when it is reaped */
		return;
	}
	if (w->p[3].revents)
		take_lines(h);
	if (w->p[2].revents) {
		h->asked++;
		if (take_control(h, w->control, w->gen, err) < 0)
			return;
	}
	for (size_t i = 0; i < EDGEW_LANES_MAX; i++) {
		if (!w->p[5 + i].revents)
			continue;
		h->asked++;
		if (answer_lane(h, h->lanes[i], err) < 0)
			return;
	}
	if (w->p[4].revents) { /* after what somebody waits for */
		h->logged++;
		(void)host_lines(h, err);
	}
}

void *host_main(void *arg)
{
	struct edgehost *h = arg;
	struct watch w;

	while (look(h, &w)) {
		struct err err = { 0 };

		if (w.control < 0 && clock_ms() >= h->next_ms) {
			start(h);
			continue;
		}
		if (w.broken)
			err_set(&err, -EAGAIN, "it does not read its answers");
		else if (w.owed)
			pay_owed(h, &err);
		if (!err.code)
			serve(h, &w, &err);
		/* The end of a socket comes before the end of its process. */
		if (err.code && proc_wait_end(&h->proc, deadline_in(100)) > 0)
			err.msg[0] = '\0';
		if (err.code)
			end(h, &err);
	}
	if (w.control >= 0)
		stop(h);
	return NULL;
}
