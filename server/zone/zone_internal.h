/* SPDX-License-Identifier: Apache-2.0 */
/* zone/zone_internal.h - between the files of zone/ and their tests */
#pragma once

#include "zone/zone.h"

struct buf;

struct zone_record {
	const char *name, *value; /* in the zone's texts */
	uint32_t ttl;
	uint16_t priority;
	enum record_kind kind;
};
/* One allocation: the records, sorted by name, and their texts. */
struct zone {
	struct zone *next; /* of its bucket */
	char name[DOMAIN_SIZE];
	uint32_t serial;
	size_t n;
	struct zone_record *records;
	char *texts;
};

/* rows: sorted by name. NULL: out of memory. */
struct zone *zone_make(const char *name, uint32_t serial, const struct store_record *rows,
                       size_t n);

/* answer.c; z NULL: no zone has the name. name: the question's, from dns_query_name().
 */
size_t zone_answer(const struct zone *z, const char *ns, const char *name,
                   const struct dns_query *q, const struct dns_edns *e, bool tcp, uint8_t *ret,
                   size_t max);
/* look.c: lookups of names relative to the zone */
struct zone_node {
	const struct zone_record *first;
	size_t n;
};
/* The records at the name itself; n 0: none. */
struct zone_node zone_at(const struct zone *z, const char *rel);
/* The records that answer for it: its own, or those of the nearest wildcard. */
struct zone_node zone_for(const struct zone *z, const char *rel);
/* Does the name exist, or a name below it? */
bool zone_exists(const struct zone *z, const char *rel);
/* The name at or above rel that is delegated by NS records, except the zone itself; NULL: none. */
const char *zone_cut(const struct zone *z, const char *rel);
/* A name relative to the zone, "@" for the zone itself; NULL: it is outside. */
const char *zone_relative(const struct zone *z, const char *name, char buf[DOMAIN_SIZE]);
