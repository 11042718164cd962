/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/slotpolicy.c - carry out the policy of one slot
 *
 * The rules are one nft transaction, so packets see the old or the new ones.
 * Limits are set before a wider policy and do not depend on it; if a step
 * fails the rest of the old policy stays, and the caller does not open the gate.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "priv/nft.h"
#include "priv/nl.h"
#include "priv/slotnet.h"

#define KBIT_BYTES 125u /* bytes a second in one kbit/s */

static int run_in(const struct slotnet_env *env, const struct slotnet *sn, struct buf *b,
                  struct err *err)
{
	autofree char *text = buf_take_str(b);
	int r;

	if (!text)
		return err_set(err, -ENOMEM, "slot rules: out of memory");
	r = slotnet_enter(sn->ns, err);
	if (r < 0)
		return r;
	r = nft_run(text, err);
	slotnet_leave(env);
	return r;
}

static int limits(const struct slotnet *sn, const struct priv_egress *e, struct err *err)
{
	struct nl_link peer;
	int r = nl_link_get(sn->nl, NET_PEER, &peer, err);

	if (r < 0 ||
	    (r = nl_rate_set(sn->nl, sn->ifindex, (uint64_t)e->down_kbit * KBIT_BYTES, err)) < 0)
		return r;
	return nl_rate_set(sn->nl, peer.ifindex, (uint64_t)e->up_kbit * KBIT_BYTES, err);
}

int slotnet_policy(const struct slotnet_env *env, const struct slotnet *sn,
                   const struct priv_egress *e, struct err *err)
{
	autobuf struct buf b = { 0 };
	int r = limits(sn, e, err);

	if (r < 0)
		return r;
	net_slot_rules(e, &b);
	return run_in(env, sn, &b, err);
}

int slotnet_pin(const struct slotnet_env *env, const struct slotnet *sn, const struct priv_pin *p,
                struct err *err)
{
	autobuf struct buf b = { 0 };

	net_slot_pin(p, &b);
	return b.len ? run_in(env, sn, &b, err) : 0;
}

int slotnet_blocked(const struct slotnet_env *env, const struct slotnet *sn,
                    struct priv_blocked ret[], uint32_t *ret_n, struct err *err)
{
	autofree char *text = NULL;
	int r = slotnet_enter(sn->ns, err);

	if (r < 0)
		return r;
	r = nft_list(NET_BLOCKED_LIST, &text, err);
	slotnet_leave(env);
	if (r < 0)
		return r;
	*ret_n = net_slot_blocked(text, ret);
	return 0;
}
