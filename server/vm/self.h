/* SPDX-License-Identifier: Apache-2.0 */
/* vm/self.h - VMs that act on themselves: who asks, and on whom; for api/ */
#pragma once

#include "guest/guest_self.h"
#include "vm/vm.h"

/*
 * fn hears of guests whose requests about themselves wait, on the thread of the guest's connection
 * and under the manager's lock: it must neither block nor call the manager. There is one listener;
 * NULL: none from now on, and no call is under way any more.
 */
void vmm_on_ring(struct vmm *m, guest_ring_fn fn, void *ctx);

/* Was the VM made by this one, or by one that it made? */
bool vmm_self_descends(struct vmm *m, const char *account, const char *vm_id, const char *child);
/* All of them, newest first. Caller frees. */
int vmm_self_children(struct vmm *m, const char *account, const char *vm_id, struct vm_info **ret,
                      size_t *ret_n, struct err *err);
