/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_txt.c - any bytes as a name server's answer about TXT records, and as a name to ask for
 *
 * Checks: a question that can be asked is one that our own name server understands; as an answer it
 * says nothing, but with our record added to it, it says yes.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "base/auto.h"
#include "base/buf.h"
#include "domains/domains.h"
#include "net/dns_msg.h"

#define VALUE "0123456789abcdef"

static void try_name(const char *name)
{
	autobuf struct buf q = { 0 };
	struct dns_query parsed;
	int r = txt_question(name, 0x1234, &q);

	must(r == 0 || r == -EINVAL);
	if (r < 0 || q.len > DNS_QUERY_MAX || dns_query_parse(q.p, q.len, &parsed) < 0)
		return;
	q.p[2] |= 0x80;
	must(txt_answer(q.p, q.len, VALUE) == 0);
	q.p[7] = 1; /* one answer: */
	buf_put(&q,
	        "\xc0\x0c\0\x10\0\1\0\0\0\x3c\0\x12\x08"
	        "01234567"
	        "\x08"
	        "89abcdef",
	        30);
	must(!q.failed && txt_answer(q.p, q.len, VALUE) == 1);
	must(txt_answer(q.p, q.len, "0123456789abcdeg") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int r = txt_answer(data, size, VALUE);
	autofree char *name = in_text((struct in){ data, size });

	must(r == 0 || r == 1 || r == -EAGAIN || r == -EBADMSG || r == -EIO);
	try_name(name);
	return 0;
}
