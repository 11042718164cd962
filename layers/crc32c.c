/* SPDX-License-Identifier: MIT */
/*
 * crc32c.c - the checksum of layer files
 *
 * Theory of operation: the SSE4.2 instruction takes eight bytes in three cycles but can be started
 * every cycle, so long input is cut into three equal streams that run side by side. Their results
 * are joined by shifting the first two over the bytes that follow them; shifting over a fixed
 * number of zero bytes is linear in the crc, hence four look-ups in a table made for that distance.
 * Short input and CPUs without the instruction take the plain paths. The tables are made once;
 * making them twice at the same time would write the same values, but a once-flag keeps it orderly.
 */
#include "layers/format.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define POLY 0x82f63b78u            /* Castagnoli, bits reversed */
#define STREAM_BYTES ((size_t)1360) /* three of them plus 16 bytes make a page */

static uint32_t byte_table[8][256];                          /* slicing by eight */
static uint32_t shift_table[4][256] __attribute__((unused)); /* crc over STREAM_BYTES zeros */
static bool have_sse42;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t soft(uint32_t crc, const uint8_t *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8)
		crc = byte_table[7][(crc ^ p[0]) & 0xff] ^
		      byte_table[6][((crc >> 8) ^ p[1]) & 0xff] ^
		      byte_table[5][((crc >> 16) ^ p[2]) & 0xff] ^
		      byte_table[4][((crc >> 24) ^ p[3]) & 0xff] ^ byte_table[3][p[4]] ^
		      byte_table[2][p[5]] ^ byte_table[1][p[6]] ^ byte_table[0][p[7]];
	for (; n > 0; n--, p++)
		crc = (crc >> 8) ^ byte_table[0][(crc ^ *p) & 0xff];
	return crc;
}

static void make_tables(void)
{
	static const uint8_t zeros[STREAM_BYTES];

	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) ? POLY : 0);
		byte_table[0][b] = crc;
	}
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 1; k < 8; k++)
			byte_table[k][b] = (byte_table[k - 1][b] >> 8) ^
			                   byte_table[0][byte_table[k - 1][b] & 0xff];
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 0; k < 4; k++)
			shift_table[k][b] = soft(b << (8 * k), zeros, sizeof(zeros));
#if defined(__x86_64__)
	have_sse42 = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

#if defined(__x86_64__)
static uint32_t shift(uint32_t crc)
{
	return shift_table[0][crc & 0xff] ^ shift_table[1][(crc >> 8) & 0xff] ^
	       shift_table[2][(crc >> 16) & 0xff] ^ shift_table[3][crc >> 24];
}

static uint64_t word(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

__attribute__((target("sse4.2"))) static uint32_t hard(uint32_t crc, const uint8_t *p, size_t n)
{
	uint64_t a = crc, b, c;

	static_assert(STREAM_BYTES % 8 == 0, "streams are whole words");
	for (; n >= 3 * STREAM_BYTES; n -= 3 * STREAM_BYTES, p += 3 * STREAM_BYTES) {
		b = 0;
		c = 0;
		for (size_t i = 0; i < STREAM_BYTES; i += 8) {
			a = _mm_crc32_u64(a, word(p + i));
			b = _mm_crc32_u64(b, word(p + STREAM_BYTES + i));
			c = _mm_crc32_u64(c, word(p + 2 * STREAM_BYTES + i));
		}
		a = shift((uint32_t)a) ^ b;
		a = shift((uint32_t)a) ^ c;
	}
	for (; n >= 8; n -= 8, p += 8)
		a = _mm_crc32_u64(a, word(p));
	for (; n > 0; n--, p++)
		a = _mm_crc32_u8((uint32_t)a, *p);
	return (uint32_t)a;
}
#endif

uint32_t layer_crc32c_soft(uint32_t crc, const void *data, size_t n)
{
	pthread_once(&once, make_tables);
	return ~soft(~crc, data, n);
}

uint32_t layer_crc32c(uint32_t crc, const void *data, size_t n)
{
	pthread_once(&once, make_tables);
#if defined(__x86_64__)
	if (have_sse42)
		return ~hard(~crc, data, n);
#endif
	return ~soft(~crc, data, n);
}
