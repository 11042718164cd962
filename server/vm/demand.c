/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demand.c - how many of what are made ahead of need
 *
 * Three kinds of things are: ready VMs of a point, blank processes of a size, seeds of a size. All
 * share one budget of memory. What is kept is what would have been of most use lately:
 *
 * For each thing it is counted how often the first, the second, the nth of it was taken, or would
 * have been if there had been one. Which it is follows from what was taken before and could not
 * have been made again yet: of a burst of 30 each of the first 30 was of use once; of a steady
 * stream the first was of use very often, and hardly ever the third. So bursts and streams need
 * nothing of their own. The counts fade, to one half in two hours: a burst is remembered for four,
 * and what nobody asks for goes.
 *
 * The use of one more is its count, times the processor time it saves, for each MB it takes. The
 * plan gives the budget away to the one of most use, again and again, until nothing fits or nothing
 * is of use. First every account that wants something gets no more than an equal part; what is left
 * goes to whoever has most use for it. So somebody who asks for many things cannot have all of it.
 * What is there already counts a little more, or things of equal use would displace each other for
 * ever.
 *
 * A thing of one account is made only after it was asked for HOT_USES times, unless the caller
 * knows better (eager): most snapshots are used once.
 *
 * Never: more than the budget, or than a part of what the host has to spare; a thing that does not
 * fit its kind's bounds. `least` of a thing is above its use, but not above these.
 */
#include "vm/demand.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define FADE_EVERY_MS 60000
#define FADE 0.994240f /* 2^(-1/120): one half in 120 steps */
#define FADED 2400     /* steps after which nothing is left */
#define KEEP 0.25f     /* uses below which one is not kept: four hours after the only one */
#define HOT_USES 2.5f  /* three, the first of them half an hour ago */
#define THERE 1.3f     /* the use of one that is there already, over one that is not */
#define SPARE_PART 4   /* of what the host has to spare, what is made ahead may take this part */
#define LEARN 0.25f    /* what one more measurement counts */
#define PLAN_EVERY_MS 60000

void demand_size(uint32_t vcpus, uint32_t mem_mb, char ret[ID_SIZE])
{
	snprintf(ret, ID_SIZE, "%ux%u", vcpus, mem_mb);
}

uint32_t demand_budget(const struct demand *d)
{
	uint32_t have = 0;

	if (d->spare_mb == UINT32_MAX)
		return d->conf.budget_mb;
	for (size_t i = 0; i < d->n; i++)
		have += d->keys[i].have * d->keys[i].mb;
	return MIN(d->conf.budget_mb, (d->spare_mb + have) / SPARE_PART);
}

/* ---- what was asked for ---- */

static void fade(struct demand_key *k, uint64_t now)
{
	uint64_t steps = now > k->faded_ms ? (now - k->faded_ms) / FADE_EVERY_MS : 0;
	float by = steps < FADED ? 1 : 0;

	k->faded_ms += steps * FADE_EVERY_MS;
	for (uint64_t i = 0; by > 0 && i < steps; i++)
		by *= FADE;
	for (size_t i = 0; steps && i < DEMAND_DEPTH; i++)
		k->used[i] *= by;
}

static float uses(const struct demand_key *k)
{
	float sum = 0;

	for (size_t i = 0; i < DEMAND_DEPTH; i++)
		sum += k->used[i];
	return sum;
}

static struct demand_key *find(struct demand *d, enum ahead_kind kind, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->keys[i].kind == kind && !strcmp(d->keys[i].name, name))
			return &d->keys[i];
	return NULL;
}

static size_t count_of(const struct demand *d, const char *account)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += !strcmp(d->keys[i].account, account);
	return n;
}

/* Nothing is lost with it but what it was used. */
static bool may_go(const struct demand_key *k)
{
	return !k->have && !k->least;
}

/* The least used of the account that has the most of them; NULL: none may go. */
static struct demand_key *victim(struct demand *d)
{
	struct demand_key *v = NULL;
	size_t most = 0;

	for (size_t i = 0; i < d->n; i++) {
		struct demand_key *k = &d->keys[i];
		size_t n = may_go(k) ? count_of(d, k->account) : 0;

		if (!n || (v && (n < most || (n == most && uses(k) >= uses(v)))))
			continue;
		v = k;
		most = n;
	}
	return v;
}

static struct demand_key *make(struct demand *d, enum ahead_kind kind, const char *name,
                               const char *account, uint64_t now)
{
	struct demand_key *k = d->n < DEMAND_KEYS ? &d->keys[d->n++] : victim(d);

	if (!k)
		return NULL;
	*k = (struct demand_key){ .kind = kind,
		                  .faded_ms = now,
		                  .taken_ms = now,
		                  .mb = d->conf.kind[kind].mb,
		                  .refill_ms = d->conf.kind[kind].refill_ms };
	snprintf(k->name, sizeof(k->name), "%s", name);
	snprintf(k->account, sizeof(k->account), "%s", account);
	return k;
}

