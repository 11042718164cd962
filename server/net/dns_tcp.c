/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns_tcp.c - DNS queries over TCP, one at a time per connection
 *
 * enum tcp_state - what a connection waits for; only step() and its helpers write it
 * @TCP_READ_QUERY: length and message of the guest. Next: ASK, or WRITE_ANSWER
 *	with an error of ours.
 * @TCP_ASK: connecting and sending to the resolver. Next: READ_ANSWER, or
 *	WRITE_ANSWER with SERVFAIL.
 * @TCP_READ_ANSWER: the resolver's answer, which must match the query. Next:
 *	PIN or WRITE_ANSWER.
 * @TCP_PIN: its addresses are being pinned. Next: WRITE_ANSWER.
 * @TCP_WRITE_ANSWER: to the guest. Next: READ_QUERY.
 * Every step renews the deadline; a connection that is slower is closed. While it
 * waits for one side, the other side's descriptor is not polled.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/sock.h"
#include "net/dns_internal.h"

#define BUF_LEN (2u + DNS_ANSWER_MAX)

void dns_conn_close(struct dns *d, struct dns_conn *c)
{
	struct dns_slot *s = dns_slot_of(d, c->slot, c->slot_gen);

	if (s)
		s->n_tcp--;
	budget_give(d->share_tcp, c->holder, 1);
	if (c->down >= 0)
		close(c->down);
	if (c->up >= 0)
		close(c->up);
	free(c->buf);
	*c = (struct dns_conn){ .down = -1, .up = -1 };
}

static uint32_t idx_of(const struct dns *d, const struct dns_conn *c)
{
	return (uint32_t)(c - d->conn);
}

/* Polls only the side that the state waits for. */
static int poll_both(struct dns *d, struct dns_conn *c, uint32_t down, uint32_t up)
{
	int r = dns_poll(d, c->down, DNS_TCP_DOWN, idx_of(d, c), c->gen, down, /* add= */ false);

	if (r == 0 && c->up >= 0)
		r = dns_poll(d, c->up, DNS_TCP_UP, idx_of(d, c), c->gen, up, /* add= */ false);
	return r;
}

static int enter(struct dns *d, struct dns_conn *c, enum tcp_state st, size_t len)
{
	static const struct {
		uint32_t down, up;
	} want[] = {
		[TCP_READ_QUERY] = { EPOLLIN, 0 },    [TCP_ASK] = { 0, EPOLLOUT },
		[TCP_READ_ANSWER] = { 0, EPOLLIN },   [TCP_PIN] = { 0, 0 },
		[TCP_WRITE_ANSWER] = { EPOLLOUT, 0 },
	};

	c->state = st;
	c->len = len;
	c->at = 0;
	c->deadline = clock_ms() + TCP_IDLE_MS;
	return poll_both(d, c, want[st].down, want[st].up);
}

static void up_close(struct dns_conn *c)
{
	if (c->up >= 0)
		close(TAKE_FD(c->up));
}

static int answer_error(struct dns *d, struct dns_conn *c, enum dns_rcode rcode) REQUIRES(&d->lock)
{
	size_t n = dns_error(&c->query, rcode, c->buf + 2);

	d->stats.failed++;
	up_close(c);
	put_be16(c->buf, (uint16_t)n);
	return enter(d, c, TCP_WRITE_ANSWER, 2 + n);
}

static int ask(struct dns *d, struct dns_conn *c, size_t n) REQUIRES(&d->lock)
{
	random_bytes(&c->id, sizeof(c->id));
	dns_set_id(c->buf + 2, c->id);
	up_close(c);
	if (!dns_upstream(d))
		return answer_error(d, c, DNS_SERVFAIL);
	c->up = socket(d->up.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->up < 0 ||
	    (connect(c->up, (struct sockaddr *)&d->up, d->up_len) < 0 && errno != EINPROGRESS) ||
	    dns_poll(d, c->up, DNS_TCP_UP, idx_of(d, c), c->gen, EPOLLOUT, /* add= */ true) < 0)
		return answer_error(d, c, DNS_SERVFAIL);
	return enter(d, c, TCP_ASK, 2 + n);
}

