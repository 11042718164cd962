/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_edge_wire.c - messages between pandod and pando-edge
 *
 * The first byte says who sent the rest, and on which socket. A message that is accepted must come
 * out as the same bytes again: then nothing in it was ignored.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/edge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each of them, too, must come out as the same bytes. */
static void read_lines(struct edgew_blob v)
{
	struct edgew_line l;
	const uint8_t *p = v.p;

	while (edgew_line_next(&v, &l) > 0) {
		autobuf struct buf b = { 0 };

		assert(l.tag < ERR_CODE_MAX && edgew_host_valid(l.host));
		edgew_line_put(&b, &l);
		assert(!b.failed && b.len == (size_t)(v.p - p) && b.len <= EDGEW_LINE_MAX);
		assert(!memcmp(b.p, p, b.len));
		p = v.p;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct edgew_msg m;
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	if (!size)
		return 0;
	m = (struct edgew_msg){ 0 };
	if (edgew_decode(data + 1, size - 1, (enum edgew_from)(1 + data[0] % 5), &m, &err) < 0) {
		assert(err.msg[0]);
		return 0;
	}
	assert(m.code <= 0 && m.tag < ERR_CODE_MAX && m.way.tally < EDGEW_TALLIES);
	assert(m.cert.n_chain <= EDGEW_CHAIN_MAX && m.start.workers <= EDGEW_LANES_MAX);
	assert(strlen(m.host) < EDGEW_HOST_SIZE && edgew_host_valid(m.host));
	assert(edgew_encode(&m, &b, &err) == 0);
	assert(b.len == size - 1 && !memcmp(b.p, data + 1, b.len));
	if (m.kind == EDGEW_LINES)
		read_lines(m.lines.v);
	return 0;
}
