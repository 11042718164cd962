/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty_client.c - the clients of a session and their queues
 *
 * Every client has its own bounded queue. The program is read while all
 * clients have room, so that a client that keeps up misses nothing. A client whose queue stays full
 * for PTY_PATIENCE_MS is no longer waited for: output that does not fit is left out, and when
 * it has read its queue it gets a picture of the current screen and continues from
 * there. So a slow client costs the others a second once in a while, and memory is always
 * bounded.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "agent/pty.h"
#include "agent/vt.h"
#include "base/auto.h"
#include "base/clock.h"

#define QUEUE_KEEP (256u << 10) /* bytes of memory a queue keeps when it is empty */

static size_t waiting; /* bytes in the queues of all clients; the agent has one thread */

static size_t queued(const struct pty_client *c)
{
	return c->q.len - c->q_off;
}

/* Without the rest of a picture, which the program did not cause. */
static size_t queued_output(const struct pty_client *c)
{
	return c->q.len - MAX(c->q_off, c->picture_end);
}

static bool put_piece(struct pty_client *c, uint8_t kind, const void *p, size_t n)
{
	size_t before = c->q.len;
	uint8_t h[AGENT_PIECE_HDR];

	agent_piece_hdr_put(h, &(struct agent_piece_hdr){ kind, (uint32_t)n });
	buf_put(&c->q, h, sizeof(h));
	buf_put(&c->q, p, n);
	if (c->q.failed) {
		c->q.failed = false;
		c->q.len = before; /* whole pieces or none */
		return false;
	}
	waiting += c->q.len - before;
	return true;
}

/* Called when the queue is empty. False if memory is short: the client stays behind. */
static bool put_picture(struct pty_client *c, bool with_history)
{
	autobuf struct buf b = { 0 };
	bool ok = true;

	if (waiting > PTY_PICTURES_MAX)
		with_history = false;
	vt_picture(c->p->vt, with_history, &b);
	if (b.failed)
		return false;
	for (size_t off = 0, n; ok && off < b.len; off += n) {
		n = MIN(b.len - off, (size_t)AGENT_PIECE_BYTES);
		ok = put_piece(c, off + n < b.len ? AGENT_PTY_PICTURE : AGENT_PTY_PICTURED,
		               b.p + off, n);
	}
	if (!ok) {
		waiting -= queued(c);
		buf_done(&c->q);
		c->q_off = 0;
	}
	c->picture_end = c->q.len;
	return ok;
}

static void client_free(struct pty_client *c)
{
	waiting -= queued(c);
	buf_done(&c->q);
	free(c);
}

void pty_detach(struct agent *a, struct stream *s)
{
	struct pty_client *c = TAKE_PTR(s->pty);

	if (!c)
		return;
	c->p->clients--;
	pty_fit(a, c->p);
	client_free(c);
}

void pty_signal(struct stream *s, int sig)
{
	struct pty *p = s->pty->p;

	if (p->pid > 0 && !p->exited)
		kill(p->pid, sig);
}

static bool put_info(struct pty_client *c)
{
	autobuf struct buf b = { 0 };
	struct agent_pty m;

	pty_fill(c->p, &m);
	agent_pty_put(&b, &m);
	return !b.failed && put_piece(c, AGENT_PTY_INFO, b.p, b.len);
}

/* Input goes straight to the terminal. */
static int open_input(struct agent *a, struct stream *s, const struct pty *p)
{
	if (p->master < 0)
		return 0;
	s->in.fd = fcntl(p->master, F_DUPFD_CLOEXEC, 3);
	if (s->in.fd < 0)
		return -errno;
	s->in.writable = true;
	return stream_poll(a, s, s->in.fd, REF_IN, EPOLLOUT);
}

