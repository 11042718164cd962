/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/priv_net.c - policies, pins, VPCs and tunnels as bytes
 *
 * Decoded as root from bytes of an unprivileged process: every count is checked
 * before it is used, every number against what an nft text may contain.
 */
#include "wire/priv_net.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "wire/get.h"

#define VPC_PREFIX_MIN 8u
#define VPC_PREFIX_MAX 29u

static bool inside(uint32_t net, uint8_t prefix, uint32_t of, uint8_t of_prefix)
{
	return prefix >= of_prefix && (net & priv_mask(of_prefix)) == of;
}

bool priv_vpc_valid(uint32_t net, uint8_t prefix)
{
	if (prefix < VPC_PREFIX_MIN || prefix > VPC_PREFIX_MAX || (net & ~priv_mask(prefix)))
		return false;
	if (inside(net, prefix, PRIV_WG_NET, PRIV_WG_PREFIX) ||
	    inside(PRIV_WG_NET, PRIV_WG_PREFIX, net, prefix))
		return false;
	return inside(net, prefix, 0x0a000000u, 8) || inside(net, prefix, 0xac100000u, 12) ||
	       inside(net, prefix, 0xc0a80000u, 16) || inside(net, prefix, 0x64400000u, 10);
}

/* ---- policy ---- */

static void put_rule(const struct priv_rule *r, struct buf *b)
{
	buf_put_u8(b, r->allow);
	buf_put_u8(b, (uint8_t)r->kind);
	buf_put_u32(b, r->addr);
	buf_put_u8(b, r->prefix);
	buf_put_u8(b, r->n_ports);
	for (unsigned i = 0; i < r->n_ports && i < PRIV_PORTS_MAX; i++) {
		buf_put_u16(b, r->ports[i].lo);
		buf_put_u16(b, r->ports[i].hi);
	}
}

static int get_rule(struct rd *c, struct priv_rule *r)
{
	uint8_t kind;

	if (get_bool(c, &r->allow) < 0 || rd_u8(c, &kind) < 0 || kind > PRIV_RULE_PINNED ||
	    rd_u32(c, &r->addr) < 0 || rd_u8(c, &r->prefix) < 0 || r->prefix > 32 ||
	    (r->addr & ~priv_mask(r->prefix)) || rd_u8(c, &r->n_ports) < 0 ||
	    r->n_ports > PRIV_PORTS_MAX)
		return -EBADMSG;
	r->kind = (enum priv_rule_kind)kind;
	for (unsigned i = 0; i < r->n_ports; i++)
		if (rd_u16(c, &r->ports[i].lo) < 0 || rd_u16(c, &r->ports[i].hi) < 0 ||
		    r->ports[i].lo < 1 || r->ports[i].lo > r->ports[i].hi)
			return -EBADMSG;
	return 0;
}

void priv_egress_put(const struct priv_egress *e, struct buf *b)
{
	buf_put_u8(b, (uint8_t)e->mode);
	buf_put_u8(b, e->proxy_http);
	buf_put_u8(b, e->proxy_tls);
	buf_put_u32(b, e->mark);
	buf_put_u32(b, e->up_kbit);
	buf_put_u32(b, e->down_kbit);
	buf_put_u32(b, e->vpc_addr);
	buf_put_u32(b, e->vpc_net);
	buf_put_u8(b, e->vpc_prefix);
	buf_put_u32(b, e->n_rules);
	for (uint32_t i = 0; i < e->n_rules && i < PRIV_RULES_MAX; i++)
		put_rule(&e->rules[i], b);
}

int priv_egress_get(struct rd *c, struct priv_egress *e)
{
	uint8_t mode;

	if (rd_u8(c, &mode) < 0 || mode > PRIV_EGRESS_RULES || get_bool(c, &e->proxy_http) < 0 ||
	    get_bool(c, &e->proxy_tls) < 0 || rd_u32(c, &e->mark) < 0 || !e->mark ||
	    rd_u32(c, &e->up_kbit) < 0 || e->up_kbit > PRIV_KBIT_MAX ||
	    rd_u32(c, &e->down_kbit) < 0 || e->down_kbit > PRIV_KBIT_MAX ||
	    rd_u32(c, &e->vpc_addr) < 0 || rd_u32(c, &e->vpc_net) < 0 ||
	    rd_u8(c, &e->vpc_prefix) < 0 || rd_u32(c, &e->n_rules) < 0 ||
	    e->n_rules > PRIV_RULES_MAX)
		return -EBADMSG;
	e->mode = (enum priv_egress_mode)mode;
	if (e->vpc_addr && (!priv_vpc_valid(e->vpc_net, e->vpc_prefix) ||
	                    (e->vpc_addr & priv_mask(e->vpc_prefix)) != e->vpc_net))
		return -EBADMSG;
	for (uint32_t i = 0; i < e->n_rules; i++)
		if (get_rule(c, &e->rules[i]) < 0)
			return -EBADMSG;
	return 0;
}

/* ---- pins ---- */

static void put_u32s(const uint32_t *v, uint32_t n, struct buf *b)
{
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_u32(b, v[i]);
}

static int get_u32s(struct rd *c, uint32_t *v, uint32_t max, uint32_t *ret_n)
{
	if (rd_u32(c, ret_n) < 0 || *ret_n > max)
		return -EBADMSG;
	for (uint32_t i = 0; i < *ret_n; i++)
		if (rd_u32(c, &v[i]) < 0)
			return -EBADMSG;
	return 0;
}