/* Which of them it was, counted from 0: as many were taken that cannot be there again. */
static size_t place(struct demand *d, struct demand_key *k, uint64_t now)
{
	float again = k->refill_ms ? (float)(now - k->taken_ms) / (float)k->refill_ms : FLT_MAX;
	size_t n;

	if (d->conf.kind[k->kind].stays)
		return 0;
	k->gone = again < k->gone ? k->gone - again : 0;
	n = (size_t)k->gone + (k->gone > (float)(size_t)k->gone);
	k->gone = MIN(k->gone + 1, (float)DEMAND_DEPTH);
	return n;
}

void demand_take(struct demand *d, enum ahead_kind kind, const char *name, const char *account,
                 bool eager, uint64_t now_ms)
{
	struct demand_key *k = find(d, kind, name);
	size_t n;

	if (!k && !(k = make(d, kind, name, account, now_ms)))
		return; /* all that are counted are in use */
	fade(k, now_ms);
	n = place(d, k, now_ms);
	k->taken_ms = now_ms;
	if (n < DEMAND_DEPTH) /* as many as are never kept: one more would have been no use */
		k->used[n]++;
	k->hot |= eager || uses(k) >= HOT_USES;
	d->dirty = true;
}

void demand_expect(struct demand *d, enum ahead_kind kind, const char *name, unsigned least,
                   unsigned first, uint64_t now_ms)
{
	struct demand_key *k = find(d, kind, name);

	if (!k && !(k = make(d, kind, name, "", now_ms)))
		return;
	k->account[0] = '\0';
	k->least = MIN(least, DEMAND_DEPTH);
	k->hot = true;
	for (size_t i = 0; i < MIN(first, DEMAND_DEPTH); i++)
		k->used[i] = MAX(k->used[i], 1);
	d->dirty = true;
}

void demand_have(struct demand *d, enum ahead_kind kind, const char *name, int change)
{
	struct demand_key *k = find(d, kind, name);

	if (!k && (change < 0 || !(k = make(d, kind, name, "", 0))))
		return;
	k->have = change < 0 && !k->have ? 0 : k->have + (unsigned)change;
	d->dirty = true;
}

static uint32_t learn(uint32_t was, uint32_t now)
{
	return (uint32_t)((1 - LEARN) * (float)was + LEARN * (float)now + 0.5f);
}

void demand_made(struct demand *d, enum ahead_kind kind, const char *name, uint32_t mb,
                 uint32_t took_ms)
{
	struct demand_key *k = find(d, kind, name);
	struct demand_kind *of = &d->conf.kind[kind];

	if (!k)
		return;
	/* The first of a thing says more than what its kind takes in general. */
	if (mb)
		k->mb = k->mb == of->mb ? mb : MAX(1u, learn(k->mb, mb));
	if (took_ms)
		k->refill_ms = learn(k->refill_ms, took_ms);
	d->dirty = true;
}

void demand_spare(struct demand *d, uint32_t mb)
{
	d->spare_mb = mb;
	d->dirty = true;
}

void demand_forget(struct demand *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++) {
		struct demand_key *k = &d->keys[i];

		if (strcmp(k->name, name) != 0)
			continue;
		memset(k->used, 0, sizeof(k->used));
		k->least = 0;
		k->hot = false;
		d->dirty = true;
	}
}

static void move(struct demand *d, struct demand_key *k, const char *to)
{
	struct demand_key was = *k, *t = find(d, k->kind, to);

	memset(k->used, 0, sizeof(k->used));
	k->least = 0;
	k->hot = false;
	if (!t && !(t = make(d, was.kind, to, was.account, was.faded_ms)))
		return; /* it is counted anew when it is asked for */
	fade(t, was.faded_ms);
	for (size_t i = 0; i < DEMAND_DEPTH; i++)
		t->used[i] = MAX(t->used[i], was.used[i]);
	t->least = MAX(t->least, was.least);
	t->hot |= was.hot;
	t->mb = was.mb;
	t->refill_ms = was.refill_ms;
	memcpy(t->account, was.account, sizeof(t->account));
	d->dirty = true;
}

void demand_rename(struct demand *d, const char *from, const char *to)
{
	for (int kind = 0; kind < AHEAD_KINDS; kind++) {
		struct demand_key *k = strcmp(from, to) ? find(d, kind, from) : NULL;

		if (k)
			move(d, k, to);
	}
}

/* ---- the plan ---- */

struct plan {
	uint32_t left_mb, kind_mb[AHEAD_KINDS], kind_n[AHEAD_KINDS];
	uint32_t group_mb[DEMAND_KEYS];
	size_t n_groups;
};

/* Of no use is what is of less use than KEEP; one is of no more use than those before it. */
static void weigh(const struct demand *d, struct demand_key *k)
{
	float most = 0;

	for (size_t i = DEMAND_DEPTH; i-- > 0;) {
		most = MAX(most, k->used[i]);
		k->value[i] = !k->hot || most < KEEP
		                      ? 0
		                      : most * (float)d->conf.kind[k->kind].gain_ms /
		                                (float)MAX(k->mb, 1u) * (i < k->have ? THERE : 1);
	}
}

static bool may_get(const struct demand_key *k)
{
	return k->value[0] > 0 || k->least;
}

