/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_knock.c - packets for VMs that do not run, one after another, through the parser and the
 * queue */
#include "tests/fuzz/fuzz.h"
#include "vm/knock_queue.h"

/* Each packet has its length in front; in between VMs come up, or do not. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct knock_queue q;
	uint64_t now = 0;

	memset(&q, 0, sizeof(q));
	while (n > 1) {
		size_t len = p[0];
		struct knock_head h;
		enum knock_put what;

		if (len > n - 1)
			len = n - 1;
		if (knock_parse(p + 1, len, &h)) {
			must(len >= 28 && p[1] >> 4 == 4);
			what = knock_put(&q, h.dst, p + 1, len, now);
			must(what == KNOCK_DROPPED || what == KNOCK_KEPT || what == KNOCK_WAKE);
			if (h.src & 1)
				knock_free(knock_take(&q, h.dst, h.src & 2 ? now + 5 : 0));
		}
		must(q.n_packets <= KNOCK_PER_VPC);
		now++;
		p += 1 + len;
		n -= 1 + len;
	}
	for (size_t i = 0; i < KNOCK_DOORS; i++) {
		must(q.doors[i].n <= KNOCK_PER_VM);
		must(q.doors[i].waking || !q.doors[i].first);
		knock_free(knock_take(&q, q.doors[i].addr, 0));
	}
	must(q.n_packets == 0);
	return 0;
}
