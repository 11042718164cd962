/* SPDX-License-Identifier: Apache-2.0 */
/* agent_proc.c - messages of processes, file ranges and watches */
#include "wire/agent.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

#define EXIT_MAX 255u
#define SIGNAL_MAX 127u
#define NAME_MAX_WITH_NUL AGENT_USER_MAX

/* Bits of a process's state byte. */
enum {
	STATE_RUNNING = 1,
	STATE_ATTACHED = 2,
	STATE_TIMED_OUT = 4,
	STATE_STDIN = 8,
	STATE_CUT = 16,
	STATE_ALL = 31,
};

void agent_started_put(struct buf *b, const struct agent_started *m)
{
	buf_put_u32(b, m->proc);
	buf_put_u32(b, m->pid);
}

int agent_started_get(const uint8_t *p, size_t n, struct agent_started *ret)
{
	struct rd c = rd_of(p, n);

	if (rd_u32(&c, &ret->proc) < 0 || rd_u32(&c, &ret->pid) < 0)
		return -EBADMSG;
	return rd_end(&c);
}

void agent_proc_req_put(struct buf *b, const struct agent_proc_req *m)
{
	buf_put_u32(b, m->proc);
	buf_put_u32(b, m->arg);
}

int agent_proc_req_get(struct rd *c, struct agent_proc_req *ret)
{
	if (rd_u32(c, &ret->proc) < 0 || rd_u32(c, &ret->arg) < 0)
		return -EBADMSG;
	return rd_end(c);
}

void agent_proc_put(struct buf *b, const struct agent_proc *m)
{
	buf_put_u32(b, m->proc);
	buf_put_u32(b, m->pid);
	buf_put_u64(b, (uint64_t)m->started_ns);
	buf_put_u64(b, m->duration_ms);
	buf_put_u8(b,
	           (uint8_t)((m->running ? STATE_RUNNING : 0) | (m->attached ? STATE_ATTACHED : 0) |
	                     (m->timed_out ? STATE_TIMED_OUT : 0) |
	                     (m->stdin_open ? STATE_STDIN : 0) | (m->command_cut ? STATE_CUT : 0)));
	buf_put_u32(b, m->exit_code);
	buf_put_u32(b, m->signal);
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++) {
		buf_put_u64(b, m->first[i]);
		buf_put_u64(b, m->end[i]);
	}
	agent_text_put(b, m->user);
	agent_text_put(b, m->command);
}

int agent_proc_get(struct rd *c, struct agent_proc *ret)
{
	uint64_t started;
	uint8_t state;

	if (rd_u32(c, &ret->proc) < 0 || rd_u32(c, &ret->pid) < 0 || rd_u64(c, &started) < 0 ||
	    rd_u64(c, &ret->duration_ms) < 0 || rd_u8(c, &state) < 0 ||
	    rd_u32(c, &ret->exit_code) < 0 || rd_u32(c, &ret->signal) < 0)
		return -EBADMSG;
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++)
		if (rd_u64(c, &ret->first[i]) < 0 || rd_u64(c, &ret->end[i]) < 0 ||
		    ret->first[i] > ret->end[i] || ret->end[i] > INT64_MAX)
			return -EBADMSG;
	if (agent_text_get(c, NAME_MAX_WITH_NUL, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_PROC_COMMAND, &ret->command) < 0)
		return -EBADMSG;
	if (state > STATE_ALL || ret->exit_code > EXIT_MAX || ret->signal > SIGNAL_MAX ||
	    ret->duration_ms > INT64_MAX)
		return -EBADMSG;
	ret->started_ns = (int64_t)started;
	ret->running = state & STATE_RUNNING;
	ret->attached = state & STATE_ATTACHED;
	ret->timed_out = state & STATE_TIMED_OUT;
	ret->stdin_open = state & STATE_STDIN;
	ret->command_cut = state & STATE_CUT;
	return 0;
}

