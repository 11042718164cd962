/* SPDX-License-Identifier: Apache-2.0 */
/* build/chain.h - building a spec's layers in order; for chain.c and builder.c */
#pragma once

#include "build/build_internal.h"

/* run->point is the outermost layer's, held; run->stage a VM at that point, if it was just built.
 */
int run_chain(struct run *run, struct err *err);
/* builder.c: the guest is still in the state in which it failed: keeps what can be learnt from
 * it. */
void run_failed(struct run *run, struct err *err);
void run_drop_stage(struct run *run);
void run_done(struct run *run);
