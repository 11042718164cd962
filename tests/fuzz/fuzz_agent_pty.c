/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_agent_pty.c - every decoder of messages about terminal sessions
 *
 * Byte 0 picks the message. What decodes must encode to the same bytes.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "wire/agent_pty.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool recode(uint8_t which, const uint8_t *p, size_t n, struct buf *b)
{
	static struct agent_pty_open open;
	struct rd c = rd_of(p, n);
	union {
		struct agent_pty_req req;
		struct agent_pty_resize resize;
		struct agent_pty pty;
		struct agent_pty_end end;
		struct agent_piece_hdr piece;
	} m;
	uint8_t head[AGENT_PIECE_HDR];

	switch (which % 6) {
	case 0:
		if (agent_pty_open_get(&c, &open) < 0)
			return false;
		agent_pty_open_put(b, &open);
		return true;
	case 1:
		if (agent_pty_req_get(&c, &m.req) < 0)
			return false;
		agent_pty_req_put(b, &m.req);
		return true;
	case 2:
		if (agent_pty_resize_get(&c, &m.resize) < 0)
			return false;
		agent_pty_resize_put(b, &m.resize);
		return true;
	case 3: /* a list: entries one after the other */
		do {
			if (agent_pty_get(&c, &m.pty) < 0)
				return false;
			agent_pty_put(b, &m.pty);
		} while (c.left);
		return true;
	case 4:
		if (agent_pty_end_get(p, n, &m.end) < 0)
			return false;
		agent_pty_end_put(b, &m.end);
		return true;
	default:
		if (n != AGENT_PIECE_HDR || agent_piece_hdr_get(p, &m.piece) < 0)
			return false;
		agent_piece_hdr_put(head, &m.piece);
		buf_put(b, head, sizeof(head));
		return true;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { 0 };

	if (size && recode(data[0], data + 1, size - 1, &b))
		assert(!b.failed && b.len == size - 1 && !memcmp(b.p, data + 1, b.len));
	buf_done(&b);
	return 0;
}
