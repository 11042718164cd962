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
	size_t left; /* entries */
};

static const char *base_name(const char *path)
{
	const char *s = strrchr(path, '/');

	return s ? s + 1 : path;
}

static json_t *node(const char *type, const char *path, const git_oid *id)
{
	const char *name = base_name(path);

	return json_pack("{s:s, s:o, s:o, s:o}", "type", type, "name",
	                 text_json(name, strlen(name)), "path", text_json(path, strlen(path)),
	                 "sha", oid_json(id));
}

static int list_dir(struct walk *w, git_tree *t, const char *path, bool recursive, unsigned depth,
                    json_t *entries, struct err *err)
{
	size_t n = git_tree_entrycount(t), len;
	git_object_t type;
	int r = 0;

	if (depth > DEPTH_MAX)
		return err_tag(err, -ELOOP, ERR_GET_CONTENT_FAILED,
		               "directories nest deeper than %d", DEPTH_MAX);
	for (size_t i = 0; i < n && r == 0; i++) {
		const git_tree_entry *e = git_tree_entry_byindex(t, i);
		bool dir = git_tree_entry_type(e) == GIT_OBJECT_TREE;
		autobuf struct buf full = { 0 };
		json_t *j;

		if (w->left-- == 0)
			return err_tag(err, -EFBIG, ERR_GET_CONTENT_FAILED,
			               "the directory has more than %d entries", TREE_ENTRIES_MAX);
		buf_printf(&full, "%s%s%s", path, *path ? "/" : "", git_tree_entry_name(e));
		buf_put(&full, "", 1);
		if (full.failed)
			return err_set(err, -ENOMEM, "out of memory");
		j = node(dir ? "dir" : "file", (char *)full.p, git_tree_entry_id(e));
		if (dir) {
			json_t *below = json_array();
			autotree *sub = NULL;

			json_object_set_new(j, "entries", below);
			if (recursive && git_tree_lookup(&sub, w->repo, git_tree_entry_id(e)) == 0)
				r = list_dir(w, sub, (char *)full.p, true, depth + 1, below, err);
		} else {
			if (git_odb_read_header(&len, &type, w->odb, git_tree_entry_id(e)) < 0)
				len = 0; /* a submodule */
			json_object_set_new(j, "size", json_integer((json_int_t)len));
		}
		json_array_append_new(entries, j);
	}
	return r;
}

static int dir_json(git_repository *repo, const git_oid *id, const char *path, bool recursive,
                    json_t **ret, struct err *err)
{
	struct walk w = { .repo = repo, .left = TREE_ENTRIES_MAX };
	json_t *entries, *j;
	autotree *t = NULL;
	autoodb *odb = NULL;
	int r;

	if ((r = git_tree_lookup(&t, repo, id)) < 0 || (r = git_repository_odb(&odb, repo)) < 0)
		return git_fail(r, "read the tree", err);
	w.odb = odb;
	j = node("dir", path, id);
	entries = json_array();
	json_object_set_new(j, "entries", entries);
	r = list_dir(&w, t, path, recursive, 0, entries, err);
	if (r < 0)
		json_decref(j);
	else
		*ret = j;
	return r;
}

static int file_json(git_repository *repo, const git_tree_entry *e, const char *path, json_t **ret,
                     struct err *err)
{
	autoblob *b = NULL;
	autoodb *odb = NULL;
	git_object_t type;
	size_t len = 0;
	json_t *j;
	int r;

	/* Asked before it is read. */
	if (git_repository_odb(&odb, repo) < 0 ||
	    git_odb_read_header(&len, &type, odb, git_tree_entry_id(e)) < 0)
		return err_tag(err, -ENOENT, ERR_CONTENT_NOT_FOUND,
		               "'%.200s' is not in this repository", path);
	if ((r = blob_size_check(len, err)) < 0)
		return r;
	if (git_blob_lookup(&b, repo, git_tree_entry_id(e)) < 0)
		return err_tag(err, -ENOENT, ERR_CONTENT_NOT_FOUND, "'%.200s' is not a file", path);
	j = node("file", path, git_tree_entry_id(e));
	json_object_set_new(j, "size", json_integer((json_int_t)git_blob_rawsize(b)));
	json_object_set_new(j, "content", base64_json(git_blob_rawcontent(b), git_blob_rawsize(b)));
	*ret = j;
	return 0;
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
                  bool recursive, json_t **ret, struct err *err)
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
	if (!*clean)
		return dir_json(repo, git_commit_tree_id(c), "", recursive, ret, err);
	if ((rc = git_commit_tree(&root, c)) < 0)
		return git_fail(rc, "read the tree", err);
	if (git_tree_entry_bypath(&e, root, clean) < 0)
		return err_tag(err, -ENOENT, ERR_PATH_NOT_FOUND,
		               "'%.200s' does not exist in this revision", clean);
	rc = git_tree_entry_type(e) == GIT_OBJECT_TREE
	             ? dir_json(repo, git_tree_entry_id(e), clean, recursive, ret, err)
	             : file_json(repo, e, clean, ret, err);
	git_tree_entry_free(e);
	return rc;
}
