/* SPDX-License-Identifier: Apache-2.0 */
/* privc/net.c - policies of slots, VPCs and tunnels: each call is one request to pando-priv */
#include "privc/privc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "privc/privc_internal.h"

/* A request with a policy or a tunnel in it is large: not on the stack of a small thread. */
static struct priv_req *req_new(unsigned op, uint32_t slot, struct err *err)
{
	struct priv_req *m = calloc(1, sizeof(*m));

	if (!m) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	m->op = op;
	m->slot = slot;
	return m;
}

int privc_slot_policy(struct privc *c, uint32_t idx, const struct priv_egress *e,
                      const struct priv_vpc *vpc, struct err *err)
{
	autofree struct priv_req *m = req_new(vpc ? PRIV_SLOT_VPC : PRIV_SLOT_EGRESS, idx, err);

	if (!m)
		return -ENOMEM;
	m->egress = *e;
	if (vpc)
		m->vpc = *vpc;
	return privc_call(c, m, NULL, 0, NULL, err);
}

int privc_slot_proxy(struct privc *c, uint32_t idx, int *ret_fd, struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_PROXY, .slot = idx };
	autoanswer struct privc_answer *a = NULL;
	int r = privc_call(c, &m, NULL, 0, &a, err);

	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(a->fds[0]);
	return 0;
}

int privc_slot_pin(struct privc *c, uint32_t idx, const struct priv_pin *p, struct err *err)
{
	autofree struct priv_req *m = req_new(PRIV_SLOT_PIN, idx, err);

	if (!m)
		return -ENOMEM;
	m->pin = *p;
	return privc_call(c, m, NULL, 0, NULL, err);
}

int privc_slot_blocked(struct privc *c, uint32_t idx, struct priv_blocked **ret, size_t *ret_n,
                       struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_BLOCKED, .slot = idx };
	autoanswer struct privc_answer *a = NULL;
	int r = privc_call(c, &m, NULL, 0, &a, err);

	if (r < 0)
		return r;
	*ret = calloc(a->rep.n_blocked + 1, sizeof(**ret));
	if (!*ret)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(*ret, a->rep.blocked, a->rep.n_blocked * sizeof(**ret));
	*ret_n = a->rep.n_blocked;
	return 0;
}

int privc_vpc_remove(struct privc *c, const struct priv_vpc *vpc, struct err *err)
{
	struct priv_req m = { .op = PRIV_VPC_REMOVE, .vpc = *vpc };

	return privc_call(c, &m, NULL, 0, NULL, err);
}

int privc_vpc_wg(struct privc *c, const struct priv_vpc *vpc, const struct priv_wg *wg,
                 struct err *err)
{
	autofree struct priv_req *m = req_new(PRIV_VPC_WG, 0, err);
	int r;

	if (!m)
		return -ENOMEM;
	m->vpc = *vpc;
	m->wg = *wg;
	r = privc_call(c, m, NULL, 0, NULL, err);
	explicit_bzero(&m->wg, sizeof(m->wg));
	return r;
}

int privc_vpc_peers(struct privc *c, const struct priv_vpc *vpc, struct priv_wg_seen **ret,
                    size_t *ret_n, struct err *err)
{
	autofree struct priv_req *m = req_new(PRIV_VPC_PEERS, 0, err);
	autoanswer struct privc_answer *a = NULL;
	int r;

	if (!m)
		return -ENOMEM;
	m->vpc = *vpc;
	if ((r = privc_call(c, m, NULL, 0, &a, err)) < 0)
		return r;
	*ret = calloc(a->rep.n_peers + 1, sizeof(**ret));
	if (!*ret)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(*ret, a->rep.peers, a->rep.n_peers * sizeof(**ret));
	*ret_n = a->rep.n_peers;
	return 0;
}

int privc_vpc_wake(struct privc *c, const struct priv_vpc *vpc, int *ret_fd, struct err *err)
{
	struct priv_req m = { .op = PRIV_VPC_WAKE, .vpc = *vpc };
	autoanswer struct privc_answer *a = NULL;
	int r = privc_call(c, &m, NULL, 0, &a, err);

	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(a->fds[0]);
	return 0;
}

int privc_vpc_fresh(struct privc *c, const struct priv_vpc *vpc, uint32_t addr, uint32_t ttl_s,
                    struct err *err)
{
	struct priv_req m = { .op = PRIV_VPC_FRESH,
		              .vpc = *vpc,
		              .fresh = { .addr = addr, .ttl_s = ttl_s } };

	return privc_call(c, &m, NULL, 0, NULL, err);
}
