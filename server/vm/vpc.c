/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vpc.c - private networks: their addresses and who has them
 *
 * A VPC is a range of addresses and a namespace in which only routes between its
 * VMs exist; pando-priv makes it when the first VM comes up. An address is a row
 * with a unique key, so two VMs never have the same one, whoever asks at once. It is
 * the VM's as long as there is a VM, running or not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "net/gate.h"
#include "net/wgkey.h"
#include "store/store_net.h"
#include "vm/network.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

#define VPCS_PER_ACCOUNT 64
#define ATTEMPTS_MAX 64 /* at a free address, when others take them at the same time */
/* The guest's own link: its addresses mean the guest and its gateway, in every VPC. */
#define LINK_NET 0x0a000000u
#define LINK_PREFIX 30u

static void to_info(const struct store_vpc *v, struct vpc_info *ret)
{
	*ret = (struct vpc_info){ .net = v->net,
		                  .prefix = (uint8_t)v->prefix,
		                  .created_ms = v->created_ms };
	snprintf(ret->id, sizeof(ret->id), "%s", v->id);
	snprintf(ret->name, sizeof(ret->name), "%s", v->name);
}

struct priv_vpc vpc_plan(const struct store_vpc *v)
{
	return (struct priv_vpc){ .idx = v->idx, .net = v->net, .prefix = (uint8_t)v->prefix };
}

int vpc_find(struct vmm *m, const char *account, const char *id, struct store_vpc *ret,
             struct err *err)
{
	int r = store_vpc_get(m->store, id, ret, err);

	if (r == 0 && strcmp(ret->account, account) != 0)
		r = -ENOENT;
	return r == -ENOENT ? err_tag(err, r, ERR_NOT_FOUND, "no VPC '%.40s'", id) : r;
}

static int parse_range(const char *cidr, struct store_vpc *v, struct err *err)
{
	char text[INET_ADDRSTRLEN];
	struct in_addr a;
	unsigned prefix;
	int n = 0;

	if (sscanf(cidr, "%15[0-9.]/%2u%n", text, &prefix, &n) != 2 || cidr[n] ||
	    inet_pton(AF_INET, text, &a) != 1 || !priv_vpc_valid(ntohl(a.s_addr), (uint8_t)prefix))
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "'cidr' must be a private IPv4 range of /8 to /29, such as "
		               "\"192.168.10.0/24\", outside 100.96.0.0/16");
	v->net = ntohl(a.s_addr);
	v->prefix = prefix;
	return 0;
}

int vmm_vpc_create(struct vmm *m, const char *account, const char *name, const char *cidr,
                   struct vpc_info *ret, struct err *err)
{
	autovpc v = { .created_ms = clock_wall_ms() };
	autowipe struct store_vpc *all = NULL;
	size_t n = 0;
	int r;

	if ((r = parse_range(cidr, &v, err)) < 0 ||
	    (r = store_vpc_list(m->store, account, &all, &n, err)) < 0)
		return r;
	if (n >= VPCS_PER_ACCOUNT)
		return err_tag(err, -EDQUOT, ERR_BAD_REQUEST, "an account can have at most %d VPCs",
		               VPCS_PER_ACCOUNT);
	id_make("vpc-", v.id);
	snprintf(v.account, sizeof(v.account), "%s", account);
	snprintf(v.name, sizeof(v.name), "%s", name ? name : "");
	if ((r = wgkey_make(v.wg_key, NULL, err)) < 0 ||
	    (r = store_vpc_add(m->store, &v, PRIV_VPCS_LIMIT, err)) < 0)
		return r;
	to_info(&v, ret);
	return 0;
}

static int add_vms(struct vmm *m, struct vpc_info *v, struct err *err)
{
	autofree struct store_nic *nics = NULL;
	size_t n = 0;
	int r = store_nic_list(m->store, v->id, &nics, &n, err);

	if (r < 0)
		return r;
	v->vms = calloc(n + 1, sizeof(*v->vms));
	if (!v->vms)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++, v->n_vms++) {
		snprintf(v->vms[i].vm_id, ID_SIZE, "%s", nics[i].vm_id);
		v->vms[i].addr = nics[i].addr;
	}
	return 0;
}

int vmm_vpc_get(struct vmm *m, const char *account, const char *id, struct vpc_info *ret,
                struct err *err)
{
	autovpc v = { 0 };
	int r = vpc_find(m, account, id, &v, err);

	if (r < 0)
		return r;
	to_info(&v, ret);
	return add_vms(m, ret, err);
}

int vmm_vpc_list(struct vmm *m, const char *account, struct vpc_info **ret, size_t *ret_n,
                 struct err *err)
{
	autowipe struct store_vpc *v = NULL;
	size_t n = 0;
	int r = store_vpc_list(m->store, account, &v, &n, err);

	if (r < 0)
		return r;
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		to_info(&v[i], &(*ret)[i]);
	*ret_n = n;
	return 0;
}

