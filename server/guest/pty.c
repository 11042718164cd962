/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty.c - one client of a terminal session
 *
 * The guest sends pieces with a header each. They are put together here again,
 * whatever the frames they came in; a header that is malformed, or a piece out
 * of turn, ends the connection as any protocol violation does. Credit is given when a piece is
 * handed to the caller, so a caller that waits holds up the guest.
 */
#include "guest/guest_pty.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"
#include "wire/agent_pty.h"

#define RESIZE_MS 10000 /* for the guest to answer */

_Static_assert(GUEST_PTY_ID == AGENT_PTY_ID, "an id has one size");
_Static_assert(GUEST_PTYS_MAX == AGENT_PTYS_MAX, "one limit of sessions");
_Static_assert(GUEST_PTY_CHUNK == AGENT_PIECE_BYTES, "one limit of a piece");

struct guest_pty {
	struct guest *g;  /* reference */
	struct stream *s; /* owned */
	struct buf got;   /* received, from off on not handed out */
	size_t off;
	bool in_picture; /* a picture began and has not ended */
};

bool guest_pty_id_valid(const char *id)
{
	return agent_pty_id_valid(id);
}

bool guest_pty_size_valid(unsigned cols, unsigned rows)
{
	return agent_pty_size_valid(cols, rows);
}

static int lie(struct guest_pty *t, struct err *err)
{
	guest_end(t->g, LOG_LV_WARN, "the guest sent malformed terminal output");
	return err_set(err, -ECONNRESET, "the guest sent a malformed reply");
}

static void fill(const struct agent_pty *m, struct guest_pty_info *ret)
{
	*ret = (struct guest_pty_info){ .cols = m->cols,
		                        .rows = m->rows,
		                        .clients = m->clients,
		                        .running = m->running,
		                        .exit_code = (int)m->exit_code,
		                        .created_ms = (int64_t)m->created_ms,
		                        .exited_ms = (int64_t)m->exited_ms };
	snprintf(ret->id, sizeof(ret->id), "%s", m->id);
	snprintf(ret->user, sizeof(ret->user), "%s", m->user);
	snprintf(ret->exec, sizeof(ret->exec), "%s", m->exec);
}

