/* SPDX-License-Identifier: Apache-2.0 */
/* vm/own.h - the state of a template that is this server's own; see template_own.c */
#pragma once

#include <stdint.h>

#include "base/id.h"

#define TOLD_SIZE 15 /* a hash of what this server tells guests */

/* template_own.c: a template with what this server tells guests; m->lock. */
struct own {
	char point[ID_SIZE];    /* "": none */
	char told[TOLD_SIZE];   /* what it holds */
	char looked[TOLD_SIZE]; /* what was last looked for in the store */
	char failed[TOLD_SIZE]; /* what could not be made, and is not tried again until then: */
	uint64_t not_before_ms;
	unsigned failures;
	uint64_t bytes; /* of its layers */
};
