/* SPDX-License-Identifier: Apache-2.0 */
/* build/claim.h - layers that are being built; for builder.c and claim.c */
#pragma once

#include "build/build_internal.h"

struct claim {
	struct claim *next;
	char key[SPEC_KEY_SIZE];
	unsigned waiting; /* threads waiting for the result */
	bool done, cancelled;
	int result;
	struct err err;
	json_t *extra; /* owned; body of the failure */
};

/* 1: the caller builds it and must claim_end(). 0: another build did, and cached it. < 0: another
 * build tried and failed, or the deadline passed. */
int claim_begin(struct run *run, const char *key, struct claim **ret, struct err *err);
/* cancelled: the failure was not caused by the layer; a waiter tries it next. */
void claim_end(struct run *run, struct claim *c, int result, const struct err *why, bool cancelled);
