/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gate.c - how many connections of guests the proxy takes, and whose
 *
 * Guests and proxy are in a network namespace of this process, where a rule redirects port 80 of
 * 10.9.9.<slot> to the slot's listener, as pando-priv's rules do. pando-priv itself is a table of
 * functions here: it makes those listeners. Needs root.
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
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json_field.h"
#include "base/proc.h"
#include "net/dns.h"
#include "net/egress_json.h"
#include "net/gate_internal.h"
#include "privc/priv_ops.h"
#include "privc/privc.h"

#define SLOTS 10
#define PORT0 20000
#define WAIT_MS 30000

static int listener(uint32_t slot)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons((uint16_t)(PORT0 + slot)),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 256), 0);
	return fd;
}

static int call(struct privc *c, struct priv_req *q, const int *fds, size_t n_fds,
                struct privc_answer **ret, struct err *err)
{
	struct privc_answer *a = calloc(1, sizeof(*a));

	(void)c;
	(void)fds;
	(void)n_fds;
	(void)err;
	assert_non_null(a);
	if (q->op == PRIV_SLOT_PROXY) {
		a->fds[0] = listener(q->slot);
		a->n_fds = 1;
	}
	*ret = a;
	return 0;
}

static const struct priv_ops ops = { .call = call };
static struct privc helper = { .ops = &ops };

struct rig {
	struct dns *dns;
	struct gates *g;
};

static struct egress *by_name(void)
{
	static const char text[] =
	        "{\"mode\":\"rules\",\"rules\":[{\"action\":\"allow\",\"domain\":\"a.test\"}]}";
	autojson json_t *j = NULL;
	struct egress *e = NULL;
	struct err err = { 0 };

	assert_int_equal(json_text_parse(text, strlen(text), &j, &err), 0);
	assert_int_equal(egress_parse(j, &e, &err), 0);
	return e;
}

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct err err = { 0 };

	*state = r;
	assert_int_equal(dns_start(&r->dns, "127.0.0.1:1", &err), 0);
	assert_int_equal(gates_new(&helper, r->dns, NULL, &r->g, &err), 0);
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	r->dns = dns_stop(r->dns);
	r->g = gates_free(r->g);
	free(r);
	return 0;
}

static void give(struct rig *r, uint32_t slot, const char *holder)
{
	struct err err = { 0 };
	struct egress *e = by_name();
	char id[32];

	snprintf(id, sizeof(id), "vm%u", slot);
	assert_int_equal(gate_set(r->g, slot,
	                          &(struct gate_conf){ .vm_id = id, .holder = holder, .policy = e },
	                          &err),
	                 0);
	egress_unref(e);
}

/* As a guest: to port 80 of some server. It says nothing, so the proxy waits for its first bytes.
 */
static int guest(uint32_t slot)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(80),
		                  .sin_addr.s_addr = htonl(0x0a090900u + slot) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* The proxy has closed it, and not only because it heard nothing. */
static bool closed(int fd)
{
	char c;

	return io_wait(fd, POLLIN, deadline_in(WAIT_MS)) == 1 && recv(fd, &c, 1, 0) <= 0;
}

static bool held(struct rig *r, const char *vm, uint64_t n)
{
	uint64_t end = deadline_in(WAIT_MS);

	while (budget_used(r->g->by_vm, vm) != n && deadline_left(end))
		poll(NULL, 0, 5);
	return budget_used(r->g->by_vm, vm) == n;
}

/* Eight guests of one account could have all 1,024: they get 768, and another account's has one. */
static void an_account_leaves_connections_for_the_others(void **state)
{
	enum { SHARE = PROXY_CONNS_MAX / 4 * 3, FULL = SHARE / PROXY_SLOT_MAX };
	struct rig *r = *state;
	static int fds[SHARE];
	char id[32];

	for (uint32_t s = 1; s <= FULL + 1; s++)
		give(r, s, "acme");
	give(r, FULL + 2, "other");
	for (uint32_t s = 1; s <= FULL; s++) {
		for (size_t i = 0; i < PROXY_SLOT_MAX; i++)
			fds[(size_t)(s - 1) * PROXY_SLOT_MAX + i] = guest(s);
		snprintf(id, sizeof(id), "vm%u", s);
		assert_true(held(r, id, PROXY_SLOT_MAX));
	}
	autofd int own = guest(1); /* one too many of this guest, */
	assert_true(closed(own));
	autofd int next = guest(FULL + 1); /* of this account */
	assert_true(closed(next));
	assert_int_equal(budget_used(r->g->by_holder, "acme"), SHARE);
	autofd int theirs = guest(FULL + 2);
	snprintf(id, sizeof(id), "vm%u", FULL + 2);
	assert_true(held(r, id, 1));
	for (size_t i = 0; i < SHARE; i++)
		close(fds[i]);
	assert_true(held(r, "vm1", 0)); /* given back */
}

