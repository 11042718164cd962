/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - the workers: accept, wait for events, look at deadlines
 *
 * Theory of operation: every worker has an epoll of its own; the listening sockets are in all of
 * them (EPOLLEXCLUSIVE). A worker that accepts a connection hands it to the worker that has the
 * fewest; otherwise a burst of clients accepted by one worker would stay on one processor. From
 * then on it stays with its worker. Sockets are watched edge-triggered, and added once: an event
 * sets a flag, which is cleared when a read or write would block. When every worker is at its
 * limit, or the process is short of descriptors (guard.c), nobody accepts until connections end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "edge/edge_internal.h"

#define EVENTS_MAX 256
#define ACCEPTS_MAX 64 /* at a time */

int worker_poll(struct worker *w, struct io *io, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = io };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, io->fd, &ev) < 0 ? -errno : 0;
}

void worker_close_io(struct worker *w, struct io *io)
{
	if (io->fd < 0)
		return;
	(void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, io->fd, NULL);
	close(TAKE_FD(io->fd));
}

void worker_again(struct worker *w, struct conn *c)
{
	if (c->queued || c->dead)
		return;
	c->queued = true;
	c->again_next = w->again;
	w->again = c;
}

void worker_tell(struct worker *w, struct opened *o_consume)
{
	mutex_lock(&w->lock);
	o_consume->next = w->opened;
	w->opened = o_consume;
	mutex_unlock(&w->lock);
	(void)eventfd_write(w->wake.fd, 1);
}

void worker_tell_minted(struct worker *w, struct minted *m_consume)
{
	mutex_lock(&w->lock);
	m_consume->next = w->minted;
	w->minted = m_consume;
	mutex_unlock(&w->lock);
	(void)eventfd_write(w->wake.fd, 1);
}

static void listeners_poll(struct worker *w, bool on)
{
	struct io *all[] = { &w->tls, &w->http };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (all[i]->fd < 0)
			continue;
		if (on)
			worker_poll(w, all[i], EPOLLIN | EPOLLEXCLUSIVE);
		else
			epoll_ctl(w->epoll, EPOLL_CTL_DEL, all[i]->fd, NULL);
	}
	w->paused = !on;
}

/* The one with the fewest connections; this one, if it has no more than others. */
static struct worker *least_busy(struct worker *w)
{
	struct worker *best = w;
	unsigned fewest = atomic_load_explicit(&w->n_conns, memory_order_relaxed);

	for (unsigned i = 0; i < w->e->n_workers; i++) {
		struct worker *o = &w->e->workers[i];
		unsigned n = atomic_load_explicit(&o->n_conns, memory_order_relaxed);

		if (n < fewest) {
			best = o;
			fewest = n;
		}
	}
	return best;
}

static void hand_over(struct worker *to, struct handed *h_consume)
{
	mutex_lock(&to->lock);
	h_consume->next = to->handed;
	to->handed = h_consume;
	mutex_unlock(&to->lock);
	(void)eventfd_write(to->wake.fd, 1);
}

static void hand_copy(struct worker *to, const struct handed *from)
{
	struct handed *h = malloc(sizeof(*h));

	if (!h) {
		close(from->fd);
		guard_leave(to->e->guard, from->client);
		to->n_conns--;
		return;
	}
	*h = *from;
	hand_over(to, h);
}

void worker_enter(struct edge *e, struct handed *h_consume)
{
	struct worker *to = least_busy(&e->workers[0]);

	if (to->n_conns < EDGE_CONNS_MAX && guard_fd(e->guard, h_consume->fd) &&
	    (h_consume->client = guard_enter(e->guard, &h_consume->peer))) {
		to->n_conns++;
		hand_over(to, h_consume);
		return;
	}
	close(h_consume->fd);
	free(h_consume->guest);
	free(h_consume);
}

static void accept_some(struct worker *w, const struct io *io)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct worker *to = least_busy(w);
		struct handed h = { .tls = io->kind == IO_TLS_LISTEN };
		socklen_t len = sizeof(h.peer);

		if (to->n_conns >= EDGE_CONNS_MAX) {
			listeners_poll(w, false);
			return;
		}
		h.fd = accept4(io->fd, (struct sockaddr *)&h.peer, &len,
		               SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (h.fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				listeners_poll(w, false); /* again at the next tick */
			return;
		}
		if (!guard_fd(w->e->guard, h.fd)) {
			close(h.fd);
			listeners_poll(w, false);
			return;
		}
		h.client = guard_enter(w->e->guard, &h.peer);
		if (!h.client) {
			close(h.fd);
			continue;
		}
		to->n_conns++;
		if (to == w)
			conn_new(w, &h);
		else
			hand_copy(to, &h);
	}
}

