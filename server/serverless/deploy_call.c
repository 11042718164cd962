/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deploy_call.c - connections to instances, and requests of our own: of the API and of schedules
 *
 * A connection is for one request. If nobody listens in an instance its server has ended, and
 * another instance takes the request, which nobody has seen yet.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/sock.h"
#include "h1/h1.h"
#include "serverless/deploy_internal.h"
#include "vm/vm.h"

#define CONNECT_MS 1000 /* to learn whether somebody listens; then it goes on without us */
#define TRIES 5         /* instances in which nobody listens */
#define PIECE (64u << 10)

/* -ECONNRESET: this instance cannot be used. */
static int open_at(struct serverless *s, struct deploy_way *w, struct err *err)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(w->place.port),
		                  .sin_addr.s_addr = inet_addr(VM_GUEST_ADDR) };
	struct vm_socket socket = { .fd = -1 };
	struct vm_info v;
	int r;

	/* One that has ended is not woken: it is replaced. */
	if (vmm_get(s->conf.vmm, w->place.account, w->place.vm, &v, NULL) < 0 ||
	    v.state != VM_RUNNING)
		return err_set(err, -ECONNRESET, "instance %s has ended", w->place.vm);
	r = vmm_socket(s->conf.vmm, w->place.account, w->place.vm, &socket, err);
	if (r < 0)
		return r == -ENOENT ? -ECONNRESET : r;
	autofd int fd = socket.fd;
	memcpy(w->instance, socket.instance, sizeof(w->instance));
	r = sock_connect_soon(fd, (const struct sockaddr *)&sa, sizeof(sa), CONNECT_MS);
	if (r < 0)
		return err_tag(err, -ECONNRESET, ERR_NOTHING_LISTENS,
		               "nothing listens on port %u of instance %s any more", w->place.port,
		               w->place.vm);
	w->fd = TAKE_FD(fd);
	return 0;
}

int deploy_open(struct serverless *s, const char *id, unsigned waiting,
                uint32_t (*mark)(void *ctx, const char *vm), void *ctx, struct deploy_way *ret,
                struct err *err)
{
	uint64_t deadline = deadline_in(s->conf.deploy.wait_ms);
	int r = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		*ret = (struct deploy_way){ .fd = -1 };
		r = deploy_take(s, id, waiting, deadline, &ret->place, err);
		if (r < 0)
			return r;
		if (mark)
			ret->mark = mark(ctx, ret->place.vm);
		r = open_at(s, ret, err);
		if (r >= 0)
			return 0;
		if (r != -ECONNRESET) {
			deploy_done(s, ret->place.ticket);
			return r;
		}
		deploy_broken(s, ret->place.ticket);
	}
	if (err->tag == ERR_NONE)
		err->tag = ERR_NOTHING_LISTENS;
	return r;
}

/* ---- a request ---- */

void deploy_answer_done(struct deploy_answer *a)
{
	json_decref(a->fields);
	free(a->body);
	*a = (struct deploy_answer){ 0 };
}

static int send_all(int fd, const void *data, size_t n, uint64_t deadline)
{
	const uint8_t *p = data;

	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (k > 0) {
			p += k;
			n -= (size_t)k;
		} else if (io_wait(fd, POLLOUT, deadline) <= 0) {
			return -ETIMEDOUT;
		}
	}
	return 0;
}

