/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_objects.c - what an object store answers, and its setting, on arbitrary bytes
 *
 * The first byte chooses: a list, an error, an object, the URL of the setting. An accepted list has
 * keys that end, and a token if there is more; an error's texts are printable. Nobody but us can
 * make an object that opens, so an object is made here first and the input changes it: whatever
 * differs in a bit is rejected, and what is the same gives the same bytes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "objects/objects_internal.h"

#define PLAIN 300 /* bytes of the chunk that is changed */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void list(const uint8_t *data, size_t size)
{
	AUTO(s3_list_done) struct s3_list l = { 0 };
	struct err err = { 0 };

	if (s3_list_parse(data, size, &l, &err) < 0) {
		must(*err.msg && !l.keys);
		return;
	}
	must(l.n <= S3_LIST_MAX && (!l.more || *l.token) && memchr(l.token, 0, sizeof(l.token)));
	for (size_t i = 0; i < l.n; i++)
		must(memchr(l.keys[i], 0, S3_KEY_SIZE));
}

static void printable(const char *s, size_t size)
{
	size_t n = strnlen(s, size);

	must(n < size);
	for (size_t i = 0; i < n; i++)
		must(s[i] >= ' ' && s[i] < 127);
}

static void error(const uint8_t *data, size_t size)
{
	struct s3_error e;

	s3_error_parse(data, size, &e);
	printable(e.code, sizeof(e.code));
	printable(e.message, sizeof(e.message));
}

/* Pairs of place and value over an object that is good. */
static void object(const uint8_t *data, size_t size)
{
	static const uint8_t key[OBJECT_KEY_BYTES] = { 5 };
	struct chunk c = { "layers/ly-fuzz", 0, 1, PLAIN, key };
	uint8_t plain[PLAIN], back[PLAIN];
	autofree uint8_t *o = NULL;
	autofree uint8_t *was = NULL;
	struct err err = { 0 };
	size_t n = 0, cut;
	bool zeros;
	int r;

	for (size_t i = 0; i < PLAIN; i++)
		plain[i] = (uint8_t)(i / 7);
	must(chunk_seal(&c, plain, &o, &n, &err) == 0);
	was = malloc(n);
	must(was != NULL);
	memcpy(was, o, n);
	for (size_t i = 1; i + 2 < size; i += 3)
		o[(data[i] << 8 | data[i + 1]) % n] ^= data[i + 2];
	cut = size ? data[0] % 8 : 0;
	cut = cut < 7 ? n : n - 1 - data[0] / 8;
	r = chunk_open(&c, memcmp(o, was, n) == 0 ? memcpy(o, was, n) : o, cut, back, &zeros, &err);
	if (r == 0)
		must(cut == n && !zeros && memcmp(plain, back, PLAIN) == 0);
	else
		must(*err.msg);
}

static void setting(const uint8_t *data, size_t size)
{
	autofree char *url = strndup((const char *)data, size);
	struct objects_conf c = { .url = url, .key_id = "id", .secret = "s", .credentials = "" };
	struct s3_place p;
	struct err err = { 0 };

	must(url != NULL);
	if (s3_place_parse(&c, &p, &err) < 0) {
		must(*err.msg);
		return;
	}
	must(strncmp(p.base, "http", 4) == 0 && p.base[strlen(p.base) - 1] == '/' &&
	     strncmp(p.base, p.list, strlen(p.list)) == 0);
	printable(p.base, sizeof(p.base));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const what[])(const uint8_t *, size_t) = { list, error, object, setting };

	if (size)
		what[data[0] % ARRAY_SIZE(what)](data + 1, size - 1);
	return 0;
}
