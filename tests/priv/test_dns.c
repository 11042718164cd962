/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dns.c - the DNS forwarder between a guest and a resolver, both scripted
 *
 * The sockets that pando-priv would make in a slot are made on the loopback
 * address here; so is the resolver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "net/dns.h"
#include "net/dns_msg.h"

#define WAIT_MS 4000

static int bound(int type, struct sockaddr_in *ret)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*ret);

	*ret = (struct sockaddr_in){ .sin_family = AF_INET,
		                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)ret, sizeof(*ret)), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &len), 0);
	return fd;
}

struct rig {
	struct dns *d;
	struct sockaddr_in udp, tcp; /* the forwarder's, for the guest */
	int up_udp, up_tcp;          /* the resolver's */
	int guest;                   /* a UDP socket of the guest */
};

static int rig_setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct sockaddr_in up, any;
	struct err err = { 0 };
	char text[32];
	int udp = bound(SOCK_DGRAM, &r->udp), tcp = bound(SOCK_STREAM, &r->tcp);

	/* One port for both kinds: one that is free for UDP may be taken for TCP. */
	for (int tries = 0;; tries++) {
		r->up_udp = bound(SOCK_DGRAM, &up);
		r->up_tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(r->up_tcp, (struct sockaddr *)&up, sizeof(up)) == 0)
			break;
		assert_true(tries < 50);
		close(r->up_udp);
		close(r->up_tcp);
	}
	assert_int_equal(listen(r->up_tcp, 8), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(up.sin_port));
	assert_int_equal(dns_start(&r->d, text, &err), 0);
	assert_int_equal(dns_add(r->d, 7, "acme", udp, tcp), 0);
	r->guest = bound(SOCK_DGRAM, &any);
	assert_int_equal(connect(r->guest, (struct sockaddr *)&r->udp, sizeof(r->udp)), 0);
	*state = r;
	return 0;
}

static int rig_teardown(void **state)
{
	struct rig *r = *state;

	dns_stop(r->d);
	close(r->guest);
	if (r->up_udp >= 0)
		close(r->up_udp);
	close(r->up_tcp);
	free(r);
	return 0;
}

/* "example.test" A, with an EDNS record behind it. */
static size_t query(uint16_t id, uint16_t type, uint8_t *q)
{
	static const uint8_t name[] = "\7example\4test";
	static const uint8_t edns[] = { 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0 };

	memset(q, 0, 12);
	put_be16(q, id);
	put_be16(q + 2, 0x0100);
	put_be16(q + 4, 1);
	put_be16(q + 10, 1);
	memcpy(q + 12, name, sizeof(name));
	put_be16(q + 12 + sizeof(name), type);
	put_be16(q + 14 + sizeof(name), 1);
	memcpy(q + 16 + sizeof(name), edns, sizeof(edns));
	return 16 + sizeof(name) + sizeof(edns);
}

static ssize_t get(int fd, uint8_t *p, size_t size, int ms)
{
	return io_wait(fd, POLLIN, deadline_in((unsigned)ms)) == 1 ? recv(fd, p, size, 0) : -1;
}

static void udp_answer(void **state)
{
	struct rig *r = *state;
	uint8_t q[512] = { 0 }, got[512] = { 0 };
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	size_t n = query(0x1234, 1, q);
	ssize_t k;

	assert_int_equal(send(r->guest, q, n, 0), n);
	assert_int_equal(io_wait(r->up_udp, POLLIN, deadline_in(WAIT_MS)), 1);
	k = recvfrom(r->up_udp, got, sizeof(got), 0, (struct sockaddr *)&from, &len);
	assert_int_equal(k, n);
	assert_memory_equal(got + 2, q + 2, n - 2); /* all but the id is passed on as it is */
	/* Answers that do not fit are ignored: wrong id, wrong name, not an answer. */
	uint8_t bad[512];
	memcpy(bad, got, n);
	bad[2] |= 0x80;
	bad[0] ^= 1;
	sendto(r->up_udp, bad, n, 0, (struct sockaddr *)&from, len);
	bad[0] ^= 1;
	bad[14] ^= 1;
	sendto(r->up_udp, bad, n, 0, (struct sockaddr *)&from, len);
	sendto(r->up_udp, got, n, 0, (struct sockaddr *)&from, len);
	sendto(r->up_udp, got, 3, 0, (struct sockaddr *)&from, len);
	assert_int_equal(get(r->guest, bad, sizeof(bad), 200), -1);
	/* From another port than the one asked: not even seen. */
	struct sockaddr_in any;
	autofd int other = bound(SOCK_DGRAM, &any);
	got[2] |= 0x80;
	sendto(other, got, n, 0, (struct sockaddr *)&from, len);
	assert_int_equal(get(r->guest, bad, sizeof(bad), 200), -1);
	sendto(r->up_udp, got, n, 0, (struct sockaddr *)&from, len);
	assert_int_equal(get(r->guest, bad, sizeof(bad), WAIT_MS), n);
	assert_int_equal(get_be16(bad), 0x1234);
	/* Answered once: a second answer goes nowhere. */
	sendto(r->up_udp, got, n, 0, (struct sockaddr *)&from, len);
	assert_int_equal(get(r->guest, bad, sizeof(bad), 100), -1);
}

