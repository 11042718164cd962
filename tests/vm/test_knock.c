/* SPDX-License-Identifier: Apache-2.0 */
/* test_knock.c - packets that wake VMs: which ones do, what is kept of them, and the manager that
 * does it */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_net.h"
#include "tests/unit/check.h"
#include "tests/unit/tmpdir.h"
#include "tests/vm/rig.h"
#include "vm/knock_queue.h"
#include "vm/network.h"

#define PEER 0xc0a80a02u
#define SYN 0x02
#define ACK 0x10
#define RST 0x04
#define FIN 0x01

/* ---- packets ---- */

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

/* options: words of them. */
static size_t ip(uint8_t *p, unsigned proto, uint32_t dst, unsigned options, size_t body)
{
	size_t head = 20 + options * 4ul;

	memset(p, 0, head + body);
	p[0] = (uint8_t)(0x40 | (5 + options));
	put16(p + 2, (unsigned)(head + body));
	p[8] = 64;
	p[9] = (uint8_t)proto;
	put32(p + 12, PEER);
	put32(p + 16, dst);
	return head;
}

/* seq tells packets apart. */
static size_t tcp(uint8_t *p, uint32_t dst, unsigned flags, size_t data, uint32_t seq)
{
	size_t at = ip(p, IPPROTO_TCP, dst, 0, 20 + data);

	put32(p + at + 4, seq);
	p[at + 12] = 5 << 4;
	p[at + 13] = (uint8_t)flags;
	return at + 20 + data;
}

static bool opens(const uint8_t *p, size_t n)
{
	struct knock_head h = { 0 };

	return knock_parse(p, n, &h) && h.kind == KNOCK_OPENS;
}

static bool continues(const uint8_t *p, size_t n)
{
	struct knock_head h = { 0 };

	return knock_parse(p, n, &h) && h.kind == KNOCK_CONTINUES;
}

static void which_packets_wake(void **state)
{
	uint8_t p[128];
	struct knock_head h;
	size_t n, at;

	(void)state;
	n = tcp(p, 0xc0a80a0a, SYN, 0, 1);
	assert_true(knock_parse(p, n, &h));
	assert_int_equal(h.src, PEER);
	assert_int_equal(h.dst, 0xc0a80a0a);
	assert_int_equal(h.kind, KNOCK_OPENS);
	n = tcp(p, 1, ACK, 20, 1);
	assert_true(continues(p, n));
	for (size_t data = 0; data < 2; data++) { /* acknowledgements, keepalive probes */
		n = tcp(p, 1, ACK, data, 1);
		assert_false(knock_parse(p, n, &h));
	}
	n = tcp(p, 1, SYN | ACK, 0, 1);
	assert_false(knock_parse(p, n, &h));
	n = tcp(p, 1, FIN | ACK, 0, 1);
	assert_false(knock_parse(p, n, &h));
	n = tcp(p, 1, RST, 20, 1);
	assert_false(knock_parse(p, n, &h));
	n = tcp(p, 1, SYN | RST, 0, 1);
	assert_false(knock_parse(p, n, &h));
	ip(p, IPPROTO_UDP, 1, 0, 8);
	assert_true(opens(p, 28));
	at = ip(p, IPPROTO_ICMP, 1, 0, 8);
	p[at] = 8;
	assert_true(opens(p, 28));
	p[at] = 3; /* unreachable */
	assert_false(knock_parse(p, 28, &h));
	ip(p, IPPROTO_SCTP, 1, 0, 40);
	assert_false(knock_parse(p, 60, &h));
	/* after options */
	at = ip(p, IPPROTO_UDP, 7, 10, 8);
	assert_true(opens(p, at + 8));
}

