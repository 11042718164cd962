/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener.c - threads for what may block: waking a VM and making a socket in its network
 *
 * Theory of operation: requests for sockets of one VM form a group, and one thread at a time works
 * on a group, so a burst of requests for a sleeping VM wakes it once and occupies one thread.
 * Threads are started as groups need them, up to a limit, and end when they have nothing to do.
 *
 * In a group each client address has a line of its own, and lines take turns. A line in which
 * CONNECTING_MAX sockets are not connected yet has to wait: a program that accepts slowly has a
 * short queue, and whoever fills it makes the others wait for seconds, until TCP tries again.
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
#define CONNECTING_MAX 8    /* sockets of one address to one VM */

struct ask {
	struct ask *next;
	struct line *line;
	struct worker *w;
	uint64_t xchg;
	struct edge_target t;
};

/* Of one address, for one VM; there while somebody waits in it or is being connected. */
struct line {
	struct line *next;
	struct group *g;
	uint64_t client;
	struct ask *first, *last;
	unsigned connecting;
};

struct group {
	struct group *next;
	char vm[ID_SIZE];
	bool taken;
	struct line *lines; /* owned; the next one to be served first */
	unsigned n_asks;
};

struct opener {
	struct edge *e;
	struct mutex lock;
	struct cond cond;
	struct group *groups GUARDED_BY(lock);
	unsigned n_asks GUARDED_BY(lock), n_threads GUARDED_BY(lock), n_idle GUARDED_BY(lock);
	bool stopping GUARDED_BY(lock);
};

/* Who is served next, or NULL; all: even one that should wait. */
static struct line *turn(const struct group *g, bool all)
{
	struct line *l = g->lines;

	while (l && (!l->first || (!all && l->connecting >= CONNECTING_MAX)))
		l = l->next;
	return l;
}

static struct group *ready_group(struct opener *o) REQUIRES(&o->lock)
{
	struct group *g = o->groups;

	while (g && (g->taken || !turn(g, /* all= */ false)))
		g = g->next;
	return g;
}

static void line_unlink(struct line *l)
{
	struct line **p = &l->g->lines;

	while (*p != l)
		p = &(*p)->next;
	*p = l->next;
	l->next = NULL;
}

static void line_append(struct line *l)
{
	struct line **p = &l->g->lines;

	while (*p)
		p = &(*p)->next;
	*p = l;
}

static void drop_group_if_empty(struct opener *o, struct group *g) REQUIRES(&o->lock)
{
	struct group **p = &o->groups;

	if (g->lines || g->taken)
		return;
	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	free(g);
}

/* Its group may go along, unless it is taken. */
static void drop_line_if_empty(struct opener *o, struct line *l) REQUIRES(&o->lock)
{
	struct group *g = l->g;

	if (l->first || l->connecting)
		return;
	line_unlink(l);
	free(l);
	drop_group_if_empty(o, g);
}

/* One less is being connected. */
static void give_back(struct opener *o, struct line *l) REQUIRES(&o->lock)
{
	l->connecting--;
	drop_line_if_empty(o, l);
}

/* It counts as being connected from here on. */
static struct ask *pop(struct opener *o, struct group *g, bool all) REQUIRES(&o->lock)
{
	struct line *l = turn(g, all);
	struct ask *a;

	if (!l)
		return NULL;
	a = l->first;
	l->first = a->next;
	if (!l->first)
		l->last = NULL;
	l->connecting++;
	o->n_asks--;
	g->n_asks--;
	line_unlink(l);
	line_append(l);
	return a;
}

/* Frees the ask; its place in the line goes along with the socket, if there is one. */
static void tell(struct opener *o, struct ask *a, int fd_consume, struct edge_target *t,
                 const struct err *err) REQUIRES(&o->lock)
{
	struct opened *d = calloc(1, sizeof(*d));

	if (d && !o->stopping) { /* without d the request runs into its deadline */
		*d = (struct opened){ .xchg = a->xchg,
			              .fd = fd_consume,
			              .line = fd_consume < 0 ? NULL : a->line,
			              .t = *t };
		if (err)
			d->err = *err;
		worker_tell(a->w, d);
	} else {
		if (fd_consume >= 0)
			close(fd_consume);
		fd_consume = -1;
		edge_give_back(o->e, t);
		free(d);
	}
	if (fd_consume < 0)
		give_back(o, a->line);
	free(a);
}

