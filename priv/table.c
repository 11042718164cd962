/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/table.c - the fixed list of requests that pandod may send
 *
 * Every entry says when it may be sent and what must hold; checks that
 * several operations share are made here, from the flags, before the operation runs. The
 * decoder (wire/) has already checked grammar and limits. A request that breaks a
 * rule gets an error reply and changes nothing.
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "priv/priv.h"
#include "priv/slot.h"
#include "priv/spawn.h"

enum {
	OP_FIRST = 1 << 0, /* may come before hello; all others may not */
	OP_GROWS = 1 << 1, /* creates something: not during shutdown */
	OP_SLOT = 1 << 2,  /* its slot must be taken */
	OP_FDS = 1 << 3,   /* brings descriptors: the log and up to SPAWN_FDS_MAX; others none */
	OP_TWO = 1 << 4,   /* brings two: a gate and a pidfd */
	OP_RUNS = 1 << 5,  /* starts a process of a VM: not behind the fence */
};

/* clang-format off */
static const struct {
	unsigned flags;
	int (*fn)(struct priv *p, struct request *rq, struct err *err);
} table[PRIV_OP_END] = {
	[PRIV_HELLO]       = { OP_FIRST,          op_hello },
	[PRIV_SLOT_TAKE]   = { OP_GROWS,          op_slot_take },
	[PRIV_SLOT_ADOPT]  = { OP_SLOT,           op_slot_adopt },
	[PRIV_SLOT_GATE]   = { OP_SLOT,           op_slot_gate },
	[PRIV_SLOT_FREE]   = { OP_SLOT,           op_slot_free },
	[PRIV_SLOT_STATS]  = { OP_SLOT,           op_slot_stats },
	[PRIV_SLOT_SOCKET] = { OP_SLOT,           op_slot_socket },
	[PRIV_SLOT_UDP]    = { OP_SLOT,           op_slot_socket },
	[PRIV_SLOT_LIST]   = { 0,                 op_slot_list },
	[PRIV_SPAWN]       = { OP_GROWS | OP_RUNS | OP_FDS, op_spawn },
	[PRIV_SEED]        = { OP_GROWS | OP_RUNS | OP_FDS, op_spawn },
	[PRIV_FORK]        = { OP_GROWS | OP_RUNS | OP_TWO, op_fork },
	[PRIV_KILL]        = { 0,                 op_kill },
	[PRIV_EXIT_STATUS] = { 0,                 op_exit_status },
	[PRIV_VM_LIST]     = { 0,                 op_vm_list },
	[PRIV_VM_STATS]    = { 0,                 op_vm_stats },
	[PRIV_SLOT_EGRESS] = { OP_SLOT,           op_slot_egress },
	[PRIV_SLOT_PROXY]  = { OP_SLOT,           op_slot_proxy },
	[PRIV_SLOT_PIN]    = { OP_SLOT,           op_slot_pin },
	[PRIV_SLOT_BLOCKED] = { OP_SLOT,          op_slot_blocked },
	[PRIV_SLOT_VPC]    = { OP_GROWS | OP_SLOT, op_slot_vpc },
	[PRIV_VPC_REMOVE]  = { 0,                 op_vpc_remove },
	[PRIV_VPC_WG]      = { 0,                 op_vpc_wg },
	[PRIV_VPC_PEERS]   = { 0,                 op_vpc_peers },
	[PRIV_VPC_WAKE]    = { OP_GROWS,          op_vpc_wake },
	[PRIV_VPC_FRESH]   = { OP_GROWS,          op_vpc_fresh },
	[PRIV_FENCE]       = { 0,                 op_fence },
};
/* clang-format on */

static int policy(struct priv *p, const struct request *rq, struct err *err)
{
	unsigned flags = table[rq->m.op].flags;

	if (!(flags & OP_FIRST) && !p->super.hello)
		return err_set(err, -EPROTO, "hello must come first");
	if ((flags & OP_GROWS) && p->super.signals)
		return err_set(err, -ESHUTDOWN, "pando-priv is stopping");
	if ((flags & OP_RUNS) && fence_is_over(p))
		return err_set(err, -ESTALE, "the lease of this node is over");
	if ((flags & OP_SLOT) && !slots_taken(p->slots, rq->m.slot))
		return err_set(err, -ENOENT, "slot %u is not taken", rq->m.slot);
	if (flags & OP_FDS   ? rq->n_in < 1 || rq->n_in > SPAWN_FDS_MAX + 1
	    : flags & OP_TWO ? rq->n_in != 2
	                     : rq->n_in != 0)
		return err_set(err, -EINVAL, "%zu descriptors", rq->n_in);
	return 0;
}

static void send_reply(struct priv *p, unsigned op, const struct priv_rep *rep, const int *fds,
                       size_t n_fds)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	ssize_t n;

	if (p->super.conn < 0)
		return;
	if (priv_rep_encode(rep, op, &b, &err) < 0) {
		log_error("%s: %s", priv_op_name(op), err.msg);
		return;
	}
	n = sock_send_fds(p->super.conn, b.p, b.len, fds, n_fds);
	if (n < 0) {
		log_warn("%s: cannot answer pandod: %s; closing the connection", priv_op_name(op),
		         err_name((int)n));
		shutdown(p->super.conn, SHUT_RDWR); /* better than a caller that waits for ever */
	}
}

void table_reply_later(struct priv *p, uint32_t gen, unsigned op, struct priv_rep *rep)
{
	if (gen == p->super.gen)
		send_reply(p, op, rep, NULL, 0);
}

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void answer(struct priv *p, struct request *rq, int r, const struct err *err)
{
	if (r == PRIV_LATER)
		return;
	rq->rep.id = rq->m.id;
	rq->rep.code = r;
	if (r < 0) {
		snprintf(rq->rep.msg, sizeof(rq->rep.msg), "%s", err->msg);
		log_debug("%s refused: %s", priv_op_name(rq->m.op), err->msg);
	}
	send_reply(p, rq->m.op, &rq->rep, rq->out, r < 0 ? 0 : rq->n_out);
}

int table_serve(struct priv *p, struct err *err)
{
	static uint8_t packet[PRIV_MSG_MAX]; /* main thread only, as all of this */
	static struct request rq;
	struct err why = { 0 };
	ssize_t n;
	int r;

	memset(&rq, 0, sizeof(rq));
	n = sock_recv_fds(p->super.conn, packet, sizeof(packet), rq.in, SOCK_FDS_MAX, &rq.n_in);
	if (n == 0)
		return err_set(err, -EPIPE, "pandod closed its end");
	if (n < 0)
		return err_sys(err, (int)n, "read from pandod");
	r = priv_req_decode(packet, (size_t)n, &rq.m, &why);
	if (r < 0) {
		close_all(rq.in, rq.n_in);
		return err_set(err, r, "pandod: %s", why.msg);
	}
	r = policy(p, &rq, &why);
	if (r == 0)
		r = table[rq.m.op].fn(p, &rq, &why);
	answer(p, &rq, r, &why);
	priv_req_done(&rq.m);
	close_all(rq.in, rq.n_in);
	close_all(rq.out, rq.n_out);
	return 0;
}
