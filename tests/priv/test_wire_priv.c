/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_priv.c - requests and replies of pando-priv survive the wire, others do not */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/priv.h"

static void names(void **state)
{
	assert_null(priv_op_name(0));
	assert_null(priv_op_name(PRIV_OP_END));
	assert_null(priv_op_name(UINT32_MAX));
	for (unsigned op = 1; op < PRIV_OP_END; op++)
		assert_non_null(priv_op_name(op));
	assert_true(priv_vm_id_valid("a"));
	assert_true(priv_vm_id_valid("vm-0123456789-0123456789-0123456789-0123"));
	assert_false(priv_vm_id_valid("vm-0123456789-0123456789-0123456789-01234"));
	static const char *const bad[] = { "",   "-a",  "A",   "a/b", ".",
		                           "..", "a.b", "a b", "a\n", "\xc3" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(priv_vm_id_valid(bad[i]));
}

static struct priv_req sample(unsigned op)
{
	return (struct priv_req){
		.op = op,
		.id = 0x01020304,
		.vm_id = "vm-a",
		.slot = 7,
		.open = true,
		.cursor = 9,
		.fork = { .seed = "seed-1", .slot = 7, .mem_mb = 512, .vcpus = 2 },
		.spawn = { .slot = -1,
		           .mem_mb = 512,
		           .vcpus = 2,
		           .kvm = true,
		           .n_argv = 3,
		           .argv = { "-m", "512", "" },
		           .n_env = 1,
		           .env = { "PANDO_X=1" } },
		.egress = { .mode = PRIV_EGRESS_RULES,
		            .mark = 5,
		            .proxy_tls = true,
		            .vpc_addr = 0x0a010005,
		            .vpc_net = 0x0a010000,
		            .vpc_prefix = 16,
		            .n_rules = 1,
		            .rules = { { .allow = true,
		                         .kind = PRIV_RULE_CIDR,
		                         .addr = 0x08080800,
		                         .prefix = 24,
		                         .n_ports = 1,
		                         .ports = { { 80, 90 } } } } },
		.pin = { .ttl_s = 60,
		         .n_rules = 1,
		         .rules = { 3 },
		         .n_addrs = 1,
		         .addrs = { 0x08080808 } },
		.vpc = { .idx = 3, .net = 0x0a010000, .prefix = 16 },
		.wg = { .port = 51820,
		        .server_ip = PRIV_WG_NET + 1,
		        .key = { 1, 2, 3 },
		        .n_peers = 1,
		        .peers = { { .key = { 4, 5 }, .ip = PRIV_WG_NET + 2 } } },
		.fresh = { .addr = 0x0a010005, .ttl_s = 60 }
	};
}

/* What no nft text and no netlink message may be made of. */
static void bad_networks(void **state)
{
	assert_true(priv_vpc_valid(0xc0a80a00, 24));
	assert_true(priv_vpc_valid(0x0a000000, 8));
	assert_false(priv_vpc_valid(0xc0a80a01, 24));  /* an address in it */
	assert_false(priv_vpc_valid(0x08080800, 24));  /* public */
	assert_false(priv_vpc_valid(PRIV_WG_NET, 24)); /* tunnels */
	assert_false(priv_vpc_valid(0x64400000, 10));  /* contains them */
	assert_false(priv_vpc_valid(0xc0a80a00, 30));  /* too small */
	assert_false(priv_vpc_valid(0x00000000, 0));
	for (unsigned i = 0; i < 5; i++) {
		struct priv_req m, got;
		autobuf struct buf b = { 0 };
		struct err err = { 0 };

		memset(&m, 0, sizeof(m));
		m.op = PRIV_SLOT_EGRESS;
		m.egress.mark = i == 0 ? 0 : 1;
		m.egress.mode = i == 1 ? (enum priv_egress_mode)7 : PRIV_EGRESS_RULES;
		m.egress.n_rules = 1;
		m.egress.rules[0].prefix = i == 2 ? 33 : 0;
		m.egress.rules[0].addr = i == 3 ? 1 : 0;
		m.egress.vpc_addr = i == 4 ? 0x08080808 : 0;
		assert_int_equal(priv_req_encode(&m, &b, &err), 0);
		assert_int_equal(priv_req_decode(b.p, b.len, &got, &err), -EBADMSG);
	}
}

static void bad_fresh_addresses(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct priv_req m = sample(PRIV_VPC_FRESH), got;
		autobuf struct buf b = { 0 };
		struct err err = { 0 };

		m.fresh.addr = i == 1 ? 0x08080808 : m.fresh.addr; /* not in the range */
		m.fresh.ttl_s = i == 2 ? PRIV_FRESH_MAX + 1 : PRIV_FRESH_MAX;
		assert_int_equal(priv_req_encode(&m, &b, &err), 0);
		assert_int_equal(priv_req_decode(b.p, b.len, &got, &err), i ? -EBADMSG : 0);
	}
}

