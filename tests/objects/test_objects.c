/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_objects.c - the client against a real S3 server, which test_objects.py starts
 *
 * PANDO_TEST_S3 is its endpoint; the buckets one, two, full and many are there and empty, and full
 * has something that is not ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/id.h"
#include "objects/objects_internal.h"
#include "tests/unit/check.h"

#define KEY_ID "PANDOTESTKEY"
#define SECRET "pandotestsecret"
#define MANY 1203 /* objects: more than one page of a list */

static const char *endpoint;

static int open_as(const char *bucket, const char *more, const char *id, const char *secret,
                   const char *cluster, struct objects **ret, struct err *e)
{
	char url[300];
	struct objects_conf c = { .url = url,
		                  .key_id = id,
		                  .secret = secret,
		                  .credentials = "",
		                  .cluster = cluster,
		                  .pause_ms = 5 };

	snprintf(url, sizeof(url), "s3://%s?endpoint=%s%s", bucket, endpoint, more);
	return objects_open(&c, ret, e);
}

static struct objects *open_one(const char *bucket)
{
	struct objects *o = NULL;

	OK(open_as(bucket, "", KEY_ID, SECRET, "cl-ours", &o, &err));
	return o;
}

static int memfile(void)
{
	int fd = memfd_create("objects", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void fill(int fd, uint64_t bytes, bool random)
{
	uint8_t block[65536];

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	for (uint64_t at = 0; at < bytes; at += sizeof(block)) {
		size_t n = MIN(bytes - at, sizeof(block));

		/* some of it a hole, some of it text, some of it noise */
		if (!random && at / sizeof(block) % 5 == 0)
			continue;
		memset(block, 'a' + (int)(at / sizeof(block) % 20), sizeof(block));
		if (random || at / sizeof(block) % 5 == 1)
			random_bytes(block, sizeof(block));
		assert_int_equal(pwrite(fd, block, n, (off_t)at), (ssize_t)n);
	}
}

static void same(int a, int b)
{
	static uint8_t x[1 << 20], y[1 << 20];
	struct stat s, t;
	ssize_t n;

	assert_int_equal(fstat(a, &s), 0);
	assert_int_equal(fstat(b, &t), 0);
	assert_int_equal(s.st_size, t.st_size);
	for (off_t at = 0; at < s.st_size; at += n) {
		n = pread(a, x, sizeof(x), at);
		assert_true(n > 0);
		assert_int_equal(pread(b, y, (size_t)n, at), n);
		assert_memory_equal(x, y, (size_t)n);
	}
}

static struct objects_transfer transfer(bool put, const char *name, int fd, uint64_t bytes)
{
	struct objects_transfer t = { .put = put, .fd = fd, .bytes = bytes };

	snprintf(t.name, sizeof(t.name), "%s", name);
	memset(t.key, 7, sizeof(t.key));
	return t;
}

static int move(struct objects *o, bool put, const char *name, int fd, uint64_t bytes,
                struct err *e)
{
	struct objects_transfer t = transfer(put, name, fd, bytes);
	int r = objects_begin(o, &t, e);

	return r < 0 ? r : objects_wait(o, &t, e);
}

static int raw(struct objects *o, enum s3_method method, const char *key, struct buf *body,
               struct buf *reply, struct err *e)
{
	struct s3_req q = { .method = method, .key = key, .max = (size_t)OBJECT_CHUNK * 2 };

	if (body) {
		q.body = body->p;
		q.n = body->len;
	}
	LOCK_SCOPE(&o->misc);
	return objects_ask(o, o->curl, &q, reply, e);
}

static void what_is_put_comes_back(void **state)
{
	static const uint64_t sizes[] = { 0,
		                          1,
		                          4096,
		                          OBJECT_CHUNK - 1,
		                          OBJECT_CHUNK,
		                          OBJECT_CHUNK + 1,
		                          5 * (uint64_t)OBJECT_CHUNK + 12345 };
	struct objects *o = open_one("one");
	struct objects_status st;

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * 2; i++) {
		uint64_t bytes = sizes[i / 2];
		autofd int from = memfile();
		autofd int to = memfile();
		char name[64];

		snprintf(name, sizeof(name), "layers/ly-size%zu", i);
		fill(from, bytes, i % 2);
		OK(move(o, true, name, from, bytes, &err));
		OK(move(o, true, name, from, bytes, &err)); /* again, as after a crash */
		OK(move(o, false, name, to, bytes, &err));
		same(from, to);
		OK(objects_delete(o, name, objects_chunks(bytes), &err));
		OK(objects_delete(o, name, objects_chunks(bytes), &err));
		FAILS(-ENOENT, move(o, false, name, to, bytes, &err));
	}
	objects_status(o, &st);
	assert_true(st.asked && !st.failing);
	objects_close(o);
}

/* Uploads fill the threads; a file that somebody waits for does not wait for them. */
static void many_at_once(void **state)
{
	struct objects *o = open_one("one");
	struct objects_transfer puts[12], reads[4];
	const uint64_t bytes = 2 * (uint64_t)OBJECT_CHUNK;
	autofd int from = memfile();
	char name[64];

	fill(from, bytes, false);
	OK(move(o, true, "layers/ly-read", from, bytes, &err));
	for (size_t i = 0; i < ARRAY_SIZE(puts); i++) {
		snprintf(name, sizeof(name), "layers/ly-put%zu", i);
		puts[i] = transfer(true, name, from, bytes);
		OK(objects_begin(o, &puts[i], &err));
	}
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		reads[i] = transfer(false, "layers/ly-read", memfile(), bytes);
		OK(objects_begin(o, &reads[i], &err));
	}
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		OK(objects_wait(o, &reads[i], &err));
		same(from, reads[i].fd);
		close(reads[i].fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(puts); i++) {
		OK(objects_wait(o, &puts[i], &err));
		OK(objects_delete(o, puts[i].name, 2, &err));
	}
	OK(objects_delete(o, "layers/ly-read", 2, &err));
	objects_close(o);
}

