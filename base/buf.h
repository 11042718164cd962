/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/buf.h - growing byte buffer (writer) and bounded cursor (reader)
 *
 * Bytes from outside are read only through struct rd: every getter checks the
 * bounds, sets a sticky error on the first overrun, and rd_end() makes
 * leftovers an error. Integers are big endian on the wire.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *p; /* owned */
	size_t len, cap;
	bool failed; /* an allocation failed: later puts do nothing */
};

void buf_done(struct buf *b);
static inline void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}
/* Room for n more bytes; NULL when out of memory. The caller adds to len itself. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
/* u32 length, then the bytes. */
void buf_put_str(struct buf *b, const char *s);
void buf_put_blob(struct buf *b, const void *p, size_t n);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* NUL-terminates and returns the text, which the caller frees; NULL when failed. */
char *buf_take_str(struct buf *b);
#define autobuf __attribute__((cleanup(buf_done)))

struct rd {
	const uint8_t *p;
	size_t left;
	bool bad; /* sticky */
};

static inline struct rd rd_of(const void *p, size_t n)
{
	return (struct rd){ .p = (const uint8_t *)p, .left = n };
}
int rd_u8(struct rd *c, uint8_t *ret); /* 0 or -EBADMSG, all of them */
int rd_u16(struct rd *c, uint16_t *ret);
int rd_u32(struct rd *c, uint32_t *ret);
int rd_u64(struct rd *c, uint64_t *ret);
/* Points into the input; longer than max is -EBADMSG. */
int rd_blob(struct rd *c, size_t max, const uint8_t **ret, size_t *ret_len);
/* As rd_blob, copied and NUL-terminated into dst[size]; a NUL inside is -EBADMSG. */
int rd_str(struct rd *c, char *dst, size_t size);
int rd_bytes(struct rd *c, void *dst, size_t n);
int rd_end(struct rd *c);

static inline void put_be32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static inline uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void put_be16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline uint16_t get_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}
