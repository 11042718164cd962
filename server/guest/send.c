/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c - whole frames onto the socket, one sender at a time
 *
 * A sender may give up before its first byte is taken; then nothing has
 * happened. After that the frame must be finished: if the guest takes no byte for
 * GUEST_SEND_MS the connection ends.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "guest/guest_internal.h"

#define SEND_IOV 3

static void iov_skip(struct iovec *iov, int *n_iov, size_t n)
{
	while (*n_iov && n >= iov[0].iov_len) {
		n -= iov[0].iov_len;
		--*n_iov;
		for (int i = 0; i < *n_iov; i++)
			iov[i] = iov[i + 1];
	}
	if (*n_iov && n) {
		iov[0].iov_base = (uint8_t *)iov[0].iov_base + n;
		iov[0].iov_len -= n;
	}
}

/* In turn. *begun: bytes of this piece, or of one before it, are on the wire. */
static int send_iov(struct guest *g, struct iovec *iov, int n_iov, uint64_t start_deadline,
                    bool *begun, struct err *err)
{
	uint64_t stall = deadline_in(GUEST_SEND_MS);

	while (n_iov) {
		struct msghdr mh = { .msg_iov = iov, .msg_iovlen = (size_t)n_iov };
		uint64_t until = *begun ? stall : MIN(stall, start_deadline);
		ssize_t n = sendmsg(g->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
		int r;

		if (n >= 0) {
			*begun |= n > 0;
			iov_skip(iov, &n_iov, (size_t)n);
			stall = deadline_in(GUEST_SEND_MS);
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK) {
			guest_end(g, LOG_LV_INFO, "send: %s", err_name(errno));
			LOCK_SCOPE(&g->lock);
			return guest_gone(g, err);
		}
		r = io_wait(g->fd, POLLOUT, until);
		if (r < 0)
			return err_sys(err, r, "wait for the guest");
		if (r > 0)
			continue;
		if (until == stall) {
			guest_end(g, LOG_LV_WARN, "the guest has not read for %d s",
			          GUEST_SEND_MS / 1000);
			return err_set(err, -ECONNRESET, "the guest does not read");
		}
		return err_set(err, -ETIMEDOUT, "the guest does not read");
	}
	return 0;
}

/* Takes the turn to send; ending the connection wakes the waiters. */
int guest_turn_take(struct guest *g, uint64_t start_deadline, struct err *err)
{
	uint64_t ts = MIN(start_deadline, deadline_in(GUEST_SEND_MS));
	LOCK_SCOPE(&g->lock);

	for (;;) {
		if (g->dead)
			return guest_gone(g, err);
		if (!g->sending) {
			g->sending = true;
			return 0;
		}
		if (!cond_wait_until(&g->turn, &g->lock, ts))
			return err_set(err, -ETIMEDOUT, "others are sending to the guest");
	}
}

void guest_turn_give(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	g->sending = false;
	cond_signal(&g->turn);
}

static int send_frame(struct guest *g, uint16_t type, uint16_t flags, uint32_t stream,
                      const void *p, size_t n, uint64_t start_deadline, bool *begun,
                      struct err *err)
{
	uint8_t hdr[AGENT_HDR_LEN], tail[AGENT_TAIL_LEN];
	struct iovec iov[SEND_IOV] = {
		{ .iov_base = hdr, .iov_len = sizeof(hdr) },
		{ .iov_base = (void *)(uintptr_t)p, .iov_len = n },
		{ .iov_base = tail, .iov_len = sizeof(tail) },
	};

	put_be32(tail, agent_frame_head(hdr, type, flags, stream, (uint32_t)n));
	return send_iov(g, iov, n ? 3 : 1, start_deadline, begun, err);
}

int guest_send(struct guest *g, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
               size_t n, uint64_t start_deadline, struct err *err)
{
	bool begun = false;
	int r = guest_turn_take(g, start_deadline, err);

	if (r < 0)
		return r;
	r = send_frame(g, type, flags, stream, p, n, start_deadline, &begun, err);
	guest_turn_give(g);
	return r;
}

int guest_send_open(struct guest *g, uint32_t stream, const struct buf *req, bool in_turn,
                    uint64_t start_deadline, struct err *err)
{
	size_t off = 0;
	bool begun = false;
	int r;

	if (req->failed)
		return err_set(err, -ENOMEM, "out of memory for a request to the guest");
	if (req->len > AGENT_OPEN_MAX)
		return err_set(err, -E2BIG, "the request of %zu bytes is too long for the guest",
		               req->len);
	r = in_turn ? 0 : guest_turn_take(g, start_deadline, err);
	if (r < 0)
		return r;
	do { /* the frames of one request follow each other: one turn for all */
		size_t n = MIN(req->len - off, AGENT_PAYLOAD_MAX);
		bool more = off + n < req->len;

		r = send_frame(g, AGENT_F_OPEN, more ? AGENT_OPEN_MORE : 0, stream, req->p + off, n,
		               start_deadline, &begun, err);
		off += n;
	} while (r == 0 && off < req->len);
	if (!in_turn)
		guest_turn_give(g);
	return r;
}

int guest_send_raw(struct guest *g, const void *p, size_t n, uint64_t start_deadline,
                   struct err *err)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = n };
	bool begun = false;
	int r = guest_turn_take(g, start_deadline, err);

	if (r < 0)
		return r;
	r = send_iov(g, &iov, 1, start_deadline, &begun, err);
	guest_turn_give(g);
	return r;
}
