/* SPDX-License-Identifier: Apache-2.0 */
/* contents.c - a file or a directory of a revision */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"

#define PATHS_BYTES (64u << 20) /* of all paths of one listing */

struct walk {
	git_repository *repo;
	git_odb *odb;
	struct arena *mem;
	struct bounds b;
	size_t left;       /* entries */
	size_t bytes_left; /* of their paths */
};

/* Below the directory that is being listed; one that is missing has no entries. */
static int open_dir(struct walk *w, const git_oid *id, git_tree **ret, struct err *err)
{
	int r = bounds_tree(&w->b, w->repo, id, ret, err);

	return r == -ENOENT ? 0 : r;
}

static int list_dir(struct walk *w, git_tree *t, bool recursive, unsigned depth,
                    struct repo_entry *ret, struct err *err)
{
	size_t n = git_tree_entrycount(t);
	int r = 0;

	if (depth > BOUNDS_DEPTH)
		return err_tag(err, -ELOOP, ERR_GIT_TOO_LARGE, "directories nest deeper than %d",
		               BOUNDS_DEPTH);
	if (n > w->left)
		return err_tag(
		        err, -EFBIG, ERR_GIT_TOO_LARGE,
		        "the directory has more than %d entries: list a part of it, or clone "
		        "the repository",
		        TREE_ENTRIES_MAX);
	w->left -= n;
	ret->entries = arena_array(w->mem, n, sizeof(*ret->entries));
	if (!ret->entries)
		return arena_check(w->mem, err);
	ret->n_entries = n;
	for (size_t i = 0; i < n && r == 0; i++) {
		const git_tree_entry *e = git_tree_entry_byindex(t, i);
		struct repo_entry *one = &ret->entries[i];
		size_t len = strlen(ret->path) + strlen(git_tree_entry_name(e)) + 2;
		autotree *sub = NULL;

		if ((r = bounds_step(&w->b, err)) < 0)
			break;
		if (len > w->bytes_left)
			return err_tag(
			        err, -EFBIG, ERR_GIT_TOO_LARGE,
			        "the paths of the directory have more than %u MiB: list a part "
			        "of it, or clone the repository",
			        PATHS_BYTES >> 20);
		w->bytes_left -= len;
		entry_read(w->odb, e, one);
		one->path = arena_printf(w->mem, "%s%s%s", ret->path, *ret->path ? "/" : "",
		                         git_tree_entry_name(e));
		if (one->dir && recursive)
			r = open_dir(w, git_tree_entry_id(e), &sub, err);
		if (r == 0 && sub)
			r = list_dir(w, sub, true, depth + 1, one, err);
	}
	return r < 0 ? r : arena_check(w->mem, err);
}

static int read_dir(git_repository *repo, const git_oid *id, const struct repo_client *by,
                    bool recursive, struct arena *mem, struct repo_contents *ret, struct err *err)
{
	struct walk w = { .repo = repo,
		          .mem = mem,
		          .b = bounds_begin(by, BOUNDS_MS),
		          .left = TREE_ENTRIES_MAX,
		          .bytes_left = PATHS_BYTES };
	autotree *t = NULL;
	autoodb *odb = NULL;
	int r;

	if ((r = bounds_tree(&w.b, repo, id, &t, err)) < 0 && r != -ENOENT)
		return r;
	if (r < 0 || (r = git_repository_odb(&odb, repo)) < 0)
		return git_fail(r, "read the tree", err);
	w.odb = odb;
	ret->at.dir = true;
	git_oid_tostr(ret->at.sha, sizeof(ret->at.sha), id);
	r = list_dir(&w, t, recursive, 0, &ret->at, err);
	ret->n_below = TREE_ENTRIES_MAX - w.left;
	return r;
}

static int read_file(git_repository *repo, const git_tree_entry *e, struct arena *mem,
                     struct repo_contents *ret, struct err *err)
{
	const git_oid *id = git_tree_entry_id(e);
	const char *path = ret->at.path;
	autoblob *b = NULL;
	autoodb *odb = NULL;
	git_object_t type;
	size_t len = 0;
	int r;

	/* Asked before it is read. */
	if (git_repository_odb(&odb, repo) < 0 || git_odb_read_header(&len, &type, odb, id) < 0)
		return err_tag(err, -ENOENT, ERR_CONTENT_NOT_FOUND,
		               "'%.200s' is not in this repository", path);
	if ((r = blob_size_check(len, err)) < 0)
		return r;
	if (git_blob_lookup(&b, repo, id) < 0)
		return err_tag(err, -ENOENT, ERR_CONTENT_NOT_FOUND, "'%.200s' is not a file", path);
	git_oid_tostr(ret->at.sha, sizeof(ret->at.sha), id);
	ret->at.size = git_blob_rawsize(b);
	ret->content = arena_copy(mem, git_blob_rawcontent(b), ret->at.size);
	return arena_check(mem, err);
}

/* Without slashes at its ends; "." and "" are the root. */
static int clean_path(const char *path, char ret[PATH_MAX], struct err *err)
{
	size_t n;

	path += strspn(path, "/");
	if (strncmp(path, "./", 2) == 0)
		path += 2;
	n = strlen(path);
	while (n && path[n - 1] == '/')
		n--;
	if (n == 1 && *path == '.')
		n = 0;
	if (n >= PATH_MAX)
		return err_tag(err, -ENAMETOOLONG, ERR_INVALID_FILE_PATH, "the path is too long");
	memcpy(ret, path, n);
	ret[n] = '\0';
	return 0;
}

int repo_contents(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                  const char *path, const char *rev, bool recursive, struct arena *mem,
                  struct repo_contents *ret, struct err *err)
{
	git_tree_entry *e = NULL;
	char clean[PATH_MAX];
	autorepo *repo = NULL;
	autocommit *c = NULL;
	int rc;

	if ((rc = clean_path(path, clean, err)) < 0 || (rc = repo_open(g, r, &repo, err)) < 0 ||
	    (rc = rev_commit(repo, rev, &c, err)) < 0)
		return rc;
	*ret = (struct repo_contents){ .at.path = arena_str(mem, clean) };
	if (!*clean)
		return read_dir(repo, git_commit_tree_id(c), by, recursive, mem, ret, err);
	rc = tree_path(repo, git_commit_tree_id(c), clean, &e, err);
	if (rc == -ENOENT)
		return err_tag(err, -ENOENT, ERR_PATH_NOT_FOUND,
		               "'%.200s' does not exist in this revision", clean);
	if (rc < 0)
		return rc;
	rc = git_tree_entry_type(e) == GIT_OBJECT_TREE
	             ? read_dir(repo, git_tree_entry_id(e), by, recursive, mem, ret, err)
	             : read_file(repo, e, mem, ret, err);
	git_tree_entry_free(e);
	return rc;
}
