/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node/node.h - this machine as one of several that share a database; for main and api/
 *
 * Joins the cluster, renews the lease (cluster/lease.h) and the deadline of pando-priv with it,
 * watches the other nodes and takes over those that are dead. A pandod whose lease is over ends:
 * it cannot know what became of its VMs' rows. pando-priv has ended the VMs by then, and starts
 * pandod again, which joins with a new generation.
 *
 * There is one struct node in a pandod that is a node, and none in any other: NULL is fine for
 * every function here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_node.h"

struct err;
struct lease_conf;
struct node;
struct privc;
struct store;

/* The file <data>/node: this machine's id. Made if it is missing. */
int node_self_id(const char *data_dir, char ret[ID_SIZE], struct err *err);
/* The host's name in the form of a node's name. */
void node_self_name(char ret[NODE_NAME_SIZE]);
/* [A-Za-z0-9.-], not empty, fits. */
bool node_name_valid(const char *name);

struct node_load {
	uint32_t free_mb, running, pending;
};
struct node_conf {
	struct store_node self;         /* id, name, address, version, vcpus, mem_mb */
	bool adopt;                     /* rows of before there were nodes become ours */
	struct vm_quota quota;          /* the server's defaults */
	const struct lease_conf *times; /* NULL: lease_default */
	struct store *store;            /* weak */
	struct privc *priv;             /* weak; NULL: none, in tests */
	/* The lease is over: must not return. NULL: ends the process. */
	void (*over)(void *ctx);
	void *ctx;
};
/* Registers and joins; afterwards the lease is held, and the store is this node's. */
int node_open(const struct node_conf *c, struct node **ret, struct err *err);
/* Leaves the cluster: VMs have ended. */
struct node *node_close(struct node *n);

struct node_hooks {
	void *ctx;
	void (*load)(void *ctx, struct node_load *ret); /* must not block for long */
	/* On: take no new VMs, suspend all; on a thread of its own, once for each drain. */
	void (*drain)(void *ctx, bool on);
	void (*changed)(void *ctx); /* now and then: what other nodes may have changed */
};
/* Once VMs can be asked about. From then on others are watched, too. */
int node_begin(struct node *n, const struct node_hooks *h, struct err *err);

const char *node_id(const struct node *n); /* "" for NULL */
bool node_draining(struct node *n);

enum node_health { NODE_ALIVE, NODE_SILENT, NODE_DEAD, NODE_HEALTH_MAX };
const char *node_health_name(enum node_health h);
struct node_seen {
	struct store_node row;
	enum node_health health; /* silent: no beat for longer than usual; dead: no lease */
	uint64_t silent_ms;      /* since its last beat */
};
/* What is known of all of them, this one included. The caller frees. */
int node_list(struct node *n, struct node_seen **ret, size_t *ret_n, struct err *err);
/* -EHOSTUNREACH with NODE_UNAVAILABLE: it is not alive, or not known. */
int node_address(struct node *n, const char *id, char ret[NODE_ADDRESS_SIZE],
                 char ret_name[NODE_NAME_SIZE], struct err *err);
/* The node with the most free memory that takes new VMs and is not this one; false: there is none.
 */
bool node_roomiest(struct node *n, struct node_seen *ret);

struct node_counts {
	uint64_t renewals, failed; /* of the lease */
	uint64_t reaped, lost; /* nodes that this one has taken over; VMs that were lost by it */
	uint64_t left_ms;      /* of the lease */
};
void node_counts(struct node *n, struct node_counts *ret);
