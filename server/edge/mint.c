/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mint.c - one thread that provides certificates, because signing and reading files would block a
 * worker
 *
 * Theory of operation: names wait in line, each once, with the workers that have connections
 * waiting for it. Certificates are made one at a time, so that many names cost one processor at
 * most. When one is there, or cannot be had, each of these workers is told once and resumes all its
 * connections. Connections have their own deadlines: if the mint is stuck, nobody else has to wait.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/lock.h"
#include "base/log.h"
#include "edge/edge_internal.h"

#define NAMES_MAX 1024 /* in line; connections for further names are refused */

struct wish {
	struct wish *next;
	unsigned workers; /* a bit for each that waits */
	char name[H1_HOST_MAX + 1];
};

struct mint {
	struct edge *e;
	struct mutex lock; /* guards what follows */
	struct cond cond;
	pthread_t thread;
	struct wish *first, *last; /* the first is being worked on */
	unsigned n;
	bool stopping;
};

/* Lock held, so that nobody is told anything once mint_stop() is over. */
static void tell(struct mint *m, const struct wish *wish, bool ok)
{
	for (unsigned i = 0; i < m->e->n_workers && !m->stopping; i++) {
		struct minted *d = wish->workers & BIT(i) ? calloc(1, sizeof(*d)) : NULL;

		if (!d)
			continue; /* without memory its connections run into their deadlines */
		d->ok = ok;
		memcpy(d->name, wish->name, sizeof(d->name));
		worker_tell_minted(&m->e->workers[i], d);
	}
}

static void *mint_main(void *arg)
{
	struct mint *m = arg;

	mutex_lock(&m->lock);
	for (;;) {
		struct wish *wish = m->first;
		struct err err = { 0 };
		int r;

		if (m->stopping)
			break;
		if (!wish) {
			cond_wait(&m->cond, &m->lock);
			continue;
		}
		mutex_unlock(&m->lock);
		r = m->e->ops.cert_make ? m->e->ops.cert_make(m->e->ops.ctx, wish->name, &err)
		                        : -ENOENT;
		if (r < 0)
			log_debug("edge: TLS connections for '%s' are refused: %s", wish->name,
			          err.msg);
		mutex_lock(&m->lock);
		m->first = wish->next;
		if (!m->first)
			m->last = NULL;
		m->n--;
		tell(m, wish, r == 0);
		free(wish);
	}
	mutex_unlock(&m->lock);
	return NULL;
}

int mint_ask(struct mint *m, const struct worker *w, const char *name)
{
	struct wish *wish;

	LOCK_SCOPE(&m->lock);
	if (m->stopping)
		return -ECANCELED;
	for (wish = m->first; wish && strcmp(wish->name, name) != 0; wish = wish->next)
		;
	if (!wish) {
		if (m->n >= NAMES_MAX)
			return -EBUSY;
		wish = calloc(1, sizeof(*wish));
		if (!wish)
			return -ENOMEM;
		snprintf(wish->name, sizeof(wish->name), "%s", name);
		if (m->last)
			m->last->next = wish;
		else
			m->first = wish;
		m->last = wish;
		m->n++;
		cond_signal(&m->cond);
	}
	wish->workers |= BIT(w->idx);
	return 0;
}

int mint_new(struct edge *e, struct mint **ret, struct err *err)
{
	struct mint *m = calloc(1, sizeof(*m));

	if (!m)
		return err_set(err, -ENOMEM, "edge: out of memory");
	m->e = e;
	mutex_init(&m->lock, "edge mint");
	cond_init(&m->cond);
	if (pthread_create(&m->thread, NULL, mint_main, m) != 0) {
		cond_destroy(&m->cond);
		mutex_destroy(&m->lock);
		free(m);
		return err_set(err, -EAGAIN, "edge: cannot start the thread for certificates");
	}
	*ret = m;
	return 0;
}

void mint_stop(struct mint *m)
{
	LOCK_SCOPE(&m->lock);
	m->stopping = true;
	cond_signal(&m->cond);
}

struct mint *mint_free(struct mint *m)
{
	if (!m)
		return NULL;
	mint_stop(m);
	pthread_join(m->thread, NULL);
	while (m->first) {
		struct wish *wish = m->first;

		m->first = wish->next;
		free(wish);
	}
	cond_destroy(&m->cond);
	mutex_destroy(&m->lock);
	free(m);
	return NULL;
}
