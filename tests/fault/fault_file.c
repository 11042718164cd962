/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_file.c - file system calls of our own objects, redirected by the linker
 *
 * Reads and writes count on regular files only: faults of sockets and pipes are those of the
 * peer. Calls on devices and /proc do not fail. A write that fails with "no space" writes
 * nothing; partial writes arise from the caller's loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/fault.h"
#include "tests/fault/fault_wrap.h"

static bool hit(enum fault_kind kind, const char *what, const char *object)
{
	int saved = errno;
	int e = fault_hit(kind, what, object);

	errno = e ? e : saved;
	return e;
}

static bool fails_path(const char *what, const char *path)
{
	if (!strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5) || !strncmp(path, "/dev/", 5))
		return false;
	return hit(FAULT_FILE, what, path);
}

static bool fails_fd(const char *what, int fd)
{
	int saved = errno;
	struct stat st;
	bool ours = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));

	errno = saved;
	return ours && hit(FAULT_FILE, what, NULL);
}

static mode_t mode_of(int flags, va_list ap)
{
	bool makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;

	return makes ? (mode_t)va_arg(ap, unsigned) : 0;
}

int __wrap_open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return fails_path("open", path) ? -1 : __real_open64(path, flags, mode);
}

int __wrap_openat64(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return fails_path("openat", path) ? -1 : __real_openat64(dirfd, path, flags, mode);
}

int __wrap___open64_2(const char *path, int flags)
{
	return fails_path("open", path) ? -1 : __real_open64(path, flags, 0);
}

int __wrap___openat64_2(int dirfd, const char *path, int flags)
{
	return fails_path("openat", path) ? -1 : __real_openat64(dirfd, path, flags, 0);
}

DIR *__wrap_opendir(const char *path)
{
	return fails_path("opendir", path) ? NULL : __real_opendir(path);
}

ssize_t __wrap_read(int fd, void *p, size_t n)
{
	return fails_fd("read", fd) ? -1 : __real_read(fd, p, n);
}

ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t off)
{
	return fails_fd("pread", fd) ? -1 : __real_pread64(fd, p, n, off);
}

ssize_t __wrap___read_chk(int fd, void *p, size_t n, size_t size)
{
	return fails_fd("read", fd) ? -1 : __real_read(fd, p, n < size ? n : size);
}

ssize_t __wrap___pread64_chk(int fd, void *p, size_t n, off_t off, size_t size)
{
	return fails_fd("pread", fd) ? -1 : __real_pread64(fd, p, n < size ? n : size, off);
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
	return fails_fd("write", fd) ? -1 : __real_write(fd, p, n);
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t off)
{
	return fails_fd("pwrite", fd) ? -1 : __real_pwrite64(fd, p, n, off);
}

ssize_t __wrap_copy_file_range(int in, off_t *in_off, int out, off_t *out_off, size_t n,
                               unsigned flags)
{
	return fails_fd("copy_file_range", out)
	               ? -1
	               : __real_copy_file_range(in, in_off, out, out_off, n, flags);
}

int __wrap_fsync(int fd)
{
	return fails_fd("fsync", fd) ? -1 : __real_fsync(fd);
}

int __wrap_fdatasync(int fd)
{
	return fails_fd("fdatasync", fd) ? -1 : __real_fdatasync(fd);
}

int __wrap_ftruncate64(int fd, off_t size)
{
	return fails_fd("ftruncate", fd) ? -1 : __real_ftruncate64(fd, size);
}

int __wrap_truncate64(const char *path, off_t size)
{
	return fails_path("truncate", path) ? -1 : __real_truncate64(path, size);
}

int __wrap_fallocate64(int fd, int mode, off_t off, off_t n)
{
	return fails_fd("fallocate", fd) ? -1 : __real_fallocate64(fd, mode, off, n);
}

int __wrap_posix_fallocate64(int fd, off_t off, off_t n)
{
	return fails_fd("posix_fallocate", fd) ? errno : __real_posix_fallocate64(fd, off, n);
}

int __wrap_rename(const char *from, const char *to)
{
	return fails_path("rename", to) ? -1 : __real_rename(from, to);
}

int __wrap_renameat(int fromfd, const char *from, int tofd, const char *to)
{
	return fails_path("renameat", to) ? -1 : __real_renameat(fromfd, from, tofd, to);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
	return fails_path("mkdir", path) ? -1 : __real_mkdir(path, mode);
}

int __wrap_link(const char *from, const char *to)
{
	return fails_path("link", to) ? -1 : __real_link(from, to);
}

int __wrap_unlink(const char *path)
{
	return hit(FAULT_REMOVE, "unlink", path) ? -1 : __real_unlink(path);
}

int __wrap_unlinkat(int dirfd, const char *path, int flags)
{
	return hit(FAULT_REMOVE, "unlinkat", path) ? -1 : __real_unlinkat(dirfd, path, flags);
}
