/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/netplan.h - the network of an instance, as data
 *
 * Pure functions of the instance: names, addresses and nft texts.
 * Only slotnet.c and hostnet.c carry the plan out.
 */
#pragma once

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/priv_net.h"

struct buf;

#define NET_BLOCK_PREFIX 20u /* each instance has a /20 of the pool */
#define NET_BLOCKS 16u       /* of them in the pool, a /16 */
#define NET_POOL_DEFAULT "10.231.0.0"
#define NET_UPLINKS_MAX 8u

/* Inside its slot every guest sees the same two addresses and the same gateway MAC. */
#define NET_TAP "tap0"
#define NET_PEER "eth0"
#define NET_GATEWAY "10.0.0.1"
#define NET_GUEST "10.0.0.2"
#define NET_GUEST_MAC "02:50:4e:44:4f:02"
#define NET_GATEWAY_MAC_BYTES                      \
	{                                          \
		0x02, 0x50, 0x4e, 0x44, 0x4f, 0x01 \
	}
#define NET_LINK_PREFIX 30u
/* The link between a slot and its VPC: the same two addresses on every one, no subnet. */
#define NET_VPC_LINK "vpc0"
#define NET_VPC_ROUTER "169.254.1.1"
#define NET_VPC_SLOT "169.254.1.2"
#define NET_WAKE_LINK "wake0" /* where packets for VMs that do not run arrive */
#define NET_WG_PREFIX "pw"    /* of the names of tunnels' links */
#define NET_WG_LINK NET_WG_PREFIX "*"

/* Addresses are in host byte order. */
struct net_slot {
	char veth[IFNAMSIZ]; /* host side */
	uint32_t host_ip;    /* host side, the gateway of the slot */
	uint32_t slot_ip;    /* slot side: how this slot appears outside */
};

/* block: first address of the instance's /20; idx < PRIV_SLOTS_LIMIT. */
struct net_slot net_slot_plan(const char *tag, uint32_t block, uint32_t idx);
/* "10.231.0.2" */
const char *net_ip_text(uint32_t ip, char buf[16]);

/* Blocked for all guests: private ranges, metadata services, multicast. */
#define NET_DENIED                                                                           \
	"0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, " \
	"192.168.0.0/16, 224.0.0.0/4, 240.0.0.0/4"

/* Rules inside a slot (slotplan.c); e NULL: those of a new slot, open. Replaces existing rules. */
void net_slot_rules(const struct priv_egress *e, struct buf *out);
/* Adds addresses to the sets of the rules they belong to, or renews their time to live. */
void net_slot_pin(const struct priv_pin *p, struct buf *out);
#define NET_BLOCKED_LIST "list set inet pando blocked"
#define NET_BLOCKED_TTL_S 3600u
/* Parses the output of NET_BLOCKED_LIST; returns the number of entries. */
uint32_t net_slot_blocked(const char *text, struct priv_blocked ret[]);
/* Rules of a VPC's namespace. */
void net_vpc_rules(const struct priv_vpc *v, struct buf *out);
/* Adds an address to their set of fresh ones, renews its time to live, or removes it. */
void net_vpc_fresh(const struct priv_fresh *f, struct buf *out);

struct net_host {
	const char *tag;
	uint32_t block;
	char uplinks[NET_UPLINKS_MAX][IFNAMSIZ]; /* links with a default route */
	size_t n_uplinks;
};
/* Rules of the instance in the host's namespace; replaces the table in one transaction. */
void net_host_rules(const struct net_host *h, struct buf *out);
/* Removes it. */
void net_host_remove_rules(const char *tag, struct buf *out);
