/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_heads.c - the edge, the egress proxy and git's proxy reject the same requests
 *
 * Each gets every head of one list: those that two parsers could read in two ways must reach nobody
 * behind it, and a plain one must get through. The edge and git's proxy run as they do in pandod;
 * of the egress proxy, which needs a slot's network, it is the function that judges the first
 * bytes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/sock.h"
#include "edge/edge.h"
#include "git/git_internal.h"
#include "h1/h1.h"
#include "net/sniff.h"

#define WAIT_MS 60000

/* What follows "POST <target>". @ stands for the host. */
static const char *const refused[] = {
	" HTTP/1.1\r\nHost: @\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nContent-Length: 5, 5\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nContent-Length: +5\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nContent-Length: -1\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nContent-Length: 0x5\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nContent-Length: 99999999999999999999\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nContent-Length:\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	(" HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: chunked\r\n"
	 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	" HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: identity\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
	" HTTP/1.0\r\nHost: @\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nX: a\r\n b\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nX: a\r\n\tb\r\n\r\n",
	" HTTP/1.1\r\n Host: @\r\n\r\n",
	" HTTP/1.1\nHost: @\n\n",
	" HTTP/1.1\r\nHost: @\nX: y\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nX: a\rb\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nX: a\rContent-Length: 5\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nX: a\x01\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nX: a\x7f\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nContent-Length : 5\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nX Y: z\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\n: z\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nno colon\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nHost: @\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nHost: other.example\r\n\r\n",
	" HTTP/1.1\r\nHost: a b\r\n\r\n",
	" HTTP/1.1\r\nHost: @/x\r\n\r\n",
	" HTTP/1.1\r\nHost: user@@\r\n\r\n",
	" HTTP/1.1\r\nHost: @:x\r\n\r\n",
	" HTTP/1.1\r\nHost:\r\n\r\n",
	" HTTP/1.1\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nConnection: Host\r\n\r\n",
	" HTTP/1.1\r\nHost: @\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
	" HTTP/1.1\r\nHost: @\r\nExpect: 200-ok\r\n\r\n",
	" HTTP/2.0\r\nHost: @\r\n\r\n",
	" HTTP/0.9\r\nHost: @\r\n\r\n",
	" HTTP/1.1 \r\nHost: @\r\n\r\n",
	" x HTTP/1.1\r\nHost: @\r\n\r\n",
	"\tHTTP/1.1\r\nHost: @\r\n\r\n",
	"\r\nHost: @\r\n\r\n",
};
static const char taken[] = " HTTP/1.1\r\nHost: @\r\nContent-Length: 0\r\n\r\n";

static int behind = -1; /* requests that get through arrive here */
static struct sockaddr_storage behind_at;
static socklen_t behind_len;

static int listener(char ret_at[32])
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0 && listen(fd, 16) == 0 &&
	            getsockname(fd, (struct sockaddr *)&sa, &len) == 0);
	snprintf(ret_at, 32, "127.0.0.1:%u", ntohs(sa.sin_port));
	return fd;
}

static int dial(const char *at)
{
	struct sockaddr_storage sa;
	socklen_t len;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0 && sock_parse(at, &sa, &len, NULL) == 0 &&
	            connect(fd, (struct sockaddr *)&sa, len) == 0);
	return fd;
}

/* "POST <target>" and the rest, with the host in the place of @; "@@" is an @ and the host. */
static void head(char *ret, size_t size, const char *target, const char *rest, const char *host)
{
	size_t n = (size_t)snprintf(ret, size, "POST %s", target);

	for (const char *p = rest; *p; p++) {
		if (*p == '@' && p[1] == '@')
			n += (size_t)snprintf(ret + n, size - n, "@%s", host), p++;
		else if (*p == '@')
			n += (size_t)snprintf(ret + n, size - n, "%s", host);
		else
			ret[n++] = *p;
		assert_true(n < size);
	}
	ret[n] = '\0';
}

/* Did it reach the server behind? ret: status of the answer, 0 for none. */
static bool passed(const char *at, const char *text, int *ret)
{
	autofd int fd = dial(at);
	autofd int up = -1;
	struct pollfd f[] = { { .fd = fd, .events = POLLIN }, { .fd = behind, .events = POLLIN } };
	char got[512];
	ssize_t n;

	*ret = 0;
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
	assert_true(poll(f, 2, WAIT_MS) > 0);
	if (f[1].revents) {
		up = accept4(behind, NULL, NULL, SOCK_CLOEXEC);
		assert_true(up >= 0);
		return true;
	}
	n = recv(fd, got, sizeof(got) - 1, 0);
	got[MAX(n, 0)] = '\0';
	(void)sscanf(got, "HTTP/1.%*c %d", ret);
	f[1].revents = 0;
	assert_true(poll(f + 1, 1, 0) == 0);
	return false;
}

