/* SPDX-License-Identifier: Apache-2.0 */
/* vm/elsewhere.h - VMs that another node owns, and claiming them; for files of this folder */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
int elsewhere_append(struct vmm *m, const char *account, struct vm_info **v, size_t *n,
                     struct err *err);
/* Adds to q what the account has there. */
int elsewhere_usage(struct vmm *m, const char *account, struct vm_quota *q, struct err *err);
/* Before a VM is made: -EBUSY while the node is being drained. */
int drain_check(struct vmm *m, struct err *err);
int elsewhere_come_back(struct vm *vm, struct err *err);
uint64_t host_free_mb(void); /* room.c */

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
