/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xchg.c - one request: where it goes, how it gets there, and the response if it cannot
 *
 * Theory of operation: a request for a VM takes an idle connection from the pool, or asks an opener
 * thread for a socket, which wakes the VM if necessary. Then the port is tried until something
 * listens there: briefly in a VM that was running, for longer in one that was just woken. Failures
 * before the response has begun become an error page; after that, the response is cut.
 *
 * A socket that is not connected after a moment is given up for another one. On the way to a VM
 * nothing is lost, so its program has a full queue, and TCP would try again only after 1, 3 and 7
 * seconds. Meanwhile it would hold a place in the opener's line.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

#define CONNECT_MS 10000 /* a port that neither answers nor refuses */
#define ACME_PATH "/.well-known/acme-challenge/"

struct xchg *xchg_new(struct conn *c)
{
	struct xchg *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->id = c->w->next_xchg++;
	x->c = c;
	x->since = c->w->now;
	atomic_fetch_add_explicit(&c->w->e->requests, 1, memory_order_relaxed);
	return x;
}

void xchg_wait(struct xchg *x, bool waiting)
{
	struct worker *w = x->c->w;

	struct xchg **bucket = &w->by_id[x->id % EDGE_ID_BUCKETS];

	if (x->waiting == waiting)
		return;
	x->waiting = waiting;
	if (waiting) {
		x->id_next = *bucket;
		*bucket = x;
		x->prev = NULL;
		x->next = w->waiting;
		if (w->waiting)
			w->waiting->prev = x;
		w->waiting = x;
		return;
	}
	while (*bucket != x)
		bucket = &(*bucket)->id_next;
	*bucket = x->id_next;
	if (w->wait_next == x)
		w->wait_next = x->next;
	if (x->prev)
		x->prev->next = x->next;
	else
		w->waiting = x->next;
	if (x->next)
		x->next->prev = x->prev;
}

/* What it has of the way to its VM. */
static void drop_up(struct xchg *x)
{
	const struct worker *w = x->c->w;

	if (x->state == X_OPENING && x->waiting)
		opener_forget(w->e->opener, w, x->id, guard_name(x->c->client), x->t.vm);
	if (x->up)
		up_close(x->up);
	x->up = NULL;
}

void xchg_free(struct xchg *x)
{
	line_end(x);
	if (x->up && (x->resp_over || x->up->t.h2c)) /* of HTTP/2 a stream can be given up alone */
		up_release(x->up);
	drop_up(x);
	xchg_wait(x, false);
	if (x->counted)
		guard_end(x->c->client);
	ebuf_done(&x->head);
	ebuf_done(&x->body);
	ebuf_done(&x->req_body);
	ebuf_done(&x->target);
	ebuf_done(&x->authority);
	ebuf_done(&x->cookie);
	ebuf_done(&x->fields);
	ebuf_done(&x->req_trailers);
	ebuf_done(&x->resp_trailers);
	free(x);
}

/* ---- responses of our own ---- */

static void answer(struct xchg *x, unsigned status, const char *type, const struct ebuf *body)
{
	struct h1_head h = { .status = status, .framing = H1_BODY_LENGTH, .length = body->len };
	bool head_only = x->is_head;

	h.fields[h.n_fields++] =
	        (struct h1_field){ { "Content-Type", 12 }, { type, strlen(type) } };
	h.fields[h.n_fields++] = (struct h1_field){ { "Cache-Control", 13 }, { "no-store", 8 } };
	if (status == 503 || status == 429)
		h.fields[h.n_fields++] = (struct h1_field){ { "Retry-After", 11 }, { "3", 1 } };
	if (resp_head(x, &h, body->len) < 0 ||
	    (!head_only && body->len && resp_data(x, ebuf_at(body), body->len) < 0))
		resp_break(x);
	else
		resp_end(x);
}

