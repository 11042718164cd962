/* SPDX-License-Identifier: Apache-2.0 */
/* agent_msg.c - encoder and decoder of every message of the agent protocol */
#include "wire/agent.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

void agent_text_put(struct buf *b, const char *s)
{
	buf_put_blob(b, s ? s : "", s ? strlen(s) + 1 : 1);
}

int agent_text_get(struct rd *c, size_t max_with_nul, const char **ret)
{
	const uint8_t *p;
	size_t n;

	if (rd_blob(c, max_with_nul, &p, &n) < 0)
		return -EBADMSG;
	if (!n || memchr(p, 0, n) != p + n - 1) {
		c->bad = true;
		return -EBADMSG;
	}
	*ret = (const char *)p;
	return 0;
}

static int flag_get(struct rd *c, bool *ret)
{
	uint8_t v;

	if (rd_u8(c, &v) < 0)
		return -EBADMSG;
	if (v > 1) {
		c->bad = true;
		return -EBADMSG;
	}
	*ret = v;
	return 0;
}

void agent_hello_put(struct buf *b, const struct agent_hello *m)
{
	buf_put(b, m->nonce, sizeof(m->nonce));
	buf_put_u16(b, m->version_min);
	buf_put_u16(b, m->version_max);
	buf_put_u8(b, m->reason);
	buf_put_u64(b, m->generation);
	buf_put_u64(b, m->wall_ns);
	buf_put(b, m->entropy, sizeof(m->entropy));
	buf_put_str(b, m->machine_id);
	buf_put_str(b, m->hostname);
}

int agent_hello_get(const uint8_t *p, size_t n, struct agent_hello *ret)
{
	struct rd c = rd_of(p, n);

	if (rd_bytes(&c, ret->nonce, sizeof(ret->nonce)) < 0 || rd_u16(&c, &ret->version_min) < 0 ||
	    rd_u16(&c, &ret->version_max) < 0 || rd_u8(&c, &ret->reason) < 0 ||
	    rd_u64(&c, &ret->generation) < 0 || rd_u64(&c, &ret->wall_ns) < 0 ||
	    rd_bytes(&c, ret->entropy, sizeof(ret->entropy)) < 0 ||
	    rd_str(&c, ret->machine_id, sizeof(ret->machine_id)) < 0 ||
	    rd_str(&c, ret->hostname, sizeof(ret->hostname)) < 0 || rd_end(&c) < 0)
		return -EBADMSG;
	if (ret->reason < AGENT_BOOT || ret->reason > AGENT_RECONNECT)
		return -EBADMSG;
	return 0;
}

void agent_hello_ack_put(struct buf *b, const struct agent_hello_ack *m)
{
	buf_put(b, m->nonce, sizeof(m->nonce));
	buf_put_u16(b, m->version);
	buf_put_str(b, m->agent_version);
	buf_put_str(b, m->boot_id);
	buf_put_u64(b, m->generation);
	buf_put_u32(b, m->steps_done);
	buf_put_u16(b, m->failed_step);
	buf_put_u32(b, m->failed_errno);
}

int agent_hello_ack_get(const uint8_t *p, size_t n, struct agent_hello_ack *ret)
{
	struct rd c = rd_of(p, n);

	if (rd_bytes(&c, ret->nonce, sizeof(ret->nonce)) < 0 || rd_u16(&c, &ret->version) < 0 ||
	    rd_str(&c, ret->agent_version, sizeof(ret->agent_version)) < 0 ||
	    rd_str(&c, ret->boot_id, sizeof(ret->boot_id)) < 0 ||
	    rd_u64(&c, &ret->generation) < 0 || rd_u32(&c, &ret->steps_done) < 0 ||
	    rd_u16(&c, &ret->failed_step) < 0 || rd_u32(&c, &ret->failed_errno) < 0)
		return -EBADMSG;
	return rd_end(&c);
}

void agent_ready_put(struct buf *b, uint8_t why)
{
	buf_put_u8(b, why);
}

void agent_env_put(struct buf *b, const char *const *env, uint16_t n)
{
	buf_put_u16(b, n);
	for (unsigned i = 0; i < n; i++)
		agent_text_put(b, env[i]);
}

int agent_env_get(struct rd *c, size_t max, const char **ret, uint16_t *ret_n)
{
	if (rd_u16(c, ret_n) < 0 || *ret_n > max)
		return -EBADMSG;
	for (unsigned i = 0; i < *ret_n; i++) {
		if (agent_text_get(c, AGENT_ENV_BYTES, &ret[i]) < 0)
			return -EBADMSG;
		if (!strchr(ret[i], '=') || ret[i][0] == '=')
			return -EBADMSG;
	}
	return 0;
}

