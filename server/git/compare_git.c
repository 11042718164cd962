/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare_git.c - two trees compared by git diff-tree, in its jail
 *
 * It prints each file twice: ":100644 100755 <sha> <sha> M" NUL path NUL, then, for all of them,
 * "added TAB removed TAB" path NUL. A rename has both paths: in the first list one after the other,
 * in the second after an empty one. Both lists are in the same order.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/compare.h"

#define DIFF_MS 30000u
#define DIFF_BYTES (64u << 20) /* of its answer: COMPARE_FILES paths, twice */
#define BLOB_MAX "4m"          /* larger files count no lines */

struct reader {
	const char *p, *end; /* what is left of the answer */
	struct arena *mem;
	struct repo_comparison *ret;
};

/* The text up to the next NUL; NULL: there is none. */
static const char *next(struct reader *d)
{
	const char *at = d->p, *nul = memchr(at, '\0', (size_t)(d->end - at));

	if (!nul)
		return NULL;
	d->p = nul + 1;
	return at;
}

static int garbled(struct err *err)
{
	return err_tag(err, -EIO, ERR_GIT_ERROR, "git printed a comparison that cannot be read");
}

static enum repo_diff_status status_of(char c)
{
	switch (c) {
	case 'A':
		return REPO_DIFF_ADDED;
	case 'D':
		return REPO_DIFF_REMOVED;
	case 'R':
		return REPO_DIFF_RENAMED;
	case 'C':
		return REPO_DIFF_COPIED;
	case 'T':
		return REPO_DIFF_CHANGED;
	default:
		return REPO_DIFF_MODIFIED;
	}
}

/* ":<mode> <mode> <sha> <sha> <letter>" and one or two paths */
static int read_raw(struct reader *d, struct err *err)
{
	struct repo_comparison *ret = d->ret;
	struct repo_diff_file *f;
	const char *head = next(d), *path = head ? next(d) : NULL;
	char new_sha[REPO_SHA_SIZE], kind;

	if (!path || sscanf(head, ":%*o %*o %*40[0-9a-f] %40[0-9a-f] %c", new_sha, &kind) != 2)
		return garbled(err);
	ret->v = arena_more(d->mem, ret->v, ret->n, sizeof(*ret->v));
	if (!ret->v)
		return arena_check(d->mem, err);
	f = &ret->v[ret->n++];
	*f = (struct repo_diff_file){ .status = status_of(kind) };
	if (f->status == REPO_DIFF_RENAMED || f->status == REPO_DIFF_COPIED) {
		f->old_path = arena_str(d->mem, path);
		if (!(path = next(d)))
			return garbled(err);
	}
	f->path = arena_str(d->mem, path);
	if (f->status != REPO_DIFF_REMOVED)
		memcpy(f->sha, new_sha, sizeof(f->sha));
	return arena_check(d->mem, err);
}

/* "12 TAB 3 TAB path"; "-" for what has no lines. */
static int read_lines(struct reader *d, struct repo_diff_file *f, struct err *err)
{
	const char *at = next(d), *tab = at ? strchr(at, '\t') : NULL;
	const char *name = tab ? strchr(tab + 1, '\t') : NULL;

	if (!name)
		return garbled(err);
	if (*at != '-') {
		f->added = strtoull(at, NULL, 10);
		f->removed = strtoull(tab + 1, NULL, 10);
	}
	return name[1] || (next(d) && next(d)) ? 0 : garbled(err);
}

static int read_answer(struct reader *d, struct err *err)
{
	int r = 0;

	while (r == 0 && d->p < d->end && *d->p == ':')
		r = read_raw(d, err);
	for (size_t i = 0; r == 0 && i < d->ret->n; i++)
		r = read_lines(d, &d->ret->v[i], err);
	return r;
}

int compare_git(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                const git_tree *from, const git_tree *to, struct arena *mem,
                struct repo_comparison *ret, struct err *err)
{
	char a[REPO_SHA_SIZE], b[REPO_SHA_SIZE], limit[16], path[PATH_MAX];
	const char *argv[] = { GIT_PROGRAM,
		               "-c",
		               "core.bigFileThreshold=" BLOB_MAX,
		               "diff-tree",
		               "-r",
		               "-z",
		               "--raw",
		               "--numstat",
		               "--full-index",
		               "--no-ext-diff",
		               "--no-textconv",
		               "--find-renames",
		               limit,
		               a,
		               b,
		               NULL };
	autorun struct run_result res = { 0 };
	struct reader d = { .mem = mem, .ret = ret };
	int rc;

	git_oid_tostr(a, sizeof(a), git_tree_id(from));
	git_oid_tostr(b, sizeof(b), git_tree_id(to));
	snprintf(limit, sizeof(limit), "-l%d", COMPARE_RENAMES);
	repo_path(g, r->id, path);
	rc = run_git(g,
	             &(struct run_opts){ .repo = path,
	                                 .argv = argv,
	                                 .client = by,
	                                 .out_max = DIFF_BYTES,
	                                 .limit_ms = DIFF_MS },
	             &res, err);
	if (rc == -ETIMEDOUT || (rc == 0 && res.status != 0))
		return err_tag(err, -EFBIG, ERR_GIT_TOO_LARGE,
		               "the files that differ are too large to be compared here: it takes "
		               "more than %u seconds or %d MiB of memory",
		               DIFF_MS / 1000, CHILD_ASK_MB);
	if (rc < 0)
		return rc;
	d.p = res.out.p ? (const char *)res.out.p : "";
	d.end = d.p + res.out.len;
	return read_answer(&d, err);
}
