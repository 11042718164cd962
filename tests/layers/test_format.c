/* SPDX-License-Identifier: MIT */
/*
 * test_format.c - the layer file format: round trips, checksums, hostile files, merging
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layers/format.h"

#define PAGE ((uint64_t)LAYER_PAGE)
#define MEM (64 * PAGE)

/* --- crc32c --- */

static void test_crc_known(void **state)
{
	uint8_t zeros[32] = { 0 }, ones[32], up[32];

	memset(ones, 0xff, sizeof(ones));
	for (size_t i = 0; i < sizeof(up); i++)
		up[i] = (uint8_t)i;
	/* RFC 3720, B.4 */
	assert_int_equal(layer_crc32c(0, zeros, 32), 0x8a9136aa);
	assert_int_equal(layer_crc32c(0, ones, 32), 0x62a8ab43);
	assert_int_equal(layer_crc32c(0, up, 32), 0x46dd794e);
	assert_int_equal(layer_crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(layer_crc32c_soft(0, "123456789", 9), 0xe3069283);
	assert_int_equal(layer_crc32c(0, "", 0), 0);
}

static void test_crc_hard_is_soft(void **state)
{
	static uint8_t buf[20000];
	uint32_t x = 1;

	for (size_t i = 0; i < sizeof(buf); i++) {
		x = x * 1664525 + 1013904223;
		buf[i] = (uint8_t)(x >> 24);
	}
	/* around the lengths where the three streams begin and end, at odd addresses */
	for (size_t n = 0; n < sizeof(buf) - 8; n += n < 40 || (n > 4070 && n < 4100) ? 1 : 397)
		for (size_t off = 0; off < 8; off += 3) {
			uint32_t soft = layer_crc32c_soft(7, buf + off, n);

			assert_int_equal(layer_crc32c(7, buf + off, n), soft);
			/* in two parts */
			assert_int_equal(layer_crc32c(layer_crc32c(7, buf + off, n / 3),
			                              buf + off + n / 3, n - n / 3),
			                 soft);
		}
}

/* --- encode and decode --- */

struct file {
	struct layer_info info;
	struct layer_extent rows[8];
	uint8_t page[LAYER_PAGE];
	uint8_t table[8 * sizeof(struct layer_disk_extent)];
};

/* Three extents: two pages of data, four of zeros, one of data. */
static void file_init(struct file *f)
{
	*f = (struct file){ .info = { .mem_bytes = MEM, .n_extents = 3, .data_pages = 3 } };
	f->rows[0] = (struct layer_extent){ 0, PAGE, 2 * PAGE, 0 };
	f->rows[1] = (struct layer_extent){ 4 * PAGE, 0, 4 * PAGE, LAYER_EXTENT_ZERO };
	f->rows[2] = (struct layer_extent){ MEM - PAGE, 3 * PAGE, PAGE, 0 };
	f->info.data_crc = 0x12345678;
}

static uint64_t file_size(const struct file *f)
{
	return layer_table_off(&f->info) + layer_table_bytes(&f->info);
}

/* Encode as it stands, right checksums included, then decode; the decoder's word. */
static int file_check(struct file *f, const char **ret_why)
{
	struct layer_info info;
	struct layer_extent rows[8];
	int r;

	f->info.table_crc = layer_table_encode(f->rows, f->info.n_extents, f->table);
	layer_header_encode(&f->info, f->page);
	r = layer_header_decode(f->page, file_size(f), &info, ret_why);
	if (r < 0)
		return r;
	r = layer_table_decode(&info, f->table, layer_table_bytes(&info), rows, ret_why);
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < info.n_extents; i++) {
		assert_int_equal(rows[i].guest_off, f->rows[i].guest_off);
		assert_int_equal(rows[i].file_off, f->rows[i].file_off);
		assert_int_equal(rows[i].len, f->rows[i].len);
		assert_int_equal(rows[i].flags, f->rows[i].flags);
	}
	assert_int_equal(info.mem_bytes, f->info.mem_bytes);
	assert_int_equal(info.data_crc, f->info.data_crc);
	return 0;
}

