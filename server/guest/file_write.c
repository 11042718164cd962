/* SPDX-License-Identifier: Apache-2.0 */
/* file_write.c - the caller's source into a file of the guest; no EOF, no file */
#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int guest_write_file(struct guest *g, const char *user, const char *path, uint32_t mode,
                     guest_source_fn source, void *ctx, uint64_t deadline_ms, struct err *err)
{
	struct agent_fs_req m = { .user = user, .path = path, .mode = mode & 07777 };
	autobuf struct buf req = { 0 };
	autostream struct stream *s = NULL;
	autofree uint8_t *chunk = malloc(GUEST_CHUNK);
	const uint8_t *body;
	size_t n;
	int r;

	if (!chunk)
		return err_set(err, -ENOMEM, "out of memory for a file");
	guest_fs_req(&req, AGENT_OP_FS_WRITE, &m);
	r = stream_open(g, &req, /* opts= */ 0, deadline_ms, &s, err);
	while (r == 0) {
		int ev = stream_wait(s, STREAM_CREDIT | STREAM_DONE, deadline_ms, err);
		ssize_t k;

		if (ev < 0)
			return ev;
		if (ev & STREAM_DONE) /* before the end: the guest could not write it */
			break;
		k = source(ctx, chunk, stream_room(s, GUEST_CHUNK));
		if (k < 0)
			return err_set(err, (int)k, "the caller cancelled writing '%s'", path);
		if (k == 0) {
			r = stream_send_eof(s, deadline_ms, err);
			break;
		}
		r = stream_send(s, chunk, (size_t)k, deadline_ms, err);
	}
	if (r < 0)
		return r;
	r = stream_wait(s, STREAM_DONE, deadline_ms, err);
	return r < 0 ? r : stream_result(s, &body, &n, err);
}
