/* SPDX-License-Identifier: Apache-2.0 */
/* agent_walk.c - messages of fs.walk, fs.hash and terminals; see agent.h */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "wire/agent.h"

static unsigned rank(char c)
{
	return c == '\0' ? 0 : c == '/' ? 1 : (unsigned)(unsigned char)c + 2;
}

int agent_path_cmp(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return rank(*a) < rank(*b) ? -1 : rank(*a) > rank(*b);
}

void agent_walk_req_put(struct buf *b, const struct agent_walk_req *m)
{
	agent_text_put(b, m->root);
	agent_text_put(b, m->after);
	buf_put_u16(b, m->n_ignore);
	for (unsigned i = 0; i < m->n_ignore; i++)
		agent_text_put(b, m->ignore[i]);
}

int agent_walk_req_get(struct rd *c, struct agent_walk_req *ret)
{
	if (agent_text_get(c, AGENT_PATH_MAX, &ret->root) < 0 ||
	    agent_text_get(c, AGENT_PATH_MAX, &ret->after) < 0 || rd_u16(c, &ret->n_ignore) < 0 ||
	    ret->n_ignore > AGENT_IGNORE_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < ret->n_ignore; i++)
		if (agent_text_get(c, AGENT_PATH_MAX, &ret->ignore[i]) < 0)
			return -EBADMSG;
	return rd_end(c);
}

void agent_walk_rec_put(struct buf *b, const struct agent_walk_rec *m)
{
	buf_put_u8(b, m->kind);
	buf_put_u32(b, m->mode);
	buf_put_u32(b, m->uid);
	buf_put_u32(b, m->gid);
	buf_put_u64(b, m->size);
	buf_put_u64(b, (uint64_t)m->mtime_ns);
	buf_put_u64(b, (uint64_t)m->ctime_ns);
	buf_put_u64(b, m->ino);
	agent_text_put(b, m->path);
	agent_text_put(b, m->link);
}

int agent_walk_rec_get(const uint8_t *p, size_t n, struct agent_walk_rec *ret)
{
	struct rd c = rd_of(p, n);
	uint64_t mtime, ctime;

	if (rd_u8(&c, &ret->kind) < 0 || rd_u32(&c, &ret->mode) < 0 || rd_u32(&c, &ret->uid) < 0 ||
	    rd_u32(&c, &ret->gid) < 0 || rd_u64(&c, &ret->size) < 0 || rd_u64(&c, &mtime) < 0 ||
	    rd_u64(&c, &ctime) < 0 || rd_u64(&c, &ret->ino) < 0 ||
	    agent_text_get(&c, AGENT_PATH_MAX, &ret->path) < 0 ||
	    agent_text_get(&c, AGENT_PATH_MAX, &ret->link) < 0)
		return -EBADMSG;
	if (ret->kind < AGENT_FILE || ret->kind > AGENT_OTHER || ret->path[0] != '/')
		return -EBADMSG;
	ret->mtime_ns = (int64_t)mtime;
	ret->ctime_ns = (int64_t)ctime;
	return rd_end(&c);
}

void agent_hash_req_put(struct buf *b, const struct agent_hash_req *m)
{
	buf_put_u16(b, m->n);
	for (unsigned i = 0; i < m->n; i++)
		agent_text_put(b, m->path[i]);
}

int agent_hash_req_get(struct rd *c, struct agent_hash_req *ret)
{
	if (rd_u16(c, &ret->n) < 0 || ret->n > AGENT_HASH_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < ret->n; i++)
		if (agent_text_get(c, AGENT_PATH_MAX, &ret->path[i]) < 0)
			return -EBADMSG;
	return rd_end(c);
}

void agent_term_entry_put(struct buf *b, const struct agent_term_entry *m)
{
	agent_text_put(b, m->name);
	agent_text_put(b, m->user);
	buf_put_u32(b, m->running);
	buf_put_u64(b, m->created_ms);
	buf_put_u64(b, m->changed_ms);
	buf_put_u64(b, m->written);
}

int agent_term_entry_get(const uint8_t *p, size_t n, struct agent_term_entry *ret)
{
	struct rd c = rd_of(p, n);

	if (agent_text_get(&c, AGENT_TERM_NAME, &ret->name) < 0 ||
	    agent_text_get(&c, AGENT_USER_MAX, &ret->user) < 0 || rd_u32(&c, &ret->running) < 0 ||
	    rd_u64(&c, &ret->created_ms) < 0 || rd_u64(&c, &ret->changed_ms) < 0 ||
	    rd_u64(&c, &ret->written) < 0)
		return -EBADMSG;
	return rd_end(&c);
}

int agent_term_read_get(struct rd *c, const char **ret_name, const char **ret_user)
{
	if (agent_text_get(c, AGENT_TERM_NAME, ret_name) < 0 ||
	    agent_text_get(c, AGENT_USER_MAX, ret_user) < 0)
		return -EBADMSG;
	return rd_end(c);
}
