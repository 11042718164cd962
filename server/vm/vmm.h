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
struct objects;
struct priv_info;
struct privc;
struct store;
struct vmm;

/* Deadlines of single steps, in ms. Tests have a guest that answers at once, or never. */
struct vm_times {
	uint32_t agent_boot; /* cold boot to first hello: emulated guests on a busy host */
	uint32_t agent_thaw; /* thaw to hello */
	uint32_t agent_reconnect;
	uint32_t agent_greet;   /* of a start, for the agents of adopted VMs */
	uint32_t agent_silent;  /* for a sign of life after a call got no answer */
	uint32_t settle;        /* for the agent to load what the next command needs */
	uint32_t quiesce;       /* for the agent to take what was sent to it */
	uint32_t shutdown_ask;  /* for the agent to take the order to shut down */
	uint32_t shutdown;      /* clean poweroff, then SIGKILL */
	uint32_t death;         /* for a process that closed its sockets to be gone */
	uint32_t guest_step;    /* for a small script in the guest: emulated ones are slow */
	uint32_t grow;          /* resize2fs, and systemd after a cold boot on an emulated CPU */
	uint32_t trim;          /* fstrim */
	uint32_t boot_done;     /* for the template's systemd to finish */
	uint32_t template_wait; /* of a create, for the template */
	uint32_t look;          /* for QEMU to say what its disk did */
	uint32_t quiet; /* nothing is made ahead of need until no VM was started for so long */
	uint32_t retry; /* after something could not be made ahead: the host may be short of memory
	                 */
	uint32_t pool_step; /* for a ready VM to show that it lives */
	uint32_t pool_warm; /* for its first command */
	uint32_t room_wait; /* for the keeper to make room on the disk */
	uint32_t diff_soft; /* then the reply goes out with a cursor: clients wait some 300 s */
	uint32_t diff_hard; /* for one huge file after that */
	uint32_t end_wait;  /* for a start to finish before it is cut short */
	uint32_t history;   /* between two looks at all VMs and the host; 0: none */
};
extern const struct vm_times vm_times_usual;

#define SIZES_AHEAD_MAX 16

struct vmm_conf {
	char data_dir[256];
	char image_dir[512];
	char template_dir[512];          /* cache of frozen templates, shared by data directories */
	uint32_t vcpus, mem_mb, disk_mb; /* default VM */
	uint32_t pool;                   /* VMs of the template kept ready; 0: none of anything */
	uint32_t pool_mem_mb;            /* memory all ready VMs may take */
	uint32_t blanks;                 /* QEMU processes started ahead */
	uint32_t seeds;                  /* sizes whose VMs are forked from a warm process */
	bool ca_follows; /* vmm_trust() will be called: before that there is no template of our own
	                  */
	struct {
		uint32_t vcpus, mem_mb;
	} sizes[SIZES_AHEAD_MAX]; /* whose templates are made ahead of need */
	size_t n_sizes;
	uint32_t sizes_disk_mb;       /* that templates of other sizes may take */
	struct gates *gates;          /* weak: policies of slots */
	char wg_host[256];            /* where tunnels' clients reach this host; "": found out */
	uint32_t wg_port;             /* of the first VPC's tunnel */
	uint32_t wg_session_s;        /* life of a tunnel that nobody closes */
	struct vm_quota quota;        /* of accounts that have none of their own */
	struct events *events;        /* weak; told what happens to VMs. NULL: nobody is */
	uint32_t boot_s;              /* for a guest to boot; 0: as in times */
	uint32_t busy_wait_s;         /* for another call on the same VM to end */
	uint32_t disk_budget_mb;      /* layers and points; 0: no budget */
	uint32_t disk_free_mb;        /* of the file system, never to be used up */
	uint32_t vm_reserve_mb;       /* host memory that a VM takes at least */
	struct objects *objects;      /* weak; NULL: layers are here only */
	uint32_t objects_cache_mb;    /* of layers that are stored, too; 0: no bound */
	uint32_t objects_keep_s;      /* objects of deleted layers */
	const struct vm_times *times; /* NULL: vm_times_usual */
};

/* Loads all VMs, adopts what runs, cleans up what nobody owns, starts the background threads. */
int vmm_new(const struct vmm_conf *c, struct store *store, struct engine *engine,
            struct privc *priv, const struct priv_info *info, struct dns *dns, struct vmm **ret,
            struct err *err);
/* Waits until the template is there; prints progress to the log. */
int vmm_wait_template(struct vmm *m, struct err *err);
/* Freezes every running VM, so that the next start resumes them with their memory. */
void vmm_suspend_all(struct vmm *m);
/*
 * The same for a node that is being drained: it takes no new VMs. With an object store it returns
 * when all VMs at rest are stored and given up, or the drain ends; without, what is used is resumed
 * here.
 */
void vmm_drain(struct vmm *m, bool on);
bool vmm_draining(struct vmm *m);
/*
 * Which node should have a VM that no living one has: 1 with its id, this node's if it can continue
 * the VM, else that of the roomiest that can (and this one's, who says why not, if none can). 0: a
 * living node has it, this one included, or there is no such VM.
 */
int vmm_claimant(struct vmm *m, const char *account, const char *id, char ret_node[ID_SIZE],
                 struct err *err);
/* Memory that VMs could have, in MiB. */
uint32_t vmm_room_mb(struct vmm *m);
/* Does this process have the VM? Another node may have it, or nobody. */
bool vmm_has(struct vmm *m, const char *id);
/* Ends the threads; VMs that still run go on. */
struct vmm *vmm_free(struct vmm *m);
