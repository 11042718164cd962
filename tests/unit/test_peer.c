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

#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"
#include "peer/peer_internal.h"
#include "tests/unit/node_fx.h"

#define WAIT_MS 30000

/* What the second node does with requests: it keeps the socket, and says them back if it is told
 * to. */
static struct {
	struct mutex lock;
	struct cond changed;
	unsigned n;
	char node[ID_SIZE];
	bool echo;
	int fds[8];
} taken;

static void *echo_main(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[4096];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		if (send(fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	close(fd);
	return NULL;
}

static int on_requests(void *ctx, int fd_consume, const char *node, struct err *e)
{
	LOCK_SCOPE(&taken.lock);

	snprintf(taken.node, sizeof(taken.node), "%s", node);
	if (taken.echo)
		assert_true(peers_thread(echo_main, (void *)(intptr_t)fd_consume));
	else
		taken.fds[taken.n % 8] = fd_consume;
	taken.n++;
	cond_broadcast(&taken.changed);
	return 0;
}

static unsigned taken_now(void)
{
	LOCK_SCOPE(&taken.lock);
	return taken.n;
}

struct pair {
	struct fx *f;
	struct peers *p, *q; /* of the first node, of the second */
};

static void free_address(char ret[NODE_ADDRESS_SIZE])
{
	/* not 127.0.0.1, from which others connect */
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0x770000) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sa);

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	snprintf(ret, NODE_ADDRESS_SIZE, "127.119.0.1:%u", ntohs(sa.sin_port));
}

static void over(void *ctx)
{
}

static struct peers *join(struct fx *f, struct tmpdir *dir, const char *name, struct store **s,
                          struct node **n, unsigned cert_s)
{
	char id[ID_SIZE], address[NODE_ADDRESS_SIZE];
	struct peers_conf pc = { .cert_s = cert_s };
	struct peers_hooks h = { .requests = on_requests };
	struct node_conf c;
	struct peers *p;
	bool fresh;

	free_address(address);
	open_store(f, dir, s, id, &fresh);
	c = conf_of(*s, id, name, address, fresh);
	c.over = over;
	OK(node_open(&c, n, &err));
	begin(*n);
	pc.address = address;
	pc.node = *n;
	pc.store = *s;
	OK(peers_open(&pc, &p, &err));
	OK(peers_begin(p, &h, &err));
	return p;
}

static enum node_health health_of(struct node *n, const char *id)
{
	enum node_health ret = NODE_DEAD;
	struct node_seen *v;
	size_t k;

	OK(node_list(n, &v, &k, &err));
	for (size_t i = 0; i < k; i++)
		if (strcmp(v[i].row.id, id) == 0)
			ret = v[i].health;
	free(v);
	return ret;
}

static void await_health(struct node *n, const char *id, bool dead)
{
	uint64_t until = deadline_in(WAIT_MS);

	while ((health_of(n, id) == NODE_DEAD) != dead) {
		assert_true(clock_ms() < until);
		usleep(20000);
	}
}

static struct pair both(void **state, unsigned cert_s)
{
	struct pair b = { .f = *state };

	memset(&taken, 0, sizeof(taken));
	mutex_init(&taken.lock, "test: taken");
	cond_init(&taken.changed);
	b.p = join(b.f, &b.f->dir, "one", &b.f->s, &b.f->n, cert_s);
	b.q = join(b.f, &b.f->other, "two", &b.f->t, &b.f->m, 0);
	await_health(b.f->n, node_id(b.f->m), /* dead= */ false);
	await_health(b.f->m, node_id(b.f->n), /* dead= */ false);
	return b;
}

static void end(struct pair *b)
{
	for (size_t i = 0; i < 8; i++)
		if (taken.fds[i] > 0)
			close(taken.fds[i]);
	b->p = peers_free(b->p);
	b->q = peers_free(b->q);
}

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

/* ---- packets and streams ---- */

/* One end of a connection, with the socket whose packets it carries. */
struct side {
	struct peer *c;
	int carried, ours; /* owned */
	struct peer_carry how;
	pthread_t thread;
	int r;
};

static void *side_main(void *arg)
{
	struct side *s = arg;
	struct err e = { 0 };

	s->r = peer_carry(s->c, s->carried, &s->how, &e);
	close(s->carried);
	return NULL;
}

static void side_pair(struct side *s)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	s->carried = pair[0];
	s->ours = pair[1];
}

static void on_port(void *ctx, struct peer *c)
{
	struct side *s = ctx;
	struct err e = { 0 };
	uint32_t asked;

	OK(peer_hear(c, &asked, sizeof(asked), &e));
	if (asked != 7) {
		err_tag(&e, -ENOENT, ERR_NOT_FOUND, "there is no %u", asked);
		OK(peer_tell(c, -ENOENT, &e, 0));
		return;
	}
	OK(peer_tell(c, 0, NULL, asked + 1));
	s->c = c;
	side_main(s);
}