static void udp_lost_and_late(void **state)
{
	struct rig *r = *state;
	uint8_t q[512] = { 0 }, got[512] = { 0 };
	size_t n = query(0x4321, 1, q);
	uint64_t t0 = clock_ms();

	send(r->guest, q, n, 0);
	assert_int_equal(get(r->up_udp, got, sizeof(got), WAIT_MS), n);
	assert_int_equal(get(r->up_udp, got, sizeof(got), WAIT_MS), n); /* asked once more */
	assert_int_equal(get(r->guest, got, sizeof(got), 8000), n - 11);
	assert_int_equal(get_be16(got), 0x4321);
	assert_int_equal(got[3] & 15, DNS_SERVFAIL);
	assert_true(clock_ms() - t0 >= 4900);
}

static void udp_refused(void **state)
{
	struct rig *r = *state;
	uint8_t q[512] = { 0 }, got[512] = { 0 };
	size_t n = query(1, 252, q);

	send(r->guest, q, n, 0); /* a zone transfer */
	assert_int_equal(get(r->guest, got, sizeof(got), WAIT_MS), n - 11);
	assert_int_equal(got[3] & 15, DNS_REFUSED);
	close(r->up_udp);
	r->up_udp = -1;
	n = query(2, 1, q);
	send(r->guest, q, n, 0); /* nobody listens: known at once, not after the timeout */
	assert_int_equal(get(r->guest, got, sizeof(got), 2000), n - 11);
	assert_int_equal(got[3] & 15, DNS_SERVFAIL);
}

/* A guest that sends endless queries fills its own table, not the server's memory. */
static void udp_flood(void **state)
{
	struct rig *r = *state;
	uint8_t q[512] = { 0 }, got[512] = { 0 };
	struct dns_stats st;
	int asked = 0;

	for (uint16_t i = 0; i < 400; i++) {
		size_t n = query(i, 1, q);

		send(r->guest, q, n, 0);
	}
	while (get(r->up_udp, got, sizeof(got), 300) > 0)
		asked++;
	dns_stats(r->d, &st);
	assert_true(asked >= 40 && asked <= 48);
	assert_true(st.dropped > 0);
	for (int i = 0; i < 100; i++) { /* nonsense is dropped without a trace */
		memset(q, i, sizeof(q));
		send(r->guest, q, (size_t)i * 5, 0);
	}
	dns_remove(r->d, 7);
	dns_remove(r->d, 7);
	dns_remove(r->d, 8);
}

struct many {
	int guest[12];
	struct sockaddr_in tcp[12];
};

/* Guests 20, 21, ... of that account, each with its own sockets. */
static void many_guests(struct rig *r, const char *account, uint32_t first, size_t n,
                        struct many *ret)
{
	for (size_t i = 0; i < n; i++) {
		struct sockaddr_in to, any;
		int udp = bound(SOCK_DGRAM, &to), tcp = bound(SOCK_STREAM, &ret->tcp[i]);

		assert_int_equal(dns_add(r->d, first + (uint32_t)i, account, udp, tcp), 0);
		ret->guest[i] = bound(SOCK_DGRAM, &any);
		assert_int_equal(connect(ret->guest[i], (struct sockaddr *)&to, sizeof(to)), 0);
	}
}

static void many_end(struct many *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(m->guest[i]);
}

/* All guests of one account ask without end: another account's question still gets through. */
static void udp_flood_of_an_account(void **state)
{
	enum { GUESTS = 12, EACH = 60 };
	struct rig *r = *state;
	uint8_t q[512] = { 0 }, got[512] = { 0 };
	size_t n = query(1, 1, q);
	struct many acme, other;
	uint64_t end = deadline_in(20000);
	struct dns_stats st;
	bool asked = false;

	many_guests(r, "acme", 20, GUESTS, &acme);
	many_guests(r, "other", 40, 1, &other);
	for (size_t i = 0; i < GUESTS; i++)
		for (int k = 0; k < EACH; k++)
			assert_int_equal(send(acme.guest[i], q, n, 0), n);
	do
		dns_stats(r->d, &st);
	while (st.queries + st.dropped < GUESTS * EACH && deadline_left(end) &&
	       poll(NULL, 0, 5) == 0);
	assert_int_equal(st.queries + st.dropped, GUESTS * EACH);
	assert_in_range(st.queries, 350, 384); /* three quarters of what there is */
	while (recv(r->up_udp, got, sizeof(got), MSG_DONTWAIT) > 0)
		; /* the resolver's buffer has room again */
	n = query(2, 28, q);
	assert_int_equal(send(other.guest[0], q, n, 0), n);
	while (!asked && get(r->up_udp, got, sizeof(got), WAIT_MS) > 0)
		asked = got[27] == 28; /* the type */
	assert_true(asked);
	many_end(&acme, GUESTS);
	many_end(&other, 1);
}

