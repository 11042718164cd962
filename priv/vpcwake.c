/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/vpcwake.c - packets of a VPC for VMs that do not run
 *
 * Theory of operation: a tun device has a route for the VPC's whole range. A VM that runs has a
 * route of its own, which is more specific; so what arrives at the device is for a VM at rest, or
 * for nobody. pandod holds the only descriptor of the device, which ends with it: a pandod that
 * died leaves nothing, and the next one asks anew. What pandod writes to the device can only go to
 * links of slots (net_vpc_rules()); its source is not where its device is, so the kernel's own
 * check of that is off here, and the rule that does the same for everything else stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "priv/netplan.h"
#include "priv/nft.h"
#include "priv/nl.h"
#include "priv/slotnet.h"
#include "priv/vpcnet.h"

/* In the VPC's namespace. */
static int make(const struct priv_vpc *v, int *ret_fd, struct err *err)
{
	struct ifreq ifr = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	autofd int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	int r;

	if (fd < 0)
		return err_sys(err, -errno, "open /dev/net/tun");
	if ((r = slotnet_sysctl("ipv4/conf/all/rp_filter", "0\n", err)) < 0 ||
	    (r = slotnet_sysctl("ipv4/conf/default/rp_filter", "0\n", err)) < 0 ||
	    (r = vpcnet_rules(v, err)) < 0)
		return r;
	memcpy(ifr.ifr_name, NET_WAKE_LINK, sizeof(NET_WAKE_LINK));
	if (ioctl(fd, TUNSETIFF, &ifr) < 0)
		return err_sys(err, -errno, "create " NET_WAKE_LINK);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int vpcnet_wake(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
                int *ret_fd, struct err *err)
{
	autofd int ns = vpcnet_open(env, in, v, err);
	autofd int nl = ns < 0 ? -1 : vpcnet_nl(env, ns, err);
	autofd int fd = -1;
	struct nl_link l;
	int r;

	if (ns < 0 || nl < 0)
		return ns < 0 ? ns : nl;
	/* One that is there belongs to a pandod that is gone, or that forgot it. */
	r = nl_link_del(nl, NET_WAKE_LINK, err);
	if (r < 0 && r != -ENODEV)
		return r;
	if ((r = slotnet_enter(ns, err)) < 0)
		return r;
	r = make(v, &fd, err);
	slotnet_leave(env);
	if (r < 0 || (r = nl_link_get(nl, NET_WAKE_LINK, &l, err)) < 0 ||
	    (r = nl_link_mtu(nl, l.ifindex, env->mtu, err)) < 0 ||
	    (r = nl_link_up(nl, l.ifindex, /* up= */ true, err)) < 0 ||
	    (r = nl_route_set(nl,
	                      &(struct nl_route){
	                              .dst = htonl(v->net), .prefix = v->prefix, .oif = l.ifindex },
	                      err)) < 0)
		return err_wrap(err, r, "wake VMs of VPC %u", v->idx);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int vpcnet_fresh(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
                 const struct priv_fresh *f, struct err *err)
{
	autofd int ns = vpcnet_open(env, in, v, err);
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;
	int r;

	if (ns < 0)
		return ns;
	net_vpc_fresh(f, &b);
	text = buf_take_str(&b);
	if (!text)
		return err_set(err, -ENOMEM, "VPC rules: out of memory");
	if ((r = slotnet_enter(ns, err)) < 0)
		return r;
	r = nft_run(text, err);
	slotnet_leave(env);
	return r < 0 ? err_wrap(err, r, "VPC %u", v->idx) : 0;
}
