/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txt_msg.c - a question about TXT records, and what an answer to it says
 *
 * Pure: bytes in, bytes or a verdict out. Answers are read through a cursor; only type, class and
 * text of each record are used.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "domains/domains.h"
#include "net/dns_msg.h"

#define TYPE_TXT 16u
#define CLASS_IN 1u
#define FLAG_TC 0x0200u
#define FLAG_RD 0x0100u
#define RCODE 0x000fu
#define NXDOMAIN 3u
#define RECORDS_MAX 256u /* in one answer */
#define POINTER 0xc0u

/* A name ends with an empty label or a pointer; where that leads does not matter here. */
static int skip_name(struct rd *c)
{
	uint8_t len, rest;

	for (unsigned n = 0; n < DNS_NAME_MAX; n++) {
		if (rd_u8(c, &len) < 0)
			return -EBADMSG;
		if (len == 0)
			return 0;
		if ((len & POINTER) == POINTER)
			return rd_u8(c, &rest);
		if (len & POINTER)
			return -EBADMSG;
		for (unsigned i = 0; i < len; i++)
			if (rd_u8(c, &rest) < 0)
				return -EBADMSG;
	}
	return -EBADMSG;
}

/* Compares a record's strings, concatenated, with the value. */
static int text_is(struct rd *c, size_t len, const char *value)
{
	size_t want = strlen(value), got = 0;
	bool same = true;

	while (len > 0) {
		uint8_t n, byte;

		if (rd_u8(c, &n) < 0 || n > len - 1)
			return -EBADMSG;
		for (unsigned i = 0; i < n; i++) {
			if (rd_u8(c, &byte) < 0)
				return -EBADMSG;
			same = same && got < want && (uint8_t)value[got] == byte;
			got++;
		}
		len -= (size_t)n + 1;
	}
	return same && got == want;
}

int txt_answer(const void *p, size_t n, const char *value)
{
	uint16_t id, flags, questions, answers, skip, type, class, len;
	uint32_t ttl;
	uint8_t byte;
	struct rd c = rd_of(p, n);
	int found = 0;

	if (rd_u16(&c, &id) < 0 || rd_u16(&c, &flags) < 0 || rd_u16(&c, &questions) < 0 ||
	    rd_u16(&c, &answers) < 0 || rd_u16(&c, &skip) < 0 || rd_u16(&c, &skip) < 0)
		return -EBADMSG;
	if (flags & FLAG_TC)
		return -EAGAIN;
	if ((flags & RCODE) == NXDOMAIN)
		return 0;
	if (flags & RCODE)
		return -EIO;
	if (questions != 1 || skip_name(&c) < 0 || rd_u16(&c, &type) < 0 || rd_u16(&c, &class) < 0)
		return -EBADMSG;
	for (unsigned i = 0; i < answers && i < RECORDS_MAX && !found; i++) {
		if (skip_name(&c) < 0 || rd_u16(&c, &type) < 0 || rd_u16(&c, &class) < 0 ||
		    rd_u32(&c, &ttl) < 0 || rd_u16(&c, &len) < 0)
			return -EBADMSG;
		if (type == TYPE_TXT && class == CLASS_IN) {
			found = text_is(&c, len, value);
			continue;
		}
		for (unsigned k = 0; k < len; k++)
			if (rd_u8(&c, &byte) < 0)
				return -EBADMSG;
	}
	return found;
}

int txt_question(const char *name, uint16_t id, struct buf *out)
{
	buf_put_u16(out, id);
	buf_put_u16(out, FLAG_RD);
	buf_put_u16(out, 1);
	buf_put_u16(out, 0);
	buf_put_u16(out, 0);
	buf_put_u16(out, 0);
	for (const char *p = name; *p;) {
		size_t n = strcspn(p, ".");

		if (n == 0 || n > 63)
			return -EINVAL;
		buf_put_u8(out, (uint8_t)n);
		buf_put(out, p, n);
		p += n + (p[n] == '.');
	}
	buf_put_u8(out, 0);
	buf_put_u16(out, TYPE_TXT);
	buf_put_u16(out, CLASS_IN);
	return out->failed ? -ENOMEM : 0;
}
