/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qcow2.c - writes qcow2 files, in one pass
 *
 * Layout in clusters: 0 header, then data clusters and L2 tables in the order
 * of the disk, each table after the data it points to, then the L1 table, the
 * refcount blocks and the refcount table. Each cluster of the file is counted
 * exactly once, so `qemu-img check` accepts the result. Only one L2
 * table and the L1 table are held in memory. The file grows only at
 * its end, so skipped parts read as zeros.
 */
#include "engine/qcow2.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/qcow2_read.h"

#define CLUSTER_BITS 16
#define CLUSTER QCOW2_CLUSTER
#define HEADER_LEN 112   /* version 3 with the compression type field */
#define REFCOUNT_ORDER 4 /* 16-bit counts */
#define BLOCK_COUNTS (CLUSTER / 2)
#define L2_ENTRIES (CLUSTER / 8)
#define L2_COVERS ((uint64_t)CLUSTER * L2_ENTRIES) /* bytes covered by one L1 entry: 512 MiB */
#define ENTRY_COPIED (1ull << 63) /* counted once: QEMU need not copy it to write */
#define L2_ZERO 1ull
#define COPY_CHUNK (1u << 20) /* bytes */

struct qcow2_writer {
	int fd; /* weak */
	uint64_t virtual_bytes;
	uint64_t next; /* first free cluster of the file */
	uint64_t l1_entries;
	uint8_t *l1;    /* owned; as in the file */
	uint64_t table; /* L1 entry whose L2 table is being filled */
	bool table_used;
	uint8_t l2[CLUSTER];
	bool no_copy_range; /* unsupported between these files */
	uint8_t *chunk;     /* owned; NULL until needed */
};

static void put_be64(uint8_t *p, uint64_t v)
{
	put_be32(p, (uint32_t)(v >> 32));
	put_be32(p + 4, (uint32_t)v);
}

static int write_at(struct qcow2_writer *w, const void *p, size_t n, uint64_t cluster,
                    struct err *err)
{
	int r = io_pwrite_all(w->fd, p, n, (off_t)(cluster * CLUSTER));

	return r < 0 ? err_sys(err, r, "write disk layer") : 0;
}

int qcow2_writer_new(int fd, uint64_t virtual_bytes, struct qcow2_writer **ret, struct err *err)
{
	struct qcow2_writer *w;

	if (!virtual_bytes || virtual_bytes % 512 || virtual_bytes > QCOW2_SIZE_MAX)
		return err_set(err, -EINVAL, "disk of %llu bytes",
		               (unsigned long long)virtual_bytes);
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "disk layer: out of memory");
	w->fd = fd;
	w->virtual_bytes = virtual_bytes;
	w->next = 1;
	w->l1_entries = (virtual_bytes + L2_COVERS - 1) / L2_COVERS;
	w->l1 = calloc(w->l1_entries, 8);
	if (!w->l1) {
		qcow2_writer_free(w);
		return err_set(err, -ENOMEM, "disk layer: out of memory");
	}
	*ret = w;
	return 0;
}

struct qcow2_writer *qcow2_writer_free(struct qcow2_writer *w)
{
	if (!w)
		return NULL;
	free(w->l1);
	free(w->chunk);
	free(w);
	return NULL;
}

static int flush_table(struct qcow2_writer *w, struct err *err)
{
	int r;

	if (!w->table_used)
		return 0;
	r = write_at(w, w->l2, sizeof(w->l2), w->next, err);
	if (r < 0)
		return r;
	put_be64(w->l1 + 8 * w->table, w->next * CLUSTER | ENTRY_COPIED);
	w->next++;
	w->table_used = false;
	memset(w->l2, 0, sizeof(w->l2));
	return 0;
}

/* Makes the L2 table of that offset the current one. */
static int table_for(struct qcow2_writer *w, uint64_t off, struct err *err)
{
	uint64_t table = off / L2_COVERS;
	int r = 0;

	assert(off % CLUSTER == 0 && off < w->virtual_bytes && table >= w->table);
	if (table != w->table)
		r = flush_table(w, err);
	w->table = table;
	return r;
}

