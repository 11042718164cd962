/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_door.c - brings requests of VMs about themselves to the HTTP server
 *
 * A guest whose programs have requests rings (guest/guest_self.h). A thread then takes them one
 * after the other: each becomes a connection of the HTTP server (http_adopt()) that comes from that
 * VM, and the thread copies bytes both ways until both ends are done. Which VM it is follows from
 * the agent channel it came on; nothing the guest sends can change it.
 *
 * Bounds: SELF_VISITS_VM threads of one VM and SELF_VISITS_MAX in all, of which an account gets its
 * share (base/budget.h). Whoever is over them is not answered but left in its agent, which rings
 * again in a while. Each thread buffers RELAY_BYTES per direction.
 */
#include "api/self_door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/rate.h"
#include "guest/guest_login.h"
#include "vm/self.h"
#include "wire/agent.h"

#define RELAY_BYTES (16u << 10)
#define FINISH_MS 5000 /* for the guest to confirm the end of a reply */
#define STACK_SIZE (256u << 10)

struct visit {
	struct visit *next;
	struct self_door *door;
	struct guest *g; /* ref'd */
	int fd;          /* owned; ours of the pair, while there is one; else -1 */
};

struct self_door {
	struct api *api;
	struct budget *by_account; /* owned */
	struct rate *rings;        /* owned; by VM */
	struct mutex lock;
	struct cond left; /* a visit ended */
	struct visit *visits GUARDED_BY(lock);
	unsigned n GUARDED_BY(lock);
	bool closed GUARDED_BY(lock), ending GUARDED_BY(lock);
};

/* ---- one request ---- */

struct pipe_end {
	uint8_t p[RELAY_BYTES];
	size_t at, n;
	bool ended; /* nothing more comes, */
	bool told;  /* and the other side knows */
};

struct relay {
	struct guest_flow *f;
	int fd;
	struct pipe_end up, down; /* to the server, to the guest */
};

