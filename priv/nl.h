/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/nl.h - the few rtnetlink requests that slots need
 *
 * A netlink socket belongs to the network namespace it was opened in, whatever
 * the thread does later: the functions act on the namespace of fd.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

int nl_open(struct err *err); /* the socket, or -errno */

struct nl_veth {
	const char *name;      /* in the namespace of the socket */
	const char *peer_name; /* in peer_ns */
	int peer_ns;
	uint32_t mtu;
};
int nl_veth_add(int fd, const struct nl_veth *v, struct err *err);
int nl_link_del(int fd, const char *name, struct err *err); /* -ENODEV: none */
int nl_link_up(int fd, unsigned ifindex, bool up, struct err *err);
int nl_link_config(int fd, unsigned ifindex, const uint8_t mac[6], uint32_t mtu, struct err *err);
/* Addresses are in network byte order. */
int nl_addr_add(int fd, unsigned ifindex, uint32_t addr, uint8_t prefix, struct err *err);
int nl_route_default(int fd, uint32_t gateway, struct err *err);

struct nl_link {
	unsigned ifindex;
	uint32_t mtu;
	bool up;
	uint64_t rx_bytes, tx_bytes, rx_packets, tx_packets;
};
int nl_link_get(int fd, const char *name, struct nl_link *ret, struct err *err);

/* One IPv4 address or route of the namespace; dst in network byte order. */
struct nl_net {
	uint32_t dst;
	uint8_t prefix;
	bool is_route;
	unsigned oif;
};
/* Calls fn for every address and every unicast route of the main table. */
int nl_nets(int fd, void (*fn)(const struct nl_net *n, void *ctx), void *ctx, struct err *err);
/* Calls fn with the name of every link. */
int nl_links(int fd, void (*fn)(const char *name, unsigned ifindex, void *ctx), void *ctx,
             struct err *err);
/* An address with a peer: the route to the peer exists whenever the link is up. */
int nl_addr_peer(int fd, unsigned ifindex, uint32_t addr, uint32_t peer, struct err *err);
int nl_link_mtu(int fd, unsigned ifindex, uint32_t mtu, struct err *err);
/* A link of that kind without options; -EOPNOTSUPP: not supported by the kernel. */
int nl_link_add_kind(int fd, const char *name, const char *kind, struct err *err);
/* A route to dst/prefix over a link, through a gateway on that link (0: none). Replaces. */
struct nl_route {
	uint32_t dst, gateway; /* network byte order */
	uint8_t prefix;
	unsigned oif;
};
int nl_route_set(int fd, const struct nl_route *r, struct err *err);
/* Limits the link's outgoing bytes per second; 0 removes the limit. */
int nl_rate_set(int fd, unsigned ifindex, uint64_t bytes_per_s, struct err *err);
/* Moves a link into another namespace. */
int nl_link_move(int fd, unsigned ifindex, int ns, struct err *err);
