/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/slotplan.c - nft texts of slots and VPCs
 *
 * The rules of a slot: only frames with the guest's own MAC and addresses
 * enter. The guest may query the forwarder at its gateway, ping the gateway, reach
 * its VPC from its address there, and connect to public addresses as its policy
 * allows; only answers come back; sockets that we created in the slot may talk to
 * the guest and, with a proxy, to public addresses. Ports 80 and 443 of the gateway are this
 * server's own names, and one more is the way to the site's own proxy: connections to them go to
 * the proxy, whatever the policy.
 *
 * A policy is replaced in one transaction, table and all. Flows carry the mark of
 * the policy that allowed them: after a change every packet of an old flow
 * is checked again, so nothing continues only because it was
 * allowed before. A rule by name is a set of addresses with times to live
 * that the DNS forwarder fills. With a proxy, connections to ports 80 and 443
 * are redirected to it before any of this: it knows the names. UDP to port
 * 443 carries names that cannot be read, so it passes by address rules only.
 * Blocked destinations are recorded in a set, for an hour each.
 */
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "priv/netplan.h"

#define NET_FLOWS_MAX 4096   /* tracked flows of one guest: keeps the host's table from filling */
#define NET_PROXIED_MAX 512  /* of them to the proxy */
#define NET_PINGS_PER_S 50   /* answered by the gateway */
#define NET_PINS_MAX 4096    /* addresses of one rule */
#define NET_KNOCKS_PER_S 200 /* packets of one VPC for VMs that do not run: pandod reads them */
#define NET_FRESH_MAX 1024   /* VMs of one VPC that a packet booted a moment ago */

static const struct priv_egress as_built = { .mode = PRIV_EGRESS_OPEN, .mark = 1 };

/* Only the guest's own addresses enter; adding before deleting works whether or not it existed. */
static void frames(const struct priv_egress *e, struct buf *out)
{
	char ip[16];

	buf_printf(out,
	           "add table netdev pando\ndelete table netdev pando\n"
	           "table netdev pando {\n"
	           "\tchain guest {\n"
	           "\t\ttype filter hook ingress device \"" NET_TAP "\" priority 0; policy drop;\n"
	           "\t\tether saddr != " NET_GUEST_MAC " drop\n"
	           "\t\tether type arp arp saddr ip " NET_GUEST " accept\n"
	           "\t\tether type ip ip saddr " NET_GUEST " accept\n");
	if (e->vpc_addr)
		buf_printf(out,
		           "\t\tether type arp arp saddr ip %s accept\n"
		           "\t\tether type ip ip saddr %s accept\n",
		           net_ip_text(e->vpc_addr, ip), ip);
	buf_printf(out, "\t}\n}\n");
}

static void sets(const struct priv_egress *e, struct buf *out)
{
	buf_printf(out,
	           "\tset denied {\n"
	           "\t\ttype ipv4_addr; flags interval;\n"
	           "\t\telements = { " NET_DENIED " }\n"
	           "\t}\n"
	           "\tset blocked {\n"
	           "\t\ttype ipv4_addr . inet_proto . inet_service; size %u;\n"
	           "\t\tflags dynamic,timeout; timeout %us;\n"
	           "\t}\n",
	           PRIV_BLOCKED_MAX, NET_BLOCKED_TTL_S);
	for (uint32_t i = 0; e->mode == PRIV_EGRESS_RULES && i < e->n_rules; i++)
		if (e->rules[i].kind == PRIV_RULE_PINNED)
			buf_printf(
			        out,
			        "\tset d%u {\n\t\ttype ipv4_addr; size %d; flags timeout;\n\t}\n",
			        i, NET_PINS_MAX);
}

/* "th dport { 80, 8000-8080 } ", or nothing for all ports. */
static void ports(const struct priv_rule *r, struct buf *out)
{
	if (!r->n_ports)
		return;
	buf_printf(out, "meta l4proto { tcp, udp } th dport { ");
	for (unsigned i = 0; i < r->n_ports; i++)
		buf_printf(out, r->ports[i].lo == r->ports[i].hi ? "%s%u" : "%s%u-%u",
		           i ? ", " : "", r->ports[i].lo, r->ports[i].hi);
	buf_printf(out, " } ");
}

