/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_netplan.c - names, addresses and nft texts against golden files
 *
 * PANDO_GOLDEN_UPDATE=1 writes them again; look at the difference before you commit it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "priv/netplan.h"
#include "wire/priv.h"

static void check(const char *name, struct buf *b)
{
	autofree char *got = buf_take_str(b);
	autofree char *want = NULL;
	struct err err = { 0 };
	char path[512];

	assert_non_null(got);
	snprintf(path, sizeof(path), GOLDEN_DIR "/%s", name);
	if (getenv("PANDO_GOLDEN_UPDATE"))
		assert_int_equal(io_write_file(AT_FDCWD, path, got, strlen(got), 0644, &err), 0);
	assert_int_equal(io_read_file(AT_FDCWD, path, 1 << 16, &want, &err), 0);
	assert_string_equal(got, want);
}

static void slot_rules(void **state)
{
	autobuf struct buf b = { 0 };

	net_slot_rules(NULL, &b);
	check("slot.nft", &b);
}

static void slot_policies(void **state)
{
	struct priv_egress e = { .mode = PRIV_EGRESS_CLOSED, .mark = 7 };
	struct priv_pin pin = {
		.ttl_s = 60, .n_rules = 2, .rules = { 1, 3 }, .n_addrs = 1, .addrs = { 0xc6336407 }
	};
	autobuf struct buf b = { 0 };

	net_slot_rules(&e, &b);
	check("slot-closed.nft", &b);
	e = (struct priv_egress){
		.mode = PRIV_EGRESS_RULES,
		.mark = 8,
		.proxy_http = true,
		.proxy_tls = true,
		.vpc_addr = 0xc0a80a0a,
		.vpc_net = 0xc0a80a00,
		.vpc_prefix = 24,
		.n_rules = 5,
		.rules = { { .allow = false,
		             .kind = PRIV_RULE_CIDR,
		             .addr = 0xc6336400,
		             .prefix = 24,
		             .n_ports = 2,
		             .ports = { { 25, 25 }, { 8000, 8080 } } },
		           { .allow = true, .kind = PRIV_RULE_PINNED },
		           { .allow = true,
		             .kind = PRIV_RULE_CIDR,
		             .n_ports = 1,
		             .ports = { { 22, 22 } } },
		           { .allow = true,
		             .kind = PRIV_RULE_PINNED,
		             .n_ports = 1,
		             .ports = { { 443, 443 } } },
		           { .allow = true, .kind = PRIV_RULE_ANY } },
	};
	net_slot_rules(&e, &b);
	check("slot-rules.nft", &b);
	net_slot_pin(&pin, &b);
	check("slot-pin.nft", &b);
	net_vpc_rules(&(struct priv_vpc){ .idx = 1, .net = 0xc0a80a00, .prefix = 24 }, &b);
	check("vpc.nft", &b);
	net_vpc_fresh(&(struct priv_fresh){ .addr = 0xc0a80a14, .ttl_s = 60 }, &b);
	net_vpc_fresh(&(struct priv_fresh){ .addr = 0xc0a80a15 }, &b);
	check("vpc-fresh.nft", &b);
}

static void slot_blocked(void **state)
{
	static const char text[] =
	        "table inet pando {\n\tset blocked {\n\t\ttype ipv4_addr . inet_proto . "
	        "inet_service\n\t\tsize 256\n\t\tflags dynamic,timeout\n\t\ttimeout 1h\n"
	        "\t\telements = { 198.51.100.7 . 6 . 443 expires 59m58s120ms,\n"
	        "\t\t\t     10.9.8.7 . 1 . 0 expires 1h }\n\t}\n}\n";
	struct priv_blocked v[PRIV_BLOCKED_MAX];

	assert_int_equal(net_slot_blocked("table inet pando {\n}\n", v), 0);
	assert_int_equal(net_slot_blocked(text, v), 2);
	assert_int_equal(v[0].addr, 0xc6336407);
	assert_int_equal(v[0].proto, 6);
	assert_int_equal(v[0].port, 443);
	assert_int_equal(v[0].age_s, 2);
	assert_int_equal(v[1].addr, 0x0a090807);
	assert_int_equal(v[1].port, 0);
	assert_int_equal(v[1].age_s, 0);
}

static void host_rules(void **state)
{
	struct net_host h = { .tag = "0a1b2c3d", .block = 0x0ae71000 };
	autobuf struct buf b = { 0 };

	net_host_rules(&h, &b);
	check("host-no-uplink.nft", &b);
	snprintf(h.uplinks[0], IFNAMSIZ, "eth0");
	snprintf(h.uplinks[1], IFNAMSIZ, "wlan0");
	h.n_uplinks = 2;
	net_host_rules(&h, &b);
	check("host.nft", &b);
	net_host_remove_rules("0a1b2c3d", &b);
	check("host-remove.nft", &b);
}

/* No two slots of an instance share an address or a name, and names fit the kernel's limit. */
static void slots(void **state)
{
	char ip[16];

	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++) {
		struct net_slot s = net_slot_plan("0a1b2c3d", 0x0ae71000, i);
		char want[32];

		snprintf(want, sizeof(want), "pn0a1b2c3d-%u", i);
		assert_string_equal(s.veth, want);
		assert_int_equal(s.slot_ip, 0x0ae71000 + 4 * i + 2);
		assert_int_equal(s.host_ip, s.slot_ip - 1);
		/* All of them in the instance's /20. */
		assert_int_equal(s.slot_ip >> (32 - NET_BLOCK_PREFIX), 0x0ae71000 >> 12);
	}
	assert_string_equal(net_ip_text(net_slot_plan("0a1b2c3d", 0x0ae70000, 1).slot_ip, ip),
	                    "10.231.0.6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slot_rules),   cmocka_unit_test(slot_policies),
		cmocka_unit_test(slot_blocked), cmocka_unit_test(host_rules),
		cmocka_unit_test(slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