/* More of the response: bytes, 0 at the end, -errno. */
static ssize_t more(int fd, struct buf *b, uint64_t deadline)
{
	uint8_t piece[PIECE];

	for (;;) {
		ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

		if (n >= 0) {
			buf_put(b, piece, (size_t)n);
			return b->failed ? -ENOMEM : n;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (io_wait(fd, POLLIN, deadline) <= 0)
			return -ETIMEDOUT;
	}
}

static int take_head(const struct h1_head *h, struct deploy_answer *ret)
{
	ret->status = h->status;
	ret->fields = json_array();
	for (size_t i = 0; ret->fields && i < h->n_fields; i++) {
		const struct h1_field *f = &h->fields[i];

		if (h1_hop_field(h, f) || h1_is(f->name, "Content-Length"))
			continue;
		json_t *name = json_stringn(f->name.p, f->name.n),
		       *value = json_stringn(f->value.p, f->value.n);

		if (name && value) /* else it is not UTF-8 */
			json_array_append_new(ret->fields, json_pack("[o, o]", name, value));
		else {
			json_decref(name);
			json_decref(value);
		}
	}
	return ret->fields ? 0 : -ENOMEM;
}

/* 1: complete */
static int take_body(struct buf *in, struct h1_head *h, struct h1_chunks *c, struct buf *out)
{
	const uint8_t *data;
	size_t n = 0;
	int64_t took;

	if (h->framing != H1_BODY_CHUNKED) {
		n = h->framing == H1_BODY_LENGTH
		            ? (size_t)MIN((uint64_t)in->len, h->length - out->len)
		            : in->len;
		buf_put(out, in->p, n);
		in->len = 0;
		return h->framing == H1_BODY_LENGTH && out->len == h->length;
	}
	do {
		took = h1_chunks_feed(c, in->p, in->len, &data, &n);
		if (took < 0)
			return -EBADMSG;
		if (n)
			buf_put(out, data, n);
		memmove(in->p, in->p + took, in->len - (size_t)took);
		in->len -= (size_t)took;
	} while (took && c->state != CHUNK_OVER);
	return c->state == CHUNK_OVER;
}

static int too_large(struct err *err)
{
	return err_tag(err, -E2BIG, ERR_BAD_ANSWER,
	               "the response is larger than %u bytes: use one of the deployment's names",
	               DEPLOY_ANSWER_MAX);
}

static int read_body(int fd, struct buf *in, struct h1_head *h, uint64_t deadline, struct buf *out,
                     struct err *err)
{
	struct h1_chunks c = { 0 };
	int over = 0;

	if (h->framing == H1_BODY_NONE)
		return 0;
	if (h->framing == H1_BODY_LENGTH && h->length > DEPLOY_ANSWER_MAX)
		return too_large(err);
	for (;;) {
		ssize_t n;

		over = take_body(in, h, &c, out);
		if (over < 0)
			return err_tag(err, over, ERR_BAD_ANSWER, "the response is not valid HTTP");
		if (over > 0)
			return 0;
		if (out->len > DEPLOY_ANSWER_MAX)
			return too_large(err);
		n = more(fd, in, deadline);
		if (n == 0 && h->framing == H1_BODY_CLOSE)
			return 0;
		if (n <= 0)
			return err_tag(err, n ? (int)n : -ECONNRESET,
			               n == -ETIMEDOUT ? ERR_UPSTREAM_TIMEOUT
			                               : ERR_CONNECTION_CLOSED,
			               "the response did not come to its end");
	}
}

static int read_answer(int fd, bool to_head, uint64_t deadline, struct deploy_answer *ret,
                       struct err *err)
{
	autofree struct h1_head *h = calloc(1, sizeof(*h));
	autobuf struct buf in = { 0 }, out = { 0 };
	size_t scan = 0;
	int r = 0;

	if (!h)
		return err_set(err, -ENOMEM, "out of memory");
	for (;;) {
		ssize_t n;

		r = in.len ? h1_response(in.p, in.len, &scan, to_head, h) : 0;
		if (r < 0)
			return err_tag(err, -EBADMSG, ERR_BAD_ANSWER,
			               "the response is not valid HTTP: %s", h->why ?: "");
		if (r > 0 && h->status >= 200)
			break;
		if (r > 0) { /* 100, 103 */
			memmove(in.p, in.p + h->len, in.len - h->len);
			in.len -= h->len;
			scan = 0;
			continue;
		}
		n = more(fd, &in, deadline);
		if (n <= 0)
			return err_tag(err, n ? (int)n : -ECONNRESET,
			               n == -ETIMEDOUT ? ERR_UPSTREAM_TIMEOUT
			                               : ERR_CONNECTION_CLOSED,
			               n == -ETIMEDOUT ? "the deployment did not respond in time"
			                               : "the deployment closed the connection "
			                                 "without a response");
	}
	if ((r = take_head(h, ret)) < 0)
		return err_set(err, r, "out of memory");
	memmove(in.p, in.p + h->len, in.len - h->len);
	in.len -= h->len;
	if ((r = read_body(fd, &in, h, deadline, &out, err)) < 0)
		return r;
	if (out.failed)
		return err_set(err, -ENOMEM, "out of memory");
	ret->len = out.len;
	ret->body = out.p;
	out.p = NULL;
	return 0;
}

static int write_request(int fd, const char *id, const struct deploy_call *c, uint64_t deadline)
{
	autobuf struct buf b = { 0 };
	int r;

	buf_printf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n", c->method,
	           c->target, id, c->fields ? c->fields : "");
	if (c->body || !strcmp(c->method, "POST") || !strcmp(c->method, "PUT") ||
	    !strcmp(c->method, "PATCH"))
		buf_printf(&b, "Content-Length: %zu\r\n", c->body ? c->body_len : 0);
	buf_printf(&b, "\r\n");
	if (b.failed)
		return -ENOMEM;
	if ((r = send_all(fd, b.p, b.len, deadline)) < 0)
		return r;
	return c->body ? send_all(fd, c->body, c->body_len, deadline) : 0;
}

int deploy_call(struct serverless *s, const char *id, const struct deploy_call *c,
                struct deploy_answer *ret, struct err *err)
{
	uint64_t deadline;
	struct deploy_way w;
	int r;

	*ret = (struct deploy_answer){ 0 };
	if ((r = deploy_open(s, id, 0, NULL, NULL, &w, err)) < 0)
		return r;
	deadline = deadline_in(c->timeout_ms);
	r = write_request(w.fd, id, c, deadline);
	if (r == -ETIMEDOUT)
		err_tag(err, r, ERR_UPSTREAM_TIMEOUT, "the deployment did not take the request");
	else /* else there may be a response that says why it took no more */
		r = read_answer(w.fd, !strcmp(c->method, "HEAD"), deadline, ret, err);
	close(w.fd);
	deploy_done(s, w.place.ticket);
	if (r < 0)
		deploy_answer_done(ret);
	return r;
}