void agent_exec_req_put(struct buf *b, const struct agent_exec_req *m)
{
	agent_text_put(b, m->command);
	agent_text_put(b, m->user);
	agent_text_put(b, m->cwd);
	buf_put_u32(b, m->timeout_ms);
	buf_put_u8(b, m->with_stdin);
	agent_env_put(b, m->env, m->n_env);
}

int agent_exec_req_get(struct rd *c, struct agent_exec_req *ret)
{
	if (agent_text_get(c, AGENT_COMMAND_MAX, &ret->command) < 0 ||
	    agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_PATH_MAX, &ret->cwd) < 0 || rd_u32(c, &ret->timeout_ms) < 0 ||
	    flag_get(c, &ret->with_stdin) < 0 ||
	    agent_env_get(c, AGENT_ENV_MAX, ret->env, &ret->n_env) < 0)
		return -EBADMSG;
	return rd_end(c);
}

void agent_fs_req_put(struct buf *b, const struct agent_fs_req *m)
{
	agent_text_put(b, m->user);
	agent_text_put(b, m->path);
	buf_put_u64(b, m->off);
	buf_put_u64(b, m->len);
	buf_put_u32(b, m->mode);
	buf_put_u8(b, m->deep);
}

int agent_fs_req_get(struct rd *c, struct agent_fs_req *ret)
{
	if (agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_PATH_MAX, &ret->path) < 0 || rd_u64(c, &ret->off) < 0 ||
	    rd_u64(c, &ret->len) < 0 || rd_u32(c, &ret->mode) < 0 || flag_get(c, &ret->deep) < 0)
		return -EBADMSG;
	if (ret->off > INT64_MAX || ret->len > INT64_MAX || ret->mode > 07777)
		return -EBADMSG;
	return rd_end(c);
}

void agent_result_put(struct buf *b, const struct agent_result *m)
{
	buf_put_u32(b, m->status);
	buf_put_u16(b, m->tag);
	agent_text_put(b, m->msg);
	buf_put_blob(b, m->body, m->body_len);
}

int agent_result_get(const uint8_t *p, size_t n, struct agent_result *ret)
{
	struct rd c = rd_of(p, n);

	if (rd_u32(&c, &ret->status) < 0 || rd_u16(&c, &ret->tag) < 0 ||
	    agent_text_get(&c, AGENT_MSG_MAX, &ret->msg) < 0 ||
	    rd_blob(&c, AGENT_RESULT_MAX, &ret->body, &ret->body_len) < 0)
		return -EBADMSG;
	if (ret->status > 4095) /* the kernel's MAX_ERRNO */
		return -EBADMSG;
	return rd_end(&c);
}

void agent_exec_result_put(struct buf *b, const struct agent_exec_result *m)
{
	buf_put_u8(b, m->timed_out);
	buf_put_u32(b, m->exit_code);
	buf_put_u32(b, m->signal);
}

int agent_exec_result_get(const uint8_t *p, size_t n, struct agent_exec_result *ret)
{
	struct rd c = rd_of(p, n);

	if (flag_get(&c, &ret->timed_out) < 0 || rd_u32(&c, &ret->exit_code) < 0 ||
	    rd_u32(&c, &ret->signal) < 0)
		return -EBADMSG;
	if (ret->exit_code > 255 || ret->signal > 127)
		return -EBADMSG;
	return rd_end(&c);
}

void agent_stat_put(struct buf *b, const struct agent_stat *m)
{
	buf_put_u8(b, m->kind);
	buf_put_u64(b, m->size);
	buf_put_u32(b, m->mode);
	buf_put_u32(b, m->uid);
	buf_put_u32(b, m->gid);
	buf_put_u64(b, (uint64_t)m->mtime_ns);
}

int agent_stat_get(const uint8_t *p, size_t n, struct agent_stat *ret)
{
	struct rd c = rd_of(p, n);
	uint64_t mtime;

	if (rd_u8(&c, &ret->kind) < 0 || rd_u64(&c, &ret->size) < 0 || rd_u32(&c, &ret->mode) < 0 ||
	    rd_u32(&c, &ret->uid) < 0 || rd_u32(&c, &ret->gid) < 0 || rd_u64(&c, &mtime) < 0)
		return -EBADMSG;
	if (ret->kind < AGENT_FILE || ret->kind > AGENT_OTHER)
		return -EBADMSG;
	ret->mtime_ns = (int64_t)mtime;
	return rd_end(&c);
}