/* As gRPC maps the status of HTTP; the message is the page's. */
static void answer_grpc(struct xchg *x, unsigned status, const char *text)
{
	static const char hex[] = "0123456789ABCDEF";
	struct h1_head h = { .status = 200, .framing = H1_BODY_NONE };
	const char *code = status == 400                    ? "13"
	                   : status == 404                  ? "12"
	                   : status == 429 || status >= 502 ? "14"
	                                                    : "2";
	char message[768];
	size_t n = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p && n + 4 < sizeof(message);
	     p++) {
		if (*p >= ' ' && *p <= '~' && *p != '%') {
			message[n++] = (char)*p;
			continue;
		}
		message[n++] = '%';
		message[n++] = hex[*p >> 4];
		message[n++] = hex[*p & 15];
	}
	h.fields[h.n_fields++] =
	        (struct h1_field){ { "content-type", 12 }, { "application/grpc", 16 } };
	h.fields[h.n_fields++] = (struct h1_field){ { "grpc-status", 11 }, { code, strlen(code) } };
	h.fields[h.n_fields++] = (struct h1_field){ { "grpc-message", 12 }, { message, n } };
	if (resp_head(x, &h, 0) < 0)
		resp_break(x);
	else
		resp_end(x);
}

void xchg_refuse(struct xchg *x, unsigned status, enum err_code code, const char *title,
                 const char *text)
{
	struct ebuf body = { 0 };
	const char *type;

	drop_up(x);
	xchg_wait(x, false);
	x->state = X_LOCAL;
	x->code = code;
	atomic_fetch_add_explicit(&x->c->w->e->refused, 1, memory_order_relaxed);
	if (x->raw)
		raw_refuse(x);
	else if (x->grpc && x->c->h2 && !x->resp_begun)
		answer_grpc(x, status, text ? text : title);
	else if (x->resp_begun ||
	         page_make(x, status, code, title, text ? text : "", &body, &type) < 0)
		resp_break(x);
	else
		answer(x, status, type, &body);
	ebuf_done(&body);
}

static void refuse_busy(struct xchg *x)
{
	xchg_refuse(x, 503, ERR_UNAVAILABLE, "Too busy", "Try again in a moment.");
}

static void refuse_unmapped(struct xchg *x)
{
	xchg_refuse(x, 404, ERR_DOMAIN_NOT_MAPPED, "This name leads nowhere",
	            "No VM is mapped to this name. Its owner can map one: POST "
	            "/domains/v1/mappings/{domain} with {vmId, vmPort}, or "
	            "freestyle.domains.mappings.create().");
}

static void refuse_silent(struct xchg *x)
{
	char text[320];

	snprintf(text, sizeof(text),
	         "The VM runs, but nothing listens on its port %u. Start the program there, and "
	         "let it listen on 0.0.0.0, not on 127.0.0.1 alone.",
	         x->t.port);
	xchg_refuse(x, 502, ERR_NOTHING_LISTENS, "Nothing listens here", text);
}

static void refuse_starting(struct xchg *x)
{
	if (x->t.many)
		xchg_refuse(
		        x, 503, ERR_DEPLOYMENT_BUSY, "All instances are busy",
		        "Every instance of the deployment behind this name has as many requests "
		        "as it may, and no more may be started. Try again in a moment.");
	else
		xchg_refuse(
		        x, 503, ERR_VM_STARTING, "The VM is starting",
		        "The VM behind this name was asleep and is being started. Try again in a "
		        "moment; this page does so by itself.");
}

/* Nothing answered for as long as the request may wait: programs may need longer than that. */
static void refuse_unheard(struct xchg *x)
{
	if (x->opened_ms && x->c->w->now < x->opened_ms + x->t.fresh_ms)
		refuse_starting(x);
	else
		refuse_silent(x);
}

static void refuse_open(struct xchg *x, const struct err *err)
{
	if (err->code == -ENOENT) {
		refuse_unmapped(x);
	} else if (err->code == -EBUSY || err->code == -ETIMEDOUT || err->code == -EAGAIN) {
		refuse_starting(x);
	} else if (err->code == -EMFILE || err->code == -ENFILE || err->code == -ENOMEM) {
		refuse_busy(x);
	} else {
		xchg_refuse(
		        x, 503, err_code_status(err->tag) ? err->tag : ERR_VM_NOT_RUNNING,
		        "The VM cannot be started",
		        "The VM behind this name is not running and could not be started. Its logs "
		        "say why.");
	}
}

