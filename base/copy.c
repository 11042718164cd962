/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - a second name for a file, or a copy that keeps its holes */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define COPY_CHUNK (1 << 20) /* bytes */

/* For file systems that cannot copy in the kernel. */
static int copy_through_memory(int in, int out, off_t from, off_t to)
{
	autofree uint8_t *chunk = malloc(COPY_CHUNK);
	int r = chunk ? 0 : -ENOMEM;

	while (r == 0 && from < to) {
		size_t n = (size_t)MIN(to - from, COPY_CHUNK);

		r = io_pread_all(in, chunk, n, from);
		if (r == 0)
			r = io_pwrite_all(out, chunk, n, from);
		from += (off_t)n;
	}
	return r;
}

static int copy_range(int in, int out, off_t from, off_t to)
{
	off_t o = from;

	while (from < to) {
		ssize_t k = copy_file_range(in, &from, out, &o, (size_t)(to - from), 0);

		if (k < 0 &&
		    (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
			return copy_through_memory(in, out, from, to);
		if (k < 0)
			return -errno;
		if (k == 0)
			return -EPIPE;
	}
	return 0;
}

static int copy_data(int in, int out, off_t size)
{
	off_t pos = 0;

	if (ioctl(out, FICLONE, in) == 0)
		return 0;
	if (ftruncate(out, size) < 0)
		return -errno;
	while (pos < size) {
		off_t data = lseek(in, pos, SEEK_DATA);
		off_t hole;
		int r;

		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		hole = lseek(in, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		r = copy_range(in, out, data, hole);
		if (r < 0)
			return r;
		pos = hole;
	}
	return 0;
}

static int sync_name(const char *path, struct err *err)
{
	int r = io_sync_parent(AT_FDCWD, path);

	return r < 0 ? err_sys(err, r, "sync the directory of '%s'", path) : 0;
}

int io_copy_file(const char *from, const char *to, struct err *err)
{
	autofd int in = open(from, O_RDONLY | O_CLOEXEC);
	autofd int out = -1;
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0)
		return err_sys(err, -errno, "open '%s'", from);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(err, -errno, "create '%s'", to);
	r = copy_data(in, out, st.st_size);
	if (r == 0 && fsync(out) < 0)
		r = -errno;
	if (r < 0) {
		unlink(to);
		return err_sys(err, r, "copy '%s' to '%s'", from, to);
	}
	return sync_name(to, err);
}

int io_link_or_copy(const char *from, const char *to, struct err *err)
{
	if (link(from, to) == 0)
		return sync_name(to, err);
	if (errno == ENOENT || errno == EEXIST)
		return err_sys(err, -errno, "link '%s' to '%s'", from, to);
	return io_copy_file(from, to, err);
}
