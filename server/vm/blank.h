/* SPDX-License-Identifier: Apache-2.0 */
/* vm/blank.h - processes that are no VM yet, and those that are to be ended; see blank.c, seed.c,
 * debt.c */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "privc/privc.h"

struct machine;
struct vm;

/* A machine to be ended ("": none) and then a slot to be freed (-1: none): debt.c. */
struct debt {
	char instance[ID_SIZE];
	int slot;
};

/* A QEMU process that is no VM yet, with the network slot it runs in. */
struct blank {
	struct machine *machine; /* owned */
	struct priv_slot slot;
	char instance[ID_SIZE];
	uint32_t vcpus, mem_mb;
	bool ahead; /* started ahead of need */
};

/* A warm process that VMs are forked from. */
struct seed {
	struct vm *vm;       /* owned; NULL: none; changed under both locks, read under either */
	char point[ID_SIZE]; /* likewise: what it was frozen into */
	bool lost;           /* its process has ended; m->lock */
	bool tried;          /* its first fork was good; m->lock */
};
