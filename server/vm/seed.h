/* SPDX-License-Identifier: Apache-2.0 */
/* vm/seed.h - processes that are forked from the seed; for bringup.c, blank.c and seed.c only */
#pragma once

#include "vm/vm_internal.h"

/* The process of a VM that is thawed from the seed's point, loaded. -errno: it is to be thawed. */
int seed_fork(struct vm *vm, struct bringup *b, const struct machine_load *l, struct blank *ret);
/* blank.c: a slot and a name, for a process to come; blank_end() gives it back */
int blank_slot(struct vmm *m, struct blank *ret, struct err *err);
