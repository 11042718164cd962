/* SPDX-License-Identifier: Apache-2.0 */
/* file_stream.c - files and directories of any size through a flow: get, put, tar, untar */
#include <errno.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

void stat_of(const struct agent_stat *m, struct guest_stat *ret)
{
	static const enum guest_file_kind kinds[] = {
		[AGENT_FILE] = GUEST_FILE,
		[AGENT_DIR] = GUEST_DIR,
		[AGENT_SYMLINK] = GUEST_SYMLINK,
		[AGENT_OTHER] = GUEST_OTHER,
	};

	*ret = (struct guest_stat){ .kind = kinds[m->kind],
		                    .size = m->size,
		                    .mode = m->mode,
		                    .uid = m->uid,
		                    .gid = m->gid,
		                    .mtime_ns = m->mtime_ns };
}

/* The head that comes before the bytes. */
static int read_got(struct guest_flow *f, uint64_t deadline, struct agent_got *ret, struct err *err)
{
	uint8_t head[AGENT_GOT_LEN];
	size_t n = 0;

	while (n < sizeof(head)) {
		ssize_t k = guest_flow_read(f, NULL, head + n, sizeof(head) - n, err);
		int r = 0;

		if (k == 0)
			r = stream_wait(f->s, STREAM_DATA | STREAM_DONE, deadline, err);
		else if (k == -ENODATA)
			r = guest_flow_result(f, err);
		if (k == -ENODATA && r == 0)
			return err_set(err, -EPROTO, "the guest sent no file");
		if (k < 0 || r < 0)
			return r < 0 ? r : (int)k;
		n += (size_t)k;
	}
	if (agent_got_get(head, sizeof(head), ret) < 0)
		return err_set(err, -EPROTO, "the guest sent a malformed reply");
	return 0;
}

int guest_get_file(struct guest *g, const char *user, const char *path, struct guest_get *get,
                   struct guest_flow **ret, struct err *err)
{
	static const uint8_t ranges[] = { [GUEST_RANGE_ALL] = AGENT_RANGE_ALL,
		                          [GUEST_RANGE_FROM] = AGENT_RANGE_FROM,
		                          [GUEST_RANGE_LAST] = AGENT_RANGE_LAST };
	struct agent_get_req m = { .user = user,
		                   .path = path,
		                   .range = ranges[get->range],
		                   .off = get->off,
		                   .len = get->len };
	uint64_t deadline = deadline_in(GUEST_NO_ANSWER_MS);
	autoflow struct guest_flow *f = NULL;
	autobuf struct buf b = { 0 };
	struct agent_got got;
	int r;

	buf_put_u16(&b, AGENT_OP_FS_GET);
	agent_get_req_put(&b, &m);
	if ((r = flow_open(g, &b, deadline, &f, err)) < 0 ||
	    (r = read_got(f, deadline, &got, err)) < 0)
		return r;
	stat_of(&got.st, &get->st);
	get->satisfiable = got.satisfiable;
	get->got_off = got.off;
	get->got_len = got.len;
	*ret = TAKE_PTR(f);
	return 0;
}

static int open_fs(struct guest *g, uint16_t op, const struct agent_fs_req *m,
                   struct guest_flow **ret, struct err *err)
{
	autobuf struct buf b = { 0 };

	guest_fs_req(&b, op, m);
	return flow_open(g, &b, deadline_in(GUEST_CALL_MS), ret, err);
}

int guest_put_file(struct guest *g, const char *user, const char *path, uint32_t mode,
                   struct guest_flow **ret, struct err *err)
{
	struct agent_fs_req m = { .user = user, .path = path, .mode = mode & 07777 };

	return open_fs(g, AGENT_OP_FS_WRITE, &m, ret, err);
}

int guest_tar(struct guest *g, const char *user, const char *path, bool gzip,
              struct guest_flow **ret, struct err *err)
{
	struct agent_fs_req m = { .user = user, .path = path, .deep = gzip };
	autoflow struct guest_flow *f = NULL;
	int r = open_fs(g, AGENT_OP_FS_TAR, &m, &f, err);

	if (r == 0)
		r = flow_first(f, deadline_in(GUEST_NO_ANSWER_MS), err);
	if (r == 0)
		return err_set(err, -EPROTO, "the guest sent no archive");
	if (r < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

int guest_untar(struct guest *g, const char *user, const char *path, bool gzip, bool owners,
                struct guest_flow **ret, struct err *err)
{
	struct agent_fs_req m = { .user = user, .path = path, .off = owners, .deep = gzip };

	return open_fs(g, AGENT_OP_FS_UNTAR, &m, ret, err);
}