/* Number of clusters from off on within the range and one L2 table. */
static uint64_t clusters_in_table(uint64_t off, uint64_t len)
{
	return (MIN(len, L2_COVERS - off % L2_COVERS) + CLUSTER - 1) / CLUSTER;
}

static void table_set(struct qcow2_writer *w, uint64_t off, uint64_t entry)
{
	put_be64(w->l2 + 8 * (off / CLUSTER % L2_ENTRIES), entry);
	w->table_used = true;
}

int qcow2_writer_zero(struct qcow2_writer *w, uint64_t off, uint64_t len, struct err *err)
{
	while (len) {
		uint64_t n = clusters_in_table(off, len);
		int r = table_for(w, off, err);

		if (r < 0)
			return r;
		for (uint64_t i = 0; i < n; i++)
			table_set(w, off + i * CLUSTER, L2_ZERO);
		off += n * CLUSTER;
		len -= MIN(len, n * CLUSTER);
	}
	return 0;
}

int qcow2_writer_put(struct qcow2_writer *w, uint64_t off, const uint8_t data[QCOW2_CLUSTER],
                     struct err *err)
{
	int r = table_for(w, off, err);

	if (r == 0)
		r = write_at(w, data, CLUSTER, w->next, err);
	if (r < 0)
		return r;
	table_set(w, off, w->next * CLUSTER | ENTRY_COPIED);
	w->next++;
	return 0;
}

/* Copies inside the kernel, sharing blocks if the file system can. The rest is left in *len. */
static int copy_in_kernel(struct qcow2_writer *w, int src_fd, off_t *src, off_t *dst, uint64_t *len,
                          struct err *err)
{
	while (*len && !w->no_copy_range) {
		ssize_t n = copy_file_range(src_fd, src, w->fd, dst, *len, 0);

		if (n > 0) {
			*len -= (uint64_t)n;
		} else if (n == 0) {
			return 0; /* end of the file, or unsupported: reading will tell */
		} else if (errno == ENOSPC || errno == EIO || errno == EFBIG || errno == EDQUOT) {
			return err_sys(err, -errno, "copy disk layer");
		} else if (errno != EINTR) {
			w->no_copy_range = true;
		}
	}
	return 0;
}

static int copy_bytes(struct qcow2_writer *w, int src_fd, uint64_t src_off, uint64_t cluster,
                      uint64_t len, struct err *err)
{
	off_t src = (off_t)src_off, dst = (off_t)(cluster * CLUSTER);
	int r = copy_in_kernel(w, src_fd, &src, &dst, &len, err);

	if (r < 0)
		return r;
	if (len && !w->chunk && !(w->chunk = malloc(COPY_CHUNK)))
		return err_set(err, -ENOMEM, "disk layer: out of memory");
	while (len) {
		ssize_t n = pread(src_fd, w->chunk, MIN(len, COPY_CHUNK), src);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, -errno, "read disk layer");
		if (n == 0)
			break; /* the rest stays unwritten: zeros */
		r = io_pwrite_all(w->fd, w->chunk, (size_t)n, dst);
		if (r < 0)
			return err_sys(err, r, "write disk layer");
		src += n;
		dst += n;
		len -= (uint64_t)n;
	}
	return 0;
}

int qcow2_writer_copy(struct qcow2_writer *w, uint64_t off, uint64_t len, int src_fd,
                      uint64_t src_off, struct err *err)
{
	while (len) {
		uint64_t n = clusters_in_table(off, len), bytes = MIN(len, n * CLUSTER);
		int r = table_for(w, off, err);

		if (r == 0)
			r = copy_bytes(w, src_fd, src_off, w->next, bytes, err);
		if (r < 0)
			return r;
		for (uint64_t i = 0; i < n; i++)
			table_set(w, off + i * CLUSTER, (w->next + i) * CLUSTER | ENTRY_COPIED);
		w->next += n;
		off += n * CLUSTER;
		src_off += bytes;
		len -= bytes;
	}
	return 0;
}