static void test_round_trip(void **state)
{
	const char *why = NULL;
	struct file f;

	file_init(&f);
	assert_int_equal(file_check(&f, &why), 0);
	/* no extents at all: a freeze without a dirty page */
	f.info.n_extents = 0;
	f.info.data_pages = 0;
	assert_int_equal(file_check(&f, &why), 0);
}

static void test_bytes_on_disk(void **state)
{
	static const uint8_t head[] = "PNDOLAY1\1\0\0\0\0\20\0\0\0\0\4\0\0\0\0\0\3\0\0\0\0\0\0\0"
	                              "\0\100\0\0\0\0\0\0\3\0\0\0\0\0\0";
	static const uint8_t row[] = "\0\100\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\100\0\0\0\0\0\0\1\0\0\0"
	                             "\0\0\0";
	const char *why;
	struct file f;

	file_init(&f);
	assert_int_equal(file_check(&f, &why), 0);
	assert_memory_equal(f.page, head, sizeof(head));
	assert_memory_equal(f.table + sizeof(struct layer_disk_extent), row, sizeof(row));
}

static void test_any_flipped_bit_is_found(void **state)
{
	const char *why;
	struct file f;
	struct layer_info info;
	struct layer_extent rows[8];

	file_init(&f);
	assert_int_equal(file_check(&f, &why), 0);
	for (size_t i = 0; i < LAYER_PAGE; i++) {
		f.page[i] ^= (uint8_t)(1u << (i % 8));
		why = NULL;
		assert_int_equal(layer_header_decode(f.page, file_size(&f), &info, &why), -EBADMSG);
		assert_non_null(why);
		f.page[i] ^= (uint8_t)(1u << (i % 8));
	}
	assert_int_equal(layer_header_decode(f.page, file_size(&f), &info, &why), 0);
	for (size_t i = 0; i < layer_table_bytes(&info); i++) {
		f.table[i] ^= (uint8_t)(1u << (i % 8));
		assert_int_equal(
		        layer_table_decode(&info, f.table, layer_table_bytes(&info), rows, &why),
		        -EBADMSG);
		f.table[i] ^= (uint8_t)(1u << (i % 8));
	}
}

static void test_torn_and_cut_files(void **state)
{
	uint8_t zeros[LAYER_PAGE] = { 0 };
	struct layer_info info;
	const char *why;
	struct file f;

	file_init(&f);
	assert_int_equal(file_check(&f, &why), 0);
	/* the header is written last: before that the page is a hole */
	assert_int_equal(layer_header_decode(zeros, file_size(&f), &info, &why), -EBADMSG);
	for (uint64_t n = 0; n < file_size(&f); n += 61)
		assert_int_equal(layer_header_decode(f.page, n, &info, &why), -EBADMSG);
	assert_int_equal(layer_header_decode(f.page, file_size(&f) + 1, &info, &why), -EBADMSG);
}

