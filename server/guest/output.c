/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - output of a detached process, from an offset
 *
 * The guest sends pieces: channel, offset, length, bytes. Offsets of a channel
 * only grow; a jump is output that was overwritten before it was read.
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int guest_output(struct guest *g, uint32_t proc, unsigned chans, uint64_t off, bool follow,
                 struct guest_flow **ret, struct err *err)
{
	struct agent_output_req m = {
		.proc = proc, .chans = (uint8_t)chans, .off = off, .follow = follow
	};
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, AGENT_OP_PROC_OUTPUT);
	agent_output_req_put(&b, &m);
	return flow_open(g, &b, deadline_in(GUEST_CALL_MS), ret, err);
}

/* The next piece's head: 1, or as guest_flow_read(). */
static ssize_t read_head(struct guest_flow *f, struct err *err)
{
	while (f->head_n < AGENT_PIECE_LEN) {
		ssize_t k = guest_flow_read(f, NULL, f->head + f->head_n,
		                            AGENT_PIECE_LEN - f->head_n, err);

		if (k == -ENODATA && f->head_n)
			return err_set(err, -EPROTO, "the guest's output is truncated");
		if (k <= 0)
			return k;
		f->head_n += (size_t)k;
	}
	if (agent_piece_get(f->head, &f->piece) < 0)
		return err_set(err, -EPROTO, "the guest sent malformed output");
	f->piece_left = f->piece.len;
	f->head_n = 0;
	return 1;
}

ssize_t guest_output_read(struct guest_flow *f, int *ret_chan, uint64_t *ret_off, uint8_t *p,
                          size_t n, struct err *err)
{
	ssize_t k;

	if (!f->piece_left && (k = read_head(f, err)) <= 0)
		return k;
	k = guest_flow_read(f, NULL, p, MIN(n, (size_t)f->piece_left), err);
	if (k == -ENODATA)
		return err_set(err, -EPROTO, "the guest's output is truncated");
	if (k <= 0)
		return k;
	*ret_chan = f->piece.chan;
	*ret_off = f->piece.off + (f->piece.len - f->piece_left);
	f->piece_left -= (uint32_t)k;
	return k;
}

int guest_output_result(struct guest_flow *f, struct guest_proc *ret, struct err *err)
{
	struct agent_proc m;
	const uint8_t *body;
	struct rd c;
	size_t n;
	int r = stream_result(f->s, &body, &n, err);

	if (r < 0)
		return r;
	c = rd_of(body, n);
	if (agent_proc_get(&c, &m) < 0 || rd_end(&c) < 0)
		return err_set(err, -EPROTO, "the guest sent a malformed reply");
	proc_of(&m, ret);
	return 0;
}
