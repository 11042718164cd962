/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elsewhere.c - VMs that another node owns: seen in the store, never in the table
 *
 * The table of VMs has those of this node only, so no verb can reach another's. Lists and reads
 * show the others as their rows say. One that nobody runs comes into the table by a claim
 * (claim.c). Layers that another node made are used like our own if there is an object store:
 * fetch.c brings what is stored, and says so if it is not.
 *
 * Without nodes nothing here asks the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/store_claim.h"
#include "vm/elsewhere.h"
#include "vm/stored.h"

static bool has_nodes(struct vmm *m)
{
	return *store_node_id(m->store);
}

int layers_need(struct vmm *m, const char *point, const char *node, struct err *err)
{
	return m->stored || !*node || strcmp(node, store_node_id(m->store)) == 0
	               ? 0
	               : err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	                         "the layers of point %s are on node %s, and nothing else has "
	                         "them: ask that node",
	                         point, node);
}

bool vmm_has(struct vmm *m, const char *id)
{
	LOCK_SCOPE(&m->lock);

	return table_find(&m->vms, id) != NULL;
}

bool elsewhere_get(struct vmm *m, const char *account, const char *id, struct store_vm *ret)
{
	return has_nodes(m) && store_vm_get(m->store, id, ret, NULL) == 0 &&
	       strcmp(ret->node, store_node_id(m->store)) != 0 &&
	       (!account || strcmp(ret->info.account, account) == 0);
}

int elsewhere_error(struct vmm *m, const char *account, const char *id, int r, struct err *err)
{
	struct store_vm row;

	if (!elsewhere_get(m, account, id, &row))
		return r;
	if (!*row.node)
		return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
		               "VM %s is on its way to another node: try again", id);
	return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	               "VM %s is on node %s, and this call works only there", id, row.node);
}

bool elsewhere_rests(struct vmm *m, const char *account, const char *id, struct vm_info *ret)
{
	struct store_found f;

	if (!has_nodes(m) || store_vm_look(m->store, id, &f, NULL) < 0 || f.owned ||
	    (account && strcmp(f.row.info.account, account) != 0) ||
	    (f.row.info.state != VM_SUSPENDED && f.row.info.state != VM_STOPPED &&
	     f.row.info.state != VM_LOST))
		return false;
	*ret = f.row.info;
	return true;
}

int elsewhere_append(struct vmm *m, const char *account, struct vm_info **v, size_t *n,
                     struct err *err)
{
	autofree struct store_vm *rows = NULL;
	struct vm_info *more;
	size_t k = 0;
	int r = has_nodes(m) ? store_vm_list_elsewhere(m->store, account, &rows, &k, err) : 0;

	if (r < 0 || k == 0)
		return MIN(r, 0);
	more = realloc(*v, (*n + k) * sizeof(*more));
	if (!more)
		return err_set(err, -ENOMEM, "list VMs: out of memory");
	*v = more;
	for (size_t i = 0; i < k; i++)
		more[(*n)++] = rows[i].info;
	return 0;
}

int elsewhere_usage(struct vmm *m, const char *account, struct vm_quota *q, struct err *err)
{
	struct vm_quota there = { 0 };
	int r;

	if (!has_nodes(m))
		return 0;
	if ((r = store_usage_elsewhere(m->store, account, &there, err)) < 0)
		return r;
	q->vms += there.vms;
	q->running += there.running;
	q->vcpus += there.vcpus;
	q->mem_mb += there.mem_mb;
	q->disk_mb += there.disk_mb;
	return 0;
}

bool vmm_draining(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	return m->draining;
}

int drain_check(struct vmm *m, struct err *err)
{
	LOCK_SCOPE(&m->lock);

	return m->draining ? err_tag(err, -EBUSY, ERR_NODE_UNAVAILABLE,
	                             "this node is being drained and takes no new VMs: ask "
	                             "another one")
	                   : 0;
}

static bool has_disk(struct vmm *m, const struct store_vm *row)
{
	struct store_layer l;
	char path[512];

	if (!*row->disk_layer || store_layer_get(m->store, row->disk_layer, &l, NULL) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/layers/%s", m->conf.data_dir, row->disk_layer);
	return access(path, R_OK) == 0;
}

/* Lost while this node was away: its memory is gone, but its disk is here. */
int elsewhere_come_back(struct vm *vm, struct err *err)
{
	struct store_vm *row = &vm->row;
	int r;

	if (!has_nodes(vm->m) || row->info.state != VM_LOST || row->epoch <= 1 ||
	    !has_disk(vm->m, row))
		return 0;
	vm_log(vm, LOG_LV_WARN, "was lost with its node, which is back: stopped, the disk is kept");
	row->info.point[0] = row->base_point[0] = row->base_mem[0] = '\0';
	vm->exit_why = "crashed";
	r = vm_set_state(vm, VM_STOPPED, NULL, 0, NULL, err);
	if (r == 0)
		vm_store_disk(vm);
	return r;
}

uint32_t vmm_room_mb(struct vmm *m)
{
	uint64_t mb = host_free_mb();

	return (uint32_t)MIN(mb, (uint64_t)UINT32_MAX);
}