/* ---- the way to the VM ---- */

static void ask_opener(struct xchg *x)
{
	struct edge *e = x->c->w->e;

	x->state = X_OPENING;
	if (!x->dialled)
		x->deadline = x->since + e->conf.wait_ms;
	xchg_wait(x, true);
	if (opener_ask(e->opener, x->c->w, x->id, guard_name(x->c->client), &x->t) < 0)
		refuse_busy(x);
}

/* It waits, and is looked at again after a while. */
static void back_off(struct xchg *x, unsigned least_ms)
{
	struct worker *w = x->c->w;

	x->backoff_ms = MAX(MIN(2 * x->backoff_ms, EDGE_RETRY_MAX_MS), least_ms);
	x->retry_at = w->now + x->backoff_ms;
	w->retry_at = MIN(w->retry_at, x->retry_at);
	xchg_wait(x, true);
}

void xchg_connect(struct xchg *x, struct opened *o)
{
	struct worker *w = x->c->w;
	int fl = fcntl(o->fd, F_GETFL);
	struct up *u = NULL;

	if (fl >= 0)
		(void)fcntl(o->fd, F_SETFL, fl | O_NONBLOCK);
	if (guard_fd(w->e->guard, o->fd))
		u = up_new(w, &o->t, TAKE_FD(o->fd));
	if (!u) {
		refuse_busy(x);
		return;
	}
	o->t.ticket = 0; /* the connection's from now on */
	u->line = TAKE_PTR(o->line);
	x->state = X_CONNECTING;
	if (!x->dialled)
		x->deadline = MAX(x->deadline, w->now + CONNECT_MS);
	x->dialled = true;
	back_off(x, EDGE_REDIAL_MIN_MS);
	up_assign(u, x);
	if (up_gone(w, &x->t)) { /* it ended before the socket was listed */
		up_close(u);
		ask_opener(x);
	}
}

static void find_way(struct xchg *x, bool pool)
{
	struct worker *w = x->c->w;
	struct edge *e = w->e;
	unsigned idle = x->again_ok ? EDGE_UP_IDLE_MS : EDGE_UP_FRESH_MS;
	enum edge_look look = EDGE_RUNNING;
	struct up *u = NULL;

	if (x->t.kind == EDGE_NOWHERE) {
		refuse_unmapped(x);
		return;
	}
	if (x->t.raw != x->raw) {
		xchg_refuse(x, 421, ERR_MISDIRECTED, "This name is not for HTTP here",
		            "It is mapped with the protocol tls: connections for it go to the VM "
		            "as they are. Use https, and one connection for each name.");
		return;
	}
	if (x->t.h2c && x->upgrade) {
		xchg_refuse(
		        x, 501, ERR_BAD_REQUEST, "No WebSockets here",
		        "This name is mapped with the protocol h2c, which has no WebSockets. Map "
		        "another name to the port with the protocol http1.");
		return;
	}
	if (x->t.kind == EDGE_VM)
		look = e->ops.look(e->ops.ctx, &x->t);
	if (look == EDGE_ASLEEP && !x->was_asleep) {
		x->was_asleep = true;
		atomic_fetch_add_explicit(&e->woken, 1, memory_order_relaxed);
	}
	if (pool && look == EDGE_RUNNING && !x->upgrade && !x->t.many)
		u = up_take(w, &x->t, idle);
	if (u) {
		up_assign(u, x);
		x->state = X_ACTIVE;
		x->moved_ms = w->now;
	} else if (guard_tight(e->guard)) {
		refuse_busy(x);
	} else {
		ask_opener(x);
	}
}

