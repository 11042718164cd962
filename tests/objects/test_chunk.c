/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chunk.c - chunks, answers and settings of objects/, without a server; and the client against
 * a peer that does what real servers do only when they fail
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/id.h"
#include "objects/objects_internal.h"
#include "tests/unit/check.h"

static uint8_t key[OBJECT_KEY_BYTES] = { 1, 2, 3 };

static struct chunk chunk_of(uint64_t bytes, uint32_t i)
{
	return (struct chunk){ "layers/ly-a", i, objects_chunks(bytes), bytes, key };
}

static void every_size_comes_back(void **state)
{
	static uint8_t plain[70000], back[70000];
	static const size_t sizes[] = { 0, 1, 2, 15, 16, 17, 4096, 65536, 70000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * 3; i++) {
		size_t n = sizes[i / 3], len = 0;
		struct chunk c = chunk_of(n, 0);
		autofree uint8_t *o = NULL;
		bool zeros;

		memset(plain, i % 3 ? 'x' : 0, n);
		if (i % 3 == 2)
			random_bytes(plain, n);
		OK(chunk_seal(&c, plain, &o, &len, &err));
		assert_true(len <= chunk_object_max(n));
		memset(back, 0, n);
		OK(chunk_open(&c, o, len, back, &zeros, &err));
		assert_int_equal(zeros, n == 0 || i % 3 == 0);
		assert_memory_equal(back, plain, n);
	}
}

/* Each bit of a small object, and each of the things that say which one it is. */
static void anything_else_does_not_open(void **state)
{
	static const char text[] = "some text of a tenant, some text of a tenant";
	struct chunk c = chunk_of(sizeof(text), 0), other;
	uint8_t copy[256], back[sizeof(text)];
	autofree uint8_t *o = NULL;
	size_t len = 0;
	bool zeros;

	OK(chunk_seal(&c, (const uint8_t *)text, &o, &len, &err));
	assert_true(len <= sizeof(copy));
	for (size_t bit = 0; bit < len * 8; bit++) {
		memcpy(copy, o, len);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		FAILS(-EBADMSG, chunk_open(&c, copy, len, back, &zeros, &err));
	}
	for (size_t n = 0; n < len; n++) {
		memcpy(copy, o, len);
		FAILS(-EBADMSG, chunk_open(&c, copy, n, back, &zeros, &err));
	}
	for (int i = 0; i < 4; i++) {
		uint8_t theirs[OBJECT_KEY_BYTES] = { 9 };

		other = c;
		other.name = i == 0 ? "layers/ly-b" : c.name;
		other.n = i == 1 ? 2 : c.n;
		other.key = i == 2 ? theirs : key;
		if (i == 3) { /* chunk 1 of a file whose second chunk has this very length */
			other.bytes = OBJECT_CHUNK + sizeof(text);
			other.n = 2;
			other.i = 1;
		}
		memcpy(copy, o, len);
		FAILS(-EBADMSG, chunk_open(&other, copy, len, back, &zeros, &err));
	}
	memcpy(copy, o, len);
	OK(chunk_open(&c, copy, len, back, &zeros, &err));
}

static void nothing_of_it_can_be_read(void **state)
{
	static const char text[] = "a password that must not leave the host";
	struct chunk c = chunk_of(sizeof(text), 0);
	autofree uint8_t *a = NULL;
	autofree uint8_t *b = NULL;
	size_t n = 0, m = 0;

	OK(chunk_seal(&c, (const uint8_t *)text, &a, &n, &err));
	OK(chunk_seal(&c, (const uint8_t *)text, &b, &m, &err));
	assert_null(memmem(a, n, "password", 8));
	assert_int_equal(n, m);
	assert_memory_not_equal(a, b, n); /* another nonce each time */
}

static void errors_and_lists(void **state)
{
	static const char list[] =
	        "<?xml version=\"1.0\"?><ListBucketResult "
	        "xmlns=\"x\"><IsTruncated>true</IsTruncated>"
	        "<NextContinuationToken>a/b+c=</NextContinuationToken>"
	        "<Contents><Key>layers/ly-a/0</Key><Size>1</Size></Contents>"
	        "<Contents><Key>a&amp;b</Key></Contents>"
	        "<CommonPrefixes><Key>not/one</Key></CommonPrefixes></ListBucketResult>";
	static const char error[] = "<Error><Code>NoSuchKey</Code><Message>a\nb</Message></Error>";
	static const char deep[] = "<ListBucketResult><a><a><a><a><a><a><a><a/>"
	                           "</a></a></a></a></a></a></a></ListBucketResult>";
	static const char *const bad[] = {
		"",
		"<ListBucketResult>",
		"<Error><Code>x</Code></Error>",
		"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
		"<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult>&a;</ListBucketResult>",
		deep,
		"<ListBucketResult><Contents><Key>a</Contents></ListBucketResult>",
	};
	struct s3_error e;
	struct s3_list l;

	OK(s3_list_parse(list, sizeof(list) - 1, &l, &err));
	assert_int_equal(l.n, 2);
	assert_string_equal(l.keys[0], "layers/ly-a/0");
	assert_string_equal(l.keys[1], "a&b");
	assert_true(l.more);
	assert_string_equal(l.token, "a/b+c=");
	s3_list_done(&l);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		FAILS(-EHOSTUNREACH, s3_list_parse(bad[i], strlen(bad[i]), &l, &err));
	s3_error_parse(error, sizeof(error) - 1, &e);
	assert_string_equal(e.code, "NoSuchKey");
	assert_string_equal(e.message, "a?b");
	s3_error_parse("<html>", 6, &e);
	assert_string_equal(e.code, "");
}

