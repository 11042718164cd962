/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/qcow2.h - qcow2 files written directly
 *
 * qemu-img would cost a process start on every thaw. Version 3, 64 KiB
 * clusters. No file names a backing file: the engine always passes the chain.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct qcow2_writer;

#define QCOW2_CLUSTER (1u << 16)

/* Fills an empty file with a qcow2 of the given virtual size without data. */
int qcow2_write_empty(int fd, uint64_t virtual_bytes, struct err *err);

/*
 * Fills an empty file from the front of the disk to its end: offsets are multiples of the cluster
 * size and ascend; lengths are multiples too unless they reach the end of the disk. Skipped parts
 * stay holes. Until qcow2_writer_finish() the file is not valid qcow2.
 */
int qcow2_writer_new(int fd, uint64_t virtual_bytes, struct qcow2_writer **ret, struct err *err);
struct qcow2_writer *qcow2_writer_free(struct qcow2_writer *w);
/* Data from another file; zeros past its end. */
int qcow2_writer_copy(struct qcow2_writer *w, uint64_t off, uint64_t len, int src_fd,
                      uint64_t src_off, struct err *err);
/* Data of one cluster. */
int qcow2_writer_put(struct qcow2_writer *w, uint64_t off, const uint8_t data[QCOW2_CLUSTER],
                     struct err *err);
int qcow2_writer_zero(struct qcow2_writer *w, uint64_t off, uint64_t len, struct err *err);
int qcow2_writer_finish(struct qcow2_writer *w, uint64_t *ret_file_bytes, struct err *err);

/* Part of a disk chain, bottom first; layers[0] is raw if bottom_raw. */
struct qcow2_merge {
	const int *layers;
	size_t n;
	int bottom_raw;
};
/* Fills an empty file with the merged contents of all layers above the bottom, to be used on top of
 * it.
 */
int qcow2_merge(const struct qcow2_merge *m, int out_fd, uint64_t *ret_file_bytes, struct err *err);
