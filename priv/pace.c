/* SPDX-License-Identifier: Apache-2.0 */
#include "priv/pace.h"

#include "base/auto.h"

bool pace_take(struct pace *p, uint64_t now_ms)
{
	uint64_t passed = p->at_ms && now_ms > p->at_ms ? now_ms - p->at_ms : 0;
	uint64_t full = PACE_BURST * UINT64_C(1000);

	/* so many thousandths a millisecond; longer than it takes to fill up changes nothing */
	p->thousandths = MIN(full, p->thousandths + MIN(passed, full) * PACE_PER_S);
	p->at_ms = now_ms;
	if (p->thousandths < 1000)
		return false;
	p->thousandths -= 1000;
	return true;
}

uint64_t pace_next(const struct pace *p)
{
	uint64_t lack = p->thousandths < 1000 ? 1000 - p->thousandths : 0;

	return p->at_ms + (lack + PACE_PER_S - 1) / PACE_PER_S;
}
