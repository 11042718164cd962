/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_dns.c - name queries of guests and answers of resolvers
 *
 * The first two bytes are the length of a query, then come the query and an
 * answer to it. A query that is accepted answers itself once it is marked as an
 * answer, and the error we would send is an answer to it as well.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "net/dns_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t e[DNS_ERROR_MAX], local[DNS_LOCAL_MAX];
	uint32_t addrs[DNS_ADDRS_MAX], ttl;
	char name[DNS_NAME_MAX];
	struct dns_edns edns;
	struct dns_query q;
	size_t n, k;
	int r;

	if (size < 2)
		return 0;
	n = MIN(get_be16(data), size - 2);
	r = dns_query_parse(data + 2, n, &q);
	if (r != 0 && r != -EPERM)
		return 0;
	assert(n >= DNS_HEADER_LEN + q.question_len && q.question_len <= DNS_QUESTION_MAX);
	k = dns_error(&q, DNS_SERVFAIL, e);
	assert(k <= sizeof(e) && dns_answer_matches(e, k, &q, q.id));
	assert(!dns_answer_matches(e, k, &q, (uint16_t)(q.id + 1)));
	if (dns_answer_matches(data + 2 + n, size - 2 - n, &q, q.id)) {
		assert(size - 2 - n >= DNS_HEADER_LEN + q.question_len);
		k = dns_answer_addrs(data + 2 + n, size - 2 - n, addrs, &ttl);
		assert(k <= DNS_ADDRS_MAX);
	}
	dns_query_edns(data + 2, n, &q, &edns);
	if (dns_query_name(&q, name))
		assert(strlen(name) < sizeof(name) && !strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
	/* Our own answer is one, and has exactly that address. */
	k = dns_local(&q, 0x0a000001, 60, local);
	assert(k <= sizeof(local) && dns_answer_matches(local, k, &q, q.id));
	assert(dns_answer_addrs(local, k, addrs, &ttl) == 1 && addrs[0] == 0x0a000001);
	return 0;
}
