/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/slotnet.c - carry out the plan of one slot
 *
 * Theory of operation: the thread unshares its network namespace, binds it to
 * its path, creates the tap (persistent: closing one that is not takes 40 ms, and
 * the slot outlives QEMU), has the host's rtnetlink socket create the veth pair
 * with its peer in here, sets addresses on both, loads the rules, and returns to the host's
 * namespace. The tap stays down until the gate is opened: a link that is down passes no byte.
 * The rules are in place before the link to the host is up.
 */
#include "priv/slotnet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/nft.h"
#include "priv/nl.h"

#define DNS_BACKLOG 16
#define PROXY_BACKLOG 64

static const uint8_t gateway_mac[6] = NET_GATEWAY_MAC_BYTES;

void slotnet_leave(const struct slotnet_env *env)
{
	if (setns(env->host_ns, CLONE_NEWNET) < 0) {
		log_error("cannot return to the host's network namespace: %s", err_name(errno));
		abort(); /* continuing as root in a guest's namespace is not safe */
	}
}

int slotnet_enter(int ns, struct err *err)
{
	return setns(ns, CLONE_NEWNET) < 0 ? err_sys(err, -errno, "enter the namespace") : 0;
}

/* /proc/sys/net shows the namespace of the thread that opens it. */
int slotnet_sysctl(const char *name, const char *value, struct err *err)
{
	char path[128];
	autofd int fd = -1;
	int r;

	snprintf(path, sizeof(path), "/proc/sys/net/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && !strncmp(name, "ipv6/", 5))
		return 0; /* a host without IPv6 */
	r = fd < 0 ? -errno : io_write_all(fd, value, strlen(value));
	return r < 0 ? err_sys(err, r, "set %s", path) : 0;
}

static int tap_attach(int *ret_fd, struct err *err)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	autofd int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_sys(err, -errno, "open /dev/net/tun");
	memcpy(ifr.ifr_name, NET_TAP, sizeof(NET_TAP));
	if (ioctl(fd, TUNSETIFF, &ifr) < 0)
		return err_sys(err, -errno, "attach to " NET_TAP);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int tap_make(struct slotnet *sn, uint32_t mtu, struct err *err)
{
	autofd int fd = -1;
	int r = tap_attach(&fd, err);

	if (r < 0)
		return r;
	/* A tap without an owner may be opened by any process with /dev/net/tun in this namespace.
	 */
	if (ioctl(fd, TUNSETOWNER, 0ul) < 0 || ioctl(fd, TUNSETPERSIST, 1ul) < 0)
		return err_sys(err, -errno, "keep " NET_TAP);
	sn->ifindex = if_nametoindex(NET_TAP);
	if (!sn->ifindex)
		return err_sys(err, -errno, "look up " NET_TAP);
	if ((r = nl_link_config(sn->nl, sn->ifindex, gateway_mac, mtu, err)) < 0)
		return r;
	return nl_addr_add(sn->nl, sn->ifindex, inet_addr(NET_GATEWAY), NET_LINK_PREFIX, err);
}

static int veth_make(const struct slotnet_env *env, const struct net_slot *plan, struct slotnet *sn,
                     struct err *err)
{
	struct nl_veth v = {
		.name = plan->veth, .peer_name = NET_PEER, .peer_ns = sn->ns, .mtu = env->mtu
	};
	struct nl_link host, peer;
	int r;

	if ((r = nl_veth_add(env->host_nl, &v, err)) < 0 ||
	    (r = nl_link_get(env->host_nl, plan->veth, &host, err)) < 0 ||
	    (r = nl_link_get(sn->nl, NET_PEER, &peer, err)) < 0 ||
	    (r = nl_addr_add(env->host_nl, host.ifindex, htonl(plan->host_ip), NET_LINK_PREFIX,
	                     err)) < 0 ||
	    (r = nl_addr_add(sn->nl, peer.ifindex, htonl(plan->slot_ip), NET_LINK_PREFIX, err)) <
	            0 ||
	    (r = nl_link_up(env->host_nl, host.ifindex, /* up= */ true, err)) < 0 ||
	    (r = nl_link_up(sn->nl, peer.ifindex, /* up= */ true, err)) < 0)
		return r;
	return nl_route_default(sn->nl, htonl(plan->host_ip), err);
}

static int rules_load(struct err *err)
{
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;

	net_slot_rules(NULL, &b);
	text = buf_take_str(&b);
	return text ? nft_run(text, err) : err_set(err, -ENOMEM, "slot rules: out of memory");
}

int slotnet_keep(const char *ns_path, struct err *err)
{
	autofd int file = open(ns_path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	int ns;

	if (file < 0)
		return err_sys(err, -errno, "create '%s'", ns_path);
	if (mount("/proc/thread-self/ns/net", ns_path, NULL, MS_BIND, NULL) < 0)
		return err_sys(err, -errno, "bind the namespace to '%s'", ns_path);
	ns = open(ns_path, O_RDONLY | O_CLOEXEC);
	return ns < 0 ? err_sys(err, -errno, "open '%s'", ns_path) : ns;
}

void slotnet_unkeep(const char *ns_path)
{
	if (umount2(ns_path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL &&
	    errno != ENOENT)
		log_warn("unmount '%s': %s, ignoring", ns_path, err_name(errno));
	if (unlink(ns_path) < 0 && errno != ENOENT)
		log_warn("remove '%s': %s, ignoring", ns_path, err_name(errno));
}

/* In the new namespace. */
static int fill(const struct slotnet_env *env, const struct net_slot *plan, const char *ns_path,
                struct slotnet *sn, struct err *err)
{
	int r = slotnet_keep(ns_path, err);

	if (r < 0)
		return r;
	sn->ns = r;
	r = sn->nl = nl_open(err);
	if (r < 0)
		return r;
	if ((r = slotnet_sysctl("ipv6/conf/all/disable_ipv6", "1\n", err)) < 0 ||
	    (r = slotnet_sysctl("ipv6/conf/default/disable_ipv6", "1\n", err)) < 0 ||
	    (r = slotnet_sysctl("ipv4/ip_forward", "1\n", err)) < 0 ||
	    (r = tap_make(sn, env->mtu, err)) < 0 || (r = rules_load(err)) < 0)
		return r;
	return veth_make(env, plan, sn, err);
}

int slotnet_build(const struct slotnet_env *env, const struct net_slot *plan, const char *ns_path,
                  struct slotnet *ret, struct err *err)
{
	struct slotnet sn = SLOTNET_NONE;
	int r;

	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(err, -errno, "slot %s: new network namespace", plan->veth);
	r = fill(env, plan, ns_path, &sn, err);
	slotnet_leave(env);
	if (r < 0) {
		slotnet_destroy(env, plan, ns_path, &sn);
		return err_wrap(err, r, "slot %s", plan->veth);
	}
	*ret = sn;
	return 0;
}

int slotnet_open(const struct slotnet_env *env, const char *ns_path, struct slotnet *ret,
                 struct err *err)
{
	struct slotnet sn = SLOTNET_NONE;
	struct nl_link tap;
	int r;

	sn.ns = open(ns_path, O_RDONLY | O_CLOEXEC);
	if (sn.ns < 0)
		return err_sys(err, -errno, "open '%s'", ns_path);
	r = slotnet_enter(sn.ns, err);
	if (r == 0) {
		r = sn.nl = nl_open(err);
		slotnet_leave(env);
	}
	if (r >= 0)
		r = nl_link_get(sn.nl, NET_TAP, &tap, err);
	if (r < 0) {
		slotnet_close(&sn);
		return r;
	}
	sn.ifindex = tap.ifindex;
	*ret = sn;
	return 0;
}

void slotnet_close(struct slotnet *sn)
{
	if (sn->nl >= 0)
		close(sn->nl);
	if (sn->ns >= 0)
		close(sn->ns);
	*sn = SLOTNET_NONE;
}

void slotnet_destroy(const struct slotnet_env *env, const struct net_slot *plan,
                     const char *ns_path, struct slotnet *sn)
{
	struct err err = { 0 };
	int r = nl_link_del(env->host_nl, plan->veth, &err);

	if (r < 0 && r != -ENODEV)
		log_warn("%s, ignoring", err.msg);
	slotnet_close(sn);
	slotnet_unkeep(ns_path);
}

int slotnet_tap(const struct slotnet_env *env, const struct slotnet *sn, int *ret_fd,
                struct err *err)
{
	int r = slotnet_enter(sn->ns, err);

	if (r < 0)
		return r;
	r = tap_attach(ret_fd, err);
	slotnet_leave(env);
	return r;
}

int slotnet_socket(const struct slotnet_env *env, const struct slotnet *sn, int type, int *ret_fd,
                   struct err *err)
{
	int r = slotnet_enter(sn->ns, err);

	if (r < 0)
		return r;
	r = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (r < 0)
		r = err_sys(err, -errno, "socket in the slot");
	else
		*ret_fd = r;
	slotnet_leave(env);
	return r < 0 ? r : 0;
}

/* On the gateway's address. IP_FREEBIND: it belongs to a link that is down. */
static int gateway_socket(int type, uint16_t port, int backlog, struct err *err)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(port),
		                  .sin_addr.s_addr = inet_addr(NET_GATEWAY) };
	autofd int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_IP, IP_FREEBIND, &on, sizeof(on)) < 0 ||
	    (type == SOCK_STREAM &&
	     setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, backlog) < 0))
		return err_sys(err, -errno, "socket on port %u of the slot's gateway", port);
	return TAKE_FD(fd);
}

