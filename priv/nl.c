/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/nl.c - rtnetlink: build one request, send it, read until its ack or end
 *
 * Requests are built in a fixed buffer that is large enough for all our requests; a
 * request that does not fit is a bug and asserts. The kernel is trusted to
 * answer; the receive timeout only prevents a lost answer from hanging us.
 */
#include "priv/nl.h"

#include <assert.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#define NL_REPLY_MAX (64u << 10) /* bytes of one datagram of a dump */
#define NL_TIMEOUT_S 5
#define RATE_HANDLE 0x10000u       /* 1: */
#define RATE_BURST_MIN (64u << 10) /* bytes: one segment of the largest size */
#define RATE_BURST_MAX (4u << 20)
#define RATE_QUEUE_MS 50u /* of queueing before packets are dropped */
#define RATE_QUEUE_MAX (16u << 20)

struct nl_msg {
	union {
		struct nlmsghdr h;
		char b[1024];
	};
};

int nl_open(struct err *err)
{
	autofd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct timeval tv = { .tv_sec = NL_TIMEOUT_S };

	if (fd < 0)
		return err_sys(err, -errno, "open rtnetlink");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0)
		return err_sys(err, -errno, "rtnetlink timeout");
	return TAKE_FD(fd);
}

static void *nl_room(struct nl_msg *m, size_t n)
{
	void *p = m->b + NLMSG_ALIGN(m->h.nlmsg_len);

	assert(NLMSG_ALIGN(m->h.nlmsg_len) + NLMSG_ALIGN(n) <= sizeof(m->b));
	memset(p, 0, NLMSG_ALIGN(n));
	m->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(m->h.nlmsg_len) + n);
	return p;
}

static void nl_begin(struct nl_msg *m, uint16_t type, uint16_t flags, const void *body, size_t n)
{
	m->h = (struct nlmsghdr){ .nlmsg_len = NLMSG_HDRLEN,
		                  .nlmsg_type = type,
		                  .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) };
	memcpy(nl_room(m, n), body, n);
}

static struct rtattr *nl_attr(struct nl_msg *m, uint16_t type, const void *p, size_t n)
{
	struct rtattr *a = nl_room(m, RTA_LENGTH(n));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(n);
	if (n)
		memcpy(RTA_DATA(a), p, n);
	return a;
}

static void nl_nest_end(struct nl_msg *m, struct rtattr *a)
{
	a->rta_len = (uint16_t)(m->b + m->h.nlmsg_len - (char *)a);
}

typedef void (*nl_fn)(const struct nlmsghdr *h, void *ctx);

/* Sends m and reads replies until the ack, the end of a dump, or an error. */
static int nl_talk(int fd, struct nl_msg *m, nl_fn fn, void *ctx)
{
	static _Thread_local _Alignas(8) char reply[NL_REPLY_MAX];
	bool dump = (m->h.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK };
	static uint32_t seq;

	m->h.nlmsg_seq = __atomic_add_fetch(&seq, 1, __ATOMIC_RELAXED);
	if (!dump)
		m->h.nlmsg_flags |= NLM_F_ACK;
	if (sendto(fd, m, m->h.nlmsg_len, 0, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	for (;;) {
		ssize_t n = recv(fd, reply, sizeof(reply), 0);
		size_t left;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno != EAGAIN ? -errno : -ETIMEDOUT;
		left = (size_t)n;
		for (struct nlmsghdr *h = (struct nlmsghdr *)reply; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_seq != m->h.nlmsg_seq)
				continue; /* answer to a request that timed out */
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (fn)
				fn(h, ctx);
		}
	}
}

int nl_veth_add(int fd, const struct nl_veth *v, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC };
	struct rtattr *info, *data, *peer;
	uint32_t ns = (uint32_t)v->peer_ns;
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_IFNAME, v->name, strlen(v->name) + 1);
	nl_attr(&m, IFLA_MTU, &v->mtu, sizeof(v->mtu));
	info = nl_attr(&m, IFLA_LINKINFO, NULL, 0);
	nl_attr(&m, IFLA_INFO_KIND, "veth", 4);
	data = nl_attr(&m, IFLA_INFO_DATA, NULL, 0);
	peer = nl_attr(&m, VETH_INFO_PEER, NULL, 0);
	memcpy(nl_room(&m, sizeof(ifi)), &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_IFNAME, v->peer_name, strlen(v->peer_name) + 1);
	nl_attr(&m, IFLA_MTU, &v->mtu, sizeof(v->mtu));
	nl_attr(&m, IFLA_NET_NS_FD, &ns, sizeof(ns));
	nl_nest_end(&m, peer);
	nl_nest_end(&m, data);
	nl_nest_end(&m, info);
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "create link '%s'", v->name) : 0;
}

