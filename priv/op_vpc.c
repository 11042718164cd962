/* SPDX-License-Identifier: Apache-2.0 */
/* priv/op_vpc.c - operations on VPCs: translate, call, translate back */
#include <errno.h>

#include "base/err.h"
#include "priv/priv.h"
#include "priv/slot.h"

int op_slot_vpc(struct priv *p, struct request *rq, struct err *err)
{
	const struct priv_egress *e = &rq->m.egress;

	if (!e->vpc_addr || e->vpc_net != rq->m.vpc.net || e->vpc_prefix != rq->m.vpc.prefix)
		return err_set(err, -EINVAL, "the address is not in the VPC's range");
	return slots_vpc(p->slots, rq->m.slot, &rq->m.vpc, e, err);
}

int op_vpc_remove(struct priv *p, struct request *rq, struct err *err)
{
	return slots_vpc_remove(p->slots, rq->m.vpc.idx, err);
}

int op_vpc_wg(struct priv *p, struct request *rq, struct err *err)
{
	return slots_vpc_wg(p->slots, &rq->m.vpc, &rq->m.wg, err);
}

int op_vpc_peers(struct priv *p, struct request *rq, struct err *err)
{
	return slots_vpc_peers(p->slots, &rq->m.vpc, rq->rep.peers, &rq->rep.n_peers, err);
}

int op_vpc_wake(struct priv *p, struct request *rq, struct err *err)
{
	int r = slots_vpc_wake(p->slots, &rq->m.vpc, &rq->out[0], err);

	if (r < 0)
		return r;
	rq->n_out = 1;
	return 0;
}

int op_vpc_fresh(struct priv *p, struct request *rq, struct err *err)
{
	return slots_vpc_fresh(p->slots, &rq->m.vpc, &rq->m.fresh, err);
}