void priv_pin_put(const struct priv_pin *p, struct buf *b)
{
	buf_put_u32(b, p->ttl_s);
	put_u32s(p->rules, p->n_rules, b);
	put_u32s(p->addrs, p->n_addrs, b);
}

int priv_pin_get(struct rd *c, struct priv_pin *p)
{
	if (rd_u32(c, &p->ttl_s) < 0 || p->ttl_s < 1 || p->ttl_s > PRIV_PIN_TTL_MAX ||
	    get_u32s(c, p->rules, PRIV_PIN_SETS_MAX, &p->n_rules) < 0 ||
	    get_u32s(c, p->addrs, PRIV_PINS_MAX, &p->n_addrs) < 0)
		return -EBADMSG;
	for (uint32_t i = 0; i < p->n_rules; i++)
		if (p->rules[i] >= PRIV_RULES_MAX)
			return -EBADMSG;
	return 0;
}

/* ---- VPCs and tunnels ---- */

void priv_vpc_put(const struct priv_vpc *v, struct buf *b)
{
	buf_put_u32(b, v->idx);
	buf_put_u32(b, v->net);
	buf_put_u8(b, v->prefix);
}

int priv_vpc_get(struct rd *c, struct priv_vpc *v)
{
	if (rd_u32(c, &v->idx) < 0 || v->idx >= PRIV_VPCS_LIMIT || rd_u32(c, &v->net) < 0 ||
	    rd_u8(c, &v->prefix) < 0 || !priv_vpc_valid(v->net, v->prefix))
		return -EBADMSG;
	return 0;
}

void priv_fresh_put(const struct priv_fresh *f, struct buf *b)
{
	buf_put_u32(b, f->addr);
	buf_put_u32(b, f->ttl_s);
}

int priv_fresh_get(struct rd *c, const struct priv_vpc *v, struct priv_fresh *f)
{
	if (rd_u32(c, &f->addr) < 0 || (f->addr & priv_mask(v->prefix)) != v->net ||
	    rd_u32(c, &f->ttl_s) < 0 || f->ttl_s > PRIV_FRESH_MAX)
		return -EBADMSG;
	return 0;
}

void priv_wg_put(const struct priv_wg *w, struct buf *b)
{
	buf_put_u16(b, w->port);
	buf_put_u32(b, w->server_ip);
	buf_put(b, w->key, sizeof(w->key));
	buf_put_u32(b, w->n_peers);
	for (uint32_t i = 0; i < w->n_peers && i < PRIV_WG_PEERS_MAX; i++) {
		buf_put(b, w->peers[i].key, sizeof(w->peers[i].key));
		buf_put_u32(b, w->peers[i].ip);
	}
}

static bool tunnel_ip(uint32_t ip)
{
	return inside(ip, 32, PRIV_WG_NET, PRIV_WG_PREFIX);
}

int priv_wg_get(struct rd *c, struct priv_wg *w)
{
	if (rd_u16(c, &w->port) < 0 || w->port < 1024 || rd_u32(c, &w->server_ip) < 0 ||
	    !tunnel_ip(w->server_ip) || rd_bytes(c, w->key, sizeof(w->key)) < 0 ||
	    rd_u32(c, &w->n_peers) < 0 || w->n_peers > PRIV_WG_PEERS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < w->n_peers; i++)
		if (rd_bytes(c, w->peers[i].key, sizeof(w->peers[i].key)) < 0 ||
		    rd_u32(c, &w->peers[i].ip) < 0 || !tunnel_ip(w->peers[i].ip))
			return -EBADMSG;
	return 0;
}

void priv_wg_seen_put(const struct priv_wg_seen *s, uint32_t n, struct buf *b)
{
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		buf_put(b, s[i].key, sizeof(s[i].key));
		buf_put_u64(b, s[i].handshake_s);
		buf_put_u64(b, s[i].rx_bytes);
		buf_put_u64(b, s[i].tx_bytes);
	}
}

int priv_wg_seen_get(struct rd *c, struct priv_wg_seen ret[PRIV_WG_PEERS_MAX], uint32_t *ret_n)
{
	if (rd_u32(c, ret_n) < 0 || *ret_n > PRIV_WG_PEERS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < *ret_n; i++)
		if (rd_bytes(c, ret[i].key, sizeof(ret[i].key)) < 0 ||
		    rd_u64(c, &ret[i].handshake_s) < 0 || rd_u64(c, &ret[i].rx_bytes) < 0 ||
		    rd_u64(c, &ret[i].tx_bytes) < 0)
			return -EBADMSG;
	return 0;
}

/* ---- what was blocked ---- */

void priv_blocked_put(const struct priv_blocked *v, uint32_t n, struct buf *b)
{
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		buf_put_u32(b, v[i].addr);
		buf_put_u8(b, v[i].proto);
		buf_put_u16(b, v[i].port);
		buf_put_u32(b, v[i].age_s);
	}
}

int priv_blocked_get(struct rd *c, struct priv_blocked ret[PRIV_BLOCKED_MAX], uint32_t *ret_n)
{
	if (rd_u32(c, ret_n) < 0 || *ret_n > PRIV_BLOCKED_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < *ret_n; i++)
		if (rd_u32(c, &ret[i].addr) < 0 || rd_u8(c, &ret[i].proto) < 0 ||
		    rd_u16(c, &ret[i].port) < 0 || rd_u32(c, &ret[i].age_s) < 0)
			return -EBADMSG;
	return 0;
}
