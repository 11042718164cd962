/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/qcow2_read.h - the contents of one qcow2 file, range by range
 *
 * Reads the subset that QEMU writes into our files. The file is assumed to be hostile: any bytes
 * give a result or -EBADMSG (damaged) or -ENOTSUP (a feature we never ask QEMU for), in bounded
 * memory and, for a walk from front to back, in time linear in the size of the file.
 */
#pragma once

#include <stdint.h>

struct err;
struct qcow2;

#define QCOW2_SIZE_MAX \
	(64ull << 40) /* bytes of virtual disk; an L1 table of 1 MiB at 64 KiB clusters */

enum qcow2_kind {
	QCOW2_HOLE, /* not in this file: the layer below shows */
	QCOW2_ZERO, /* reads as zeros, hides the layer below */
	QCOW2_DATA, /* at `host` in the file; zeros past the end of the file */
};

struct qcow2_run {
	enum qcow2_kind kind;
	uint64_t len;
	uint64_t host;
};

/* fd stays the caller's and must outlive the result. The backing file a header may name is ignored.
 */
int qcow2_open(int fd, struct qcow2 **ret, struct err *err);
struct qcow2 *qcow2_close(struct qcow2 *q);
#define autoqcow2 __attribute__((cleanup(qcow2_close_)))
static inline void qcow2_close_(struct qcow2 **q)
{
	*q = qcow2_close(*q);
}
uint64_t qcow2_size(const struct qcow2 *q);
/*
 * The longest run of one kind that begins at off (below the size) and is at most max long. Data
 * runs are contiguous in the file.
 */
int qcow2_map(struct qcow2 *q, uint64_t off, uint64_t max, struct qcow2_run *ret, struct err *err);
/* Bytes of its own data clusters. Walks the whole file: what this accepts, qcow2_map() accepts. */
int qcow2_measure(struct qcow2 *q, uint64_t *ret_data, struct err *err);
/* The same for a file that is not open yet. */
int qcow2_allocated_bytes(int fd, uint64_t *ret, struct err *err);
