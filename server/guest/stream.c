/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - one request: open, wait, take, give credit, close
 *
 * The id is slot + 256 * sequence: the reader finds the stream by its slot, and
 * the rest of the id distinguishes it from earlier streams of that slot. A stream that its
 * caller closes before RESULT is cancelled and stays in its slot until the guest
 * confirms, so what still arrives for it is expected; a guest that never confirms
 * only uses up its own slots.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

#define SEQ_MAX (UINT32_MAX / AGENT_STREAMS_MAX)

void stream_free(struct stream *s)
{
	if (!s)
		return;
	for (int i = 0; i < AGENT_CHANS; i++)
		buf_done(&s->rx[i].b);
	buf_done(&s->result);
	if (s->event_fd >= 0)
		close(s->event_fd);
	cond_destroy(&s->cond);
	free(s);
}

void stream_wake(struct stream *s)
{
	cond_broadcast(&s->cond);
	if (s->event_fd >= 0)
		eventfd_write(s->event_fd, 1);
}

static struct stream *stream_new(struct guest *g, bool with_events)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->g = g;
	s->event_fd = -1;
	s->tx_credit = AGENT_WINDOW;
	for (int i = 0; i < AGENT_CHANS; i++)
		s->rx[i].window = AGENT_WINDOW;
	cond_init(&s->cond);
	if (with_events && (s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
		stream_free(s);
		return NULL;
	}
	return s;
}

static int stream_register(struct guest *g, struct stream *s, struct err *err)
{
	LOCK_SCOPE(&g->lock);
	if (g->dead)
		return guest_gone(g, err);
	if (!g->greeted)
		return err_set(err, -ENOTCONN, "the guest has not been greeted yet");
	for (uint32_t i = 0; i < AGENT_STREAMS_MAX; i++) {
		if (g->streams[i])
			continue;
		g->next_seq = g->next_seq >= SEQ_MAX - 1 ? 1 : g->next_seq + 1;
		s->id = g->next_seq * AGENT_STREAMS_MAX + i;
		g->streams[i] = s;
		return 0;
	}
	return err_tag(err, -EAGAIN, ERR_GUEST_BUSY, "%u requests to this guest are already open",
	               AGENT_STREAMS_MAX);
}

static void stream_unregister(struct stream *s)
{
	LOCK_SCOPE(&s->g->lock);
	s->g->streams[s->id % AGENT_STREAMS_MAX] = NULL;
}

int stream_open(struct guest *g, const struct buf *req, unsigned opts, uint64_t deadline,
                struct stream **ret, struct err *err)
{
	struct stream *s;
	int r;

	silence_check(g);
	s = stream_new(g, opts & STREAM_EVENTS);
	if (!s)
		return err_set(err, -ENOMEM, "out of memory for a request to the guest");
	r = stream_register(g, s, err);
	if (r < 0) {
		stream_free(s);
		return r;
	}
	r = guest_send_open(g, s->id, req, opts & STREAM_IN_TURN, deadline, err);
	if (r < 0) { /* never on the wire, or the connection is gone */
		stream_unregister(s);
		stream_free(s);
		if (r == -ETIMEDOUT && !(opts & STREAM_IN_TURN))
			silence_suspect(g);
		return r;
	}
	*ret = s;
	return 0;
}

bool stream_abandon(struct stream *s)
{
	struct guest *g = s->g;
	bool unanswered;

	mutex_lock(&g->lock);
	unanswered = !s->done && !g->dead;
	if (unanswered) {
		s->abandoned = true;
		for (int i = 0; i < AGENT_CHANS; i++)
			buf_done(&s->rx[i].b);
	} else {
		g->streams[s->id % AGENT_STREAMS_MAX] = NULL;
	}
	mutex_unlock(&g->lock);
	if (!unanswered)
		stream_free(s);
	return unanswered;
}

void stream_close(struct stream *s)
{
	struct guest *g;
	uint32_t id;

	if (!s)
		return;
	g = s->g;
	id = s->id;
	if (stream_abandon(s))
		guest_send(g, AGENT_F_CANCEL, 0, id, NULL, 0, deadline_in(GUEST_CANCEL_MS), NULL);
}

