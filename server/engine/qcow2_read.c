/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qcow2_read.c - reads the mapping of a qcow2 file
 *
 * Theory of operation: guest offset -> L1 entry -> L2 table -> L2 entry -> host
 * cluster. Tables are read through two windows of fixed size, one per level,
 * that move with the requested offset; a walk from front to back reads each
 * table once and memory does not grow with the disk.
 *
 * A table entry is accepted only if it is aligned, inside the file and free of
 * reserved bits. Entries that point twice to the same place would make a small
 * file look endless, so the number of L2 tables is checked against the file's
 * size when it is opened, and the number of data clusters by qcow2_measure().
 */
#include "engine/qcow2_read.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

#define QCOW2_MAGIC 0x514649fbu /* "QFI\xfb" */
#define HEADER_V3 104u          /* bytes; version 2 has the first 72 of them */
#define CLUSTER_BITS_MIN 9u
#define CLUSTER_BITS_MAX 21u
#define L1_BYTES_MAX (32u << 20) /* QEMU's own limit */

#define ENTRY_OFFSET 0x00fffffffffffe00ull
#define ENTRY_COPIED (1ull << 63)
#define L1_KNOWN (ENTRY_OFFSET | ENTRY_COPIED)
#define L2_COMPRESSED (1ull << 62)
#define L2_ZERO 1ull /* version 3 */
#define L2_KNOWN (ENTRY_OFFSET | ENTRY_COPIED | L2_ZERO)

#define INCOMPAT_DIRTY (1ull << 0) /* counts may be stale, which does not affect a reader */
#define INCOMPAT_CORRUPT (1ull << 1)
#define INCOMPAT_DATA_FILE (1ull << 2)
#define INCOMPAT_COMPRESSION (1ull << 3)
#define INCOMPAT_EXTENDED_L2 (1ull << 4)

#define WINDOW_ENTRIES 8192u /* 64 KiB: a whole L2 table at our cluster size */

/* A part of a table, in host order. */
struct window {
	uint64_t first; /* file offset of its first entry; 0: empty (a header is there, never a
	                   table) */
	size_t n;
	uint64_t entry[WINDOW_ENTRIES];
};

struct qcow2 {
	int fd; /* weak */
	uint32_t version;
	unsigned cluster_bits;
	uint64_t file_size, size;
	uint64_t l1_offset;
	uint64_t l1_used; /* entries needed for the size; the table may be longer */
	struct window l1, l2;
};

static uint64_t cluster_size(const struct qcow2 *q)
{
	return 1ull << q->cluster_bits;
}

/* Entries of one L2 table, as a power of two. */
static unsigned l2_bits(const struct qcow2 *q)
{
	return q->cluster_bits - 3;
}

static uint64_t l2_covers(const struct qcow2 *q)
{
	return 1ull << (q->cluster_bits + l2_bits(q));
}

static int damaged(struct err *err, const char *what, uint64_t at)
{
	return err_set(err, -EBADMSG, "damaged qcow2: %s at %#llx", what, (unsigned long long)at);
}

/* Entry `index` of the table of n_table entries at `table`, which is inside the file. */
static int window_get(struct qcow2 *q, struct window *w, uint64_t table, uint64_t n_table,
                      uint64_t index, uint64_t *ret, struct err *err)
{
	uint64_t at = table + index * 8;
	int r;

	if (!w->first || at < w->first || at >= w->first + w->n * 8) {
		uint64_t start = index - index % WINDOW_ENTRIES;
		uint8_t *raw = (uint8_t *)w->entry; /* read, then swapped in place */

		w->n = MIN(WINDOW_ENTRIES, n_table - start);
		w->first = 0;
		r = io_pread_all(q->fd, raw, w->n * 8, (off_t)(table + start * 8));
		if (r < 0)
			return r == -EPIPE ? damaged(err, "file ends in the table", table)
			                   : err_sys(err, r, "read qcow2 table");
		for (size_t i = 0; i < w->n; i++)
			w->entry[i] =
			        (uint64_t)get_be32(raw + 8 * i) << 32 | get_be32(raw + 8 * i + 4);
		w->first = table + start * 8;
	}
	*ret = w->entry[(at - w->first) / 8];
	return 0;
}

/* Offset of the L2 table of that L1 entry; 0: none. */
static int l1_get(struct qcow2 *q, uint64_t index, uint64_t *ret, struct err *err)
{
	uint64_t e;
	int r = window_get(q, &q->l1, q->l1_offset, q->l1_used, index, &e, err);

	if (r < 0)
		return r;
	if (e & ~L1_KNOWN)
		return damaged(err, "reserved bits in L1 entry", index);
	e &= ENTRY_OFFSET;
	if (e % cluster_size(q) || e > q->file_size || (e && q->file_size - e < cluster_size(q)))
		return damaged(err, "L1 entry points outside", index);
	*ret = e;
	return 0;
}

