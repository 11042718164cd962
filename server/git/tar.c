/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.c - reads plain tar, piece by piece
 *
 * What comes in was written by bsdtar or git archive, but from what strangers sent: ustar with
 * GNU's and POSIX's extensions for long names, and nothing is believed. Files, symbolic links and
 * hard links are told about; directories are what files stand in; devices and the like are left
 * out.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/import.h"

#define BLOCK 512u
#define LONG_MAX_BYTES 65536u /* of an extended header */

enum state { STATE_HEADER, STATE_DATA, STATE_EXTRA, STATE_SKIP, STATE_END };

struct tar {
	const struct tar_ops *ops;
	void *ctx;
	enum state state;
	uint8_t block[BLOCK];
	size_t n; /* bytes in block */
	uint64_t left, pad;
	char extra_type;
	struct buf extra;
	struct tar_entry e;
	char long_path[PATH_MAX], long_target[PATH_MAX]; /* for the next entry, or "" */
	unsigned zeros;
};

struct tar *tar_new(const struct tar_ops *ops, void *ctx)
{
	struct tar *t = calloc(1, sizeof(*t));

	if (t) {
		t->ops = ops;
		t->ctx = ctx;
	}
	return t;
}

struct tar *tar_free(struct tar *t)
{
	if (t)
		buf_done(&t->extra);
	free(t);
	return NULL;
}

static int bad(struct err *err, const char *why)
{
	return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST, "the archive is damaged: %s", why);
}

/* Octal text, or base 256 when the first bit is set. */
static bool number(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (p[0] & 0x80) {
		if (p[0] != 0x80)
			return false;
		for (size_t i = 1; i < n; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | p[i];
		}
		*ret = v;
		return v <= INT64_MAX;
	}
	while (n && *p == ' ')
		p++, n--;
	for (; n && *p >= '0' && *p <= '7'; p++, n--) {
		if (v >> 60)
			return false;
		v = v << 3 | (uint64_t)(*p - '0');
	}
	*ret = v;
	return n == 0 || *p == '\0' || *p == ' ';
}

static bool checksum_ok(const uint8_t *b)
{
	uint64_t want, sum = 0;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : b[i];
	return number(b + 148, 8, &want) && want == sum;
}

static void take_text(char *dst, size_t size, const uint8_t *p, size_t n)
{
	size_t k = strnlen((const char *)p, n);

	snprintf(dst, size, "%.*s", (int)MIN(k, size - 1), (const char *)p);
}

static void name_entry(struct tar *t)
{
	const uint8_t *b = t->block;
	char prefix[160];

	if (*t->long_path) {
		memcpy(t->e.path, t->long_path, sizeof(t->e.path));
	} else {
		take_text(t->e.path, 101, b, 100);
		if (memcmp(b + 257, "ustar\0", 6) == 0 && b[345]) {
			char name[104];

			memcpy(name, t->e.path, sizeof(name));
			name[103] = '\0';
			take_text(prefix, sizeof(prefix), b + 345, 155);
			snprintf(t->e.path, sizeof(t->e.path), "%s/%s", prefix, name);
		}
	}
	if (*t->long_target)
		memcpy(t->e.target, t->long_target, sizeof(t->e.target));
	else
		take_text(t->e.target, 101, b + 157, 100);
	t->long_path[0] = t->long_target[0] = '\0';
}

static int begin_entry(struct tar *t, uint64_t size, struct err *err)
{
	uint64_t mode;
	char type = (char)t->block[156];

	name_entry(t);
	t->e.executable = number(t->block + 100, 8, &mode) && (mode & 0100);
	t->e.size = size;
	t->left = size;
	t->state = STATE_SKIP;
	switch (type) {
	case '0':
	case '7':
	case '\0':
		if (t->e.path[0] && t->e.path[strlen(t->e.path) - 1] == '/')
			return 0;
		t->e.type = TAR_FILE;
		t->state = STATE_DATA;
		return t->ops->entry(t->ctx, &t->e, err);
	case '1':
	case '2':
		t->e.type = type == '1' ? TAR_HARDLINK : TAR_LINK;
		t->e.size = 0;
		return t->ops->entry(t->ctx, &t->e, err);
	default:
		return 0;
	}
}