/* Each row: a change that must be refused although all checksums are right. */
static void test_hostile_files(void **state)
{
#define HOSTILE(change)                                           \
	do {                                                      \
		const char *why = NULL;                           \
		struct file f;                                    \
                                                                  \
		file_init(&f);                                    \
		change;                                           \
		assert_int_equal(file_check(&f, &why), -EBADMSG); \
		assert_non_null(why);                             \
	} while (0)

	HOSTILE(f.info.mem_bytes = 0);
	HOSTILE(f.info.mem_bytes = MEM + 1);
	HOSTILE(f.info.mem_bytes = LAYER_MEM_MAX + PAGE);
	HOSTILE(f.info.mem_bytes = MEM - PAGE); /* last extent sticks out */
	HOSTILE(f.info.data_pages = 2);
	HOSTILE(f.info.data_pages = 4);
	HOSTILE(f.info.data_pages = MEM / PAGE + 1);
	HOSTILE(f.info.data_pages = UINT64_MAX / PAGE);
	HOSTILE(f.info.data_pages = UINT64_MAX);
	HOSTILE(f.rows[0].guest_off = 1);
	HOSTILE(f.rows[0].guest_off = UINT64_MAX - PAGE + 1);
	HOSTILE(f.rows[0].len = 0);
	HOSTILE(f.rows[0].len = 2 * PAGE + 512);
	HOSTILE(f.rows[0].len = UINT64_MAX - PAGE + 1);
	HOSTILE(f.rows[0].len = 5 * PAGE); /* overlaps */
	HOSTILE(f.rows[1].guest_off = PAGE);
	HOSTILE(f.rows[1].guest_off = 0);
	HOSTILE(f.rows[1].len = MEM);                       /* beyond memory */
	HOSTILE(f.rows[1].len = UINT64_MAX - 4 * PAGE + 1); /* end wraps to 0 */
	HOSTILE(f.rows[1].file_off = PAGE);
	HOSTILE(f.rows[1].flags = 0);
	HOSTILE(f.rows[1].flags = 2);
	HOSTILE(f.rows[1].flags = 0x80000001);
	HOSTILE(f.rows[2].file_off = 0);        /* the header as data */
	HOSTILE(f.rows[2].file_off = PAGE);     /* the same data twice */
	HOSTILE(f.rows[2].file_off = 4 * PAGE); /* the table as data */
	HOSTILE(f.rows[2].file_off = 3 * PAGE + 8);
	HOSTILE(f.rows[2].file_off = UINT64_MAX - PAGE + 1);
	HOSTILE(f.rows[2].guest_off = MEM);
	HOSTILE(f.rows[2].flags = LAYER_EXTENT_ZERO; f.rows[2].file_off = 0);
#undef HOSTILE
}