static void broken_packets(void **state)
{
	uint8_t p[128];
	struct knock_head h;
	size_t n = tcp(p, 1, SYN, 0, 1);

	(void)state;
	for (size_t i = 0; i < n; i++) /* cut off anywhere */
		assert_false(knock_parse(p, i, &h));
	p[0] = 0x65; /* version 6 */
	assert_false(knock_parse(p, n, &h));
	tcp(p, 1, SYN, 0, 1);
	p[0] = 0x44; /* a head of 16 bytes */
	assert_false(knock_parse(p, n, &h));
	tcp(p, 1, SYN, 0, 1);
	p[0] = 0x4f; /* a head longer than the packet */
	assert_false(knock_parse(p, n, &h));
	tcp(p, 1, SYN, 0, 1);
	put16(p + 2, (unsigned)n + 1);
	assert_false(knock_parse(p, n, &h));
	tcp(p, 1, SYN, 0, 1);
	put16(p + 2, 19);
	assert_false(knock_parse(p, n, &h));
	tcp(p, 1, SYN, 0, 1);
	put16(p + 6, 1); /* not the first fragment */
	assert_false(knock_parse(p, n, &h));
	tcp(p, 1, SYN, 0, 1);
	p[32] = 15 << 4; /* options that are not there */
	assert_false(knock_parse(p, n, &h));
	p[32] = 4 << 4;
	assert_false(knock_parse(p, n, &h));
	ip(p, IPPROTO_UDP, 1, 0, 7);
	assert_false(knock_parse(p, 27, &h));
	ip(p, IPPROTO_ICMP, 1, 0, 7);
	assert_false(knock_parse(p, 27, &h));
}

static unsigned length(const struct knock_packet *list)
{
	unsigned n = 0;

	for (; list; list = list->next)
		n++;
	return n;
}

static void what_is_kept(void **state)
{
	struct knock_queue q = { 0 };
	struct knock_packet *list;
	uint8_t big[KNOCK_PACKET_MAX + 1] = { 0 };
	uint8_t seen = 0;

	(void)state;
	for (uint8_t i = 0; i < 2 * KNOCK_PER_VM; i++)
		assert_int_equal(knock_put(&q, 10, &i, 1, 0), i == 0             ? KNOCK_WAKE
		                                              : i < KNOCK_PER_VM ? KNOCK_KEPT
		                                                                 : KNOCK_DROPPED);
	list = knock_take(&q, 10, 0);
	assert_int_equal(length(list), KNOCK_PER_VM);
	for (const struct knock_packet *p = list; p; p = p->next)
		assert_int_equal(p->data[0], seen++); /* the oldest first */
	knock_free(list);
	assert_null(knock_take(&q, 10, 0));
	assert_int_equal(q.n_packets, 0);
	/* too long: it wakes, but is not kept */
	assert_int_equal(knock_put(&q, 11, big, sizeof(big), 0), KNOCK_WAKE);
	assert_null(knock_take(&q, 11, 0));
}

static void all_doors_at_once(void **state)
{
	struct knock_queue q = { 0 };
	unsigned n = 0;

	(void)state;
	for (uint32_t a = 1; a <= KNOCK_DOORS; a++)
		for (unsigned i = 0; i < KNOCK_PER_VM; i++)
			n += knock_put(&q, a, (const uint8_t *)"x", 1, 0) != KNOCK_DROPPED;
	assert_int_equal(q.n_packets, KNOCK_PER_VPC);
	assert_true(n >= KNOCK_DOORS); /* the others are woken without */
	assert_int_equal(knock_put(&q, KNOCK_DOORS + 1, (const uint8_t *)"x", 1, 0), KNOCK_DROPPED);
	for (uint32_t a = 1; a <= KNOCK_DOORS; a++)
		knock_free(knock_take(&q, a, 0));
	assert_int_equal(q.n_packets, 0);
	assert_int_equal(knock_put(&q, KNOCK_DOORS + 1, (const uint8_t *)"x", 1, 0), KNOCK_WAKE);
	knock_free(knock_take(&q, KNOCK_DOORS + 1, 0));
}

static void deaf_for_a_while(void **state)
{
	struct knock_queue q = { 0 };

	(void)state;
	assert_int_equal(knock_put(&q, 5, (const uint8_t *)"x", 1, 100), KNOCK_WAKE);
	knock_free(knock_take(&q, 5, 200));
	assert_int_equal(knock_put(&q, 5, (const uint8_t *)"x", 1, 199), KNOCK_DROPPED);
	assert_int_equal(knock_put(&q, 6, (const uint8_t *)"x", 1, 199), KNOCK_WAKE);
	assert_int_equal(knock_put(&q, 5, (const uint8_t *)"x", 1, 200), KNOCK_WAKE);
	knock_free(knock_take(&q, 5, 0));
	knock_free(knock_take(&q, 6, 0));
}

