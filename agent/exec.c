/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - runs a shell command as a user, in a session of its own: in a new process, or a shell
 * that is ready */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

static void exec_child(const struct job_fds *fds, const struct agent_exec_req *r)
{
	static struct exec_account who;
	static struct exec_image x;

	exec_account(fds, r->user, &who);
	exec_prepare(fds, r, &who, &x);
	execve(EXEC_SHELL, x.argv, x.env);
	child_fail(fds, errno, AGENT_TAG_SPAWN_FAILED, "run " EXEC_SHELL ": %s", err_name(errno));
}

/* Assigns the process its number; a detached one also keeps its stdin. */
static int make_proc(struct agent *a, struct stream *s, const struct agent_exec_req *r)
{
	int e = 0;

	if (s->op == AGENT_OP_EXEC)
		return 0;
	s->proc = proc_new(a, r, s->op == AGENT_OP_PROC_RUN, &e);
	if (s->proc)
		s->proc->s = s;
	return e;
}

static void adopt_proc(struct stream *s)
{
	s->proc->pid = s->pid;
	if (s->proc->attached)
		return;
	s->proc->in_fd = TAKE_FD(s->in.fd); /* -1 without stdin */
}

void exec_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c)
{
	struct agent_exec_req r;
	struct rd whole = *c;
	autobuf struct buf merged = { 0 };
	struct job_fds fds;
	struct stream *s;
	unsigned pipes;
	int k;

	if (agent_exec_req_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed exec request");
		return;
	}
	s = stream_new(a, id, op);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return;
	}
	k = make_proc(a, s, &r);
	if (k) {
		stream_result(a, s, (uint32_t)k, AGENT_TAG_GUEST_BUSY,
		              k == EAGAIN ? "too many detached processes run"
		                          : "cannot keep the output of a process",
		              NULL, 0);
		return;
	}
	pipes = (r.with_stdin ? JOB_IN : 0) | JOB_OUT | JOB_ERR;
	if (environ_merge(&r)) {
		agent_exec_req_put(&merged, &r);
		whole = merged.failed ? rd_of(NULL, 0) : rd_of(merged.p, merged.len);
	}
	k = whole.left && ready_fits(a, &r, whole.left)
	            ? job_hand_over(a, s, pipes, whole.p, whole.left)
	            : -EAGAIN;
	if (k < 0)
		k = job_fork(a, s, pipes, &fds);
	if (k == 1)
		exec_child(&fds, &r);
	if (k < 0) {
		stream_result(a, s, (uint32_t)-k, AGENT_TAG_SPAWN_FAILED, "cannot start a process",
		              NULL, 0);
		if (s->proc)
			proc_free(a, s->proc);
		return;
	}
	if (s->proc)
		adopt_proc(s);
	if (r.timeout_ms)
		s->timeout_at = clock_ms() + r.timeout_ms;
}
