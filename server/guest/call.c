/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - requests that have nothing but an answer: ping, sync, shutdown, stat, remove, mkdir */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int guest_call(struct guest *g, const struct buf *req, uint64_t deadline, struct buf *ret_body,
               struct err *err)
{
	autostream struct stream *s = NULL;
	const uint8_t *body;
	size_t n;
	int r = stream_open(g, req, /* opts= */ 0, deadline, &s, err);

	if (r < 0)
		return r;
	r = stream_wait(s, STREAM_DONE, deadline, err);
	if (r < 0)
		return r;
	r = stream_result(s, &body, &n, err);
	if (r < 0 || !ret_body)
		return r;
	buf_put(ret_body, body, n);
	return ret_body->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static int plain(struct guest *g, uint16_t op, uint64_t deadline, struct err *err)
{
	autobuf struct buf req = { 0 };
	int r;

	buf_put_u16(&req, op);
	r = guest_call(g, &req, deadline, NULL, err);
	if (r < 0)
		err_wrap(err, r, "%s", agent_op_name(op));
	return r;
}

int guest_ping(struct guest *g, uint64_t deadline_ms, struct err *err)
{
	return plain(g, AGENT_OP_PING, deadline_ms, err);
}

void guest_settle(struct guest *g, uint64_t deadline_ms)
{
	struct err err = { 0 };

	(void)plain(g, AGENT_OP_SETTLE, deadline_ms, &err); /* an older agent does not support it */
}

int guest_trust(struct guest *g, const struct guest_ca *ca, uint64_t deadline_ms, struct err *err)
{
	autobuf struct buf req = { 0 };

	buf_put_u16(&req, AGENT_OP_TRUST);
	agent_text_put(&req, ca->name);
	agent_text_put(&req, ca->hash);
	agent_text_put(&req, ca->pem);
	agent_text_put(&req, ca->domain);
	return guest_call(g, &req, deadline_ms, NULL, err);
}

int guest_shutdown(struct guest *g, uint64_t deadline_ms, struct err *err)
{
	return plain(g, AGENT_OP_SHUTDOWN, deadline_ms, err);
}

void guest_fs_req(struct buf *b, uint16_t op, const struct agent_fs_req *m)
{
	buf_put_u16(b, op);
	agent_fs_req_put(b, m);
}

int guest_stat(struct guest *g, const char *user, const char *path, struct guest_stat *ret,
               struct err *err)
{
	autobuf struct buf req = { 0 }, body = { 0 };
	struct agent_stat st;
	int r;

	guest_fs_req(&req, AGENT_OP_FS_STAT, &(struct agent_fs_req){ .user = user, .path = path });
	r = guest_call(g, &req, deadline_in(GUEST_CALL_MS), &body, err);
	if (r < 0)
		return r;
	if (agent_stat_get(body.p, body.len, &st) < 0)
		return err_set(err, -EPROTO, "the guest sent a malformed reply");
	stat_of(&st, ret);
	return 0;
}

int guest_remove(struct guest *g, const char *user, const char *path, bool recursive,
                 struct err *err)
{
	autobuf struct buf req = { 0 };
	struct agent_fs_req m = { .user = user, .path = path, .deep = recursive };

	guest_fs_req(&req, AGENT_OP_FS_REMOVE, &m);
	return guest_call(g, &req, deadline_in(recursive ? GUEST_TREE_MS : GUEST_CALL_MS), NULL,
	                  err);
}

int guest_mkdir(struct guest *g, const char *user, const char *path, uint32_t mode, bool parents,
                uint64_t deadline_ms, struct err *err)
{
	autobuf struct buf req = { 0 };
	struct agent_fs_req m = {
		.user = user, .path = path, .mode = mode & 07777, .deep = parents
	};

	guest_fs_req(&req, AGENT_OP_FS_MKDIR, &m);
	return guest_call(g, &req, deadline_ms, NULL, err);
}