/* ---- the manager ---- */

struct net {
	struct rig *r;
	struct vpc_info vpc;
	struct vm_info vm[3];
	uint32_t addr[3];
	_Atomic unsigned spawns;
	_Atomic bool refuse;
};

static int count_spawns(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct net *n = ctx;

	(void)object;
	if (face != FAKE_HELPER || strcmp(what, "spawn") != 0)
		return 0;
	n->spawns++;
	return n->refuse ? ENOMEM : 0;
}

static int net_setup(void **state)
{
	struct net *n = calloc(1, sizeof(*n));
	char vpc[ID_SIZE];

	n->r = rig_new(NULL);
	OK(vmm_vpc_create(n->r->vmm, RIG_ACCOUNT, "", "192.168.10.0/24", &n->vpc, &err));
	for (int i = 0; i < 3; i++) {
		struct vm_nic nic = { .account = RIG_ACCOUNT, .vpc = n->vpc.id };
		struct vm_create_opts o = { .account = RIG_ACCOUNT,
			                    .nic = &nic,
			                    .idle_timeout_s = -1 };

		OK(vmm_create(n->r->vmm, &o, &n->vm[i], &err));
		OK(vmm_vm_address(n->r->vmm, RIG_ACCOUNT, n->vm[i].id, vpc, &n->addr[i], &err));
	}
	n->r->ctx = n;
	n->r->on_call = count_spawns;
	*state = n;
	return 0;
}

static int net_teardown(void **state)
{
	struct net *n = *state;

	n->r->on_call = NULL;
	rig_free(n->r);
	free(n);
	return 0;
}

/* The network's end; what it sends is kept in order. */
static int wire(struct net *n)
{
	int fd;
	LOCK_SCOPE(&n->r->fake->lock);

	fd = n->r->fake->wake_fd;
	assert_true(fd >= 0);
	return fd;
}

static void knock(struct net *n, int vm, unsigned flags, size_t data, uint32_t seq)
{
	uint8_t p[128];
	size_t len = tcp(p, n->addr[vm], flags, data, seq);

	assert_int_equal(write(wire(n), p, len), len);
}

/* A packet comes back: for that VM, with that number. */
static void passed_on(struct net *n, int vm, uint32_t seq)
{
	uint8_t p[128], want[128];
	struct pollfd pfd = { .fd = wire(n), .events = POLLIN };
	size_t len = tcp(want, n->addr[vm], SYN, 0, seq);
	struct vm_info i;

	assert_int_equal(poll(&pfd, 1, 60000), 1);
	assert_int_equal(read(pfd.fd, p, sizeof(p)), len);
	assert_memory_equal(p, want, len);
	OK(vmm_get(n->r->vmm, RIG_ACCOUNT, n->vm[vm].id, &i, &err));
	assert_int_equal(i.state, VM_RUNNING); /* by then */
}

static void nothing_more(struct net *n)
{
	struct pollfd pfd = { .fd = wire(n), .events = POLLIN };

	assert_int_equal(poll(&pfd, 1, 0), 0);
}

static enum vm_state state_of(struct net *n, int vm)
{
	struct vm_info i;

	OK(vmm_get(n->r->vmm, RIG_ACCOUNT, n->vm[vm].id, &i, &err));
	return i.state;
}

static void the_first_packet_is_delivered(void **state)
{
	struct net *n = *state;
	struct vm_info i;
	unsigned before;

	OK(vmm_suspend(n->r->vmm, RIG_ACCOUNT, n->vm[1].id, &i, &err));
	before = n->spawns;
	for (uint32_t k = 0; k < 3; k++)
		knock(n, 1, SYN, 0, k);
	for (uint32_t k = 0; k < 3; k++)
		passed_on(n, 1, k);
	nothing_more(n);
	assert_int_equal(n->spawns, before + 1); /* one start */
	assert_int_equal(n->r->fake->n_fresh, 0);
	rig_check(n->r);
}

