/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns_udp.c - one pending entry per query of a guest
 *
 * Each query goes out from a socket of its own, connected to the resolver: the
 * kernel then drops packets from anyone else, and both port and id are random. An answer
 * must repeat the id and the question, or it is ignored and the
 * entry keeps waiting. The guest always gets an answer under its own id: the
 * resolver's, or SERVFAIL if none came in time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "net/dns_internal.h"

void dns_pending_close(struct dns *d, struct dns_pending *q)
{
	struct dns_slot *s = dns_slot_of(d, q->slot, q->slot_gen);

	if (s)
		s->n_pending--;
	budget_give(d->share_pending, q->holder, 1);
	if (q->fd >= 0)
		close(q->fd);
	free(q->packet);
	free(q->answer);
	*q = (struct dns_pending){ .fd = -1 };
}

static void reply(struct dns *d, const struct dns_pending *q, const void *p, size_t n)
        REQUIRES(&d->lock)
{
	struct dns_slot *s = dns_slot_of(d, q->slot, q->slot_gen);

	/* A guest that does not read loses its answer. */
	if (s && sendto(s->udp, p, n, MSG_DONTWAIT | MSG_NOSIGNAL,
	                (const struct sockaddr *)&q->from, q->from_len) >= 0)
		d->stats.answers++;
}

static void fail(struct dns *d, const struct dns_pending *q, enum dns_rcode rcode)
        REQUIRES(&d->lock)
{
	uint8_t out[DNS_ERROR_MAX];

	d->stats.failed++;
	reply(d, q, out, dns_error(&q->query, rcode, out));
}

static struct dns_pending *pending_new(struct dns *d, uint32_t slot) REQUIRES(&d->lock)
{
	struct dns_slot *s = &d->slot[slot];

	if (s->n_pending >= SLOT_PENDING_MAX || budget_take(d->share_pending, s->holder, 1) < 0)
		return NULL;
	for (uint32_t i = 0; i < PENDING_MAX; i++) {
		struct dns_pending *q = &d->pending[i];

		if (q->used)
			continue;
		*q = (struct dns_pending){ .used = true,
			                   .gen = ++d->next_gen & 0x0fffffff,
			                   .slot = slot,
			                   .slot_gen = s->gen,
			                   .fd = -1 };
		memcpy(q->holder, s->holder, sizeof(q->holder));
		s->n_pending++;
		return q;
	}
	budget_give(d->share_pending, s->holder, 1);
	return NULL;
}

/* Sends the query on to the resolver; false: it cannot be reached. */
static bool ask(struct dns *d, struct dns_pending *q, const uint8_t *p, size_t n) REQUIRES(&d->lock)
{
	uint64_t now = clock_ms();

	if (!dns_upstream(d))
		return false;
	q->packet = malloc(n);
	if (!q->packet)
		return false;
	memcpy(q->packet, p, n);
	q->packet_len = n;
	random_bytes(&q->id, sizeof(q->id));
	dns_set_id(q->packet, q->id);
	q->fd = socket(d->up.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->fd < 0 || connect(q->fd, (struct sockaddr *)&d->up, d->up_len) < 0 ||
	    dns_poll(d, q->fd, DNS_PENDING, (uint32_t)(q - d->pending), q->gen, EPOLLIN,
	             /* add= */ true) < 0 ||
	    send(q->fd, q->packet, n, MSG_NOSIGNAL) < 0)
		return false;
	q->resend_at = now + RESEND_MS;
	q->deadline = now + QUERY_TIMEOUT_MS;
	return true;
}

/* Our own answer, sent at once. */
static void serve(struct dns *d, uint32_t slot, const uint8_t *p, size_t n,
                  const struct dns_query *q, const struct sockaddr_storage *from,
                  socklen_t from_len) REQUIRES(&d->lock)
{
	uint8_t out[DNS_QUERY_MAX];
	struct dns_edns e;

	d->stats.queries++;
	dns_query_edns(p, n, q, &e);
	n = d->hooks.serve(d->hooks.ctx, q, &e, /* tcp= */ false, out, sizeof(out));
	if (n && sendto(d->slot[slot].udp, out, n, MSG_DONTWAIT | MSG_NOSIGNAL,
	                (const struct sockaddr *)from, from_len) >= 0)
		d->stats.answers++;
}

