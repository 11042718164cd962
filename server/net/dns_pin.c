/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns_pin.c - applies policies to DNS queries and answers
 *
 * A query is decided at once. An answer whose addresses a policy pins is held
 * back until they are pinned: otherwise the guest's first packet could come before the rule
 * that allows it. Pinning means asking pando-priv, which may take a
 * moment, so it is done on a separate thread; the waiting entry is found again by
 * its generation, or is gone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "net/dns_internal.h"

#define LOCAL_TTL_S 5u /* for names we answer ourselves: VMs come and go */

struct dns_pin {
	struct dns_pin *next;
	uint32_t key;
	char name[DNS_NAME_MAX];
	uint32_t addrs[DNS_ADDRS_MAX];
	size_t n;
	uint32_t ttl_s;
	bool tcp; /* what waits: connection or pending entry, and which */
	uint32_t idx, gen;
};

enum dns_verdict dns_judge(struct dns *d, uint32_t slot, const struct dns_query *q,
                           uint8_t ret[DNS_LOCAL_MAX], size_t *ret_len)
{
	char name[DNS_NAME_MAX];
	bool plain = dns_query_name(q, name);
	uint32_t addr = 0;
	enum dns_verdict v;

	*ret_len = 0;
	if (!d->hooks.query)
		return DNS_FORWARD;
	v = d->hooks.query(d->hooks.ctx, d->slot[slot].key, plain ? name : NULL, &addr);
	switch (v) {
	case DNS_FORWARD:
	case DNS_FORWARD_PIN:
		break;
	case DNS_REFUSE:
		*ret_len = dns_error(q, DNS_REFUSED, ret);
		break;
	case DNS_UNKNOWN:
		*ret_len = dns_error(q, DNS_NXDOMAIN, ret);
		break;
	case DNS_HERE:
		if (q->type != DNS_TYPE_A && q->type != DNS_TYPE_AAAA && q->type != DNS_TYPE_SVCB &&
		    q->type != DNS_TYPE_HTTPS)
			return DNS_FORWARD;
		__attribute__((fallthrough));
	case DNS_LOCAL:
		*ret_len = q->type == DNS_TYPE_A ? dns_local(q, addr, LOCAL_TTL_S, ret)
		                                 : dns_error(q, DNS_NOERROR, ret);
		break;
	}
	return v;
}

int dns_pin_later(struct dns *d, const struct dns_query *q, uint32_t slot, const void *answer,
                  size_t n, bool tcp, uint32_t idx, uint32_t gen)
{
	struct dns_pin *p = calloc(1, sizeof(*p));

	if (!p || !dns_query_name(q, p->name)) {
		free(p);
		return -ENOMEM;
	}
	p->key = d->slot[slot].key;
	p->n = dns_answer_addrs(answer, n, p->addrs, &p->ttl_s);
	p->tcp = tcp;
	p->idx = idx;
	p->gen = gen;
	*d->pins_end = p;
	d->pins_end = &p->next;
	cond_signal(&d->pin_work);
	return 0;
}

static void complete(struct dns *d, const struct dns_pin *p) REQUIRES(&d->lock)
{
	if (p->tcp && d->conn[p->idx].used && d->conn[p->idx].gen == p->gen)
		dns_conn_pinned(d, p->idx);
	if (!p->tcp && d->pending[p->idx].used && d->pending[p->idx].gen == p->gen)
		dns_pending_pinned(d, p->idx);
}

void *dns_pin_main(void *arg)
{
	struct dns *d = arg;

	LOCK_SCOPE(&d->lock);
	for (;;) {
		struct dns_pin *p = d->pins;
		struct dns_hooks hooks;

		if (d->stop)
			return NULL;
		if (!p) {
			cond_wait(&d->pin_work, &d->lock);
			continue;
		}
		d->pins = p->next;
		if (!d->pins)
			d->pins_end = &d->pins;
		hooks = d->hooks;
		mutex_unlock(&d->lock);
		if (p->n)
			hooks.answer(hooks.ctx, p->key, p->name, p->addrs, p->n, p->ttl_s);
		mutex_lock(&d->lock);
		complete(d, p);
		free(p);
	}
}

void dns_pin_drop(struct dns *d)
{
	mutex_unshared(&d->lock);
	while (d->pins) {
		struct dns_pin *p = d->pins;

		d->pins = p->next;
		free(p);
	}
}
