/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/budget.h - something scarce, counted by holder and in all
 *
 * Units are whatever the user says: bytes, connections, slots. A holder is a name: an account, an
 * address, a VM. Who takes units gives them back; a holder that has none costs nothing. Every
 * operation is a lookup in a hash table.
 *
 * A holder may have `each` units at most. It also may not have more than three times what would be
 * left for the others: alone it gets three quarters of everything, and the more holders there are,
 * the less each of them gets, so that somebody who has nothing yet finds something. This needs no
 * queue and no knowledge of who will come.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct budget;
struct err;

#define BUDGET_HOLDER_SIZE 72 /* of a name with the NUL; longer names are cut */

struct budget_conf {
	uint64_t all;  /* units there are; at least 2, or 1 if greedy */
	uint64_t each; /* units of one holder at most; 0: as many as are fair */
	bool greedy;   /* first come, first served: only `all` and `each` count */
};

int budget_new(const struct budget_conf *conf, struct budget **ret, struct err *err);
/* All units were given back. NULL is fine. */
void budget_free(struct budget *b);

/*
 * 0, and the units are the holder's until budget_give(). -EDQUOT: this holder has its share;
 * -EAGAIN: the others have it all; -E2BIG: so many at once are never given; -ENOMEM.
 */
int budget_take(struct budget *b, const char *holder, uint64_t n);
/* The same, but waits until the deadline for others to give back; not for what is never given. */
int budget_wait(struct budget *b, const char *holder, uint64_t n, uint64_t deadline_ms);
void budget_give(struct budget *b, const char *holder, uint64_t n);

/* What a holder has; NULL: what all have. */
uint64_t budget_used(struct budget *b, const char *holder);
/* The most that one holder could ever have. */
uint64_t budget_share(const struct budget *b);
