/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup.c - copies of repositories that are in use
 *
 * References first (loose ones, then the packed ones, into which loose ones may move meanwhile),
 * then the objects: whatever a reference names was there before it, and Git never changes an
 * object's file, so those are linked. Only packing removes objects, and it does not run on a
 * repository while that is being copied.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "git/git_internal.h"

#define PACKING_MS (31 * 60000u) /* git gc has 30 minutes */
#define DEPTH_MAX 64

bool gc_begin(struct repos *g, const char *id)
{
	LOCK_SCOPE(&g->lock);
	if (strcmp(g->pinned, id) == 0)
		return false;
	snprintf(g->packing, sizeof(g->packing), "%s", id);
	return true;
}

void gc_end(struct repos *g)
{
	LOCK_SCOPE(&g->lock);
	g->packing[0] = '\0';
	cond_broadcast(&g->packed);
}

static int pin(struct repos *g, const char *id, struct err *err)
{
	uint64_t until = deadline_in(PACKING_MS);

	LOCK_SCOPE(&g->lock);
	while (*g->pinned || strcmp(g->packing, id) == 0)
		if (!cond_wait_until(&g->packed, &g->lock, until))
			return err_set(err, -ETIMEDOUT, "repository %s is still being packed", id);
	snprintf(g->pinned, sizeof(g->pinned), "%s", id);
	return 0;
}

static void unpin(struct repos *g)
{
	LOCK_SCOPE(&g->lock);
	g->pinned[0] = '\0';
	cond_broadcast(&g->packed);
}

/* Of writers that are at work; nothing names them. */
static bool passing(const char *name)
{
	size_t n = strlen(name);

	return (n > 5 && strcmp(name + n - 5, ".lock") == 0) || strncmp(name, "tmp_", 4) == 0 ||
	       strncmp(name, "incoming-", 9) == 0;
}

typedef int (*take_fn)(const char *from, const char *to, struct err *err);

/* What vanishes meanwhile was not needed: a loose reference that was packed, a deleted file. */
static int take_tree(const char *from, const char *to, take_fn take, unsigned depth,
                     struct err *err)
{
	autodir DIR *d = opendir(from);
	struct dirent *e;
	int r;

	if (!d)
		return errno == ENOENT && depth ? 0 : err_sys(err, -errno, "open '%s'", from);
	if (depth >= DEPTH_MAX)
		return err_set(err, -ELOOP, "'%s' is too deep", from);
	if ((r = io_mkdirs(to, 0700, err)) < 0)
		return r;
	while (r >= 0 && (e = readdir(d))) {
		char a[PATH_MAX], b[PATH_MAX];
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || passing(e->d_name))
			continue;
		if (snprintf(a, sizeof(a), "%s/%s", from, e->d_name) >= PATH_MAX ||
		    snprintf(b, sizeof(b), "%s/%s", to, e->d_name) >= PATH_MAX)
			return err_set(err, -ENAMETOOLONG, "'%s/%s' is too long", from, e->d_name);
		if (lstat(a, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			r = take_tree(a, b, take, depth + 1, err);
		else if (S_ISREG(st.st_mode) && (r = take(a, b, err)) == -ENOENT)
			r = 0;
	}
	return r;
}

/* Everything at the top but references and objects: HEAD, packed-refs, config, shallow, ... */
static int take_top(const char *from, const char *to, struct err *err)
{
	autodir DIR *d = opendir(from);
	struct dirent *e;
	int r = d ? 0 : err_sys(err, -errno, "open '%s'", from);

	while (r >= 0 && (e = readdir(d))) {
		char a[PATH_MAX], b[PATH_MAX];
		struct stat st;

		if (e->d_name[0] == '.' || passing(e->d_name) || !strcmp(e->d_name, "refs") ||
		    !strcmp(e->d_name, "objects"))
			continue;
		snprintf(a, sizeof(a), "%.3000s/%s", from, e->d_name);
		snprintf(b, sizeof(b), "%.3000s/%s", to, e->d_name);
		if (lstat(a, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			r = take_tree(a, b, io_copy_file, 1, err);
		else if (S_ISREG(st.st_mode) && (r = io_copy_file(a, b, err)) == -ENOENT)
			r = 0;
	}
	return r;
}

static int copy_repo(const char *from, const char *to, struct err *err)
{
	char a[PATH_MAX], b[PATH_MAX];
	int r;

	if (access(from, F_OK) < 0)
		return err_sys(err, -errno, "open '%s'", from);
	if ((r = io_mkdirs(to, 0700, err)) < 0)
		return r;
	snprintf(a, sizeof(a), "%.4000s/refs", from);
	snprintf(b, sizeof(b), "%.4000s/refs", to);
	if ((r = take_tree(a, b, io_copy_file, 0, err)) < 0 || (r = take_top(from, to, err)) < 0)
		return r;
	snprintf(a, sizeof(a), "%.4000s/objects", from);
	snprintf(b, sizeof(b), "%.4000s/objects", to);
	return take_tree(a, b, io_link_or_copy, 0, err);
}

int repo_backup(struct repos *g, const char *id, const char *path, struct err *err)
{
	char from[PATH_MAX];
	int r = pin(g, id, err);

	if (r < 0)
		return r;
	repo_path(g, id, from);
	r = copy_repo(from, path, err);
	unpin(g);
	if (r < 0 && access(from, F_OK) < 0 && errno == ENOENT) {
		io_remove_tree(AT_FDCWD, path, NULL);
		return -ENOENT;
	}
	return r < 0 ? err_wrap(err, r, "repository %s", id) : 0;
}

int repos_backup_lfs(struct repos *g, const char *path, struct err *err)
{
	char from[PATH_MAX];

	snprintf(from, sizeof(from), "%s/lfs", g->root);
	return take_tree(from, path, io_link_or_copy, 0, err);
}
