/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/demand.h - what was asked for lately decides what is made ahead of need; see demand.c
 *
 * Knows nothing of VMs, threads or clocks: who uses it says what was taken, what is there, and what
 * time it is. The caller locks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"

#define DEMAND_DEPTH 32u /* of one thing at most */
#define DEMAND_KEYS 128u /* things whose use is counted */

enum ahead_kind { AHEAD_READY, AHEAD_BLANK, AHEAD_SEED, AHEAD_KINDS };

struct demand_conf {
	uint32_t budget_mb; /* of all together */
	struct demand_kind {
		uint32_t most_each, most_all; /* of one thing; of all of the kind */
		uint32_t most_mb;             /* of all of the kind; 0: the budget */
		uint32_t mb;                  /* of one, as long as none was measured */
		uint32_t gain_ms;             /* processor time that one saves whoever takes it */
		uint32_t refill_ms;           /* to make one, as long as none was */
		bool stays;                   /* it is used, and not used up */
	} kind[AHEAD_KINDS];
};

struct demand_key {
	enum ahead_kind kind;
	char name[ID_SIZE];         /* a point; or a size, as demand_size() writes it */
	char account[ACCOUNT_SIZE]; /* who asked for it first; "": everybody's */
	float used[DEMAND_DEPTH];   /* how often the nth was taken, or would have been */
	uint64_t faded_ms;          /* until then used has faded */
	float gone;                 /* taken, and could not have been made again yet */
	uint64_t taken_ms;
	uint32_t mb, refill_ms; /* of one, measured */
	bool hot;               /* asked for often enough to be made at all */
	unsigned least;         /* so many whatever is asked for */
	unsigned have, want;
	float value[DEMAND_DEPTH]; /* of the nth: milliseconds saved, per MB; the plan's */
	size_t group;              /* likewise: all of one account */
};

struct demand {
	struct demand_conf conf;
	struct demand_key keys[DEMAND_KEYS];
	size_t n;
	uint32_t spare_mb;   /* that the host could give; UINT32_MAX: not known */
	bool dirty;          /* the plan is older than what is known */
	uint64_t planned_ms; /* 0: never */
	uint32_t planned_mb;
};

void demand_size(uint32_t vcpus, uint32_t mem_mb, char ret[ID_SIZE]);

/* One was asked for, by somebody who waits; eager: once is enough to expect more. */
void demand_take(struct demand *d, enum ahead_kind kind, const char *name, const char *account,
                 bool eager, uint64_t now_ms);
/* Of which there are `least` in any case, and `first` as if so many had been asked for at once. */
void demand_expect(struct demand *d, enum ahead_kind kind, const char *name, unsigned least,
                   unsigned first, uint64_t now_ms);
/* One more is there (change: 1) or one less (-1). */
void demand_have(struct demand *d, enum ahead_kind kind, const char *name, int change);
/* One took so much memory and so long to make. */
void demand_made(struct demand *d, enum ahead_kind kind, const char *name, uint32_t mb,
                 uint32_t took_ms);
/* What the host could give without want; the budget is what it is, or a part of this. */
void demand_spare(struct demand *d, uint32_t mb);
/* Nobody can ask for it any more. */
void demand_forget(struct demand *d, const char *name);
/* What was asked for as the first will be asked for as the second. What there is of it stays. */
void demand_rename(struct demand *d, const char *from, const char *to);

/* How many there should be. */
unsigned demand_want(struct demand *d, enum ahead_kind kind, const char *name, uint64_t now_ms);
/*
 * The nth thing of that kind of which one more is wanted, the most useful first; NULL: no more. It
 * is valid until the next call of anything here.
 */
const struct demand_key *demand_next(struct demand *d, enum ahead_kind kind, size_t nth,
                                     uint64_t now_ms);
/* Of all of a kind: how many there should be, how many there are, what those take. */
struct demand_sum {
	unsigned want, have;
	uint32_t have_mb;
};
void demand_sum(struct demand *d, enum ahead_kind kind, uint64_t now_ms, struct demand_sum *ret);
/* What is to be kept to at this moment. */
uint32_t demand_budget(const struct demand *d);