static void requests(void **state)
{
	for (unsigned op = 1; op < PRIV_OP_END; op++) {
		struct priv_req m = sample(op), got;
		autobuf struct buf b = { 0 };
		struct err err = { 0 };

		assert_int_equal(priv_req_encode(&m, &b, &err), 0);
		assert_int_equal(priv_req_decode(b.p, b.len, &got, &err), 0);
		assert_int_equal(got.op, op);
		assert_int_equal(got.id, m.id);
		if (op == PRIV_KILL)
			assert_string_equal(got.vm_id, "vm-a");
		if (op == PRIV_SLOT_GATE) {
			assert_int_equal(got.slot, 7);
			assert_true(got.open);
		}
		if (op == PRIV_FORK) {
			assert_string_equal(got.fork.seed, "seed-1");
			assert_int_equal(got.fork.slot, 7);
			assert_int_equal(got.fork.mem_mb, 512);
			assert_int_equal(got.fork.vcpus, 2);
		}
		if (op == PRIV_SPAWN || op == PRIV_SEED) {
			assert_int_equal(got.spawn.slot, -1);
			assert_int_equal(got.spawn.mem_mb, 512);
			assert_true(got.spawn.kvm);
			assert_int_equal(got.spawn.n_argv, 3);
			assert_string_equal(got.spawn.argv[1], "512");
			assert_string_equal(got.spawn.argv[2], "");
			assert_null(got.spawn.argv[3]);
			assert_string_equal(got.spawn.env[0], "PANDO_X=1");
			assert_null(got.spawn.env[1]);
		}
		priv_req_done(&got);
		/* Neither cut short nor with anything behind it. */
		for (size_t n = 0; n < b.len; n++)
			assert_int_equal(priv_req_decode(b.p, n, &got, &err), -EBADMSG);
		buf_put_u8(&b, 0);
		assert_int_equal(priv_req_decode(b.p, b.len, &got, &err), -EBADMSG);
	}
}

static int decode_spawn(const struct priv_req *m, void (*spoil)(struct buf *b))
{
	autobuf struct buf b = { 0 };
	struct priv_req got;
	struct err err = { 0 };
	int r;

	assert_int_equal(priv_req_encode(m, &b, &err), 0);
	if (spoil)
		spoil(&b);
	r = priv_req_decode(b.p, b.len, &got, &err);
	priv_req_done(&got);
	return r;
}

static void spoil_slot(struct buf *b)
{
	put_be32(b->p + 16, PRIV_SLOTS_LIMIT);
}

static void spoil_kvm(struct buf *b)
{
	b->p[28] = 2;
}

static void spoil_text(struct buf *b)
{
	b->p[38] = 0; /* a NUL inside the first argument */
}