/* As much as the server takes now. */
static void flush_up(struct relay *r)
{
	struct pipe_end *u = &r->up;
	ssize_t k;

	while (u->n && (k = send(r->fd, u->p + u->at, u->n, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) {
		u->at += (size_t)k;
		u->n -= (size_t)k;
	}
	if (u->n && errno != EAGAIN && errno != EINTR)
		u->n = 0; /* it reads no more of it: its reply says why */
}

/* What the guest sends, until the server is full or there is no more now. False: it is over. */
static bool move_up(struct relay *r)
{
	struct pipe_end *u = &r->up;
	struct err err = { 0 };

	for (flush_up(r); !u->n && !u->ended; flush_up(r)) {
		ssize_t k = guest_flow_read(r->f, NULL, u->p, sizeof(u->p), &err);

		if (k < 0)
			return false; /* the guest has ended it, or is gone */
		u->ended = k == 0 && guest_flow_eof(r->f, AGENT_OUT);
		if (k == 0)
			break;
		u->at = 0;
		u->n = (size_t)k;
	}
	if (u->ended && !u->n && !u->told) {
		u->told = true;
		shutdown(r->fd, SHUT_WR);
	}
	return true;
}

/* What the server answers. False: all of it is with the guest, or cannot be. */
static bool move_down(struct relay *r)
{
	struct pipe_end *d = &r->down;
	struct err err = { 0 };

	for (;;) {
		ssize_t k;

		if (!d->n) {
			k = recv(r->fd, d->p, sizeof(d->p), MSG_DONTWAIT);
			if (k < 0 && (errno == EAGAIN || errno == EINTR))
				return true;
			if (k <= 0)
				return false;
			d->at = 0;
			d->n = (size_t)k;
		}
		k = guest_flow_feed(r->f, d->p + d->at, d->n, &err);
		if (k < 0)
			return false;
		if (k == 0)
			return true; /* no credit */
		d->at += (size_t)k;
		d->n -= (size_t)k;
	}
}

static void relay(struct relay *r)
{
	struct err err = { 0 };

	for (;;) {
		struct pollfd p[] = { { .fd = guest_flow_fd(r->f), .events = POLLIN },
			              { .fd = r->fd } };

		guest_flow_seen(r->f);
		if (!move_up(r) || !move_down(r))
			break;
		p[1].events = (short)((r->down.n ? 0 : POLLIN) | (r->up.n ? POLLOUT : 0));
		/* Deadlines are the server's and the agent's: each ends what is its own. */
		if (poll(p, r->down.n && !r->up.n ? 1 : 2, -1) < 0 && errno != EINTR)
			break;
	}
	guest_flow_finish(r->f, deadline_in(FINISH_MS), &err);
}

static bool visit_begin(struct visit *v, int fd)
{
	LOCK_SCOPE(&v->door->lock);
	if (!v->door->ending)
		v->fd = fd;
	return !v->door->ending;
}

static void visit_end(struct visit *v)
{
	int fd;

	mutex_lock(&v->door->lock);
	fd = TAKE_FD(v->fd);
	mutex_unlock(&v->door->lock);
	close(fd);
}

static void serve(struct visit *v, struct guest_flow *f, uint64_t number)
{
	autofree struct relay *r = calloc(1, sizeof(*r));
	char origin[HTTP_ORIGIN_SIZE];
	struct err err = { 0 };
	int pair[2];

	if (!r || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	if (!visit_begin(v, pair[0])) {
		close(pair[0]);
		close(pair[1]);
		return;
	}
	r->f = f;
	r->fd = pair[0];
	snprintf(origin, sizeof(origin), "%s/%llu", guest_vm_id(v->g), (unsigned long long)number);
	if (http_adopt(v->door->api->http, pair[1], origin, &err) == 0)
		relay(r);
	else
		log_obj(LOG_LV_WARN, "vm", guest_vm_id(v->g), "its request about itself: %s",
		        err.msg);
	visit_end(v);
}

/* ---- threads ---- */

static void *visit_main(void *arg);

/* Another thread for the guest, if it may have one. True: there is one. */
static bool visit_new(struct self_door *d, struct guest *g)
{
	struct visit *v;
	unsigned same = 0;
	pthread_attr_t attr;
	pthread_t t;
	LOCK_SCOPE(&d->lock);

	for (v = d->visits; v; v = v->next)
		same += strcmp(guest_vm_id(v->g), guest_vm_id(g)) == 0;
	if (same >= SELF_VISITS_VM)
		return true; /* one of them looks again when it is done */
	if (d->closed || d->n >= SELF_VISITS_MAX)
		return false;
	v = calloc(1, sizeof(*v));
	if (!v)
		return false;
	*v = (struct visit){ .door = d, .g = guest_ref(g), .fd = -1, .next = d->visits };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	if (pthread_create(&t, &attr, visit_main, v) == 0) {
		d->visits = v;
		d->n++;
		same++;
	} else {
		guest_unref(v->g);
		free(v);
	}
	pthread_attr_destroy(&attr);
	return same > 0;
}

/* On the thread of a guest's connection. A guest that rings without having anything is heard at a
 * bounded rate; one that has something rings again. */
static bool ring(void *ctx, struct guest *g)
{
	struct self_door *d = ctx;
	struct rate_answer a;

	return rate_take(d->rings, guest_vm_id(g), &a) && visit_new(d, g);
}

static void visit_over(struct visit *v)
{
	struct self_door *d = v->door;

	guest_unref(v->g);
	mutex_lock(&d->lock);
	for (struct visit **p = &d->visits; *p; p = &(*p)->next)
		if (*p == v) {
			*p = v->next;
			break;
		}
	free(v);
	d->n--;
	cond_broadcast(&d->left);
	mutex_unlock(&d->lock); /* the last thing: whoever waits frees the door */
}

static void *visit_main(void *arg)
{
	struct visit *v = arg;
	struct self_door *d = v->door;
	char account[ACCOUNT_SIZE];
	struct guest_flow *f = NULL;
	struct err err = { 0 };
	uint64_t number;
	uint32_t more;

	if (vmm_owner(d->api->deps.vmm, guest_vm_id(v->g), account, &err) == 0 &&
	    budget_take(d->by_account, account, 1) == 0) {
		while (guest_self_take(v->g, &f, &number, &more, &err) == 0) {
			if (more)
				visit_new(d, v->g);
			serve(v, f, number);
			guest_flow_close(f);
		}
		budget_give(d->by_account, account, 1);
	} else {
		guest_self_leave(v->g);
	}
	visit_over(v);
	return NULL;
}

int self_door_new(struct api *a, struct self_door **ret, struct err *err)
{
	struct self_door *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_set(err, -ENOMEM, "out of memory");
	r = budget_new(&(struct budget_conf){ .all = SELF_VISITS_MAX }, &d->by_account, err);
	if (r == 0)
		r = rate_new(&(struct rate_conf){ .per_s = SELF_RINGS_S,
		                                  .burst = SELF_RINGS_BURST,
		                                  .slots = SELF_RINGS_NAMES },
		             &d->rings, err);
	if (r < 0) {
		budget_free(d->by_account);
		free(d);
		return r;
	}
	d->api = a;
	mutex_init(&d->lock, "api self");
	cond_init(&d->left);
	*ret = d;
	return 0;
}

void self_door_open(struct self_door *d)
{
	vmm_on_ring(d->api->deps.vmm, ring, d);
}

void self_door_close(struct self_door *d)
{
	vmm_on_ring(d->api->deps.vmm, NULL, NULL);
	mutex_lock(&d->lock);
	d->closed = true;
	mutex_unlock(&d->lock);
}

struct self_door *self_door_free(struct self_door *d)
{
	if (!d)
		return NULL;
	mutex_lock(&d->lock);
	d->ending = true;
	for (struct visit *v = d->visits; v; v = v->next)
		if (v->fd >= 0)
			shutdown(v->fd, SHUT_RDWR);
	while (d->n)
		cond_wait(&d->left, &d->lock);
	mutex_unlock(&d->lock);
	budget_free(d->by_account);
	rate_free(d->rings);
	cond_destroy(&d->left);
	mutex_destroy(&d->lock);
	free(d);
	return NULL;
}
