/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dns_msg.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"

#define FLAG_QR 0x8000u
#define FLAG_OPCODE 0x7800u
#define FLAG_RD 0x0100u
#define FLAG_RA 0x0080u
#define LABEL_MAX 63u
#define CLASS_IN 1u
#define TYPE_OPT 41u
#define TYPE_IXFR 251u
#define TYPE_AXFR 252u
#define ADDITIONAL_MAX 2u /* EDNS, perhaps a signature */

/* Copies name, type and class; the only question cannot be compressed. */
static int read_question(struct rd *c, uint8_t *to, size_t *ret_len, uint16_t *ret_type)
{
	uint16_t class;
	uint8_t len;
	size_t n = 0;

	do {
		if (rd_u8(c, &len) < 0 || len > LABEL_MAX || n + 1 + len > DNS_NAME_MAX)
			return -EBADMSG;
		to[n++] = len;
		if (rd_bytes(c, to + n, len) < 0)
			return -EBADMSG;
		n += len;
	} while (len);
	if (rd_u16(c, ret_type) < 0 || rd_u16(c, &class) < 0)
		return -EBADMSG;
	put_be16(to + n, *ret_type);
	put_be16(to + n + 2, class);
	*ret_len = n + 4;
	return 0;
}

int dns_query_parse(const void *p, size_t n, struct dns_query *ret)
{
	uint16_t questions, answers, authority, additional;
	struct rd c = rd_of(p, n);

	if (n > DNS_QUERY_MAX || rd_u16(&c, &ret->id) < 0 || rd_u16(&c, &ret->flags) < 0 ||
	    rd_u16(&c, &questions) < 0 || rd_u16(&c, &answers) < 0 || rd_u16(&c, &authority) < 0 ||
	    rd_u16(&c, &additional) < 0)
		return -EBADMSG;
	if ((ret->flags & (FLAG_QR | FLAG_OPCODE)) || questions != 1 || answers || authority ||
	    additional > ADDITIONAL_MAX)
		return -EBADMSG;
	if (read_question(&c, ret->question, &ret->question_len, &ret->type) < 0)
		return -EBADMSG;
	return ret->type == TYPE_AXFR || ret->type == TYPE_IXFR ? -EPERM : 0;
}