/* Moves bytes up to c->len: 1 all there, 0 not yet, -errno. */
static int move(struct dns_conn *c, int fd, bool in)
{
	while (c->at < c->len) {
		ssize_t n =
		        in ? recv(fd, c->buf + c->at, c->len - c->at, MSG_DONTWAIT)
		           : send(fd, c->buf + c->at, c->len - c->at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (n == 0)
			return -EPIPE;
		c->at += (size_t)n;
	}
	return 1;
}

/* Reads the length, then the message; as move(). */
static int read_message(struct dns_conn *c, int fd, size_t max)
{
	int r = move(c, fd, /* in= */ true);

	if (r == 1 && c->len == 2) {
		size_t n = get_be16(c->buf);

		if (n < DNS_HEADER_LEN || n > max)
			return -EMSGSIZE;
		c->len = 2 + n;
		r = move(c, fd, /* in= */ true);
	}
	return r;
}

/* Our own answer, written over the question. */
static int serve(struct dns *d, struct dns_conn *c) REQUIRES(&d->lock)
{
	struct dns_edns e;
	size_t n;

	dns_query_edns(c->buf + 2, c->len - 2, &c->query, &e);
	n = d->hooks.serve(d->hooks.ctx, &c->query, &e, /* tcp= */ true, c->buf + 2,
	                   DNS_ANSWER_MAX);
	put_be16(c->buf, (uint16_t)n);
	return n ? enter(d, c, TCP_WRITE_ANSWER, 2 + n) : -ENODATA;
}

static int on_query(struct dns *d, struct dns_conn *c) REQUIRES(&d->lock)
{
	int r = dns_query_parse(c->buf + 2, c->len - 2, &c->query);
	uint8_t local[DNS_LOCAL_MAX];
	size_t n = 0;

	if (r == -EBADMSG || ++c->queries > TCP_QUERIES_MAX) {
		d->stats.dropped++;
		return -EBADMSG;
	}
	d->stats.queries++;
	if (d->hooks.serve)
		return serve(d, c);
	if (r == -EPERM)
		return answer_error(d, c, DNS_REFUSED);
	c->pin = dns_judge(d, c->slot, &c->query, local, &n) == DNS_FORWARD_PIN;
	if (!n)
		return ask(d, c, c->len - 2);
	put_be16(c->buf, (uint16_t)n);
	memcpy(c->buf + 2, local, n);
	return enter(d, c, TCP_WRITE_ANSWER, 2 + n);
}

static int on_answer(struct dns *d, struct dns_conn *c) REQUIRES(&d->lock)
{
	size_t n = c->len;
	int r;

	if (!dns_answer_matches(c->buf + 2, n - 2, &c->query, c->id))
		return answer_error(d, c, DNS_SERVFAIL);
	dns_set_id(c->buf + 2, c->query.id);
	up_close(c);
	if (!c->pin)
		return enter(d, c, TCP_WRITE_ANSWER, n);
	r = enter(d, c, TCP_PIN, n);
	return r < 0 ? r
	             : dns_pin_later(d, &c->query, c->slot, c->buf + 2, n - 2, /* tcp= */ true,
	                             idx_of(d, c), c->gen);
}

void dns_conn_pinned(struct dns *d, uint32_t idx)
{
	struct dns_conn *c = &d->conn[idx];

	if (enter(d, c, TCP_WRITE_ANSWER, c->len) < 0)
		dns_conn_close(d, c);
}

/* One step of the state machine; negative closes the connection. */
static int step(struct dns *d, struct dns_conn *c) REQUIRES(&d->lock)
{
	int r;

	switch (c->state) {
	case TCP_READ_QUERY:
		r = read_message(c, c->down, DNS_QUERY_MAX);
		return r == 1 ? on_query(d, c) : r;
	case TCP_ASK:
		r = move(c, c->up, /* in= */ false);
		if (r < 0)
			return answer_error(d, c, DNS_SERVFAIL);
		return r == 1 ? enter(d, c, TCP_READ_ANSWER, 2) : 0;
	case TCP_READ_ANSWER:
		r = read_message(c, c->up, DNS_ANSWER_MAX);
		if (r < 0)
			return answer_error(d, c, DNS_SERVFAIL);
		return r == 1 ? on_answer(d, c) : 0;
	case TCP_PIN:
		return 0;
	case TCP_WRITE_ANSWER:
		r = move(c, c->down, /* in= */ false);
		if (r != 1)
			return r;
		d->stats.answers++;
		return enter(d, c, TCP_READ_QUERY, 2);
	}
	return -EINVAL;
}

void dns_on_conn(struct dns *d, uint32_t idx, uint32_t events, bool up)
{
	struct dns_conn *c = &d->conn[idx];
	bool waits_up = c->state == TCP_ASK || c->state == TCP_READ_ANSWER || c->state == TCP_PIN;

	/* The guest hung up while the resolver was being asked: there is nobody left to answer. */
	if (!up && waits_up) {
		if (events & (EPOLLHUP | EPOLLERR))
			dns_conn_close(d, c);
		return;
	}
	if (up != waits_up)
		return; /* for a descriptor that was closed in this round */
	if (step(d, c) < 0)
		dns_conn_close(d, c);
}

void dns_on_slot_tcp(struct dns *d, uint32_t slot)
{
	struct dns_slot *s = &d->slot[slot];
	struct sockaddr_storage from = { 0 };
	socklen_t from_len = sizeof(from);
	autofd int fd =
	        accept4(s->tcp, (struct sockaddr *)&from, &from_len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct dns_conn *c = NULL;
	char net[SOCK_NET_SIZE];
	const char *holder =
	        *s->holder ? s->holder : sock_net_text((const struct sockaddr *)&from, net);
	unsigned most = d->hooks.serve
	                        ? TCP_MAX
	                        : SLOT_TCP_MAX; /* per guest, unless it is the public name server */

	if (fd < 0)
		return;
	for (uint32_t i = 0; i < TCP_MAX && !c && s->n_tcp < most; i++)
		if (!d->conn[i].used)
			c = &d->conn[i];
	if (!c || budget_take(d->share_tcp, holder, 1) < 0) {
		d->stats.dropped++;
		return; /* closed: too many of this guest, of its account, or in total */
	}
	*c = (struct dns_conn){ .used = true,
		                .gen = ++d->next_gen & 0x0fffffff,
		                .slot = slot,
		                .slot_gen = s->gen,
		                .down = TAKE_FD(fd),
		                .up = -1,
		                .buf = malloc(BUF_LEN) };
	snprintf(c->holder, sizeof(c->holder), "%s", holder);
	s->n_tcp++;
	if (!c->buf ||
	    dns_poll(d, c->down, DNS_TCP_DOWN, idx_of(d, c), c->gen, EPOLLIN,
	             /* add= */ true) < 0 ||
	    enter(d, c, TCP_READ_QUERY, 2) < 0)
		dns_conn_close(d, c);
}

void dns_conn_tick(struct dns *d, uint64_t now)
{
	for (size_t i = 0; i < TCP_MAX; i++) {
		struct dns_conn *c = &d->conn[i];

		if (!c->used || now < c->deadline || c->state == TCP_PIN)
			continue;
		/* If the resolver is too slow we answer in its place; if the guest is, its
		 * connection is closed. */
		if ((c->state != TCP_ASK && c->state != TCP_READ_ANSWER) ||
		    answer_error(d, c, DNS_SERVFAIL) < 0)
			dns_conn_close(d, c);
	}
}
