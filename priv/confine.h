/* SPDX-License-Identifier: Apache-2.0 */
/* priv/confine.h - what root's process gives up at its start; docs/PRIV.md has the table */
#pragma once

struct err;

/* While there is one thread. Keeps the capabilities of the list, for itself and what it starts. */
int confine(struct err *err);
/*
 * For the kernel's choice when memory runs out: the score of the calling process, or else another:
 * it can only be lowered with a capability. System calls only.
 */
void oom_score(const char *text, const char *other);
#define OOM_PRIV "-900" /* the last to go, then pandod, then QEMU, then git */
#define OOM_PANDOD "-500"
#define OOM_PANDOD_ELSE "100" /* where pando-priv could not have its own */
#define OOM_QEMU "200"