int nl_link_del(int fd, const char *name, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_DELLINK, 0, &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_IFNAME, name, strlen(name) + 1);
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "remove link '%s'", name) : 0;
}

int nl_link_up(int fd, unsigned ifindex, bool up, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC,
		                 .ifi_index = (int)ifindex,
		                 .ifi_flags = up ? IFF_UP : 0,
		                 .ifi_change = IFF_UP };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "set link %u %s", ifindex, up ? "up" : "down") : 0;
}

int nl_link_config(int fd, unsigned ifindex, const uint8_t mac[6], uint32_t mtu, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_ADDRESS, mac, 6);
	nl_attr(&m, IFLA_MTU, &mtu, sizeof(mtu));
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "configure link %u", ifindex) : 0;
}

static int addr_change(int fd, uint16_t flags, unsigned ifindex, uint32_t addr, uint32_t peer,
                       uint8_t prefix)
{
	struct ifaddrmsg ifa = { .ifa_family = AF_INET,
		                 .ifa_prefixlen = prefix,
		                 .ifa_index = ifindex };
	struct nl_msg m;

	nl_begin(&m, RTM_NEWADDR, flags, &ifa, sizeof(ifa));
	nl_attr(&m, IFA_LOCAL, &addr, sizeof(addr));
	nl_attr(&m, IFA_ADDRESS, &peer, sizeof(peer));
	return nl_talk(fd, &m, NULL, NULL);
}

int nl_addr_add(int fd, unsigned ifindex, uint32_t addr, uint8_t prefix, struct err *err)
{
	int r = addr_change(fd, NLM_F_CREATE | NLM_F_EXCL, ifindex, addr, addr, prefix);

	return r < 0 ? err_sys(err, r, "give link %u its address", ifindex) : 0;
}

int nl_addr_peer(int fd, unsigned ifindex, uint32_t addr, uint32_t peer, struct err *err)
{
	int r = addr_change(fd, NLM_F_CREATE | NLM_F_EXCL, ifindex, addr, peer, 32);

	return r < 0 ? err_sys(err, r, "give link %u a peer", ifindex) : 0;
}

int nl_link_mtu(int fd, unsigned ifindex, uint32_t mtu, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_MTU, &mtu, sizeof(mtu));
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "set the MTU of link %u", ifindex) : 0;
}

int nl_link_add_kind(int fd, const char *name, const char *kind, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC };
	struct rtattr *info;
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_IFNAME, name, strlen(name) + 1);
	info = nl_attr(&m, IFLA_LINKINFO, NULL, 0);
	nl_attr(&m, IFLA_INFO_KIND, kind, strlen(kind));
	nl_nest_end(&m, info);
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "create link '%s'", name) : 0;
}

int nl_link_move(int fd, unsigned ifindex, int ns, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex };
	uint32_t target = (uint32_t)ns;
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWLINK, 0, &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_NET_NS_FD, &target, sizeof(target));
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "move link %u to another namespace", ifindex) : 0;
}

int nl_route_set(int fd, const struct nl_route *rt, struct err *err)
{
	struct rtmsg msg = { .rtm_family = AF_INET,
		             .rtm_dst_len = rt->prefix,
		             .rtm_table = RT_TABLE_MAIN,
		             .rtm_protocol = RTPROT_STATIC,
		             .rtm_scope = rt->gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
		             .rtm_type = RTN_UNICAST,
		             .rtm_flags = rt->gateway ? RTNH_F_ONLINK : 0 };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &msg, sizeof(msg));
	nl_attr(&m, RTA_DST, &rt->dst, sizeof(rt->dst));
	nl_attr(&m, RTA_OIF, &rt->oif, sizeof(rt->oif));
	if (rt->gateway)
		nl_attr(&m, RTA_GATEWAY, &rt->gateway, sizeof(rt->gateway));
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "set a route over link %u", rt->oif) : 0;
}