/* Whatever somebody with the keys of the bucket does to objects: an error, never other data. */
static void lying_objects_are_found_out(void **state)
{
	struct objects *o = open_one("one");
	const uint64_t bytes = 3 * (uint64_t)OBJECT_CHUNK;
	autofd int from = memfile();
	autofd int to = memfile();
	autobuf struct buf good = { 0 };
	autobuf struct buf other = { 0 };
	autobuf struct buf reply = { 0 };
	autobuf struct buf bad = { 0 };

	fill(from, bytes, false);
	OK(move(o, true, "layers/ly-a", from, bytes, &err));
	OK(move(o, true, "layers/ly-b", from, bytes, &err));
	OK(raw(o, S3_GET, "layers/ly-a/1", NULL, &good, &err));
	OK(raw(o, S3_GET, "layers/ly-b/1", NULL, &other, &err));

	/* the same chunk of another layer; another chunk of the same layer */
	OK(raw(o, S3_PUT, "layers/ly-a/1", &other, &reply, &err));
	FAILS(-EBADMSG, move(o, false, "layers/ly-a", to, bytes, &err));
	OK(raw(o, S3_PUT, "layers/ly-a/2", &good, &reply, &err));
	OK(raw(o, S3_PUT, "layers/ly-a/1", &good, &reply, &err));
	FAILS(-EBADMSG, move(o, false, "layers/ly-a", to, bytes, &err));

	/* cut, longer, a bit */
	for (int i = 0; i < 3; i++) {
		buf_reset(&bad);
		buf_put(&bad, good.p, i == 0 ? good.len - 1 : good.len);
		if (i == 1)
			buf_put_u8(&bad, 0);
		if (i == 2)
			bad.p[bad.len / 2] ^= 0x10;
		OK(raw(o, S3_PUT, "layers/ly-b/1", &bad, &reply, &err));
		FAILS(-EBADMSG, move(o, false, "layers/ly-b", to, bytes, &err));
	}
	/* a layer of another length has other chunks; and one is missing */
	OK(raw(o, S3_PUT, "layers/ly-b/1", &other, &reply, &err));
	FAILS(-EBADMSG, move(o, false, "layers/ly-b", to, bytes - 1, &err));
	OK(raw(o, S3_DELETE, "layers/ly-b/2", NULL, &reply, &err));
	FAILS(-ENOENT, move(o, false, "layers/ly-b", to, bytes, &err));
	/* another owner's key */
	struct objects_transfer t = transfer(false, "layers/ly-a", to, bytes);

	t.key[31] ^= 1;
	OK(objects_begin(o, &t, &err));
	FAILS(-EBADMSG, objects_wait(o, &t, &err));
	OK(objects_delete(o, "layers/ly-a", 3, &err));
	OK(objects_delete(o, "layers/ly-b", 3, &err));
	objects_close(o);
}