/* What the encoder cannot express: written into the encoded page, header checksum renewed. */
static void test_hostile_headers(void **state)
{
	static const struct {
		size_t off;
		uint64_t value;
	} cases[] = {
		{ offsetof(struct layer_disk_header, page_size), 8192 },
		{ offsetof(struct layer_disk_header, version), 2 },
		{ offsetof(struct layer_disk_header, n_extents), LAYER_EXTENTS_MAX + 1 },
		{ offsetof(struct layer_disk_header, n_extents), UINT64_MAX },
		{ offsetof(struct layer_disk_header, n_extents), UINT64_MAX / 32 + 1 },
		{ offsetof(struct layer_disk_header, table_off), 0 },
		{ offsetof(struct layer_disk_header, table_off), 3 * (uint64_t)LAYER_PAGE },
		{ offsetof(struct layer_disk_header, table_off), UINT64_MAX },
		{ offsetof(struct layer_disk_header, reserved), 1 },
		{ LAYER_PAGE - 12, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct layer_info info;
		const char *why = NULL;
		struct file f;
		uint32_t crc;

		file_init(&f);
		assert_int_equal(file_check(&f, &why), 0);
		memcpy(f.page + cases[i].off, &cases[i].value, 8);
		crc = htole32(layer_crc32c(0, f.page, LAYER_PAGE - 4));
		memcpy(f.page + LAYER_PAGE - 4, &crc, 4);
		why = NULL;
		assert_int_equal(layer_header_decode(f.page, file_size(&f), &info, &why), -EBADMSG);
		assert_non_null(why);
	}
}

/* --- merging --- */

/* What page @p is according to a stack, the slow way: layer + 1 and file page, or 0. */
static uint64_t page_by_hand(const struct layer_table *stack, size_t n, uint64_t page)
{
	for (size_t l = n; l-- > 0;)
		for (size_t i = 0; i < stack[l].n; i++) {
			const struct layer_extent *e = &stack[l].extents[i];
			uint64_t at = page * PAGE;

			if (at < e->guest_off || at >= e->guest_off + e->len)
				continue;
			if (e->flags & LAYER_EXTENT_ZERO)
				return 0;
			return (l + 1) << 32 | (e->file_off + at - e->guest_off) / PAGE;
		}
	return 0;
}

static void check_stack(const struct layer_table *stack, size_t n_layers, uint64_t n_pages)
{
	for (int keep_zero = 0; keep_zero < 2; keep_zero++) {
		uint64_t *found = calloc(n_pages, sizeof(*found)), end = 0;
		struct layer_piece *pieces;
		size_t n;

		assert_non_null(found);
		assert_int_equal(layer_stack_merge(stack, n_layers, keep_zero, &pieces, &n), 0);
		for (size_t i = 0; i < n; i++) {
			const struct layer_piece *p = &pieces[i];

			assert_true(p->guest_off >= end && p->len > 0);
			end = p->guest_off + p->len;
			assert_true(end <= n_pages * PAGE);
			if (p->flags & LAYER_EXTENT_ZERO) {
				assert_true(keep_zero);
				continue;
			}
			for (uint64_t k = 0; k < p->len / PAGE; k++)
				found[p->guest_off / PAGE + k] =
				        (uint64_t)(p->layer + 1) << 32 | (p->file_off / PAGE + k);
		}
		for (uint64_t p = 0; p < n_pages; p++)
			assert_int_equal(found[p], page_by_hand(stack, n_layers, p));
		free(pieces);
		free(found);
	}
}

static uint32_t below(uint32_t *x, uint32_t n)
{
	*x = *x * 1664525 + 1013904223;
	return (*x >> 16) % n;
}

static void test_merge_random(void **state)
{
	uint32_t x = 4711;

	for (int round = 0; round < 300; round++) {
		static struct layer_extent rows[5][40];
		struct layer_table stack[5];
		size_t n_layers = 1 + below(&x, 5);

		for (size_t l = 0; l < n_layers; l++) {
			uint64_t at = below(&x, 6), off = 1;

			stack[l] = (struct layer_table){ rows[l], 0 };
			while (at < 100 && stack[l].n < 40) {
				uint64_t len = 1 + below(&x, 7);
				uint32_t zero = below(&x, 4) == 0;

				if (at + len > 110)
					break;
				rows[l][stack[l].n++] = (struct layer_extent){
					.guest_off = at * PAGE,
					.file_off = zero ? 0 : off * PAGE,
					.len = len * PAGE,
					.flags = zero,
				};
				off += zero ? 0 : len;
				at += len;
				if (below(&x, 2))
					at += below(&x, 8);
			}
		}
		check_stack(stack, n_layers, 110);
	}
}

static void test_merge_joins_neighbours(void **state)
{
	const struct layer_extent rows[] = {
		{ 0, PAGE, PAGE, 0 },
		{ PAGE, 2 * PAGE, PAGE, 0 },
		{ 2 * PAGE, 0, PAGE, LAYER_EXTENT_ZERO },
	};
	const struct layer_table stack = { rows, 3 };
	struct layer_piece *pieces;
	size_t n;

	assert_int_equal(layer_stack_merge(&stack, 1, /* keep_zero= */ 0, &pieces, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(pieces[0].len, 2 * PAGE);
	free(pieces);
	assert_int_equal(layer_stack_merge(NULL, 0, /* keep_zero= */ 0, &pieces, &n), 0);
	assert_int_equal(n, 0);
	free(pieces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc_known),
		cmocka_unit_test(test_crc_hard_is_soft),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_bytes_on_disk),
		cmocka_unit_test(test_any_flipped_bit_is_found),
		cmocka_unit_test(test_torn_and_cut_files),
		cmocka_unit_test(test_hostile_files),
		cmocka_unit_test(test_hostile_headers),
		cmocka_unit_test(test_merge_random),
		cmocka_unit_test(test_merge_joins_neighbours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
