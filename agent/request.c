/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - handles a complete OPEN: checks, counts, starts its operation */
#include <errno.h>

#include "agent/agent.h"

static unsigned count_open(const struct agent *a)
{
	unsigned n = 0;

	for (unsigned i = 0; i < a->n_streams; i++)
		n += a->slot[i]->id != 0;
	return n;
}

void request_begin(struct agent *a, uint32_t id, const uint8_t *p, size_t n)
{
	struct rd c = rd_of(p, n);
	uint16_t op;

	if (!a->greeted) {
		stream_answer(a, id, ENOTCONN, AGENT_TAG_BAD_REQUEST,
		              "the agent has not been greeted yet");
		return;
	}
	if (rd_u16(&c, &op) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "the request is empty");
		return;
	}
	if (count_open(a) >= AGENT_STREAMS_MAX) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	switch (op) {
	case AGENT_OP_EXEC:
	case AGENT_OP_PROC_RUN:
	case AGENT_OP_PROC_START:
		exec_begin(a, id, op, &c);
		return;
	case AGENT_OP_PROC_LIST:
	case AGENT_OP_PROC_SIGNAL:
	case AGENT_OP_PROC_FORGET:
		proc_call(a, id, op, &c);
		return;
	case AGENT_OP_PROC_OUTPUT:
		proc_output_begin(a, id, &c);
		return;
	case AGENT_OP_PROC_STDIN:
		proc_stdin_begin(a, id, &c);
		return;
	case AGENT_OP_FS_READ:
	case AGENT_OP_FS_WRITE:
	case AGENT_OP_FS_LIST:
	case AGENT_OP_FS_STAT:
	case AGENT_OP_FS_REMOVE:
	case AGENT_OP_FS_MKDIR:
	case AGENT_OP_FS_WATCH:
	case AGENT_OP_FS_GET:
	case AGENT_OP_FS_TAR:
	case AGENT_OP_FS_UNTAR:
		fs_begin(a, id, op, &c);
		return;
	case AGENT_OP_FS_WALK:
		walk_begin(a, id, &c);
		return;
	case AGENT_OP_FS_HASH:
		hash_begin(a, id, &c);
		return;
	case AGENT_OP_TERM_EXEC:
		term_exec_begin(a, id, &c);
		return;
	case AGENT_OP_TERM_LIST:
		term_list_begin(a, id, &c);
		return;
	case AGENT_OP_TERM_READ:
		term_read_begin(a, id, &c);
		return;
	case AGENT_OP_CODE_RUN:
	case AGENT_OP_CODE_CREATE:
	case AGENT_OP_CODE_LIST:
	case AGENT_OP_CODE_RESTART:
	case AGENT_OP_CODE_INTERRUPT:
	case AGENT_OP_CODE_DELETE:
		code_call(a, id, op, &c);
		return;
	case AGENT_OP_CONNECT:
		connect_begin(a, id, &c);
		return;
	case AGENT_OP_DIAL:
		dial_begin(a, id, &c);
		return;
	case AGENT_OP_LOGIN:
		login_begin(a, id, &c);
		return;
	case AGENT_OP_LISTEN:
		listen_begin(a, id, &c);
		return;
	case AGENT_OP_ACCEPT:
		accept_begin(a, id, &c);
		return;
	case AGENT_OP_PTY_OPEN:
	case AGENT_OP_PTY_ATTACH:
	case AGENT_OP_PTY_LIST:
	case AGENT_OP_PTY_CLOSE:
	case AGENT_OP_PTY_RESIZE:
		pty_begin(a, id, op, &c);
		return;
	case AGENT_OP_ENV_SET:
		environ_begin(a, id, &c);
		return;
	case AGENT_OP_SELF_TAKE:
		self_take_begin(a, id, &c);
		return;
	case AGENT_OP_SITE_SET:
		environ_site(a, id, &c);
		return;
	case AGENT_OP_SHUTDOWN:
		stream_answer(a, id, 0, AGENT_TAG_NONE, "");
		power_off(a);
		return;
	case AGENT_OP_PING:
		stream_answer(a, id, 0, AGENT_TAG_NONE, "");
		return;
	case AGENT_OP_TRUST:
		trust_begin(a, id, &c);
		return;
	case AGENT_OP_SETTLE:
		ready_settle(a, id);
		return;
	default:
		stream_answer(a, id, EOPNOTSUPP, AGENT_TAG_BAD_REQUEST, "no such operation");
		return;
	}
}
