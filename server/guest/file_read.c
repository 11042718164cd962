/* SPDX-License-Identifier: Apache-2.0 */
/* file_read.c - a file of the guest into the caller's sink; the sink's pace is the guest's pace */
#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int guest_read_file(struct guest *g, const char *user, const char *path, uint64_t off, uint64_t len,
                    guest_sink_fn sink, void *ctx, uint64_t deadline_ms, struct err *err)
{
	struct agent_fs_req m = { .user = user, .path = path, .off = off, .len = len };
	autobuf struct buf req = { 0 }, tmp = { 0 };
	autostream struct stream *s = NULL;
	const uint8_t *body;
	size_t n;
	int r;

	guest_fs_req(&req, AGENT_OP_FS_READ, &m);
	r = stream_open(g, &req, /* opts= */ 0, deadline_ms, &s, err);
	if (r < 0)
		return r;
	for (;;) {
		int ev = stream_wait(s, STREAM_DATA | STREAM_DONE, deadline_ms, err);

		if (ev < 0)
			return ev;
		stream_take(s, AGENT_OUT, &tmp);
		if (!tmp.len && (ev & STREAM_DONE))
			return stream_result(s, &body, &n, err);
		if (!tmp.len)
			return err_set(err, -EPROTO, "the guest sent a file on the wrong channel");
		r = sink(ctx, tmp.p, tmp.len);
		if (r < 0)
			return err_set(err, r, "the caller cancelled reading '%s'", path);
		r = stream_consumed(s, AGENT_OUT, tmp.len, err);
		if (r < 0)
			return r;
	}
}