static unsigned events_now(const struct stream *s)
{
	unsigned e = 0;

	if (s->rx[AGENT_OUT].b.len || s->rx[AGENT_ERR].b.len)
		e |= STREAM_DATA;
	if (s->tx_credit)
		e |= STREAM_CREDIT;
	if (s->opened)
		e |= STREAM_OPENED;
	if (s->done)
		e |= STREAM_DONE;
	return e;
}

/* As stream_wait(); 0: the guest may have been silent for too long. */
static int wait_some(struct stream *s, unsigned events, uint64_t deadline, struct err *err)
{
	struct guest *g = s->g;
	LOCK_SCOPE(&g->lock);

	for (;;) {
		unsigned e = events_now(s) & events;
		uint64_t until = g->silent_at ? MIN(deadline, g->silent_at) : deadline;

		/* A guest that always has more to say does not outlive the deadline; what comes
		 * before its answer is bounded. */
		if (e & STREAM_DONE || (e && clock_ms() < deadline))
			return (int)e;
		if (e)
			return err_set(err, -ETIMEDOUT, "the guest did not finish in time");
		if (g->dead)
			return guest_gone(g, err);
		if (cond_wait_until(&s->cond, &g->lock, until))
			continue;
		if (until == deadline)
			return err_set(err, -ETIMEDOUT, "the guest did not answer in time");
		return 0;
	}
}

int stream_wait(struct stream *s, unsigned events, uint64_t deadline, struct err *err)
{
	int r;

	while ((r = wait_some(s, events, deadline, err)) == 0)
		silence_check(s->g);
	if (r == -ETIMEDOUT)
		silence_suspect(s->g);
	return r;
}

void stream_take(struct stream *s, int chan, struct buf *b)
{
	struct buf empty = *b;
	LOCK_SCOPE(&s->g->lock);

	buf_reset(&empty);
	*b = s->rx[chan].b;
	s->rx[chan].b = empty; /* the caller's memory holds what comes next */
}

int stream_consumed(struct stream *s, int chan, size_t n, struct err *err)
{
	struct rx_chan *rx = &s->rx[chan];
	uint32_t grant = 0;
	uint8_t p[4];

	mutex_lock(&s->g->lock);
	rx->consumed += (uint32_t)n;
	if (rx->consumed >= GUEST_GRANT && !s->done && !rx->eof) {
		grant = rx->consumed;
		rx->window += grant;
		rx->consumed = 0;
	}
	mutex_unlock(&s->g->lock);
	if (!grant)
		return 0;
	put_be32(p, grant);
	return guest_send(s->g, AGENT_F_CREDIT, (uint16_t)chan, s->id, p, sizeof(p), GUEST_NEVER,
	                  err);
}

uint32_t stream_credit(struct stream *s)
{
	LOCK_SCOPE(&s->g->lock);
	return s->tx_credit;
}

size_t stream_room(struct stream *s, size_t max)
{
	size_t credit = stream_credit(s), n = MIN(max, GUEST_CHUNK);

	return MIN(n, credit);
}

int stream_send(struct stream *s, const void *p, size_t n, uint64_t deadline, struct err *err)
{
	mutex_lock(&s->g->lock);
	s->tx_credit -= (uint32_t)n;
	mutex_unlock(&s->g->lock);
	return guest_send(s->g, AGENT_F_DATA, AGENT_IN, s->id, p, n, deadline, err);
}

int stream_send_eof(struct stream *s, uint64_t deadline, struct err *err)
{
	return guest_send(s->g, AGENT_F_EOF, AGENT_IN, s->id, NULL, 0, deadline, err);
}

#define AS_CODE(num, NAME) [num] = ERR_##NAME,
static const enum err_code codes[] = { AGENT_TAGS(AS_CODE) };

int stream_result(struct stream *s, const uint8_t **ret_body, size_t *ret_len, struct err *err)
{
	struct agent_result m;

	/* The reader has checked it; done is set once and the bytes stay. */
	if (agent_result_get(s->result.p, s->result.len, &m) < 0)
		return err_set(err, -EPROTO, "the guest sent a malformed reply");
	if (m.status) {
		int code = -(int)m.status;

		if (m.tag != AGENT_TAG_NONE && m.tag < AGENT_TAG_END)
			return err_tag(err, code, codes[m.tag], "%s", m.msg);
		return err_set(err, code, "%s", m.msg);
	}
	*ret_body = m.body;
	*ret_len = m.body_len;
	return 0;
}