static void ask_all(const char *at, const char *target, const char *host)
{
	char text[1024];
	int status;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		head(text, sizeof(text), target, refused[i], host);
		if (passed(at, text, &status))
			fail_msg("passed on: %s", text);
		if (status < 400)
			fail_msg("answered with %d: %s", status, text);
	}
	head(text, sizeof(text), target, taken, host);
	assert_true(passed(at, text, &status));
}

/* ---- the edge ---- */

static void route(void *ctx, const char *host, struct edge_target *ret)
{
	*ret = (struct edge_target){ .kind = EDGE_ADDR };
}

static int open_behind(void *ctx, struct edge_target *t, int *ret_fd, struct err *err)
{
	int fd = socket(behind_at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return err_sys(err, -errno, "socket");
	r = sock_connect_soon(fd, (struct sockaddr *)&behind_at, behind_len, 1000);
	if (r < 0) {
		close(fd);
		return err_sys(err, r, "connect");
	}
	*ret_fd = fd;
	return 0;
}

static void test_edge(void **state)
{
	struct edge_ops ops = { .route = route, .open = open_behind };
	struct edge_conf conf = { .tls_fd = -1, .workers = 1, .wait_ms = 1000 };
	struct edge *e = NULL;
	struct err err = { 0 };
	char at[32];

	conf.http_fd = listener(at);
	assert_int_equal(edge_start(&conf, &ops, &e, &err), 0);
	ask_all(at, "/", "a.example");
	ask_all(at, "http://a.example/", "a.example");
	edge_free(e);
}

/* ---- the proxy of git's programs ---- */

static void test_git_proxy(void **state)
{
	struct err err = { 0 };
	struct proxy *p = NULL;
	char at[32], host[32], target[64], why[160];
	int fd = listener(at);

	snprintf(host, sizeof(host), "127.0.0.1:%u",
	         ntohs(((struct sockaddr_in *)&behind_at)->sin_port));
	snprintf(target, sizeof(target), "http://%s/", host);
	assert_int_equal(proxy_start(fd, /* allow_private= */ true, /* max= */ 0, &p, &err), 0);
	ask_all(at, target, host);
	proxy_stop(p, why, sizeof(why));
}

static void test_git_proxy_targets(void **state)
{
	static const char *const bad[] = {
		"CONNECT / HTTP/1.1\r\nHost: /\r\n\r\n",
		"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:2\r\n\r\n",
		"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
		"CONNECT http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
		"GET http://user@127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"GET https://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"GET file:///etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	};
	struct h1_head h;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		size_t scan = 0;

		if (h1_proxy_request(bad[i], strlen(bad[i]), &scan, &h) >= 0)
			fail_msg("taken: %s", bad[i]);
	}
}

static void test_git_proxy_tunnel(void **state)
{
	struct err err = { 0 };
	struct proxy *p = NULL;
	char at[32], text[256], why[160], got[64];
	unsigned port = ntohs(((struct sockaddr_in *)&behind_at)->sin_port);
	int fd = listener(at);

	assert_int_equal(proxy_start(fd, /* allow_private= */ true, /* max= */ 0, &p, &err), 0);
	{
		autofd int near = dial(at);
		autofd int far = -1;
		int n = snprintf(text, sizeof(text),
		                 "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\nfirst",
		                 port, port);

		assert_int_equal(send(near, text, (size_t)n, MSG_NOSIGNAL), n);
		far = accept4(behind, NULL, NULL, SOCK_CLOEXEC);
		assert_true(far >= 0);
		assert_int_equal(recv(far, got, 5, MSG_WAITALL), 5);
		assert_memory_equal(got, "first", 5);
	}
	proxy_stop(p, why, sizeof(why));
}

/* ---- the egress proxy ---- */

static void test_egress(void **state)
{
	char text[1024], name[SNIFF_NAME_MAX];
	struct h1_head h;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		head(text, sizeof(text), "/", refused[i], "a.example");
		if (sniff_http(text, strlen(text), name, &h) != -EBADMSG)
			fail_msg("has a name: %s", text);
	}
	head(text, sizeof(text), "/", taken, "a.example");
	assert_int_equal(sniff_http(text, strlen(text), name, &h), 1);
	assert_string_equal(name, "a.example");
}

static int up(void **state)
{
	char at[32];

	behind = listener(at);
	return sock_parse(at, &behind_at, &behind_len, NULL);
}

static int down(void **state)
{
	close(behind);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edge),
		cmocka_unit_test(test_git_proxy),
		cmocka_unit_test(test_git_proxy_targets),
		cmocka_unit_test(test_git_proxy_tunnel),
		cmocka_unit_test(test_egress),
	};

	return cmocka_run_group_tests(tests, up, down);
}
