/* SPDX-License-Identifier: Apache-2.0 */
/* git/jail.h - Git's programs as a kind of children; for the starter that main makes, and for git/
 */
#pragma once

#include <stdbool.h>

#include "base/seccomp.h"
#include "base/starter.h"

struct err;

/* What the starter allows; the texts are copied. */
struct jail_rules {
	const char *root; /* repositories and the skeleton are below it; NULL: anywhere */
	bool unjailed;    /* may there be children without a jail? */
	bool filter;      /* are system calls filtered? */
	enum sysfilter_default otherwise; /* what the filter does with other calls */
};

#define JAIL_KIND "git"
extern const struct starter_kind jail_kind;
/* Before starter_open(). */
int jail_kind_init(const struct jail_rules *rules, struct err *err);