static int on_header(struct tar *t, struct err *err)
{
	static const uint8_t zero[BLOCK];
	uint64_t size;
	char type = (char)t->block[156];

	if (memcmp(t->block, zero, BLOCK) == 0) {
		if (++t->zeros == 2)
			t->state = STATE_END;
		return 0;
	}
	t->zeros = 0;
	if (!checksum_ok(t->block))
		return bad(err, "a header's checksum is wrong");
	if (!number(t->block + 124, 12, &size))
		return bad(err, "a size is not a number");
	t->pad = (BLOCK - size % BLOCK) % BLOCK;
	if (type == 'L' || type == 'K' || type == 'x' || type == 'g') {
		if (size > LONG_MAX_BYTES)
			return bad(err, "a name is too long");
		t->extra_type = type;
		t->left = size;
		t->state = STATE_EXTRA;
		buf_reset(&t->extra);
		return 0;
	}
	return begin_entry(t, size, err);
}

/* "27 path=some/long/name\n", again and again. */
static int read_pax(struct tar *t, struct err *err)
{
	const char *p = (char *)t->extra.p, *end = p + t->extra.len;

	while (p < end) {
		char *sp;
		unsigned long len = strtoul(p, &sp, 10);
		const char *key, *value;
		char *dst = NULL;

		if (sp >= end || *sp != ' ' || len < 5 || len > (size_t)(end - p) ||
		    p[len - 1] != '\n')
			return bad(err, "an extended header is malformed");
		key = sp + 1;
		value = memchr(key, '=', (size_t)(p + len - key));
		if (!value)
			return bad(err, "an extended header is malformed");
		if (value - key == 4 && memcmp(key, "path", 4) == 0)
			dst = t->long_path;
		else if (value - key == 8 && memcmp(key, "linkpath", 8) == 0)
			dst = t->long_target;
		if (dst)
			take_text(dst, PATH_MAX, (const uint8_t *)value + 1,
			          (size_t)(p + len - 1 - value - 1));
		p += len;
	}
	return 0;
}

static int end_extra(struct tar *t, struct err *err)
{
	buf_put_u8(&t->extra, '\0');
	if (t->extra.failed)
		return err_set(err, -ENOMEM, "out of memory");
	t->extra.len--;
	if (t->extra_type == 'L')
		take_text(t->long_path, PATH_MAX, t->extra.p, t->extra.len);
	else if (t->extra_type == 'K')
		take_text(t->long_target, PATH_MAX, t->extra.p, t->extra.len);
	else if (t->extra_type == 'x')
		return read_pax(t, err);
	return 0;
}

/* Bytes of what a header announced; how many were taken. */
static int take_body(struct tar *t, const uint8_t *p, size_t n, size_t *ret, struct err *err)
{
	size_t k = (size_t)MIN(t->left, (uint64_t)n);
	int r = 0;

	if (t->left == 0) { /* padding */
		k = (size_t)MIN(t->pad, (uint64_t)n);
		t->pad -= k;
		*ret = k;
		if (t->pad == 0)
			t->state = STATE_HEADER;
		return 0;
	}
	if (t->state == STATE_DATA)
		r = t->ops->data(t->ctx, p, k, err);
	else if (t->state == STATE_EXTRA)
		buf_put(&t->extra, p, k);
	t->left -= k;
	*ret = k;
	return r;
}

/* The last byte of a body was seen. */
static int end_body(struct tar *t, struct err *err)
{
	enum state was = t->state;

	t->state = t->pad ? STATE_SKIP : STATE_HEADER;
	if (was == STATE_DATA)
		return t->ops->end(t->ctx, err);
	return was == STATE_EXTRA ? end_extra(t, err) : 0;
}

int tar_feed(struct tar *t, const uint8_t *p, size_t n, struct err *err)
{
	int r = 0;

	while (n && r == 0) {
		size_t k = 0;

		if (t->state == STATE_END)
			return 0;
		if (t->state == STATE_HEADER) {
			k = MIN(n, BLOCK - t->n);
			memcpy(t->block + t->n, p, k);
			t->n += k;
			if (t->n == BLOCK) {
				t->n = 0;
				r = on_header(t, err);
				if (r == 0 && t->state != STATE_HEADER && t->state != STATE_END &&
				    t->left == 0)
					r = end_body(t, err);
			}
		} else {
			bool body = t->left > 0;

			r = take_body(t, p, n, &k, err);
			if (r == 0 && body && t->left == 0)
				r = end_body(t, err);
		}
		p += k;
		n -= k;
	}
	return r;
}

int tar_finish(struct tar *t, struct err *err)
{
	if (t->state == STATE_END || (t->state == STATE_HEADER && t->n == 0))
		return 0;
	return bad(err, "it is truncated");
}
