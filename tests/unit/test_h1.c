/* SPDX-License-Identifier: Apache-2.0 */
/* test_h1.c - the HTTP/1 parser; what must be refused is in test_heads.c, tests/e2e/edge_checks.py
 * and the fuzz corpus, too */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "domains/domains.h"
#include "h1/h1.h"

static struct h1_head h;

static int request(const char *text)
{
	size_t scan = 0;

	return h1_request(text, strlen(text), &scan, &h);
}

static int response(const char *text, bool to_head)
{
	size_t scan = 0;

	return h1_response(text, strlen(text), &scan, to_head, &h);
}

#define HOST "Host: a.example\r\n"

static void test_requests(void **state)
{
	assert_int_equal(request("GET /a?b=c HTTP/1.1\r\n" HOST "X: y\r\n\r\nrest"), 1);
	assert_true(h1_is(h.method, "GET") && h1_is(h.target, "/a?b=c") &&
	            h1_is(h.host, "a.example"));
	assert_int_equal(h.framing, H1_BODY_NONE);
	assert_false(h.close);
	assert_int_equal(h.len, strlen("GET /a?b=c HTTP/1.1\r\n" HOST "X: y\r\n\r\n"));
	assert_int_equal(
	        request("POST / HTTP/1.1\r\nHost: A.example:8443\r\ncontent-LENGTH: 12\r\n\r\n"),
	        1);
	assert_true(h1_is(h.host, "a.example"));
	assert_int_equal(h.framing, H1_BODY_LENGTH);
	assert_int_equal(h.length, 12);
	assert_int_equal(request("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"),
	                 1);
	assert_int_equal(h.framing, H1_BODY_CHUNKED);
	assert_int_equal(request("GET / HTTP/1.0\r\n\r\n"), 1);
	assert_true(h.close && h.http10);
	assert_int_equal(request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 1);
	assert_false(h.close);
	assert_int_equal(request("GET http://a.example/b HTTP/1.1\r\n" HOST "\r\n"), 1);
	assert_true(h1_is(h.target, "/b"));
	assert_int_equal(request("OPTIONS * HTTP/1.1\r\n" HOST "\r\n"), 1);
	assert_int_equal(request("GET / HTTP/1.1\r\n" HOST
	                         "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
	                 1);
	assert_true(h.upgrade);
	assert_int_equal(request("POST / HTTP/1.1\r\n" HOST
	                         "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
	                 1);
	assert_false(h.upgrade);
	assert_int_equal(
	        request("GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
	        1);
	assert_false(h.upgrade);
}

static void test_pieces(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
	size_t scan = 0;

	for (size_t n = 0; n < sizeof(text) - 1; n++)
		assert_int_equal(h1_request(text, n, &scan, &h), 0);
	assert_int_equal(h1_request(text, sizeof(text) - 1, &scan, &h), 1);
	scan = 0; /* a line that is none is refused before the head is whole */
	assert_int_equal(h1_request("GET / HTTP/1.1\n", 15, &scan, &h), -EBADMSG);
}

static void test_hop_fields(void **state)
{
	static const char *const gone[] = { "Connection", "Keep-Alive", "TE", "X-Mine", "Upgrade" };

	assert_int_equal(request("GET / HTTP/1.1\r\n" HOST
	                         "Connection: close, X-Mine\r\nKeep-Alive: 5\r\n"
	                         "TE: trailers\r\nX-Mine: 1\r\nUpgrade: h2c\r\nX-Kept: 1\r\n\r\n"),
	                 1);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		assert_true(h1_hop_field(&h, h1_find(&h, gone[i])));
	assert_false(h1_hop_field(&h, h1_find(&h, "x-kept")));
	assert_false(h1_hop_field(&h, h1_find(&h, "host")));
	assert_int_equal(request("GET / HTTP/1.1\r\n" HOST "Connection: Host\r\n\r\n"), -EBADMSG);
}

static void test_long_connection(void **state)
{
	char text[1024] = "GET / HTTP/1.1\r\n" HOST "X-Last: 1\r\nConnection: ";
	size_t n = strlen(text);

	for (size_t i = 0; i < H1_CONNECTION_MAX - 1; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "a%zu, ", i);
	snprintf(text + n, sizeof(text) - n, "x-last\r\n\r\n");
	assert_int_equal(request(text), 1);
	assert_true(h1_hop_field(&h, h1_find(&h, "x-last")));
	snprintf(text + n, sizeof(text) - n, "x-last, b\r\n\r\n");
	assert_int_equal(request(text), -E2BIG);
	snprintf(text + n, sizeof(text) - n, "x-last\r\nConnection: b\r\n\r\n");
	assert_int_equal(request(text), -E2BIG);
}

static void test_responses(void **state)
{
	assert_int_equal(response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false), 1);
	assert_int_equal(h.framing, H1_BODY_LENGTH);
	assert_int_equal(response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true), 1);
	assert_int_equal(h.framing, H1_BODY_NONE);
	assert_int_equal(response("HTTP/1.1 204\r\n\r\n", false), 1);
	assert_int_equal(h.framing, H1_BODY_NONE);
	assert_int_equal(response("HTTP/1.0 200 OK\n\n", false), 1);
	assert_int_equal(h.framing, H1_BODY_CLOSE);
	assert_true(h.close);
	assert_int_equal(response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: "
	                          "chunked\r\n\r\n",
	                          false),
	                 -EBADMSG);
	assert_int_equal(response("HTTP/1.1 099 No\r\n\r\n", false), -EBADMSG);
	assert_int_equal(response("HTTP/3.0 200 OK\r\n\r\n", false), -EPROTONOSUPPORT);
	assert_int_equal(response("ICY 200 OK\r\n\r\n", false), -EBADMSG);
}

static void test_domain_names(void **state)
{
	static const char *const bad[] = { "",      "a",   ".",       "a..b",  "-a.b",  "a-.b",
		                           "a_b.c", "a b", "1.2.3.4", "a.b/c", "*.a.b", "a.\x80" };
	char name[DOMAIN_SIZE];

	assert_int_equal(domain_normal("WWW.Example.ORG.", false, name, NULL), 0);
	assert_string_equal(name, "www.example.org");
	assert_int_equal(domain_normal("*.Example.org", true, name, NULL), 0);
	assert_string_equal(name, "*.example.org");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(domain_normal(bad[i], false, name, NULL), -EINVAL);
	assert_true(domain_below("a.b.c", "b.c"));
	assert_false(domain_below("b.c", "b.c"));
	assert_false(domain_below("xb.c", "b.c"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),   cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_hop_fields), cmocka_unit_test(test_long_connection),
		cmocka_unit_test(test_responses),  cmocka_unit_test(test_domain_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