/* Releases the lock in between; may free the group. */
static void serve(struct opener *o, struct group *g) REQUIRES(&o->lock)
{
	struct ask *a;

	g->taken = true;
	while ((a = pop(o, g, /* all= */ false))) {
		struct edge_target t = a->t;
		struct err err = { 0 };
		int fd = -1, r;

		t.waiting = g->n_asks;
		mutex_unlock(&o->lock);
		r = o->e->ops.open(o->e->ops.ctx, &t, &fd, &err);
		if (r < 0 && !err.code)
			err.code = r;
		mutex_lock(&o->lock);
		tell(o, a, r < 0 ? -1 : fd, &t, &err);
		/* The others would fail for the same reason: tells those that have come meanwhile.
		 * But who has waited too long for a place says nothing of those behind it. */
		while (r < 0 && !(t.many && r == -ETIMEDOUT) && (a = pop(o, g, /* all= */ true)))
			tell(o, a, -1, &t, &err);
	}
	g->taken = false;
	drop_group_if_empty(o, g);
}

static void *opener_main(void *arg)
{
	struct opener *o = arg;

	mutex_lock(&o->lock);
	for (;;) {
		uint64_t until = deadline_in(THREAD_IDLE_MS);
		struct group *g = ready_group(o);
		bool more;

		if (g) {
			serve(o, g);
			continue;
		}
		if (o->stopping)
			break;
		o->n_idle++;
		more = cond_wait_until(&o->cond, &o->lock, until);
		o->n_idle--;
		if (!more && !ready_group(o))
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
		untaken += !g->taken && turn(g, /* all= */ false);
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

static struct group *group_of(struct opener *o, const char vm[ID_SIZE]) REQUIRES(&o->lock)
{
	struct group *g = o->groups;

	while (g && strcmp(g->vm, vm) != 0)
		g = g->next;
	if (g || !(g = calloc(1, sizeof(*g))))
		return g;
	memcpy(g->vm, vm, sizeof(g->vm));
	g->next = o->groups;
	o->groups = g;
	return g;
}

static struct line *line_of(struct group *g, uint64_t client)
{
	struct line *l = g->lines;

	while (l && l->client != client)
		l = l->next;
	if (l || !(l = calloc(1, sizeof(*l))))
		return l;
	*l = (struct line){ .g = g, .client = client };
	line_append(l);
	return l;
}

int opener_ask(struct opener *o, struct worker *w, uint64_t xchg, uint64_t client,
               const struct edge_target *t)
{
	autofree struct ask *a = calloc(1, sizeof(*a));
	struct group *g;
	struct line *l;

	if (!a)
		return -ENOMEM;
	LOCK_SCOPE(&o->lock);
	if (o->stopping || o->n_asks >= ASKS_MAX)
		return -EBUSY;
	g = group_of(o, t->vm);
	if (!g)
		return -ENOMEM;
	if (t->many && g->n_asks >= EDGE_QUEUE_MAX)
		return -EAGAIN;
	l = line_of(g, client);
	if (!l) {
		drop_group_if_empty(o, g);
		return -ENOMEM;
	}
	*a = (struct ask){ .line = l, .w = w, .xchg = xchg, .t = *t };
	if (l->last)
		l->last->next = a;
	else
		l->first = a;
	l->last = a;
	g->n_asks++;
	o->n_asks++;
	if (!g->taken)
		need_thread(o);
	(void)TAKE_PTR(a);
	return 0;
}

void opener_forget(struct opener *o, const struct worker *w, uint64_t xchg, uint64_t client,
                   const char *vm)
{
	struct group *g;
	struct line *l;
	struct ask *prev = NULL, *a;
	LOCK_SCOPE(&o->lock);

	for (g = o->groups; g && strcmp(g->vm, vm) != 0; g = g->next)
		;
	for (l = g ? g->lines : NULL; l && l->client != client; l = l->next)
		;
	for (a = l ? l->first : NULL; a && (a->w != w || a->xchg != xchg); a = a->next)
		prev = a;
	if (!a)
		return; /* it is being opened */
	*(prev ? &prev->next : &l->first) = a->next;
	if (l->last == a)
		l->last = prev;
	o->n_asks--;
	g->n_asks--;
	free(a);
	drop_line_if_empty(o, l);
}

void opener_connected(struct opener *o, struct line *l)
{
	LOCK_SCOPE(&o->lock);
	if (l->first && !l->g->taken && l->connecting == CONNECTING_MAX) {
		l->connecting--;
		need_thread(o);
		return;
	}
	give_back(o, l);
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
		for (struct line *l = g->lines; l; l = l->next) {
			while (l->first) {
				struct ask *a = l->first;

				l->first = a->next;
				free(a);
			}
			l->last = NULL;
		}
	}
	o->n_asks = 0;
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
		while (g->lines) {
			struct line *l = g->lines;

			g->lines = l->next;
			free(l);
		}
		free(g);
	}
	cond_destroy(&o->cond);
	mutex_destroy(&o->lock);
	free(o);
	return NULL;
}