static int tcp_to(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof(*to)), 0);
	return fd;
}

/* Thirteen guests of one account would have 52 connections: from the 49th on they are closed. */
static void tcp_flood_of_an_account(void **state)
{
	enum { GUESTS = 12, EACH = 4 };
	struct rig *r = *state;
	uint8_t q[600] = { 0 }, got[600] = { 0 };
	size_t n = query(10, 252, q + 2);
	int fds[GUESTS * EACH];
	struct many acme, last, other;

	many_guests(r, "acme", 20, GUESTS, &acme);
	many_guests(r, "acme", 40, 1, &last);
	many_guests(r, "other", 50, 1, &other);
	put_be16(q, (uint16_t)n);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = tcp_to(&acme.tcp[i / EACH]);
		/* Refused by us, so the answer says that this connection is served. */
		assert_int_equal(io_write_all(fds[i], q, n + 2), 0);
		assert_int_equal(io_wait(fds[i], POLLIN, deadline_in(WAIT_MS)), 1);
		assert_int_equal(io_read_all(fds[i], got, n + 2 - 11), 0);
	}
	autofd int one_more = tcp_to(&last.tcp[0]);
	assert_int_equal(get(one_more, got, sizeof(got), WAIT_MS), 0);
	autofd int theirs = tcp_to(&other.tcp[0]);
	assert_int_equal(io_write_all(theirs, q, n + 2), 0);
	assert_int_equal(get(theirs, got, sizeof(got), WAIT_MS), n + 2 - 11);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	many_end(&acme, GUESTS);
	many_end(&last, 1);
	many_end(&other, 1);
}

static int tcp_guest(struct rig *r)
{
	return tcp_to(&r->tcp);
}

static size_t get_msg(int fd, uint8_t *p)
{
	assert_int_equal(io_wait(fd, POLLIN, deadline_in(WAIT_MS)), 1);
	assert_int_equal(io_read_all(fd, p, 2), 0);
	assert_int_equal(io_read_all(fd, p + 2, get_be16(p)), 0);
	return get_be16(p);
}

static void tcp_answers(void **state)
{
	struct rig *r = *state;
	autofd int g = tcp_guest(r);
	static uint8_t q[600], got[70000];

	for (uint16_t i = 0; i < 3; i++) {
		size_t n = query(i, 1, q + 2);
		autofd int up = -1;

		put_be16(q, (uint16_t)n);
		for (size_t k = 0; k < n + 2; k++) /* byte by byte, like a slow guest */
			assert_int_equal(send(g, q + k, 1, 0), 1);
		assert_int_equal(io_wait(r->up_tcp, POLLIN, deadline_in(WAIT_MS)), 1);
		up = accept(r->up_tcp, NULL, NULL);
		assert_int_equal(get_msg(up, got), n);
		got[4] |= 0x80;
		put_be16(got, 65535); /* as long as answers get */
		assert_int_equal(io_write_all(up, got, 65537), 0);
		assert_int_equal(get_msg(g, got), 65535);
		assert_int_equal(get_be16(got + 2), i);
	}
}

static void tcp_faults(void **state)
{
	struct rig *r = *state;
	uint8_t q[600] = { 0 }, got[1024] = { 0 };
	size_t n = query(9, 1, q + 2);
	autofd int g = tcp_guest(r);
	int more[6];

	/* The resolver hangs up without an answer. */
	put_be16(q, (uint16_t)n);
	assert_int_equal(io_write_all(g, q, n + 2), 0);
	assert_int_equal(io_wait(r->up_tcp, POLLIN, deadline_in(WAIT_MS)), 1);
	close(accept(r->up_tcp, NULL, NULL));
	assert_int_equal(get_msg(g, got), n - 11);
	assert_int_equal(got[5] & 15, DNS_SERVFAIL);
	/* A length beyond the limit ends the connection. */
	put_be16(q, DNS_QUERY_MAX + 1);
	assert_int_equal(io_write_all(g, q, 2), 0);
	assert_int_equal(get(g, got, sizeof(got), WAIT_MS), 0);
	/* Few at a time: the fifth is closed at once, the first still works. */
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		more[i] = tcp_guest(r);
	assert_int_equal(get(more[5], got, sizeof(got), WAIT_MS), 0);
	n = query(10, 252, q + 2);
	put_be16(q, (uint16_t)n);
	assert_int_equal(io_write_all(more[0], q, n + 2), 0);
	assert_int_equal(get_msg(more[0], got), n - 11);
	assert_int_equal(got[5] & 15, DNS_REFUSED);
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		close(more[i]);
}

