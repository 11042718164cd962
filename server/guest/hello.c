/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c - resynchronise with the agent and deliver its identity
 *
 * Theory of operation: send HELLO with a random nonce, behind who it is -> skip every byte until a
 * HELLO_ACK with that nonce -> CLOCK -> start the reader. A guest frozen in the
 * middle of one of our frames takes the HELLO for the rest of it, so without an
 * answer we send it again behind a flush, AGENT_FLUSH_LEN zero bytes that end any
 * half frame. A guest that still boots reads nothing at all and was never in the
 * middle of anything: it gets no flush, and few retransmissions, until its READY. A flush that was
 * begun is finished together with its HELLO, since after zeros the agent listens for nothing else.
 * The clock in the HELLO may have waited in a buffer; CLOCK, sent when the agent is known to
 * listen, is fresh.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "guest/guest_internal.h"
#include "wire/agent_self.h"

#define FIRST_RETRY_MS \
	1500              /* an emulated guest on a busy host may need that; half frames are rare */
#define RETRY_MAX_MS 2000 /* between retries in the end */
#define BOOT_RETRY_MS 1000     /* HELLOs accumulate while nothing reads them: send few */
#define READY_MAX 64           /* answers to READY: a guest must not keep us sending */
#define HUNT_MAX (64ull << 20) /* bytes of leftovers; more is a flood */

struct greeting {
	struct agent_hello hello;
	struct agent_who who;
	bool has_who;
	struct buf out; /* being sent */
	size_t out_off;
	uint64_t next_at;
	unsigned wait_ms, sent, readies;
	bool resend_now;
};