static int l2_get(struct qcow2 *q, uint64_t table, uint64_t off, struct qcow2_run *ret,
                  struct err *err)
{
	uint64_t index = (off >> q->cluster_bits) & ((1ull << l2_bits(q)) - 1);
	uint64_t e;
	int r = window_get(q, &q->l2, table, 1ull << l2_bits(q), index, &e, err);

	if (r < 0)
		return r;
	if (e & L2_COMPRESSED)
		return err_set(err, -ENOTSUP, "qcow2 with compressed clusters");
	if (e & ~L2_KNOWN)
		return damaged(err, "reserved bits in L2 entry of guest offset", off);
	ret->host = e & ENTRY_OFFSET;
	if (ret->host % cluster_size(q))
		return damaged(err, "unaligned L2 entry of guest offset", off);
	if (e & L2_ZERO) {
		if (q->version < 3)
			return damaged(err, "zero flag in version 2, guest offset", off);
		ret->kind = QCOW2_ZERO;
		ret->host = 0;
	} else if (!ret->host) {
		ret->kind = QCOW2_HOLE;
	} else if (ret->host >= q->file_size) {
		return damaged(err, "data beyond the end of the file for guest offset", off);
	} else {
		ret->kind = QCOW2_DATA;
	}
	return 0;
}

/* The run up to the end of the cluster, or of the whole L2 table if it is missing. */
static int map_one(struct qcow2 *q, uint64_t off, struct qcow2_run *ret, struct err *err)
{
	uint64_t table, in;
	int r = l1_get(q, off / l2_covers(q), &table, err);

	if (r < 0)
		return r;
	if (!table) {
		*ret = (struct qcow2_run){ .kind = QCOW2_HOLE,
			                   .len = l2_covers(q) - off % l2_covers(q) };
		return 0;
	}
	r = l2_get(q, table, off, ret, err);
	if (r < 0)
		return r;
	in = off % cluster_size(q);
	ret->len = cluster_size(q) - in;
	if (ret->kind == QCOW2_DATA)
		ret->host += in;
	return 0;
}

int qcow2_map(struct qcow2 *q, uint64_t off, uint64_t max, struct qcow2_run *ret, struct err *err)
{
	struct qcow2_run run = { 0 };
	int r;

	if (off >= q->size || !max)
		return err_set(err, -EINVAL, "offset %llu is beyond the disk",
		               (unsigned long long)off);
	max = MIN(max, q->size - off);
	r = map_one(q, off, &run, err);
	while (r == 0 && run.len < max) {
		struct qcow2_run next;

		r = map_one(q, off + run.len, &next, err);
		if (r < 0 || next.kind != run.kind ||
		    (run.kind == QCOW2_DATA && next.host != run.host + run.len))
			break;
		run.len += next.len;
	}
	if (r < 0)
		return r;
	run.len = MIN(run.len, max);
	*ret = run;
	return 0;
}

static int check_features(uint64_t incompat, struct err *err)
{
	if (incompat & INCOMPAT_CORRUPT)
		return err_set(err, -EBADMSG, "qcow2 is marked corrupt");
	if (incompat & INCOMPAT_DATA_FILE)
		return err_set(err, -ENOTSUP, "qcow2 with an external data file");
	if (incompat & INCOMPAT_COMPRESSION)
		return err_set(err, -ENOTSUP, "qcow2 with a compression type");
	if (incompat & INCOMPAT_EXTENDED_L2)
		return err_set(err, -ENOTSUP, "qcow2 with extended L2 entries");
	if (incompat & ~INCOMPAT_DIRTY)
		return err_set(err, -ENOTSUP, "qcow2 with unknown features %#llx",
		               (unsigned long long)incompat);
	return 0;
}

