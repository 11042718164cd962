/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.c - answers a query as an authoritative name server
 *
 * Theory of operation: the steps of RFC 1034 section 4.3.2 within one zone. A name delegated
 * by NS records gets a referral; a CNAME is followed as long as it stays in the zone; a name
 * that does not exist may match a wildcard; otherwise the zone's SOA denies its existence.
 * SOA and, unless the zone has NS records of its own, NS are synthesised. "Any" gets one set of
 * records (RFC 8482). Names are not compressed, except the question's, which is pointed to. Records
 * that do not fit are left out and the answer is marked as truncated, so that the client repeats
 * the query over TCP; answers over UDP are small in any case, so that forging a client's address
 * gains little.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "net/dns_msg.h"
#include "zone/zone_internal.h"

#define FLAG_QR 0x8000u
#define FLAG_AA 0x0400u
#define FLAG_TC 0x0200u
#define FLAG_RD 0x0100u
#define CLASS_IN 1u
#define TYPE_NS 2u
#define TYPE_CNAME 5u
#define TYPE_SOA 6u
#define TYPE_MX 15u
#define TYPE_TXT 16u
#define TYPE_AAAA 28u
#define TYPE_OPT 41u
#define TYPE_IXFR 251u
#define TYPE_AXFR 252u
#define TYPE_ANY 255u
#define UDP_PLAIN 512u /* without EDNS */
#define UDP_MAX 1232u  /* with: passes everywhere without fragmentation */
#define OPT_LEN 11u
#define BADVERS_HIGH 1u /* of rcode 16 */
#define CNAMES_MAX 8    /* followed for one question */
#define STRING_MAX 255u /* of a TXT record */
#define DENY_TTL 60u    /* how long resolvers may cache that a name does not exist */
#define NS_TTL 3600u
#define SOA_REFRESH 3600u
#define SOA_RETRY 600u
#define SOA_EXPIRE 604800u

static const uint16_t types[RECORD_KIND_MAX] = {
	[RECORD_A] = DNS_TYPE_A, [RECORD_AAAA] = TYPE_AAAA, [RECORD_CNAME] = TYPE_CNAME,
	[RECORD_TXT] = TYPE_TXT, [RECORD_NS] = TYPE_NS,     [RECORD_MX] = TYPE_MX,
};

enum part { ANSWER, AUTHORITY, ADDITIONAL, PARTS };

struct answer {
	const struct zone *z;
	const char *ns;
	const struct dns_query *q;
	struct buf b;
	size_t max;
	uint16_t count[PARTS];
	bool authoritative, cut_short;
	enum dns_rcode rcode;
};

/* ---- writing ---- */

static void put_name(struct buf *b, const char *name)
{
	while (*name) {
		size_t n = strcspn(name, ".");

		buf_put_u8(b, (uint8_t)n);
		buf_put(b, name, n);
		name += n + (name[n] == '.');
	}
	buf_put_u8(b, 0);
}

/* Writes a record up to its data, whose length end() fills in; owner NULL: the question's name. */
static size_t begin(struct answer *a, const char *owner, uint16_t type, uint32_t ttl)
{
	if (owner)
		put_name(&a->b, owner);
	else
		buf_put_u16(&a->b, 0xc000 | DNS_HEADER_LEN);
	buf_put_u16(&a->b, type);
	buf_put_u16(&a->b, CLASS_IN);
	buf_put_u32(&a->b, ttl);
	buf_put_u16(&a->b, 0);
	return a->b.len;
}

static void end(struct answer *a, size_t from, enum part part)
{
	if (!a->b.failed)
		put_be16(a->b.p + from - 2, (uint16_t)(a->b.len - from));
	a->count[part]++;
	if (a->b.len > a->max)
		a->cut_short = true;
}

static void put_text(struct buf *b, const char *text)
{
	for (size_t left = strlen(text), n; left; left -= n, text += n) {
		n = left < STRING_MAX ? left : STRING_MAX;
		buf_put_u8(b, (uint8_t)n);
		buf_put(b, text, n);
	}
}

