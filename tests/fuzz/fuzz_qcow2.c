/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_qcow2.c - the qcow2 reader and merge on arbitrary bytes
 *
 * The input is a qcow2 file. It is measured, then merged as an upper layer
 * (twice over itself, on a small raw bottom) and as a bottom. What a merge
 * accepts must be a file that the reader accepts in turn, with no more data
 * than the input can hold.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/qcow2.h"
#include "engine/qcow2_read.h"

#define BOTTOM_BYTES 5000 /* ends inside a sector, a cluster, anything */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || (size && io_pwrite_all(fd, data, size, 0) < 0))
		abort();
	return fd;
}

static void merge(const int *layers, size_t n, int raw, size_t size)
{
	autofd int out = file_of(NULL, 0);
	struct err err = { 0 };
	uint64_t bytes = 0, allocated = 0;
	int r = qcow2_merge(&(struct qcow2_merge){ .layers = layers, .n = n, .bottom_raw = raw },
	                    out, &bytes, &err);

	if (r < 0) {
		if (!err.msg[0])
			abort();
		return;
	}
	if (qcow2_allocated_bytes(out, &allocated, &err) < 0)
		abort();
	/* a 512 byte cluster of the input may fill one of 64 KiB */
	if (allocated > (uint64_t)(size + 512) * (QCOW2_CLUSTER / 512) * n + QCOW2_CLUSTER * n)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofd int in = file_of(data, size);
	autofd int bottom = file_of(NULL, 0);
	struct err err = { 0 };
	uint64_t allocated;

	if (qcow2_allocated_bytes(in, &allocated, &err) < 0 && !err.msg[0])
		abort();
	if (ftruncate(bottom, BOTTOM_BYTES) < 0)
		abort();
	merge((int[]){ bottom, in, in }, 3, /* raw= */ 1, size);
	merge((int[]){ in, in }, 2, /* raw= */ 0, size);
	return 0;
}
