/* SPDX-License-Identifier: Apache-2.0 */
/* vm/vpc.h - private networks: addresses of VMs, tunnels of clients, packets for VMs that do not
 * run; for vm/ only */
#pragma once

#include "vm/vm_internal.h"

/* vpc.c */
int vpc_attach(struct vm *vm, const struct vm_nic *want, struct err *err);
int vpc_load(struct vm *vm, struct err *err);
struct store_vpc;
int vpc_find(struct vmm *m, const char *account, const char *id, struct store_vpc *ret,
             struct err *err);
struct priv_vpc vpc_plan(const struct store_vpc *v);
/* tunnel.c */
void tunnels_sync(struct vmm *m, const char *vpc); /* kernel as the store */
void tunnels_expire(struct vmm *m, bool all);      /* all: at start */

/* knock.c: packets for VMs that do not run */
int knock_new(struct vmm *m, struct err *err);
int knock_begin(struct vmm *m, struct err *err); /* its thread */
void knock_stop(struct vmm *m);                  /* nobody is woken any more; fine twice */
void knock_end(struct vmm *m);
/* The VM has its address from now on; and no longer. */
int knock_know(struct vm *vm, struct err *err);
void knock_unknow(struct vm *vm);
/* Something that could send packets is in the VPC; fine again. Says so when it does not work. */
void knock_open(struct vmm *m, const char *vpc, const struct priv_vpc *plan);
void knock_close(struct vmm *m, uint32_t vpc_idx);
/* Before something joins a VPC: what is left here of one that another node deleted, and whose
 * number this one has got, goes, with its namespace and its tunnels. */
void knock_make_way(struct vmm *m, const char *vpc, const struct priv_vpc *plan);
/* The same for all that the store does not know any more. Without nodes there are none. */
void knock_tidy(struct vmm *m);
