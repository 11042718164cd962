/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/priv_net.h - a slot's network configuration, sent by pandod to pando-priv
 *
 * Typed, so that pando-priv creates every nft text and every netlink message
 * itself: no part of a policy is passed on as text. Names are not sent; an
 * address is pinned to the number of the rule whose name it belongs to.
 * Addresses are in host byte order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct rd;

#define PRIV_RULES_MAX 64u         /* rules of one policy: one nft rule and perhaps one set each */
#define PRIV_PORTS_MAX 16u         /* port ranges of one rule */
#define PRIV_PINS_MAX 64u          /* addresses pinned by one answer */
#define PRIV_PIN_SETS_MAX 16u      /* rules one name may belong to */
#define PRIV_PIN_TTL_MAX 86400u    /* seconds */
#define PRIV_BLOCKED_MAX 256u      /* destinations remembered in a slot */
#define PRIV_KBIT_MAX (100u << 20) /* 100 Gbit/s */
#define PRIV_GATEWAY 0x0a000001u   /* 10.0.0.1, in every slot */
#define PRIV_GUEST 0x0a000002u     /* 10.0.0.2, likewise */
#define PRIV_SITE_PORT 3128u       /* of the gateway: the way to the site's proxy, mirrors */
#define PRIV_PROXY_PORT 3129u      /* of the gateway: where redirected connections arrive */
#define PRIV_VPCS_LIMIT 1024u      /* VPCs of one instance */
#define PRIV_WG_PEERS_MAX 256u     /* tunnels into one VPC */
#define PRIV_WG_KEY_LEN 32u
#define PRIV_FRESH_MAX 7200u /* seconds */

enum priv_egress_mode { PRIV_EGRESS_OPEN, PRIV_EGRESS_CLOSED, PRIV_EGRESS_RULES };
enum priv_rule_kind { PRIV_RULE_ANY, PRIV_RULE_CIDR, PRIV_RULE_PINNED };

struct priv_rule {
	bool allow;
	enum priv_rule_kind kind;
	uint32_t addr;   /* PRIV_RULE_CIDR */
	uint8_t prefix;  /* PRIV_RULE_CIDR */
	uint8_t n_ports; /* 0: all */
	struct {
		uint16_t lo, hi;
	} ports[PRIV_PORTS_MAX];
};

/* Everything the slot's rules depend on; applied as a whole, in one transaction. */
struct priv_egress {
	enum priv_egress_mode mode;
	bool proxy_http, proxy_tls;  /* tcp 80, 443 go to the proxy, which decides by name */
	uint32_t mark;               /* of flows this policy allowed: others are checked again */
	uint32_t up_kbit, down_kbit; /* 0: no limit */
	uint32_t vpc_addr;           /* 0: in no VPC */
	uint32_t vpc_net;
	uint8_t vpc_prefix;
	uint32_t n_rules; /* mode RULES */
	struct priv_rule rules[PRIV_RULES_MAX];
};

struct priv_pin {
	uint32_t ttl_s;
	uint32_t n_rules, n_addrs;
	uint32_t rules[PRIV_PIN_SETS_MAX]; /* numbers of PRIV_RULE_PINNED rules */
	uint32_t addrs[PRIV_PINS_MAX];
};

struct priv_blocked {
	uint32_t addr;
	uint8_t proto;  /* IPPROTO_... */
	uint16_t port;  /* 0: the protocol has none */
	uint32_t age_s; /* since the last attempt */
};

/* The tunnel of one VPC with all its peers; without peers it is removed. */
struct priv_wg {
	uint16_t port;
	uint32_t server_ip;           /* inside the tunnel */
	uint8_t key[PRIV_WG_KEY_LEN]; /* private */
	uint32_t n_peers;
	struct priv_wg_peer {
		uint8_t key[PRIV_WG_KEY_LEN]; /* public */
		uint32_t ip;
	} peers[PRIV_WG_PEERS_MAX];
};

struct priv_vpc {
	uint32_t idx; /* < PRIV_VPCS_LIMIT */
	uint32_t net;
	uint8_t prefix;
};

/* A VM of a VPC that is being booted: for so long nobody hears that its ports are closed. */
struct priv_fresh {
	uint32_t addr;  /* in the VPC's range */
	uint32_t ttl_s; /* 0: not any more */
};

void priv_egress_put(const struct priv_egress *e, struct buf *b);
int priv_egress_get(struct rd *c, struct priv_egress *ret); /* 0 or -EBADMSG, all of them */
void priv_pin_put(const struct priv_pin *p, struct buf *b);
int priv_pin_get(struct rd *c, struct priv_pin *ret);
void priv_vpc_put(const struct priv_vpc *v, struct buf *b);
int priv_vpc_get(struct rd *c, struct priv_vpc *ret);
/* What a tunnel's interface knows of one peer. */
struct priv_wg_seen {
	uint8_t key[PRIV_WG_KEY_LEN]; /* public */
	uint64_t handshake_s;         /* of the last one, seconds since the epoch; 0: never */
	uint64_t rx_bytes, tx_bytes;  /* from and to the peer */
};
void priv_wg_seen_put(const struct priv_wg_seen *s, uint32_t n, struct buf *b);
int priv_wg_seen_get(struct rd *c, struct priv_wg_seen ret[PRIV_WG_PEERS_MAX], uint32_t *ret_n);

void priv_wg_put(const struct priv_wg *w, struct buf *b);
int priv_wg_get(struct rd *c, struct priv_wg *ret);
void priv_fresh_put(const struct priv_fresh *f, struct buf *b);
int priv_fresh_get(struct rd *c, const struct priv_vpc *v, struct priv_fresh *ret);
void priv_blocked_put(const struct priv_blocked *v, uint32_t n, struct buf *b);
int priv_blocked_get(struct rd *c, struct priv_blocked ret[PRIV_BLOCKED_MAX], uint32_t *ret_n);

/* A private range that a VPC may use: RFC 1918 or 100.64/10, and a network, not an address in
 * it. */
bool priv_vpc_valid(uint32_t net, uint8_t prefix);
/* First address of the tunnels' clients, a /16 in 100.64/10: no VPC may overlap it. */
#define PRIV_WG_NET 0x64600000u /* 100.96.0.0 */
#define PRIV_WG_PREFIX 16u

static inline uint32_t priv_mask(uint8_t prefix)
{
	return prefix ? 0xffffffffu << (32 - prefix) : 0;
}
