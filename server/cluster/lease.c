/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/lease.h"

#include <assert.h>

#include "base/auto.h"

const struct lease_conf lease_default = {
	.lease_ms = 15000, .renew_ms = 3000, .margin_ms = 3000, .retry_ms = 2000
};

bool lease_conf_valid(const struct lease_conf *c)
{
	return c->renew_ms > 0 && c->retry_ms > 0 && c->margin_ms > 0 &&
	       (uint64_t)c->margin_ms + 2ull * c->renew_ms + c->retry_ms <= c->lease_ms;
}

void lease_init(struct lease *l, const struct lease_conf *c)
{
	assert(lease_conf_valid(c));
	*l = (struct lease){ .conf = *c };
}

static bool is_late(const struct lease *l, uint64_t now)
{
	return l->state == LEASE_HELD && now >= l->deadline;
}

static bool may_send(const struct lease *l, uint64_t now)
{
	return !l->open || now >= l->sent + l->conf.retry_ms;
}

enum lease_todo lease_next(struct lease *l, uint64_t now)
{
	if (is_late(l, now))
		l->state = LEASE_OVER;
	switch (l->state) {
	case LEASE_OUT:
		return may_send(l, now) ? LEASE_JOIN : LEASE_NOTHING;
	case LEASE_HELD:
		return may_send(l, now) && now >= l->renewed + l->conf.renew_ms ? LEASE_RENEW
		                                                                : LEASE_NOTHING;
	case LEASE_OVER:
		return LEASE_FENCE;
	}
	return LEASE_NOTHING;
}

uint64_t lease_wakeup(const struct lease *l, uint64_t now)
{
	uint64_t send = l->open ? l->sent + l->conf.retry_ms : now, at;

	if (l->state == LEASE_OVER)
		return now;
	if (l->state == LEASE_OUT)
		return MAX(send, now);
	at = MAX(send, l->renewed + l->conf.renew_ms);
	return MAX(MIN(at, l->deadline), now);
}

uint64_t lease_sent(struct lease *l, uint64_t before)
{
	l->open = true;
	l->sent = before;
	return ++l->number;
}

/* Is it the answer that we wait for? Then it is no longer open. */
static bool take(struct lease *l, uint64_t number)
{
	if (!l->open || number != l->number)
		return false;
	l->open = false;
	return true;
}

/* Counted from before the request was sent: the database cannot have seen it earlier. */
static void hold(struct lease *l, uint64_t now)
{
	l->renewed = l->sent;
	l->deadline = l->sent + l->conf.lease_ms - l->conf.margin_ms;
	if (now >= l->deadline)
		l->state = LEASE_OVER;
}

void lease_joined(struct lease *l, uint64_t number, uint64_t gen, uint64_t now)
{
	if (!take(l, number) || l->state != LEASE_OUT)
		return;
	l->state = LEASE_HELD;
	l->gen = gen;
	hold(l, now);
}

void lease_renewed(struct lease *l, uint64_t number, bool ours, uint64_t now)
{
	if (!take(l, number) || l->state != LEASE_HELD)
		return;
	/* An answer after the deadline is one of a lease that was over already. */
	if (!ours || is_late(l, now))
		l->state = LEASE_OVER;
	else
		hold(l, now);
}

void lease_fenced(struct lease *l)
{
	assert(l->state == LEASE_OVER);
	l->state = LEASE_OUT;
	l->open = false;
	l->gen = 0;
}

bool lease_valid(const struct lease *l, uint64_t now)
{
	return l->state == LEASE_HELD && now < l->deadline;
}

bool lease_grant(const struct lease *l, uint64_t gen, uint64_t epoch, uint64_t *next, uint64_t now)
{
	if (!lease_valid(l, now) || gen != l->gen || epoch < *next)
		return false;
	*next = epoch + 1;
	return true;
}

void fence_extend(struct fence *f, uint64_t deadline)
{
	f->deadline = MAX(f->deadline, deadline);
}

void fence_clear(struct fence *f)
{
	f->deadline = 0;
}

bool fence_due(const struct fence *f, uint64_t now)
{
	return now >= f->deadline;
}

void watch_saw(struct watch *w, uint64_t gen, uint64_t beat, uint64_t now)
{
	if (w->seen && w->gen == gen && w->beat == beat)
		return;
	*w = (struct watch){ .gen = gen, .beat = beat, .since = now, .seen = true };
}

bool watch_dead(const struct watch *w, const struct lease_conf *c, uint64_t now)
{
	return w->seen && now >= w->since + c->lease_ms;
}
