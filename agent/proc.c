/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc.c - processes with a number: start, list, signal, forget
 *
 * Theory of operation: proc.run is an exec whose caller gets number and pid and
 * may signal it; it is listed while it runs. proc.start detaches: the
 * request is answered as soon as the command runs, its pipes are read into
 * rings, and the entry stays after its end until it is forgotten or its place is
 * needed. All of it is memory and files of the guest, so it is part of a resume or
 * a fork. Numbers are not reused while the agent runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"

#define RING_DIR "/var/tmp"
#define LIST_ROOM (AGENT_RESULT_MAX - 64u) /* bytes of entries in one answer */

struct proc *proc_find(struct agent *a, uint32_t id)
{
	for (struct proc *p = a->procs; p; p = p->next)
		if (p->id == id)
			return p;
	return NULL;
}

void proc_free(struct agent *a, struct proc *p)
{
	for (struct proc **at = &a->procs; *at; at = &(*at)->next) {
		if (*at != p)
			continue;
		*at = p->next;
		break;
	}
	if (p->s)
		p->s->proc = NULL; /* from now on its output is drained and dropped */
	if (p->in_fd >= 0)
		close(p->in_fd);
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++)
		ring_close(&p->ring[i]);
	free(p);
}

/* Makes room for another detached process: the oldest finished one is dropped. 0 or a positive
 * errno. */
static int make_room(struct agent *a)
{
	struct proc *oldest = NULL;
	unsigned n = 0;

	for (struct proc *p = a->procs; p; p = p->next) {
		if (p->attached)
			continue;
		n++;
		if (p->exited && !oldest)
			oldest = p;
	}
	if (n < AGENT_PROCS_MAX)
		return 0;
	if (!oldest)
		return EAGAIN;
	proc_free(a, oldest);
	return 0;
}

/* Truncated between characters. */
static void set_command(struct proc *p, const char *command)
{
	size_t n = strlen(command);

	p->command_cut = n >= sizeof(p->command);
	if (p->command_cut) {
		n = sizeof(p->command) - 1;
		while (n && ((unsigned char)command[n] & 0xc0) == 0x80)
			n--;
	}
	memcpy(p->command, command, n);
}

struct proc *proc_new(struct agent *a, const struct agent_exec_req *r, bool attached,
                      int *ret_errno)
{
	const char *dir = a->test_root ? a->test_root : RING_DIR;
	struct proc *p, **at = &a->procs;
	int e = attached ? 0 : make_room(a);

	p = e ? NULL : calloc(1, sizeof(*p));
	if (!p) {
		*ret_errno = e ? e : ENOMEM;
		return NULL;
	}
	p->id = ++a->next_proc;
	p->attached = attached;
	p->in_fd = p->ring[AGENT_OUT].fd = p->ring[AGENT_ERR].fd = -1;
	p->started_ns = (int64_t)clock_wall_ns();
	p->started_ms = clock_ms();
	snprintf(p->user, sizeof(p->user), "%s", *r->user ? r->user : "root");
	set_command(p, r->command);
	while (*at)
		at = &(*at)->next;
	*at = p;
	for (int i = AGENT_OUT; i <= AGENT_ERR && !attached && e == 0; i++)
		e = -ring_open(&p->ring[i], dir);
	if (e) {
		proc_free(a, p);
		*ret_errno = e;
		return NULL;
	}
	return p;
}

void proc_fill(const struct proc *p, struct agent_proc *ret)
{
	int sig = p->exited && WIFSIGNALED(p->wstatus) ? WTERMSIG(p->wstatus) : 0;

	*ret = (struct agent_proc){
		.proc = p->id,
		.pid = (uint32_t)p->pid,
		.started_ns = p->started_ns,
		.duration_ms = (p->exited ? p->ended_ms : clock_ms()) - p->started_ms,
		.running = !p->exited,
		.attached = p->attached,
		.timed_out = p->timed_out,
		.stdin_open = p->in_fd >= 0,
		.command_cut = p->command_cut,
		.signal = (uint32_t)sig,
		.user = p->user,
		.command = p->command,
	};
	if (p->exited)
		ret->exit_code = sig ? 128u + (uint32_t)sig : (uint32_t)WEXITSTATUS(p->wstatus);
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++) {
		ret->first[i] = p->ring[i].first;
		ret->end[i] = p->ring[i].end;
	}
}