static void rule(const struct priv_rule *r, uint32_t n, struct buf *out)
{
	const char *verdict = r->allow ? "goto allow" : "goto refuse";
	char ip[16];

	buf_printf(out, "\t\t");
	if (r->kind == PRIV_RULE_CIDR && r->prefix)
		buf_printf(out, "ip daddr %s/%u ", net_ip_text(r->addr, ip), r->prefix);
	if (r->kind == PRIV_RULE_PINNED) {
		buf_printf(out, "ip daddr @d%u ", n);
		/* The name cannot be read: clients fall back to TCP. */
		if (r->allow)
			buf_printf(out, "udp dport 443 goto refuse\n\t\tip daddr @d%u ", n);
	}
	ports(r, out);
	buf_printf(out, "%s\n", verdict);
}

/* Chains for the guest's outgoing traffic. */
static void verdicts(const struct priv_egress *e, struct buf *out)
{
	buf_printf(
	        out,
	        "\tchain refuse {\n"
	        "\t\tmeta l4proto { tcp, udp } update @blocked { ip daddr . meta l4proto . th "
	        "dport }\n"
	        "\t\tmeta l4proto != { tcp, udp } update @blocked { ip daddr . meta l4proto . 0 }\n"
	        "\t\tmeta l4proto tcp reject with tcp reset\n"
	        "\t\treject with icmpx type admin-prohibited\n"
	        "\t}\n"
	        "\tchain allow {\n"
	        "\t\tct mark set %" PRIu32 "\n"
	        "\t\taccept\n"
	        "\t}\n"
	        "\tchain policy_ {\n",
	        e->mark);
	if (e->mode == PRIV_EGRESS_OPEN)
		buf_printf(out, "\t\tgoto allow\n");
	for (uint32_t i = 0; e->mode == PRIV_EGRESS_RULES && i < e->n_rules; i++)
		rule(&e->rules[i], i, out);
	if (e->mode != PRIV_EGRESS_OPEN)
		buf_printf(out, "\t\tgoto refuse\n");
	buf_printf(out, "\t}\n");
}

static void input(struct buf *out)
{
	buf_printf(out, "\tchain input {\n"
	                "\t\ttype filter hook input priority 0; policy drop;\n"
	                "\t\tct state established,related accept\n"
	                "\t\tiifname != \"" NET_TAP "\" drop\n"
	                "\t\tip daddr != " NET_GATEWAY " drop\n");
	/* From every address of the guest; frames() has checked that it is one. */
	buf_printf(out,
	           "\t\ttcp dport %u ct status dnat ct count over %d drop\n"
	           "\t\ttcp dport %u ct status dnat accept\n",
	           PRIV_PROXY_PORT, NET_PROXIED_MAX, PRIV_PROXY_PORT);
	buf_printf(out,
	           "\t\tip saddr != " NET_GUEST " drop\n"
	           "\t\tmeta l4proto { tcp, udp } th dport 53 ct count over %d drop\n"
	           "\t\tmeta l4proto { tcp, udp } th dport 53 accept\n",
	           NET_FLOWS_MAX);
	buf_printf(out, "\t\ticmp type echo-request limit rate %d/second accept\n\t}\n",
	           NET_PINGS_PER_S);
}

/* Between the guest and its VPC: from its own address there, within the range, both ways. */
static void pass_vpc(const struct priv_egress *e, struct buf *out)
{
	char net[16], ip[16];

	if (!e->vpc_addr) {
		return;
	}
	net_ip_text(e->vpc_net, net);
	net_ip_text(e->vpc_addr, ip);
	buf_printf(out,
	           "\t\tiifname \"" NET_TAP "\" oifname \"" NET_VPC_LINK "\" ip saddr %s ip daddr "
	           "{ %s/%u, 100.96.0.0/16 } ct count over %d drop\n"
	           "\t\tiifname \"" NET_TAP "\" oifname \"" NET_VPC_LINK "\" ip saddr %s ip daddr "
	           "{ %s/%u, 100.96.0.0/16 } accept\n"
	           "\t\tiifname \"" NET_VPC_LINK "\" oifname \"" NET_TAP "\" ip daddr %s ip saddr "
	           "{ %s/%u, 100.96.0.0/16 } accept\n",
	           ip, net, e->vpc_prefix, NET_FLOWS_MAX, ip, net, e->vpc_prefix, ip, net,
	           e->vpc_prefix);
}

