/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns_msg.h - as much of RFC 1035 as a forwarder must look at
 *
 * Pure functions on bytes of guests and resolvers: header and question, nothing
 * behind them. For net/ and its tests.
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

enum dns_rcode { DNS_SERVFAIL = 2, DNS_REFUSED = 5 };

struct dns_query {
	uint16_t id, flags, type;
	uint8_t question[DNS_QUESTION_MAX]; /* name, type, class as sent */
	size_t question_len;
};

/* A plain query with one question, or -EBADMSG. -EPERM: well formed, but of a kind we refuse. */
int dns_query_parse(const void *p, size_t n, struct dns_query *ret);
/* Does the message answer q, sent under id? Names compare without case. */
bool dns_answer_matches(const void *p, size_t n, const struct dns_query *q, uint16_t id);
void dns_set_id(uint8_t *p, uint16_t id);
/* An answer without records; returns its length. */
size_t dns_error(const struct dns_query *q, enum dns_rcode rcode, uint8_t ret[DNS_ERROR_MAX]);