/* A slot's next guest does not pay for, nor profit from, connections of the last one. */
static void a_slot_changes_hands(void **state)
{
	struct rig *r = *state;
	autofd int first = -1, second = -1;

	give(r, 1, "acme");
	first = guest(1);
	assert_true(held(r, "vm1", 1));
	gate_drop(r->g, 1);
	assert_true(closed(first));
	assert_true(held(r, "vm1", 0));
	give(r, 1, "other");
	second = guest(1);
	assert_true(held(r, "vm1", 1));
	assert_int_equal(budget_used(r->g->by_holder, "acme"), 0);
	assert_int_equal(budget_used(r->g->by_holder, "other"), 1);
}

/* ---- names of this server ---- */

struct door {
	struct mutex lock;
	unsigned n;
	int fd; /* of the last one */
	char vm[ID_SIZE], caller[GATE_CALLER_SIZE], only[64];
	bool tls;
};

static bool ours(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "a.test") == 0;
}

static int enter(void *ctx, const struct gate_entry *e, int fd_consume)
{
	struct door *d = ctx;
	LOCK_SCOPE(&d->lock);

	d->n++;
	d->fd = fd_consume;
	d->tls = e->tls;
	snprintf(d->vm, sizeof(d->vm), "%s", e->vm_id);
	snprintf(d->caller, sizeof(d->caller), "%s", e->caller);
	snprintf(d->only, sizeof(d->only), "%s", e->only);
	return 0;
}

static bool entered(struct door *d, unsigned n)
{
	uint64_t end = deadline_in(WAIT_MS);

	for (;;) {
		mutex_lock(&d->lock);
		bool is = d->n == n;
		mutex_unlock(&d->lock);
		if (is || !deadline_left(end))
			return is;
		poll(NULL, 0, 5);
	}
}

/* As the guest of slot 1: to the gateway. NULL: says nothing, because it may be closed at once. */
static int to_gateway(uint16_t port, const char *say)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(port),
		                  .sin_addr.s_addr = htonl(PRIV_GATEWAY) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	if (say)
		assert_int_equal(send(fd, say, strlen(say), MSG_NOSIGNAL), strlen(say));
	return fd;
}

static void give_open(struct rig *r, const char *id)
{
	struct gate_conf c = { .vm_id = id, .holder = "acme", .as_built = true };
	struct err err = { 0 };

	assert_int_equal(gate_set(r->g, 1, &c, &err), 0);
}

static void to_this_server(void **state)
{
	struct rig *r = *state;
	struct door d = { .fd = -1 };
	struct gate_here here = { &d, ours, enter };
	char vm[ID_SIZE], old[GATE_CALLER_SIZE], text[8] = "";

	mutex_init(&d.lock, "test door");
	give_open(r, "vm1");
	autofd int early = to_gateway(443, NULL);
	assert_true(closed(early)); /* nobody serves them yet */
	gates_set_here(r->g, &here);

	/* Whatever the name, and whoever it is. */
	autofd int a = to_gateway(443, "hello");
	assert_true(entered(&d, 1));
	assert_string_equal(d.vm, "vm1");
	assert_string_equal(d.only, "");
	assert_true(d.tls);
	assert_int_equal(gates_caller(r->g, d.caller, vm), 0);
	assert_string_equal(vm, "vm1");
	assert_int_equal(gates_caller(r->g, "", vm), -ENOENT);
	assert_int_equal(io_wait(d.fd, POLLIN, deadline_in(WAIT_MS)), 1);
	assert_int_equal(recv(d.fd, text, sizeof(text), 0), 5);
	assert_int_equal(send(d.fd, "back", 4, MSG_NOSIGNAL), 4);
	assert_int_equal(io_wait(a, POLLIN, deadline_in(WAIT_MS)), 1);
	assert_int_equal(recv(a, text, sizeof(text), 0), 4);
	autofd int first = d.fd;

	/* By its name alone, once there is a policy; what had none is cut. */
	snprintf(old, sizeof(old), "%s", d.caller);
	give(r, 1, "acme");
	assert_true(closed(a));
	assert_true(closed(first));
	assert_int_equal(gates_caller(r->g, old, vm), 0); /* it is the same VM */
	autofd int b = to_gateway(80, "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n");
	assert_true(closed(b));
	autofd int none = to_gateway(443, "not a client hello");
	assert_true(closed(none));
	autofd int c = to_gateway(80, "GET / HTTP/1.1\r\nHost: A.test\r\n\r\n");
	assert_true(entered(&d, 2));
	assert_string_equal(d.only, "a.test");
	assert_false(d.tls);
	autofd int second = d.fd;

	/* The slot's next guest is another. */
	gate_drop(r->g, 1);
	assert_true(closed(c));
	assert_int_equal(gates_caller(r->g, d.caller, vm), -ENOENT);
	gates_set_here(r->g, NULL);
	mutex_destroy(&d.lock);
}

