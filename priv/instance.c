/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/instance.c - tag, run directory and lock of one data directory
 *
 * The tag is a hash of the canonical path, so that a later start finds what an
 * earlier one left. The lock is an fcntl(2) lock: the kernel releases it with the
 * process, however that ends, and children that are about to become QEMU do not
 * inherit it (as they would a flock(2) lock).
 */
#include "priv/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"

static int write_small(int dirfd, const char *name, const char *text, struct err *err)
{
	autofd int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : io_write_all(fd, text, strlen(text));

	return r < 0 ? err_sys(err, r, "write '%s'", name) : 0;
}

static int take_lock(struct instance *i, struct err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	i->lock_fd = openat(i->dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (i->lock_fd < 0)
		return err_sys(err, -errno, "open '%s/lock'", i->dir);
	if (fcntl(i->lock_fd, F_SETLK, &lock) < 0) {
		if (errno != EACCES && errno != EAGAIN)
			return err_sys(err, -errno, "lock '%s/lock'", i->dir);
		if (fcntl(i->lock_fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
			lock.l_pid = 0;
		return err_set(err, -EBUSY,
		               "another pando-priv uses '%s' (process %d): stop it, or use another "
		               "data directory",
		               i->data, (int)lock.l_pid);
	}
	return 0;
}

/* Bind mounts of an earlier boot are gone, but files may remain where /run is not a tmpfs. */
static int void_old_boot(struct instance *i, struct err *err)
{
	autofree char *now = NULL, *old = NULL;
	int r = io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 128, &now, err);

	if (r < 0)
		return r;
	now[strcspn(now, "\n")] = '\0';
	if (io_read_file(i->dirfd, "boot", 128, &old, NULL) == 0 && !strcmp(old, now))
		return 0;
	if ((r = io_remove_tree(i->dirfd, "vm", err)) < 0 ||
	    (r = io_remove_tree(i->dirfd, "fence", err)) < 0 ||
	    (r = io_remove_tree(i->dirfd, "netns", err)) < 0 ||
	    (r = io_remove_tree(i->dirfd, "vpc", err)) < 0)
		return r;
	return write_small(i->dirfd, "boot", now, err);
}

static int check_data(struct instance *i, struct err *err)
{
	autofree char *old = NULL;

	if (io_read_file(i->dirfd, "data", PATH_MAX, &old, NULL) == 0 && *old &&
	    strcmp(old, i->data) != 0)
		return err_set(err, -EEXIST,
		               "'%s' and '%s' have the same tag %s: rename one of them", old,
		               i->data, i->tag);
	return write_small(i->dirfd, "data", i->data, err);
}

int instance_open(const char *data, struct instance *ret, struct err *err)
{
	struct instance i = INSTANCE_NONE;
	int r;

	if (!realpath(data, i.data))
		return err_sys(err, -errno, "data directory '%s'", data);
	snprintf(i.tag, sizeof(i.tag), "%08x", crc32c(0, i.data, strlen(i.data)));
	snprintf(i.dir, sizeof(i.dir), RUN_DIR "/%s", i.tag);
	if ((r = io_mkdirs(RUN_DIR, 0755, err)) < 0 || (r = io_mkdirs(i.dir, 0700, err)) < 0)
		return r;
	i.dirfd = open(i.dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (i.dirfd < 0)
		return err_sys(err, -errno, "open '%s'", i.dir);
	if ((r = take_lock(&i, err)) < 0 || (r = check_data(&i, err)) < 0 ||
	    (r = void_old_boot(&i, err)) < 0) {
		instance_close(&i, /* remove= */ false);
		return r;
	}
	if ((mkdirat(i.dirfd, "vm", 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(i.dirfd, "netns", 0700) < 0 && errno != EEXIST)) {
		r = err_sys(err, -errno, "create directories in '%s'", i.dir);
		instance_close(&i, /* remove= */ false);
		return r;
	}
	*ret = i;
	return 0;
}

void instance_close(struct instance *i, bool remove)
{
	struct err err = { 0 };

	if (remove && i->dirfd >= 0 && io_remove_tree(AT_FDCWD, i->dir, &err) < 0)
		log_warn("%s, ignoring", err.msg);
	if (i->lock_fd >= 0)
		close(i->lock_fd);
	if (i->dirfd >= 0)
		close(i->dirfd);
	*i = INSTANCE_NONE;
}