/* More bytes from the stream behind what is left. */
static int pull(struct guest_pty *t, struct err *err)
{
	autobuf struct buf more = { 0 };

	/* Nobody would ever take it, and whoever waits for data would not wait. */
	stream_take(t->s, AGENT_ERR, &more);
	if (more.len)
		return lie(t, err);
	stream_take(t->s, AGENT_OUT, &more);
	if (!more.len)
		return -EAGAIN;
	if (t->off) {
		memmove(t->got.p, t->got.p + t->off, t->got.len - t->off);
		t->got.len -= t->off;
		t->off = 0;
	}
	buf_put(&t->got, more.p, more.len);
	return t->got.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/* The next whole piece with its kind of the wire; -EAGAIN when there is none. */
static ssize_t next_piece(struct guest_pty *t, uint8_t *ret_kind, const uint8_t **ret,
                          struct err *err)
{
	for (;;) {
		size_t left = t->got.len - t->off;
		struct agent_piece_hdr h;
		int r;

		if (left >= AGENT_PIECE_HDR) {
			if (agent_piece_hdr_get(t->got.p + t->off, &h) < 0)
				return lie(t, err);
			if (left - AGENT_PIECE_HDR >= h.len) {
				*ret_kind = h.kind;
				*ret = t->got.p + t->off + AGENT_PIECE_HDR;
				t->off += AGENT_PIECE_HDR + h.len;
				r = stream_consumed(t->s, AGENT_OUT, AGENT_PIECE_HDR + h.len, err);
				return r < 0 ? r : (ssize_t)h.len;
			}
		}
		r = pull(t, err);
		if (r < 0)
			return r;
	}
}

/* Nothing more to take: is it over? */
static int state(struct guest_pty *t, struct err *err)
{
	LOCK_SCOPE(&t->g->lock);
	if (t->s->rx[AGENT_OUT].b.len)
		return 0;
	if (t->s->done)
		return t->got.len > t->off ? -EPROTO : -ENODATA;
	if (t->g->dead)
		return guest_gone(t->g, err);
	return -EAGAIN;
}

ssize_t guest_pty_read(struct guest_pty *t, enum guest_pty_piece *ret_kind, const uint8_t **ret,
                       struct err *err)
{
	eventfd_t count;
	uint8_t kind;
	ssize_t n;

	eventfd_read(t->s->event_fd, &count); /* before looking: nothing is missed */
	for (;;) {
		int r;

		n = next_piece(t, &kind, ret, err);
		if (n != -EAGAIN)
			break;
		r = state(t, err);
		if (r < 0)
			return r == -EPROTO ? lie(t, err) : r;
	}
	if (n < 0)
		return n;
	/* A picture is whole: nothing else comes into it. */
	if (kind == AGENT_PTY_INFO || (kind == AGENT_PTY_OUTPUT && t->in_picture))
		return lie(t, err);
	t->in_picture = kind == AGENT_PTY_PICTURE;
	*ret_kind = kind == AGENT_PTY_PICTURE    ? GUEST_PTY_PICTURE
	            : kind == AGENT_PTY_PICTURED ? GUEST_PTY_PICTURED
	                                         : GUEST_PTY_OUTPUT;
	return n;
}

int guest_pty_exit_code(struct guest_pty *t, struct err *err)
{
	struct agent_pty_end m;
	const uint8_t *body;
	size_t n;
	int r = stream_result(t->s, &body, &n, err);

	if (r < 0)
		return r;
	if (agent_pty_end_get(body, n, &m) < 0 || m.running)
		return err_set(err, -EPROTO, "the guest sent a malformed reply");
	return (int)m.exit_code;
}

/* The first piece describes the session; an error comes instead of it. */
static int first(struct guest_pty *t, uint64_t deadline, struct guest_pty_info *ret,
                 struct err *err)
{
	for (;;) {
		const uint8_t *p = NULL;
		struct agent_pty m;
		struct rd c;
		uint8_t kind;
		ssize_t n;
		int ev = stream_wait(t->s, STREAM_DATA | STREAM_DONE, deadline, err);

		if (ev < 0)
			return ev;
		n = next_piece(t, &kind, &p, err);
		if (n == -EAGAIN && (ev & STREAM_DONE)) {
			const uint8_t *body;
			size_t len;
			int r = stream_result(t->s, &body, &len, err);

			return r < 0 ? r : lie(t, err);
		}
		if (n == -EAGAIN)
			continue;
		if (n < 0)
			return (int)n;
		c = rd_of(p, (size_t)n);
		if (kind != AGENT_PTY_INFO || agent_pty_get(&c, &m) < 0 || rd_end(&c) < 0)
			return lie(t, err);
		fill(&m, ret);
		return 0;
	}
}

static int begin(struct guest *g, const struct buf *b, uint64_t deadline, struct guest_pty **ret,
                 struct guest_pty_info *ret_info, struct err *err)
{
	struct guest_pty *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory for a terminal");
	t->g = guest_ref(g);
	r = stream_open(g, b, STREAM_EVENTS, deadline, &t->s, err);
	if (r == 0)
		r = first(t, deadline, ret_info, err);
	if (r < 0) {
		guest_pty_detach(t);
		if (r == -EOPNOTSUPP)
			return err_set(err, -ENOTSUP,
			               "this VM was created by an older version of Pando: stop and "
			               "start it");
		return r;
	}
	*ret = t;
	return 0;
}

int guest_pty_open(struct guest *g, const struct guest_pty_req *req, uint64_t deadline,
                   struct guest_pty **ret, struct guest_pty_info *ret_info, struct err *err)
{
	autofree struct agent_pty_open *m = calloc(1, sizeof(*m));
	autobuf struct buf b = { 0 };

	if (!m)
		return err_set(err, -ENOMEM, "out of memory for a terminal");
	if (req->exec && strlen(req->exec) >= AGENT_COMMAND_MAX)
		return err_tag(err, -E2BIG, ERR_COMMAND_TOO_LONG,
		               "the command is longer than %u bytes", AGENT_COMMAND_MAX - 1);
	m->id = req->id;
	m->user = req->user;
	m->exec = req->exec;
	m->cols = (uint16_t)req->cols;
	m->rows = (uint16_t)req->rows;
	buf_put_u16(&b, AGENT_OP_PTY_OPEN);
	agent_pty_open_put(&b, m);
	return begin(g, &b, deadline, ret, ret_info, err);
}

int guest_pty_attach(struct guest *g, const struct guest_pty_req *req, uint64_t deadline,
                     struct guest_pty **ret, struct guest_pty_info *ret_info, struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, AGENT_OP_PTY_ATTACH);
	agent_pty_req_put(&b, &(struct agent_pty_req){ .id = req->id,
	                                               .user = req->user,
	                                               .cols = (uint16_t)req->cols,
	                                               .rows = (uint16_t)req->rows });
	return begin(g, &b, deadline, ret, ret_info, err);
}