bool dns_answer_matches(const void *p, size_t n, const struct dns_query *q, uint16_t id)
{
	uint8_t question[DNS_QUESTION_MAX];
	uint16_t got, flags, questions, type;
	uint8_t counts[6];
	size_t len;
	struct rd c = rd_of(p, n);

	if (rd_u16(&c, &got) < 0 || rd_u16(&c, &flags) < 0 || rd_u16(&c, &questions) < 0 ||
	    rd_bytes(&c, counts, sizeof(counts)) < 0)
		return false;
	if (got != id || !(flags & FLAG_QR) || (flags & FLAG_OPCODE) || questions != 1)
		return false;
	if (read_question(&c, question, &len, &type) < 0 || len != q->question_len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (tolower(question[i]) != tolower(q->question[i]))
			return false;
	return true;
}

void dns_set_id(uint8_t *p, uint16_t id)
{
	put_be16(p, id);
}

size_t dns_error(const struct dns_query *q, enum dns_rcode rcode, uint8_t ret[DNS_ERROR_MAX])
{
	memset(ret, 0, DNS_HEADER_LEN);
	put_be16(ret, q->id);
	put_be16(ret + 2, (uint16_t)(FLAG_QR | (q->flags & FLAG_RD) | FLAG_RA | rcode));
	put_be16(ret + 4, 1);
	memcpy(ret + DNS_HEADER_LEN, q->question, q->question_len);
	return DNS_HEADER_LEN + q->question_len;
}

bool dns_query_name(const struct dns_query *q, char ret[DNS_NAME_MAX])
{
	size_t at = 0, n = 0;
	uint8_t len;

	while (at < q->question_len && (len = q->question[at++])) {
		if (n)
			ret[n++] = '.';
		for (; len && at < q->question_len; len--) {
			uint8_t c = q->question[at++];

			if (!isalnum(c) && c != '-' && c != '_')
				return false;
			ret[n++] = (char)tolower(c);
		}
	}
	ret[n] = '\0'; /* each label's length byte made room for a dot */
	return true;
}

static int skip_name(struct rd *c)
{
	uint8_t len;

	do {
		uint8_t skip[LABEL_MAX];

		if (rd_u8(c, &len) < 0)
			return -EBADMSG;
		if (len >= 0xc0)
			return rd_u8(c, &len);
		if (len > LABEL_MAX || rd_bytes(c, skip, len) < 0)
			return -EBADMSG;
	} while (len);
	return 0;
}

size_t dns_answer_addrs(const void *p, size_t n, uint32_t ret[DNS_ADDRS_MAX], uint32_t *ret_ttl)
{
	struct rd c = rd_of(p, n);
	uint16_t id, flags, questions, answers, others[2], type, class, len;
	uint32_t ttl, addr;
	size_t found = 0;

	*ret_ttl = UINT32_MAX;
	if (rd_u16(&c, &id) < 0 || rd_u16(&c, &flags) < 0 || rd_u16(&c, &questions) < 0 ||
	    rd_u16(&c, &answers) < 0 || rd_u16(&c, &others[0]) < 0 || rd_u16(&c, &others[1]) < 0)
		return 0;
	while (questions--)
		if (skip_name(&c) < 0 || rd_u16(&c, &type) < 0 || rd_u16(&c, &class) < 0)
			return 0;
	while (answers-- && found < DNS_ADDRS_MAX) {
		if (skip_name(&c) < 0 || rd_u16(&c, &type) < 0 || rd_u16(&c, &class) < 0 ||
		    rd_u32(&c, &ttl) < 0 || rd_u16(&c, &len) < 0 || len > c.left)
			break;
		if (type == DNS_TYPE_A && class == CLASS_IN && len == 4 && rd_u32(&c, &addr) == 0) {
			ret[found++] = addr;
			*ret_ttl = ttl < *ret_ttl ? ttl : *ret_ttl;
			continue;
		}
		c.p += len;
		c.left -= len;
	}
	return found;
}

size_t dns_local(const struct dns_query *q, uint32_t addr, uint32_t ttl, uint8_t ret[DNS_LOCAL_MAX])
{
	size_t n = dns_error(q, DNS_NOERROR, ret);

	put_be16(ret + 6, 1);
	put_be16(ret + n, 0xc000 | DNS_HEADER_LEN); /* the question's name */
	put_be16(ret + n + 2, DNS_TYPE_A);
	put_be16(ret + n + 4, CLASS_IN);
	put_be32(ret + n + 6, ttl);
	put_be16(ret + n + 10, 4);
	put_be32(ret + n + 12, addr);
	return n + 16;
}

void dns_query_edns(const void *p, size_t n, const struct dns_query *q, struct dns_edns *ret)
{
	size_t at = DNS_HEADER_LEN + q->question_len;
	struct rd c = rd_of((const uint8_t *)p + at, n > at ? n - at : 0);
	uint16_t type, size, len;
	uint32_t ttl;

	*ret = (struct dns_edns){ 0 };
	for (unsigned i = 0; i < ADDITIONAL_MAX; i++) {
		if (skip_name(&c) < 0 || rd_u16(&c, &type) < 0 || rd_u16(&c, &size) < 0 ||
		    rd_u32(&c, &ttl) < 0 || rd_u16(&c, &len) < 0 || len > c.left)
			return;
		if (type == TYPE_OPT) {
			*ret = (struct dns_edns){ .there = true,
				                  .version = (uint8_t)(ttl >> 16),
				                  .size = size };
			return;
		}
		c.p += len;
		c.left -= len;
	}
}
