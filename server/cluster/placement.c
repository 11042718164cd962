/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - see placement.h */
#include "cluster/placement.h"

#include <string.h>

static bool can(const struct placement_node *p, uint64_t need_mb)
{
	return p->open && p->fits && p->free_mb >= need_mb;
}

/* The first rule that tells them apart decides. */
static bool is_better(const struct placement_node *a, const struct placement_node *b,
                      uint64_t need_mb, bool spread)
{
	bool roomy_a = a->free_mb >= need_mb + PLACEMENT_SPARE_MB;
	bool roomy_b = b->free_mb >= need_mb + PLACEMENT_SPARE_MB;

	if (spread && a->siblings != b->siblings)
		return a->siblings < b->siblings;
	if (roomy_a != roomy_b)
		return roomy_a;
	if (a->near != b->near)
		return a->near > b->near;
	if (a->free_mb != b->free_mb)
		return a->free_mb > b->free_mb;
	if (a->running != b->running)
		return a->running < b->running;
	return strcmp(a->id, b->id) < 0;
}

size_t placement_best(const struct placement_node *v, size_t n, uint64_t need_mb, bool spread)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < n; i++)
		if (can(&v[i], need_mb) &&
		    (best == SIZE_MAX || is_better(&v[i], &v[best], need_mb, spread)))
			best = i;
	return best;
}

bool placement_spread(struct placement_node *v, size_t n, uint64_t need_mb, unsigned count,
                      size_t *ret)
{
	for (unsigned i = 0; i < count; i++) {
		size_t k = placement_best(v, n, need_mb, /* spread= */ true);

		if (k == SIZE_MAX)
			return false;
		ret[i] = k;
		v[k].siblings++;
		v[k].running++;
		v[k].free_mb -= (uint32_t)need_mb;
	}
	return true;
}
