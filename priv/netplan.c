/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/netplan.c - names, addresses and nft texts of slots and host
 *
 * What the rules say. Inside a slot: only frames of the guest's own MAC and
 * address enter; the guest may ask the forwarder at its gateway, ping the
 * gateway, and go out to public addresses; only answers come back; sockets that
 * we made in the slot may talk to the guest and to nothing else. On the host:
 * nothing from a slot reaches the host itself, another slot, or any link that is
 * not an uplink, and nothing but answers enters a slot. The host's rules repeat
 * the refusal of private ranges, because other tables may rewrite destinations
 * (published container ports do) after the slot's own check.
 */
#include "priv/netplan.h"

#include <assert.h>
#include <stdio.h>

#include "base/buf.h"
#include "wire/priv.h"

#define NET_FLOWS_MAX 4096 /* tracked flows of one guest: keeps the host's table from filling */
#define NET_PINGS_PER_S 50 /* answered by the gateway */

static const char denied[] = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, "
                             "172.16.0.0/12, 192.168.0.0/16, 224.0.0.0/4, 240.0.0.0/4";

struct net_slot net_slot_plan(const char *tag, uint32_t block, uint32_t idx)
{
	struct net_slot s = { .host_ip = block + idx * 4 + 1, .slot_ip = block + idx * 4 + 2 };

	assert(idx < PRIV_SLOTS_LIMIT);
	snprintf(s.veth, sizeof(s.veth), "pn%.8s-%u", tag, idx & (PRIV_SLOTS_LIMIT - 1));
	return s;
}

const char *net_ip_text(uint32_t ip, char buf[16])
{
	snprintf(buf, 16, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
	return buf;
}

void net_slot_rules(struct buf *out)
{
	buf_printf(out,
	           "table netdev pando {\n"
	           "\tchain guest {\n"
	           "\t\ttype filter hook ingress device \"" NET_TAP "\" priority 0; policy drop;\n"
	           "\t\tether saddr != " NET_GUEST_MAC " drop\n"
	           "\t\tether type arp arp saddr ip " NET_GUEST " accept\n"
	           "\t\tether type ip ip saddr " NET_GUEST " accept\n"
	           "\t}\n"
	           "}\n"
	           "table inet pando {\n"
	           "\tset denied {\n"
	           "\t\ttype ipv4_addr; flags interval;\n"
	           "\t\telements = { %s }\n"
	           "\t}\n"
	           "\tchain input {\n"
	           "\t\ttype filter hook input priority 0; policy drop;\n"
	           "\t\tct state established,related accept\n"
	           "\t\tiifname != \"" NET_TAP "\" drop\n"
	           "\t\tip daddr != " NET_GATEWAY " drop\n"
	           "\t\tmeta l4proto { tcp, udp } th dport 53 accept\n"
	           "\t\ticmp type echo-request limit rate %d/second accept\n"
	           "\t}\n",
	           denied, NET_PINGS_PER_S);
	buf_printf(out,
	           "\tchain pass {\n"
	           "\t\ttype filter hook forward priority 0; policy drop;\n"
	           "\t\ttcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu\n"
	           "\t\tct state established,related accept\n"
	           "\t\tct state invalid drop\n"
	           "\t\tiifname != \"" NET_TAP "\" drop\n"
	           "\t\toifname != \"" NET_PEER "\" drop\n"
	           "\t\tip daddr @denied reject with icmpx type admin-prohibited\n"
	           "\t\tct count over %d drop\n"
	           "\t\tip saddr " NET_GUEST " accept\n"
	           "\t}\n"
	           "\tchain output {\n"
	           "\t\ttype filter hook output priority 0; policy drop;\n"
	           "\t\toifname \"" NET_TAP "\" ip daddr " NET_GUEST " accept\n"
	           "\t}\n"
	           "\tchain leave {\n"
	           "\t\ttype nat hook postrouting priority srcnat; policy accept;\n"
	           "\t\toifname \"" NET_PEER "\" masquerade\n"
	           "\t}\n"
	           "}\n",
	           NET_FLOWS_MAX);
}

void net_host_remove_rules(const char *tag, struct buf *out)
{
	/* Adding it first makes the removal right whether it was there or not. */
	buf_printf(out, "add table inet pando_%s\ndelete table inet pando_%s\n", tag, tag);
}

void net_host_rules(const struct net_host *h, struct buf *out)
{
	char block[16];

	net_ip_text(h->block, block);
	net_host_remove_rules(h->tag, out);
	buf_printf(out,
	           "table inet pando_%s {\n"
	           "\tset uplinks {\n"
	           "\t\ttype ifname;\n",
	           h->tag);
	for (size_t i = 0; i < h->n_uplinks; i++)
		buf_printf(out, "%s\"%s\"%s", i ? ", " : "\t\telements = { ", h->uplinks[i],
		           i + 1 == h->n_uplinks ? " }\n" : "");
	buf_printf(out,
	           "\t}\n"
	           "\tset denied {\n"
	           "\t\ttype ipv4_addr; flags interval;\n"
	           "\t\telements = { %s }\n"
	           "\t}\n"
	           "\tchain input {\n"
	           "\t\ttype filter hook input priority -10; policy accept;\n"
	           "\t\tiifname \"pn%s-*\" drop\n"
	           "\t}\n"
	           "\tchain from_slot {\n"
	           "\t\tmeta nfproto ipv6 drop\n"
	           "\t\tip saddr != %s/%u drop\n"
	           "\t\toifname != @uplinks drop\n"
	           "\t\tip daddr @denied drop\n"
	           "\t}\n"
	           "\tchain pass {\n"
	           "\t\ttype filter hook forward priority -10; policy accept;\n"
	           "\t\tiifname \"pn%s-*\" jump from_slot\n"
	           "\t\toifname \"pn%s-*\" ct state established,related accept\n"
	           "\t\toifname \"pn%s-*\" drop\n"
	           "\t}\n"
	           "\tchain leave {\n"
	           "\t\ttype nat hook postrouting priority srcnat; policy accept;\n"
	           "\t\tip saddr %s/%u oifname @uplinks masquerade\n"
	           "\t}\n"
	           "}\n",
	           denied, h->tag, block, NET_BLOCK_PREFIX, h->tag, h->tag, h->tag, block,
	           NET_BLOCK_PREFIX);
}