/* Responds to ACME challenges of ours; others go to the VM. */
static bool acme(struct xchg *x)
{
	struct edge *e = x->c->w->e;
	const char *p = (const char *)ebuf_at(&x->head);
	size_t skip = strlen(x->method) + 1, n = strlen(ACME_PATH), len = 0;
	char token[128], text[EDGE_ACME_TEXT_MAX];
	struct ebuf body = { 0 };

	if (!e->ops.challenge || x->head.len < skip + n + 1 || memcmp(p + skip, ACME_PATH, n) != 0)
		return false;
	p += skip + n;
	while (len < sizeof(token) - 1 && p[len] != ' ' && p[len] != '\r') {
		token[len] = p[len];
		len++;
	}
	token[len] = '\0';
	if (e->ops.challenge(e->ops.ctx, token, text) < 0 ||
	    ebuf_put(&body, text, strlen(text)) < 0)
		return false;
	x->state = X_LOCAL;
	answer(x, 200, "text/plain", &body);
	ebuf_done(&body);
	return true;
}

/* Is it for the name that the connection is for, and does it not go in circles? */
static bool guest_may(struct xchg *x)
{
	const struct edge_guest *g = x->c->guest;

	if (!g)
		return true;
	if (*g->only && strcmp(g->only, x->host) != 0)
		xchg_refuse(x, 421, ERR_MISDIRECTED, "Another name",
		            "The VM's egress policy allowed this connection for the name it was "
		            "opened with. Open one connection for each name.");
	else if (x->hops >= EDGE_HOPS_MAX)
		xchg_refuse(x, 508, ERR_LOOP_DETECTED, "This request goes in circles",
		            "It came from a VM and was passed on to a VM 8 times. A program that "
		            "passes requests on probably sends them to a name that leads back to "
		            "itself: let it use another name, or the address 127.0.0.1.");
	else
		return true;
	return false;
}

/* By these the API knows who passes the request on, and who sent it. */
static int sign(struct xchg *x)
{
	const struct edge_guest *g = x->c->guest;
	char field[96];
	int r = 0;

	if (!x->t.field)
		return 0;
	if (g && *g->caller) {
		snprintf(field, sizeof(field), "X-Pando-Vm: %s\r\n", g->caller);
		r = head_sign(x, field);
	}
	return r < 0 ? r : head_sign(x, x->t.field);
}

void xchg_begin(struct xchg *x)
{
	struct edge *e = x->c->w->e;
	char host[EDGE_HOST_SIZE];

	if (acme(x))
		return;
	line_begin(x);
	x->counted = guard_begin(e->guard, x->c->client);
	if (!x->counted) {
		xchg_refuse(x, 429, ERR_LIMIT_EXCEEDED, "Too many requests at once",
		            "Your address has as many requests open as one may have. Wait until "
		            "some of them have ended.");
		return;
	}
	if (!guest_may(x))
		return;
	conn_asks(x->c, x->host, host);
	e->ops.route(e->ops.ctx, host, &x->t);
	memcpy(x->t.host, host, sizeof(x->t.host));
	if (x->t.kind == EDGE_ADDR && sign(x) < 0) {
		refuse_busy(x);
		return;
	}
	find_way(x, true);
}

void xchg_again(struct xchg *x)
{
	find_way(x, false);
}

static void retry_later(struct xchg *x)
{
	drop_up(x);
	x->state = X_RETRY;
	back_off(x, EDGE_RETRY_MIN_MS);
}

static bool not_listening(int error)
{
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH;
}

/* Nothing listens yet: tried again for as long as its programs may be starting. */
static void up_refused(struct xchg *x)
{
	const struct worker *w = x->c->w;
	uint64_t until = x->opened_ms + MAX(x->t.fresh_ms, EDGE_GRACE_MS);

	x->deadline = MIN(until, x->since + w->e->conf.wait_ms);
	if (x->t.kind == EDGE_VM && w->now < x->deadline)
		retry_later(x);
	else
		refuse_unheard(x);
}

void xchg_opened(struct worker *w, struct opened *o)
{
	struct xchg *x = w->by_id[o->xchg % EDGE_ID_BUCKETS];

	while (x && x->id != o->xchg)
		x = x->id_next;
	if (!x || x->state != X_OPENING)
		return; /* the client has left, or the request is past its deadline */
	struct conn *c = x->c;
	bool silent = o->fd < 0 && not_listening(-o->err.code);
	if (o->fd < 0 && !silent) {
		refuse_open(x, &o->err);
	} else {
		if (!x->opened_ms || strcmp(x->t.instance, o->t.instance) != 0)
			x->opened_ms = w->now; /* from here on its programs have so much time */
		x->t = o->t;
		x->t.ticket = 0;
		if (silent)
			up_refused(x);
		else
			xchg_connect(x, o);
	}
	conn_run(c);
}