static int try_url(const char *url, const char *id, const char *file, struct err *e)
{
	struct objects_conf c = { .url = url, .key_id = id, .secret = "s", .credentials = file };
	struct s3_place p;

	return s3_place_parse(&c, &p, e);
}

static void settings(void **state)
{
	static const char *const bad[] = {
		"s4://bucket?endpoint=http://h",
		"s3://bu?endpoint=http://h",
		"s3://Bucket?endpoint=http://h",
		"s3://bucket",
		"s3://bucket?endpoint=ftp://h",
		"s3://bucket?endpoint=http://h/path",
		"s3://bucket?endpoint=http://u@h",
		"s3://bucket?endpoint=http://h&other=1",
		"s3://bucket?endpoint=http://h&region=",
		"s3://bucket?endpoint=http://h&region",
		"s3://bucket?endpoint=http://h&prefix=a/b",
		"s3://bucket?endpoint=http://h&ca=relative",
	};
	char file[] = "/tmp/credentials-XXXXXX";
	autofd int fd = mkstemp(file);
	static const char text[] =
	        "[default]\naws_access_key_id = ID\n aws_secret_access_key=SE/CR+ET \n";
	struct objects_conf c = { .url = "s3://bucket?endpoint=https://h:9000&prefix=p&region=r-1",
		                  .key_id = "",
		                  .secret = "",
		                  .credentials = file };
	struct s3_place p;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		FAILS(-EINVAL, try_url(bad[i], "id", "", &err));
	FAILS(-EINVAL, try_url("s3://bucket?endpoint=http://h", "", "", &err));
	FAILS(-EINVAL, try_url("s3://bucket?endpoint=http://h", "", "/nowhere/at-all", &err));
	FAILS(-EINVAL, try_url("s3://bucket?endpoint=http://h", "", file, &err)); /* empty */
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	OK(s3_place_parse(&c, &p, &err));
	assert_string_equal(p.login, "ID:SE/CR+ET");
	assert_string_equal(p.base, "https://h:9000/bucket/p/");
	assert_string_equal(p.region, "r-1");
	unlink(file);
}

/* ---- a peer that fails ---- */

struct peer {
	int fd, port;
	const char *const *script; /* one answer per request; the last one again and again */
	unsigned n, asked;
	pthread_t thread;
};

#define CLOSE "close"   /* after the request */
#define SILENT "silent" /* no answer */
#define PART "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart"
#define NOT_NOW "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"
#define MISSING "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
#define FINE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define SKEW                                                                \
	"HTTP/1.1 403 Forbidden\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\n" \
	"Content-Length: 48\r\n\r\n<Error><Code>RequestTimeTooSkewed</Code></Error>"
#define ELSEWHERE "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"

/* Reads one request with its body; false when there is none. */
static bool read_request(int fd)
{
	char head[8192];
	size_t n = 0;
	unsigned long left = 0;
	char *end = NULL, *at;

	while (!end) {
		ssize_t k = recv(fd, head + n, sizeof(head) - 1 - n, 0);

		if (k <= 0)
			return false;
		n += (size_t)k;
		head[n] = '\0';
		end = strstr(head, "\r\n\r\n");
	}
	if (strcasestr(head, "Expect: 100"))
		send(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
	at = strcasestr(head, "Content-Length: ");
	if (at)
		left = strtoul(at + 16, NULL, 10);
	for (left -= MIN(left, n - (size_t)(end + 4 - head)); left > 0;) {
		ssize_t k = recv(fd, head, MIN(left, sizeof(head)), 0);

		if (k <= 0)
			return false;
		left -= (unsigned long)k;
	}
	return true;
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;

	for (;;) {
		int fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC);
		char drop[256];

		if (fd < 0)
			return NULL;
		while (read_request(fd)) {
			const char *say = p->script[MIN(p->asked, p->n - 1)];

			p->asked++;
			if (strcmp(say, SILENT) == 0) {
				while (recv(fd, drop, sizeof(drop), 0) > 0)
					;
				break;
			}
			if (strcmp(say, CLOSE) == 0)
				break;
			send(fd, say, strlen(say), MSG_NOSIGNAL);
			if (strcmp(say, PART) == 0)
				break;
		}
		close(fd);
	}
}

