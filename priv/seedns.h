/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/seedns.h - the namespaces of a seed and of what is forked from it
 *
 * A VM's QEMU is process 1 of its pid namespace. A seed's is not: its forks live in the same
 * namespace and must outlive it, and process 1 could not fork children for us to reap. So there a
 * keeper is process 1, which does nothing, has nothing, and ends when nobody else is left. It knows
 * that by a pipe: the seed and all of its forks have the end that is read, and never read it.
 *
 * Every fork gets a user id of its own, as every VM has. To be able to change it the seed is in a
 * user namespace in which our VMs' ids stand for themselves and no others exist, with the two
 * capabilities for that in there. The fork gives them up with the change.
 */
#pragma once

#include <sys/types.h>

#include "base/proc.h"

struct err;
struct jail;

/* The user namespace, kept by its descriptor; before the first thread is started. */
int seedns_users(uid_t first, unsigned n, int *ret_fd, struct err *err);

struct seedns {
	struct proc keeper; /* owned; not to be reaped by anyone who waits for VMs */
	int hold_fd;        /* owned: what keeps the keeper */
};
#define SEEDNS_NONE ((struct seedns){ .keeper = PROC_NONE, .hold_fd = -1 })

int seedns_open(const struct jail *jail, uid_t uid, struct seedns *ret, struct err *err);
/* Our descriptors only. */
void seedns_close(struct seedns *s);
/* What the calling thread forks next is in that pid namespace; then back, or the program ends. */
int seedns_enter(const struct seedns *s, struct err *err);
void seedns_leave(void);
