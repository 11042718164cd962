/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import.c - a repository from files: a map, an archive, or a directory of another repository
 *
 * All end as one commit. Archives are read by bsdtar in a jail that turns whatever it was into
 * plain tar; a directory of another repository is fetched (its last commit only) and written by git
 * archive, which makes plain tar too. That is read here (tar.c) and handed to git fast-import
 * (import_write.c).
 */
#include "git/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/io.h"

#define UNPACK_MS (20 * 60000u)

struct unpack {
	struct writer *w;
	struct tar *tar;
	const char *dir; /* only below it, without it; "" : everything */
	bool inside;     /* the file that is being read is taken */
};

/* The path below dir, or NULL when it is somewhere else. */
static const char *below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (strncmp(path, "./", 2) == 0)
		path += 2;
	if (n == 0)
		return path;
	return strncmp(path, dir, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

/* Git's own directories are not files of a project. */
static bool is_git_dir(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (strncmp(p, ".git/", 5) == 0 || strcmp(p, ".git") == 0)
			return true;
	}
	return false;
}

static int on_entry(void *ctx, const struct tar_entry *e, struct err *err)
{
	struct unpack *u = ctx;
	const char *path = below(e->path, u->dir), *from;
	int r;

	u->inside = false;
	if (!path || !*path || is_git_dir(path))
		return 0;
	if (e->type == TAR_HARDLINK) {
		from = below(e->target, u->dir);
		return from && *from ? writer_copy(u->w, from, path, err) : 0;
	}
	if (e->type == TAR_LINK) {
		if ((r = writer_file(u->w, path, false, true, strlen(e->target), err)) < 0 ||
		    (r = writer_data(u->w, e->target, strlen(e->target), err)) < 0)
			return r;
		return writer_file_end(u->w, err);
	}
	u->inside = true;
	return writer_file(u->w, path, e->executable, false, e->size, err);
}

static int on_data(void *ctx, const uint8_t *p, size_t n, struct err *err)
{
	struct unpack *u = ctx;

	return u->inside ? writer_data(u->w, p, n, err) : 0;
}

static int on_end(void *ctx, struct err *err)
{
	struct unpack *u = ctx;

	return u->inside ? writer_file_end(u->w, err) : 0;
}

static int on_bytes(void *ctx, const uint8_t *p, size_t n, struct err *err)
{
	return tar_feed(((struct unpack *)ctx)->tar, p, n, err);
}

/* What the child writes is tar. */
static int unpack_from(struct repos *g, const char *const *argv, const char *repo, int in_fd,
                       struct unpack *u, struct err *err)
{
	static const struct tar_ops ops = { on_entry, on_data, on_end };
	autorun struct run_result res = { 0 };
	int r;

	u->tar = tar_new(&ops, u);
	if (!u->tar)
		return err_set(err, -ENOMEM, "out of memory");
	r = run_git(g,
	            &(struct run_opts){ .repo = repo,
	                                .argv = argv,
	                                .in_fd = in_fd,
	                                .limit_ms = UNPACK_MS,
	                                .each = on_bytes,
	                                .ctx = u },
	            &res, err);
	if (r == 0 && res.status != 0) /* what the child says is nearer to the cause */
		r = err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		            "the archive cannot be read: %.150s", (char *)res.err_text.p);
	if (r == 0)
		r = tar_finish(u->tar, err);
	u->tar = tar_free(u->tar);
	return r;
}

struct job {
	struct repos *g;
	const char *path; /* of the repository */
	const struct repo_import *import;
	struct import_commit c;
	int64_t room;
	struct repo_about *about;
};

/* "a/b" of "/a/b/"; "" for the root. */
static int clean_dir(const char *dir, char ret[PATH_MAX], struct err *err)
{
	size_t n;

	*ret = '\0';
	if (!dir)
		return 0;
	dir += strspn(dir, "/");
	while (strncmp(dir, "./", 2) == 0)
		dir += 2;
	n = strlen(dir);
	while (n && dir[n - 1] == '/')
		n--;
	if (n == 0 || (n == 1 && *dir == '.'))
		return 0;
	if (n >= PATH_MAX)
		return err_tag(err, -EINVAL, ERR_INVALID_FILE_PATH, "'dir' is too long");
	snprintf(ret, PATH_MAX, "%.*s", (int)n, dir);
	return tree_path_check(ret, err);
}

static int no_dir(struct job *j, const char *url, const char *dir, struct err *err)
{
	source_hide(url, j->about->url, sizeof(j->about->url));
	snprintf(j->about->dir, sizeof(j->about->dir), "%s", dir);
	return err_tag(err, -EINVAL, ERR_IMPORT_SUBDIR_NOT_FOUND,
	               "'%.150s' has no directory '%.100s'", j->about->url, dir);
}

