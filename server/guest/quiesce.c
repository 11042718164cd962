/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiesce.c - keep anything from being in transit to the guest while it is frozen
 *
 * Theory of operation: take the turn to send and keep it -> ping. Bytes arrive in order,
 * so the answer means that the agent has read everything before the ping; nothing is sent
 * after it. Otherwise a stopped guest would find half a frame, or worse, a receive queue that
 * QEMU filled after its device state was saved.
 */
#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int guest_quiesce(struct guest *g, uint64_t deadline_ms, struct err *err)
{
	autobuf struct buf req = { 0 };
	autostream struct stream *s = NULL;
	const uint8_t *body;
	size_t n;
	int r = guest_turn_take(g, deadline_ms, err);

	if (r < 0)
		return r;
	buf_put_u16(&req, AGENT_OP_PING);
	r = stream_open(g, &req, STREAM_IN_TURN, deadline_ms, &s, err);
	if (r == 0)
		r = stream_wait(s, STREAM_DONE, deadline_ms, err);
	if (r >= 0)
		r = stream_result(s, &body, &n, err);
	if (r < 0)
		guest_turn_give(g); /* before the stream's CANCEL, which needs it */
	return r;
}

void guest_resume(struct guest *g)
{
	guest_turn_give(g);
}
