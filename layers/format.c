/* SPDX-License-Identifier: MIT */
/*
 * format.c - encode, decode and validate memory layer files
 *
 * Theory of operation: a file is taken for hostile until it is decoded. The header is checked
 * first, against the real size of the file, so that afterwards every number in it is small enough
 * to be added and multiplied without care; only then is the table read, whose every row is checked
 * against the header and the row before it. Nothing is allocated here.
 */
#include "layers/format.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool page_aligned(uint64_t n)
{
	return n % LAYER_PAGE == 0;
}

static int bad(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EBADMSG;
}

static bool all_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

int layer_header_decode(const uint8_t page[LAYER_PAGE], uint64_t file_size,
                        struct layer_info *ret_info, const char **ret_why)
{
	struct layer_disk_header h;
	struct layer_info info;

	assert(page && ret_info && ret_why);
	memcpy(&h, page, sizeof(h));
	if (memcmp(h.magic, LAYER_MAGIC, sizeof(h.magic)) != 0)
		return bad(ret_why, "not a layer file (magic)");
	if (le32toh(h.version) != LAYER_VERSION)
		return bad(ret_why, "unknown layer version");
	if (le32toh(h.header_crc) !=
	    layer_crc32c(0, page, offsetof(struct layer_disk_header, header_crc)))
		return bad(ret_why, "header checksum");
	if (le32toh(h.page_size) != LAYER_PAGE)
		return bad(ret_why, "page size is not 4096");
	if (!all_zero(h.reserved, sizeof(h.reserved)))
		return bad(ret_why, "reserved bytes in use");

	info.mem_bytes = le64toh(h.mem_bytes);
	info.n_extents = le64toh(h.n_extents);
	info.data_pages = le64toh(h.data_pages);
	info.table_crc = le32toh(h.table_crc);
	info.data_crc = le32toh(h.data_crc);
	if (info.mem_bytes == 0 || info.mem_bytes > LAYER_MEM_MAX || !page_aligned(info.mem_bytes))
		return bad(ret_why, "memory size");
	if (info.n_extents > LAYER_EXTENTS_MAX)
		return bad(ret_why, "too many extents");
	if (info.data_pages > info.mem_bytes / LAYER_PAGE)
		return bad(ret_why, "more data than memory");
	if (le64toh(h.table_off) != layer_table_off(&info))
		return bad(ret_why, "table offset");
	if (file_size != layer_table_off(&info) + layer_table_bytes(&info))
		return bad(ret_why, "file size");
	*ret_info = info;
	return 0;
}

int layer_table_decode(const struct layer_info *info, const uint8_t *bytes, size_t n,
                       struct layer_extent *ret_extents, const char **ret_why)
{
	uint64_t guest_end = 0, file_end = LAYER_PAGE;

	assert(info && (bytes || n == 0) && ret_why);
	if (n != layer_table_bytes(info))
		return bad(ret_why, "table size");
	if (layer_crc32c(0, bytes, n) != info->table_crc)
		return bad(ret_why, "table checksum");
	for (uint64_t i = 0; i < info->n_extents; i++) {
		struct layer_disk_extent d;
		struct layer_extent e;

		memcpy(&d, bytes + i * sizeof(d), sizeof(d));
		e.guest_off = le64toh(d.guest_off);
		e.file_off = le64toh(d.file_off);
		e.len = le64toh(d.len);
		e.flags = le32toh(d.flags);
		if ((e.flags & ~LAYER_EXTENT_ZERO) != 0 || d.pad != 0)
			return bad(ret_why, "unknown extent flags");
		if (e.len == 0 || !page_aligned(e.len) || !page_aligned(e.guest_off))
			return bad(ret_why, "extent alignment");
		if (e.guest_off < guest_end)
			return bad(ret_why, "extents overlap or are not sorted");
		if (e.guest_off > info->mem_bytes || e.len > info->mem_bytes - e.guest_off)
			return bad(ret_why, "extent beyond memory");
		guest_end = e.guest_off + e.len;
		if (e.flags & LAYER_EXTENT_ZERO) {
			if (e.file_off != 0)
				return bad(ret_why, "zero extent with data");
		} else {
			if (e.file_off != file_end || e.len > layer_table_off(info) - file_end)
				return bad(ret_why, "data extents do not tile the file");
			file_end += e.len;
		}
		ret_extents[i] = e;
	}
	if (file_end != layer_table_off(info))
		return bad(ret_why, "data that no extent uses");
	return 0;
}

uint32_t layer_table_encode(const struct layer_extent *extents, size_t n, uint8_t *ret_bytes)
{
	assert(n <= LAYER_EXTENTS_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct layer_disk_extent d = {
			.guest_off = htole64(extents[i].guest_off),
			.file_off = htole64(extents[i].file_off),
			.len = htole64(extents[i].len),
			.flags = htole32(extents[i].flags),
		};

		memcpy(ret_bytes + i * sizeof(d), &d, sizeof(d));
	}
	return layer_crc32c(0, ret_bytes, n * sizeof(struct layer_disk_extent));
}

void layer_header_encode(const struct layer_info *info, uint8_t ret_page[LAYER_PAGE])
{
	struct layer_disk_header *h = (struct layer_disk_header *)(void *)ret_page;

	memset(ret_page, 0, LAYER_PAGE);
	memcpy(h->magic, LAYER_MAGIC, sizeof(h->magic));
	h->version = htole32(LAYER_VERSION);
	h->page_size = htole32(LAYER_PAGE);
	h->mem_bytes = htole64(info->mem_bytes);
	h->n_extents = htole64(info->n_extents);
	h->table_off = htole64(layer_table_off(info));
	h->data_pages = htole64(info->data_pages);
	h->table_crc = htole32(info->table_crc);
	h->data_crc = htole32(info->data_crc);
	h->header_crc =
	        htole32(layer_crc32c(0, ret_page, offsetof(struct layer_disk_header, header_crc)));
}
