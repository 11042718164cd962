/* SPDX-License-Identifier: Apache-2.0 */
/* budget.c - see budget.h; a chained hash table of those who hold something now */
#include "base/budget.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/lock.h"

#define BUCKETS_FIRST 64 /* a power of two, as every later number */
#define FAIR 3           /* a holder has at most so many times what is left */

struct holder {
	struct holder *next;
	uint64_t used; /* never 0 */
	char name[BUDGET_HOLDER_SIZE];
};

struct budget {
	struct budget_conf conf;
	uint64_t seed;
	struct mutex lock;
	struct cond given;                        /* somebody gave something back */
	uint64_t used GUARDED_BY(lock);           /* by all */
	struct holder **buckets GUARDED_BY(lock); /* owned */
	size_t n_buckets GUARDED_BY(lock), n GUARDED_BY(lock);
};

int budget_new(const struct budget_conf *conf, struct budget **ret, struct err *err)
{
	struct budget *b = calloc(1, sizeof(*b));

	assert(conf->all >= (conf->greedy ? 1 : 2));
	if (!b)
		return err_set(err, -ENOMEM, "out of memory");
	b->conf = *conf;
	mutex_init(&b->lock, "budget");
	cond_init(&b->given);
	random_bytes(&b->seed, sizeof(b->seed));
	mutex_unshared(&b->lock);
	b->n_buckets = BUCKETS_FIRST;
	b->buckets = calloc(b->n_buckets, sizeof(struct holder *));
	if (!b->buckets) {
		budget_free(b);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*ret = b;
	return 0;
}

void budget_free(struct budget *b)
{
	if (!b)
		return;
	mutex_unshared(&b->lock);
	assert(b->n == 0);
	free(b->buckets);
	cond_destroy(&b->given);
	mutex_destroy(&b->lock);
	free(b);
}

/* Where the holder is, or where it would be. */
static struct holder **place_of(struct budget *b, const char *name) REQUIRES(&b->lock)
{
	struct holder **at = &b->buckets[hash_text(name, b->seed) & (b->n_buckets - 1)];

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

/* Chains stay short; without the memory for it they only get longer. */
static void grow(struct budget *b) REQUIRES(&b->lock)
{
	size_t n = b->n_buckets * 2;
	struct holder **v = calloc(n, sizeof(struct holder *));

	if (!v)
		return;
	for (size_t i = 0; i < b->n_buckets; i++)
		for (struct holder *h = b->buckets[i], *next; h; h = next) {
			struct holder **to = &v[hash_text(h->name, b->seed) & (n - 1)];

			next = h->next;
			h->next = *to;
			*to = h;
		}
	free(b->buckets);
	b->buckets = v;
	b->n_buckets = n;
}

uint64_t budget_share(const struct budget *b)
{
	uint64_t all = b->conf.all, share = all;

	if (!b->conf.greedy) /* the largest s with s <= FAIR * (all - s) */
		share = all / (FAIR + 1) * FAIR + all % (FAIR + 1) * FAIR / (FAIR + 1);
	return b->conf.each ? MIN(b->conf.each, share) : share;
}

/* May a holder that has `own` take n more? No sum overflows: n is at most `all`. */
static int judge(const struct budget *b, uint64_t own, uint64_t n) REQUIRES(&b->lock)
{
	uint64_t left;

	if (n > budget_share(b))
		return -E2BIG;
	if (b->conf.each && own + n > b->conf.each)
		return -EDQUOT;
	if (n > b->conf.all - b->used)
		return own >= budget_share(b) / 2 ? -EDQUOT : -EAGAIN;
	left = b->conf.all - b->used - n;
	if (!b->conf.greedy && (own + n + FAIR - 1) / FAIR > left)
		return own ? -EDQUOT : -EAGAIN;
	return 0;
}

static int take(struct budget *b, const char *name, uint64_t n) REQUIRES(&b->lock)
{
	struct holder **at = place_of(b, name);
	int r = judge(b, *at ? (*at)->used : 0, n);

	if (r < 0 || n == 0)
		return r;
	if (!*at) {
		struct holder *h = calloc(1, sizeof(*h));

		if (!h)
			return -ENOMEM;
		snprintf(h->name, sizeof(h->name), "%s", name);
		*at = h;
		b->n++;
	}
	(*at)->used += n;
	b->used += n;
	if (b->n > b->n_buckets)
		grow(b);
	return 0;
}

static void cut(const char *holder, char ret[BUDGET_HOLDER_SIZE])
{
	snprintf(ret, BUDGET_HOLDER_SIZE, "%s", holder);
}

int budget_take(struct budget *b, const char *holder, uint64_t n)
{
	char name[BUDGET_HOLDER_SIZE];

	cut(holder, name);
	LOCK_SCOPE(&b->lock);
	return take(b, name, n);
}

int budget_wait(struct budget *b, const char *holder, uint64_t n, uint64_t deadline_ms)
{
	char name[BUDGET_HOLDER_SIZE];
	int r;

	cut(holder, name);
	LOCK_SCOPE(&b->lock);
	do
		r = take(b, name, n);
	while ((r == -EDQUOT || r == -EAGAIN) && cond_wait_until(&b->given, &b->lock, deadline_ms));
	return r;
}

void budget_give(struct budget *b, const char *holder, uint64_t n)
{
	char name[BUDGET_HOLDER_SIZE];
	struct holder **at, *h;

	if (n == 0)
		return;
	cut(holder, name);
	LOCK_SCOPE(&b->lock);
	at = place_of(b, name);
	h = *at;
	assert(h && h->used >= n && b->used >= n);
	b->used -= n;
	h->used -= n;
	if (h->used == 0) {
		*at = h->next;
		b->n--;
		free(h);
	}
	cond_broadcast(&b->given);
}

uint64_t budget_used(struct budget *b, const char *holder)
{
	char name[BUDGET_HOLDER_SIZE];
	struct holder *h;

	LOCK_SCOPE(&b->lock);
	if (!holder)
		return b->used;
	cut(holder, name);
	h = *place_of(b, name);
	return h ? h->used : 0;
}
