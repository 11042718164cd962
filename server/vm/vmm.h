/* SPDX-License-Identifier: Apache-2.0 */
/* vm/vmm.h - making and ending the VM manager; for main.c and tests */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vm/vm.h"

struct dns;
struct engine;
struct events;
struct err;
struct gates;
struct priv_info;
struct privc;
struct store;
struct vmm;

struct vmm_conf {
	char data_dir[256];
	char image_dir[512];
	char template_dir[512];          /* cache of frozen templates, shared by data directories */
	uint32_t vcpus, mem_mb, disk_mb; /* default VM */
	uint32_t pool;                   /* VMs of the template kept ready; 0: none of anything */
	uint32_t pool_mem_mb;            /* memory all ready VMs may take */
	uint32_t shells;                 /* QEMU processes started ahead */
	struct gates *gates;             /* weak: policies of slots */
	char wg_host[256];               /* where tunnels' clients reach this host; "": found out */
	uint32_t wg_port;                /* of the first VPC's tunnel */
	uint32_t wg_session_s;           /* life of a tunnel that nobody closes */
	struct vm_quota quota;           /* of accounts that have none of their own */
	struct events *events;           /* weak; told what happens to VMs. NULL: nobody is */
	uint32_t busy_wait_s;            /* for another call on the same VM to end */
	uint32_t disk_budget_mb;         /* layers and points; 0: no budget */
	uint32_t disk_free_mb;           /* of the file system, never to be used up */
	uint32_t vm_reserve_mb;          /* host memory that a VM takes at least */
};

/* Loads all VMs, adopts what runs, cleans up what nobody owns, starts the background threads. */
int vmm_new(const struct vmm_conf *c, struct store *store, struct engine *engine,
            struct privc *priv, const struct priv_info *info, struct dns *dns, struct vmm **ret,
            struct err *err);
/* Waits until the template is there; prints progress to the log. */
int vmm_wait_template(struct vmm *m, struct err *err);
/* Freezes every running VM, so that the next start resumes them with their memory. */
void vmm_suspend_all(struct vmm *m);
/* Ends the threads; VMs that still run go on. */
struct vmm *vmm_free(struct vmm *m);