int nl_rate_set(int fd, unsigned ifindex, uint64_t bytes_per_s, struct err *err)
{
	struct tcmsg tc = { .tcm_family = AF_UNSPEC,
		            .tcm_ifindex = (int)ifindex,
		            .tcm_handle = RATE_HANDLE,
		            .tcm_parent = TC_H_ROOT };
	uint32_t burst = (uint32_t)MAX(RATE_BURST_MIN, MIN(bytes_per_s / 50, RATE_BURST_MAX));
	struct tc_tbf_qopt opt = {
		.rate = { .linklayer = TC_LINKLAYER_ETHERNET,
		          .rate = (uint32_t)MIN(bytes_per_s, UINT32_MAX) },
		.limit = burst +
		         (uint32_t)MAX(RATE_BURST_MIN,
		                       MIN(bytes_per_s * RATE_QUEUE_MS / 1000, RATE_QUEUE_MAX)),
	};
	struct rtattr *options;
	struct nl_msg m;
	int r;

	nl_begin(&m, bytes_per_s ? RTM_NEWQDISC : RTM_DELQDISC,
	         bytes_per_s ? NLM_F_CREATE | NLM_F_REPLACE : 0, &tc, sizeof(tc));
	nl_attr(&m, TCA_KIND, "tbf", 4);
	if (bytes_per_s) {
		options = nl_attr(&m, TCA_OPTIONS, NULL, 0);
		nl_attr(&m, TCA_TBF_PARMS, &opt, sizeof(opt));
		nl_attr(&m, TCA_TBF_BURST, &burst, sizeof(burst));
		if (bytes_per_s > UINT32_MAX)
			nl_attr(&m, TCA_TBF_RATE64, &bytes_per_s, sizeof(bytes_per_s));
		nl_nest_end(&m, options);
	}
	r = nl_talk(fd, &m, NULL, NULL);
	if (!bytes_per_s && (r == -ENOENT || r == -EINVAL))
		r = 0; /* there was none */
	return r < 0 ? err_sys(err, r, "limit the rate of link %u", ifindex) : 0;
}

int nl_route_default(int fd, uint32_t gateway, struct err *err)
{
	struct rtmsg rt = { .rtm_family = AF_INET,
		            .rtm_table = RT_TABLE_MAIN,
		            .rtm_protocol = RTPROT_STATIC,
		            .rtm_scope = RT_SCOPE_UNIVERSE,
		            .rtm_type = RTN_UNICAST };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &rt, sizeof(rt));
	nl_attr(&m, RTA_GATEWAY, &gateway, sizeof(gateway));
	r = nl_talk(fd, &m, NULL, NULL);
	return r < 0 ? err_sys(err, r, "add the default route") : 0;
}

struct link_get {
	struct nl_link link;
	bool found;
};

static void on_link(const struct nlmsghdr *h, void *ctx)
{
	const struct ifinfomsg *ifi = NLMSG_DATA(h);
	struct link_get *g = ctx;
	size_t left = IFLA_PAYLOAD(h);

	if (h->nlmsg_type != RTM_NEWLINK)
		return;
	g->found = true;
	g->link.ifindex = (unsigned)ifi->ifi_index;
	g->link.up = ifi->ifi_flags & IFF_UP;
	for (struct rtattr *a = IFLA_RTA(ifi); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		struct rtnl_link_stats64 st;

		if (a->rta_type == IFLA_MTU)
			memcpy(&g->link.mtu, RTA_DATA(a), sizeof(g->link.mtu));
		if (a->rta_type != IFLA_STATS64)
			continue;
		memset(&st, 0, sizeof(st));
		memcpy(&st, RTA_DATA(a), MIN(RTA_PAYLOAD(a), sizeof(st)));
		g->link.rx_bytes = st.rx_bytes;
		g->link.tx_bytes = st.tx_bytes;
		g->link.rx_packets = st.rx_packets;
		g->link.tx_packets = st.tx_packets;
	}
}

