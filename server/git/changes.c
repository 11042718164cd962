/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.c - which paths differ between two trees
 *
 * Both are read side by side, in Git's order: a directory sorts as if its name ended with a slash.
 * So a file that became a directory is one path gone and others new, as Git says it.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"

struct differ {
	git_repository *repo;
	struct bounds *b;
	change_fn fn;
	void *ctx;
	char path[PATH_MAX];
};

static bool is_tree(const git_tree_entry *e)
{
	return e && git_tree_entry_filemode(e) == GIT_FILEMODE_TREE;
}

/* As Git sorts: memcmp() of the names, directories with a slash behind them. */
static int order(const git_tree_entry *a, const git_tree_entry *b)
{
	const char *p = git_tree_entry_name(a), *q = git_tree_entry_name(b);
	size_t i = 0;
	unsigned char x, y;

	while (p[i] && p[i] == q[i])
		i++;
	x = (unsigned char)(p[i] ? p[i] : is_tree(a) ? '/' : 0);
	y = (unsigned char)(q[i] ? q[i] : is_tree(b) ? '/' : 0);
	return (x > y) - (x < y);
}

static int differ_trees(struct differ *d, git_tree *from, git_tree *to, size_t n, unsigned depth,
                        struct err *err);

static int open_side(struct differ *d, const git_tree_entry *e, git_tree **ret, struct err *err)
{
	int r = is_tree(e) ? bounds_tree(d->b, d->repo, git_tree_entry_id(e), ret, err) : 0;

	return r == -ENOENT
	               ? err_tag(err, -EIO, ERR_GIT_ERROR, "a tree of the repository is missing")
	               : r;
}

/* One name that differs; n: bytes of the directory, with its slash. */
static int differ_entry(struct differ *d, const git_tree_entry *a, const git_tree_entry *b,
                        size_t n, unsigned depth, struct err *err)
{
	const char *name = git_tree_entry_name(a ? a : b);
	struct change c = { .path = d->path, .from = a, .to = b };
	autotree *from = NULL, *to = NULL;
	size_t len = strlen(name);
	int r;

	if (n + len + 2 > sizeof(d->path) || depth > BOUNDS_DEPTH)
		return err_tag(err, -EFBIG, ERR_GIT_TOO_LARGE,
		               "a path is longer than %d bytes, or deeper than %d directories",
		               PATH_MAX, BOUNDS_DEPTH);
	memcpy(d->path + n, name, len + 1);
	if (!is_tree(a) && !is_tree(b)) {
		r = bounds_step(d->b, err);
		return r < 0 ? r : d->fn(d->ctx, &c, err);
	}
	if ((r = open_side(d, a, &from, err)) < 0 || (r = open_side(d, b, &to, err)) < 0)
		return r;
	d->path[n + len] = '/';
	d->path[n + len + 1] = '\0';
	return differ_trees(d, from, to, n + len + 1, depth + 1, err);
}

static int differ_trees(struct differ *d, git_tree *from, git_tree *to, size_t n, unsigned depth,
                        struct err *err)
{
	size_t na = from ? git_tree_entrycount(from) : 0, nb = to ? git_tree_entrycount(to) : 0;
	size_t i = 0, k = 0;
	int r = 0;

	while (r == 0 && (i < na || k < nb)) {
		const git_tree_entry *a = i < na ? git_tree_entry_byindex(from, i) : NULL;
		const git_tree_entry *b = k < nb ? git_tree_entry_byindex(to, k) : NULL;
		int o = !a ? 1 : !b ? -1 : order(a, b);

		i += o <= 0;
		k += o >= 0;
		if (o == 0 && git_oid_equal(git_tree_entry_id(a), git_tree_entry_id(b)) &&
		    git_tree_entry_filemode(a) == git_tree_entry_filemode(b))
			continue;
		r = differ_entry(d, o <= 0 ? a : NULL, o >= 0 ? b : NULL, n, depth, err);
	}
	return r;
}

int tree_changes(git_repository *repo, git_tree *from, git_tree *to, struct bounds *b, change_fn fn,
                 void *ctx, struct err *err)
{
	struct differ d = { .repo = repo, .b = b, .fn = fn, .ctx = ctx };

	return differ_trees(&d, from, to, 0, 0, err);
}
