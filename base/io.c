/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"

int io_write_all(int fd, const void *p, size_t n)
{
	const uint8_t *s = p;

	while (n) {
		ssize_t k = write(fd, s, n);

		if (k < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		s += k;
		n -= (size_t)k;
	}
	return 0;
}

int io_read_all(int fd, void *p, size_t n)
{
	uint8_t *d = p;

	while (n) {
		ssize_t k = read(fd, d, n);

		if (k < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (k == 0)
			return -EPIPE;
		d += k;
		n -= (size_t)k;
	}
	return 0;
}

int io_pwrite_all(int fd, const void *p, size_t n, off_t off)
{
	const uint8_t *s = p;

	while (n) {
		ssize_t k = pwrite(fd, s, n, off);

		if (k < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		s += k;
		off += k;
		n -= (size_t)k;
	}
	return 0;
}

int io_pread_all(int fd, void *p, size_t n, off_t off)
{
	uint8_t *d = p;

	while (n) {
		ssize_t k = pread(fd, d, n, off);

		if (k < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (k == 0)
			return -EPIPE;
		d += k;
		off += k;
		n -= (size_t)k;
	}
	return 0;
}

int io_wait(int fd, short events, uint64_t deadline_ms)
{
	for (;;) {
		struct pollfd pfd = { .fd = fd, .events = events };
		int n = poll(&pfd, 1, deadline_left(deadline_ms));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		return n > 0;
	}
}

int io_read_file(int dirfd, const char *path, size_t max, char **ret_text, struct err *err)
{
	autofd int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	autofree char *text = NULL;
	size_t len = 0, cap = 4096;

	if (fd < 0)
		return err_sys(err, -errno, "open '%s'", path);
	text = malloc(cap);
	while (text) {
		ssize_t k = read(fd, text + len, cap - len - 1);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, -errno, "read '%s'", path);
		if (k == 0)
			break;
		len += (size_t)k;
		if (len > max)
			return err_set(err, -EFBIG, "'%s' is larger than %zu bytes", path, max);
		if (cap - len < 2) {
			char *p = realloc(text, cap * 2);

			if (!p)
				return err_set(err, -ENOMEM, "read '%s': out of memory", path);
			text = p;
			cap *= 2;
		}
	}
	if (!text)
		return err_set(err, -ENOMEM, "read '%s': out of memory", path);
	text[len] = '\0';
	*ret_text = TAKE_PTR(text);
	return 0;
}

int io_sync_parent(int dirfd, const char *path)
{
	char dir[PATH_MAX];
	char *slash;
	autofd int fd = -1;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash)
		snprintf(dir, sizeof(dir), ".");
	else if (slash == dir)
		dir[1] = '\0';
	else
		*slash = '\0';
	fd = openat(dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int io_write_file(int dirfd, const char *path, const void *p, size_t n, mode_t mode,
                  struct err *err)
{
	char tmp[PATH_MAX], id[ID_SIZE];
	autofd int fd = -1;
	int r;

	id_make("", id);
	if ((size_t)snprintf(tmp, sizeof(tmp), "%s.%s.tmp", path, id) >= sizeof(tmp))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", path);
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return err_sys(err, -errno, "create '%s'", tmp);
	r = io_write_all(fd, p, n);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dirfd, tmp, dirfd, path) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dirfd, tmp, 0);
		return err_sys(err, r, "write '%s'", path);
	}
	r = io_sync_parent(dirfd, path);
	return r < 0 ? err_sys(err, r, "sync the directory of '%s'", path) : 0;
}

/* What will be flushed into a new directory would be lost with its name. */
static int make_dir(const char *path, mode_t mode, struct err *err)
{
	int r;

	if (mkdir(path, mode) < 0)
		return errno == EEXIST ? 0 : err_sys(err, -errno, "create directory '%s'", path);
	r = io_sync_parent(AT_FDCWD, path);
	return r < 0 ? err_sys(err, r, "sync the directory of '%s'", path) : 0;
}

int io_mkdirs(const char *path, mode_t mode, struct err *err)
{
	char tmp[PATH_MAX];
	int r;

	if ((size_t)snprintf(tmp, sizeof(tmp), "%s", path) >= sizeof(tmp))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", path);
	for (char *p = tmp + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if ((r = make_dir(tmp, 0755, err)) < 0)
			return r;
		*p = '/';
	}
	return make_dir(tmp, mode, err);
}

int io_remove_tree(int dirfd, const char *path, struct err *err)
{
	autodir DIR *d = NULL;
	struct dirent *de;
	int fd;

	if (unlinkat(dirfd, path, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return err_sys(err, -errno, "remove '%s'", path);
	fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "remove '%s'", path);
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return err_sys(err, -ENOMEM, "remove '%s'", path);
	}
	while ((de = readdir(d))) {
		int r;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		r = io_remove_tree(fd, de->d_name, err);
		if (r < 0)
			return r;
	}
	if (unlinkat(dirfd, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(err, -errno, "remove '%s'", path);
	return 0;
}