static int parse_header(struct qcow2 *q, const uint8_t *p, size_t n, struct err *err)
{
	uint32_t magic, backing_len, crypt, l1_entries, ref_clusters, n_snapshots, header_len,
	        order;
	uint64_t backing, ref_table, snapshots, incompat = 0, compat, autoclear;
	struct rd c = rd_of(p, n);
	int r;

	rd_u32(&c, &magic);
	if (c.bad || magic != QCOW2_MAGIC)
		return err_set(err, -EBADMSG, "not a qcow2 file");
	rd_u32(&c, &q->version);
	rd_u64(&c, &backing);
	rd_u32(&c, &backing_len);
	rd_u32(&c, &q->cluster_bits);
	rd_u64(&c, &q->size);
	rd_u32(&c, &crypt);
	rd_u32(&c, &l1_entries);
	rd_u64(&c, &q->l1_offset);
	rd_u64(&c, &ref_table);
	rd_u32(&c, &ref_clusters);
	rd_u32(&c, &n_snapshots);
	rd_u64(&c, &snapshots);
	if (c.bad)
		return err_set(err, -EBADMSG, "damaged qcow2: short header");
	if (q->version != 2 && q->version != 3)
		return err_set(err, -ENOTSUP, "qcow2 of version %u", q->version);
	if (q->version == 3) {
		rd_u64(&c, &incompat);
		rd_u64(&c, &compat);
		rd_u64(&c, &autoclear);
		rd_u32(&c, &order);
		rd_u32(&c, &header_len);
		if (c.bad || header_len < HEADER_V3)
			return err_set(err, -EBADMSG, "damaged qcow2: short header");
	}
	if (crypt)
		return err_set(err, -ENOTSUP, "qcow2 with encryption");
	r = check_features(incompat, err);
	if (r < 0)
		return r;
	if (q->cluster_bits < CLUSTER_BITS_MIN || q->cluster_bits > CLUSTER_BITS_MAX)
		return err_set(err, -EBADMSG, "damaged qcow2: clusters of 2^%u bytes",
		               q->cluster_bits);
	if (q->size % 512 || q->size > QCOW2_SIZE_MAX)
		return err_set(err, -EBADMSG, "damaged qcow2: disk of %llu bytes",
		               (unsigned long long)q->size);
	q->l1_used = (q->size + l2_covers(q) - 1) / l2_covers(q);
	if (l1_entries < q->l1_used || l1_entries > L1_BYTES_MAX / 8)
		return err_set(err, -EBADMSG, "damaged qcow2: L1 table of %u entries, %llu needed",
		               l1_entries, (unsigned long long)q->l1_used);
	if (q->l1_used &&
	    (!q->l1_offset || q->l1_offset % cluster_size(q) || q->l1_offset > q->file_size ||
	     q->file_size - q->l1_offset < q->l1_used * 8))
		return damaged(err, "L1 table outside the file", q->l1_offset);
	return 0;
}

/* Each L2 table has a cluster of its own. */
static int count_tables(struct qcow2 *q, struct err *err)
{
	uint64_t most = q->file_size / cluster_size(q), n = 0;

	for (uint64_t i = 0; i < q->l1_used; i++) {
		uint64_t table;
		int r = l1_get(q, i, &table, err);

		if (r < 0)
			return r;
		if (table && ++n > most)
			return damaged(err, "L2 table used more than once, L1 entry", i);
	}
	return 0;
}

int qcow2_open(int fd, struct qcow2 **ret, struct err *err)
{
	autoqcow2 struct qcow2 *q = calloc(1, sizeof(*q));
	uint8_t header[HEADER_V3];
	struct stat st;
	size_t n;
	int r;

	if (!q)
		return err_set(err, -ENOMEM, "qcow2: out of memory");
	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "qcow2");
	q->fd = fd;
	q->file_size = (uint64_t)st.st_size;
	n = MIN(q->file_size, sizeof(header));
	r = io_pread_all(fd, header, n, 0);
	if (r < 0)
		return err_sys(err, r, "read qcow2 header");
	r = parse_header(q, header, n, err);
	if (r < 0)
		return r;
	r = count_tables(q, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(q);
	return 0;
}

struct qcow2 *qcow2_close(struct qcow2 *q)
{
	free(q);
	return NULL;
}

uint64_t qcow2_size(const struct qcow2 *q)
{
	return q->size;
}

int qcow2_measure(struct qcow2 *q, uint64_t *ret_data, struct err *err)
{
	/* the last cluster of the file may be incomplete */
	uint64_t most = q->file_size + cluster_size(q), data = 0;
	struct qcow2_run run;

	for (uint64_t off = 0; off < q->size; off += run.len) {
		int r = qcow2_map(q, off, UINT64_MAX, &run, err);

		if (r < 0)
			return r;
		if (run.kind == QCOW2_DATA)
			data += run.len;
		if (data > most)
			return damaged(err, "data cluster used more than once, guest offset", off);
	}
	*ret_data = data;
	return 0;
}

int qcow2_allocated_bytes(int fd, uint64_t *ret, struct err *err)
{
	autoqcow2 struct qcow2 *q = NULL;
	int r = qcow2_open(fd, &q, err);

	return r < 0 ? r : qcow2_measure(q, ret, err);
}
