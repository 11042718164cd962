/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/pace.h - how fast requests are taken: a token bucket
 *
 * Nothing is refused: what comes faster waits in the socket, and pandod with it. The burst is
 * several times what a hundred forks at once need.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_BURST 4096u
#define PACE_PER_S 2048u

struct pace {
	uint64_t thousandths; /* of a request; at most PACE_BURST * 1000 */
	uint64_t at_ms;       /* when that was so */
};
#define PACE_FULL                             \
	{                                     \
		PACE_BURST *UINT64_C(1000), 0 \
	}

/* One request, if it may be taken now. */
bool pace_take(struct pace *p, uint64_t now_ms);
/* When it may, if it may not. */
uint64_t pace_next(const struct pace *p);
