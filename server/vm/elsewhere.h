/* SPDX-License-Identifier: Apache-2.0 */
/* vm/elsewhere.h - VMs that another node owns, and claiming them; for files of this folder */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct err;
struct store_vm;
struct vm;
struct vm_info;
struct vm_quota;
struct vmm;

/* Can layers that this node made be used here? Always; those of others if there is an object store.
 * -EHOSTUNREACH: they cannot. */
int layers_need(struct vmm *m, const char *point, const char *node, struct err *err);
/* Is it another node's? account NULL: any. */
bool elsewhere_get(struct vmm *m, const char *account, const char *id, struct store_vm *ret);
/* Says so, if it is; else r. */
int elsewhere_error(struct vmm *m, const char *account, const char *id, int r, struct err *err);
/* At rest, and nobody's: the next use claims it. */
bool elsewhere_rests(struct vmm *m, const char *account, const char *id, struct vm_info *ret);
/* May some VMs be on other nodes? */
bool elsewhere_any(struct vmm *m);
int elsewhere_append(struct vmm *m, const char *account, struct vm_info **v, size_t *n,
                     struct err *err);
/* Adds to q what the account has there. */
int elsewhere_usage(struct vmm *m, const char *account, struct vm_quota *q, struct err *err);
/* Before a VM is made: -EBUSY while the node is being drained. */
int drain_check(struct vmm *m, struct err *err);
int elsewhere_come_back(struct vm *vm, struct err *err);
uint64_t host_free_mb(void); /* room.c */

/* ---- spread.c: which node ---- */
struct store_point;
struct vm_spread;
/* The alive one that is best for a VM with so much memory, frozen as p (NULL: needs nothing), and
 * is not this one; false: there is none. */
struct store_node;
bool other_node(struct vmm *m, const struct store_point *p, uint32_t mem_mb,
                struct store_node *ret);
/* The same with this one among them, for a VM whose files are at home there. */
bool best_node(struct vmm *m, const struct store_point *p, uint32_t mem_mb, const char *home,
               char ret[ID_SIZE]);
/* Where count copies of the VM go. Those that cannot be spread have a note. */
void spread_plan(struct vmm *m, const char *account, const char *vm, unsigned count,
                 struct vm_spread *ret);
/* None of them leaves this node after all. */
void spread_none(struct vm_spread *s, const char *note);
/* A copy that another node is to have: at rest, nobody's, and that node's by preference. */
void spread_row(struct store_vm *row, const char *point, const char *node);
/* Was it made by that, and not thawed yet? */
bool spread_is_new(const struct store_vm *row, const char *point);

/* ---- state.c: as vm_add_running(), with rows of VMs that are at rest ---- */
struct store_layer;
struct store_note;
int vm_add_forks(struct vmm *m, struct vm *const *vms, const struct store_layer *layers, size_t n,
                 const struct store_vm *rest, size_t n_rest, const struct store_note *note,
                 struct err *err);

/* ---- claim.c ---- */
enum claim_for { CLAIM_TO_USE, CLAIM_TO_REWIND, CLAIM_TO_DELETE };
/*
 * 1: the VM is in the table (now); 0: it is not there to be claimed: no such VM, or its node is
 * alive. -errno with a sentence: its node is dead, and this one cannot have it.
 */
int elsewhere_claim(struct vmm *m, const char *account, const char *id, enum claim_for what,
                    struct err *err);
/* Tells the others what machines of this node are frozen with. */
int elsewhere_kind(struct vmm *m, struct err *err);
/* Stopped on a node with an object store: its disk is closed and uploaded. */
void vm_store_disk(struct vm *vm);
/* Until the drain ends: VMs that are stored become anybody's. */
void drain_give_up(struct vmm *m);
/* Before a VM at rest wakes: -EAGAIN, it is about to be another node's. */
int drain_blocks(struct vm *vm, struct err *err);
