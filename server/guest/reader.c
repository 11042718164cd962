/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.c - the thread that takes frames from the guest and files them
 *
 * Nothing from the guest is trusted: a frame out of sync, for an unknown stream, on a channel that
 * does not exist, without credit, after its end, or that cannot be decoded ends the connection with
 * a message. The thread never sends and never waits for a consumer; what it keeps is bounded by the
 * windows.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "guest/guest_internal.h"

/* All on_*: NULL, or what is wrong. */
static const char *on_data(struct stream *s, const struct agent_frame *f)
{
	struct rx_chan *rx;

	if (f->flags != AGENT_OUT && f->flags != AGENT_ERR)
		return "data on a channel that does not exist";
	rx = &s->rx[f->flags];
	if (rx->eof)
		return "data after the end of its channel";
	if (f->len > rx->window)
		return "data without credit";
	rx->window -= f->len;
	if (s->abandoned)
		return NULL;
	buf_put(&rx->b, f->payload, f->len);
	return rx->b.failed ? "out of memory" : NULL;
}

static const char *on_credit(struct stream *s, const struct agent_frame *f)
{
	uint32_t n = get_be32(f->payload);

	if (f->flags != AGENT_IN)
		return "credit for a channel that does not exist";
	if (n > AGENT_CREDIT_MAX - s->tx_credit)
		return "too much credit";
	s->tx_credit += n;
	return NULL;
}

static const char *on_result(struct guest *g, struct stream *s, const struct agent_frame *f)
        REQUIRES(&g->lock)
{
	struct agent_result m;

	if (agent_result_get(f->payload, f->len, &m) < 0)
		return "a result that cannot be decoded";
	if (s->abandoned) {
		g->streams[s->id % AGENT_STREAMS_MAX] = NULL;
		stream_free(s);
		return NULL;
	}
	buf_put(&s->result, f->payload, f->len);
	if (s->result.failed)
		return "out of memory";
	s->done = true;
	stream_wake(s);
	return NULL;
}

static const char *on_stream_frame(struct guest *g, const struct agent_frame *f) REQUIRES(&g->lock)
{
	struct stream *s = g->streams[f->stream % AGENT_STREAMS_MAX];
	const char *wrong = NULL;

	if (!s || s->id != f->stream || s->done)
		return "a frame for a stream that is not open";
	switch (f->type) {
	case AGENT_F_DATA:
		wrong = on_data(s, f);
		break;
	case AGENT_F_CREDIT:
		wrong = on_credit(s, f);
		break;
	case AGENT_F_EOF:
		if (f->flags != AGENT_OUT && f->flags != AGENT_ERR)
			return "the end of a channel that does not exist";
		s->rx[f->flags].eof = true;
		break;
	case AGENT_F_OPENED:
		s->opened = true;
		s->opened_len = f->len; /* the frame table has bounded it */
		if (f->len)
			memcpy(s->opened_with, f->payload, f->len);
		break;
	default:
		return on_result(g, s, f); /* may free the stream */
	}
	if (!wrong)
		stream_wake(s);
	return wrong;
}

static const char *on_frame(struct guest *g, const struct agent_frame *f)
{
	LOCK_SCOPE(&g->lock);

	g->silent_at = 0;
	switch (f->type) {
	case AGENT_F_DATA:
	case AGENT_F_EOF:
	case AGENT_F_CREDIT:
	case AGENT_F_OPENED:
	case AGENT_F_RESULT:
		return on_stream_frame(g, f);
	case AGENT_F_HELLO_ACK:
		if (!g->acks_left)
			return "a reply to a greeting that was not sent";
		g->acks_left--;
		return NULL;
	case AGENT_F_READY:
		return "the agent was restarted or lost protocol sync";
	default:
		return "a frame that only the host may send";
	}
}

/* false when the connection ended. */
static bool take_frames(struct guest *g)
{
	struct agent_frame f;
	int r;

	while ((r = agent_rx_next(&g->rx, &f)) == 1) {
		const char *wrong = f.type == AGENT_F_RING ? NULL : on_frame(g, &f);

		if (f.type == AGENT_F_RING)
			guest_rang(g);
		if (wrong) {
			guest_end(g, LOG_LV_WARN, "the guest sent %s: %s", agent_frame_name(f.type),
			          wrong);
			return false;
		}
	}
	if (r < 0)
		guest_end(g, LOG_LV_WARN, "the guest sent bytes that are not a frame");
	return r == 0;
}

static void *reader_main(void *arg)
{
	struct guest *g = arg;

	while (take_frames(g)) {
		size_t room;
		uint8_t *p = agent_rx_space(&g->rx, &room);
		ssize_t n = recv(g->fd, p, room, 0);

		if (n > 0) {
			agent_rx_added(&g->rx, (size_t)n);
		} else if (n == 0) {
			guest_end(g, LOG_LV_INFO, "the other side closed it");
			break;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			struct pollfd pfd = { .fd = g->fd, .events = POLLIN };

			poll(&pfd, 1, -1); /* guest_end() shuts the socket down, which ends it */
		} else if (errno != EINTR) {
			guest_end(g, LOG_LV_INFO, "receive: %s", err_name(errno));
			break;
		}
	}
	guest_drop(g);
	return NULL;
}

int reader_start(struct guest *g, struct err *err)
{
	pthread_attr_t at;
	pthread_t t;
	int r;

	guest_hold(g);
	pthread_attr_init(&at);
	pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &at, reader_main, g);
	pthread_attr_destroy(&at);
	if (r) {
		guest_drop(g);
		return err_sys(err, -r, "start the agent channel's reader");
	}
	return 0;
}
