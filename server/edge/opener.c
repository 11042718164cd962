/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener.c - threads for what may block: waking a VM and making a socket in its network
 *
 * Theory of operation: requests for sockets of one VM form a group, and one thread at a time works
 * on a group, so a burst of requests for a sleeping VM wakes it once and occupies one thread.
 * Threads are started as groups need them, up to a limit, and end when they have nothing to do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/lock.h"
#include "edge/edge_internal.h"

#define THREADS_MAX 64      /* VMs that are being woken at the same time; more wait */
#define ASKS_MAX 16384      /* of all groups together */
#define THREAD_IDLE_MS 5000 /* then it ends */

struct ask {
	struct ask *next;
	struct worker *w;
	uint64_t xchg;
	struct edge_target t;
};

struct group {
	struct group *next;
	char vm[ID_SIZE];
	bool taken;
	struct ask *first, *last;
};

struct opener {
	struct edge *e;
	struct mutex lock;
	struct cond cond;
	struct group *groups GUARDED_BY(lock);
	unsigned n_asks GUARDED_BY(lock), n_threads GUARDED_BY(lock), n_idle GUARDED_BY(lock);
	bool stopping GUARDED_BY(lock);
};

static void tell(struct opener *o, struct ask *a, int fd_consume, const struct edge_target *t,
                 const struct err *err)
{
	struct opened *d = calloc(1, sizeof(*d));
	bool dropped;

	if (!d) {
		if (fd_consume >= 0)
			close(fd_consume);
		return; /* the request runs into its deadline */
	}
	*d = (struct opened){ .xchg = a->xchg, .fd = fd_consume, .t = *t };
	if (err)
		d->err = *err;
	mutex_lock(&o->lock);
	dropped = o->stopping;
	if (!dropped)
		worker_tell(a->w, d);
	mutex_unlock(&o->lock);
	if (dropped) {
		if (fd_consume >= 0)
			close(fd_consume);
		free(d);
	}
}

static struct ask *pop(struct opener *o, struct group *g) REQUIRES(&o->lock)
{
	struct ask *a = g->first;

	if (a) {
		g->first = a->next;
		if (!g->first)
			g->last = NULL;
		o->n_asks--;
	}
	return a;
}

/* Releases the lock in between; frees the group. */
static void serve(struct opener *o, struct group *g) REQUIRES(&o->lock)
{
	struct ask *a;

	while ((a = pop(o, g))) {
		struct edge_target t = a->t;
		struct err err = { 0 };
		int fd = -1, r;

		mutex_unlock(&o->lock);
		r = o->e->ops.open(o->e->ops.ctx, &t, &fd, &err);
		if (r < 0 && !err.code)
			err.code = r;
		tell(o, a, r < 0 ? -1 : fd, &t, &err);
		free(a);
		mutex_lock(&o->lock);
		/* The others would fail for the same reason: tells those that have come meanwhile.
		 */
		while (r < 0 && (a = pop(o, g))) {
			mutex_unlock(&o->lock);
			tell(o, a, -1, &t, &err);
			free(a);
			mutex_lock(&o->lock);
		}
	}
	for (struct group **p = &o->groups; *p; p = &(*p)->next) {
		if (*p == g) {
			*p = g->next;
			break;
		}
	}
	free(g);
}

static void *opener_main(void *arg)
{
	struct opener *o = arg;

	mutex_lock(&o->lock);
	for (;;) {
		uint64_t until = deadline_in(THREAD_IDLE_MS);
		struct group *g = o->groups;
		bool more;

		while (g && g->taken)
			g = g->next;
		if (g) {
			g->taken = true;
			serve(o, g);
			continue;
		}
		if (o->stopping)
			break;
		o->n_idle++;
		more = cond_wait_until(&o->cond, &o->lock, until);
		o->n_idle--;
		if (!more && !o->groups)
			break;
	}
	o->n_threads--;
	cond_broadcast(&o->cond);
	mutex_unlock(&o->lock);
	return NULL;
}

static void need_thread(struct opener *o) REQUIRES(&o->lock)
{
	pthread_attr_t attr;
	pthread_t id;
	unsigned untaken = 0;

	for (const struct group *g = o->groups; g; g = g->next)
		untaken += !g->taken;
	cond_signal(&o->cond);
	/* One that is idle counts until it has woken: each waiting group needs one of its own. */
	if (untaken <= o->n_idle || o->n_threads >= THREADS_MAX)
		return;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&id, &attr, opener_main, o) == 0)
		o->n_threads++;
	pthread_attr_destroy(&attr);
}

int opener_ask(struct opener *o, struct worker *w, uint64_t xchg, const struct edge_target *t)
{
	autofree struct ask *a = calloc(1, sizeof(*a));
	struct group *g;

	if (!a)
		return -ENOMEM;
	*a = (struct ask){ .w = w, .xchg = xchg, .t = *t };
	LOCK_SCOPE(&o->lock);
	if (o->stopping || o->n_asks >= ASKS_MAX)
		return -EBUSY;
	for (g = o->groups; g && strcmp(g->vm, t->vm) != 0; g = g->next)
		;
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g)
			return -ENOMEM;
		memcpy(g->vm, t->vm, sizeof(g->vm));
		g->next = o->groups;
		o->groups = g;
	}
	if (g->last)
		g->last->next = a;
	else
		g->first = a;
	g->last = a;
	o->n_asks++;
	if (!g->taken)
		need_thread(o);
	(void)TAKE_PTR(a);
	return 0;
}

int opener_new(struct edge *e, struct opener **ret, struct err *err)
{
	struct opener *o = calloc(1, sizeof(*o));

	if (!o)
		return err_set(err, -ENOMEM, "edge: out of memory");
	o->e = e;
	mutex_init(&o->lock, "edge opener");
	cond_init(&o->cond);
	*ret = o;
	return 0;
}

void opener_stop(struct opener *o)
{
	LOCK_SCOPE(&o->lock);
	o->stopping = true;
	for (struct group *g = o->groups; g; g = g->next) {
		struct ask *a;

		while ((a = pop(o, g)))
			free(a);
	}
	cond_broadcast(&o->cond);
}

struct opener *opener_free(struct opener *o)
{
	if (!o)
		return NULL;
	opener_stop(o);
	mutex_lock(&o->lock);
	while (o->n_threads)
		cond_wait(&o->cond, &o->lock);
	mutex_unlock(&o->lock);
	mutex_unshared(&o->lock);
	while (o->groups) {
		struct group *g = o->groups;

		o->groups = g->next;
		free(g);
	}
	cond_destroy(&o->cond);
	mutex_destroy(&o->lock);
	free(o);
	return NULL;
}
