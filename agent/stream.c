/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - the table of streams and the frames that belong to one
 *
 * A stream lives from OPEN to RESULT; then it may stay as an orphan (id 0) while
 * its process runs or something holds its pipes open: those are drained and
 * dropped, so that nothing in the guest blocks or dies because the host stopped
 * listening. Frames for an unknown stream are late ones for a stream that
 * just ended, and are ignored.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/log.h"

static uint64_t ref_make(const struct stream *s, enum ref_kind kind)
{
	return (uint64_t)kind << 56 | (uint64_t)s->slot << 32 | s->gen;
}

struct stream *stream_resolve(struct agent *a, uint64_t ref, enum ref_kind *ret_kind)
{
	uint32_t slot = (uint32_t)(ref >> 32) & 0xffffff, gen = (uint32_t)ref;

	*ret_kind = (enum ref_kind)(ref >> 56);
	/* Entries of the dense table move: the slot is a hint, the generation decides. */
	if (slot < a->n_streams && a->slot[slot]->gen == gen)
		return a->slot[slot];
	for (unsigned i = 0; i < a->n_streams; i++)
		if (a->slot[i]->gen == gen)
			return a->slot[i];
	return NULL;
}

/* The table is full: close the oldest pipe that only a background child still holds. */
static void forget_oldest(struct agent *a)
{
	struct stream *oldest = NULL;

	for (unsigned i = 0; i < a->n_streams; i++) {
		struct stream *s = a->slot[i];

		if (!s->id && s->exited && !s->proc && (!oldest || s->gen < oldest->gen))
			oldest = s;
	}
	if (oldest)
		stream_free(a, oldest);
}

struct stream *stream_new(struct agent *a, uint32_t id, uint16_t op)
{
	struct stream *s;

	if (a->n_streams == SLOTS_MAX)
		forget_oldest(a);
	if (a->n_streams == SLOTS_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->id = id;
	s->op = op;
	s->gen = ++a->next_gen;
	s->slot = a->n_streams;
	s->in.fd = s->pidfd = s->result_fd = s->commit_fd = -1;
	s->listen_fd[0] = s->listen_fd[1] = -1;
	s->in.window = AGENT_WINDOW;
	for (int i = 0; i < AGENT_CHANS; i++)
		s->out[i] = (struct out_chan){ .fd = -1, .credit = AGENT_WINDOW };
	a->slot[a->n_streams++] = s;
	return s;
}

void stream_close_in(struct stream *s)
{
	if (s->in.fd >= 0)
		close(TAKE_FD(s->in.fd));
	buf_done(&s->in.q);
	s->in.q_off = 0;
}

void stream_close_out(struct stream *s, int chan)
{
	if (s->out[chan].fd >= 0)
		close(TAKE_FD(s->out[chan].fd));
	s->out[chan].readable = false;
	s->out[chan].owed = 0;
}

void stream_free(struct agent *a, struct stream *s)
{
	assert(a->slot[s->slot] == s && s->pid == 0);
	proc_detach(a, s);
	pty_detach(a, s);
	stream_close_in(s);
	term_leave(s->term);
	for (int i = 0; i < AGENT_CHANS; i++)
		stream_close_out(s, i);
	int rest[] = { s->pidfd, s->result_fd, s->commit_fd, s->listen_fd[0], s->listen_fd[1] };
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++)
		if (rest[i] >= 0)
			close(rest[i]);
	a->slot[s->slot] = a->slot[--a->n_streams];
	a->slot[s->slot]->slot = s->slot;
	free(s);
}

struct stream *stream_find(struct agent *a, uint32_t id)
{
	for (unsigned i = 0; id && i < a->n_streams; i++)
		if (a->slot[i]->id == id)
			return a->slot[i];
	return NULL;
}

int stream_poll(struct agent *a, struct stream *s, int fd, enum ref_kind kind, uint32_t events)
{
	struct epoll_event ev = { .events = events | EPOLLET, .data.u64 = ref_make(s, kind) };

	if (epoll_ctl(a->ep, EPOLL_CTL_ADD, fd, &ev) == 0)
		return 0;
	/* A duplicate of a pipe that stays open was closed, and its number was reused. */
	if (errno == EEXIST && epoll_ctl(a->ep, EPOLL_CTL_MOD, fd, &ev) == 0)
		return 0;
	return -errno;
}

static void send_result(struct agent *a, uint32_t id, const struct agent_result *m)
{
	autobuf struct buf b = { 0 };

	agent_result_put(&b, m);
	if (!b.failed)
		port_send(a, AGENT_F_RESULT, 0, id, b.p, b.len);
}

void stream_result(struct agent *a, struct stream *s, uint32_t status, uint16_t tag,
                   const char *msg, const void *body, size_t body_len)
{
	struct agent_result m = {
		.status = status, .tag = tag, .msg = msg, .body = body, .body_len = body_len
	};

	if (s->id)
		send_result(a, s->id, &m);
	s->id = 0;
}