void xchg_up_failed(struct xchg *x, int error)
{
	struct up *u = x->up;
	bool connecting = u && !u->connected;

	if (x->resp_begun) {
		resp_break(x);
		return;
	}
	if (connecting && not_listening(error)) {
		up_refused(x);
		return;
	}
	if (!connecting && u && (u->reused || (u->t.many && !x->refused)) && !u->got_any &&
	    x->again_ok && !x->req_begun) {
		/* It was closed while idle, and nobody has seen the request; or its machine ended,
		 * and another one may try once. */
		x->refused |= u->t.many;
		up_close(u);
		find_way(x, false);
		return;
	}
	if (connecting)
		refuse_silent(x);
	else if (error == EBADMSG)
		xchg_refuse(
		        x, 502, ERR_BAD_ANSWER, "Invalid response",
		        x->t.h2c ? "The program in the VM does not speak HTTP/2 without TLS as it "
		                   "should: this name is mapped with the protocol h2c."
		                 : "The program in the VM sent a response that is not valid "
		                   "HTTP.");
	else
		xchg_refuse(x, 502, ERR_CONNECTION_CLOSED, "The connection was closed",
		            "The program in the VM closed the connection without an answer.");
}

void xchg_tick(struct xchg *x)
{
	uint64_t now = x->c->w->now;

	if (now >= x->deadline) {
		if (x->state == X_OPENING && !x->dialled)
			refuse_starting(x);
		else
			refuse_unheard(x);
		return;
	}
	if (now < x->retry_at || x->state == X_OPENING)
		return;
	if (x->state == X_CONNECTING && x->t.kind != EDGE_VM)
		return;
	drop_up(x);
	ask_opener(x);
}

bool xchg_late(struct xchg *x)
{
	const struct edge_conf *conf = &x->c->w->e->conf;
	uint64_t quiet = x->c->w->now - x->moved_ms;

	if (x->resp_over || (x->state != X_ACTIVE && x->state != X_TUNNEL))
		return false;
	if (!x->resp_begun && quiet >= conf->answer_ms)
		xchg_refuse(
		        x, 504, ERR_UPSTREAM_TIMEOUT, "No response",
		        "The program in the VM accepted the request but did not respond in time.");
	else if (x->resp_begun && quiet >= conf->idle_ms)
		resp_break(x);
	else
		return false;
	return true;
}

/* ---- the request's body ---- */

size_t xchg_room(const struct xchg *x)
{
	if (x->state == X_ACTIVE || x->state == X_TUNNEL)
		return !x->up         ? 0
		       : x->up->t.h2c ? (x->up->h2 ? up2_room(x->up) : 0)
		                      : ebuf_free_up_to(&x->up->out, EDGE_BUF);
	return 0;
}

int xchg_data(struct xchg *x, const uint8_t *p, size_t n)
{
	struct ebuf *out;

	if (!x->up || x->up->shut)
		return 0; /* the VM reads no more; its response says why */
	out = &x->up->out;
	x->req_begun = true;
	x->bytes_in += n;
	x->moved_ms = x->c->w->now;
	if (x->up->h2)
		return up2_data(x->up, p, n);
	if (x->state == X_TUNNEL || x->req_framing != H1_BODY_CHUNKED)
		return ebuf_put(out, p, n);
	if (ebuf_printf(out, "%zx\r\n", n) < 0 || ebuf_put(out, p, n) < 0)
		return -ENOMEM;
	return ebuf_put(out, "\r\n", 2);
}

void xchg_data_end(struct xchg *x)
{
	x->req_over = true;
	if (x->up && x->up->h2)
		up2_data_end(x->up);
	else if (x->req_framing == H1_BODY_CHUNKED && x->up && !x->up->shut)
		ebuf_put(&x->up->out, "0\r\n\r\n", 5);
}
