/* SPDX-License-Identifier: Apache-2.0 */
/* self.c - see guest_self.h; what the greeting says of a guest is in hello.c */
#include "guest/guest_self.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"
#include "guest/guest_login.h"

#define TAKE_MS 30000

void guest_on_ring(struct guest *g, guest_ring_fn fn, void *ctx)
{
	g->on_ring = fn;
	g->ring_ctx = ctx;
}

void guest_rang(struct guest *g)
{
	bool first;

	mutex_lock(&g->lock);
	first = !g->rung;
	g->rung = true;
	mutex_unlock(&g->lock);
	if (first && !(g->on_ring && g->on_ring(g->ring_ctx, g)))
		guest_self_leave(g);
}

void guest_self_leave(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	g->rung = false;
}

static int await_opened(struct guest_flow *f, struct err *err)
{
	uint64_t deadline = deadline_in(TAKE_MS);
	int r;

	while ((r = guest_flow_opened(f, err)) == 0) {
		struct pollfd pfd = { .fd = guest_flow_fd(f), .events = POLLIN };

		if (deadline_left(deadline) == 0)
			return err_set(err, -ETIMEDOUT, "the guest's agent did not answer");
		poll(&pfd, 1, deadline_left(deadline));
		guest_flow_seen(f);
	}
	return MIN(r, 0);
}

int guest_self_take(struct guest *g, struct guest_flow **ret, uint64_t *ret_number,
                    uint32_t *ret_more, struct err *err)
{
	autobuf struct buf b = { 0 };
	autoflow struct guest_flow *f = NULL;
	struct rd c;
	int r;

	guest_self_leave(g); /* first: whoever comes after this request rings again */
	buf_put_u16(&b, AGENT_OP_SELF_TAKE);
	if ((r = flow_open(g, &b, deadline_in(TAKE_MS), &f, err)) < 0 ||
	    (r = await_opened(f, err)) < 0)
		return r;
	mutex_lock(&g->lock);
	c = rd_of(f->s->opened_with, f->s->opened_len);
	r = rd_u64(&c, ret_number) < 0 || rd_u32(&c, ret_more) < 0 || rd_end(&c) < 0
	            ? err_set(err, -EPROTO, "the guest sent a malformed reply")
	            : 0;
	mutex_unlock(&g->lock);
	if (r == 0)
		*ret = TAKE_PTR(f);
	return r;
}

int guest_tell_who(struct guest *g, const struct agent_who *who, struct err *err)
{
	autobuf struct buf b = { 0 };
	struct agent_who m = *who;

	if (!guest_alive(g))
		return err_set(err, -ENOTCONN, "the guest is not connected");
	if (!guest_knows_who(g))
		return err_set(err, -EOPNOTSUPP,
		               "its agent is of an older version, from before self access");
	memcpy(m.nonce, g->nonce, sizeof(m.nonce));
	agent_who_put(&b, &m);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return guest_send(g, AGENT_F_DATA, AGENT_WHO_CHAN, 0, b.p, b.len,
	                  deadline_in(GUEST_SEND_MS), err);
}

bool guest_knows_who(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	return g->knows_who;
}

const char *guest_vm_id(const struct guest *g)
{
	return g->vm_id;
}
