/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.c - what pando-edge asks and takes time: connections to VMs, certificates
 *
 * Theory of operation: jobs wait in line for threads that are started as needed and end when they
 * have had nothing to do for a while. An answer for a process that has ended is dropped, but its
 * job still counts until it is done, so the number of threads is bounded however often the process
 * is started again. An honest pando-edge never has more jobs than there may be.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "edgehost/host_internal.h"

#define THREAD_IDLE_MS 5000 /* then it ends */

static void do_open(struct edgehost *h, const struct job *j)
{
	struct edgew_msg m = { .kind = EDGEW_OPENED, .id = j->id };
	struct edgehost_way way = { .kind = EDGE_NOWHERE, .waiting = j->waiting };
	struct err err = { 0 };
	autofd int fd = -1;
	int r = h->ops.open(h->ops.ctx, j->host, &way, &fd, &err);

	host_way(h, &way, &m.way);
	m.code = MIN(r, 0);
	m.tag = r < 0 ? err.tag : ERR_NONE;
	m.fresh_ms = way.fresh_ms;
	if (!way.ticket) {
		host_send(h, j->gen, &m, fd);
		return;
	}
	m.ticket = way.ticket;
	m.way.tally = tally_of(h, way.machine);
	m.way.vm = way.mark;
	tickets_send(h, j->gen, &m, fd);
}

/* Key and chain, each with its length before it, as blobs of the message. */
static int take_ders(const struct buf *b, struct edgew_msg *m)
{
	struct rd c = rd_of(b->p, b->len);

	if (rd_blob(&c, EDGEW_KEY_MAX, &m->cert.key.p, &m->cert.key.n) < 0)
		return -E2BIG;
	while (c.left) {
		struct edgew_blob *x = &m->cert.chain[m->cert.n_chain];

		if (m->cert.n_chain == EDGEW_CHAIN_MAX ||
		    rd_blob(&c, EDGEW_CERT_MAX, &x->p, &x->n) < 0)
			return -E2BIG;
		m->cert.n_chain++;
	}
	return 0;
}

static void do_cert(struct edgehost *h, const struct job *j)
{
	struct edgew_msg m = { .kind = EDGEW_CERTED, .id = j->id };
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	int r = h->ops.cert(h->ops.ctx, j->host, &b, &m.cert.number, &err);

	if (r == 0 && b.failed)
		r = -ENOMEM;
	if (r == 0)
		r = take_ders(&b, &m);
	if (r < 0) {
		m.cert.key.n = 0;
		m.cert.n_chain = 0;
		if (*err.msg)
			log_warn("edge: TLS connections for '%s' are refused: %s", j->host,
			         err.msg);
	}
	m.code = MIN(r, 0);
	host_send(h, j->gen, &m, -1);
	if (b.p)
		explicit_bzero(b.p, b.cap);
}

static void *job_main(void *arg)
{
	struct edgehost *h = arg;

	mutex_lock(&h->lock);
	for (;;) {
		struct job *j = h->first;
		bool more;

		if (j) {
			h->first = j->next;
			if (!h->first)
				h->last = NULL;
			h->n_queued--;
			mutex_unlock(&h->lock);
			if (j->cert)
				do_cert(h, j);
			else
				do_open(h, j);
			mutex_lock(&h->lock);
			*(j->cert ? &h->n_certs : &h->n_opens) -= 1;
			free(j);
			continue;
		}
		if (h->stopping)
			break;
		h->n_idle++;
		more = cond_wait_until(&h->jobs, &h->lock, deadline_in(THREAD_IDLE_MS));
		h->n_idle--;
		if (!more && !h->first)
			break;
	}
	h->n_threads--;
	cond_broadcast(&h->cond);
	mutex_unlock(&h->lock);
	return NULL;
}

static void need_thread(struct edgehost *h) REQUIRES(&h->lock)
{
	pthread_attr_t attr;
	pthread_t id;

	cond_signal(&h->jobs);
	/* One that is idle counts until it has woken: each waiting job needs one of its own. */
	if (h->n_queued <= h->n_idle || h->n_threads >= HOST_JOBS_MAX)
		return;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&id, &attr, job_main, h) == 0)
		h->n_threads++;
	pthread_attr_destroy(&attr);
}

int jobs_add(struct edgehost *h, uint64_t gen, const struct edgew_msg *m)
{
	bool cert = m->kind == EDGEW_CERT;
	struct job *j;

	LOCK_SCOPE(&h->lock);
	if (h->stopping ||
	    (cert ? h->n_certs >= 2 * EDGEW_CERTS_MAX : h->n_opens >= EDGEW_OPENS_MAX))
		return -EBUSY;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	*j = (struct job){ .gen = gen, .id = m->id, .cert = cert, .waiting = m->waiting };
	memcpy(j->host, m->host, sizeof(j->host));
	if (h->last)
		h->last->next = j;
	else
		h->first = j;
	h->last = j;
	h->n_queued++;
	*(cert ? &h->n_certs : &h->n_opens) += 1;
	need_thread(h);
	return 0;
}

void jobs_stop(struct edgehost *h)
{
	LOCK_SCOPE(&h->lock);
	h->stopping = true;
	while (h->first) {
		struct job *j = h->first;

		h->first = j->next;
		free(j);
	}
	h->last = NULL;
	h->n_queued = 0;
	cond_broadcast(&h->jobs);
}

void jobs_wait(struct edgehost *h)
{
	mutex_lock(&h->lock);
	while (h->n_threads)
		cond_wait(&h->cond, &h->lock);
	mutex_unlock(&h->lock);
}