static void pass(const struct priv_egress *e, struct buf *out)
{
	buf_printf(out, "\tchain pass {\n"
	                "\t\ttype filter hook forward priority 0; policy drop;\n"
	                "\t\ttcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu\n"
	                "\t\tct state invalid drop\n");
	pass_vpc(e, out);
	buf_printf(out,
	           "\t\tct state established,related ct mark %" PRIu32 " accept\n"
	           "\t\tiifname != \"" NET_TAP "\" drop\n"
	           "\t\tip daddr @denied goto refuse\n"
	           "\t\toifname != \"" NET_PEER "\" drop\n"
	           "\t\tct count over %d drop\n"
	           "\t\tip saddr " NET_GUEST " goto policy_\n",
	           e->mark, NET_FLOWS_MAX);
	if (e->vpc_addr) {
		char ip[16];

		buf_printf(out, "\t\tip saddr %s goto policy_\n", net_ip_text(e->vpc_addr, ip));
	}
	buf_printf(out, "\t}\n");
}

void net_slot_rules(const struct priv_egress *e, struct buf *out)
{
	char ip[16];
	bool proxy;

	e = e ? e : &as_built;
	proxy = e->proxy_http || e->proxy_tls;
	frames(e, out);
	buf_printf(out, "add table inet pando\ndelete table inet pando\ntable inet pando {\n");
	sets(e, out);
	verdicts(e, out);
	input(out);
	pass(e, out);
	buf_printf(out, "\tchain output {\n"
	                "\t\ttype filter hook output priority 0; policy drop;\n"
	                "\t\toifname \"" NET_TAP "\" ip daddr " NET_GUEST " accept\n");
	if (proxy)
		buf_printf(out, "\t\toifname \"" NET_PEER
		                "\" ip daddr != @denied meta l4proto tcp accept\n");
	if (e->vpc_addr)
		buf_printf(out,
		           "\t\toifname \"" NET_TAP
		           "\" ip daddr %s ct state established ct status dnat accept\n",
		           net_ip_text(e->vpc_addr, ip));
	buf_printf(out, "\t}\n"
	                "\tchain leave {\n"
	                "\t\ttype nat hook postrouting priority srcnat; policy accept;\n"
	                "\t\toifname \"" NET_PEER "\" masquerade\n"
	                "\t}\n");
	buf_printf(out,
	           "\tchain turn {\n"
	           "\t\ttype nat hook prerouting priority dstnat; policy accept;\n"
	           "\t\tiifname \"" NET_TAP "\" ip daddr " NET_GATEWAY
	           " tcp dport { 80, 443, %u } redirect to :%u\n",
	           PRIV_SITE_PORT, PRIV_PROXY_PORT);
	if (proxy)
		buf_printf(out,
		           "\t\tiifname \"" NET_TAP
		           "\" ip daddr != @denied tcp dport { %s } redirect to :%u\n",
		           !e->proxy_http  ? "443"
		           : !e->proxy_tls ? "80"
		                           : "80, 443",
		           PRIV_PROXY_PORT);
	buf_printf(out, "\t}\n}\n");
}

void net_slot_pin(const struct priv_pin *p, struct buf *out)
{
	char ip[16];

	for (uint32_t i = 0; i < p->n_rules; i++)
		for (uint32_t k = 0; k < p->n_addrs; k++) {
			net_ip_text(p->addrs[k], ip);
			/* An existing element would keep its old timeout, so it is deleted and
			 * added again. */
			buf_printf(out,
			           "add element inet pando d%u { %s }\n"
			           "delete element inet pando d%u { %s }\n"
			           "add element inet pando d%u { %s timeout %us }\n",
			           p->rules[i], ip, p->rules[i], ip, p->rules[i], ip, p->ttl_s);
		}
}

/* "59m58s120ms" in seconds; 0 for what it cannot parse. */
static uint32_t seconds(const char *s)
{
	uint64_t sum = 0;

	while (*s >= '0' && *s <= '9') {
		char *end;
		uint64_t v = strtoull(s, &end, 10);

		if (!strncmp(end, "ms", 2)) {
			break;
		}
		sum += v * (*end == 'h' ? 3600u : *end == 'm' ? 60u : *end == 's' ? 1u : 0u);
		s = *end ? end + 1 : end;
	}
	return sum > NET_BLOCKED_TTL_S ? NET_BLOCKED_TTL_S : (uint32_t)sum;
}