void agent_output_req_put(struct buf *b, const struct agent_output_req *m)
{
	buf_put_u32(b, m->proc);
	buf_put_u8(b, m->chans);
	buf_put_u64(b, m->off);
	buf_put_u8(b, m->follow);
}

int agent_output_req_get(struct rd *c, struct agent_output_req *ret)
{
	uint8_t follow;

	if (rd_u32(c, &ret->proc) < 0 || rd_u8(c, &ret->chans) < 0 || rd_u64(c, &ret->off) < 0 ||
	    rd_u8(c, &follow) < 0)
		return -EBADMSG;
	if (!ret->chans || (ret->chans & ~(BIT(AGENT_OUT) | BIT(AGENT_ERR))) || follow > 1)
		return -EBADMSG;
	ret->follow = follow;
	return rd_end(c);
}

void agent_piece_put(uint8_t p[AGENT_PIECE_LEN], const struct agent_piece *m)
{
	p[0] = m->chan;
	put_be32(p + 1, (uint32_t)(m->off >> 32));
	put_be32(p + 5, (uint32_t)m->off);
	put_be32(p + 9, m->len);
}

int agent_piece_get(const uint8_t p[AGENT_PIECE_LEN], struct agent_piece *ret)
{
	ret->chan = p[0];
	ret->off = (uint64_t)get_be32(p + 1) << 32 | get_be32(p + 5);
	ret->len = get_be32(p + 9);
	if ((ret->chan != AGENT_OUT && ret->chan != AGENT_ERR) || !ret->len ||
	    ret->len > AGENT_PIECE_MAX || ret->off > INT64_MAX)
		return -EBADMSG;
	return 0;
}

void agent_get_req_put(struct buf *b, const struct agent_get_req *m)
{
	agent_text_put(b, m->user);
	agent_text_put(b, m->path);
	buf_put_u8(b, m->range);
	buf_put_u64(b, m->off);
	buf_put_u64(b, m->len);
}

int agent_get_req_get(struct rd *c, struct agent_get_req *ret)
{
	if (agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_PATH_MAX, &ret->path) < 0 || rd_u8(c, &ret->range) < 0 ||
	    rd_u64(c, &ret->off) < 0 || rd_u64(c, &ret->len) < 0)
		return -EBADMSG;
	if (ret->range > AGENT_RANGE_LAST || ret->off > INT64_MAX || ret->len > INT64_MAX)
		return -EBADMSG;
	return rd_end(c);
}

void agent_got_put(struct buf *b, const struct agent_got *m)
{
	agent_stat_put(b, &m->st);
	buf_put_u8(b, m->satisfiable);
	buf_put_u64(b, m->off);
	buf_put_u64(b, m->len);
}

int agent_got_get(const uint8_t *p, size_t n, struct agent_got *ret)
{
	const size_t stat_len = AGENT_GOT_LEN - 17;
	struct rd c;
	uint8_t ok;

	if (n != AGENT_GOT_LEN || agent_stat_get(p, stat_len, &ret->st) < 0)
		return -EBADMSG;
	c = rd_of(p + stat_len, n - stat_len);
	if (rd_u8(&c, &ok) < 0 || rd_u64(&c, &ret->off) < 0 || rd_u64(&c, &ret->len) < 0 || ok > 1)
		return -EBADMSG;
	ret->satisfiable = ok;
	if (ret->st.size > INT64_MAX || ret->off > ret->st.size ||
	    ret->len > ret->st.size - ret->off)
		return -EBADMSG;
	return rd_end(&c);
}

const char *agent_change_name(unsigned change)
{
#define AGENT_CHANGE_NAME(num, NAME, wire) [num] = (wire),
	static const char *const names[] = { AGENT_CHANGES(AGENT_CHANGE_NAME) };

	return change < ARRAY_SIZE(names) && names[change] ? names[change] : "?";
}