/* ---- the site's proxy ---- */

/* A socket of the operator's network, on loopback here. */
static int site_listen(uint16_t *ret_port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

/* Until the text ends so, or nothing more comes. */
static void reads(int fd, const char *end, char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = '\0';
	while (n + 1 < size && !strstr(ret, end) &&
	       io_wait(fd, POLLIN, deadline_in(WAIT_MS)) == 1) {
		ssize_t k = recv(fd, ret + n, size - 1 - n, 0);

		if (k <= 0)
			break;
		n += (size_t)k;
		ret[n] = '\0';
	}
}

static int comes(int listener)
{
	int fd;

	assert_int_equal(io_wait(listener, POLLIN, deadline_in(WAIT_MS)), 1);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void answers(const char *request, const char *status)
{
	char text[1024];
	autofd int fd = to_gateway(3128, request);

	reads(fd, "\r\n\r\n", text, sizeof(text));
	if (!strstr(text, status))
		fail_msg("%s: %s", request, text);
}

#define CONNECT(host) \
	"CONNECT " host " HTTP/1.1\r\nHost: " host "\r\nProxy-Authorization: mine\r\n\r\n"

static void to_the_site(void **state)
{
	struct rig *r = *state;
	struct gate_site site = { .proxy = { .name = "127.0.0.1" }, .auth = "Basic c2l0ZQ==" };
	autofd int proxy = site_listen(&site.proxy.port);
	char text[1024];

	give_open(r, "vm1");
	answers(CONNECT("a.test:443"), "403"); /* there is none yet */
	gates_set_site(r->g, &site);
	answers("hello\r\n\r\n", "400");
	answers("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "400"); /* not for a proxy */
	answers(CONNECT("10.1.2.3:443"), "403");
	answers(CONNECT("127.0.0.1:22"), "403");
	answers(CONNECT("0x7f000001:22"), "400");
	answers(CONNECT("[::1]:22"), "400");

	/* A tunnel: with the site's password, not the guest's. */
	autofd int a = to_gateway(3128, CONNECT("A.test:8443"));
	autofd int pa = comes(proxy);
	reads(pa, "\r\n\r\n", text, sizeof(text));
	assert_string_equal(text, "CONNECT a.test:8443 HTTP/1.1\r\nHost: a.test:8443\r\n"
	                          "Proxy-Authorization: Basic c2l0ZQ==\r\n\r\n");
	assert_int_equal(send(pa, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", 25, MSG_NOSIGNAL), 25);
	reads(a, "\r\n\r\n", text, sizeof(text));
	assert_string_equal(text, "HTTP/1.1 200 Connection established\r\n\r\n");
	assert_int_equal(send(a, "over", 4, MSG_NOSIGNAL), 4);
	reads(pa, "over", text, sizeof(text));
	assert_string_equal(text, "over");

	/* A plain request, whole; the proxy refuses a tunnel. */
	autofd int b = to_gateway(
	        3128, "GET http://a.test:81/x?y HTTP/1.1\r\nHost: a.test:81\r\n"
	              "Proxy-Authorization: mine\r\nProxy-Connection: keep-alive\r\n\r\n");
	autofd int pb = comes(proxy);
	reads(pb, "\r\n\r\n", text, sizeof(text));
	assert_string_equal(text,
	                    "GET http://a.test:81/x?y HTTP/1.1\r\nHost: a.test:81\r\n"
	                    "Proxy-Authorization: Basic c2l0ZQ==\r\nConnection: close\r\n\r\n");
	autofd int d = to_gateway(3128, CONNECT("b.test:443"));
	autofd int pd = comes(proxy);
	assert_int_equal(send(pd, "HTTP/1.1 407 No\r\n\r\n", 19, MSG_NOSIGNAL), 19);
	reads(d, "\r\n\r\n", text, sizeof(text));
	assert_non_null(strstr(text, "502"));

	/* A policy that allows a.test: what is open for it stays, everything else ends. */
	give(r, 1, "acme");
	assert_int_equal(send(a, "more", 4, MSG_NOSIGNAL), 4);
	reads(pa, "more", text, sizeof(text));
	assert_string_equal(text, "more");
	answers(CONNECT("b.test:443"), "403");
	answers("GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", "403");
	answers(CONNECT("192.0.2.1:443"), "403");
	autofd int e = to_gateway(3128, CONNECT("a.test:443"));
	autofd int pe = comes(proxy);
	gate_drop(r->g, 1);
	assert_true(closed(a));
	assert_true(closed(e));
}

/* Without a proxy, and in the site's own network: directly; nothing else. */
static void mirrors_of_the_site(void **state)
{
	struct rig *r = *state;
	struct gate_site site = { .mirrors = { { .name = "127.0.0.1" } }, .n_mirrors = 1 };
	autofd int mirror = site_listen(&site.mirrors[0].port);
	char text[1024], ask[256];

	give_open(r, "vm1");
	for (int with_proxy = 0; with_proxy < 2; with_proxy++) {
		if (with_proxy)
			site.proxy = (struct gate_host){ "127.0.0.1", 1 };
		gates_set_site(r->g, &site);
		snprintf(ask, sizeof(ask),
		         "GET http://127.0.0.1:%u/p HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
		         site.mirrors[0].port, site.mirrors[0].port);
		autofd int a = to_gateway(3128, ask);
		autofd int m = comes(mirror);
		reads(m, "\r\n\r\n", text, sizeof(text));
		assert_true(strncmp(text, "GET /p HTTP/1.1\r\n", 17) == 0);
		assert_null(strstr(text, "Authorization"));
		answers(CONNECT("127.0.0.1:1"), "403"); /* another port of it */
	}
	gate_drop(r->g, 1);
}

static int run(const char *const *argv, const char *input)
{
	autofree char *said = NULL;
	struct err err = { 0 };
	int r = proc_run(&(struct proc_run_opts){ .argv = argv,
	                                          .stdin_text = input,
	                                          .deadline_ms = WAIT_MS,
	                                          .max_output = 4096 },
	                 NULL, &said, &err);

	if (r)
		fprintf(stderr, "%s: %s\n", argv[0], r < 0 ? err.msg : said);
	return r;
}

/* A network of our own, before there are threads. */
static int network(void)
{
	const char *const up[] = { "ip", "link", "set", "lo", "up", NULL };
	const char *const addr[] = { "ip", "addr", "add", "10.9.9.0/24", "dev", "lo", NULL };
	const char *const gateway[] = { "ip", "addr", "add", "10.0.0.1/32", "dev", "lo", NULL };
	const char *const nft[] = { "nft", "-f", "-", NULL };
	char rule[1024];
	int n;

	if (unshare(CLONE_NEWNET) < 0) {
		perror("network namespace");
		return 1;
	}
	n = snprintf(rule, sizeof(rule),
	             "table ip t {\nchain c {\ntype nat hook output priority -100;\n"
	             "ip daddr 10.9.9.0/24 tcp dport 80 redirect to :ip daddr map {");
	for (int s = 0; s <= SLOTS; s++)
		n += snprintf(rule + n, sizeof(rule) - (size_t)n, "%s 10.9.9.%d : %d", s ? "," : "",
		              s, PORT0 + s);
	snprintf(rule + n, sizeof(rule) - (size_t)n,
	         " }\nip daddr 10.0.0.1 tcp dport { 80, 443, 3128 } redirect to :%d\n}\n}\n",
	         PORT0 + 1);
	return run(up, NULL) || run(addr, NULL) || run(gateway, NULL) || run(nft, rule);
}

int main(void)
{
	const struct rlimit files = { .rlim_cur = 8192, .rlim_max = 8192 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_account_leaves_connections_for_the_others, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_slot_changes_hands, setup, teardown),
		cmocka_unit_test_setup_teardown(to_this_server, setup, teardown),
		cmocka_unit_test_setup_teardown(to_the_site, setup, teardown),
		cmocka_unit_test_setup_teardown(mirrors_of_the_site, setup, teardown),
	};

	if (network() || setrlimit(RLIMIT_NOFILE, &files) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
