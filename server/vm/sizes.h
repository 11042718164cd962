/* SPDX-License-Identifier: Apache-2.0 */
/* vm/sizes.h - the table of sizes; for sizes*.c and template_own.c only */
#pragma once

#include "vm/template.h"

#define SIZE_RECENT_MS 600000    /* a size in use: a blank process waits for the next */
#define SIZE_LOOK_AGAIN_MS 60000 /* after there was no room for one */

enum size_state { SIZE_NONE, SIZE_IN_MAKING, SIZE_READY };

/* m->lock guards all of it but the size and the key, which stay. */
struct size {
	uint32_t vcpus, mem_mb;
	char key[32];
	enum size_state state;
	char point[ID_SIZE];        /* ready; or in the store, and not checked yet; "": none */
	char note[128];             /* in the making: how far */
	char account[ACCOUNT_SIZE]; /* in the making: for whom; "": ahead of need */
	struct vm *vm;              /* weak: the machine that boots for it */
	bool listed;                /* by the operator */
	bool ahead, cut;            /* nobody waits for it; it was ended for somebody's sake */
	uint64_t bytes;             /* without those of own */
	struct own own;
	uint64_t used_ms;       /* clock_ms() of the last use; 0: none by this server */
	uint64_t not_before_ms; /* not tried ahead of need until then */
	unsigned failures;
	uint64_t attempts; /* that ended */
	struct err err;    /* of the last one */
};

struct sizes {
	struct size s[SIZES_MAX];
	size_t n;
	bool ending;
};

/* A size that is in the making, by the caller: its template, and what follows from the result. */
int size_make(struct vmm *m, struct size *s, struct err *err);
/* What the layers of that template take. */
uint64_t size_weigh(struct vmm *m, const struct store_point *p);
void sizes_trim(struct vmm *m, const struct size *keep); /* to the budget */
bool size_recent(const struct size *s);                  /* used lately; m->lock */
uint64_t sizes_budget(const struct vmm *m);              /* bytes */
