/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer.c - connections between nodes: who gets in, who is kept waiting, what ends them */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/peer_fx.h"

/* The second node is dead for all others, and may not know it. */
static void take_over(struct pair *b)
{
	char id[ID_SIZE];
	struct store_node row;
	unsigned lost;

	snprintf(id, sizeof(id), "%s", node_id(b->f->m));
	OK(store_node_find(b->f->s, id, &row, &err));
	while (store_node_reap(b->f->s, &row, &lost, &err) == 0)
		OK(store_node_find(b->f->s, id, &row, &err));
	await_health(b->f->n, id, /* dead= */ true);
}

/* What comes back, or the error that comes instead of it. */
static int answer(struct peer *c, char *ret, size_t n)
{
	uint64_t until = deadline_in(WAIT_MS);
	size_t got = 0;

	while (got < n) {
		struct pollfd p = { .fd = peer_fd(c), .events = POLLIN };
		ssize_t k = peer_read(c, ret + got, n - got, &err);

		if (k < 0)
			return (int)k;
		got += (size_t)k;
		if (k == 0 && poll(&p, 1, 200) == 0 && !peer_alive(c, &err))
			return -EHOSTUNREACH;
		assert_true(clock_ms() < until);
	}
	return 0;
}

static void connections_are_used_again(void **state)
{
	struct pair b = both(state, 0);
	struct peers_counts n;
	struct peer *c, *d;
	char buf[5];
	bool used;

	taken.echo = true;
	OK(peer_get(b.p, node_id(b.f->m), false, &c, &used, &err));
	assert_false(used);
	OK(peer_write(c, "hello", 5, &err));
	OK(answer(c, buf, 5));
	assert_memory_equal(buf, "hello", 5);
	assert_string_equal(taken.node, node_id(b.f->n));
	/* a second one at the same time is another */
	OK(peer_get(b.p, node_id(b.f->m), false, &d, &used, &err));
	assert_false(used);
	peer_drop(d);
	peer_put(c);
	OK(peer_get(b.p, node_id(b.f->m), false, &c, &used, &err));
	assert_true(used);
	OK(peer_write(c, "again", 5, &err));
	OK(answer(c, buf, 5));
	assert_memory_equal(buf, "again", 5);
	peers_counts(b.p, &n);
	assert_int_equal(n.made, 2);
	assert_int_equal(n.out, 1);
	peer_drop(c);
	end(&b);
}

/* Large in one direction, while nobody reads: it waits, and nothing is lost. */
static void writers_wait_for_readers(void **state)
{
	struct pair b = both(state, 0);
	char *big = malloc(4 << 20), *back = malloc(4 << 20);
	size_t sent = 0, got = 0;
	struct peer *c;
	bool used;

	taken.echo = true;
	for (size_t i = 0; i < 4 << 20; i++)
		big[i] = (char)(i * 31 + i / 4096);
	OK(peer_get(b.p, node_id(b.f->m), false, &c, &used, &err));
	while (got < 4 << 20) {
		size_t n = MIN((size_t)65536, (4 << 20) - sent);

		if (n)
			OK(peer_write(c, big + sent, n, &err));
		sent += n;
		OK(answer(c, back + got, n ? n : (4 << 20) - got));
		got += n ? n : (4 << 20) - got;
	}
	assert_memory_equal(big, back, 4 << 20);
	free(big);
	free(back);
	peer_drop(c);
	end(&b);
}

/* A node that takes requests and never answers costs its callers its lease. */
static void a_node_that_hangs_is_given_up(void **state)
{
	struct pair b = both(state, 0);
	struct peer *c;
	char buf[1];
	bool used;

	OK(peer_get(b.p, node_id(b.f->m), false, &c, &used, &err));
	OK(peer_write(c, "GET", 3, &err));
	take_over(&b); /* its sockets are still open */
	FAILS(-EHOSTUNREACH, answer(c, buf, 1));
	assert_int_equal(err.tag, ERR_NODE_UNAVAILABLE);
	peer_drop(c);
	/* and is not asked any more */
	FAILS(-EHOSTUNREACH, peer_get(b.p, node_id(b.f->m), true, &c, &used, &err));
	FAILS(-EHOSTUNREACH, peer_get(b.p, "nd-00000000000000000000", true, &c, &used, &err));
	end(&b);
}

static void a_node_that_was_removed_is_refused(void **state)
{
	struct pair b = both(state, 0);
	struct peers_counts n;
	struct peer *c;
	char buf[1];
	bool used;

	/* it still believes to be one: its certificate is good, its membership is not */
	take_over(&b);
	if (peer_get(b.q, node_id(b.f->n), true, &c, &used, &err) == 0) {
		peer_write(c, "x", 1, &err);
		FAILS(-EHOSTUNREACH, answer(c, buf, 1));
		peer_drop(c);
	}
	peers_counts(b.p, &n);
	assert_true(n.refused >= 1);
	assert_int_equal(taken_now(), 0);
	end(&b);
}

