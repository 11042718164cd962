/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ahead.c - what the manager tells demand.c, and what others want to know of it
 *
 * A new server knows nothing of its users yet: it begins as if a few VMs of the default size had
 * been asked for at once. That fades like everything else; a little of the default size stays.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/sizes.h"

/* Of the default size, whatever is asked for; and expected before anything was. */
#define READY_LEAST 2
#define READY_FIRST 2
#define BLANKS_LEAST 2
#define BLANKS_FIRST 10

int ahead_new(struct vmm *m, struct err *err)
{
	const struct vmm_conf *c = &m->conf;
	bool tcg = engine_info(m->engine)->accel == ACCEL_TCG;
	uint64_t now = clock_ms();
	char size[ID_SIZE];
	struct demand *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(err, -ENOMEM, "what is made ahead of need: out of memory");
	/* Milliseconds, MB: docs/decisions/0003, 0024; of memory only until it was measured. */
	d->conf = (struct demand_conf){
		.budget_mb = c->ahead_mem_mb,
		.kind = {
			[AHEAD_READY] = { .most_each = c->pool, .most_all = c->pool ? POOL_MAX : 0,
			                  .most_mb = c->pool_mem_mb, .mb = 40, .gain_ms = 120,
			                  .refill_ms = 1000 },
			[AHEAD_BLANK] = { .most_each = c->blanks,
			                  .most_all = c->blanks ? BLANKS_MAX : 0, .mb = 16,
			                  .gain_ms = 55, .refill_ms = 200 },
			[AHEAD_SEED] = { .most_each = 1, .most_all = tcg ? c->seeds : 0, .mb = 200,
			                 .gain_ms = 150, .stays = true },
		},
	};
	d->spare_mb = UINT32_MAX;
	demand_size(c->vcpus, c->mem_mb, size);
	if (d->conf.kind[AHEAD_SEED].most_all)
		demand_expect(d, AHEAD_SEED, size, 1, 1, now);
	if (c->blanks)
		demand_expect(d, AHEAD_BLANK, size, BLANKS_LEAST, BLANKS_FIRST, now);
	m->demand = d;
	return 0;
}

void ahead_follow(struct vmm *m)
{
	const char *is = template_now(m);

	if (!strcmp(m->ahead_template, is) || !*is)
		return;
	if (*m->ahead_template)
		demand_rename(m->demand, m->ahead_template, is);
	else if (m->conf.pool)
		demand_expect(m->demand, AHEAD_READY, is, READY_LEAST, READY_FIRST, clock_ms());
	snprintf(m->ahead_template, ID_SIZE, "%s", is);
}

void ahead_asked(struct vmm *m, const char *account, const char *point, bool eager)
{
	uint64_t now = clock_ms();
	uint32_t vcpus = m->conf.vcpus, mem_mb = m->conf.mem_mb;
	char size[ID_SIZE];
	bool template;
	LOCK_SCOPE(&m->lock);

	ahead_follow(m);
	template = template_is(m, point) || size_of_point(m, point, &vcpus, &mem_mb);
	if (m->conf.pool)
		demand_take(m->demand, AHEAD_READY, template_is(m, point) ? template_now(m) : point,
		            template ? "" : account, eager || template, now);
	if (!template || !m->demand->conf.kind[AHEAD_SEED].most_all)
		return;
	demand_size(vcpus, mem_mb, size);
	demand_take(m->demand, AHEAD_SEED, size, "", /* eager= */ true, now);
}

void ahead_status(struct vmm *m, struct vmm_status *ret)
{
	struct demand_sum s[AHEAD_KINDS];

	for (int i = 0; i < AHEAD_KINDS; i++)
		demand_sum(m->demand, i, clock_ms(), &s[i]);
	ret->ahead_budget_mb = demand_budget(m->demand);
	ret->pool_want = s[AHEAD_READY].want;
	ret->blanks_want = s[AHEAD_BLANK].want;
	ret->seeds_want = s[AHEAD_SEED].want;
	ret->blanks_mem_mb = s[AHEAD_BLANK].have_mb;
	ret->seeds_mem_mb = s[AHEAD_SEED].have_mb;
}
