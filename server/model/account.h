/* SPDX-License-Identifier: Apache-2.0 */
/* model/account.h - accounts and their quotas */
#pragma once

#include <stdint.h>

#define ACCOUNT_SIZE 40 /* a UUID and the NUL */

/* How much an account may have, or has. */
#define QUOTA_NONE (-1)    /* as a limit: none */
#define QUOTA_DEFAULT (-2) /* as a limit: the server's default */
struct vm_quota {
	int64_t vms;           /* in any state */
	int64_t running;       /* VMs with a process */
	int64_t vcpus, mem_mb; /* of VMs with a process, together */
	int64_t disk_mb;       /* root disks of all VMs, together */
	int64_t snapshots;     /* not deleted */
};
