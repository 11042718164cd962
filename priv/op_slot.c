/* SPDX-License-Identifier: Apache-2.0 */
/* priv/op_slot.c - operations on slots: translate, call, translate back */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "priv/nl.h"
#include "priv/priv.h"
#include "priv/slot.h"
#include "priv/vms.h"

int op_hello(struct priv *p, struct request *rq, struct err *err)
{
	if (p->super.hello)
		return err_set(err, -EALREADY, "hello was already sent");
	p->super.hello = true;
	rq->rep.info.version = PRIV_VERSION;
	rq->rep.info.slots_max = p->conf.slots_max;
	rq->rep.info.kvm = p->jail.mnt_kvm >= 0;
	snprintf(rq->rep.info.tag, sizeof(rq->rep.info.tag), "%s", p->in.tag);
	snprintf(rq->rep.info.limits, sizeof(rq->rep.info.limits), "%s", p->cg.limits);
	return 0;
}

static int give_slot(struct priv *p, uint32_t idx, struct request *rq, struct err *err)
{
	int r = slots_dns(p->slots, idx, &rq->out[0], &rq->out[1], err);

	if (r < 0)
		return r;
	rq->n_out = 2;
	rq->rep.slot = idx;
	slots_address(p->slots, idx, rq->rep.host_addr);
	return 0;
}

int op_slot_take(struct priv *p, struct request *rq, struct err *err)
{
	uint32_t idx;
	int r = slots_take(p->slots, &idx, err);

	if (r < 0)
		return r;
	r = give_slot(p, idx, rq, err);
	if (r < 0)
		slots_free(p->slots, idx, NULL);
	return r;
}

int op_slot_adopt(struct priv *p, struct request *rq, struct err *err)
{
	return give_slot(p, rq->m.slot, rq, err);
}

int op_slot_gate(struct priv *p, struct request *rq, struct err *err)
{
	return slots_gate(p->slots, rq->m.slot, rq->m.open, err);
}

int op_slot_free(struct priv *p, struct request *rq, struct err *err)
{
	const struct vm *vm = vms_on_slot(p->vms, rq->m.slot);

	if (vm)
		return err_set(err, -EBUSY, "slot %u is in use by the running VM %s", rq->m.slot,
		               vm->id);
	return slots_free(p->slots, rq->m.slot, err);
}

int op_slot_stats(struct priv *p, struct request *rq, struct err *err)
{
	struct nl_link l;
	int r = slots_stats(p->slots, rq->m.slot, &l, err);

	if (r < 0)
		return r;
	/* The tap's received bytes are those the guest sent. */
	rq->rep.stats[0] = l.rx_bytes;
	rq->rep.stats[1] = l.tx_bytes;
	rq->rep.stats[2] = l.rx_packets;
	rq->rep.stats[3] = l.tx_packets;
	return 0;
}

int op_slot_socket(struct priv *p, struct request *rq, struct err *err)
{
	int type = rq->m.op == PRIV_SLOT_UDP ? SOCK_DGRAM : SOCK_STREAM;
	int r = slots_socket(p->slots, rq->m.slot, type, &rq->out[0], err);

	if (r < 0)
		return r;
	rq->n_out = 1;
	return 0;
}

int op_slot_list(struct priv *p, struct request *rq, struct err *err)
{
	rq->rep.n_slots = slots_list(p->slots, rq->rep.slots);
	return 0;
}

int op_slot_egress(struct priv *p, struct request *rq, struct err *err)
{
	return slots_policy(p->slots, rq->m.slot, &rq->m.egress, err);
}

int op_slot_proxy(struct priv *p, struct request *rq, struct err *err)
{
	int r = slots_proxy(p->slots, rq->m.slot, &rq->out[0], err);

	if (r < 0)
		return r;
	rq->n_out = 1;
	return 0;
}

int op_slot_pin(struct priv *p, struct request *rq, struct err *err)
{
	return slots_pin(p->slots, rq->m.slot, &rq->m.pin, err);
}

int op_slot_blocked(struct priv *p, struct request *rq, struct err *err)
{
	return slots_blocked(p->slots, rq->m.slot, rq->rep.blocked, &rq->rep.n_blocked, err);
}