void stream_answer(struct agent *a, uint32_t id, uint32_t status, uint16_t tag, const char *msg)
{
	struct agent_result m = { .status = status, .tag = tag, .msg = msg };

	send_result(a, id, &m);
}

void stream_answer_body(struct agent *a, uint32_t id, const void *body, size_t n)
{
	struct agent_result m = { .msg = "", .body = body, .body_len = n };

	send_result(a, id, &m);
}

void stream_orphan_all(struct agent *a)
{
	buf_reset(&a->open);
	a->open_id = 0;
	for (unsigned i = a->n_streams; i-- > 0;) {
		if (a->slot[i]->id && a->slot[i]->op == AGENT_OP_SELF_TAKE)
			self_orphan(a, a->slot[i]);
		if (a->slot[i]->id)
			job_orphan(a, a->slot[i]);
	}
}

static void on_data(struct agent *a, struct stream *s, const struct agent_frame *f)
{
	struct in_chan *in = &s->in;

	if (f->flags != AGENT_IN || f->len > in->window || in->eof) {
		log_warn("the host sent %u bytes without credit", f->len);
		stream_result(a, s, EPROTO, AGENT_TAG_BAD_REQUEST, "data without credit", NULL, 0);
		job_orphan(a, s);
		return;
	}
	in->window -= f->len;
	in->fed = true;
	if (in->fd < 0 || in->broken) {
		in->unsaid += f->len; /* nothing reads it: drop it, and let the host continue */
	} else {
		buf_put(&in->q, f->payload, f->len);
		if (in->q.failed) {
			stream_result(a, s, ENOMEM, AGENT_TAG_GUEST_BUSY,
			              "the agent is out of memory", NULL, 0);
			job_orphan(a, s);
			return;
		}
	}
	pump_in(a, s);
}

static void on_credit(struct stream *s, const struct agent_frame *f)
{
	uint32_t n = get_be32(f->payload), *credit;

	if (f->flags != AGENT_OUT && f->flags != AGENT_ERR)
		return;
	credit = &s->out[f->flags].credit;
	*credit = n > AGENT_CREDIT_MAX - *credit ? AGENT_CREDIT_MAX : *credit + n;
}

/* A request may span frames; nothing else may come between them. */
static void on_open(struct agent *a, const struct agent_frame *f)
{
	bool more = f->flags & AGENT_OPEN_MORE;

	if (!f->stream || (!a->open_id && stream_find(a, f->stream))) {
		log_warn("the host opened stream %u, which is already open", f->stream);
		return;
	}
	if (!more && !a->open_id) {
		request_begin(a, f->stream, f->payload, f->len);
		return;
	}
	a->open_id = f->stream;
	if (a->open.len + f->len > AGENT_OPEN_MAX)
		a->open.failed = true; /* reported at its end */
	buf_put(&a->open, f->payload, f->len);
	if (more)
		return;
	a->open_id = 0;
	if (a->open.failed)
		stream_answer(a, f->stream, E2BIG, AGENT_TAG_BAD_REQUEST,
		              "the request is too long");
	else
		request_begin(a, f->stream, a->open.p, a->open.len);
	buf_done(&a->open);
}

void stream_on_frame(struct agent *a, const struct agent_frame *f)
{
	struct stream *s;

	if (a->open_id && (f->type != AGENT_F_OPEN || f->stream != a->open_id)) {
		stream_answer(a, a->open_id, EPROTO, AGENT_TAG_BAD_REQUEST,
		              "another frame arrived in the middle of a request");
		buf_done(&a->open);
		a->open_id = 0;
	}
	if (f->type == AGENT_F_CLOCK) {
		struct rd c = rd_of(f->payload, f->len);
		uint64_t ns;

		if (a->greeted && rd_u64(&c, &ns) == 0 && identity_clock(a, ns) < 0)
			log_warn("cannot set the clock: %m");
		return;
	}
	if (f->type == AGENT_F_OPEN) {
		on_open(a, f);
		return;
	}
	if (f->type == AGENT_F_DATA && !f->stream && f->flags == AGENT_WHO_CHAN) {
		self_on_who(a, f);
		return;
	}
	s = stream_find(a, f->stream);
	if (!s)
		return;
	switch (f->type) {
	case AGENT_F_DATA:
		on_data(a, s, f);
		break;
	case AGENT_F_EOF:
		if (f->flags == AGENT_IN) {
			s->in.eof = true;
			pump_in(a, s);
		}
		break;
	case AGENT_F_CREDIT:
		on_credit(s, f);
		break;
	case AGENT_F_CANCEL:
		job_cancel(a, s);
		break;
	case AGENT_F_SIGNAL:
		if (s->pty)
			pty_signal(s, (int)get_be32(f->payload));
		/* Unreaped, so the group is its own; a signal number that the kernel rejects is an
		 * error. */
		if (is_command(s) && s->pid > 0 && !s->exited &&
		    kill(-s->pid, (int)get_be32(f->payload)) < 0)
			log_warn("signal to process group %d: %m", (int)s->pid);
		break;
	default:
		log_warn("the host sent a %s, ignoring", agent_frame_name(f->type));
		break;
	}
}
