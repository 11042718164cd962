/* SPDX-License-Identifier: Apache-2.0 */
/* proc.c - processes with a number: run attached, start detached, list, signal, forget, feed */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

#define LIST_MAX 1024 /* what the agent can hold in all; more is a lie */

static int no_sense(struct err *err)
{
	return err_set(err, -EPROTO, "the guest sent a malformed reply");
}

/* An agent from before this operation was known. */
static int explain(int r, struct err *err)
{
	if (r == -EOPNOTSUPP)
		return err_set(
		        err, -ENOTSUP,
		        "this VM was created by an older version of Pando: stop and start it");
	return r;
}

int guest_run(struct guest *g, const struct guest_exec_req *req, bool with_stdin,
              struct guest_flow **ret, struct guest_started *ret_started, struct err *err)
{
	uint64_t deadline = deadline_in(GUEST_NO_ANSWER_MS);
	autoflow struct guest_flow *f = NULL;
	autobuf struct buf b = { 0 };
	struct agent_started m;
	int r = exec_request(req, AGENT_OP_PROC_RUN, with_stdin, &b, err);

	if (r < 0 || (r = flow_open(g, &b, deadline, &f, err)) < 0)
		return r;
	r = stream_wait(f->s, STREAM_OPENED | STREAM_DONE, deadline, err);
	if (r < 0)
		return r;
	if (!(r & STREAM_OPENED)) {
		r = guest_flow_result(f, err);
		return r < 0 ? explain(r, err) : no_sense(err);
	}
	if (agent_started_get(f->s->opened_with, f->s->opened_len, &m) < 0)
		return no_sense(err);
	*ret_started = (struct guest_started){ m.proc, m.pid };
	*ret = TAKE_PTR(f);
	return 0;
}

int guest_run_result(struct guest_flow *f, struct guest_exec_result *ret, struct err *err)
{
	struct agent_exec_result m;
	const uint8_t *body;
	size_t n;
	int r = stream_result(f->s, &body, &n, err);

	if (r < 0)
		return r;
	if (agent_exec_result_get(body, n, &m) < 0)
		return no_sense(err);
	*ret = (struct guest_exec_result){ .exit_code = (int)m.exit_code,
		                           .signal = (int)m.signal,
		                           .timed_out = m.timed_out };
	return 0;
}

int guest_start(struct guest *g, const struct guest_exec_req *req, bool with_stdin,
                struct guest_started *ret, struct err *err)
{
	autobuf struct buf b = { 0 }, body = { 0 };
	struct agent_started m;
	int r = exec_request(req, AGENT_OP_PROC_START, with_stdin, &b, err);

	if (r < 0)
		return r;
	r = guest_call(g, &b, deadline_in(GUEST_CALL_MS), &body, err);
	if (r < 0)
		return explain(r, err);
	if (agent_started_get(body.p, body.len, &m) < 0)
		return no_sense(err);
	*ret = (struct guest_started){ m.proc, m.pid };
	return 0;
}

void proc_of(const struct agent_proc *m, struct guest_proc *ret)
{
	*ret = (struct guest_proc){ .proc = m->proc,
		                    .pid = m->pid,
		                    .started_ms = m->started_ns / 1000000,
		                    .duration_ms = m->duration_ms,
		                    .running = m->running,
		                    .attached = m->attached,
		                    .timed_out = m->timed_out,
		                    .stdin_open = m->stdin_open,
		                    .command_cut = m->command_cut,
		                    .exit_code = (int)m->exit_code,
		                    .signal = (int)m->signal };
	memcpy(ret->first, m->first, sizeof(ret->first));
	memcpy(ret->end, m->end, sizeof(ret->end));
	ret->first[0] = ret->end[0] = 0;
	snprintf(ret->user, sizeof(ret->user), "%s", m->user);
	snprintf(ret->command, sizeof(ret->command), "%s", m->command);
}

static int call(struct guest *g, uint16_t op, uint32_t proc, uint32_t arg, struct buf *ret_body,
                struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, op);
	agent_proc_req_put(&b, &(struct agent_proc_req){ .proc = proc, .arg = arg });
	return explain(guest_call(g, &b, deadline_in(GUEST_CALL_MS), ret_body, err), err);
}

int guest_proc(struct guest *g, uint32_t proc, struct guest_proc *ret, struct err *err)
{
	autobuf struct buf body = { 0 };
	struct agent_proc m;
	struct rd c;
	int r = call(g, AGENT_OP_PROC_LIST, proc, /* arg= */ 1, &body, err);

	if (r < 0)
		return r;
	c = rd_of(body.p, body.len);
	if (agent_proc_get(&c, &m) < 0 || rd_end(&c) < 0 || m.proc != proc)
		return no_sense(err);
	proc_of(&m, ret);
	return 0;
}

/* The entries of one answer; numbers must grow, or a guest could keep us asking. */
static int add_page(const struct buf *body, struct guest_proc *all, size_t *n, uint32_t *next)
{
	struct rd c = rd_of(body->p, body->len);

	while (c.left) {
		struct agent_proc m;

		if (*n == LIST_MAX || agent_proc_get(&c, &m) < 0 || m.proc < *next ||
		    m.proc == UINT32_MAX)
			return -EPROTO;
		proc_of(&m, &all[(*n)++]);
		*next = m.proc + 1;
	}
	return 0;
}

int guest_procs(struct guest *g, struct guest_proc **ret, size_t *ret_n, struct err *err)
{
	autofree struct guest_proc *all = calloc(LIST_MAX, sizeof(*all));
	uint32_t next = 1;
	size_t n = 0, before;

	if (!all)
		return err_set(err, -ENOMEM, "out of memory for a list of processes");
	do {
		autobuf struct buf body = { 0 };
		int r = call(g, AGENT_OP_PROC_LIST, next, /* arg= */ 0, &body, err);

		if (r < 0)
			return r;
		before = n;
		if (add_page(&body, all, &n, &next) < 0)
			return no_sense(err);
	} while (n > before);
	*ret = TAKE_PTR(all);
	*ret_n = n;
	return 0;
}

int guest_proc_signal(struct guest *g, uint32_t proc, unsigned sig, struct err *err)
{
	return call(g, AGENT_OP_PROC_SIGNAL, proc, sig, NULL, err);
}

int guest_proc_forget(struct guest *g, uint32_t proc, struct err *err)
{
	return call(g, AGENT_OP_PROC_FORGET, proc, 0, NULL, err);
}

int guest_proc_stdin(struct guest *g, uint32_t proc, bool last, struct guest_flow **ret,
                     struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, AGENT_OP_PROC_STDIN);
	agent_proc_req_put(&b, &(struct agent_proc_req){ .proc = proc, .arg = last });
	return flow_open(g, &b, deadline_in(GUEST_CALL_MS), ret, err);
}
