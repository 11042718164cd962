/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tickets.c - connections to one of several machines, each until it is over
 *
 * Theory of operation: pandod counts what each machine has by tickets. They are given back by the
 * process, or by us when the process ends: a process that was taken over can keep its own for as
 * long as it lives, and give none back that it does not have.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "edgehost/host_internal.h"

static int keep(struct edgehost *h, uint64_t gen, uint64_t ticket)
{
	uint64_t *more;

	LOCK_SCOPE(&h->lock);
	if (h->gen != gen || h->control < 0)
		return -ESHUTDOWN;
	if (h->n_tickets == h->cap_tickets) {
		size_t cap = h->cap_tickets ? 2 * h->cap_tickets : 64;

		more = reallocarray(h->tickets, cap, sizeof(*more));
		if (!more)
			return -ENOMEM;
		h->tickets = more;
		h->cap_tickets = cap;
	}
	h->tickets[h->n_tickets++] = ticket;
	return 0;
}

void tickets_send(struct edgehost *h, uint64_t gen, const struct edgew_msg *m, int fd)
{
	if (keep(h, gen, m->ticket) < 0) {
		h->ops.done(h->ops.ctx, m->ticket);
		return;
	}
	host_send(h, gen, m, fd);
}

static bool take(struct edgehost *h, uint64_t ticket)
{
	LOCK_SCOPE(&h->lock);
	for (size_t i = h->n_tickets; i-- > 0;) {
		if (h->tickets[i] != ticket)
			continue;
		h->tickets[i] = h->tickets[--h->n_tickets];
		return true;
	}
	return false;
}

void tickets_done(struct edgehost *h, uint64_t ticket)
{
	if (take(h, ticket))
		h->ops.done(h->ops.ctx, ticket);
}

void tickets_drop(struct edgehost *h)
{
	uint64_t *v;
	size_t n;

	mutex_lock(&h->lock);
	v = h->tickets;
	n = h->n_tickets;
	h->tickets = NULL;
	h->n_tickets = h->cap_tickets = 0;
	mutex_unlock(&h->lock);
	for (size_t i = 0; i < n; i++)
		h->ops.done(h->ops.ctx, v[i]);
	free(v);
}
