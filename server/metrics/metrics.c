/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - the cells of stored metrics
 *
 * One static array, so that nothing has to be made, found or freed: an id and the position of a
 * label's value are the place. Cells that nobody counts in are pages that are never touched. A
 * histogram's number of observations is the sum of its buckets, so a reader never sees the two
 * disagree; its sum of seconds may be one observation ahead or behind.
 */
#include "metrics/metrics_internal.h"

#include "base/auto.h"
#include "base/clock.h"

#define MS UINT64_C(1000)

const uint64_t metric_bounds_us[METRIC_BUCKETS] = {
	1 * MS,   2500,      5 * MS,    10 * MS,   25 * MS,    50 * MS,    100 * MS,   250 * MS,
	500 * MS, 1000 * MS, 2500 * MS, 5000 * MS, 10000 * MS, 30000 * MS, 60000 * MS, 300000 * MS,
};

static struct metric_cell cells[METRIC_MAX][METRIC_VALUES_MAX];

static unsigned bucket_of(uint64_t us)
{
	unsigned i = 0;

	while (i < METRIC_BUCKETS && us > metric_bounds_us[i])
		i++;
	return i;
}

void metric_cell_observe(struct metric_cell *c, uint64_t us)
{
	atomic_fetch_add_explicit(&c->bucket[bucket_of(us)], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->sum_us, us, memory_order_relaxed);
}

void metrics_add(enum metric m, unsigned value, uint64_t n)
{
	atomic_fetch_add_explicit(&cells[m][value].bucket[0], n, memory_order_relaxed);
}

void metrics_observe(enum metric m, unsigned value, uint64_t us)
{
	metric_cell_observe(&cells[m][value], us);
}

void metrics_since(enum metric m, unsigned value, uint64_t then_us)
{
	uint64_t now = clock_us();

	metrics_observe(m, value, now > then_us ? now - then_us : 0);
}

static uint64_t count_of(const struct metric_cell *c)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= METRIC_BUCKETS; i++)
		n += atomic_load_explicit(&c->bucket[i], memory_order_relaxed);
	return n;
}

uint64_t metrics_count(enum metric m, unsigned value)
{
	return count_of(&cells[m][value]);
}

void metrics_sum(enum metric m, struct metric_sum *ret)
{
	*ret = (struct metric_sum){ 0 };
	for (size_t v = 0; v < METRIC_VALUES_MAX; v++) {
		const struct metric_cell *c = &cells[m][v];

		for (size_t i = 0; i <= METRIC_BUCKETS; i++) {
			uint64_t n = atomic_load_explicit(&c->bucket[i], memory_order_relaxed);

			ret->bucket[i] += n;
			ret->n += n;
		}
		ret->seconds +=
		        (double)atomic_load_explicit(&c->sum_us, memory_order_relaxed) / 1e6;
	}
}

double metric_quantile(const struct metric_sum *s, double q)
{
	double rank = q * (double)s->n, below = 0;

	for (size_t i = 0; s->n && i < METRIC_BUCKETS; i++) {
		double low = i ? (double)metric_bounds_us[i - 1] : 0,
		       high = (double)metric_bounds_us[i];

		if (s->bucket[i] && below + (double)s->bucket[i] >= rank)
			return (low + (high - low) * (rank - below) / (double)s->bucket[i]) / 1e6;
		below += (double)s->bucket[i];
	}
	return s->n ? (double)metric_bounds_us[METRIC_BUCKETS - 1] / 1e6 : 0;
}

/* page.c reads the cells through this. */
const struct metric_cell *metrics_cell_of(enum metric m, unsigned value)
{
	return &cells[m][value];
}