static void group(struct demand *d, struct plan *p, size_t at)
{
	struct demand_key *k = &d->keys[at];

	for (size_t i = 0; i < at; i++)
		if (may_get(&d->keys[i]) && !strcmp(d->keys[i].account, k->account)) {
			k->group = d->keys[i].group;
			return;
		}
	k->group = p->n_groups++;
}

/* Is there room for one more? share: what a group may have. */
static bool fits(const struct demand *d, const struct plan *p, const struct demand_key *k,
                 uint32_t share)
{
	return k->want < DEMAND_DEPTH && k->want < d->conf.kind[k->kind].most_each &&
	       p->kind_n[k->kind] && k->mb <= p->kind_mb[k->kind] && k->mb <= p->left_mb &&
	       p->group_mb[k->group] + k->mb <= share;
}

static void give(struct plan *p, struct demand_key *k)
{
	k->want++;
	p->kind_n[k->kind]--;
	p->kind_mb[k->kind] -= k->mb;
	p->left_mb -= k->mb;
	p->group_mb[k->group] += k->mb;
}

static void give_out(struct demand *d, struct plan *p, uint32_t share)
{
	struct demand_key *best;

	do {
		best = NULL;
		for (size_t i = 0; i < d->n; i++) {
			struct demand_key *k = &d->keys[i];

			if (!fits(d, p, k, share) || k->value[k->want] <= 0)
				continue;
			if (!best || k->value[k->want] > best->value[best->want])
				best = k;
		}
		if (best)
			give(p, best);
	} while (best);
}

static void drop_unused(struct demand *d)
{
	for (size_t i = 0; i < d->n;) {
		struct demand_key *k = &d->keys[i];

		k->hot &= k->used[0] > 0 || uses(k) > 0 || k->least;
		if (may_go(k) && uses(k) < KEEP)
			*k = d->keys[--d->n];
		else
			i++;
	}
}

static void plan(struct demand *d, uint64_t now)
{
	struct plan p = { .left_mb = demand_budget(d) };

	if (!d->dirty && d->planned_ms && now - d->planned_ms < PLAN_EVERY_MS)
		return;
	for (size_t i = 0; i < d->n; i++)
		fade(&d->keys[i], now);
	drop_unused(d);
	for (int i = 0; i < AHEAD_KINDS; i++) {
		const struct demand_kind *k = &d->conf.kind[i];

		p.kind_mb[i] = k->most_mb ? k->most_mb : UINT32_MAX;
		p.kind_n[i] = k->most_all;
	}
	for (size_t i = 0; i < d->n; i++) {
		d->keys[i].want = 0;
		weigh(d, &d->keys[i]);
		if (may_get(&d->keys[i]))
			group(d, &p, i);
		else
			d->keys[i].group = 0; /* any: it gets nothing */
	}
	for (size_t i = 0; i < d->n; i++)
		while (d->keys[i].want < d->keys[i].least && fits(d, &p, &d->keys[i], UINT32_MAX))
			give(&p, &d->keys[i]);
	if (p.n_groups)
		give_out(d, &p, demand_budget(d) / (uint32_t)p.n_groups);
	give_out(d, &p, UINT32_MAX);
	d->planned_mb = demand_budget(d) - p.left_mb;
	d->planned_ms = MAX(now, 1u);
	d->dirty = false;
}

unsigned demand_want(struct demand *d, enum ahead_kind kind, const char *name, uint64_t now_ms)
{
	const struct demand_key *k;

	plan(d, now_ms);
	k = find(d, kind, name);
	return k ? k->want : 0;
}

static float use_of_next(const struct demand_key *k)
{
	return k->have < k->least ? FLT_MAX : k->value[MIN(k->have, DEMAND_DEPTH - 1)];
}

const struct demand_key *demand_next(struct demand *d, enum ahead_kind kind, size_t nth,
                                     uint64_t now_ms)
{
	const struct demand_key *ret = NULL;
	float below = FLT_MAX;
	size_t below_at = 0;

	plan(d, now_ms);
	for (size_t n = 0; n <= nth; n++) { /* those of equal use in the order of the table */
		const struct demand_key *best = NULL;

		for (size_t i = 0; i < d->n; i++) {
			const struct demand_key *k = &d->keys[i];
			float v = use_of_next(k);

			if (k->kind != kind || k->have >= k->want)
				continue;
			if (n && (v > below || (v >= below && i <= below_at)))
				continue;
			if (!best || v > use_of_next(best))
				best = k;
		}
		ret = best;
		if (!best)
			break;
		below = use_of_next(best);
		below_at = (size_t)(best - d->keys);
	}
	return ret;
}

void demand_sum(struct demand *d, enum ahead_kind kind, uint64_t now_ms, struct demand_sum *ret)
{
	*ret = (struct demand_sum){ 0 };
	plan(d, now_ms);
	for (size_t i = 0; i < d->n; i++) {
		const struct demand_key *k = &d->keys[i];

		if (k->kind != kind)
			continue;
		ret->want += k->want;
		ret->have += k->have;
		ret->have_mb += k->have * k->mb;
	}
}