static int compose(struct greeting *gr, bool flush, struct err *err)
{
	static const uint8_t zeros[4096];
	autobuf struct buf b = { 0 };

	buf_reset(&gr->out);
	gr->out_off = 0;
	for (size_t left = flush ? AGENT_FLUSH_LEN : 0; left;) {
		size_t n = MIN(left, sizeof(zeros));

		buf_put(&gr->out, zeros, n);
		left -= n;
	}
	if (gr->has_who) {
		autobuf struct buf w = { 0 };

		agent_who_put(&w, &gr->who);
		if (w.failed)
			return err_set(err, -ENOMEM, "out of memory");
		agent_frame_put(&gr->out, AGENT_F_DATA, AGENT_WHO_CHAN, 0, w.p, w.len);
	}
	gr->hello.wall_ns = clock_wall_ns();
	agent_hello_put(&b, &gr->hello);
	if (!b.failed)
		agent_frame_put(&gr->out, AGENT_F_HELLO, 0, 0, b.p, b.len);
	if (b.p)
		explicit_bzero(b.p, b.len);
	gr->sent++;
	return b.failed || gr->out.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static int send_some(struct guest *g, struct greeting *gr, struct err *err)
{
	while (gr->out_off < gr->out.len) {
		ssize_t n = send(g->fd, gr->out.p + gr->out_off, gr->out.len - gr->out_off,
		                 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0)
			return err_sys(err, -ECONNRESET, "greet the guest");
		gr->out_off += (size_t)n;
	}
	return 0;
}

/* 1: *ret is the answer to our greeting; 0: not yet. */
static int look(struct guest *g, struct greeting *gr, struct agent_hello_ack *ret, struct err *err)
{
	struct agent_frame f;

	while (agent_rx_next(&g->rx, &f) == 1) {
		if (f.type == AGENT_F_READY) {
			gr->resend_now |= gr->readies++ < READY_MAX;
			continue;
		}
		if (agent_hello_ack_get(f.payload, f.len, ret) == 0 &&
		    !memcmp(ret->nonce, gr->hello.nonce, sizeof(ret->nonce))) {
			agent_rx_accept(&g->rx);
			return 1;
		}
	}
	if (g->rx.skipped > HUNT_MAX)
		return err_set(err, -EPROTO, "no greeting in %llu MiB of data from the guest",
		               HUNT_MAX >> 20);
	return 0;
}

static int receive_some(struct guest *g, struct err *err)
{
	size_t room;
	uint8_t *p = agent_rx_space(&g->rx, &room);
	ssize_t n = recv(g->fd, p, room, MSG_DONTWAIT);

	if (n > 0)
		agent_rx_added(&g->rx, (size_t)n);
	else if (n == 0)
		return err_set(err, -ECONNRESET, "the guest's side closed the channel");
	else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		return err_sys(err, -ECONNRESET, "greet the guest");
	return 0;
}

static int exchange(struct guest *g, struct greeting *gr, uint64_t deadline,
                    struct agent_hello_ack *ret, struct err *err)
{
	const bool boot = gr->hello.reason == AGENT_BOOT;
	int r;

	agent_rx_hunt(&g->rx, BIT(AGENT_F_HELLO_ACK) | BIT(AGENT_F_READY));
	for (;;) {
		bool idle = gr->out_off == gr->out.len;
		struct pollfd pfd = { .fd = g->fd, .events = POLLIN };

		if (idle && (gr->resend_now || clock_ms() >= gr->next_at)) {
			/* READY: the agent is at a frame's beginning, or hunting. */
			bool flush = gr->sent && !gr->resend_now && !boot;

			r = compose(gr, flush, err);
			if (r < 0)
				return r;
			gr->resend_now = false;
			gr->next_at = deadline_in(gr->wait_ms);
			gr->wait_ms = boot ? BOOT_RETRY_MS : MIN(gr->wait_ms * 2, RETRY_MAX_MS);
		}
		r = send_some(g, gr, err);
		if (r < 0)
			return r;
		if (gr->out_off < gr->out.len)
			pfd.events |= POLLOUT;
		if (deadline_left(deadline) == 0)
			return err_set(err, -ETIMEDOUT, "the guest's agent did not answer");
		r = poll(&pfd, 1,
		         deadline_left(pfd.events & POLLOUT ? deadline
		                                            : MIN(deadline, gr->next_at)));
		if (r < 0 && errno != EINTR)
			return err_sys(err, -errno, "greet the guest");
		if (r <= 0 || !(pfd.revents & ~POLLOUT))
			continue;
		r = receive_some(g, err);
		if (r < 0)
			return r;
		r = look(g, gr, ret, err);
		if (r != 0)
			return r;
	}
}

/* What the agent confirmed must be what was asked: fail closed. */
static int check_ack(const struct agent_hello *h, const struct agent_hello_ack *ack,
                     struct err *err)
{
	uint32_t need = h->reason == AGENT_RECONNECT ? 0 : AGENT_STEPS_ALL;

	if (!ack->version)
		return err_set(
		        err, -EPROTONOSUPPORT,
		        "agent %s in the guest supports none of our protocol versions (%d to %d)",
		        ack->agent_version, AGENT_VERSION_MIN, AGENT_VERSION_MAX);
	if (ack->failed_errno && h->reason == AGENT_RECONNECT)
		return err_set(err, -ESTALE, "the guest is not at generation %llu",
		               (unsigned long long)h->generation);
	if (ack->failed_errno)
		return err_set(err, -EIO, "the identity step '%s' failed in the guest: %s",
		               agent_step_name(ack->failed_step), err_name((int)ack->failed_errno));
	if (ack->version < h->version_min || ack->version > h->version_max ||
	    ack->generation != h->generation || (ack->steps_done & need) != need)
		return err_set(err, -EPROTO, "the guest confirmed a different request");
	return 0;
}

static int begin(struct guest *g, struct err *err)
{
	LOCK_SCOPE(&g->lock);
	if (g->dead)
		return err_set(err, -ECONNRESET, "the connection to the guest ended");
	if (g->hello_begun)
		return err_set(err, -EALREADY, "the guest was already greeted");
	g->hello_begun = true;
	return 0;
}

static int send_clock(struct guest *g, uint64_t deadline, struct err *err)
{
	uint64_t ns = clock_wall_ns();
	uint8_t now[8];

	put_be32(now, (uint32_t)(ns >> 32));
	put_be32(now + 4, (uint32_t)ns);
	return guest_send(g, AGENT_F_CLOCK, 0, 0, now, sizeof(now), deadline, err);
}

int guest_set_clock(struct guest *g, uint64_t deadline_ms, struct err *err)
{
	if (!guest_alive(g))
		return err_set(err, -ENOTCONN, "the guest is not connected");
	return send_clock(g, deadline_ms, err);
}

static int settle(struct guest *g, struct greeting *gr, uint64_t deadline, struct err *err)
{
	int r = 0;

	if (gr->out_off < gr->out.len)
		r = guest_send_raw(g, gr->out.p + gr->out_off, gr->out.len - gr->out_off, deadline,
		                   err);
	if (r == 0 && gr->hello.reason != AGENT_RECONNECT)
		r = send_clock(g, deadline, err);
	if (r < 0)
		return r;
	mutex_lock(&g->lock);
	g->acks_left = gr->sent - 1;
	mutex_unlock(&g->lock);
	return reader_start(g, err);
}

static void fill_hello(struct agent_hello *h, struct guest_identity *id)
{
	static const uint8_t reasons[] = {
		[GUEST_BOOT] = AGENT_BOOT,
		[GUEST_THAW] = AGENT_THAW,
		[GUEST_RECONNECT] = AGENT_RECONNECT,
	};

	random_bytes(id->entropy, sizeof(id->entropy));
	id->wall_ns = clock_wall_ns();
	*h = (struct agent_hello){ .version_min = AGENT_VERSION_MIN,
		                   .version_max = AGENT_VERSION_MAX,
		                   .reason = reasons[id->reason],
		                   .generation = id->generation };
	random_bytes(h->nonce, sizeof(h->nonce));
	memcpy(h->entropy, id->entropy, sizeof(h->entropy));
	snprintf(h->machine_id, sizeof(h->machine_id), "%s", id->machine_id);
	snprintf(h->hostname, sizeof(h->hostname), "%s", id->hostname);
}

int guest_hello(struct guest *g, struct guest_identity *id, uint64_t deadline_ms,
                struct guest_info *ret_info, struct err *err)
{
	struct greeting gr = { .wait_ms = FIRST_RETRY_MS };
	struct agent_hello_ack ack = { 0 };
	int r = begin(g, err);

	if (r < 0)
		return r;
	fill_hello(&gr.hello, id);
	if (id->who) {
		gr.who = *id->who;
		memcpy(gr.who.nonce, gr.hello.nonce, sizeof(gr.who.nonce));
		gr.has_who = true;
	}
	memcpy(g->nonce, gr.hello.nonce, sizeof(g->nonce));
	if (id->reason == GUEST_BOOT)
		gr.wait_ms = BOOT_RETRY_MS;
	r = exchange(g, &gr, deadline_ms, &ack, err);
	if (r > 0)
		r = check_ack(&gr.hello, &ack, err);
	if (r == 0)
		r = settle(g, &gr, deadline_ms, err);
	explicit_bzero(&gr.hello, sizeof(gr.hello));
	if (gr.out.p)
		explicit_bzero(gr.out.p, gr.out.len);
	buf_done(&gr.out);
	if (r < 0) {
		guest_end(g, LOG_LV_DEBUG, "greeting failed");
		err_wrap(err, r, "greet the guest's agent");
		return r;
	}
	if (ret_info) {
		*ret_info =
		        (struct guest_info){ .version = ack.version, .generation = ack.generation };
		snprintf(ret_info->agent_version, sizeof(ret_info->agent_version), "%s",
		         ack.agent_version);
		snprintf(ret_info->boot_id, sizeof(ret_info->boot_id), "%s", ack.boot_id);
	}
	mutex_lock(&g->lock);
	g->knows_who = ack.steps_done >> AGENT_KNOWS_WHO & 1;
	g->greeted = true;
	mutex_unlock(&g->lock);
	return 0;
}
