/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repo.c - creating and deleting a repository
 *
 * Made in git/tmp, filled, then renamed into its place, then written to the store: a crash leaves a
 * directory that no row names, which the next start removes. Deleted the other way round: the row
 * first, so that nobody finds it, then the directory.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/utf8.h"
#include "git/shared.h"
#include "git/texts.h"

bool repo_id_valid(const char *s)
{
	return uuid_valid(s);
}

int repo_find(struct repos *g, const char *account, const char *id, enum repo_access access,
              struct store_repo *ret, struct err *err)
{
	int r = repo_id_valid(id) ? store_repo_get(g->store, id, ret, err) : -ENOENT;

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && strcmp(ret->account, account) == 0)
		return 0;
	if (r == 0 && ret->is_public && access == REPO_READ)
		return 0;
	if (r == 0 && ret->is_public)
		return err_tag(
		        err, -EACCES, ERR_REPOSITORY_ACCESS_DENIED,
		        "this public repository belongs to another account and can only be read");
	return err_tag(err, -ENOENT, ERR_REPOSITORY_NOT_FOUND, "no repository '%.60s'", id);
}

/* An empty bare repository whose HEAD names the branch. */
int repo_init_at(const char *path, const char *branch, struct err *err)
{
	git_repository_init_options o;
	char ref[REPO_REF_SIZE];
	autorepo *repo = NULL;
	int rc;

	git_repository_init_options_init(&o, GIT_REPOSITORY_INIT_OPTIONS_VERSION);
	o.flags = GIT_REPOSITORY_INIT_BARE | GIT_REPOSITORY_INIT_MKDIR |
	          GIT_REPOSITORY_INIT_MKPATH | GIT_REPOSITORY_INIT_NO_REINIT;
	o.mode = 0700;
	snprintf(ref, sizeof(ref), "refs/heads/%s", branch);
	o.initial_head = ref;
	rc = git_repository_init_ext(&repo, path, &o);
	return rc < 0 ? git_fail(rc, "make a repository", err) : 0;
}

static int check_new(const struct repo_new *n, struct err *err)
{
	const char *b = n->default_branch;

	assert(!n->source || !n->import);
	if (b && !repo_branch_valid(b))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'%.100s' is not a valid branch name", b);
	if (n->name && (strlen(n->name) >= REPO_NAME_SIZE || !utf8_valid(n->name, strlen(n->name))))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'name' must have at most %d bytes of UTF-8", REPO_NAME_SIZE - 1);
	return 0;
}

/* Takes the descriptor of a directory; goes as deep as a fresh repository is. */
static int sync_tree(int fd_consume, unsigned depth)
{
	autodir DIR *d = fdopendir(fd_consume);
	struct dirent *e;
	int r = 0;

	if (!d) {
		close(fd_consume);
		return -EIO;
	}
	while (r == 0 && (e = readdir(d))) {
		int fd;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (e->d_type == DT_DIR && depth < 32) {
			r = sync_tree(fd, depth + 1);
			continue;
		}
		r = fsync(fd) < 0 ? -errno : 0;
		close(fd);
	}
	return r < 0 || fsync(dirfd(d)) == 0 ? r : -errno;
}

/* Everything in it is on the disk before it has its name. */
int repo_put_in_place(const char *tmp, const char *path, struct err *err)
{
	int dir = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	char parent[PATH_MAX];
	autofd int up = -1;

	r = dir < 0 ? -errno : sync_tree(dir, 0);
	if (r < 0)
		return err_sys(err, r, "write the new repository");
	if (rename(tmp, path) < 0)
		return err_sys(err, -errno, "rename the new repository");
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
	up = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (up < 0 || fsync(up) < 0)
		return err_sys(err, -errno, "write the new repository");
	return 0;
}

static int fill(struct repos *g, const struct repo_new *n, const char *tmp,
                struct repo_about *about, struct err *err)
{
	const char *branch = n->default_branch ? n->default_branch : "main";
	int r = repo_init_at(tmp, branch, err);

	if (r < 0)
		return r;
	if (n->source)
		return import_source(g, n->account, tmp, n->source, n->default_branch, about, err);
	if (n->import)
		return import_run(g, n->account, tmp, n->import, branch, about, err);
	return 0;
}

/* For all nodes; or there is none. */
static int store_new(struct repos *g, const struct store_repo *row, struct err *err)
{
	struct slot *s = NULL;
	int r = slot_take(g, row->id, &s, err);

	slot_give(s);
	if (r < 0 && repo_delete(g, row, NULL) < 0)
		log_warn("repository %s was not stored and is still there", row->id);
	return r;
}