static void take_handed(struct worker *w, struct handed *h)
{
	while (h) {
		struct handed *next = h->next;

		conn_new(w, h);
		free(h);
		h = next;
	}
}

/* Resumes all connections that wait for one of these certificates. */
static void take_minted(struct worker *w, struct minted *m)
{
	while (m) {
		struct minted *next_m = m->next;

		for (struct conn *c = w->conns, *next; c; c = next) {
			next = c->next;
			if (c->cert != CERT_WAITS || strcmp(c->cert_name, m->name) != 0)
				continue;
			tls_cert_over(c, m->ok);
			conn_run(c);
		}
		free(m);
		m = next_m;
	}
}

/* Ending one may end others (HTTP/2); up_close() then advances up_next. */
static void end_stale(struct worker *w)
{
	for (struct up *u = w->ups; u; u = w->up_next) {
		w->up_next = u->next;
		if (!u->stale)
			continue;
		u->stale = false;
		if (u->x) {
			struct conn *c = u->x->c;

			xchg_up_failed(u->x, ECONNRESET);
			conn_run(c);
		} else {
			up_close(u);
		}
	}
	w->up_next = NULL;
}

/* Connections to machines that ended. */
static void take_ended(struct worker *w, struct ended *d, bool look_all)
{
	bool any = look_all;

	for (struct up *u = w->ups; u && look_all; u = u->next)
		u->stale |= up_gone(w, &u->t);
	while (d) {
		struct ended *next = d->next;

		for (struct up *u = w->ups; u; u = u->next)
			if (strcmp(u->t.instance, d->instance) == 0)
				any = u->stale = true;
		free(d);
		d = next;
	}
	if (any)
		end_stale(w);
}

/* Takes what other threads have left for this one. */
static void take_told(struct worker *w)
{
	struct handed *h;
	struct opened *o;
	struct minted *m;
	struct ended *d;
	bool look_all;
	eventfd_t n;

	(void)eventfd_read(w->wake.fd, &n);
	mutex_lock(&w->lock);
	o = w->opened;
	h = w->handed;
	m = w->minted;
	d = w->ended;
	look_all = w->look_all;
	w->opened = NULL;
	w->handed = NULL;
	w->minted = NULL;
	w->ended = NULL;
	w->look_all = false;
	mutex_unlock(&w->lock);
	take_handed(w, h);
	take_minted(w, m);
	while (o) {
		struct opened *next = o->next;

		xchg_opened(w, o);
		if (o->line) /* nobody wanted it any more */
			opener_connected(w->e->opener, o->line);
		if (o->fd >= 0)
			close(o->fd);
		edge_give_back(w->e, &o->t);
		free(o);
		o = next;
	}
	take_ended(w, d, look_all);
}