/* ---- strangers ---- */

static int dial(const struct peers *p)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage sa;
	socklen_t len;

	OK(sock_parse(p->address, &sa, &len, &err));
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
	return fd;
}

/* With that certificate, or none: does the other side let it in? */
static bool gets_in(const struct peers *p, X509 *cert, EVP_PKEY *key)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	int fd = dial(p);
	char byte = 'x';
	bool in = false;
	SSL *ssl;

	if (cert) {
		SSL_CTX_use_certificate(ctx, cert);
		SSL_CTX_use_PrivateKey(ctx, key);
	}
	ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fd);
	SSL_set_alpn_protos(ssl, (const unsigned char *)"\x0epando-requests", 15);
	if (SSL_connect(ssl) == 1 && SSL_write(ssl, &byte, 1) == 1)
		in = SSL_read(ssl, &byte, 1) == 1;
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	return in;
}

static void self_signed(const char *name, X509 **ret, EVP_PKEY **ret_key)
{
	*ret_key = EVP_EC_gen("P-256");
	*ret = X509_new();
	X509_set_version(*ret, X509_VERSION_3);
	X509_gmtime_adj(X509_getm_notBefore(*ret), -60);
	X509_gmtime_adj(X509_getm_notAfter(*ret), 3600);
	X509_set_pubkey(*ret, *ret_key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(*ret), "CN", MBSTRING_ASC,
	                           (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(*ret, X509_get_subject_name(*ret));
	assert_true(X509_sign(*ret, *ret_key, EVP_sha256()) > 0);
}

static void strangers_are_refused(void **state)
{
	struct pair b = both(state, 0);
	struct peers_counts before, n;
	uint64_t until;
	EVP_PKEY *key;
	X509 *cert;
	int fd;

	taken.echo = true;
	peers_counts(b.q, &before);
	assert_false(gets_in(b.q, NULL, NULL));
	self_signed(node_id(b.f->n), &cert, &key); /* a member's name, but not by the CA */
	assert_false(gets_in(b.q, cert, key));
	X509_free(cert);
	EVP_PKEY_free(key);
	/* no TLS at all */
	fd = dial(b.q);
	assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
	char c[64];
	while (recv(fd, c, sizeof(c), 0) > 0)
		;
	close(fd);
	until = deadline_in(WAIT_MS);
	do {
		peers_counts(b.q, &n);
		assert_true(clock_ms() < until);
	} while (n.refused < before.refused + 3 && usleep(10000) == 0);
	assert_int_equal(taken_now(), 0);
	end(&b);
}

/* Whoever says nothing is not waited for for ever, and does not keep others out. */
static void silent_ones_do_not_keep_others_out(void **state)
{
	struct pair b = both(state, 0);
	int fds[PEER_NEW_MAX + 8];
	struct peers_counts n;
	uint64_t until = deadline_in(WAIT_MS);
	struct peer *c;
	bool used;
	int r;

	taken.echo = true;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = dial(b.q);
	do {
		r = peer_get(b.p, node_id(b.f->m), true, &c, &used, &err);
		assert_true(clock_ms() < until);
	} while (r < 0);
	peer_drop(c);
	peers_counts(b.q, &n);
	assert_true(n.refused >= 8);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	end(&b);
}

static void certificates_are_renewed(void **state)
{
	struct pair b = both(state, /* cert_s= */ 6);
	struct peers_counts n, now;
	uint64_t until = deadline_in(WAIT_MS);
	struct peer *c;
	char buf[2];
	bool used;

	taken.echo = true;
	peers_counts(b.p, &n);
	do {
		peers_counts(b.p, &now);
		assert_true(clock_ms() < until);
	} while (now.cert_until_s <= n.cert_until_s && usleep(50000) == 0);
	OK(peer_get(b.p, node_id(b.f->m), true, &c, &used, &err));
	OK(peer_write(c, "ok", 2, &err));
	OK(answer(c, buf, 2));
	peer_drop(c);
	end(&b);
}

/* A secret that is made by whoever comes first. */
static void nodes_share_secrets(void **state)
{
	struct pair b = both(state, 0);
	char *secret, *cert, *again, *cert_again;

	OK(store_node_shared(b.f->s, "thing", "first", "public", &secret, &cert, &err));
	OK(store_node_shared(b.f->t, "thing", "second", "other", &again, &cert_again, &err));
	assert_string_equal(secret, "first");
	assert_string_equal(again, "first");
	assert_string_equal(cert_again, "public");
	free(secret);
	free(cert);
	free(again);
	free(cert_again);
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(connections_are_used_again),    T(writers_wait_for_readers),
		T(a_node_that_hangs_is_given_up), T(a_node_that_was_removed_is_refused),
		T(strangers_are_refused),         T(silent_ones_do_not_keep_others_out),
		T(certificates_are_renewed),      T(nodes_share_secrets),
	};

	signal(SIGPIPE, SIG_IGN); /* as in pandod */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
