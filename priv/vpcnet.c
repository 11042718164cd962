/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/vpcnet.c - a router per VPC
 *
 * Every link between a slot and its VPC has the same two addresses, one at each
 * end, and routes go through them: no subnet, no broadcast, nothing to resolve
 * that a guest could answer. A guest's frames never get here; its slot only forwards
 * packets from its own address.
 */
#include "priv/vpcnet.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "priv/instance.h"
#include "priv/netplan.h"
#include "priv/nft.h"
#include "priv/nl.h"
#include "priv/slotnet.h"

#define VPC_DIR "vpc"

static void ns_path(const struct instance *in, uint32_t idx, char ret[96])
{
	snprintf(ret, 96, "%s/" VPC_DIR "/%u", in->dir, idx);
}

int vpcnet_rules(const struct priv_vpc *v, struct err *err)
{
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;

	net_vpc_rules(v, &b);
	text = buf_take_str(&b);
	return text ? nft_run(text, err) : err_set(err, -ENOMEM, "VPC rules: out of memory");
}

/* In the new namespace. */
static int fill(const struct priv_vpc *v, const char *path, struct err *err)
{
	autofd int ns = slotnet_keep(path, err);
	int r = ns;

	if (r < 0 || (r = slotnet_sysctl("ipv6/conf/all/disable_ipv6", "1\n", err)) < 0 ||
	    (r = slotnet_sysctl("ipv6/conf/default/disable_ipv6", "1\n", err)) < 0 ||
	    (r = vpcnet_rules(v, err)) < 0 ||
	    (r = slotnet_sysctl("ipv4/ip_forward", "1\n", err)) < 0)
		return r;
	return TAKE_FD(ns);
}

int vpcnet_open(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
                struct err *err)
{
	char path[96];
	struct stat st, host;
	int r;

	ns_path(in, v->idx, path);
	if (mkdirat(in->dirfd, VPC_DIR, 0700) < 0 && errno != EEXIST)
		return err_sys(err, -errno, "create '%s/" VPC_DIR "'", in->dir);
	/* A plain file there was left by a crash before the mount. */
	if (stat(path, &st) == 0 && fstat(env->host_ns, &host) == 0 && st.st_dev == host.st_dev) {
		r = open(path, O_RDONLY | O_CLOEXEC);
		return r < 0 ? err_sys(err, -errno, "open '%s'", path) : r;
	}
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(err, -errno, "VPC %u: new network namespace", v->idx);
	r = fill(v, path, err);
	slotnet_leave(env);
	if (r < 0) {
		slotnet_unkeep(path);
		return err_wrap(err, r, "VPC %u", v->idx);
	}
	return r;
}

int vpcnet_nl(const struct slotnet_env *env, int ns, struct err *err)
{
	int r = slotnet_enter(ns, err);

	if (r < 0)
		return r;
	r = nl_open(err);
	slotnet_leave(env);
	return r;
}

static int link_up(int nl, const char *name, const char *addr, unsigned *ret_idx, struct err *err)
{
	struct nl_link l;
	int r = nl_link_get(nl, name, &l, err);

	if (r < 0 || (r = nl_addr_add(nl, l.ifindex, inet_addr(addr), 32, err)) < 0 ||
	    (r = nl_link_up(nl, l.ifindex, /* up= */ true, err)) < 0)
		return r;
	*ret_idx = l.ifindex;
	return 0;
}

int vpcnet_attach(const struct slotnet_env *env, const struct instance *in,
                  const struct priv_vpc *v, uint32_t slot, const struct slotnet *sn, uint32_t addr,
                  struct err *err)
{
	autofd int ns = vpcnet_open(env, in, v, err);
	autofd int nl = ns < 0 ? -1 : vpcnet_nl(env, ns, err);
	char name[IFNAMSIZ];
	struct nl_veth veth = {
		.name = name, .peer_name = NET_VPC_LINK, .peer_ns = sn->ns, .mtu = env->mtu
	};
	unsigned near = 0, far = 0;
	int r;

	if (ns < 0 || nl < 0)
		return ns < 0 ? ns : nl;
	snprintf(name, sizeof(name), "s%u", slot);
	/* An existing one is from an earlier use of this slot, or from before a restart. */
	r = nl_link_del(nl, name, err);
	if (r < 0 && r != -ENODEV)
		return r;
	if ((r = nl_veth_add(nl, &veth, err)) < 0 ||
	    (r = link_up(nl, name, NET_VPC_ROUTER, &far, err)) < 0 ||
	    (r = link_up(sn->nl, NET_VPC_LINK, NET_VPC_SLOT, &near, err)) < 0 ||
	    (r = nl_route_set(nl,
	                      &(struct nl_route){ .dst = htonl(addr),
	                                          .prefix = 32,
	                                          .gateway = inet_addr(NET_VPC_SLOT),
	                                          .oif = far },
	                      err)) < 0 ||
	    (r = nl_route_set(sn->nl,
	                      &(struct nl_route){ .dst = htonl(v->net),
	                                          .prefix = v->prefix,
	                                          .gateway = inet_addr(NET_VPC_ROUTER),
	                                          .oif = near },
	                      err)) < 0 ||
	    (r = nl_route_set(sn->nl,
	                      &(struct nl_route){ .dst = htonl(PRIV_WG_NET),
	                                          .prefix = PRIV_WG_PREFIX,
	                                          .gateway = inet_addr(NET_VPC_ROUTER),
	                                          .oif = near },
	                      err)) < 0)
		return err_wrap(err, r, "link slot %u to VPC %u", slot, v->idx);
	/* The tap is down: an address with a peer gets its route when the link comes up. */
	r = nl_addr_peer(sn->nl, sn->ifindex, inet_addr(NET_GATEWAY), htonl(addr), err);
	return r == -EEXIST ? 0 : r;
}

int vpcnet_remove(const struct slotnet_env *env, const struct instance *in, uint32_t idx,
                  struct err *err)
{
	char path[96];

	(void)env;
	(void)err;
	vpcnet_wg_remove(in, idx);
	ns_path(in, idx, path);
	slotnet_unkeep(path);
	return 0;
}

void vpcnet_remove_all(const struct slotnet_env *env, const struct instance *in)
{
	int fd = openat(in->dirfd, VPC_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autodir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] >= '0' && de->d_name[0] <= '9')
			vpcnet_remove(env, in, (uint32_t)strtoul(de->d_name, NULL, 10), NULL);
}