void pty_attach(struct agent *a, uint32_t id, struct pty *p, uint16_t cols, uint16_t rows)
{
	struct pty_client *c = calloc(1, sizeof(*c));
	struct stream *s = c ? stream_new(a, id, AGENT_OP_PTY_ATTACH) : NULL;
	int r;

	if (!s) {
		free(c);
		pty_refuse(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	s->pty = c;
	*c = (struct pty_client){ .p = p, .cols = cols, .rows = rows };
	p->clients++;
	pty_fit(a, p);
	r = open_input(a, s, p);
	if (r == 0 && (!put_info(c) || !put_picture(c, /* with_history= */ true)))
		r = -ENOMEM;
	if (r < 0) {
		stream_result(a, s, (uint32_t)-r, AGENT_TAG_GUEST_BUSY, "cannot attach", NULL, 0);
		job_orphan(a, s);
	}
}

void pty_spread(struct agent *a, struct pty *p, const uint8_t *bytes, size_t n)
{
	for (unsigned i = 0; i < a->n_streams; i++) {
		struct pty_client *c = a->slot[i]->pty;

		if (!c || c->p != p || c->behind)
			continue;
		if (queued_output(c) >= PTY_QUEUE_MAX || !put_piece(c, AGENT_PTY_OUTPUT, bytes, n))
			c->behind = true;
	}
}

static uint64_t patience(const struct pty *p)
{
	return p->clients > 1 ? PTY_PATIENCE_MS : PTY_PATIENCE_ALONE_MS;
}

bool pty_room(const struct agent *a, const struct pty *p, uint64_t now, uint64_t *ret_when)
{
	bool room = true;

	for (unsigned i = 0; p->clients && i < a->n_streams; i++) {
		const struct pty_client *c = a->slot[i]->pty;

		if (!c || c->p != p || c->behind || now < c->slow_until ||
		    queued_output(c) < PTY_QUEUE_MAX)
			continue;
		room = false;
		if (ret_when && c->full_since)
			*ret_when = MIN(*ret_when, c->full_since + patience(p));
	}
	return room;
}

void pty_client_tick(struct stream *s, uint64_t now)
{
	struct pty_client *c = s->pty;

	if (queued_output(c) < PTY_QUEUE_MAX * 3 / 4)
		c->full_since = 0;
	else if (!c->full_since && queued_output(c) >= PTY_QUEUE_MAX)
		c->full_since = now;
	else if (c->full_since && now - c->full_since >= patience(c->p))
		c->slow_until = now + PTY_SLOW_MS;
}

bool pty_client_idle(const struct agent *a, const struct stream *s)
{
	return !s->id || (!queued(s->pty) && !s->pty->behind) || !s->out[AGENT_OUT].credit ||
	       port_queued(a) >= TX_HIGH;
}

void pty_client_pump(struct agent *a, struct stream *s)
{
	struct pty_client *c = s->pty;
	struct out_chan *o = &s->out[AGENT_OUT];
	size_t n;

	if (pty_client_idle(a, s))
		return;
	if (!queued(c) && c->behind)
		c->behind = !put_picture(c, /* with_history= */ false);
	n = MIN(queued(c), MIN((size_t)CHUNK_MAX, (size_t)o->credit));
	if (!n)
		return;
	port_send(a, AGENT_F_DATA, AGENT_OUT, s->id, c->q.p + c->q_off, n);
	if (!s->pty)
		return; /* this dropped the connection */
	o->credit -= (uint32_t)n;
	c->q_off += n;
	waiting -= n;
	if (!queued(c)) {
		if (c->q.cap > QUEUE_KEEP)
			buf_done(&c->q);
		buf_reset(&c->q);
		c->q_off = c->picture_end = 0;
	} else if (c->q_off > c->q.len / 2) {
		memmove(c->q.p, c->q.p + c->q_off, queued(c));
		c->q.len -= c->q_off;
		c->picture_end = c->picture_end > c->q_off ? c->picture_end - c->q_off : 0;
		c->q_off = 0;
	}
}