/* Runs the child and makes the commit. */
static int commit_tar(struct job *j, const char *const *argv, const char *repo, int in_fd,
                      const char *url, const char *dir, const char *only, struct err *err)
{
	struct unpack u = { .dir = only };
	int r = writer_open(j->g, j->path, &j->c, j->room, &u.w, err);

	if (r < 0)
		return r;
	r = unpack_from(j->g, argv, repo, in_fd, &u, err);
	if (r == 0 && *dir && writer_count(u.w) == 0)
		r = no_dir(j, url, dir, err);
	if (r < 0) {
		writer_drop(u.w);
		return r;
	}
	return writer_close(u.w, err);
}

static int import_archive(struct job *j, struct err *err)
{
	static const char *const argv[] = {
		BSDTAR, "-c", "-f", "-", "--format=gnutar", "@-", NULL
	};
	const char *url = j->import->url;
	char dir[PATH_MAX];
	autofd int fd = -1;
	int r;

	if ((r = source_url_check(url, err)) < 0 || (r = clean_dir(j->import->dir, dir, err)) < 0 ||
	    (r = download(j->g, url, MIN(j->room, DOWNLOAD_BYTES_MAX), &fd, j->about, err)) < 0)
		return r;
	return commit_tar(j, argv, NULL, fd, url, dir, dir, err);
}

static int import_git_from(struct job *j, const char *scratch, const char *url, const char *rev,
                           const char *dir, struct err *err)
{
	char branch[REPO_REF_SIZE], spec[PATH_MAX + REPO_REF_SIZE];
	const char *argv[] = { GIT_PROGRAM, "archive", "--format=tar", spec, NULL };
	git_tree_entry *e = NULL;
	autorepo *repo = NULL;
	autocommit *c = NULL;
	autotree *root = NULL;
	char sha[REPO_SHA_SIZE];
	int rc = git_repository_init(&repo, scratch, /* is_bare= */ 1);

	if (rc < 0)
		return git_fail(rc, "make a repository", err);
	if ((rc = source_take(j->g, scratch, url, rev, /* all= */ false, /* depth= */ 1, "main",
	                      branch, j->about, err)) < 0)
		return rc;
	if ((rc = rev_commit(repo, branch, &c, err)) < 0)
		return rc;
	if ((rc = git_commit_tree(&root, c)) < 0)
		return git_fail(rc, "read the tree", err);
	if (*dir) {
		rc = git_tree_entry_bypath(&e, root, dir);
		if (rc < 0 || git_tree_entry_type(e) != GIT_OBJECT_TREE) {
			git_tree_entry_free(e);
			return no_dir(j, url, dir, err);
		}
	}
	git_oid_tostr(sha, sizeof(sha), e ? git_tree_entry_id(e) : git_tree_id(root));
	git_tree_entry_free(e);
	snprintf(spec, sizeof(spec), "%s", sha);
	return commit_tar(j, argv, scratch, -1, url, dir, "", err);
}

static int import_git(struct job *j, struct err *err)
{
	const char *url = j->import->url, *rev = j->import->rev;
	char scratch[PATH_MAX], dir[PATH_MAX], id[ID_SIZE];
	int r;

	if (rev && !repo_branch_valid(rev))
		return err_tag(err, -EINVAL, ERR_INVALID_REVISION, "'%.100s' is not a revision",
		               rev);
	if ((r = source_url_check(url, err)) < 0 || (r = clean_dir(j->import->dir, dir, err)) < 0)
		return r;
	id_make("", id);
	repos_path(j->g, "tmp", id, scratch);
	r = import_git_from(j, scratch, url, rev, dir, err);
	io_remove_tree(AT_FDCWD, scratch, NULL);
	return r;
}

static int import_files(struct job *j, struct err *err)
{
	const struct repo_import *im = j->import;
	struct writer *w;
	int r = writer_open(j->g, j->path, &j->c, j->room, &w, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < im->n_files; i++) {
		const struct repo_import_file *f = &im->files[i];

		if ((r = writer_file(w, f->path, false, false, f->len, err)) < 0 ||
		    (r = writer_data(w, f->content, f->len, err)) < 0 ||
		    (r = writer_file_end(w, err)) < 0) {
			j->about->path = f->path;
			writer_drop(w);
			return r;
		}
	}
	return writer_close(w, err);
}

int import_run(struct repos *g, const char *account, const char *path,
               const struct repo_import *import, const char *branch, struct repo_about *about,
               struct err *err)
{
	struct job j = { .g = g, .path = path, .import = import, .about = about };
	int r = quota_room(g, account, &j.room, err);

	if (r < 0)
		return r;
	j.c = (struct import_commit){ .branch = branch,
		                      .message = import->message ? import->message : "Import",
		                      .name = import->author_name,
		                      .email = import->author_email };
	switch (import->kind) {
	case REPO_IMPORT_FILES:
		return import_files(&j, err);
	case REPO_IMPORT_ARCHIVE:
		return import_archive(&j, err);
	default:
		return import_git(&j, err);
	}
}