/* Closed by a successful exec, or has the reason for the failure. */
void proc_on_result(struct agent *a, struct stream *s)
{
	uint8_t p[AGENT_RESULT_MAX];
	autobuf struct buf b = { 0 };
	struct agent_result m;
	ssize_t n;

	if (s->result_fd < 0 || !s->proc)
		return;
	fcntl(s->result_fd, F_SETFL, O_NONBLOCK);
	n = read(s->result_fd, p, sizeof(p));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close(TAKE_FD(s->result_fd));
	if (n > 0) {
		proc_free(a, s->proc);
		if (agent_result_get(p, (size_t)n, &m) < 0)
			m = (struct agent_result){ .status = EIO, .msg = "cannot start a process" };
		stream_result(a, s, m.status ? m.status : EIO, m.tag, m.msg, NULL, 0);
		return;
	}
	if (!s->id)
		return;
	agent_started_put(
	        &b, &(struct agent_started){ .proc = s->proc->id, .pid = (uint32_t)s->proc->pid });
	if (s->op == AGENT_OP_PROC_START)
		stream_result(a, s, 0, AGENT_TAG_NONE, "", b.p, b.len);
	else
		port_send(a, AGENT_F_OPENED, 0, s->id, b.p, b.len);
}

void proc_on_exit(struct agent *a, struct stream *s)
{
	proc_on_result(a, s); /* it may have failed to start, or ended already */
	if (!s->proc)
		return;
	s->proc->exited = true;
	s->proc->timed_out = s->timed_out;
	s->proc->wstatus = s->wstatus;
	s->proc->ended_ms = clock_ms();
	if (s->proc->in_fd >= 0)
		close(TAKE_FD(s->proc->in_fd));
	if (s->proc->attached)
		proc_free(a, s->proc);
}

void proc_detach(struct agent *a, struct stream *s)
{
	struct proc *p = s->proc;

	if (!p)
		return;
	if (p->attached || !p->exited) { /* never started, or the agent is ending */
		proc_free(a, p);
		return;
	}
	p->s = NULL;
	s->proc = NULL;
	p->settled = true;
}

static void list(struct agent *a, uint32_t id, const struct agent_proc_req *r)
{
	autobuf struct buf b = { 0 };

	for (struct proc *p = a->procs; p; p = p->next) {
		size_t before = b.len;
		struct agent_proc m;

		if (r->arg ? p->id != r->proc : p->id < r->proc)
			continue;
		proc_fill(p, &m);
		agent_proc_put(&b, &m);
		if (b.len > LIST_ROOM) { /* the host asks again from the last one it got */
			b.len = before;
			break;
		}
	}
	if (b.failed)
		stream_answer(a, id, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory");
	else if (r->arg && !b.len)
		stream_answer(a, id, ENOENT, AGENT_TAG_NONE, "there is no such process");
	else
		stream_answer_body(a, id, b.p, b.len);
}

static void send_signal(struct agent *a, uint32_t id, const struct proc *p, uint32_t sig)
{
	int e = 0;

	if (p->exited || p->pid <= 0)
		e = ESRCH;
	else if (!sig || sig > (uint32_t)SIGRTMAX)
		e = EINVAL;
	else if (kill(-p->pid, (int)sig) < 0 && kill(p->pid, (int)sig) < 0)
		e = errno; /* the second attempt: before its setsid(2) it has no group */
	stream_answer(a, id, (uint32_t)e, AGENT_TAG_NONE,
	              e == ESRCH    ? "the process has ended"
	              : e == EINVAL ? "there is no such signal"
	              : e           ? "the signal could not be sent"
	                            : "");
}

void proc_call(struct agent *a, uint32_t id, uint16_t op, struct rd *c)
{
	struct agent_proc_req r;
	struct proc *p;

	if (agent_proc_req_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed process request");
		return;
	}
	if (op == AGENT_OP_PROC_LIST) {
		list(a, id, &r);
		return;
	}
	p = proc_find(a, r.proc);
	if (!p) {
		stream_answer(a, id, ENOENT, AGENT_TAG_NONE, "there is no such process");
	} else if (op == AGENT_OP_PROC_SIGNAL) {
		send_signal(a, id, p, r.arg);
	} else if (!p->exited) {
		stream_answer(a, id, EBUSY, AGENT_TAG_NONE, "the process still runs");
	} else {
		proc_free(a, p);
		stream_answer(a, id, 0, AGENT_TAG_NONE, "");
	}
}
