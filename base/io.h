/* SPDX-License-Identifier: Apache-2.0 */
/* base/io.h - whole reads and writes, deadlines, small files */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* Writes or reads all n bytes; 0, or -errno (-EPIPE for an early end of file). */
int io_write_all(int fd, const void *p, size_t n);
int io_read_all(int fd, void *p, size_t n);
int io_pwrite_all(int fd, const void *p, size_t n, off_t off);
int io_pread_all(int fd, void *p, size_t n, off_t off);
/* Waits for events on fd: 1 ready, 0 deadline passed, -errno. */
int io_wait(int fd, short events, uint64_t deadline_ms);
/* Whole file as NUL-terminated text, at most max bytes (-EFBIG). Caller frees. */
int io_read_file(int dirfd, const char *path, size_t max, char **ret_text, struct err *err);
/* Flushes the directory that path is in: its name is on the disk then. */
int io_sync_parent(int dirfd, const char *path);
/* Writes path atomically (temp file beside it, fsync, rename, fsync of the directory). */
int io_write_file(int dirfd, const char *path, const void *p, size_t n, mode_t mode,
                  struct err *err);
/* mkdir -p; existing directories are fine. */
int io_mkdirs(const char *path, mode_t mode, struct err *err);
/* Removes a file or a tree below dirfd; a missing one is fine. */
int io_remove_tree(int dirfd, const char *path, struct err *err);
/* A second name for an immutable file: hard link, else reflink or copy that keeps holes. */
int io_link_or_copy(const char *from, const char *to, struct err *err);
/* A file of its own, mode 0600, that must not exist: reflink, or a copy that keeps holes. */
int io_copy_file(const char *from, const char *to, struct err *err);
