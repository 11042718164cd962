/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - hashes of many files; and requests whose reply is all of channel 1 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int guest_collect(struct guest *g, const struct buf *req, size_t max, uint64_t deadline,
                  struct buf *ret, struct err *err)
{
	autostream struct stream *s = NULL;
	autobuf struct buf tmp = { 0 };
	const uint8_t *body;
	size_t n;
	int r = req->failed ? err_set(err, -ENOMEM, "out of memory for a request")
	                    : stream_open(g, req, /* opts= */ 0, deadline, &s, err);

	while (r >= 0) {
		int ev = stream_wait(s, STREAM_DATA | STREAM_DONE, deadline, err);

		if (ev < 0)
			return ev;
		stream_take(s, AGENT_OUT, &tmp);
		if (!tmp.len && (ev & STREAM_DONE))
			return stream_result(s, &body, &n, err);
		if (!tmp.len)
			return err_set(err, -EPROTO, "the guest answered on the wrong channel");
		if (ret->len + tmp.len > max)
			return err_set(err, -EPROTO, "the guest's answer is too long");
		buf_put(ret, tmp.p, tmp.len);
		if (ret->failed)
			return err_set(err, -ENOMEM, "out of memory for an answer");
		r = stream_consumed(s, AGENT_OUT, tmp.len, err);
	}
	return r;
}

int guest_hash_files(struct guest *g, const char *const *paths, size_t n, struct guest_hash *ret,
                     uint64_t deadline_ms, struct err *err)
{
	autobuf struct buf req = { 0 }, all = { 0 };
	struct agent_hash_req m = { .n = (uint16_t)n };
	const size_t rec = 1 + AGENT_HASH_LEN;
	int r;

	_Static_assert(GUEST_HASH_MAX == AGENT_HASH_MAX, "one limit");
	if (n > GUEST_HASH_MAX)
		return err_set(err, -E2BIG, "%zu files at once", n);
	for (size_t i = 0; i < n; i++)
		m.path[i] = paths[i];
	buf_put_u16(&req, AGENT_OP_FS_HASH);
	agent_hash_req_put(&req, &m);
	r = guest_collect(g, &req, n * rec, deadline_ms, &all, err);
	if (r < 0)
		return r;
	if (all.len != n * rec)
		return err_set(err, -EPROTO, "the guest answered for %zu files of %zu",
		               all.len / rec, n);
	for (size_t i = 0; i < n; i++) {
		ret[i].ok = all.p[i * rec] == 0;
		memcpy(ret[i].bytes, all.p + i * rec + 1, AGENT_HASH_LEN);
	}
	return 0;
}
