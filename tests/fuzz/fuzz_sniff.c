/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sniff.c - first bytes of a guest's connection: ClientHello and request head */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "h1/h1.h"
#include "net/egress.h"
#include "net/sniff.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static char name[] = "Authorization", value[] = "Bearer x";
	struct egress_header add = { .name = name, .value = value };
	char got[SNIFF_NAME_MAX];
	static struct h1_head head, head2;

	if (sniff_tls(p, n, got) == 1 && (!*got || strlen(got) >= sizeof(got)))
		abort();
	if (sniff_http(p, n, got, &head) == 1) {
		autobuf struct buf out = { 0 };
		char again[SNIFF_NAME_MAX];

		/* What we pass on must read the same as what we judged. */
		sniff_http_rewrite(&head, &add, 1, &out);
		if (out.len <= SNIFF_MAX && (sniff_http(out.p, out.len, again, &head2) != 1 ||
		                             strcmp(got, again) != 0 || head2.len != out.len))
			abort();
	}
	return 0;
}
