/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns_msg.h - the part of RFC 1035 that a forwarder needs
 *
 * Pure functions on bytes of guests and resolvers: header and question, and the
 * addresses of an answer where a policy depends on them. For net/ and its tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_HEADER_LEN 12u
#define DNS_QUERY_MAX 4096u /* bytes; real ones have a hundred */
#define DNS_ANSWER_MAX 65535u
#define DNS_NAME_MAX 255u
#define DNS_QUESTION_MAX (DNS_NAME_MAX + 4u)
#define DNS_ERROR_MAX (DNS_HEADER_LEN + DNS_QUESTION_MAX)

#define DNS_TYPE_A 1u
#define DNS_TYPE_AAAA 28u
#define DNS_TYPE_SVCB 64u
#define DNS_TYPE_HTTPS 65u
#define DNS_LOCAL_MAX (DNS_ERROR_MAX + 16u) /* an answer of ours with one address */
#define DNS_ADDRS_MAX 64u                   /* addresses of one answer that are used */

enum dns_rcode { DNS_NOERROR = 0, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_REFUSED = 5 };

struct dns_query {
	uint16_t id, flags, type;
	uint8_t question[DNS_QUESTION_MAX]; /* name, type, class as sent */
	size_t question_len;
};

/* A query's EDNS options (RFC 6891). */
struct dns_edns {
	bool there;
	uint8_t version;
	uint16_t size; /* of a datagram that it can take */
};

/* A plain query with one question, or -EBADMSG. -EPERM: well formed, but of a kind that is refused.
 */
int dns_query_parse(const void *p, size_t n, struct dns_query *ret);
/* For a query that was parsed; malformed options count as absent. */
void dns_query_edns(const void *p, size_t n, const struct dns_query *q, struct dns_edns *ret);
/* Does the message answer q, sent under id? Names compare without case. */
bool dns_answer_matches(const void *p, size_t n, const struct dns_query *q, uint16_t id);
void dns_set_id(uint8_t *p, uint16_t id);
/* An answer without records; returns its length. */
size_t dns_error(const struct dns_query *q, enum dns_rcode rcode, uint8_t ret[DNS_ERROR_MAX]);
/* The question's name in lower case, without a final dot ("" is the root); false: it has bytes
 * that host names cannot have. */
bool dns_query_name(const struct dns_query *q, char ret[DNS_NAME_MAX]);
/* The IPv4 addresses of a matching answer, and the shortest of their times to live. */
size_t dns_answer_addrs(const void *p, size_t n, uint32_t ret[DNS_ADDRS_MAX], uint32_t *ret_ttl);
/* An answer of our own with one address; returns its length. */
size_t dns_local(const struct dns_query *q, uint32_t addr, uint32_t ttl,
                 uint8_t ret[DNS_LOCAL_MAX]);
