/* SPDX-License-Identifier: MIT */
/*
 * fuzz_layer.c - fuzz entry: any bytes as a layer file
 *
 * What decodes must keep every promise of format.h, must survive a round trip through the encoder
 * and must merge. Checksums would hide most inputs from the decoder, so they are made right first
 * (on a copy) unless the input's last byte is odd.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "layers/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)              \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

#define INPUT_MAX (4u << 20) /* bytes; larger inputs find nothing that smaller ones do not */

static void check_extents(const struct layer_info *info, const struct layer_extent *e)
{
	uint64_t guest_end = 0, data = 0;

	for (uint64_t i = 0; i < info->n_extents; i++) {
		CHECK(e[i].guest_off % LAYER_PAGE == 0 && e[i].len % LAYER_PAGE == 0 &&
		      e[i].len > 0);
		CHECK(e[i].guest_off >= guest_end);
		guest_end = e[i].guest_off + e[i].len;
		CHECK(guest_end <= info->mem_bytes);
		if (e[i].flags & LAYER_EXTENT_ZERO)
			continue;
		CHECK(e[i].file_off == LAYER_PAGE + data);
		data += e[i].len;
	}
	CHECK(data == info->data_pages * LAYER_PAGE);
}

static void check_merge(const struct layer_info *info, const struct layer_extent *e)
{
	/* a layer over itself is itself, and hides all of it */
	const struct layer_table stack[] = { { e, info->n_extents }, { e, info->n_extents } };
	struct layer_piece *pieces = NULL;
	uint64_t end = 0, covered = 0, expected = 0;
	size_t n = 0;

	CHECK(layer_stack_merge(stack, 2, /* keep_zero= */ 1, &pieces, &n) == 0);
	for (size_t i = 0; i < n; i++) {
		CHECK(pieces[i].layer == 1 && pieces[i].guest_off >= end && pieces[i].len > 0);
		end = pieces[i].guest_off + pieces[i].len;
		covered += pieces[i].len;
	}
	for (uint64_t i = 0; i < info->n_extents; i++)
		expected += e[i].len;
	CHECK(covered == expected);
	free(pieces);
}

/* Over a layer lies one that has a page of every other extent, as zeros where there was data. */
static void check_cut(const struct layer_info *info, const struct layer_extent *e)
{
	struct layer_extent *top = calloc(info->n_extents + 1, sizeof(*top));
	struct layer_table stack[] = { { e, info->n_extents }, { top, 0 } };
	struct layer_piece *pieces = NULL;
	uint64_t end = 0, covered = 0, expected = 0, above = 0;
	size_t n = 0;

	CHECK(top);
	for (uint64_t i = 0; i < info->n_extents; i++) {
		expected += e[i].len;
		if (i % 2)
			continue;
		top[stack[1].n++] = (struct layer_extent){
			.guest_off = e[i].guest_off + (e[i].len > LAYER_PAGE ? LAYER_PAGE : 0),
			.len = LAYER_PAGE,
			.flags = e[i].flags ^ LAYER_EXTENT_ZERO,
		};
	}
	for (int keep = 0; keep < 2; keep++) {
		covered = above = end = 0;
		CHECK(layer_stack_merge(stack, 2, keep, &pieces, &n) == 0);
		for (size_t i = 0; i < n; i++) {
			CHECK(pieces[i].guest_off >= end && pieces[i].len > 0);
			CHECK(keep || !(pieces[i].flags & LAYER_EXTENT_ZERO));
			end = pieces[i].guest_off + pieces[i].len;
			covered += pieces[i].len;
			above += pieces[i].layer ? pieces[i].len : 0;
		}
		CHECK(keep ? covered == expected : covered <= expected);
		CHECK(above <= stack[1].n * LAYER_PAGE || keep);
		free(pieces);
	}
	free(top);
}

static void check_file(const uint8_t *file, size_t size)
{
	struct layer_info info;
	struct layer_extent *extents;
	const char *why = NULL;
	uint8_t page[LAYER_PAGE], *table;
	size_t n;

	if (layer_header_decode(file, size, &info, &why) < 0) {
		CHECK(why);
		return;
	}
	n = layer_table_bytes(&info);
	CHECK(layer_table_off(&info) + n == size && info.n_extents <= LAYER_EXTENTS_MAX);
	extents = calloc(info.n_extents + 1, sizeof(*extents));
	table = malloc(n + 1);
	CHECK(extents && table);
	if (layer_table_decode(&info, file + layer_table_off(&info), n, extents, &why) == 0) {
		check_extents(&info, extents);
		check_merge(&info, extents);
		check_cut(&info, extents);
		CHECK(n == 0 || layer_table_decode(&info, table, n - 1, extents, &why) < 0);
		CHECK(layer_table_decode(&info, file + layer_table_off(&info), n, extents, &why) ==
		      0);
		CHECK(layer_table_encode(extents, info.n_extents, table) == info.table_crc);
		CHECK(memcmp(table, file + layer_table_off(&info), n) == 0);
		layer_header_encode(&info, page);
		CHECK(memcmp(page, file, LAYER_PAGE) == 0);
	} else {
		CHECK(why);
	}
	free(table);
	free(extents);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct layer_disk_header h;
	uint8_t *file;

	if (size < LAYER_PAGE || size > INPUT_MAX)
		return 0;
	file = malloc(size);
	CHECK(file);
	memcpy(file, data, size);
	if (data[size - 1] % 2 == 0) {
		uint64_t off;

		memcpy(&h, file, sizeof(h));
		off = le64toh(h.table_off);
		if (off <= size)
			h.table_crc = htole32(layer_crc32c(0, file + off, size - off));
		memcpy(file, &h, sizeof(h));
		h.header_crc = htole32(
		        layer_crc32c(0, file, offsetof(struct layer_disk_header, header_crc)));
		memcpy(file, &h, sizeof(h));
	}
	check_file(file, size);
	free(file);
	return 0;
}
