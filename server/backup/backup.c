/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup.c - puts a backup together
 *
 * The database comes first (vm/backup.c), so that what it names is there when its files are taken:
 * repositories are made before their rows and deleted after them. One that was deleted in between
 * loses its row in the copy, too. Certificates, host keys and settings are copied last; each of
 * these files is replaced as a whole when it changes.
 */
#include "backup/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/log.h"
#include "git/git.h"
#include "store/store_backup.h"

#define DEPTH_MAX 16

static struct mutex at_work = MUTEX_INIT("backup"); /* one is put together at a time */

void backup_done(struct backup *b)
{
	vm_backup_done(&b->vms);
}

void backup_sweep(const char *data_dir)
{
	struct err err = { 0 };
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/backup", data_dir);
	if (io_remove_tree(AT_FDCWD, path, &err) < 0)
		log_warn("what is left of a backup was not removed, ignoring: %s", err.msg);
}

/* Removes what nobody copies any more; -EBUSY: somebody does. */
static int drop_old(const char *root, struct err *err)
{
	autodir DIR *d = opendir(root);
	struct dirent *e;
	int r = 0;

	while (d && r >= 0 && (e = readdir(d))) {
		char path[PATH_MAX];
		autofd int fd = -1;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%.3000s/%s/lock", root, e->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
			return err_tag(err, -EBUSY, ERR_CONFLICT,
			               "another backup is being copied: wait for it to end");
		r = io_remove_tree(dirfd(d), e->d_name, err);
	}
	return r;
}

static int copy_tree(const char *from, const char *to, unsigned depth, struct err *err)
{
	autodir DIR *d = opendir(from);
	struct dirent *e;
	int r;

	if (!d)
		return errno == ENOENT ? 0 : err_sys(err, -errno, "open '%s'", from);
	if (depth == DEPTH_MAX)
		return err_set(err, -ELOOP, "'%s' is too deep", from);
	if ((r = io_mkdirs(to, 0700, err)) < 0)
		return r;
	while (r >= 0 && (e = readdir(d))) {
		char a[PATH_MAX], b[PATH_MAX];
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(a, sizeof(a), "%.3000s/%s", from, e->d_name);
		snprintf(b, sizeof(b), "%.3000s/%s", to, e->d_name);
		if (lstat(a, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode)) {
			r = copy_tree(a, b, depth + 1, err);
			continue;
		}
		if (!S_ISREG(st.st_mode))
			continue;
		if ((r = io_copy_file(a, b, err)) == -ENOENT)
			r = 0;
		if (r >= 0)
			chmod(b, st.st_mode & 0777); /* hooks of uacme are programs */
	}
	return r;
}

/* Certificates, host keys, the operator's key, settings, the audit log. Not the key of secrets:
 * whoever copies the backup decides about that. */
static int take_rest(const char *data_dir, const char *to, struct err *err)
{
	static const char *const trees[] = { "certs", "ssh" };
	static const char *const files[] = { "api-key", "pando.conf" };
	char a[PATH_MAX], b[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(trees); i++) {
		snprintf(a, sizeof(a), "%s/%s", data_dir, trees[i]);
		snprintf(b, sizeof(b), "%s/%s", to, trees[i]);
		r = copy_tree(a, b, 0, err);
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(files); i++) {
		snprintf(a, sizeof(a), "%s/%s", data_dir, files[i]);
		snprintf(b, sizeof(b), "%s/%s", to, files[i]);
		if (access(a, F_OK) == 0)
			r = io_copy_file(a, b, err);
	}
	snprintf(a, sizeof(a), "%s/audit.db", data_dir);
	snprintf(b, sizeof(b), "%s/audit.db", to);
	return r < 0 || access(a, F_OK) < 0 ? r : store_copy(a, b, err);
}

static int take_repos(struct repos *g, const char *to, struct err *err)
{
	autofree struct store_repo *repos = NULL;
	struct store *copy = NULL;
	char path[PATH_MAX];
	size_t n = 0;
	int r;

	snprintf(path, sizeof(path), "%s/pando.db", to);
	if ((r = store_open_copy(path, &copy, err)) < 0)
		return r;
	r = store_repo_ids(copy, &repos, &n, err);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		snprintf(path, sizeof(path), "%s/git/repos/%s.git", to, repos[i].id);
		r = repo_backup(g, repos[i].id, path, err);
		if (r == -ENOENT)
			r = store_repo_delete(copy, repos[i].id, err);
	}
	store_close(copy);
	snprintf(path, sizeof(path), "%s/git/lfs", to);
	return r < 0 ? r : repos_backup_lfs(g, path, err);
}

static int put_together(const struct backup_from *from, struct backup *b, struct err *err)
{
	char data[PATH_MAX], path[PATH_MAX];
	autofd int lock = -1;
	int r;

	snprintf(data, sizeof(data), "%.4000s/data", b->path);
	if ((r = io_mkdirs(data, 0700, err)) < 0)
		return r;
	snprintf(path, sizeof(path), "%.4000s/lock", b->path);
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0)
		return err_sys(err, -errno, "create '%s'", path);
	if ((r = vmm_backup(from->vmm, data, &b->vms, err)) < 0 ||
	    (from->repos && (r = take_repos(from->repos, data, err)) < 0))
		return r;
	return take_rest(from->data_dir, data, err);
}

int backup_begin(const struct backup_from *from, struct backup *ret, struct err *err)
{
	char root[PATH_MAX];
	int r;

	if (!mutex_trylock(&at_work))
		return err_tag(err, -EBUSY, ERR_CONFLICT,
		               "another backup is being made: wait for it to end");
	*ret = (struct backup){ 0 };
	id_make("bk-", ret->id);
	snprintf(root, sizeof(root), "%s/backup", from->data_dir);
	snprintf(ret->path, sizeof(ret->path), "%s/backup/%s", from->data_dir, ret->id);
	if ((r = drop_old(root, err)) >= 0)
		r = put_together(from, ret, err);
	if (r < 0) {
		if (r != -EBUSY)
			io_remove_tree(AT_FDCWD, ret->path, NULL);
		backup_done(ret);
		err_wrap(err, r, "backup");
	}
	mutex_unlock(&at_work);
	return r < 0 ? r : 0;
}

int backup_end(const char *data_dir, const char *id, struct err *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/backup/%s", data_dir, id);
	if (!id_valid("bk-", id) || access(path, F_OK) < 0)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "there is no backup '%.40s'", id);
	return io_remove_tree(AT_FDCWD, path, err);
}
