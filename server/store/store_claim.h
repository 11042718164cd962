/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_claim.h - VMs at rest that go from one node to another; for vm/
 *
 * A VM is claimed from a node that is dead, or from nobody: a node that is drained gives its VMs
 * up. A claim is one transaction on one row: at rest, with the epoch that was seen, by a node whose
 * lease is held. Whoever had the row before writes nothing any more: the epoch is another one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "store/store_node.h"

struct err;
struct store;

struct store_found {
	struct store_vm row;
	bool owned;                 /* by a node that is alive, this one included */
	char owner[NODE_NAME_SIZE]; /* its name, or that of who had it last; "" */
	unsigned unstored; /* files that it rests on and that the object store does not have */
};
/* -ENOENT: there is no such VM. */
int store_vm_look(struct store *s, const char *id, struct store_found *ret, struct err *err);
/*
 * It is this node's from now on, with its row in *ret. whole: only if all that it rests on is
 * stored. -ESTALE: it is not as it was seen (any more), or its owner lives. A row that has this
 * node as its owner, which the caller does not know, is of an earlier claim whose answer never
 * came: it is claimed again, with another epoch.
 */
int store_vm_claim(struct store *s, const struct store_vm *seen, bool whole, struct store_vm *ret,
                   struct err *err);
/* At rest and stored: anybody may claim it. -EAGAIN: not all of it is stored. */
int store_vm_give_up(struct store *s, const struct store_vm *v, struct err *err);
/* Files of a point and its layers, and of a layer and all below it, that are not in the object
 * store
 * ("": not asked); or -errno. */
int store_unstored(struct store *s, const char *point, const char *layer, struct err *err);
/*
 * The template of that key that another node has made and stored becomes this node's, too. 1: with
 * its point in ret; 0: there is none.
 */
int store_template_adopt(struct store *s, const char *key, char ret[ID_SIZE], struct err *err);
