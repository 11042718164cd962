/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nodes.c - pandod as a node: from the settings to server/node/
 *
 * The order at start: the id from the data directory, the database (as that node), the keys of
 * secrets, then the lease; only then anything looks at VMs. At the end the other way round.
 */
#include "nodes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "conf.h"
#include "front/front.h"
#include "node/node.h"
#include "peer/peer.h"
#include "privc/privc.h"
#include "store/store_cluster.h"
#include "vm/vm.h"
#include "vm/vmm.h"

static struct {
	struct vmm *vmm;
	struct auth *auth;
	struct mutex lock;
	struct front *front GUARDED_BY(lock); /* or NULL */
} parts;                                      /* weak; from nodes_begin() to the end of the node */

int nodes_store(const struct conf *c, struct nodes_self *ret_self, struct store **ret,
                struct err *err)
{
	const char *node = NULL;
	int r;

	*ret_self = (struct nodes_self){ 0 };
	if (*c->node_address) {
		if (!*c->database)
			return err_set(err, -EINVAL,
			               "PANDO_NODE_ADDRESS is for machines that share a database: "
			               "set PANDO_DATABASE, too");
		if ((r = node_self_id(c->data_dir, ret_self->id, err)) < 0)
			return r;
		node = ret_self->id;
	}
	return store_start(c->data_dir, c->database, node, ret, &ret_self->fresh, err);
}

bool nodes_known(const struct nodes_self *self, struct store *store)
{
	struct store_node row;

	return !*self->id || store_node_find(store, self->id, &row, NULL) == 0;
}

static uint32_t memory_mb(int what)
{
	long pages = sysconf(what), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint32_t)(((uint64_t)pages * (uint64_t)size) >> 20) : 0;
}

int nodes_join(const struct conf *c, const struct nodes_self *self, struct store *store,
               struct privc *priv, const struct vm_quota *quota, struct node **ret, struct err *err)
{
	struct node_conf nc = {
		.adopt = !self->fresh, .quota = *quota, .store = store, .priv = priv
	};

	*ret = NULL;
	if (!*self->id)
		return privc_fence(priv, 0, err);
	mutex_init(&parts.lock, "nodes front");
	memcpy(nc.self.id, self->id, sizeof(nc.self.id));
	snprintf(nc.self.address, sizeof(nc.self.address), "%s", c->node_address);
	if (*c->node_name)
		snprintf(nc.self.name, sizeof(nc.self.name), "%s", c->node_name);
	else
		node_self_name(nc.self.name);
	snprintf(nc.self.version, sizeof(nc.self.version), "%s", PANDO_VERSION);
	nc.self.vcpus = (uint32_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	nc.self.mem_mb = memory_mb(_SC_PHYS_PAGES);
	return node_open(&nc, ret, err);
}

int nodes_peers(const struct conf *c, struct node *n, struct store *store, struct vmm *vmm,
                struct peers **ret, struct err *err)
{
	struct peers_conf pc = {
		.address = c->node_address, .node = n, .store = store, .vmm = vmm
	};

	*ret = NULL;
	return n ? peers_open(&pc, ret, err) : 0;
}

static void load(void *ctx, struct node_load *ret)
{
	struct vmm_objects o;
	struct vmm_status s;

	vmm_status(parts.vmm, &s);
	vmm_objects(parts.vmm, &o);
	*ret = (struct node_load){ .free_mb = vmm_room_mb(parts.vmm),
		                   .running = s.running,
		                   .pending = (uint32_t)MIN(o.pending, (uint64_t)UINT32_MAX) };
}

static void drain(void *ctx, bool on)
{
	vmm_drain(parts.vmm, on);
}

/* Keys and permissions that other nodes have made or revoked. */
static void changed(void *ctx)
{
	struct err err = { 0 };

	if (auth_refresh(parts.auth, &err) < 0)
		log_warn("keys of other nodes are not known yet: %s", err.msg);
	LOCK_SCOPE(&parts.lock);
	front_refresh(parts.front);
}

int nodes_begin(struct node *n, struct vmm *vmm, struct auth *auth, struct err *err)
{
	struct node_hooks h = { .load = load, .drain = drain, .changed = changed };

	parts.vmm = vmm;
	parts.auth = auth;
	return node_begin(n, &h, err);
}

void nodes_front(struct front *f)
{
	LOCK_SCOPE(&parts.lock);
	parts.front = f;
}
