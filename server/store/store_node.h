/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_node.h - nodes: machines that share a PostgreSQL database; for node/ and api/
 *
 * server/cluster/lease.h has the rules by which a node may run VMs. Here are the statements: each
 * of joining, renewing and taking over is one that says which generation (and beat) it has seen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"
#include "store/store.h"

struct err;
struct store;

#define NODE_ID_PREFIX "nd-"
#define NODE_NAME_SIZE 64
#define NODE_ADDRESS_SIZE 64
#define NODES_MAX 256 /* of one cluster */

struct store_node {
	char id[ID_SIZE];
	char name[NODE_NAME_SIZE], address[NODE_ADDRESS_SIZE]; /* each node has its own */
	uint64_t gen, beat;                                    /* cluster/lease.h */
	bool alive; /* it has joined, and has neither left nor been taken over since */
	bool draining;
	int64_t joined_ms; /* by its own clock */
	char version[32];
	uint32_t vcpus, mem_mb; /* of the machine */
	/* As of its last beat: memory, VMs that run, files that are to be uploaded. */
	uint32_t free_mb, running, pending;
	/* Its machines: what it can thaw. "" before it said so, and of an older version. */
	char qemu_version[64], machine[160], cpu[64], accel[8];
};

/*
 * At start, after store_start(): the node's row, with the generation that it has. -EINVAL with a
 * sentence: another node has this name or address. adopt: rows of before there were nodes become
 * this node's; without that they are a reason to refuse (-EINVAL).
 */
int store_node_register(struct store *s, const struct store_node *n, bool adopt, uint64_t *ret_gen,
                        struct err *err);
/* A new generation, if the row still has that one. -ESTALE: it has another; *ret_gen: which. */
int store_node_join(struct store *s, const struct store_node *n, uint64_t seen, uint64_t *ret_gen,
                    struct err *err);
struct store_beat {
	bool ours; /* the row had our generation */
	bool draining;
};
/* One beat, with the load in n. */
int store_node_renew(struct store *s, const struct store_node *n, struct store_beat *ret,
                     struct err *err);
/* If its VMs have ended: nobody needs to wait for the end of the lease. */
int store_node_leave(struct store *s, const struct store_node *n, struct err *err);
/* By name. The caller frees. */
int store_node_list(struct store *s, struct store_node **ret, size_t *ret_n, struct err *err);
/* By id or name. -ENOENT with NODE_NOT_FOUND */
int store_node_find(struct store *s, const char *name, struct store_node *ret, struct err *err);
/*
 * Takes over a dead node, if generation and beat are as in *seen: its running VMs are lost, what it
 * was building has failed. 1: done, with the number of VMs; 0: it lives, or somebody else was
 * quicker.
 */
int store_node_reap(struct store *s, const struct store_node *seen, unsigned *ret_lost,
                    struct err *err);
int store_node_drain(struct store *s, const char *id, bool drain, struct err *err);
/* What this node's machines are frozen with: kind's qemu_version, machine, cpu and accel. */
int store_node_kind(struct store *s, const struct store_node *kind, struct err *err);
/* VMs whose owner it is, whatever they are doing; or -errno. */
int store_node_vms(struct store *s, const char *id, struct err *err);
/*
 * A dead node that does not come back. -EBUSY while it lives; while it has VMs or snapshots that
 * are not in the object store, unless lose is set: then they are deleted, or lost. The others are
 * anybody's, and what they stand on is this node's. store_remove.c
 */
int store_node_remove(struct store *s, const char *id, bool lose, struct err *err);

/* From now on this process is that node: its lists, its rows, its collection. Once. */
void store_be_node(struct store *s, const char *id, uint64_t gen, const struct vm_quota *quota);
/* A new VM's row is this node's. */
void store_vm_own(struct store *s, struct store_vm *v);
/* This node's id, or "". */
const char *store_node_id(const struct store *s);

/* Which node made a point. "": no nodes. */
int store_point_node(struct store *s, const char *point, char ret[ID_SIZE], struct err *err);
/* The owner of a VM, and its state; of any account. -ENOENT */
struct store_owner {
	char node[ID_SIZE], account[ACCOUNT_SIZE];
	enum vm_state state;
};
int store_vm_owner(struct store *s, const char *vm, struct store_owner *ret, struct err *err);
/* VMs of the account that other nodes own, newest first. The caller frees. */
int store_vm_list_elsewhere(struct store *s, const char *account, struct store_vm **ret,
                            size_t *ret_n, struct err *err);
/* What VMs of the account on other nodes take; snapshots are not among it. */
int store_usage_elsewhere(struct store *s, const char *account, struct vm_quota *ret,
                          struct err *err);

/* The cluster's CA: made by the first that asks. make() is called in the transaction. */
struct store_ca {
	char key[1024], cert[2048]; /* PEM */
};
int store_node_ca(struct store *s, int (*make)(struct store_ca *ca, struct err *err),
                  struct store_ca *ret, struct err *err);
/* Milliseconds by which the database's clock is ahead of ours, to within the time of a query. */
int store_clock_ahead(struct store *s, int64_t *ret, struct err *err);

/* ---- opening ---- */
/* A second connection to the same database, whose answers have that deadline; takes no locks. */
int store_open_beside(const char *where, unsigned answer_ms, struct store **ret, struct err *err);