int slotnet_proxy(const struct slotnet_env *env, const struct slotnet *sn, int *ret_fd,
                  struct err *err)
{
	int r = slotnet_enter(sn->ns, err);

	if (r < 0)
		return r;
	r = gateway_socket(SOCK_STREAM, PRIV_PROXY_PORT, PROXY_BACKLOG, err);
	slotnet_leave(env);
	if (r < 0)
		return r;
	*ret_fd = r;
	return 0;
}

int slotnet_dns(const struct slotnet_env *env, const struct slotnet *sn, int *ret_udp, int *ret_tcp,
                struct err *err)
{
	autofd int udp = -1;
	autofd int tcp = -1;
	int r = slotnet_enter(sn->ns, err);

	if (r < 0)
		return r;
	r = udp = gateway_socket(SOCK_DGRAM, 53, 0, err);
	if (r >= 0)
		r = tcp = gateway_socket(SOCK_STREAM, 53, DNS_BACKLOG, err);
	slotnet_leave(env);
	if (r < 0)
		return r;
	*ret_udp = TAKE_FD(udp);
	*ret_tcp = TAKE_FD(tcp);
	return 0;
}

int slotnet_gate(const struct slotnet *sn, bool open, struct err *err)
{
	return nl_link_up(sn->nl, sn->ifindex, open, err);
}

int slotnet_stats(const struct slotnet *sn, struct nl_link *ret, struct err *err)
{
	return nl_link_get(sn->nl, NET_TAP, ret, err);
}
