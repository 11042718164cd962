/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fault/fault_wrap.h - the two sides of -Wl,--wrap; for tests/fault only
 *
 * The compiler turns open() into open64() (_FILE_OFFSET_BITS) and, with _FORTIFY_SOURCE, sometimes
 * into __open64_2(): the linker must be told the names that are in the objects. meson.build has the
 * list; a name that is missing there makes no error, the call is just never failed, which
 * test_fault.c looks for.
 */
#pragma once

#include <dirent.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/types.h>

/* result, name, parameters: __wrap_NAME() is called by our objects, __real_NAME() by it. */
#define FAULT_WRAP(type, name, ...)      \
	type __wrap_##name(__VA_ARGS__); \
	type __real_##name(__VA_ARGS__)

FAULT_WRAP(void *, malloc, size_t n);
FAULT_WRAP(void *, calloc, size_t n, size_t size);
FAULT_WRAP(void *, realloc, void *p, size_t n);
FAULT_WRAP(void *, reallocarray, void *p, size_t n, size_t size);
FAULT_WRAP(char *, strdup, const char *s);
FAULT_WRAP(char *, strndup, const char *s, size_t n);
FAULT_WRAP(int, vasprintf, char **ret, const char *fmt, va_list ap)
__attribute__((format(printf, 2, 0)));
FAULT_WRAP(int, asprintf, char **ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
FAULT_WRAP(int, __vasprintf_chk, char **ret, int flag, const char *fmt, va_list ap)
__attribute__((format(printf, 3, 0)));
FAULT_WRAP(int, __asprintf_chk, char **ret, int flag, const char *fmt, ...)
__attribute__((format(printf, 3, 4)));

FAULT_WRAP(int, open64, const char *path, int flags, ...);
FAULT_WRAP(int, openat64, int dirfd, const char *path, int flags, ...);
FAULT_WRAP(int, __open64_2, const char *path, int flags);
FAULT_WRAP(int, __openat64_2, int dirfd, const char *path, int flags);
FAULT_WRAP(DIR *, opendir, const char *path);
FAULT_WRAP(ssize_t, read, int fd, void *p, size_t n);
FAULT_WRAP(ssize_t, pread64, int fd, void *p, size_t n, off_t off);
FAULT_WRAP(ssize_t, __read_chk, int fd, void *p, size_t n, size_t size);
FAULT_WRAP(ssize_t, __pread64_chk, int fd, void *p, size_t n, off_t off, size_t size);
FAULT_WRAP(ssize_t, write, int fd, const void *p, size_t n);
FAULT_WRAP(ssize_t, pwrite64, int fd, const void *p, size_t n, off_t off);
FAULT_WRAP(ssize_t, copy_file_range, int in, off_t *in_off, int out, off_t *out_off, size_t n,
           unsigned flags);
FAULT_WRAP(int, fsync, int fd);
FAULT_WRAP(int, fdatasync, int fd);
FAULT_WRAP(int, ftruncate64, int fd, off_t size);
FAULT_WRAP(int, truncate64, const char *path, off_t size);
FAULT_WRAP(int, fallocate64, int fd, int mode, off_t off, off_t n);
FAULT_WRAP(int, posix_fallocate64, int fd, off_t off, off_t n);
FAULT_WRAP(int, rename, const char *from, const char *to);
FAULT_WRAP(int, renameat, int fromfd, const char *from, int tofd, const char *to);
FAULT_WRAP(int, mkdir, const char *path, mode_t mode);
FAULT_WRAP(int, link, const char *from, const char *to);
FAULT_WRAP(int, unlink, const char *path);
FAULT_WRAP(int, unlinkat, int dirfd, const char *path, int flags);