static void put_address(struct buf *b, int family, const char *text)
{
	uint8_t addr[16] = { 0 };

	inet_pton(family, text, addr); /* it was written by inet_ntop() */
	buf_put(b, addr, family == AF_INET ? 4 : 16);
}

static void put_record(struct answer *a, const char *owner, const struct zone_record *rec,
                       enum part part)
{
	size_t from = begin(a, owner, types[rec->kind], rec->ttl);

	switch (rec->kind) {
	case RECORD_A:
		put_address(&a->b, AF_INET, rec->value);
		break;
	case RECORD_AAAA:
		put_address(&a->b, AF_INET6, rec->value);
		break;
	case RECORD_TXT:
		put_text(&a->b, rec->value);
		break;
	case RECORD_MX:
		buf_put_u16(&a->b, rec->priority);
		put_name(&a->b, rec->value);
		break;
	default:
		put_name(&a->b, rec->value);
	}
	end(a, from, part);
}

static void put_soa(struct answer *a, enum part part)
{
	char who[DOMAIN_SIZE + 16];
	size_t from = begin(a, a->z->name, TYPE_SOA, DENY_TTL);

	snprintf(who, sizeof(who), "hostmaster.%s", a->z->name);
	put_name(&a->b, a->ns);
	put_name(&a->b, strlen(who) < DOMAIN_SIZE ? who : a->z->name);
	buf_put_u32(&a->b, a->z->serial);
	buf_put_u32(&a->b, SOA_REFRESH);
	buf_put_u32(&a->b, SOA_RETRY);
	buf_put_u32(&a->b, SOA_EXPIRE);
	buf_put_u32(&a->b, DENY_TTL);
	end(a, from, part);
}

static void put_own_ns(struct answer *a, const char *owner)
{
	size_t from = begin(a, owner, TYPE_NS, NS_TTL);

	put_name(&a->b, a->ns);
	end(a, from, ANSWER);
}

/* ---- deciding ---- */

/* The records of one kind at a node; returns how many. */
static size_t put_kind(struct answer *a, const char *owner, struct zone_node node,
                       enum record_kind kind, enum part part)
{
	size_t n = 0;

	for (size_t i = 0; i < node.n && !a->cut_short; i++)
		if (node.first[i].kind == kind) {
			put_record(a, owner, &node.first[i], part);
			n++;
		}
	return n;
}

/* A referral, with glue addresses from the zone. */
static void refer(struct answer *a, const char *cut)
{
	struct zone_node node = zone_at(a->z, cut);
	char owner[2 * DOMAIN_SIZE], buf[DOMAIN_SIZE];

	snprintf(owner, sizeof(owner), "%s.%s", cut, a->z->name);
	a->authoritative = a->count[ANSWER] > 0;
	put_kind(a, owner, node, RECORD_NS, AUTHORITY);
	for (size_t i = 0; i < node.n; i++) {
		const char *rel = node.first[i].kind == RECORD_NS
		                          ? zone_relative(a->z, node.first[i].value, buf)
		                          : NULL;

		if (!rel)
			continue;
		put_kind(a, node.first[i].value, zone_at(a->z, rel), RECORD_A, ADDITIONAL);
		put_kind(a, node.first[i].value, zone_at(a->z, rel), RECORD_AAAA, ADDITIONAL);
	}
}

static size_t put_asked(struct answer *a, const char *owner, const char *rel, struct zone_node node)
{
	bool apex = strcmp(rel, "@") == 0;
	uint16_t type = a->q->type;
	size_t n = 0;

	if (type == TYPE_SOA && apex) {
		put_soa(a, ANSWER);
		return 1;
	}
	if (type == TYPE_ANY && node.n)
		return put_kind(a, owner, node, node.first[0].kind, ANSWER);
	for (int k = 0; k < RECORD_KIND_MAX; k++)
		if (types[k] == type)
			n += put_kind(a, owner, node, (enum record_kind)k, ANSWER);
	if (!n && apex && (type == TYPE_NS || type == TYPE_ANY)) {
		put_own_ns(a, owner);
		n = 1;
	}
	return n;
}