static void on_event(struct worker *w, struct io *io, uint32_t ev)
{
	io->readable |= (ev & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	io->writable |= (ev & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
	io->hup |= (ev & (EPOLLHUP | EPOLLERR)) != 0;
	io->ended |= (ev & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	switch (io->kind) {
	case IO_WAKE:
		take_told(w);
		break;
	case IO_TLS_LISTEN:
	case IO_HTTP_LISTEN:
		accept_some(w, io);
		break;
	case IO_CLIENT:
		conn_run((struct conn *)(void *)io);
		break;
	case IO_UP: {
		struct up *u = (struct up *)(void *)io;

		if (u->dead)
			break;
		if (u->x)
			conn_run(u->x->c);
		else
			up_idle_event(u);
		break;
	}
	}
}

static void run_again(struct worker *w)
{
	struct conn *c = w->again;

	w->again = NULL;
	while (c) {
		struct conn *next = c->again_next;

		c->queued = false;
		conn_run(c);
		c = next;
	}
}

/* Runs exchanges that are due for another try and, with `all`, those past their deadline. One may
 * end others; xchg_wait() then advances wait_next. */
static void search_waiting(struct worker *w, bool all)
{
	uint64_t next = UINT64_MAX;

	w->retry_at = UINT64_MAX;
	for (struct xchg *x = w->waiting; x; x = w->wait_next) {
		struct conn *c = x->c;
		bool retry =
		        x->state == X_RETRY || (x->state == X_CONNECTING && x->t.kind == EDGE_VM);

		w->wait_next = x->next;
		if ((retry && w->now >= x->retry_at) || (all && w->now >= x->deadline)) {
			xchg_tick(x);
			conn_run(c);
		} else if (retry) {
			next = MIN(next, x->retry_at);
		}
	}
	w->wait_next = NULL;
	if (next != UINT64_MAX)
		w->retry_at = MIN(w->retry_at, MAX(next, w->now + EDGE_RETRY_STEP_MS));
}

static void run_retries(struct worker *w)
{
	if (w->now >= w->retry_at)
		search_waiting(w, /* all= */ false);
}

static void tick(struct worker *w)
{
	if (w->now < w->tick_at)
		return;
	w->tick_at = w->now + EDGE_TICK_MS;
	guard_look(w->e->guard, w->wake.fd);
	search_waiting(w, /* all= */ true);
	for (struct conn *c = w->conns, *next; c; c = next) {
		next = c->next;
		conn_tick(c);
	}
	for (struct up *u = w->pool; u; u = u->pool_next)
		u->stale = guard_tight(w->e->guard) || w->now - u->idle_ms > EDGE_UP_IDLE_MS;
	end_stale(w);
	if (w->paused && !guard_tight(w->e->guard) &&
	    least_busy(w)->n_conns < EDGE_CONNS_MAX - EDGE_CONNS_MAX / 16)
		listeners_poll(w, true);
}

static void bury(struct worker *w)
{
	struct conn *keep = NULL;

	while (w->dead_conns) {
		struct conn *c = w->dead_conns;

		w->dead_conns = c->next;
		if (c->queued) {
			c->next = keep;
			keep = c;
		} else {
			conn_free(c);
		}
	}
	w->dead_conns = keep;
	while (w->dead_ups) {
		struct up *u = w->dead_ups;

		w->dead_ups = u->next;
		up_free(u);
	}
}

static int wait_ms(const struct worker *w)
{
	uint64_t until = MIN(MIN(w->tick_at, w->retry_at), w->log_at);

	if (w->again)
		return 0;
	return until > w->now ? (int)(until - w->now) : 0;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct epoll_event ev[EVENTS_MAX];

	w->now = clock_ms();
	w->tick_at = w->now + EDGE_TICK_MS;
	while (!atomic_load(&w->e->stopping)) {
		int n = epoll_wait(w->epoll, ev, EVENTS_MAX, wait_ms(w));

		w->now = clock_ms();
		for (int i = 0; i < n; i++)
			on_event(w, ev[i].data.ptr, ev[i].events);
		run_again(w);
		run_retries(w);
		tick(w);
		bury(w);
		line_flush(w, /* all= */ false);
	}
	while (w->conns)
		conn_close(w->conns);
	while (w->ups)
		up_close(w->ups);
	run_again(w);
	bury(w);
	line_flush(w, /* all= */ true);
	return NULL;
}

int worker_open(struct worker *w, struct err *err)
{
	mutex_init(&w->lock, "edge worker");
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->wake = (struct io){ .kind = IO_WAKE, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	w->tls = (struct io){ .kind = IO_TLS_LISTEN, .fd = w->e->conf.tls_fd };
	w->http = (struct io){ .kind = IO_HTTP_LISTEN, .fd = w->e->conf.http_fd };
	w->next_xchg = 1;
	w->retry_at = w->log_at = UINT64_MAX;
	if (w->epoll < 0 || w->wake.fd < 0 || worker_poll(w, &w->wake, EPOLLIN) < 0)
		return err_sys(err, -errno, "edge: epoll");
	return 0;
}

int worker_start(struct worker *w, struct err *err)
{
	listeners_poll(w, true);
	if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
		return err_set(err, -EAGAIN, "edge: cannot start a worker thread");
	w->started = true;
	return 0;
}

void worker_stop(struct worker *w)
{
	if (!w->started)
		return;
	(void)eventfd_write(w->wake.fd, 1);
	pthread_join(w->thread, NULL);
}

void worker_close(struct worker *w)
{
	mutex_unshared(&w->lock);
	while (w->handed) {
		struct handed *h = w->handed;

		w->handed = h->next;
		guard_leave(w->e->guard, h->client);
		close(h->fd);
		free(h->guest);
		free(h);
	}
	while (w->opened) {
		struct opened *o = w->opened;

		w->opened = o->next;
		if (o->fd >= 0)
			close(o->fd);
		edge_give_back(w->e, &o->t);
		free(o);
	}
	while (w->minted) {
		struct minted *m = w->minted;

		w->minted = m->next;
		free(m);
	}
	while (w->ended) {
		struct ended *d = w->ended;

		w->ended = d->next;
		free(d);
	}
	if (w->wake.fd >= 0)
		close(w->wake.fd);
	if (w->epoll >= 0)
		close(w->epoll);
	mutex_destroy(&w->lock);
}
