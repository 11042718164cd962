/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/netplan.c - names and addresses of slots, nft text of the host
 *
 * The rules (those inside a slot: slotplan.c): on the host,
 * nothing from a slot reaches the host itself, another slot, or any link that is
 * not an uplink, and only answers enter a slot. The host's rules repeat
 * the blocking of private ranges, because other tables may rewrite destinations
 * (published container ports do) after the slot's own check.
 */
#include "priv/netplan.h"

#include <assert.h>
#include <stdio.h>

#include "base/buf.h"
#include "wire/priv.h"

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

void net_host_remove_rules(const char *tag, struct buf *out)
{
	/* Adding it first makes the removal succeed whether or not it existed. */
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
	           NET_DENIED, h->tag, block, NET_BLOCK_PREFIX, h->tag, h->tag, h->tag, block,
	           NET_BLOCK_PREFIX);
}