static const struct zone_record *cname_of(struct zone_node node)
{
	return node.n && node.first[0].kind == RECORD_CNAME ? &node.first[0] : NULL;
}

static void decide(struct answer *a, const char *name)
{
	const char *owner = NULL; /* for put_record() */
	char buf[DOMAIN_SIZE];

	a->authoritative = true;
	for (int i = 0; i < CNAMES_MAX; i++) {
		const char *rel = zone_relative(a->z, name, buf), *cut;
		const struct zone_record *alias;
		struct zone_node node;

		if (!rel)
			return; /* the alias leads out of the zone: resolvers continue there */
		cut = zone_cut(a->z, rel);
		if (cut) {
			refer(a, cut);
			return;
		}
		node = zone_for(a->z, rel);
		alias = cname_of(node);
		if (!alias || a->q->type == TYPE_CNAME || a->q->type == TYPE_ANY) {
			if (put_asked(a, owner, rel, node))
				return;
			if (!node.n && !zone_exists(a->z, rel))
				a->rcode = DNS_NXDOMAIN;
			put_soa(a, AUTHORITY);
			return;
		}
		put_record(a, owner, alias, ANSWER);
		owner = name = alias->value;
	}
}

/* ---- the message ---- */

static void put_opt(struct answer *a, const struct dns_edns *e)
{
	if (!e->there)
		return;
	buf_put_u8(&a->b, 0);
	buf_put_u16(&a->b, TYPE_OPT);
	buf_put_u16(&a->b, UDP_MAX);
	buf_put_u8(&a->b, e->version ? BADVERS_HIGH : 0);
	buf_put_u8(&a->b, 0); /* our version */
	buf_put_u16(&a->b, 0);
	buf_put_u16(&a->b, 0);
	a->count[ADDITIONAL]++;
}

static void head(struct answer *a)
{
	uint16_t flags = (uint16_t)(FLAG_QR | (a->q->flags & FLAG_RD) | a->rcode);

	if (a->authoritative)
		flags |= FLAG_AA;
	if (a->cut_short)
		flags |= FLAG_TC;
	put_be16(a->b.p, a->q->id);
	put_be16(a->b.p + 2, flags);
	put_be16(a->b.p + 4, 1);
	for (size_t i = 0; i < PARTS; i++)
		put_be16(a->b.p + 6 + 2 * i, a->count[i]);
}

size_t zone_answer(const struct zone *z, const char *ns, const char *name,
                   const struct dns_query *q, const struct dns_edns *e, bool tcp, uint8_t *ret,
                   size_t max)
{
	struct answer a = { .z = z, .ns = ns, .q = q, .rcode = DNS_NOERROR };
	uint16_t class = get_be16(q->question + q->question_len - 2);
	size_t udp = e->there ? MIN(MAX((size_t)e->size, (size_t)UDP_PLAIN), (size_t)UDP_MAX)
	                      : UDP_PLAIN;
	size_t n = 0, first = DNS_HEADER_LEN + q->question_len;

	a.max = MIN(max, tcp ? (size_t)DNS_ANSWER_MAX : udp) - (e->there ? OPT_LEN : 0);
	if (!buf_reserve(&a.b, first))
		return 0;
	memset(a.b.p, 0, DNS_HEADER_LEN);
	a.b.len = DNS_HEADER_LEN;
	buf_put(&a.b, q->question, q->question_len);
	if (e->there && e->version)
		a.rcode = DNS_NOERROR; /* the high half, in OPT, says BADVERS */
	else if (!z || class != CLASS_IN || q->type == TYPE_AXFR || q->type == TYPE_IXFR)
		a.rcode = DNS_REFUSED;
	else
		decide(&a, name);
	if (a.cut_short) {
		a.b.len = first;
		memset(a.count, 0, sizeof(a.count));
	}
	put_opt(&a, e);
	if (!a.b.failed) {
		head(&a);
		n = a.b.len;
		memcpy(ret, a.b.p, n);
	}
	buf_done(&a.b);
	return n;
}
