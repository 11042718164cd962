/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_write.c - writes a file atomically
 *
 * Theory of operation: follow links -> create missing parents -> fill a temporary
 * file beside the target -> wait for the byte that says that the end of file is not an abort ->
 * rename. A reader sees the old file or the new one. An existing file keeps its owner and, unless a
 * mode was requested, its mode. If the directory is not writable but the file is (or it is a mount
 * point), it is written in place, as any program of that user would.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"

#define WRITE_CHUNK (256u << 10)
#define LINKS_MAX 40 /* as the kernel */

struct target {
	char path[AGENT_PATH_MAX], tmp[AGENT_PATH_MAX];
	struct stat old; /* of the existing file */
	bool exists;
	int fd;
};

/* The last component may be a link, even a dangling one. */
static int follow(const char *path, struct target *t)
{
	snprintf(t->path, sizeof(t->path), "%s", path);
	for (int i = 0; i < LINKS_MAX; i++) {
		char link[AGENT_PATH_MAX], next[2 * AGENT_PATH_MAX];
		const char *slash = strrchr(t->path, '/');
		ssize_t n;

		if (!slash)
			return EINVAL;
		if (lstat(t->path, &t->old) < 0)
			return errno == ENOENT ? 0 : errno;
		if (!S_ISLNK(t->old.st_mode)) {
			t->exists = true;
			return 0;
		}
		n = readlink(t->path, link, sizeof(link) - 1);
		if (n < 0)
			return errno;
		link[n] = '\0';
		if (link[0] == '/')
			snprintf(next, sizeof(next), "%s", link);
		else
			snprintf(next, sizeof(next), "%.*s/%s", (int)(slash - t->path), t->path,
			         link);
		if (strlen(next) >= sizeof(t->path))
			return ENAMETOOLONG;
		snprintf(t->path, sizeof(t->path), "%.*s", (int)sizeof(t->path) - 1, next);
	}
	return ELOOP;
}

static int open_beside(struct target *t, mode_t mode)
{
	size_t dir = (size_t)(strrchr(t->path, '/') - t->path) + 1;

	for (int tries = 0; tries < 8; tries++) {
		uint8_t r[8];
		char hex[17];

		random_bytes(r, sizeof(r));
		hex_encode(r, sizeof(r), hex);
		if ((size_t)snprintf(t->tmp, sizeof(t->tmp), "%.*s.pando-%s", (int)dir, t->path,
		                     hex) >= sizeof(t->tmp))
			return ENAMETOOLONG;
		t->fd = open(t->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (t->fd >= 0)
			break;
		if (errno != EEXIST)
			return errno;
	}
	if (t->fd < 0)
		return EEXIST;
	/* The owner first: chown clears set-user-id. Only root can give files away. */
	if (t->exists && (t->old.st_uid != geteuid() || t->old.st_gid != getegid()) &&
	    fchown(t->fd, t->old.st_uid, t->old.st_gid) < 0 && errno != EPERM)
		return errno;
	return fchmod(t->fd, mode) < 0 ? errno : 0;
}

static int open_target(struct target *t, const struct agent_fs_req *r)
{
	mode_t mode = r->mode ? r->mode : t->exists ? t->old.st_mode & 07777 : 0644;
	int e = open_beside(t, mode);

	if (e == 0)
		return 0;
	if (t->fd >= 0) {
		close(TAKE_FD(t->fd));
		unlink(t->tmp);
	}
	t->tmp[0] = '\0';
	if (!t->exists || (e != EACCES && e != EPERM && e != EROFS))
		return e;
	t->fd = open(t->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	return t->fd < 0 ? e : 0;
}

/* The target is a mount point: it cannot be replaced, only filled. */
static int copy_over(struct target *t)
{
	static uint8_t chunk[WRITE_CHUNK];
	autofd int from = open(t->tmp, O_RDONLY | O_CLOEXEC);
	autofd int to = open(t->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ssize_t n;

	if (from < 0 || to < 0)
		return errno;
	while ((n = read(from, chunk, sizeof(chunk))) > 0) {
		int r = io_write_all(to, chunk, (size_t)n);

		if (r < 0)
			return -r;
	}
	if (n < 0)
		return errno;
	unlink(t->tmp);
	return 0;
}

static void drop(struct target *t)
{
	if (t->tmp[0])
		unlink(t->tmp);
}

static int fill(const struct job_fds *fds, struct target *t)
{
	static uint8_t chunk[WRITE_CHUNK];

	for (;;) {
		ssize_t n = read(fds->in, chunk, sizeof(chunk));
		int r;

		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0 && (r = io_write_all(t->fd, chunk, (size_t)n)) < 0)
			return -r;
	}
}

void fs_write(const struct job_fds *fds, const struct agent_fs_req *r)
{
	static struct target t = { .fd = -1 };
	char byte;
	int e = follow(r->path, &t);
	const char *slash = strrchr(t.path, '/');

	if (e == 0 && t.exists && S_ISDIR(t.old.st_mode))
		e = EISDIR;
	else if (e == 0 && !slash[1])
		e = EISDIR; /* "name/" means a directory */
	else if (e == 0 && t.exists && !S_ISREG(t.old.st_mode))
		e = EINVAL;
	if (e == 0 && !t.exists && slash > t.path)
		e = fs_make_parents(t.path, (size_t)(slash - t.path));
	if (e == 0)
		e = open_target(&t, r);
	if (e == 0)
		e = fill(fds, &t);
	if (e == 0 && read(fds->commit, &byte, 1) != 1)
		e = ECANCELED;
	if (e == 0 && close(t.fd) < 0)
		e = errno;
	if (e == 0 && t.tmp[0] && rename(t.tmp, t.path) < 0)
		e = errno;
	if (e == EBUSY && t.tmp[0])
		e = copy_over(&t);
	if (e) {
		drop(&t);
		child_fail(fds, e, AGENT_TAG_NONE, "write '%.200s': %s", r->path, err_name(e));
	}
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
