/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_agent_frame.c - the receiver of the agent channel, in step and hunting
 *
 * Byte 0: bit 0 hunting from the start, the rest the size of the pieces the input
 * arrives in. Whatever comes: no frame is larger than allowed, every frame found
 * lies in the input as it stands, and nothing is read twice.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "wire/agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct agent_frame *f, const uint8_t *data, size_t size)
{
	struct buf b = { 0 };

	assert(f->len <= AGENT_PAYLOAD_MAX);
	assert(!f->len == !f->payload);
	agent_frame_put(&b, f->type, f->flags, f->stream, f->payload, f->len);
	assert(!b.failed && b.len <= size && memmem(data, size, b.p, b.len));
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint32_t wanted = BIT(AGENT_F_HELLO) | BIT(AGENT_F_HELLO_ACK) | BIT(AGENT_F_READY);
	struct agent_rx rx;
	size_t piece, found = 0;

	if (size < 2 || agent_rx_init(&rx) < 0)
		return 0;
	piece = 1 + (size_t)(data[0] >> 1) * 17;
	if (data[0] & 1)
		agent_rx_hunt(&rx, wanted);
	data++;
	size--;
	for (size_t off = 0; off < size;) {
		struct agent_frame f;
		size_t room, n;
		uint8_t *p = agent_rx_space(&rx, &room);
		int r;

		assert(room);
		n = MIN(MIN(piece, room), size - off);
		memcpy(p, data + off, n);
		agent_rx_added(&rx, n);
		off += n;
		while ((r = agent_rx_next(&rx, &f)) != 0) {
			if (r < 0) {
				agent_rx_hunt(&rx, wanted);
				continue;
			}
			check(&f, data, size);
			if (rx.wanted) {
				assert(wanted & BIT(f.type));
				if (++found % 2)
					agent_rx_accept(&rx);
			}
		}
		assert(rx.start <= rx.end && rx.end <= AGENT_RX_CAP);
	}
	agent_rx_done(&rx);
	return 0;
}
