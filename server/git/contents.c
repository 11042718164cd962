/* SPDX-License-Identifier: Apache-2.0 */
/* contents.c - a file or a directory of a revision */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/git_internal.h"

#define DEPTH_MAX 128 /* directories inside directories */

struct walk {
	git_repository *repo;
	git_odb *odb;
	struct arena *mem;
	size_t left; /* entries */
};

static int list_dir(struct walk *w, git_tree *t, bool recursive, unsigned depth,
                    struct repo_entry *ret, struct err *err)
{
	size_t n = git_tree_entrycount(t);
	int r = 0;

	if (depth > DEPTH_MAX)
		return err_tag(err, -ELOOP, ERR_GET_CONTENT_FAILED,
		               "directories nest deeper than %d", DEPTH_MAX);
	if (n > w->left)
		return err_tag(err, -EFBIG, ERR_GET_CONTENT_FAILED,
		               "the directory has more than %d entries", TREE_ENTRIES_MAX);
	w->left -= n;
	ret->entries = arena_array(w->mem, n, sizeof(*ret->entries));
	if (!ret->entries)
		return arena_check(w->mem, err);
	ret->n_entries = n;
	for (size_t i = 0; i < n && r == 0; i++) {
		const git_tree_entry *e = git_tree_entry_byindex(t, i);
		struct repo_entry *one = &ret->entries[i];
		autotree *sub = NULL;

		entry_read(w->odb, e, one);
		one->path = arena_printf(w->mem, "%s%s%s", ret->path, *ret->path ? "/" : "",
		                         git_tree_entry_name(e));
		if (one->dir && recursive &&
		    git_tree_lookup(&sub, w->repo, git_tree_entry_id(e)) == 0)
			r = list_dir(w, sub, true, depth + 1, one, err);
	}
	return r < 0 ? r : arena_check(w->mem, err);
}

static int read_dir(git_repository *repo, const git_oid *id, bool recursive, struct arena *mem,
                    struct repo_contents *ret, struct err *err)
{
	struct walk w = { .repo = repo, .mem = mem, .left = TREE_ENTRIES_MAX };
	autotree *t = NULL;
	autoodb *odb = NULL;
	int r;

	if ((r = git_tree_lookup(&t, repo, id)) < 0 || (r = git_repository_odb(&odb, repo)) < 0)
		return git_fail(r, "read the tree", err);
	w.odb = odb;
	ret->at.dir = true;
	git_oid_tostr(ret->at.sha, sizeof(ret->at.sha), id);
	return list_dir(&w, t, recursive, 0, &ret->at, err);
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

int repo_contents(struct repos *g, const struct store_repo *r, const char *path, const char *rev,
                  bool recursive, struct arena *mem, struct repo_contents *ret, struct err *err)
{
	git_tree_entry *e = NULL;
	char clean[PATH_MAX];
	autorepo *repo = NULL;
	autocommit *c = NULL;
	autotree *root = NULL;
	int rc;

	if ((rc = clean_path(path, clean, err)) < 0 || (rc = repo_open(g, r, &repo, err)) < 0 ||
	    (rc = rev_commit(repo, rev, &c, err)) < 0)
		return rc;
	*ret = (struct repo_contents){ .at.path = arena_str(mem, clean) };
	if (!*clean)
		return read_dir(repo, git_commit_tree_id(c), recursive, mem, ret, err);
	if ((rc = git_commit_tree(&root, c)) < 0)
		return git_fail(rc, "read the tree", err);
	if (git_tree_entry_bypath(&e, root, clean) < 0)
		return err_tag(err, -ENOENT, ERR_PATH_NOT_FOUND,
		               "'%.200s' does not exist in this revision", clean);
	rc = git_tree_entry_type(e) == GIT_OBJECT_TREE
	             ? read_dir(repo, git_tree_entry_id(e), recursive, mem, ret, err)
	             : read_file(repo, e, mem, ret, err);
	git_tree_entry_free(e);
	return rc;
}
