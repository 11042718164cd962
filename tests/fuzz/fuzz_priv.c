/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_priv.c - requests from pandod to pando-priv, and replies
 *
 * The first byte is 0 for a request, else the operation that a reply is for. A
 * request that is accepted must come out as the same bytes again: then nothing in
 * it was ignored.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/priv.h"

#define NETWORK 200u /* from this byte 0 on, not a whole message but a part of one */

static void request(const uint8_t *data, size_t size)
{
	static struct priv_req m;
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	if (priv_req_decode(data, size, &m, &err) < 0) {
		assert(err.msg[0]);
		return;
	}
	assert(m.slot < PRIV_SLOTS_LIMIT && priv_op_name(m.op));
	assert(m.spawn.slot < (int32_t)PRIV_SLOTS_LIMIT && m.spawn.slot >= -1);
	assert(m.spawn.n_argv <= PRIV_ARGV_MAX && !m.spawn.argv[m.spawn.n_argv]);
	assert(m.spawn.n_env <= PRIV_ENV_MAX && !m.spawn.env[m.spawn.n_env]);
	assert(priv_req_encode(&m, &b, &err) == 0);
	assert(b.len == size && !memcmp(b.p, data, size));
	priv_req_done(&m);
}

static void reply(const uint8_t *data, size_t size, unsigned op)
{
	static struct priv_rep m;
	autobuf struct buf b = { 0 };
	struct err err = { 0 };
	uint32_t id;

	if (priv_rep_decode(data, size, op, &m, &err) < 0) {
		assert(err.msg[0]);
		return;
	}
	assert(m.code <= 0 && priv_rep_fds(op, &m) <= PRIV_LIST_MAX);
	assert(priv_rep_id(data, size, &id) == 0 && id == m.id);
	assert(priv_rep_encode(&m, op, &b, &err) == 0);
	assert(b.len == size && !memcmp(b.p, data, size));
}

/* What is inside requests about networks: policies, pins, VPCs, tunnels, what was blocked. */
static void network(const uint8_t *data, size_t size, unsigned which)
{
	static union {
		struct priv_egress egress;
		struct priv_pin pin;
		struct priv_vpc vpc;
		struct priv_wg wg;
		struct priv_blocked blocked[PRIV_BLOCKED_MAX];
	} m;
	struct rd c = rd_of(data, size);
	autobuf struct buf b = { 0 };
	uint32_t n;

	switch (which) {
	case 0:
		if (priv_egress_get(&c, &m.egress) < 0)
			return;
		priv_egress_put(&m.egress, &b);
		break;
	case 1:
		if (priv_pin_get(&c, &m.pin) < 0)
			return;
		priv_pin_put(&m.pin, &b);
		break;
	case 2:
		if (priv_vpc_get(&c, &m.vpc) < 0)
			return;
		assert(priv_vpc_valid(m.vpc.net, m.vpc.prefix));
		priv_vpc_put(&m.vpc, &b);
		break;
	case 3:
		if (priv_wg_get(&c, &m.wg) < 0)
			return;
		priv_wg_put(&m.wg, &b);
		break;
	default:
		if (priv_blocked_get(&c, m.blocked, &n) < 0)
			return;
		priv_blocked_put(m.blocked, n, &b);
	}
	assert(b.len == size - c.left && (!b.len || !memcmp(b.p, data, b.len)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] == 0)
		request(data + 1, size - 1);
	else if (data[0] >= NETWORK)
		network(data + 1, size - 1, (data[0] - NETWORK) % 5u);
	else
		reply(data + 1, size - 1, data[0]);
	return 0;
}