static void peer_start(struct peer *p, const char *const *script, unsigned n)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	*p = (struct peer){ .script = script, .n = n };
	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(p->fd, 16), 0);
	assert_int_equal(getsockname(p->fd, (struct sockaddr *)&a, &len), 0);
	p->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
}

static void peer_stop(struct peer *p)
{
	shutdown(p->fd, SHUT_RDWR);
	pthread_join(p->thread, NULL);
	close(p->fd);
}

static struct objects *to_peer(const struct peer *p)
{
	char url[100];
	struct objects_conf c = { .url = url,
		                  .key_id = "id",
		                  .secret = "s",
		                  .credentials = "",
		                  .cluster = "cl-ours",
		                  .transfers = 2,
		                  .stall_ms = 1000,
		                  .pause_ms = 4 };
	struct objects *o = NULL;

	snprintf(url, sizeof(url), "s3://bucket?endpoint=http://127.0.0.1:%d", p->port);
	OK(objects_open(&c, &o, &err));
	return o;
}

static int ask(struct objects *o, enum s3_method method, struct err *e)
{
	struct s3_req q = { .method = method, .key = "a/b", .max = 4096 };
	autobuf struct buf reply = { 0 };
	LOCK_SCOPE(&o->misc);

	if (method == S3_PUT) {
		q.body = "body";
		q.n = 4;
	}
	return objects_ask(o, o->curl, &q, &reply, e);
}

static void failures_of_the_peer(void **state)
{
	static const char *const tries[] = { NOT_NOW, CLOSE, PART, FINE };
	static const struct {
		const char *say;
		int r;
		unsigned asked;
		const char *text;
	} cases[] = {
		{ NOT_NOW, -EHOSTUNREACH, 4, "answered 503" },
		{ CLOSE, -EHOSTUNREACH, 4, "cannot be reached" },
		{ PART, -EHOSTUNREACH, 4, "cannot be reached" },
		{ SILENT, -EHOSTUNREACH, 4, "cannot be reached" },
		{ MISSING, -ENOENT, 1, "there is no object 'a/b'" },
		{ SKEW, -ETIME, 1, "the clocks are apart" },
		{ ELSEWHERE, -EINVAL, 1, "redirect" },
	};
	struct objects_status st;
	struct objects *o;
	struct peer p;

	for (int method = S3_GET; method <= S3_DELETE; method++) {
		peer_start(&p, tries, ARRAY_SIZE(tries));
		o = to_peer(&p);
		OK(ask(o, method, &err));
		assert_int_equal(p.asked, 4);
		objects_close(o);
		peer_stop(&p);
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		peer_start(&p, &cases[i].say, 1);
		o = to_peer(&p);
		FAILS(cases[i].r, ask(o, S3_GET, &err));
		assert_non_null(strstr(err.msg, cases[i].text));
		assert_true(p.asked == cases[i].asked);
		objects_status(o, &st);
		assert_int_equal(st.failing, cases[i].r != -ENOENT);
		objects_close(o);
		peer_stop(&p);
	}
}

/* A server that takes what is put and has nothing of it; one that is gone; the end of ours. */
static void what_cannot_be_claimed(void **state)
{
	static const char *const nothing[] = { MISSING };
	static const char *const silent[] = { SILENT };
	struct objects_transfer t = { .put = false, .name = "layers/ly-a", .bytes = 1 };
	struct objects *o;
	struct peer p;

	peer_start(&p, nothing, 1);
	o = to_peer(&p);
	FAILS(-EHOSTUNREACH, objects_claim(o, &err));
	FAILS(-EHOSTUNREACH, objects_begin(o, &t, &err));
	objects_close(o);
	peer_stop(&p);
	o = to_peer(&p); /* nobody listens there any more */
	FAILS(-EHOSTUNREACH, objects_claim(o, &err));
	objects_end(o);
	FAILS(-ECANCELED, objects_claim(o, &err));
	objects_close(o);
	peer_start(&p, silent, 1);
	o = to_peer(&p);
	objects_end(o);
	FAILS(-ECANCELED, ask(o, S3_GET, &err));
	objects_close(o);
	peer_stop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_comes_back),
		cmocka_unit_test(anything_else_does_not_open),
		cmocka_unit_test(nothing_of_it_can_be_read),
		cmocka_unit_test(errors_and_lists),
		cmocka_unit_test(settings),
		cmocka_unit_test(failures_of_the_peer),
		cmocka_unit_test(what_cannot_be_claimed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