/* Refcount blocks for all clusters of the file, then the refcount table. */
static int write_refcounts(struct qcow2_writer *w, uint64_t *ret_table, uint32_t *ret_clusters,
                           struct err *err)
{
	uint64_t n_blocks = 0, n_table = 0, total, need;
	autobuf struct buf table = { 0 };
	uint8_t *block = w->l2; /* free by now, and zeros */
	int r;

	/* they count themselves, so each round may need one more */
	for (;;) {
		total = w->next + n_blocks + n_table;
		need = (total + BLOCK_COUNTS - 1) / BLOCK_COUNTS;
		if (need == n_blocks)
			break;
		n_blocks = need;
		n_table = (n_blocks * 8 + CLUSTER - 1) / CLUSTER;
	}
	for (uint64_t b = 0; b < n_blocks; b++) {
		uint64_t n = MIN(total - b * BLOCK_COUNTS, BLOCK_COUNTS);

		for (uint64_t i = 0; i < n; i++)
			block[2 * i + 1] = 1;
		r = write_at(w, block, 2 * n, w->next + b, err);
		if (r < 0)
			return r;
		buf_put_u64(&table, (w->next + b) * CLUSTER);
	}
	if (table.failed)
		return err_set(err, -ENOMEM, "disk layer: out of memory");
	*ret_table = w->next + n_blocks;
	*ret_clusters = (uint32_t)n_table;
	w->next = total;
	return write_at(w, table.p, table.len, *ret_table, err);
}

static int write_header(struct qcow2_writer *w, uint64_t l1, uint64_t ref_table,
                        uint32_t ref_clusters, struct err *err)
{
	autobuf struct buf h = { 0 };

	buf_put_u32(&h, 0x514649fb); /* "QFI\xfb" */
	buf_put_u32(&h, 3);
	buf_put_u64(&h, 0); /* backing file name: none */
	buf_put_u32(&h, 0);
	buf_put_u32(&h, CLUSTER_BITS);
	buf_put_u64(&h, w->virtual_bytes);
	buf_put_u32(&h, 0); /* no encryption */
	buf_put_u32(&h, (uint32_t)w->l1_entries);
	buf_put_u64(&h, l1 * CLUSTER);
	buf_put_u64(&h, ref_table * CLUSTER);
	buf_put_u32(&h, ref_clusters);
	buf_put_u32(&h, 0); /* no internal snapshots */
	buf_put_u64(&h, 0);
	buf_put_u64(&h, 0); /* incompatible features */
	buf_put_u64(&h, 0); /* compatible features */
	buf_put_u64(&h, 0); /* autoclear features */
	buf_put_u32(&h, REFCOUNT_ORDER);
	buf_put_u32(&h, HEADER_LEN);
	buf_put_u64(&h, 0); /* compression type and padding */
	buf_put_u64(&h, 0); /* end of header extensions */
	if (h.failed)
		return err_set(err, -ENOMEM, "disk layer: out of memory");
	return write_at(w, h.p, h.len, 0, err);
}

int qcow2_writer_finish(struct qcow2_writer *w, uint64_t *ret_file_bytes, struct err *err)
{
	uint64_t l1, ref_table = 0;
	uint32_t ref_clusters = 0;
	int r = flush_table(w, err);

	if (r < 0)
		return r;
	l1 = w->next;
	w->next += (w->l1_entries * 8 + CLUSTER - 1) / CLUSTER;
	if ((r = write_at(w, w->l1, w->l1_entries * 8, l1, err)) < 0 ||
	    (r = write_refcounts(w, &ref_table, &ref_clusters, err)) < 0 ||
	    (r = write_header(w, l1, ref_table, ref_clusters, err)) < 0)
		return r;
	if (ftruncate(w->fd, (off_t)(w->next * CLUSTER)) < 0)
		return err_sys(err, -errno, "size disk layer");
	*ret_file_bytes = w->next * CLUSTER;
	return 0;
}

int qcow2_write_empty(int fd, uint64_t virtual_bytes, struct err *err)
{
	struct qcow2_writer *w = NULL;
	uint64_t bytes;
	int r = qcow2_writer_new(fd, virtual_bytes, &w, err);

	if (r == 0)
		r = qcow2_writer_finish(w, &bytes, err);
	qcow2_writer_free(w);
	return r;
}
