/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/rate.h - how often somebody may do something: a token bucket for each name
 *
 * A name (a key, an address) may do `burst` things at once and then `per_s` of them a second. The
 * table has a fixed size: whoever was quiet for longest is forgotten for a newcomer and starts
 * again with a full bucket, so a crowd makes the limit laxer, never the memory larger.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct rate;

struct rate_conf {
	double per_s, burst; /* burst: at least 1 */
	size_t slots;        /* names remembered at one time */
};

struct rate_answer {
	uint64_t missed; /* if it may: how many could not since the last one that could */
	unsigned wait_s; /* if it may not: when it may again; at least 1 */
};

int rate_new(const struct rate_conf *conf, struct rate **ret, struct err *err);
void rate_free(struct rate *r);
/* Does it, if it may. ret: NULL, or what else there is to say. */
bool rate_take(struct rate *r, const char *name, struct rate_answer *ret);
/* Takes n in any case, and says what is left: less than 0 is a debt, of at most ten times burst. */
double rate_spend(struct rate *r, const char *name, double n);
