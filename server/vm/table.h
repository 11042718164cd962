/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/table.h - the VMs of a server: by id, by account, and all of them
 *
 * Found by a hash of the id; the VMs of an account are a list. So neither a lookup nor the list of
 * an account takes longer because of others. Whoever wants to see all of them has an array.
 *
 * What is here of a VM does not change while it is in the table: its id and its account. The caller
 * locks (struct vmm's lock), and counts references.
 */
#pragma once

#include <stddef.h>

struct vm;
struct vm_owner;

struct vm_table {
	struct vm **all; /* owned; in no order */
	size_t n, cap;
	struct vm **ids;          /* owned: the first of each chain */
	struct vm_owner **owners; /* owned: likewise */
	size_t n_chains;          /* a power of two, of both */
	size_t n_owners;
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
/* Of that account, oldest in the table first; NULL: no (more). */
struct vm *table_first(const struct vm_table *t, const char *account);
struct vm *table_next(const struct vm *vm);
size_t table_count(const struct vm_table *t, const char *account);
