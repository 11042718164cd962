/* SPDX-License-Identifier: Apache-2.0 */
/* base/near.h - "did you mean": the candidate that is nearest to a misspelt word */
#pragma once

struct near {
	const char *word; /* weak, both */
	const char *best; /* NULL: none is near enough */
	unsigned distance;
};
#define NEAR_OF(word_) ((struct near){ .word = (word_) })
/* candidate: stays valid as long as n->best is used. */
void near_try(struct near *n, const char *candidate);
