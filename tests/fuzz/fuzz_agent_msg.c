/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_agent_msg.c - every decoder of the agent protocol
 *
 * Byte 0 picks the message. What decodes must encode to the same bytes: each message has
 * exactly one encoding, so both ends always agree on its meaning.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "wire/agent.h"
#include "wire/agent_self.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIRST_MESSAGES 8 /* bytes 0 to 7 */
#define MORE_MESSAGES 14
#define ALL_MESSAGES 19

/* Processes, file ranges and watches. */
static bool recode_more(uint8_t which, const uint8_t *p, size_t n, struct buf *b)
{
	struct rd c = rd_of(p, n);
	uint8_t head[AGENT_PIECE_LEN];
	union {
		struct agent_started started;
		struct agent_proc_req req;
		struct agent_proc proc;
		struct agent_output_req output;
		struct agent_piece piece;
		struct agent_get_req get;
		struct agent_got got;
	} m;

	switch (which) {
	case 8:
		if (agent_started_get(p, n, &m.started) < 0)
			return false;
		agent_started_put(b, &m.started);
		return true;
	case 9:
		if (agent_proc_req_get(&c, &m.req) < 0)
			return false;
		agent_proc_req_put(b, &m.req);
		return true;
	case 10: /* a list: entries one after the other */
		do {
			if (agent_proc_get(&c, &m.proc) < 0)
				return false;
			agent_proc_put(b, &m.proc);
		} while (c.left);
		return true;
	case 11:
		if (agent_output_req_get(&c, &m.output) < 0)
			return false;
		agent_output_req_put(b, &m.output);
		return true;
	case 12:
		if (agent_get_req_get(&c, &m.get) < 0)
			return false;
		agent_get_req_put(b, &m.get);
		return true;
	default:
		if (n == AGENT_PIECE_LEN) {
			if (agent_piece_get(p, &m.piece) < 0)
				return false;
			agent_piece_put(head, &m.piece);
			buf_put(b, head, sizeof(head));
			return true;
		}
		if (agent_got_get(p, n, &m.got) < 0)
			return false;
		agent_got_put(b, &m.got);
		return true;
	}
}

/* Walks, hashes, terminals, and who a machine is. */
static bool recode_walk(uint8_t which, const uint8_t *p, size_t n, struct buf *b)
{
	struct rd c = rd_of(p, n);
	union {
		struct agent_walk_req walk;
		struct agent_walk_rec rec;
		struct agent_hash_req hash;
		struct agent_term_entry term;
		struct agent_who who;
	} m;

	switch (which) {
	case 14:
		if (agent_walk_req_get(&c, &m.walk) < 0)
			return false;
		agent_walk_req_put(b, &m.walk);
		return true;
	case 15:
		if (agent_walk_rec_get(p, n, &m.rec) < 0)
			return false;
		agent_walk_rec_put(b, &m.rec);
		return true;
	case 16:
		if (agent_hash_req_get(&c, &m.hash) < 0)
			return false;
		agent_hash_req_put(b, &m.hash);
		return true;
	case 17:
		if (agent_term_entry_get(p, n, &m.term) < 0)
			return false;
		agent_term_entry_put(b, &m.term);
		return true;
	default:
		if (agent_who_get(p, n, &m.who) < 0)
			return false;
		agent_who_put(b, &m.who);
		return true;
	}
}

static bool recode(uint8_t which, const uint8_t *p, size_t n, struct buf *b)
{
	static struct agent_exec_req exec;
	struct rd c = rd_of(p, n);
	union {
		struct agent_hello hello;
		struct agent_hello_ack ack;
		struct agent_fs_req fs;
		struct agent_result result;
		struct agent_exec_result exec_result;
		struct agent_stat stat;
	} m;

	which %= ALL_MESSAGES;
	if (which >= MORE_MESSAGES)
		return recode_walk(which, p, n, b);
	if (which >= FIRST_MESSAGES)
		return recode_more(which, p, n, b);
	switch (which) {
	case 0:
		if (agent_hello_get(p, n, &m.hello) < 0)
			return false;
		agent_hello_put(b, &m.hello);
		return true;
	case 1:
		if (agent_hello_ack_get(p, n, &m.ack) < 0)
			return false;
		agent_hello_ack_put(b, &m.ack);
		return true;
	case 2:
		if (agent_exec_req_get(&c, &exec) < 0)
			return false;
		agent_exec_req_put(b, &exec);
		return true;
	case 3:
		if (agent_fs_req_get(&c, &m.fs) < 0)
			return false;
		agent_fs_req_put(b, &m.fs);
		return true;
	case 4:
		if (agent_result_get(p, n, &m.result) < 0)
			return false;
		agent_result_put(b, &m.result);
		return true;
	case 5:
		if (agent_exec_result_get(p, n, &m.exec_result) < 0)
			return false;
		agent_exec_result_put(b, &m.exec_result);
		return true;
	default:
		if (agent_stat_get(p, n, &m.stat) < 0)
			return false;
		agent_stat_put(b, &m.stat);
		return true;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { 0 };

	if (size && recode(data[0], data + 1, size - 1, &b))
		assert(!b.failed && b.len == size - 1 && !memcmp(b.p, data + 1, b.len));
	buf_done(&b);
	return 0;
}
