/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush.c - names that a push has made are on the disk before anybody hears of it
 *
 * git and libgit2 flush files, but git no directories: after a power cut a reference could be what
 * it was before a push that was acknowledged, or an object could be missing. So the directories of
 * the references that moved, those above them, and those of objects that were written to since the
 * push began are flushed here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "git/git_internal.h"

#define SLACK_S 2 /* clocks of file systems are coarse */

static int flush_at(int dir, const char *path)
{
	autofd int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) /* deleted again, with its last reference */
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

/* refs/heads/a/b, refs/heads/a, refs/heads, refs */
static int flush_ref(int dir, const char *ref)
{
	char path[REPO_REF_SIZE], *slash;
	int r = 0;

	snprintf(path, sizeof(path), "%s", ref);
	while (r == 0 && (slash = strrchr(path, '/'))) {
		*slash = '\0';
		r = flush_at(dir, path);
	}
	return r;
}

static bool same_dir(const char *a, const char *b)
{
	size_t n = (size_t)(strrchr(a, '/') ? strrchr(a, '/') - a : 0);

	return strncmp(a, b, n + 1) == 0 && !strchr(b + n + 1, '/');
}

static int flush_objects(int dir, int64_t since_s)
{
	int top = openat(dir, "objects", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	autodir DIR *d = top < 0 ? NULL : fdopendir(top);
	struct dirent *e;

	if (!d) {
		if (top >= 0)
			close(top);
		return -EIO;
	}
	while (r == 0 && (e = readdir(d))) {
		struct stat st;

		if (e->d_name[0] != '.' && fstatat(top, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode) && st.st_mtim.tv_sec >= since_s - SLACK_S)
			r = flush_at(top, e->d_name);
	}
	return r < 0 || fsync(top) == 0 ? r : -errno;
}

int repo_flush_objects(struct repos *g, const char *repo, int64_t since_s, struct err *err)
{
	char path[PATH_MAX];
	autofd int dir = -1;
	int r;

	repo_path(g, repo, path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = dir < 0 ? -errno : flush_objects(dir, since_s);
	return r < 0 ? err_sys(err, r, "flush repository %s", repo) : 0;
}

int repo_flush(struct repos *g, const char *repo, int64_t since_s, const struct repo_update *u,
               size_t n, struct err *err)
{
	char path[PATH_MAX];
	autofd int dir = -1;
	int r = 0;

	if (!n)
		return 0;
	if ((r = repo_flush_objects(g, repo, since_s, err)) < 0)
		return r;
	repo_path(g, repo, path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = dir < 0 ? -errno : 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!i || !same_dir(u[i].ref, u[i - 1].ref)) /* mostly many of few directories */
			r = flush_ref(dir, u[i].ref);
	if (r == 0 && fsync(dir) < 0) /* packed-refs, HEAD */
		r = -errno;
	return r < 0 ? err_sys(err, r, "flush repository %s", repo) : 0;
}
