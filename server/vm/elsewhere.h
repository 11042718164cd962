/* SPDX-License-Identifier: Apache-2.0 */
/* vm/elsewhere.h - VMs that another node owns; for files of this folder */
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

/* Are layers whose home is that node reachable here? Today only if it is this one: the border to
 * layers in object storage. */
bool layers_here(struct vmm *m, const char *home);
/* The same of a point; -EHOSTUNREACH: they are not. */
int layers_need(struct vmm *m, const char *point, const char *home, struct err *err);
/* Is it another node's? account NULL: any. */
bool elsewhere_get(struct vmm *m, const char *account, const char *id, struct store_vm *ret);
/* Says so, if it is; else r. */
int elsewhere_error(struct vmm *m, const char *account, const char *id, int r, struct err *err);
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
