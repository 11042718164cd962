/* SPDX-License-Identifier: Apache-2.0 */
/* vm/diff.h - between diff.c (who is compared) and diff_merge.c (how); and for tests */
#pragma once

#include "guest/guest.h"
#include "vm/tree.h"

struct diff_in {
	struct guest *g[2]; /* here, there */
	struct guest_walk_req walk;
	int64_t ancestor_ms;  /* wall clock: when the two were last one */
	size_t limit;         /* changes, at least 1 */
	uint64_t soft_ms;     /* clock_ms: no new files are looked at from then on */
	uint64_t deadline_ms; /* clock_ms: the end of all waiting */
};
int diff_merge(const struct diff_in *in, struct vm_diff *ret, struct err *err);
