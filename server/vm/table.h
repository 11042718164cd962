/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/table.h - the VMs of a server: by id, by account, and all of them
 *
 * Found by a hash of the id; the VMs of an account are a list, oldest first. So neither a lookup
 * nor the list of an account takes longer because of others. Whoever wants to see all of them has
 * an array. What VMs show of themselves is counted along, for each account and for all, so that no
 * question of how many there are looks at each.
 *
 * What a VM in the table shows changes by table_show() alone; its id and account never do. The
 * caller locks (struct vmm's lock), and counts references.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/account.h"
#include "model/vm.h"

struct vm;
struct vm_owner;

/* What some VMs are together. */
struct vm_tally {
	size_t by_state[VM_STATE_MAX];
	struct vm_quota sum; /* without snapshots */
};

struct vm_table {
	struct vm **all; /* owned; in no order */
	size_t n, cap;
	struct vm **ids;          /* owned: the first of each chain */
	struct vm_owner **owners; /* owned: likewise */
	size_t n_chains;          /* a power of two, of both */
	size_t n_owners;
	struct vm_tally tally; /* of all */
};

/* The place of one VM in it. */
struct vm_place {
	size_t at; /* in all */
	struct vm *next_id, *next, *prev;
	struct vm_owner *owner; /* NULL: it is not in a table */
};

int table_add(struct vm_table *t, struct vm *vm); /* -ENOMEM: the table is as it was */
void table_remove(struct vm_table *t, struct vm *vm);
void table_done(struct vm_table *t); /* must be empty */

struct vm *table_find(const struct vm_table *t, const char *id); /* or NULL */
/* It shows that from now on. */
void table_show(struct vm_table *t, struct vm *vm, const struct vm_info *info);
/* Of that account, oldest first, or newest first; NULL: no (more). */
struct vm *table_first(const struct vm_table *t, const char *account);
struct vm *table_next(const struct vm *vm);
struct vm *table_last(const struct vm_table *t, const char *account);
struct vm *table_prev(const struct vm *vm);
size_t table_count(const struct vm_table *t, const char *account);
const struct vm_tally *table_tally(const struct vm_table *t, const char *account);
/* Counted anew it is the same; for tests. */
bool table_is_right(const struct vm_table *t);