int vmm_vpc_delete(struct vmm *m, const char *account, const char *id, struct err *err)
{
	autovpc v = { 0 };
	struct priv_vpc plan;
	struct err priv = { 0 };
	int r = vpc_find(m, account, id, &v, err);

	if (r < 0)
		return r;
	/* The row first: a VPC nobody can name has no VM and gets none. */
	plan = vpc_plan(&v);
	if ((r = store_vpc_delete(m->store, id, err)) < 0)
		return r;
	knock_close(m, plan.idx); /* its descriptor would keep the namespace */
	if (privc_vpc_remove(m->priv, &plan, &priv) < 0)
		log_warn("VPC %s: its namespace was not removed, ignoring: %s", id, priv.msg);
	return 0;
}

/* ---- addresses ---- */

static bool usable(const struct store_vpc *v, uint32_t addr)
{
	uint32_t mask = priv_mask((uint8_t)v->prefix);

	return (addr & mask) == v->net && addr != v->net && addr != (v->net | ~mask) &&
	       (addr & priv_mask(LINK_PREFIX)) != LINK_NET;
}

/* The first free one from `from` on; -ENOSPC. */
static int free_addr(struct vmm *m, const struct store_vpc *v, uint32_t *ret, struct err *err)
{
	autofree struct store_nic *nics = NULL;
	uint32_t addr = v->net + 1, last = v->net | ~priv_mask((uint8_t)v->prefix);
	size_t n = 0, i = 0;
	int r = store_nic_list(m->store, v->id, &nics, &n, err);

	if (r < 0)
		return r;
	for (; addr < last; addr++) {
		while (i < n && nics[i].addr < addr)
			i++;
		if (usable(v, addr) && (i == n || nics[i].addr != addr)) {
			*ret = addr;
			return 0;
		}
	}
	return err_tag(err, -ENOSPC, ERR_BAD_REQUEST, "VPC %s has no free address", v->id);
}

static int take_addr(struct vmm *m, const struct store_vpc *v, const struct vm_nic *want,
                     struct store_nic *nic, struct err *err)
{
	int r = 0;

	if (want->addr && !usable(v, want->addr))
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "'nics[0].ipv4' is not an address of VPC %s that a VM can have",
		               v->id);
	for (int i = 0; i < ATTEMPTS_MAX; i++) {
		nic->addr = want->addr;
		if (!nic->addr && (r = free_addr(m, v, &nic->addr, err)) < 0)
			return r;
		r = store_nic_add(m->store, nic, err);
		if (r != -EEXIST || want->addr)
			break;
	}
	return r == -EEXIST ? err_tag(err, r, ERR_CONFLICT, "another VM of VPC %s has that address",
	                              v->id)
	                    : r;
}

int vpc_attach(struct vm *vm, const struct vm_nic *want, struct err *err)
{
	struct store_nic nic = { .is_default = want->is_default };
	autovpc v = { 0 };
	/* Of whom it will be: a VM made ahead has no account yet. */
	int r = vpc_find(vm->m, want->account, want->vpc, &v, err);

	if (r < 0)
		return r;
	snprintf(nic.vm_id, sizeof(nic.vm_id), "%s", vm->row.info.id);
	snprintf(nic.vpc, sizeof(nic.vpc), "%s", v.id);
	r = take_addr(vm->m, &v, want, &nic, err);
	if (r < 0)
		return r;
	snprintf(vm->net.vpc, sizeof(vm->net.vpc), "%s", v.id);
	vm->net.vpc_net = vpc_plan(&v);
	vm->net.addr = nic.addr;
	vm->net.is_default = nic.is_default;
	return 0;
}

int vpc_load(struct vm *vm, struct err *err)
{
	struct store_nic nic;
	autovpc v = { 0 };
	struct err why = { 0 };
	int r = store_nic_get(vm->m->store, vm->row.info.id, &nic, &why);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(err, r, "%s", why.msg);
	if ((r = store_vpc_get(vm->m->store, nic.vpc, &v, err)) < 0)
		return r;
	snprintf(vm->net.vpc, sizeof(vm->net.vpc), "%s", v.id);
	vm->net.vpc_net = vpc_plan(&v);
	vm->net.addr = nic.addr;
	vm->net.is_default = nic.is_default;
	return 0;
}

int vmm_vm_address(struct vmm *m, const char *account, const char *vm_id, char ret_vpc[ID_SIZE],
                   uint32_t *ret_addr, struct err *err)
{
	struct store_nic nic;
	struct vm_info i;
	int r = vmm_get(m, account, vm_id, &i, err);

	*ret_addr = 0;
	ret_vpc[0] = '\0';
	if (r < 0)
		return r;
	if (store_nic_get(m->store, vm_id, &nic, NULL) < 0)
		return 0;
	snprintf(ret_vpc, ID_SIZE, "%s", nic.vpc);
	*ret_addr = nic.addr;
	return 0;
}
