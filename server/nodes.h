/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.h - pandod as a node: from the settings to server/node/; for main.c */
#pragma once

#include <stdbool.h>

#include "base/id.h"

struct auth;
struct conf;
struct front;
struct err;
struct node;
struct peers;
struct privc;
struct store;
struct vm_quota;
struct vmm;

struct nodes_self {
	char id[ID_SIZE]; /* "": no node */
	bool fresh;       /* the data directory has just joined */
};
/* Opens the store, as a node if there is an address. */
int nodes_store(const struct conf *c, struct nodes_self *ret_self, struct store **ret,
                struct err *err);
/* The database has it already; also true without nodes. */
bool nodes_known(const struct nodes_self *self, struct store *store);
/* Joins, once secrets can be opened. *ret NULL: no node; VMs may then run for ever. */
int nodes_join(const struct conf *c, const struct nodes_self *self, struct store *store,
               struct privc *priv, const struct vm_quota *quota, struct node **ret,
               struct err *err);
/* The listener for other nodes; *ret NULL without a node. */
int nodes_peers(const struct conf *c, struct node *n, struct store *store, struct vmm *vmm,
                struct peers **ret, struct err *err);
/* There are VMs: their load goes into the node's row, draining suspends them. n NULL is fine. */
int nodes_begin(struct node *n, struct vmm *vmm, struct auth *auth, struct err *err);
/* From now on the edge hears of names that other nodes have changed; NULL: no longer. */
void nodes_front(struct front *f);
