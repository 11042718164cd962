/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pump.c - moves bytes between pipes or sockets and the port
 *
 * Output goes straight from the pipe into the send queue as one DATA frame, at
 * most CHUNK_MAX, when the channel has credit and the queue has room; every
 * stream gets one chunk per round, and each run starts with another stream. Orphans
 * are read and dropped. Input waits in the stream until the pipe accepts it;
 * then the host gets new credit.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"

#define DROP_PER_TURN 8 /* chunks of an orphan per turn: it must not delay others */

/* With less than a step not yet granted the host still has credit, or we still have its bytes. */
static void grant(struct agent *a, struct stream *s)
{
	uint8_t p[4];

	if (!s->id || s->in.eof || s->in.unsaid < GRANT_STEP)
		return;
	put_be32(p, s->in.unsaid);
	s->in.window += s->in.unsaid;
	s->in.unsaid = 0;
	port_send(a, AGENT_F_CREDIT, AGENT_IN, s->id, p, sizeof(p));
}

static void end_of_input(struct stream *s)
{
	if (is_socket(s)) {
		shutdown(s->in.fd, SHUT_WR);
	} else if (s->commit_fd >= 0) {
		/* Tells fs.write's helper that this end of file is not an abort. */
		if (!s->in.broken && write(s->commit_fd, "C", 1) != 1)
			s->in.broken = true;
		close(TAKE_FD(s->commit_fd));
	}
	stream_close_in(s);
}

void pump_in(struct agent *a, struct stream *s)
{
	struct in_chan *in = &s->in;

	while (in->fd >= 0 && in->writable && !s->connecting && in->q.len > in->q_off) {
		ssize_t n = write(in->fd, in->q.p + in->q_off, in->q.len - in->q_off);

		if (n > 0) {
			in->q_off += (size_t)n;
			in->unsaid += (uint32_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			in->writable = false;
		} else if (n < 0 && errno != EINTR) { /* EPIPE: the reader is gone */
			in->broken = true;
			in->unsaid += (uint32_t)(in->q.len - in->q_off);
			in->q_off = in->q.len;
		}
	}
	if (in->q_off == in->q.len) {
		buf_reset(&in->q);
		in->q_off = 0;
	} else if (in->q_off > AGENT_WINDOW / 2) {
		memmove(in->q.p, in->q.p + in->q_off, in->q.len - in->q_off);
		in->q.len -= in->q_off;
		in->q_off = 0;
	}
	if (in->eof && in->fd >= 0 && !in->q.len && !s->connecting)
		end_of_input(s);
	grant(a, s);
}

/* The other side of the pipe is closed, or the socket reached its end. */
static void out_ended(struct agent *a, struct stream *s, int chan, int err_no)
{
	stream_close_out(s, chan);
	if (!s->id)
		return;
	if (err_no) {
		stream_result(a, s, (uint32_t)err_no, AGENT_TAG_NONE, "the connection was lost",
		              NULL, 0);
		job_orphan(a, s);
	} else {
		port_send(a, AGENT_F_EOF, (uint16_t)chan, s->id, NULL, 0);
	}
}

/* Without a listener: into the process's ring, or dropped. */
static void drop_output(struct stream *s, int chan)
{
	struct out_chan *o = &s->out[chan];
	static uint8_t waste[CHUNK_MAX];

	for (int i = 0; i < DROP_PER_TURN && o->readable; i++) {
		ssize_t n = read(o->fd, waste, sizeof(waste));

		if (n > 0 && keeps_output(s)) {
			ring_put(&s->proc->ring[chan], waste, (size_t)n);
			o->owed = o->owed > (size_t)n ? o->owed - (size_t)n : 0;
			if (s->exited)
				s->idle_at = clock_ms() + GRACE_IDLE_MS;
		}
		if (n > 0 && s->term)
			term_write(s->term, waste, (size_t)n);
		if (n > 0 || (n < 0 && errno == EINTR))
			continue;
		o->readable = false;
		if (n == 0 || errno != EAGAIN)
			stream_close_out(s, chan);
	}
}

/* One chunk of one channel; true if bytes were moved. */
static bool pump_out(struct agent *a, struct stream *s, int chan)
{
	struct out_chan *o = &s->out[chan];
	size_t max = MIN(CHUNK_MAX, o->credit), old = a->tx.len;
	uint32_t tail;
	uint8_t *p;
	ssize_t n;

	p = buf_reserve(&a->tx, AGENT_HDR_LEN + max + AGENT_TAIL_LEN);
	if (!p) {
		a->tx.failed = false; /* nothing was written: try again when memory is back */
		return false;
	}
	do {
		n = read(o->fd, p + AGENT_HDR_LEN, max);
	} while (n < 0 && errno == EINTR);
	if (n <= 0) {
		o->readable = false;
		if (n == 0)
			out_ended(a, s, chan, 0);
		else if (errno != EAGAIN)
			out_ended(a, s, chan, is_socket(s) ? errno : 0);
		return false;
	}
	if (s->term)
		term_write(s->term, p + AGENT_HDR_LEN, (size_t)n);
	tail = agent_frame_head(p, AGENT_F_DATA, (uint16_t)chan, s->id, (uint32_t)n);
	a->tx.len = old + AGENT_HDR_LEN + (size_t)n;
	buf_put_u32(&a->tx, tail);
	o->credit -= (uint32_t)n;
	o->owed = o->owed > (size_t)n ? o->owed - (size_t)n : 0;
	if (s->exited)
		s->idle_at = clock_ms() + GRACE_IDLE_MS;
	return true;
}

/* EOF needs no credit: is there nothing left to send before it? */
static bool at_end(const struct out_chan *o)
{
	int n;

	return o->hup && ioctl(o->fd, FIONREAD, &n) == 0 && n == 0;
}

bool pump_idle(const struct agent *a)
{
	for (unsigned i = 0; i < a->n_streams; i++) {
		const struct stream *s = a->slot[i];

		if (proc_output_ready(a, s))
			return false;
		for (int chan = AGENT_OUT; chan <= AGENT_ERR; chan++) {
			const struct out_chan *o = &s->out[chan];

			if (o->fd >= 0 && o->readable && !s->connecting &&
			    (!s->id || keeps_output(s) || (o->credit && port_queued(a) < TX_HIGH)))
				return false;
		}
	}
	return pty_idle(a);
}

void pump_run(struct agent *a)
{
	bool moved = true;

	a->turn++;
	while (moved && a->n_streams) {
		moved = false;
		for (unsigned i = 0; i < a->n_streams; i++) {
			struct stream *s = a->slot[(i + a->turn) % a->n_streams];

			for (int chan = AGENT_OUT; chan <= AGENT_ERR; chan++) {
				struct out_chan *o = &s->out[chan];

				if (o->fd < 0 || !o->readable || s->connecting)
					continue;
				if (!s->id || keeps_output(s))
					drop_output(s, chan);
				else if (o->credit && port_queued(a) < TX_HIGH)
					moved |= pump_out(a, s, chan);
				else if (!o->credit && at_end(o))
					out_ended(a, s, chan, 0);
			}
		}
	}
	for (unsigned i = 0; i < a->n_streams; i++)
		proc_output_pump(a, a->slot[(i + a->turn) % a->n_streams]);
	pty_pump(a);
}
