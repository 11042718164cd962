/* SPDX-License-Identifier: Apache-2.0 */
/*
 * up.c - connections to VMs: HTTP/1.1, kept for the next request to the same port of the same
 * machine
 *
 * Theory of operation: a connection belongs to one exchange, or waits in the pool. The response is
 * read only while the client's side has room. The connection goes back into the pool if request and
 * response were complete and neither end wanted to close. It belongs to one machine, and the edge
 * is told when that ends (edge_ended()). That call misses a socket that is not in the list yet, so
 * xchg_connect() checks once more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

struct up *up_new(struct worker *w, const struct edge_target *t, int fd_consume)
{
	struct up *u = calloc(1, sizeof(*u));

	if (!u || fd_consume < 0) {
		if (fd_consume >= 0)
			close(fd_consume);
		free(u);
		return NULL;
	}
	u->io = (struct io){ .kind = IO_UP, .fd = fd_consume };
	u->w = w;
	u->t = *t;
	if (worker_poll(w, &u->io, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0) {
		close(fd_consume);
		free(u);
		return NULL;
	}
	u->next = w->ups;
	if (w->ups)
		w->ups->prev = u;
	w->ups = u;
	return u;
}

void up_give_place(struct up *u)
{
	if (u->line)
		opener_connected(u->w->e->opener, TAKE_PTR(u->line));
}

static void pool_put(struct up *u)
{
	struct worker *w = u->w;

	u->idle_ms = w->now ? w->now : 1;
	u->pool_prev = NULL;
	u->pool_next = w->pool;
	if (w->pool)
		w->pool->pool_prev = u;
	w->pool = u;
	w->n_pool++;
}

static void pool_remove(struct up *u)
{
	struct worker *w = u->w;

	if (!u->idle_ms)
		return;
	u->idle_ms = 0;
	if (u->pool_prev)
		u->pool_prev->pool_next = u->pool_next;
	else
		w->pool = u->pool_next;
	if (u->pool_next)
		u->pool_next->pool_prev = u->pool_prev;
	w->n_pool--;
}

void up_close(struct up *u)
{
	struct worker *w = u->w;

	if (u->dead)
		return;
	u->dead = true;
	up_give_place(u);
	edge_give_back(w->e, &u->t);
	if (u->x)
		u->x->up = NULL;
	u->x = NULL;
	pool_remove(u);
	if (w->up_next == u)
		w->up_next = u->next;
	if (u->prev)
		u->prev->next = u->next;
	else
		w->ups = u->next;
	if (u->next)
		u->next->prev = u->prev;
	worker_close_io(w, &u->io);
	u->next = w->dead_ups;
	w->dead_ups = u;
}

void up_free(struct up *u)
{
	ebuf_done(&u->in);
	ebuf_done(&u->out);
	up2_free(u->h2);
	free(u);
}

static bool same_target(const struct edge_target *a, const struct edge_target *b)
{
	if (a->kind != b->kind || a->port != b->port || a->h2c != b->h2c)
		return false;
	return a->kind != EDGE_VM ||
	       (strcmp(a->vm, b->vm) == 0 && strcmp(a->instance, b->instance) == 0);
}

struct up *up_take(struct worker *w, const struct edge_target *t, unsigned max_idle_ms)
{
	for (struct up *u = w->pool; u; u = u->pool_next) {
		if (!same_target(&u->t, t) || w->now - u->idle_ms > max_idle_ms)
			continue;
		pool_remove(u);
		u->reused = true;
		return u;
	}
	return NULL;
}

void up_assign(struct up *u, struct xchg *x)
{
	u->x = x;
	x->up = u;
	u->state = UP_HEAD;
	u->scan = 0;
	u->got_any = false;
	u->chunks = (struct h1_chunks){ 0 };
	if (u->t.h2c)
		up2_assign(u, x);
	else
		ebuf_put(&u->out, ebuf_at(&x->head), x->head.len);
}

/* Is there something to read that belongs to no request? */
static bool unasked(struct up *u)
{
	uint8_t byte;

	if (!u->io.readable)
		return false;
	if (recv(u->io.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	    (errno == EAGAIN || errno == EINTR)) {
		u->io.readable = errno == EINTR;
		return false;
	}
	return true;
}

/* Were request and response complete, and did neither end want to close? */
static bool reusable(struct up *u)
{
	const struct xchg *x = u->x;

	return u->keep && !u->eof && !u->shut && u->state == UP_OVER && !u->in.len && !u->out.len &&
	       x->req_over && !x->resp_broken && !unasked(u);
}

void up_release(struct up *u)
{
	struct xchg *x = u->x;
	struct worker *w = u->w;

	if (u->dead)
		return;
	if (!x || u->t.many || w->n_pool >= EDGE_UP_POOL_MAX ||
	    !(u->t.h2c ? up2_rest(u) : reusable(u))) {
		up_close(u);
		return;
	}
	x->up = NULL;
	u->x = NULL;
	pool_put(u);
}

/* Anything that arrives on an idle connection ends it, even a response; HTTP/2 has pings and the
 * like. */
void up_idle_event(struct up *u)
{
	if (u->t.h2c ? !up2_idle(u) : unasked(u))
		up_close(u);
}

bool up_gone(const struct worker *w, const struct edge_target *t)
{
	struct edge_target now = *t;

	return t->kind == EDGE_VM && (w->e->ops.look(w->e->ops.ctx, &now) != EDGE_RUNNING ||
	                              strcmp(now.instance, t->instance) != 0);
}

/* ---- the response ---- */

static bool body_over(struct up *u)
{
	u->state = UP_OVER;
	resp_end(u->x);
	return true;
}

static bool broken(struct up *u)
{
	u->keep = false;
	resp_break(u->x);
	return true;
}

/* The head of the response; true: something happened. */
static bool take_answer(struct up *u)
{
	struct xchg *x = u->x;
	struct h1_head *h = &u->w->head;
	int r = h1_response(ebuf_at(&u->in), u->in.len, &u->scan, x->is_head, h);

	if (r == 0)
		return false;
	if (r < 0 || (h->status == 101 && !x->upgrade)) {
		xchg_up_failed(x, EBADMSG);
		return true;
	}
	if (h->status < 200 && h->status != 101) {
		ebuf_take(&u->in, h->len); /* the edge sends 100 itself; 103 is not forwarded */
		u->scan = 0;
		return true;
	}
	u->keep = !h->close;
	u->framing = h->framing;
	u->left = h->length;
	r = resp_head(x, h, h->framing == H1_BODY_LENGTH ? h->length : UINT64_MAX);
	ebuf_take(&u->in, h->len);
	if (r < 0)
		return broken(u);
	if (h->status == 101) {
		x->state = X_TUNNEL;
		x->close_after = true;
		x->req_over = false;
		u->keep = false;
		u->state = UP_BODY;
		u->framing = H1_BODY_CLOSE;
		return true;
	}
	u->state = UP_BODY;
	if (h->framing == H1_BODY_NONE || (h->framing == H1_BODY_LENGTH && !h->length))
		return body_over(u);
	return true;
}

static bool pass_chunks(struct up *u)
{
	const uint8_t *data;
	size_t n = 0;
	int64_t took = h1_chunks_feed(&u->chunks, ebuf_at(&u->in), MIN(u->in.len, resp_room(u->x)),
	                              &data, &n);

	if (took < 0 || (n && resp_data(u->x, data, n) < 0))
		return broken(u);
	ebuf_take(&u->in, (size_t)took);
	if (u->chunks.state == CHUNK_OVER)
		return body_over(u);
	return took > 0;
}

static bool pass_answer(struct up *u)
{
	size_t n = MIN(u->in.len, resp_room(u->x));

	if (n == 0)
		return false;
	if (u->framing == H1_BODY_CHUNKED)
		return pass_chunks(u);
	if (u->framing == H1_BODY_LENGTH)
		n = (size_t)MIN((uint64_t)n, u->left);
	if (resp_data(u->x, ebuf_at(&u->in), n) < 0)
		return broken(u);
	ebuf_take(&u->in, n);
	if (u->framing == H1_BODY_LENGTH) {
		u->left -= n;
		if (u->left == 0)
			return body_over(u);
	}
	return true;
}

static bool at_eof(struct up *u)
{
	if (u->in.len && u->state == UP_BODY)
		return false; /* the client has no room yet */
	if (u->state == UP_HEAD) {
		xchg_up_failed(u->x, ECONNRESET);
		return true;
	}
	if (u->state == UP_OVER)
		return false;
	u->keep = false;
	return u->framing == H1_BODY_CLOSE ? body_over(u) : broken(u);
}

static bool connect_over(struct up *u)
{
	int error = 0;
	socklen_t len = sizeof(error);
	struct xchg *x = u->x;

	if (!u->io.writable && !u->io.hup)
		return false;
	if (getsockopt(u->io.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	up_give_place(u);
	if (error) {
		xchg_up_failed(x, error);
		return true;
	}
	u->connected = true;
	u->io.hup = false; /* epoll reports a socket that is not connected yet as hung up */
	u->io.ended = false;
	x->state = X_ACTIVE;
	x->moved_ms = u->w->now;
	if (x->raw)
		raw_connected(u);
	xchg_wait(x, false);
	return true;
}

static bool write_some(struct up *u)
{
	ssize_t n;

	if (!u->out.len || !u->io.writable || u->shut)
		return false;
	n = send(u->io.fd, ebuf_at(&u->out), u->out.len, MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		u->io.writable = errno == EINTR;
		return false;
	}
	if (n < 0) { /* there may be a response it sent before closing */
		u->shut = true;
		u->keep = false;
		ebuf_done(&u->out);
		return true;
	}
	ebuf_take(&u->out, (size_t)n);
	u->x->moved_ms = u->w->now;
	return true;
}

/* Where to read to: straight into the client's buffer, or into ours, to be parsed. */
static struct ebuf *read_into(struct up *u, size_t *ret_room)
{
	struct ebuf *direct = u->state == UP_BODY && !u->in.len && u->framing != H1_BODY_CHUNKED
	                              ? resp_direct(u->x)
	                              : NULL;

	*ret_room = resp_room(u->x);
	/* A head must fit; of a body no more is read than the client's side has room for. */
	if (!direct && *ret_room)
		*ret_room = ebuf_free_up_to(&u->in, u->state == UP_BODY ? *ret_room : EDGE_BUF);
	else if (u->framing == H1_BODY_LENGTH)
		*ret_room = (size_t)MIN((uint64_t)*ret_room, u->left);
	return direct ? direct : &u->in;
}

static bool read_some(struct up *u)
{
	struct ebuf *to;
	size_t room;
	uint8_t *p;
	ssize_t n;

	if (!u->io.readable || u->eof || u->state == UP_OVER)
		return false;
	to = read_into(u, &room);
	p = room ? ebuf_room(to, room, EDGE_BUF) : NULL;
	if (!p)
		return false;
	n = recv(u->io.fd, p, room, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		u->io.readable = errno == EINTR;
		return false;
	}
	if (n <= 0) {
		u->eof = true;
		return true;
	}
	if ((size_t)n < room && !u->io.ended)
		u->io.readable = false;
	u->got_any = true;
	u->x->moved_ms = u->w->now;
	to->len += (size_t)n;
	if (to != &u->in)
		u->x->bytes_out += (uint64_t)n;
	if (to != &u->in && u->framing == H1_BODY_LENGTH) {
		u->left -= (uint64_t)n;
		if (u->left == 0)
			body_over(u);
	}
	return true;
}

bool up_run(struct up *u)
{
	bool moved = false;

	if (!u->connected) {
		moved = connect_over(u);
		if (!moved || u->dead || !u->connected)
			return moved;
	}
	if (u->t.h2c)
		return up2_run(u) || moved;
	moved |= write_some(u);
	moved |= read_some(u);
	if (u->state == UP_HEAD && u->in.len)
		moved |= take_answer(u);
	if (!u->dead && u->x && u->state == UP_BODY)
		moved |= pass_answer(u);
	if (!u->dead && u->x && u->eof && !u->x->raw)
		moved |= at_eof(u);
	return moved;
}