static void whose_bucket_it_is(void **state)
{
	struct objects *o = open_one("two");

	OK(objects_claim(o, &err));
	OK(objects_claim(o, &err));
	objects_close(o);
	OK(open_as("two", "", KEY_ID, SECRET, "cl-theirs", &o, &err));
	FAILS(-EINVAL, objects_claim(o, &err));
	assert_non_null(strstr(err.msg, "belongs to cluster cl-ours"));
	objects_close(o);
	OK(open_as("full", "", KEY_ID, SECRET, "cl-ours", &o, &err));
	FAILS(-EINVAL, objects_claim(o, &err));
	assert_non_null(strstr(err.msg, "is not empty"));
	objects_close(o);
	/* beside what is not ours, under a prefix */
	OK(open_as("full", "&prefix=pando-1", KEY_ID, SECRET, "cl-ours", &o, &err));
	OK(objects_claim(o, &err));
	objects_close(o);
	OK(open_as("full", "&prefix=pando-2", KEY_ID, SECRET, "cl-theirs", &o, &err));
	OK(objects_claim(o, &err));
	objects_close(o);
}

static void refusals_are_sentences(void **state)
{
	struct objects *o = NULL;
	struct objects_status st;

	OK(open_as("one", "", KEY_ID, "wrong", "cl-ours", &o, &err));
	FAILS(-EACCES, objects_claim(o, &err));
	assert_non_null(strstr(err.msg, "refuses the credentials (SignatureDoesNotMatch)"));
	objects_status(o, &st);
	assert_true(st.failing);
	assert_string_equal(st.error, err.msg);
	objects_close(o);
	OK(open_as("one", "", "NOSUCHKEY", SECRET, "cl-ours", &o, &err));
	FAILS(-EACCES, objects_claim(o, &err));
	assert_non_null(strstr(err.msg, "InvalidAccessKeyId"));
	objects_close(o);
	OK(open_as("nobody-made-this", "", KEY_ID, SECRET, "cl-ours", &o, &err));
	FAILS(-ENODEV, objects_claim(o, &err));
	assert_non_null(strstr(err.msg, "there is no bucket 'nobody-made-this'"));
	objects_close(o);
}

struct seen {
	unsigned names, chunks;
};

static int see(void *ctx, const char *name, uint32_t n)
{
	struct seen *s = ctx;

	assert_int_equal(strncmp(name, "layers/ly-", 10), 0);
	s->names++;
	s->chunks += n;
	return 0;
}

static void lists_of_many_pages(void **state)
{
	struct objects *o = NULL;
	autobuf struct buf body = { 0 };
	struct seen seen = { 0 };

	OK(open_as("many", "&prefix=p", KEY_ID, SECRET, "cl-ours", &o, &err));
	OK(objects_claim(o, &err));
	buf_put_str(&body, "x");
	for (unsigned i = 0; i < MANY; i++) {
		autobuf struct buf reply = { 0 };
		char key[64];

		snprintf(key, sizeof(key), "layers/ly-%u/%u", i / 3, i % 3);
		OK(raw(o, S3_PUT, key, &body, &reply, &err));
	}
	OK(objects_list(o, "layers/", see, &seen, &err));
	assert_int_equal(seen.names, MANY / 3);
	assert_int_equal(seen.chunks, MANY);
	seen = (struct seen){ 0 };
	OK(objects_list(o, "points/", see, &seen, &err));
	assert_int_equal(seen.names, 0);
	objects_close(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_comes_back),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(lying_objects_are_found_out),
		cmocka_unit_test(whose_bucket_it_is),
		cmocka_unit_test(refusals_are_sentences),
		cmocka_unit_test(lists_of_many_pages),
	};

	endpoint = getenv("PANDO_TEST_S3");
	if (!endpoint) {
		fprintf(stderr, "PANDO_TEST_S3 is not set: test_objects.py starts a server\n");
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