static void side_begin(struct pair *b, struct side *mine, struct side *other)
{
	uint32_t seven = 7, six = 6, value;

	side_pair(mine);
	side_pair(other);
	peers_serve(b->q, PEER_PORT, on_port, other);
	OK(peer_dial(b->p, node_id(b->f->m), PEER_PORT, &mine->c, &err));
	assert_int_equal(peer_ask(mine->c, &six, sizeof(six), &value, &err), -ENOENT);
	assert_string_equal(err.msg, "there is no 6");
	peer_drop(mine->c);
	OK(peer_dial(b->p, node_id(b->f->m), PEER_PORT, &mine->c, &err));
	OK(peer_ask(mine->c, &seven, sizeof(seven), &value, &err));
	assert_int_equal(value, 8);
	assert_int_equal(pthread_create(&mine->thread, NULL, side_main, mine), 0);
}

/* The next packet, which must be that text; with a descriptor if ret_fd is not NULL. */
static void hear(int fd, const char *want, int *ret_fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[1] = { -1 };
	char buf[64];
	size_t n = 0;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(sock_recv_fds(fd, buf, sizeof(buf), fds, 1, &n), strlen(want));
	assert_memory_equal(buf, want, strlen(want));
	assert_int_equal(n, ret_fd ? 1 : 0);
	if (ret_fd)
		*ret_fd = fds[0];
}

static void says(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* As many packets as go in until nobody takes any for a while; each begins with its number. */
static uint32_t fill(int fd)
{
	char packet[4096] = { 0 };
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	uint32_t n = 0;

	for (; n < 10000; n++) {
		memcpy(packet, &n, sizeof(n));
		if (send(fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		    (poll(&p, 1, 1000) <= 0 ||
		     send(fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL) < 0))
			break;
	}
	return n;
}

static void packets_and_streams(void **state)
{
	struct pair b = both(state, 0);
	struct side mine = { .how = { .takes = true } }, other = { .how = { .opens = true } };
	struct pollfd p = { .events = POLLIN };
	int one[2], two[2], got_one, got_two;
	char buf[8192];
	uint32_t n, k, i = 0;

	side_begin(&b, &mine, &other);
	says(mine.ours, "hello");
	hear(other.ours, "hello", NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, one), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, two), 0);
	assert_int_equal(sock_send_fds(other.ours, "one", 3, &one[1], 1), 3);
	assert_int_equal(sock_send_fds(other.ours, "two", 3, &two[1], 1), 3);
	close(one[1]);
	close(two[1]);
	hear(mine.ours, "one", &got_one);
	hear(mine.ours, "two", &got_two);
	/* One that nobody reads holds up no other, and a bounded number of bytes. */
	n = fill(one[0]);
	assert_in_range(n, 32, 1000);
	says(two[0], "there");
	hear(got_two, "there", NULL);
	says(got_two, "and back");
	hear(two[0], "and back", NULL);
	says(other.ours, "still");
	hear(mine.ours, "still", NULL);
	/* Its end comes after all of it, in order. */
	close(one[0]);
	for (p.fd = got_one; poll(&p, 1, WAIT_MS) == 1 && recv(got_one, buf, sizeof(buf), 0) > 0;
	     i++) {
		memcpy(&k, buf, sizeof(k));
		assert_int_equal(k, i);
	}
	assert_int_equal(i, n);
	close(got_one);
	/* Whoever got it may end it as well. */
	close(got_two);
	p.fd = two[0];
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(recv(two[0], buf, sizeof(buf), 0), 0);
	close(two[0]);
	/* What was said before the end arrives. */
	says(mine.ours, "bye");
	close(mine.ours);
	hear(other.ours, "bye", NULL);
	p.fd = other.ours;
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(recv(other.ours, buf, sizeof(buf), 0), 0);
	pthread_join(mine.thread, NULL);
	assert_int_equal(mine.r, 0);
	peer_drop(mine.c);
	end(&b); /* and waits for the other side */
	assert_int_equal(other.r, -ENODATA);
	close(other.ours);
}

/* The side that only gets streams cannot make any. */
static void a_stream_from_the_wrong_side(void **state)
{
	struct pair b = both(state, 0);
	struct side mine = { .how = { .opens = true } }, other = { .how = { .opens = true } };
	int one[2];
	char c;

	side_begin(&b, &mine, &other);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, one), 0);
	assert_int_equal(sock_send_fds(mine.ours, "one", 3, &one[1], 1), 3);
	close(one[1]);
	assert_int_equal(recv(one[0], &c, 1, 0), 0); /* it is over */
	assert_int_equal(recv(other.ours, &c, 1, 0), 0);
	pthread_join(mine.thread, NULL);
	assert_true(mine.r < 0);
	close(one[0]);
	close(mine.ours);
	peer_drop(mine.c);
	end(&b);
	assert_int_equal(other.r, -EHOSTUNREACH);
	close(other.ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(connections_are_used_again),    T(writers_wait_for_readers),
		T(a_node_that_hangs_is_given_up), T(a_node_that_was_removed_is_refused),
		T(strangers_are_refused),         T(silent_ones_do_not_keep_others_out),
		T(certificates_are_renewed),      T(nodes_share_secrets),
		T(packets_and_streams),           T(a_stream_from_the_wrong_side),
	};

	signal(SIGPIPE, SIG_IGN); /* as in pandod */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