void guest_pty_detach(struct guest_pty *t)
{
	if (!t)
		return;
	stream_close(t->s);
	buf_done(&t->got);
	guest_unref(t->g);
	free(t);
}

int guest_pty_fd(const struct guest_pty *t)
{
	return t->s->event_fd;
}

ssize_t guest_pty_write(struct guest_pty *t, const void *p, size_t n, struct err *err)
{
	size_t k = stream_room(t->s, n);
	int r;

	if (!k)
		return 0;
	r = stream_send(t->s, p, k, deadline_in(GUEST_SEND_MS), err);
	return r < 0 ? r : (ssize_t)k;
}

int guest_pty_resize(struct guest_pty *t, unsigned cols, unsigned rows, struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, AGENT_OP_PTY_RESIZE);
	agent_pty_resize_put(&b, &(struct agent_pty_resize){ .stream = t->s->id,
	                                                     .cols = (uint16_t)cols,
	                                                     .rows = (uint16_t)rows });
	return guest_call(t->g, &b, deadline_in(RESIZE_MS), NULL, err);
}

int guest_pty_signal(struct guest_pty *t, unsigned sig, struct err *err)
{
	uint8_t p[4];

	put_be32(p, sig);
	return guest_send(t->g, AGENT_F_SIGNAL, 0, t->s->id, p, sizeof(p),
	                  deadline_in(GUEST_SEND_MS), err);
}

/* The entries of one answer; serials must grow, or a guest could keep us asking. */
static int add_page(const struct buf *body, struct guest_pty_info *all, size_t *n, uint32_t *after)
{
	struct rd c = rd_of(body->p, body->len);

	while (c.left) {
		struct agent_pty m;

		if (*n == GUEST_PTYS_MAX || agent_pty_get(&c, &m) < 0 || m.serial <= *after)
			return -EPROTO;
		fill(&m, &all[(*n)++]);
		*after = m.serial;
	}
	return 0;
}

int guest_pty_list(struct guest *g, struct guest_pty_info **ret, size_t *ret_n, struct err *err)
{
	autofree struct guest_pty_info *all = calloc(GUEST_PTYS_MAX, sizeof(*all));
	uint32_t after = 0;
	size_t n = 0, before;

	if (!all)
		return err_set(err, -ENOMEM, "out of memory for a list of sessions");
	do {
		autobuf struct buf b = { 0 }, body = { 0 };
		int r;

		before = n;
		buf_put_u16(&b, AGENT_OP_PTY_LIST);
		buf_put_u32(&b, after);
		r = guest_call(g, &b, deadline_in(GUEST_CALL_MS), &body, err);
		if (r == -EOPNOTSUPP)
			break; /* an agent from before there were any */
		if (r < 0)
			return r;
		if (add_page(&body, all, &n, &after) < 0)
			return err_set(err, -EPROTO, "the guest sent a malformed reply");
	} while (n > before);
	*ret = TAKE_PTR(all);
	*ret_n = n;
	return 0;
}

int guest_pty_close(struct guest *g, const char *id, const char *user, int *ret_exit,
                    struct err *err)
{
	autobuf struct buf b = { 0 }, body = { 0 };
	struct agent_pty_end m;
	int r;

	buf_put_u16(&b, AGENT_OP_PTY_CLOSE);
	agent_pty_req_put(&b, &(struct agent_pty_req){ .id = id, .user = user });
	r = guest_call(g, &b, deadline_in(GUEST_CALL_MS), &body, err);
	if (r < 0)
		return r;
	if (agent_pty_end_get(body.p, body.len, &m) < 0)
		return err_set(err, -EPROTO, "the guest sent a malformed reply");
	*ret_exit = m.running ? -1 : (int)m.exit_code;
	return 0;
}
