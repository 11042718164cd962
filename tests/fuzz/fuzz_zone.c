/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_zone.c - any bytes as a question to the name server
 *
 * The zone has one of everything: aliases that lead out, form a ring or end in a delegated
 * name, wildcards, texts that do not fit. Every answer must fit, and match the question.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "net/dns_msg.h"
#include "zone/zone_internal.h"

#define UDP_MOST 1232u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct store_record rows[] = {
	{ .kind = RECORD_A, .name = "*", .value = "192.0.2.1", .ttl = 60 },
	{ .kind = RECORD_MX, .name = "@", .value = "m.a.test", .ttl = 60, .priority = 5 },
	{ .kind = RECORD_CNAME, .name = "away", .value = "x.example.org", .ttl = 60 },
	{ .kind = RECORD_CNAME, .name = "in", .value = "y.sub.a.test", .ttl = 60 },
	{ .kind = RECORD_CNAME, .name = "ring", .value = "ring.a.test", .ttl = 60 },
	{ .kind = RECORD_NS, .name = "sub", .value = "n.sub.a.test", .ttl = 60 },
	{ .kind = RECORD_AAAA, .name = "n.sub", .value = "2001:db8::1", .ttl = 60 },
	{ .kind = RECORD_TXT, .name = "t", .value = "text", .ttl = 60 },
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct store_record *)a)->name,
	              ((const struct store_record *)b)->name);
}

static const struct zone *zone(void)
{
	static struct zone *z;
	struct store_record *v = z ? NULL : malloc(sizeof(rows) + sizeof(rows[0]));
	size_t n = ARRAY_SIZE(rows);

	if (z || !v)
		return z;
	memcpy(v, rows, sizeof(rows));
	v[n] = (struct store_record){ .kind = RECORD_TXT, .name = "long", .ttl = 60 };
	memset(v[n].value, 'x', sizeof(v[n].value) - 1);
	qsort(v, n + 1, sizeof(*v), by_name);
	z = zone_make("a.test", 1, v, n + 1);
	free(v);
	return z;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t out[DNS_ANSWER_MAX];
	char name[DNS_NAME_MAX], buf[DOMAIN_SIZE];
	struct dns_query q;
	struct dns_edns e;
	int r = dns_query_parse(data, size, &q);

	if (r != 0 && r != -EPERM)
		return 0;
	dns_query_edns(data, size, &q, &e);
	if (!dns_query_name(&q, name))
		return 0;
	for (int tcp = 0; tcp < 2; tcp++) {
		const struct zone *z = zone();
		size_t n = zone_answer(z && zone_relative(z, name, buf) ? z : NULL, "ns.test", name,
		                       &q, &e, tcp, out, sizeof(out));

		assert(n >= DNS_HEADER_LEN + q.question_len && n <= (tcp ? sizeof(out) : UDP_MOST));
		assert(dns_answer_matches(out, n, &q, q.id));
	}
	return 0;
}