static void limits(void **state)
{
	struct priv_req m = sample(PRIV_SPAWN);
	autofree char *big = malloc(PRIV_TEXT_MAX + 1);
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	assert_int_equal(decode_spawn(&m, NULL), 0);
	assert_int_equal(decode_spawn(&m, spoil_slot), -EBADMSG);
	assert_int_equal(decode_spawn(&m, spoil_kvm), -EBADMSG);
	assert_int_equal(decode_spawn(&m, spoil_text), -EBADMSG);
	m.spawn.mem_mb = 0;
	assert_int_equal(decode_spawn(&m, NULL), -EBADMSG);
	m.spawn.mem_mb = PRIV_MEM_MB_MAX + 1;
	assert_int_equal(decode_spawn(&m, NULL), -EBADMSG);
	m = sample(PRIV_SPAWN);
	m.spawn.vcpus = PRIV_VCPUS_MAX + 1;
	assert_int_equal(decode_spawn(&m, NULL), -EBADMSG);
	m = sample(PRIV_SPAWN);
	m.spawn.n_argv = PRIV_ARGV_MAX + 1;
	assert_int_equal(priv_req_encode(&m, &b, &err), -E2BIG);
	/* All arguments together, not only each of them. */
	assert_non_null(big);
	memset(big, 'a', PRIV_TEXT_MAX);
	big[PRIV_TEXT_MAX / 2] = '\0';
	m = sample(PRIV_SPAWN);
	m.spawn.argv[0] = big;
	assert_int_equal(decode_spawn(&m, NULL), 0);
	m.spawn.argv[1] = big;
	assert_int_equal(decode_spawn(&m, NULL), -EBADMSG);
	m = sample(PRIV_KILL);
	memcpy(m.vm_id, "../x", 5);
	buf_reset(&b);
	assert_int_equal(priv_req_encode(&m, &b, &err), -EINVAL);
}

static void replies(void **state)
{
	autofree struct priv_rep *m = calloc(1, sizeof(*m));
	autofree struct priv_rep *got = calloc(1, sizeof(*got));
	struct err err = { 0 };

	assert_non_null(m);
	assert_non_null(got);
	m->id = 5;
	m->slot = 3;
	memcpy(m->host_addr, "10.231.0.2", 11);
	memcpy(m->info.tag, "0a1b2c3d", 9);
	m->n_slots = PRIV_SLOTS_LIMIT;
	m->slots[1023] = 1023;
	m->n_vms = PRIV_LIST_MAX;
	for (unsigned i = 0; i < PRIV_LIST_MAX; i++)
		memcpy(m->vms[i].vm_id, "vm-a", 5);
	m->vms[31].slot = -1;
	m->n_peers = PRIV_WG_PEERS_MAX;
	m->peers[255] = (struct priv_wg_seen){
		.key = { 1, 2 }, .handshake_s = 3, .rx_bytes = 4, .tx_bytes = 5
	};
	for (unsigned op = 1; op < PRIV_OP_END; op++) {
		autobuf struct buf b = { 0 };
		uint32_t id;

		assert_int_equal(priv_rep_encode(m, op, &b, &err), 0);
		assert_int_equal(priv_rep_id(b.p, b.len, &id), 0);
		assert_int_equal(id, 5);
		assert_int_equal(priv_rep_decode(b.p, b.len, op, got, &err), 0);
		for (size_t n = 0; n < b.len; n++)
			assert_int_equal(priv_rep_decode(b.p, n, op, got, &err), -EBADMSG);
		assert_int_equal(priv_rep_decode(b.p, b.len, op, got, &err), 0);
		if (op == PRIV_SLOT_LIST)
			assert_int_equal(got->slots[1023], 1023);
		if (op == PRIV_VM_LIST)
			assert_int_equal(got->vms[31].slot, -1);
		if (op == PRIV_VPC_PEERS)
			assert_memory_equal(&got->peers[255], &m->peers[255],
			                    sizeof(got->peers[255]));
		if (op == PRIV_SLOT_TAKE)
			assert_string_equal(got->host_addr, "10.231.0.2");
	}
	m->code = -ENOENT;
	memcpy(m->msg, "slot 3 is not taken", 20);
	for (unsigned op = 1; op < PRIV_OP_END; op++) {
		autobuf struct buf b = { 0 };

		assert_int_equal(priv_rep_encode(m, op, &b, &err), 0);
		assert_int_equal(priv_rep_decode(b.p, b.len, op, got, &err), 0);
		assert_int_equal(got->code, -ENOENT);
		assert_string_equal(got->msg, m->msg);
		assert_int_equal(priv_rep_fds(op, got), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(bad_networks),
		cmocka_unit_test(bad_fresh_addresses),
		cmocka_unit_test(requests),
		cmocka_unit_test(limits),
		cmocka_unit_test(replies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
