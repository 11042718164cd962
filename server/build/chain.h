/* SPDX-License-Identifier: Apache-2.0 */
/* build/chain.h - the walk along a spec's layers; for chain.c and builder.c */
#pragma once

#include "build/build_internal.h"

/* run->point is the outermost layer's, held; run->stage a VM at it, if one was built just now. */
int run_chain(struct run *run, struct err *err);
/* builder.c: the guest is still there, as it was when it failed: what can be learnt from it is
 * kept. */
void run_failed(struct run *run, struct err *err);
void run_drop_stage(struct run *run);
void run_done(struct run *run);