int nl_link_get(int fd, const char *name, struct nl_link *ret, struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC };
	struct link_get g = { 0 };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_GETLINK, 0, &ifi, sizeof(ifi));
	nl_attr(&m, IFLA_IFNAME, name, strlen(name) + 1);
	r = nl_talk(fd, &m, on_link, &g);
	if (r == 0 && !g.found)
		r = -ENODEV;
	if (r < 0)
		return err_sys(err, r, "look up link '%s'", name);
	*ret = g.link;
	return 0;
}

struct nets_ctx {
	void (*fn)(const struct nl_net *n, void *ctx);
	void *ctx;
};

static void on_addr(const struct nlmsghdr *h, void *ctx)
{
	const struct ifaddrmsg *ifa = NLMSG_DATA(h);
	struct nets_ctx *c = ctx;
	struct nl_net n = { .prefix = ifa->ifa_prefixlen, .oif = ifa->ifa_index };
	size_t left = IFA_PAYLOAD(h);

	if (h->nlmsg_type != RTM_NEWADDR)
		return;
	for (struct rtattr *a = IFA_RTA(ifa); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFA_LOCAL)
			memcpy(&n.dst, RTA_DATA(a), sizeof(n.dst));
	c->fn(&n, c->ctx);
}

static void on_route(const struct nlmsghdr *h, void *ctx)
{
	const struct rtmsg *rt = NLMSG_DATA(h);
	struct nets_ctx *c = ctx;
	struct nl_net n = { .prefix = rt->rtm_dst_len, .is_route = true };
	size_t left = RTM_PAYLOAD(h);

	if (h->nlmsg_type != RTM_NEWROUTE || rt->rtm_type != RTN_UNICAST ||
	    rt->rtm_table != RT_TABLE_MAIN)
		return;
	for (struct rtattr *a = RTM_RTA(rt); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_DST)
			memcpy(&n.dst, RTA_DATA(a), sizeof(n.dst));
		if (a->rta_type == RTA_OIF)
			memcpy(&n.oif, RTA_DATA(a), sizeof(n.oif));
		if (a->rta_type == RTA_MULTIPATH && RTA_PAYLOAD(a) >= sizeof(struct rtnexthop))
			n.oif = (unsigned)((struct rtnexthop *)RTA_DATA(a))->rtnh_ifindex;
	}
	c->fn(&n, c->ctx);
}

int nl_nets(int fd, void (*fn)(const struct nl_net *n, void *ctx), void *ctx, struct err *err)
{
	struct ifaddrmsg ifa = { .ifa_family = AF_INET };
	struct rtmsg rt = { .rtm_family = AF_INET };
	struct nets_ctx c = { .fn = fn, .ctx = ctx };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_GETADDR, NLM_F_DUMP, &ifa, sizeof(ifa));
	r = nl_talk(fd, &m, on_addr, &c);
	if (r < 0)
		return err_sys(err, r, "list the host's addresses");
	nl_begin(&m, RTM_GETROUTE, NLM_F_DUMP, &rt, sizeof(rt));
	r = nl_talk(fd, &m, on_route, &c);
	return r < 0 ? err_sys(err, r, "list the host's routes") : 0;
}

struct links_ctx {
	void (*fn)(const char *name, unsigned ifindex, void *ctx);
	void *ctx;
};

static void on_link_name(const struct nlmsghdr *h, void *ctx)
{
	const struct ifinfomsg *ifi = NLMSG_DATA(h);
	struct links_ctx *c = ctx;
	size_t left = IFLA_PAYLOAD(h);

	if (h->nlmsg_type != RTM_NEWLINK)
		return;
	for (struct rtattr *a = IFLA_RTA(ifi); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_IFNAME)
			c->fn(RTA_DATA(a), (unsigned)ifi->ifi_index, c->ctx);
}

int nl_links(int fd, void (*fn)(const char *name, unsigned ifindex, void *ctx), void *ctx,
             struct err *err)
{
	struct ifinfomsg ifi = { .ifi_family = AF_UNSPEC };
	struct links_ctx c = { .fn = fn, .ctx = ctx };
	struct nl_msg m;
	int r;

	nl_begin(&m, RTM_GETLINK, NLM_F_DUMP, &ifi, sizeof(ifi));
	r = nl_talk(fd, &m, on_link_name, &c);
	return r < 0 ? err_sys(err, r, "list the host's links") : 0;
}
