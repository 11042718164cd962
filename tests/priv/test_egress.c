/* SPDX-License-Identifier: Apache-2.0 */
/* test_egress.c - policies: reading them, judging by them, what is seen of a connection, names and
 * keys */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_field.h"
#include "h1/h1.h"
#include "net/dns_msg.h"
#include "net/egress.h"
#include "net/egress_json.h"
#include "net/gate_internal.h"
#include "net/sniff.h"
#include "net/wgkey.h"

#define ADDR(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))

static struct egress *policy(const char *text, const struct egress *before)
{
	autojson json_t *j = NULL;
	struct egress *e = NULL;
	struct err err = { 0 };

	assert_int_equal(json_text_parse(text, strlen(text), &j, &err), 0);
	if (egress_parse(j, &e, &err) < 0 || egress_keep_secrets(e, before, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return e;
}

static void matching(void **state)
{
	assert_true(egress_domain_matches("a.b", "A.B"));
	assert_false(egress_domain_matches("a.b", "x.a.b"));
	assert_true(egress_domain_matches("*.a.b", "x.a.b"));
	assert_true(egress_domain_matches("*.a.b", "y.x.A.b"));
	assert_false(egress_domain_matches("*.a.b", "a.b"));
	assert_false(egress_domain_matches("*.a.b", "xa.b"));
	assert_false(egress_domain_matches("*.a.b", ".a.b"));
}

static void modes(void **state)
{
	AUTO(egress_unrefp) struct egress *open = policy("{\"mode\":\"open\"}", NULL);
	AUTO(egress_unrefp) struct egress *closed = policy("{\"mode\":\"closed\"}", NULL);

	assert_true(egress_is_default(NULL));
	assert_true(egress_is_default(open));
	assert_false(egress_is_default(closed));
	assert_true(egress_name_allowed(open, "a"));
	assert_false(egress_name_allowed(closed, "a"));
	assert_true(egress_conn_allowed(open, "", false, 1, 1));
	assert_false(egress_conn_allowed(closed, "a", true, 1, 1));
}

/* Names of this server: as any other, but without addresses. */
static void here(void **state)
{
	AUTO(egress_unrefp)
	struct egress *named =
	        policy("{\"mode\":\"rules\",\"rules\":["
	               "{\"action\":\"deny\",\"domain\":\"git.x.org\"},"
	               "{\"action\":\"allow\",\"domain\":\"*.x.org\",\"ports\":[443]}]}",
	               NULL);
	AUTO(egress_unrefp)
	struct egress *all = policy("{\"mode\":\"rules\",\"rules\":["
	                            "{\"action\":\"deny\",\"domain\":\"git.x.org\"},"
	                            "{\"action\":\"deny\",\"cidr\":\"10.0.0.0/8\"},"
	                            "{\"action\":\"allow\"}]}",
	                            NULL);
	AUTO(egress_unrefp) struct egress *closed = policy("{\"mode\":\"closed\"}", NULL);

	assert_true(egress_here_allowed(NULL, "", 80));
	assert_false(egress_here_allowed(closed, "api.x.org", 443));
	assert_true(egress_here_allowed(named, "api.x.org", 443));
	assert_false(egress_here_allowed(named, "api.x.org", 80));
	assert_false(egress_here_allowed(named, "git.x.org", 443));
	assert_false(egress_here_allowed(named, "api.y.org", 443));
	assert_true(egress_here_allowed(all, "api.x.org", 80));
	assert_false(egress_here_allowed(all, "git.x.org", 80));
	assert_false(egress_here_allowed(all, "", 80)); /* it could be for any name */
}

static void rules(void **state)
{
	AUTO(egress_unrefp)
	struct egress *e = policy("{\"mode\":\"rules\",\"rules\":["
	                          "{\"action\":\"deny\",\"domain\":\"bad.x.org\"},"
	                          "{\"action\":\"deny\",\"domain\":\"*.x.org\",\"ports\":[22]},"
	                          "{\"action\":\"allow\",\"domain\":\"*.x.org\"},"
	                          "{\"action\":\"deny\",\"cidr\":\"198.51.100.0/25\"},"
	                          "{\"action\":\"allow\",\"cidr\":\"198.51.100.0/"
	                          "24\",\"ports\":[80,\"8000-8080\"]}]}",
	                          NULL);
	uint32_t n[PRIV_PIN_SETS_MAX], far = ADDR(198, 51, 100, 200), near = ADDR(198, 51, 100, 1);
	struct priv_egress plan;

	assert_true(egress_name_allowed(e, "a.x.org"));
	assert_false(egress_name_allowed(e, "bad.x.org"));
	assert_false(egress_name_allowed(e, "x.org"));
	assert_false(egress_name_allowed(e, "other.org"));
	/* Pinned also for the rule that denies some ports: the kernel tries them in order. */
	assert_int_equal(egress_name_rules(e, "a.x.org", n), 2);
	assert_int_equal(n[0], 1);
	assert_int_equal(n[1], 2);
	assert_int_equal(egress_name_rules(e, "bad.x.org", n), 0);
	assert_true(egress_conn_allowed(e, "a.x.org", true, 1, 443));
	assert_false(egress_conn_allowed(e, "a.x.org", true, 1, 22));
	assert_false(egress_conn_allowed(e, "a.x.org", /* pinned= */ false, 1, 443));
	assert_false(egress_conn_allowed(e, "bad.x.org", true, far, 80));
	assert_true(egress_conn_allowed(e, "", false, far, 80));
	assert_true(egress_conn_allowed(e, "", false, far, 8080));
	assert_false(egress_conn_allowed(e, "", false, far, 443));
	assert_false(egress_conn_allowed(e, "", false, near, 80));
	assert_true(egress_wants_proxy(e));
	egress_plan(e, 9, &plan);
	assert_int_equal(plan.n_rules, 5);
	assert_true(plan.proxy_http && plan.proxy_tls);
	assert_int_equal(plan.rules[0].kind, PRIV_RULE_PINNED);
	assert_int_equal(plan.rules[3].addr, ADDR(198, 51, 100, 0));
	assert_int_equal(plan.rules[4].ports[1].hi, 8080);
}

/* A list of what is not wanted leaves names alone; a list of ranges has none. */
static void names(void **state)
{
	AUTO(egress_unrefp)
	struct egress *block = policy(
	        "{\"mode\":\"rules\",\"rules\":[{\"action\":\"deny\",\"domain\":\"ads.org\"},"
	        "{\"action\":\"allow\",\"cidr\":\"0.0.0.0/0\",\"ports\":[443]}]}",
	        NULL);
	AUTO(egress_unrefp)
	struct egress *ranges = policy(
	        "{\"mode\":\"rules\",\"rules\":[{\"action\":\"allow\",\"cidr\":\"8.8.0.0/16\"}]}",
	        NULL);

	assert_true(egress_name_allowed(block, "fine.org"));
	assert_false(egress_name_allowed(block, "ads.org"));
	assert_false(egress_name_allowed(ranges, "fine.org"));
	assert_false(egress_wants_proxy(ranges));
}

static void secrets(void **state)
{
	AUTO(egress_unrefp)
	struct egress *e =
	        policy("{\"mode\":\"open\",\"inject\":[{\"domain\":\"api.org\",\"headers\":"
	               "{\"Authorization\":\"Bearer 1\"}}],\"bandwidth\":{\"upMbps\":1.5}}",
	               NULL);
	AUTO(egress_unrefp) struct egress *again = NULL;
	autojson json_t *shown = egress_json(e, /* secrets= */ false);
	autojson json_t *stored = egress_json(e, /* secrets= */ true);
	autofree char *a = json_dumps(shown, 0);
	autofree char *b = json_dumps(stored, 0);
	struct err err = { 0 };

	assert_null(strstr(a, "Bearer 1"));
	assert_non_null(strstr(b, "Bearer 1"));
	assert_int_equal(e->up_kbit, 1500);
	assert_non_null(egress_inject_for(e, "api.org"));
	assert_null(egress_inject_for(e, "x.api.org"));
	/* What was shown may be put back, with the secret that was there. */
	assert_int_equal(egress_parse(shown, &again, &err), 0);
	assert_int_equal(egress_keep_secrets(again, e, &err), 0);
	assert_string_equal(again->inject[0].headers[0].value, "Bearer 1");
	egress_unref(TAKE_PTR(again));
	assert_int_equal(egress_parse(shown, &again, &err), 0);
	assert_int_equal(egress_keep_secrets(again, NULL, &err), -EINVAL);
}

static void hello(void **state)
{
	/* A record with half of it, a name that is an address, two names: no name. */
	static const uint8_t start[] = { 22, 3, 1, 0, 60, 1, 0, 0, 56 };
	char name[SNIFF_NAME_MAX];

	assert_int_equal(sniff_tls("", 0, name), 0);
	assert_int_equal(sniff_tls(start, sizeof(start), name), 0);
	assert_int_equal(sniff_tls("GET / HTTP/1.1", 14, name), -ENOENT);
}

static int http(const char *s, char name[SNIFF_NAME_MAX])
{
	struct h1_head head;

	return sniff_http(s, strlen(s), name, &head);
}

static void heads(void **state)
{
	static const char *const bad[] = {
		"SSH-2.0-OpenSSH_9.2\r\n", /* said at once: it is not waited for */
		"\x16\x03\x01",
		"GET http://c.d/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: a.b\r\n\r\n",
		"GET / HTTP/1.1\nHost: a.b\n\n",
		"GET / HTTP/1.1\r\nHost: a.b\r\nHost: c.d\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a.b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.b\r\n folded\r\n\r\n",
		"GET / HTTP/1.1\r\nX: \x01\r\nHost: a.b\r\n\r\n",
		"GET /a b HTTP/1.1\r\nHost: a.b\r\n\r\n",
	};
	char name[SNIFF_NAME_MAX];

	assert_int_equal(http("GET / HTTP/1.1\r\nhOsT: A.b:80\r\n\r\nbody", name), 1);
	assert_string_equal(name, "a.b");
	assert_int_equal(http("GET / HTTP/1.1\r\nHost: a.b\r\n", name), 0);
	assert_int_equal(http("GET / HTTP/1.1\r\nHost: 1.2.3.4\r\n\r\n", name), -ENOENT);
	assert_int_equal(http("GET / HTTP/1.0\r\n\r\n", name), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (http(bad[i], name) != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
}

static char *rewrite(const char *in)
{
	static char name[] = "Authorization", value[] = "ours";
	struct egress_header add = { .name = name, .value = value };
	char host[SNIFF_NAME_MAX];
	autobuf struct buf out = { 0 };
	struct h1_head head;

	assert_int_equal(sniff_http(in, strlen(in), host, &head), 1);
	sniff_http_rewrite(&head, &add, 1, &out);
	return buf_take_str(&out);
}

static void rewritten(void **state)
{
	static const struct {
		const char *in, *out;
	} t[] = {
		{ "POST /x HTTP/1.1\r\nHost: a.b\r\nConnection: keep-alive, X-Mine\r\n"
		  "authorization: mine\r\nContent-Length: 3\r\n\r\n",
		  "POST /x HTTP/1.1\r\nHost: a.b\r\nContent-Length: 3\r\n"
		  "Authorization: ours\r\nConnection: close\r\n\r\n" },
		{ "POST http://a.b/x HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n",
		  "POST /x HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n"
		  "Authorization: ours\r\nConnection: close\r\n\r\n" },
		{ "GET / HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: "
		  "WebSocket\r\n\r\n",
		  "GET / HTTP/1.1\r\nHost: a.b\r\nAuthorization: ours\r\nUpgrade: websocket\r\n"
		  "Connection: Upgrade\r\n\r\n" },
		/* No server has to know it, and then the connection stays what it was. */
		{ "GET / HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
		  "GET / HTTP/1.1\r\nHost: a.b\r\nAuthorization: ours\r\n"
		  "Connection: close\r\n\r\n" },
		{ "POST / HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		  "Content-Length: 1\r\n\r\n",
		  "POST / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 1\r\nAuthorization: ours\r\n"
		  "Connection: close\r\n\r\n" },
		/* It would carry requests for other names. */
		{ "GET / HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		  "GET / HTTP/1.1\r\nHost: a.b\r\nAuthorization: ours\r\n"
		  "Connection: close\r\n\r\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		autofree char *text = rewrite(t[i].in);

		assert_string_equal(text, t[i].out);
	}
}

/* ---- a connection that may become a WebSocket ---- */

struct server {
	int fd;
	const char *answer;
	char got[512]; /* until the proxy ended the connection */
};

static void *server_main(void *arg)
{
	struct server *s = arg;
	size_t n = 0;
	ssize_t k;

	while (!strstr(s->got, "\r\n\r\n") &&
	       (k = recv(s->fd, s->got + n, sizeof(s->got) - 1 - n, 0)) > 0)
		n += (size_t)k;
	assert_int_equal(send(s->fd, s->answer, strlen(s->answer), MSG_NOSIGNAL),
	                 strlen(s->answer));
	while ((k = recv(s->fd, s->got + n, sizeof(s->got) - 1 - n, 0)) > 0)
		n += (size_t)k;
	close(s->fd);
	return NULL;
}

/* What the server got and the guest saw, when the guest sends `more` right after its request. */
static void upgraded(const char *answer, const char *more, char ret_server[512],
                     char ret_guest[512])
{
	static const char ask[] = "GET / HTTP/1.1\r\nHost: a.b\r\nUpgrade: websocket\r\n"
	                          "Connection: Upgrade\r\n\r\n";
	struct server s = { .answer = answer };
	int down[2], up[2];
	pthread_t thread;
	ssize_t k;
	size_t n = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, up), 0);
	struct relay_end a = { .fd = down[1] }, b = { .fd = up[1] };
	s.fd = up[0];
	assert_int_equal(send(down[0], more, strlen(more), MSG_NOSIGNAL), strlen(more));
	assert_int_equal(shutdown(down[0], SHUT_WR), 0);
	assert_int_equal(pthread_create(&thread, NULL, server_main, &s), 0);
	gate_upgrade(&a, &b, ask, sizeof(ask) - 1, NULL, 0);
	close(down[1]);
	close(up[1]);
	pthread_join(thread, NULL);
	while ((k = recv(down[0], ret_guest + n, 511 - n, 0)) > 0)
		n += (size_t)k;
	ret_guest[n] = '\0';
	close(down[0]);
	memcpy(ret_server, s.got, sizeof(s.got));
}

static void upgrades(void **state)
{
	static const char *const others[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 426 Upgrade Required\r\nTransfer-Encoding: "
		"chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\n\r\n",
	};
	char server[512], guest[512];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		upgraded(others[i], "GET / HTTP/1.1\r\nHost: other\r\n\r\n", server, guest);
		assert_null(strstr(server, "other"));
		assert_string_equal(guest, others[i]);
	}
	upgraded("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nfirst", "frames",
	         server, guest);
	assert_non_null(strstr(server, "frames"));
	assert_non_null(strstr(guest, "\r\n\r\nfirst"));
	upgraded("what?\r\n\r\n", "frames", server, guest);
	assert_null(strstr(server, "frames"));
	assert_string_equal(guest, "");
}

static void dns(void **state)
{
	static const uint8_t ask[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	                             "\x03"
	                             "ONE\x04test\x00\x00\x01\x00\x01";
	struct dns_query q;
	uint8_t out[DNS_LOCAL_MAX];
	uint32_t addrs[DNS_ADDRS_MAX], ttl;
	char name[DNS_NAME_MAX];
	size_t n;

	assert_int_equal(dns_query_parse(ask, sizeof(ask) - 1, &q), 0);
	assert_true(dns_query_name(&q, name));
	assert_string_equal(name, "one.test");
	n = dns_local(&q, ADDR(192, 168, 10, 10), 5, out);
	assert_true(dns_answer_matches(out, n, &q, 0x1234));
	assert_int_equal(dns_answer_addrs(out, n, addrs, &ttl), 1);
	assert_int_equal(addrs[0], ADDR(192, 168, 10, 10));
	assert_int_equal(ttl, 5);
	/* Cut anywhere: nothing is read beyond, and never more than there is. */
	for (size_t i = 0; i < n; i++)
		assert_int_equal(dns_answer_addrs(out, i, addrs, &ttl), 0);
}

static void keys(void **state)
{
	char private[WGKEY_TEXT], public[WGKEY_TEXT], again[WGKEY_TEXT];
	uint8_t raw[WGKEY_LEN];
	struct err err = { 0 };

	assert_int_equal(wgkey_make(private, public, &err), 0);
	assert_int_equal(wgkey_public(private, again, &err), 0);
	assert_string_equal(public, again);
	assert_int_equal(wgkey_bytes(public, raw), 0);
	assert_int_equal(wgkey_bytes("nonsense", raw), -EINVAL);
	public[43] = 'A';
	assert_int_equal(wgkey_bytes(public, raw), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matching), cmocka_unit_test(modes), cmocka_unit_test(rules),
		cmocka_unit_test(here),     cmocka_unit_test(names), cmocka_unit_test(secrets),
		cmocka_unit_test(hello),    cmocka_unit_test(heads), cmocka_unit_test(rewritten),
		cmocka_unit_test(dns),      cmocka_unit_test(keys),  cmocka_unit_test(upgrades),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
