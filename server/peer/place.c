/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - which node has it
 *
 * A VM is where the table has it; if that is not this node's, where its row says; and one at rest
 * whose node is dead, or gave it up, where it is taken over (vm/claim.c). Repositories likewise
 * (git/shared.c). Whether a node
 * lives is what the watch on the others knows (node/), which is a few seconds old at most, and does
 * not ask the database.
 */
#include "peer/peer_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "node/node.h"
#include "store/store_git.h"
#include "vm/vmm.h"

struct place place_of_node(struct peers *p, const char *node, struct err *err)
{
	char address[NODE_ADDRESS_SIZE], name[NODE_NAME_SIZE];
	struct place ret = { .kind = PLACE_HERE };

	if (!p || !*node || strcmp(node, node_id(p->conf.node)) == 0)
		return ret;
	ret.kind =
	        node_address(p->conf.node, node, address, name, err) == 0 ? PLACE_NODE : PLACE_GONE;
	snprintf(ret.node, sizeof(ret.node), "%s", node);
	return ret;
}

struct place place_of_vm(struct peers *p, const char *vm, struct err *err)
{
	struct place ret = { .kind = PLACE_HERE };
	char claimant[ID_SIZE];
	struct store_owner o;

	if (!p || vmm_has(p->conf.vmm, vm) || store_vm_owner(p->conf.store, vm, &o, NULL) < 0)
		return ret;
	ret = place_of_node(p, o.node, err);
	/* Nobody runs it: it goes to whoever can take it over, which may be this node. */
	if (ret.kind != PLACE_NODE && vmm_claimant(p->conf.vmm, NULL, vm, claimant, NULL) == 1)
		return place_of_node(p, claimant, err);
	return ret;
}

struct place place_of_files(struct peers *p, const char *node)
{
	struct place here = { .kind = PLACE_HERE }, ret = place_of_node(p, node, NULL);
	autofree struct node_seen *v = NULL;
	size_t n = 0;

	if (ret.kind != PLACE_NODE || node_list(p->conf.node, &v, &n, NULL) < 0)
		return here;
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].row.id, node) == 0)
			return v[i].row.draining ? here : ret;
	return here;
}

struct place place_of_repo(struct peers *p, const char *repo, struct err *err)
{
	struct place ret = { .kind = PLACE_HERE };
	struct store_repo row;

	if (!p || store_repo_get(p->conf.store, repo, &row, NULL) < 0)
		return ret;
	/* Nobody's, or a dead node's, and stored: it is taken over where it is asked for. */
	if (row.stored && !*row.node && vmm_draining(p->conf.vmm))
		place_for_new(p, /* min_mb= */ 0, &ret);
	else
		ret = place_of_node(p, row.node, err);
	if (ret.kind == PLACE_GONE && row.stored)
		ret.kind = PLACE_HERE;
	return ret;
}

bool place_for_new(struct peers *p, uint32_t min_mb, struct place *ret)
{
	struct node_seen s;

	if (!p || !node_roomiest(p->conf.node, &s) || s.row.free_mb < min_mb)
		return false;
	*ret = (struct place){ .kind = PLACE_NODE };
	snprintf(ret->node, sizeof(ret->node), "%s", s.row.id);
	return true;
}

/* A node that has just joined is in the database before the watch sees it. */
bool place_is_member(struct peers *p, const char *node)
{
	autofree struct node_seen *v = NULL;
	struct store_node row;
	size_t n = 0;

	if (strcmp(node, node_id(p->conf.node)) == 0)
		return false;
	if (node_list(p->conf.node, &v, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].row.id, node) == 0)
			return v[i].health != NODE_DEAD;
	return store_node_find(p->conf.store, node, &row, NULL) == 0 && row.alive;
}
