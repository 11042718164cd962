/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_edit.c - a tree with some files changed, by hash
 *
 * Only directories on the way to a changed file are read and rewritten; those that lose their
 * last file go with it. A file may take a directory's place and the other way round.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/utf8.h"
#include "git/bounds.h"

#define DEPTH_MAX 64
#define PATH_BYTES_MAX 4096

/* Names that a file system may take for ".git": upper case, trailing dots and spaces, short names.
 */
static bool like_dot_git(const char *p, size_t n)
{
	while (n && (p[n - 1] == '.' || p[n - 1] == ' '))
		n--;
	return (n == 4 && strncasecmp(p, ".git", 4) == 0) ||
	       (n == 5 && strncasecmp(p, "git~1", 5) == 0);
}

int tree_path_check(const char *path, struct err *err)
{
	size_t len = strlen(path), depth = 0;
	const char *why = NULL;

	if (!len || len > PATH_BYTES_MAX || *path == '/' || path[len - 1] == '/')
		why = "it must be relative and name a file";
	else if (!utf8_valid(path, len))
		why = "it must be UTF-8";
	for (const char *p = path; !why && *p;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			why = "'.', '..' and empty parts are not allowed";
		else if (like_dot_git(p, n))
			why = "'.git' is reserved for Git";
		else if (n > 255 || memchr(p, '\\', n))
			why = "a part of it is too long or has a backslash";
		else if (++depth > DEPTH_MAX)
			why = "it is too deep";
		p += n + (p[n] == '/');
	}
	for (const char *p = path; !why && *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			why = "it has a control character";
	return why ? err_tag(err, -EINVAL, ERR_INVALID_FILE_PATH, "path '%.100s': %s", path, why)
	           : 0;
}

/* What is below a name comes right after it: a slash is less than any other character. */
static int by_path(const void *a, const void *b)
{
	const char *p = ((const struct tree_edit *)a)->path;
	const char *q = ((const struct tree_edit *)b)->path;

	while (*p && *p == *q)
		p++, q++;
	return (*p == '/' ? 1 : (unsigned char)*p) - (*q == '/' ? 1 : (unsigned char)*q);
}

/* All edits have the same first `skip` bytes of their path. *ret_empty: nothing is left. */
static int edit_dir(git_repository *repo, const git_oid *base, struct tree_edit *e, size_t n,
                    size_t skip, git_oid *ret, bool *ret_empty, struct err *err);

static int edit_one(git_treebuilder *b, struct tree_edit *e, const char *name, struct err *err)
{
	const git_tree_entry *old = git_treebuilder_get(b, name);
	git_filemode_t mode = e->mode;
	int rc;

	if (!mode) {
		e->found = old && git_tree_entry_type(old) != GIT_OBJECT_TREE;
		rc = e->found ? git_treebuilder_remove(b, name) : 0;
	} else {
		if (e->keep_mode && old &&
		    git_tree_entry_filemode(old) == GIT_FILEMODE_BLOB_EXECUTABLE)
			mode = GIT_FILEMODE_BLOB_EXECUTABLE;
		rc = git_treebuilder_insert(NULL, b, name, &e->blob, mode);
	}
	return rc < 0 ? git_fail(rc, "change a tree", err) : 0;
}

static int edit_below(git_repository *repo, git_treebuilder *b, struct tree_edit *e, size_t n,
                      size_t skip, const char *name, size_t name_len, struct err *err)
{
	const git_tree_entry *old = git_treebuilder_get(b, name);
	const git_oid *base =
	        old && git_tree_entry_type(old) == GIT_OBJECT_TREE ? git_tree_entry_id(old) : NULL;
	bool empty = false, was_file = old && !base;
	git_oid id, copy;
	int rc;

	if (base) {
		copy = *base;
		base = &copy;
	}
	rc = edit_dir(repo, base, e, n, skip + name_len + 1, &id, &empty, err);
	if (rc < 0)
		return rc;
	if (!empty)
		rc = git_treebuilder_insert(NULL, b, name, &id, GIT_FILEMODE_TREE);
	else if (old && !was_file)
		rc = git_treebuilder_remove(b, name);
	return rc < 0 ? git_fail(rc, "change a tree", err) : 0;
}

static int edit_entries(git_repository *repo, git_treebuilder *b, struct tree_edit *e, size_t n,
                        size_t skip, struct err *err)
{
	char name[PATH_BYTES_MAX + 1];
	int r = 0;

	for (size_t i = 0, k; i < n && r == 0; i = k) {
		const char *at = e[i].path + skip;
		size_t len = strcspn(at, "/");
		bool leaf = at[len] == '\0';

		memcpy(name, at, len);
		name[len] = '\0';
		for (k = i + 1; k < n && strncmp(e[k].path + skip, at, len) == 0 &&
		                (e[k].path[skip + len] == '/' || e[k].path[skip + len] == '\0');
		     k++)
			;
		if (leaf && k - i > 1)
			return err_tag(err, -EINVAL, ERR_INVALID_FILE_CHANGE,
			               "'%.100s' is changed twice, or is a file and a directory",
			               e[i].path);
		r = leaf ? edit_one(b, &e[i], name, err)
		         : edit_below(repo, b, e + i, k - i, skip, name, len, err);
	}
	return r;
}

static int edit_dir(git_repository *repo, const git_oid *base, struct tree_edit *e, size_t n,
                    size_t skip, git_oid *ret, bool *ret_empty, struct err *err)
{
	git_treebuilder *b = NULL;
	autotree *t = NULL;
	int rc = base ? tree_get(repo, base, &t, err) : 0, r;

	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rc == 0)
		rc = git_treebuilder_new(&b, repo, t);
	if (rc < 0)
		return git_fail(rc, "read a tree", err);
	r = edit_entries(repo, b, e, n, skip, err);
	*ret_empty = git_treebuilder_entrycount(b) == 0;
	if (r == 0 && (!*ret_empty || skip == 0) && (rc = git_treebuilder_write(ret, b)) < 0)
		r = git_fail(rc, "write a tree", err);
	git_treebuilder_free(b);
	return r;
}

int tree_edit(git_repository *repo, git_tree *base, struct tree_edit *edits, size_t n, git_oid *ret,
              struct err *err)
{
	bool empty;

	qsort(edits, n, sizeof(*edits), by_path);
	return edit_dir(repo, base ? git_tree_id(base) : NULL, edits, n, 0, ret, &empty, err);
}
