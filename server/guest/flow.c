/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow.c - an open request whose bytes are moved at the caller's pace
 *
 * The reader thread files what arrives; a flow takes it out in pieces of the
 * caller's size and grants credit for exactly what the caller took. So a caller that
 * waits for a slow client holds up the guest, and no more than a window per channel
 * is kept here. The event descriptor is written at every change: it is cleared
 * before the state is looked at, so nothing is missed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int flow_open(struct guest *g, const struct buf *req, uint64_t deadline, struct guest_flow **ret,
              struct err *err)
{
	struct guest_flow *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory for a stream");
	r = stream_open(g, req, STREAM_EVENTS, deadline, &f->s, err);
	if (r < 0) {
		free(f);
		return r;
	}
	f->g = guest_ref(g);
	f->turn = AGENT_OUT;
	*ret = f;
	return 0;
}

void guest_flow_close(struct guest_flow *f)
{
	if (!f)
		return;
	stream_close(f->s);
	for (int i = 0; i < AGENT_CHANS; i++)
		buf_done(&f->got[i]);
	buf_done(&f->acc);
	guest_unref(f->g);
	free(f);
}

int guest_flow_fd(const struct guest_flow *f)
{
	return f->s->event_fd;
}

int flow_first(struct guest_flow *f, uint64_t deadline, struct err *err)
{
	int ev = stream_wait(f->s, STREAM_DATA | STREAM_DONE, deadline, err);

	if (ev < 0)
		return ev;
	return ev & STREAM_DATA ? 1 : guest_flow_result(f, err);
}

/* 0: it continues; -ENODATA: RESULT came; -ECONNRESET. */
static int state(struct guest_flow *f, struct err *err)
{
	LOCK_SCOPE(&f->g->lock);
	if (f->s->done)
		return -ENODATA;
	if (f->g->dead)
		return guest_gone(f->g, err);
	return 0;
}

static ssize_t take(struct guest_flow *f, int chan, uint8_t *p, size_t n, struct err *err)
{
	struct buf *b = &f->got[chan];
	size_t k;
	int r;

	if (f->off[chan] == b->len) {
		stream_take(f->s, chan, b);
		f->off[chan] = 0;
	}
	k = MIN(b->len - f->off[chan], n);
	if (!k)
		return 0;
	memcpy(p, b->p + f->off[chan], k);
	f->off[chan] += k;
	r = stream_consumed(f->s, chan, k, err);
	return r < 0 ? r : (ssize_t)k;
}

ssize_t guest_flow_read(struct guest_flow *f, int *ret_chan, uint8_t *p, size_t n, struct err *err)
{
	eventfd_t count;
	int over;

	eventfd_read(f->s->event_fd, &count); /* nothing there is fine */
	over = state(f, err);
	for (int i = 0; i < 2; i++) {
		int chan = f->turn;
		ssize_t k;

		f->turn = AGENT_OUT + AGENT_ERR - chan; /* the other one next time */
		k = take(f, chan, p, n, err);
		if (k > 0 && ret_chan)
			*ret_chan = chan;
		if (k)
			return k;
	}
	return over;
}

ssize_t guest_flow_feed(struct guest_flow *f, const uint8_t *p, size_t n, struct err *err)
{
	size_t k = stream_room(f->s, n);
	int r;

	if (!k || state(f, NULL) < 0)
		return 0;
	r = stream_send(f->s, p, k, deadline_in(GUEST_SEND_MS), err);
	return r < 0 ? r : (ssize_t)k;
}

int guest_flow_feed_eof(struct guest_flow *f, struct err *err)
{
	return stream_send_eof(f->s, deadline_in(GUEST_SEND_MS), err);
}

int guest_flow_write(struct guest_flow *f, const uint8_t *p, size_t n, uint64_t deadline_ms,
                     struct err *err)
{
	while (n) {
		int ev = stream_wait(f->s, STREAM_CREDIT | STREAM_DONE, deadline_ms, err), r;
		size_t k;

		if (ev < 0)
			return ev;
		if (ev & STREAM_DONE)
			return -ENODATA;
		k = stream_room(f->s, n);
		r = stream_send(f->s, p, k, deadline_ms, err);
		if (r < 0)
			return r;
		p += k;
		n -= k;
	}
	return 0;
}

int guest_flow_result(struct guest_flow *f, struct err *err)
{
	const uint8_t *body;
	size_t n;

	return stream_result(f->s, &body, &n, err);
}

int guest_flow_finish(struct guest_flow *f, uint64_t deadline_ms, struct err *err)
{
	int r = state(f, err);

	if (r == 0)
		r = stream_send_eof(f->s, deadline_ms, err);
	else if (r == -ENODATA)
		r = 0;
	if (r == 0)
		r = stream_wait(f->s, STREAM_DONE, deadline_ms, err);
	return r < 0 ? r : guest_flow_result(f, err);
}