static void a_stopped_vm_boots_for_new_connections(void **state)
{
	struct net *n = *state;
	struct vm_info i;

	OK(vmm_stop(n->r->vmm, RIG_ACCOUNT, n->vm[1].id, &i, &err));
	OK(vmm_suspend(n->r->vmm, RIG_ACCOUNT, n->vm[2].id, &i, &err));
	/* Of connections that ended with its memory: no reason to boot. */
	knock(n, 1, ACK, 20, 1);
	knock(n, 1, FIN | ACK, 0, 2);
	knock(n, 1, RST, 0, 3);
	knock(n, 2, SYN, 0, 4);
	passed_on(n, 2, 4); /* they are read in this order */
	assert_int_equal(state_of(n, 1), VM_STOPPED);
	knock(n, 1, SYN, 0, 5);
	passed_on(n, 1, 5);
	assert_int_equal(n->r->fake->n_fresh, 2); /* while it boots, and a while after */
	assert_int_equal(n->r->fake->fresh_ttl_s, 60);
	rig_check(n->r);
}

static void packets_for_nobody(void **state)
{
	struct net *n = *state;
	struct vm_info i;
	uint8_t p[2048] = { 0 };
	uint32_t mine = n->addr[1];

	OK(vmm_suspend(n->r->vmm, RIG_ACCOUNT, n->vm[1].id, &i, &err));
	OK(vmm_suspend(n->r->vmm, RIG_ACCOUNT, n->vm[2].id, &i, &err));
	n->addr[1] = n->vpc.net | 200;
	knock(n, 1, SYN, 0, 1);
	n->addr[1] = n->vpc.net | 255;
	knock(n, 1, SYN, 0, 1);
	n->addr[1] = mine;
	assert_int_equal(write(wire(n), "x", 1), 1);
	tcp(p, mine, SYN, 0, 1);
	put16(p + 2, sizeof(p));
	assert_int_equal(write(wire(n), p, sizeof(p)), sizeof(p)); /* longer than any is */
	knock(n, 2, SYN, 0, 2);
	passed_on(n, 2, 2);
	assert_int_equal(state_of(n, 1), VM_SUSPENDED);
	nothing_more(n);
}

static void one_that_cannot_start_is_left_alone(void **state)
{
	struct net *n = *state;
	struct vm_info i;
	uint64_t until = clock_ms() + 60000;
	unsigned tries;

	OK(vmm_suspend(n->r->vmm, RIG_ACCOUNT, n->vm[1].id, &i, &err));
	OK(vmm_suspend(n->r->vmm, RIG_ACCOUNT, n->vm[2].id, &i, &err));
	n->refuse = true;
	n->spawns = 0;
	knock(n, 1, SYN, 0, 1);
	while ((!n->spawns || state_of(n, 1) != VM_SUSPENDED) && clock_ms() < until)
		usleep(1000);
	tries = n->spawns;
	assert_true(tries > 0);
	n->refuse = false;
	for (uint32_t k = 2; k < 20; k++)
		knock(n, 1, SYN, 0, k);
	knock(n, 2, SYN, 0, 30);
	passed_on(n, 2, 30);
	assert_int_equal(state_of(n, 1), VM_SUSPENDED);
	assert_int_equal(n->spawns, tries + 1); /* the other's */
	nothing_more(n);
	OK(rig_usable(n->r, n->vm[1].id, &err)); /* for everyone else it is as it was */
}

static void a_new_server_hears_again(void **state)
{
	struct net *n = *state;
	struct vm_info i;

	OK(vmm_suspend(n->r->vmm, RIG_ACCOUNT, n->vm[1].id, &i, &err));
	rig_crash(n->r);
	OK(rig_start(n->r, &err));
	knock(n, 1, SYN, 0, 1);
	passed_on(n, 1, 1);
	rig_check(n->r);
}

/* The device would keep the namespace of a VPC that is gone. */
static void it_ends_with_its_vpc(void **state)
{
	struct net *n = *state;
	char c;
	int fd = wire(n);

	FAILS(-EBUSY, vmm_vpc_delete(n->r->vmm, RIG_ACCOUNT, n->vpc.id, &err));
	assert_int_equal(read(fd, &c, 1), -1);
	assert_int_equal(errno, EAGAIN);
	for (int i = 0; i < 3; i++)
		OK(vmm_delete(n->r->vmm, RIG_ACCOUNT, n->vm[i].id, NULL, &err));
	knock(n, 1, SYN, 0, 1);
	OK(vmm_vpc_delete(n->r->vmm, RIG_ACCOUNT, n->vpc.id, &err));
	assert_true(read(fd, &c, 1) == 0 || errno == ECONNRESET);
}

