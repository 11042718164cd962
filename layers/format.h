/* SPDX-License-Identifier: MIT */
/*
 * layers/format.h - the memory layer file: names, limits, encode, decode
 *
 * For the preloaded library and for the server (verify, flatten). Pure code: no descriptors, no
 * globals, nothing is logged. Layout of a file, all numbers little endian:
 *
 *	page 0		struct layer_disk_header, exactly one page, written last
 *	page 1 ...	data pages, compact: the data extents' bytes one after the other
 *	table_off	n_extents times struct layer_disk_extent, sorted by guest_off; ends the file
 *
 * A data extent says "guest memory [guest_off, guest_off + len) is these bytes of the file", a zero
 * extent says "it is zeros" and hides what lower layers have there. What no layer of a stack covers
 * is zeros. The data extents tile the data area in order: no overlap, no hole, no slack, so a file
 * that validates has exactly one reading, and it can be copied by any tool.
 */
#ifndef PANDO_LAYERS_FORMAT_H
#define PANDO_LAYERS_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define LAYER_MAGIC "PNDOLAY1"
#define LAYER_VERSION 1u
#define LAYER_PAGE 4096u             /* bytes; the unit of every offset and length in a file */
#define LAYER_EXTENTS_MAX (1u << 20) /* per file: a table of at most 32 MiB */
#define LAYER_MEM_MAX \
	(UINT64_C(1) << 42) /* bytes of guest memory: 4 TiB, keeps sums far from 2^64 */

#define LAYER_EXTENT_ZERO 1u /* flag: no data in the file, file_off is 0 */

struct layer_disk_header {
	uint8_t magic[8];
	uint32_t version;
	uint32_t page_size;
	uint64_t mem_bytes;
	uint64_t n_extents;
	uint64_t table_off;
	uint64_t data_pages;
	uint32_t table_crc; /* crc32c of the table's bytes */
	uint32_t data_crc;  /* crc32c of all data bytes in file order */
	uint8_t reserved[LAYER_PAGE - 60];
	uint32_t header_crc; /* crc32c of all bytes before it */
} __attribute__((packed));
static_assert(sizeof(struct layer_disk_header) == LAYER_PAGE, "the header is one page");
static_assert(offsetof(struct layer_disk_header, reserved) == 56, "header layout");
static_assert(offsetof(struct layer_disk_header, header_crc) == LAYER_PAGE - 4, "crc is last");

struct layer_disk_extent {
	uint64_t guest_off;
	uint64_t file_off;
	uint64_t len;
	uint32_t flags;
	uint32_t pad;
} __attribute__((packed));
static_assert(sizeof(struct layer_disk_extent) == 32, "extent layout");

/* What a header says, in host order. */
struct layer_info {
	uint64_t mem_bytes;
	uint64_t n_extents;
	uint64_t data_pages;
	uint32_t table_crc, data_crc;
};

/* One row of the table, in host order. */
struct layer_extent {
	uint64_t guest_off;
	uint64_t file_off; /* 0 for a zero extent */
	uint64_t len;
	uint32_t flags;
};

static inline uint64_t layer_table_off(const struct layer_info *info)
{
	return LAYER_PAGE + info->data_pages * LAYER_PAGE;
}

static inline uint64_t layer_table_bytes(const struct layer_info *info)
{
	return info->n_extents * sizeof(struct layer_disk_extent);
}

/* crc32c (Castagnoli); start with crc 0, chain by passing the last result. SSE4.2 when present. */
uint32_t layer_crc32c(uint32_t crc, const void *data, size_t n);
/* The same by table only; for tests, and what the above falls back to. */
uint32_t layer_crc32c_soft(uint32_t crc, const void *data, size_t n);

/*
 * Read page 0 of a file of @file_size bytes. 0, or -EBADMSG with a reason in *@ret_why (a constant
 * string). After success the table lies at layer_table_off() and ends the file.
 */
int layer_header_decode(const uint8_t page[LAYER_PAGE], uint64_t file_size,
                        struct layer_info *ret_info, const char **ret_why);

/*
 * Read the table's bytes (@n must be layer_table_bytes()) into @ret_extents[info->n_extents].
 * Checks the checksum, order, alignment and bounds of every row. 0, or -EBADMSG and a reason;
 * then @ret_extents holds nothing of use.
 */
int layer_table_decode(const struct layer_info *info, const uint8_t *bytes, size_t n,
                       struct layer_extent *ret_extents, const char **ret_why);

/* Write @n rows to @ret_bytes[n * sizeof(struct layer_disk_extent)]; gives their crc32c. */
uint32_t layer_table_encode(const struct layer_extent *extents, size_t n, uint8_t *ret_bytes);
void layer_header_encode(const struct layer_info *info, uint8_t ret_page[LAYER_PAGE]);

/* --- stacks of layers --- */

#define LAYER_STACK_MAX 64 /* layers in one stack; longer chains are flattened first */

/* One layer of a stack, as decoded. */
struct layer_table {
	const struct layer_extent *extents; /* weak */
	size_t n;
};

/* A piece of guest memory and the topmost layer that defines it. */
struct layer_piece {
	uint64_t guest_off;
	uint64_t file_off; /* 0 if flags has LAYER_EXTENT_ZERO */
	uint64_t len;
	uint32_t layer; /* index into the stack, 0 = bottom */
	uint32_t flags;
};

/*
 * Merge a stack (bottom first): what each part of memory is, topmost layer first choice. The pieces
 * are sorted and do not overlap; zero pieces are kept when @keep_zero, so that the result of a
 * partial stack can still hide what lies below it. *@ret_pieces is malloc'ed, the caller frees it.
 * 0 or -ENOMEM, -E2BIG (more than LAYER_PIECES_MAX).
 */
#define LAYER_PIECES_MAX (4u << 20) /* 160 MiB of pieces: far above what a sane stack gives */
int layer_stack_merge(const struct layer_table *stack, size_t n_layers, int keep_zero,
                      struct layer_piece **ret_pieces, size_t *ret_n);

#endif