static void on_query(struct dns *d, uint32_t slot, const uint8_t *p, size_t n,
                     const struct sockaddr_storage *from, socklen_t from_len) REQUIRES(&d->lock)
{
	enum dns_verdict verdict = DNS_FORWARD;
	uint8_t local[DNS_LOCAL_MAX];
	size_t local_len = 0;
	struct dns_query query;
	struct dns_pending *q;
	int r = dns_query_parse(p, n, &query);

	if (r != -EBADMSG && d->hooks.serve) {
		serve(d, slot, p, n, &query, from, from_len);
		return;
	}
	if (r == -EBADMSG || !(q = pending_new(d, slot))) {
		d->stats.dropped++;
		return;
	}
	d->stats.queries++;
	q->query = query;
	q->from = *from;
	q->from_len = from_len;
	if (r == 0)
		verdict = dns_judge(d, slot, &query, local, &local_len);
	q->pin = verdict == DNS_FORWARD_PIN;
	if (r == -EPERM)
		fail(d, q, DNS_REFUSED);
	else if (local_len)
		reply(d, q, local, local_len);
	else if (!ask(d, q, p, n))
		fail(d, q, DNS_SERVFAIL);
	else
		return;
	dns_pending_close(d, q);
}

void dns_on_slot_udp(struct dns *d, uint32_t idx)
{
	struct dns_slot *s = &d->slot[idx];

	for (int i = 0; i < BURST_MAX; i++) {
		uint8_t p[DNS_QUERY_MAX + 1];
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(s->udp, p, sizeof(p), MSG_DONTWAIT, (struct sockaddr *)&from,
		                     &len);

		if (n < 0)
			return; /* EAGAIN, or an ICMP error for an earlier answer */
		on_query(d, idx, p, (size_t)n, &from, len);
	}
}

/* Keeps the answer until its addresses are pinned; the resolver's socket is no longer polled. */
static int hold(struct dns *d, struct dns_pending *q, const uint8_t *p, size_t n) REQUIRES(&d->lock)
{
	q->answer = malloc(n);
	if (!q->answer)
		return -ENOMEM;
	memcpy(q->answer, p, n);
	q->answer_len = n;
	close(TAKE_FD(q->fd));
	return dns_pin_later(d, &q->query, q->slot, p, n, /* tcp= */ false,
	                     (uint32_t)(q - d->pending), q->gen);
}

void dns_on_pending(struct dns *d, uint32_t idx)
{
	static _Thread_local uint8_t p[DNS_ANSWER_MAX];
	struct dns_pending *q = &d->pending[idx];
	ssize_t n = recv(q->fd, p, sizeof(p), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		fail(d, q, DNS_SERVFAIL); /* the resolver's port is closed, or no route */
	} else {
		if (!dns_answer_matches(p, (size_t)n, &q->query, q->id)) {
			d->stats.dropped++;
			return;
		}
		dns_set_id(p, q->query.id);
		if (q->pin && hold(d, q, p, (size_t)n) == 0)
			return;
		if (q->pin)
			fail(d, q, DNS_SERVFAIL);
		else
			reply(d, q, p, (size_t)n);
	}
	dns_pending_close(d, q);
}

void dns_pending_pinned(struct dns *d, uint32_t idx)
{
	struct dns_pending *q = &d->pending[idx];

	reply(d, q, q->answer, q->answer_len);
	dns_pending_close(d, q);
}

void dns_pending_tick(struct dns *d, uint64_t now)
{
	for (size_t i = 0; i < PENDING_MAX; i++) {
		struct dns_pending *q = &d->pending[i];

		if (!q->used || q->answer)
			continue; /* free, or answered as soon as its addresses are pinned */
		if (now >= q->deadline) {
			fail(d, q, DNS_SERVFAIL);
			dns_pending_close(d, q);
		} else if (!q->resent && now >= q->resend_at) {
			q->resent = true;
			if (send(q->fd, q->packet, q->packet_len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
				continue; /* answered with an error at the deadline */
		}
	}
}