/* ---- as a node: the store may change under it ---- */

static struct tmpdir node_dir;
static _Atomic unsigned removed;

static int count_removed(void *ctx, enum fake_face face, const char *what, const char *object)
{
	(void)ctx;
	(void)object;
	if (face == FAKE_HELPER && strcmp(what, "vpc.remove") == 0)
		removed++;
	return 0;
}

static int node_setup(void **state)
{
	char path[256];
	int r;

	if (tmpdir_make(&node_dir) < 0)
		return -1;
	setenv("RIG_NODE", "one 127.119.0.1:1", /* overwrite= */ 1);
	setenv("RIG_DATABASE", tmpdir_file(&node_dir, "pando.db", path, sizeof(path)), 1);
	setenv("RIG_SECRET", "", 1);
	r = net_setup(state);
	unsetenv("RIG_NODE");
	removed = 0;
	((struct net *)*state)->r->on_call = count_removed;
	return r;
}

static int node_teardown(void **state)
{
	return net_teardown(state) < 0 ? -1 : tmpdir_remove(&node_dir);
}

/* Another node deletes the VPC, and a new one gets its number: nothing of the old one is left here
 * when the first VM joins that. */
static void a_vpc_that_another_node_deleted(void **state)
{
	struct net *n = *state;
	struct vm_create_opts o = { .account = RIG_ACCOUNT, .idle_timeout_s = -1 };
	struct vm_nic nic = { .account = RIG_ACCOUNT };
	struct vpc_info second;
	struct vm_info vm;
	uint64_t until = clock_ms() + 60000;
	char c;
	int fd;

	for (int i = 0; i < 3; i++)
		OK(vmm_delete(n->r->vmm, RIG_ACCOUNT, n->vm[i].id, NULL, &err));
	OK(store_vpc_delete(n->r->store, n->vpc.id, &err));
	OK(vmm_vpc_create(n->r->vmm, RIG_ACCOUNT, "", "192.168.20.0/24", &second, &err));
	nic.vpc = second.id;
	o.nic = &nic;
	OK(vmm_create(n->r->vmm, &o, &vm, &err));
	assert_int_equal(removed, 1); /* here, or by the keeper a moment before */
	/* And without anybody who joins: the keeper tidies up. */
	fd = wire(n);
	OK(vmm_delete(n->r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	OK(store_vpc_delete(n->r->store, second.id, &err));
	while (read(fd, &c, 1) < 0 && errno == EAGAIN) {
		assert_true(clock_ms() < until);
		usleep(20000);
	}
	while (removed < 2) { /* the device goes first */
		assert_true(clock_ms() < until);
		usleep(20000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_packets_wake),
		cmocka_unit_test(broken_packets),
		cmocka_unit_test(what_is_kept),
		cmocka_unit_test(all_doors_at_once),
		cmocka_unit_test(deaf_for_a_while),
		cmocka_unit_test_setup_teardown(the_first_packet_is_delivered, net_setup,
		                                net_teardown),
		cmocka_unit_test_setup_teardown(a_stopped_vm_boots_for_new_connections, net_setup,
		                                net_teardown),
		cmocka_unit_test_setup_teardown(packets_for_nobody, net_setup, net_teardown),
		cmocka_unit_test_setup_teardown(one_that_cannot_start_is_left_alone, net_setup,
		                                net_teardown),
		cmocka_unit_test_setup_teardown(a_new_server_hears_again, net_setup, net_teardown),
		cmocka_unit_test_setup_teardown(it_ends_with_its_vpc, net_setup, net_teardown),
		cmocka_unit_test_setup_teardown(a_vpc_that_another_node_deleted, node_setup,
		                                node_teardown),
	};
	int r = rig_main_begin();

	if (r == 0) {
		r = cmocka_run_group_tests(tests, NULL, NULL);
		rig_main_end();
	}
	return r;
}
