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
#define TYPE_IXFR 251u
#define TYPE_AXFR 252u
#define ADDITIONAL_MAX 2u /* EDNS, perhaps a signature */

/* Copies name, type and class; compression does not belong into the only question. */
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