uint32_t net_slot_blocked(const char *text, struct priv_blocked ret[])
{
	const char *p = strstr(text, "elements = {");
	uint32_t n = 0;

	while (p && n < PRIV_BLOCKED_MAX) {
		unsigned a, b, c, d, proto, port;
		const char *expires;

		p += strcspn(p, "{,") + 1;
		p += strspn(p, " \t\n");
		if (sscanf(p, "%3u.%3u.%3u.%3u . %3u . %5u", &a, &b, &c, &d, &proto, &port) != 6)
			break;
		ret[n] = (struct priv_blocked){ .addr = (a & 255) << 24 | (b & 255) << 16 |
			                                (c & 255) << 8 | (d & 255),
			                        .proto = (uint8_t)proto,
			                        .port = (uint16_t)port };
		expires = strstr(p, "expires ");
		if (expires)
			ret[n].age_s = NET_BLOCKED_TTL_S - seconds(expires + strlen("expires "));
		n++;
		p = strpbrk(p, ",}");
		if (!p || *p == '}')
			break;
	}
	return n;
}

/*
 * In the VPC's namespace: links of slots are called "s<slot>"; each carries
 * exactly its VM's address, which the slot has checked, and the route back
 * agrees (fib). Tunnels reach VMs; VMs answer tunnels, and reach each other.
 * What is for an address without a link goes to pandod, which wakes its VM and
 * sends it back through the same device, to the VM's link and nowhere else:
 * nothing can go round in circles. A VM that is booted for such a packet has
 * no service at first: that it refuses a connection (a reset with the sequence
 * number 0) is not passed on, so that the client asks again.
 */
void net_vpc_rules(const struct priv_vpc *v, struct buf *out)
{
	char range[64], net[16];

	snprintf(range, sizeof(range), "{ %s/%u, 100.96.0.0/16 }", net_ip_text(v->net, net),
	         v->prefix);
	buf_printf(out,
	           "add table inet pando\ndelete table inet pando\n"
	           "table inet pando {\n"
	           "\tset fresh {\n"
	           "\t\ttype ipv4_addr; size %d; flags timeout;\n"
	           "\t}\n"
	           "\tchain input {\n"
	           "\t\ttype filter hook input priority 0; policy drop;\n"
	           "\t\tiifname \"" NET_WG_LINK
	           "\" icmp type echo-request limit rate %d/second accept\n"
	           "\t}\n"
	           "\tchain pass {\n"
	           "\t\ttype filter hook forward priority 0; policy drop;\n"
	           "\t\ttcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu\n"
	           "\t\tip daddr != %s drop\n"
	           "\t\tiifname \"" NET_WAKE_LINK "\" oifname \"s*\" ip saddr %s accept\n"
	           "\t\tfib saddr . iif oif missing drop\n"
	           "\t\tip saddr @fresh tcp flags & rst == rst tcp sequence 0 drop\n"
	           "\t\toifname \"s*\" ip saddr %s accept\n",
	           NET_FRESH_MAX, NET_PINGS_PER_S, range, range, range);
	buf_printf(out,
	           "\t\tiifname != \"" NET_WAKE_LINK "\" oifname \"" NET_WAKE_LINK
	           "\" ip saddr %s limit rate %d/second burst %d packets accept\n"
	           "\t\tiifname \"s*\" oifname \"" NET_WG_LINK
	           "\" ct state established,related accept\n"
	           "\t}\n"
	           "\tchain output {\n"
	           "\t\ttype filter hook output priority 0; policy drop;\n"
	           "\t\toifname \"" NET_WG_LINK "\" accept\n"
	           "\t}\n"
	           "}\n",
	           range, NET_KNOCKS_PER_S, NET_KNOCKS_PER_S);
}

void net_vpc_fresh(const struct priv_fresh *f, struct buf *out)
{
	char ip[16];

	net_ip_text(f->addr, ip);
	buf_printf(out,
	           "add element inet pando fresh { %s }\n"
	           "delete element inet pando fresh { %s }\n",
	           ip, ip);
	if (f->ttl_s)
		buf_printf(out, "add element inet pando fresh { %s timeout %us }\n", ip, f->ttl_s);
}