int repo_create(struct repos *g, const struct repo_new *n, struct store_repo *ret,
                struct repo_about *about, struct err *err)
{
	struct store_repo row = { .is_public = n->is_public, .created_ms = clock_wall_ms() };
	const struct repo_client by = { .holder = n->account, .fd = -1 };
	bool import = n->source || n->import;
	struct child counted = CHILD_NONE;
	char tmp[PATH_MAX], path[PATH_MAX];
	autohold *hold = NULL;
	int r;

	if ((r = check_new(n, err)) < 0 || (r = quota_repo(g, n->account, err)) < 0 ||
	    (r = room_take(g, import ? &by : NULL, &counted, err)) < 0)
		return r;
	uuid_make(row.id);
	snprintf(row.account, sizeof(row.account), "%s", n->account);
	snprintf(row.name, sizeof(row.name), "%s", n->name ? n->name : "");
	repos_path(g, "tmp", row.id, tmp);
	repo_path(g, row.id, path);
	r = fill(g, n, tmp, about, err);
	room_give(&counted);
	if (r == 0) {
		row.bytes = repo_measure(tmp);
		if (import) /* others may have been imported meanwhile */
			r = hold_new(g, n->account, row.id, row.bytes, &hold, err);
	}
	if (r == 0) {
		r = repo_put_in_place(tmp, path, err);
	}
	if (r == 0) {
		r = store_repo_add(g->store, &row, err);
		if (r < 0)
			io_remove_tree(AT_FDCWD, path, NULL);
	}
	if (r == 0 && is_shared(g))
		r = store_new(g, &row, err);
	if (r < 0) {
		io_remove_tree(AT_FDCWD, tmp, NULL);
		return r;
	}
	*ret = row;
	return 0;
}

int repo_delete(struct repos *g, const struct store_repo *r, struct err *err)
{
	char path[PATH_MAX], tmp[PATH_MAX];
	autofree struct store_lfs *large = NULL;
	struct err why = { 0 };
	struct slot *slot = NULL;
	size_t n = 0;
	int rc;

	if ((rc = slot_only(g, r->id, &slot, err)) < 0)
		return rc;
	if ((rc = store_lfs_of(g->store, r->id, &large, &n, err)) == 0)
		rc = store_repo_delete(g->store, r->id, err);
	slot_give(slot);
	if (rc < 0)
		return rc;
	lfs_collect(g, large, n);
	texts_forget(g->texts, r->id);
	repo_path(g, r->id, path);
	repos_path(g, "tmp", r->id, tmp);
	if (rename(path, tmp) < 0)
		return 0; /* the next start removes what no row names */
	if (io_remove_tree(AT_FDCWD, tmp, &why) < 0)
		log_warn("repository %s: %s; the next start removes the rest", r->id, why.msg);
	return 0;
}

int repo_default_branch(struct repos *g, const struct store_repo *r, char ret[REPO_REF_SIZE],
                        struct err *err)
{
	autorepo *repo = NULL;
	int rc = repo_open(g, r, &repo, err);

	return rc < 0 ? rc : rev_head(repo, ret, err);
}

static bool has_refs(git_repository *repo)
{
	autorefs *it = NULL;
	const char *name;

	return git_reference_iterator_new(&it, repo) < 0 || git_reference_next_name(&name, it) == 0;
}

int repo_set_default_branch(struct repos *g, const struct store_repo *r, const char *name,
                            struct err *err)
{
	char ref[REPO_REF_SIZE];
	autorepo *repo = NULL;
	autocommit *tip = NULL;
	struct slot *slot = NULL;
	unsigned mark;
	int rc;

	if ((rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	rc = rev_branch(repo, name, &tip, err);
	/* An empty repository may say which branch will be its first. */
	if (rc == -ENOENT && has_refs(repo))
		return rc;
	if (rc < 0 && rc != -ENOENT)
		return rc;
	snprintf(ref, sizeof(ref), "refs/heads/%s", name);
	if ((rc = slot_take(g, r->id, &slot, err)) < 0 || (rc = slot_head(slot, ref, err)) < 0) {
		slot_give(slot);
		return rc;
	}
	mark = busy_mark(g, r->id);
	rc = git_repository_set_head(repo, ref);
	busy_clear(g, r->id, mark);
	if (rc == 0)
		slot_moved(slot);
	slot_give(slot);
	return rc < 0 ? err_tag(err, -EIO, ERR_UPDATE_DEFAULT_BRANCH_FAILED,
	                        "cannot change the default branch")
	              : 0;
}
