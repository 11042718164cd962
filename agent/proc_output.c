/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_output.c - reading a detached process's output from an offset, and its stdin
 *
 * proc.output sends pieces (channel, offset, bytes) from the rings as far as
 * there is credit; if an offset was overwritten meanwhile, it continues at the oldest
 * byte left, and the piece's offset shows the gap. Following ends when the
 * process has ended and settled; what its children write later is still kept in the
 * ring. RESULT has the process as it was then.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"

static void finish(struct agent *a, struct stream *s, const struct proc *p)
{
	autobuf struct buf b = { 0 };
	struct agent_proc m;

	if (!p) {
		stream_result(a, s, ENOENT, AGENT_TAG_NONE, "the process was forgotten", NULL, 0);
		return;
	}
	proc_fill(p, &m);
	agent_proc_put(&b, &m);
	if (b.failed)
		stream_result(a, s, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory", NULL, 0);
	else
		stream_result(a, s, 0, AGENT_TAG_NONE, "", b.p, b.len);
}

/* The channel that has something to send, or -1. */
static int next_chan(const struct stream *s, const struct proc *p)
{
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++)
		if ((s->chans & BIT(i)) && s->at[i] < p->ring[i].end)
			return i;
	return -1;
}

static bool is_over(const struct stream *s, const struct proc *p)
{
	return next_chan(s, p) < 0 && (!s->follow || (p->exited && p->settled));
}

static bool has_room(const struct agent *a, const struct stream *s)
{
	return s->out[AGENT_OUT].credit > AGENT_PIECE_LEN && port_queued(a) < TX_HIGH;
}

static const struct proc *target(const struct agent *a, const struct stream *s)
{
	return proc_find((struct agent *)(uintptr_t)a, s->target);
}

bool proc_output_ready(const struct agent *a, const struct stream *s)
{
	const struct proc *p;

	if (s->op != AGENT_OP_PROC_OUTPUT || !s->id)
		return false;
	p = target(a, s);
	return !p || is_over(s, p) || (next_chan(s, p) >= 0 && has_room(a, s));
}

/* false: a piece could not be created. */
static bool send_piece(struct agent *a, struct stream *s, const struct proc *p, int chan)
{
	static uint8_t piece[AGENT_PIECE_LEN + AGENT_PIECE_MAX];
	const struct ring *r = &p->ring[chan];
	uint32_t room = s->out[AGENT_OUT].credit - AGENT_PIECE_LEN;
	size_t n;

	if (s->at[chan] < r->first)
		s->at[chan] = r->first;
	n = ring_get(r, s->at[chan], piece + AGENT_PIECE_LEN, MIN(room, AGENT_PIECE_MAX));
	if (!n) { /* the file cannot be read: its contents are lost */
		s->at[chan] = r->end;
		return false;
	}
	agent_piece_put(piece, &(struct agent_piece){ .chan = (uint8_t)chan,
	                                              .off = s->at[chan],
	                                              .len = (uint32_t)n });
	port_send(a, AGENT_F_DATA, AGENT_OUT, s->id, piece, AGENT_PIECE_LEN + n);
	s->out[AGENT_OUT].credit -= (uint32_t)(AGENT_PIECE_LEN + n);
	s->at[chan] += n;
	return true;
}

void proc_output_pump(struct agent *a, struct stream *s)
{
	const struct proc *p;
	int chan;

	if (s->op != AGENT_OP_PROC_OUTPUT || !s->id)
		return;
	p = target(a, s);
	while (p && has_room(a, s) && (chan = next_chan(s, p)) >= 0)
		send_piece(a, s, p, chan);
	if (!p || is_over(s, p))
		finish(a, s, p);
}

void proc_output_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_output_req r;
	const struct proc *p;
	struct stream *s;

	if (agent_output_req_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed output request");
		return;
	}
	p = proc_find(a, r.proc);
	if (!p || p->attached) {
		stream_answer(a, id, p ? EINVAL : ENOENT, AGENT_TAG_NONE,
		              p ? "the process is not detached: its output goes to its caller"
		                : "there is no such process");
		return;
	}
	s = stream_new(a, id, AGENT_OP_PROC_OUTPUT);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	s->target = r.proc;
	s->chans = r.chans;
	s->follow = r.follow;
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++)
		s->at[i] = r.off;
}

void proc_stdin_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_proc_req r;
	struct stream *s = NULL;
	struct proc *p;
	int e = 0;

	if (agent_proc_req_get(c, &r) < 0 || r.arg > 1) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed stdin request");
		return;
	}
	p = proc_find(a, r.proc);
	if (!p || p->in_fd < 0) {
		stream_answer(a, id, p ? EPIPE : ENOENT, AGENT_TAG_NONE,
		              p ? "the process has no open stdin" : "there is no such process");
		return;
	}
	s = stream_new(a, id, AGENT_OP_PROC_STDIN);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	s->in.fd = fcntl(p->in_fd, F_DUPFD_CLOEXEC, 3);
	s->in.writable = true;
	if (s->in.fd < 0)
		e = errno;
	else
		e = -stream_poll(a, s, s->in.fd, REF_IN, EPOLLOUT);
	if (e) {
		stream_result(a, s, (uint32_t)e, AGENT_TAG_NONE, "cannot reach its stdin", NULL, 0);
		job_orphan(a, s);
		return;
	}
	if (r.arg) /* ours is the last writing end: closing it ends the process's stdin */
		close(TAKE_FD(p->in_fd));
}

/* All input was accepted, or the reader is gone. */
void proc_stdin_tick(struct agent *a, struct stream *s)
{
	if (!s->id || (s->in.fd >= 0 && !s->in.broken))
		return;
	if (s->in.broken)
		stream_result(a, s, EPIPE, AGENT_TAG_NONE, "the process does not read its stdin",
		              NULL, 0);
	else
		stream_result(a, s, 0, AGENT_TAG_NONE, "", NULL, 0);
	stream_close_in(s);
}