/* With queries and connections under way: all descriptors of a removed slot are closed. */
static void remove_while_busy(void **state)
{
	struct rig *r = *state;
	uint8_t q[600] = { 0 }, got[600] = { 0 };
	size_t n = query(3, 1, q + 2);
	autofd int g = tcp_guest(r);
	struct sockaddr_in any;

	send(r->guest, q + 2, n, 0);
	put_be16(q, (uint16_t)n);
	assert_int_equal(io_write_all(g, q, n + 2), 0);
	assert_int_equal(io_wait(r->up_tcp, POLLIN, deadline_in(WAIT_MS)), 1);
	assert_int_equal(get(r->up_udp, got, sizeof(got), WAIT_MS), n);
	dns_remove(r->d, 7);
	assert_true(get(g, got, sizeof(got), WAIT_MS) <= 0);
	assert_int_equal(send(r->guest, q + 2, n, 0), n);
	assert_int_equal(get(r->guest, got, sizeof(got), WAIT_MS), -1);
	assert_int_equal(errno, ECONNREFUSED); /* the port is closed */
	/* The key can be used again. */
	assert_int_equal(
	        dns_add(r->d, 7, "acme", bound(SOCK_DGRAM, &any), bound(SOCK_STREAM, &any)), 0);
	assert_int_equal(
	        dns_add(r->d, 7, "acme", bound(SOCK_DGRAM, &any), bound(SOCK_STREAM, &any)), 0);
}

static void messages(void **state)
{
	uint8_t q[512], e[DNS_ERROR_MAX];
	struct dns_query m;
	size_t n = query(0xabcd, 28, q);

	assert_int_equal(dns_query_parse(q, n, &m), 0);
	assert_int_equal(m.type, 28);
	for (size_t i = 0; i < n - 11; i++)
		assert_int_equal(dns_query_parse(q, i, &m), -EBADMSG);
	assert_int_equal(dns_query_parse(q, n, &m), 0);
	assert_false(dns_answer_matches(q, n, &m, 0xabcd)); /* a question is no answer */
	q[2] |= 0x80;
	assert_true(dns_answer_matches(q, n, &m, 0xabcd));
	assert_int_equal(dns_query_parse(q, n, &m), -EBADMSG); /* an answer is not a question */
	q[13] ^= 0x20;
	q[2] &= 0x7f;
	assert_int_equal(dns_query_parse(q, n, &m), 0);
	q[13] ^= 0x20;
	q[2] |= 0x80;
	assert_true(dns_answer_matches(q, n, &m, 0xabcd)); /* names have no case */
	q[2] &= 0x7f;
	q[12] = 0xc0; /* a pointer */
	assert_int_equal(dns_query_parse(q, n, &m), -EBADMSG);
	n = query(1, 1, q);
	q[5] = 2; /* two questions */
	assert_int_equal(dns_query_parse(q, n, &m), -EBADMSG);
	/* The longest name, and one more. */
	memset(q + 12, 0, sizeof(q) - 12);
	put_be16(q + 4, 1);
	for (int i = 0; i < 3; i++)
		q[12 + i * 64] = 63;
	q[12 + 192] = 61;
	assert_int_equal(dns_query_parse(q, 12 + 192 + 62 + 1 + 4, &m), 0);
	assert_int_equal(m.question_len, DNS_QUESTION_MAX);
	assert_int_equal(dns_error(&m, DNS_SERVFAIL, e), DNS_ERROR_MAX);
	q[12 + 192] = 62;
	assert_int_equal(dns_query_parse(q, sizeof(q), &m), -EBADMSG);
}

static void bad_upstream(void **state)
{
	struct dns *d = NULL;
	struct err err = { 0 };

	assert_true(dns_start(&d, "not an address", &err) < 0);
	assert_non_null(strstr(err.msg, "not an address"));
	assert_null(dns_stop(NULL));
	assert_int_equal(dns_start(&d, NULL, &err), 0);
	dns_stop(d);
}

#define WITH_RIG(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
		cmocka_unit_test(bad_upstream),
		WITH_RIG(udp_answer),
		WITH_RIG(udp_lost_and_late),
		WITH_RIG(udp_refused),
		WITH_RIG(udp_flood),
		WITH_RIG(tcp_answers),
		WITH_RIG(tcp_faults),
		WITH_RIG(remove_while_busy),
		WITH_RIG(udp_flood_of_an_account),
		WITH_RIG(tcp_flood_of_an_account),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
