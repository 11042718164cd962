/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.c - how two revisions relate, and which files differ
 *
 * Files are compared with what both have in common (their merge base), as a pull request shows
 * them; without anything in common, with the base itself.
 *
 * Which files differ is found by a bounded walk (changes.c). What libgit2 then reads is these files
 * alone, and only if they are small; larger ones are compared by Git itself in its jail
 * (compare_git.c), with limits on its time and memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/compare.h"
#include "git/graph.h"

#define SMALL_FILE (512u << 10) /* bytes of a file that is compared in this process */
#define SMALL_ALL (8u << 20)    /* of all of them */

static enum repo_diff_status status_of_delta(git_delta_t s)
{
	switch (s) {
	case GIT_DELTA_ADDED:
		return REPO_DIFF_ADDED;
	case GIT_DELTA_DELETED:
		return REPO_DIFF_REMOVED;
	case GIT_DELTA_RENAMED:
		return REPO_DIFF_RENAMED;
	case GIT_DELTA_COPIED:
		return REPO_DIFF_COPIED;
	case GIT_DELTA_TYPECHANGE:
		return REPO_DIFF_CHANGED;
	case GIT_DELTA_UNMODIFIED:
		return REPO_DIFF_UNCHANGED;
	default:
		return REPO_DIFF_MODIFIED;
	}
}

/* ---- which files ---- */

struct found {
	git_odb *odb; /* owned */
	struct arena *mem;
	char **paths; /* in mem */
	size_t n;
	bool more;  /* than COMPARE_FILES */
	bool large; /* too much to be compared here */
	uint64_t bytes;
};

static void found_done(struct found *f)
{
	git_odb_free(f->odb);
}

static void weigh(struct found *f, const git_tree_entry *e)
{
	git_object_t type;
	size_t len = 0;

	if (!e || git_odb_read_header(&len, &type, f->odb, git_tree_entry_id(e)) < 0)
		return; /* nothing, or a submodule: its commit is elsewhere */
	f->bytes += len;
	f->large |= len > SMALL_FILE || f->bytes > SMALL_ALL;
}

static int on_change(void *ctx, const struct change *c, struct err *err)
{
	struct found *f = ctx;

	if (f->n == COMPARE_FILES) {
		f->more = true;
		return 1;
	}
	f->paths = arena_more(f->mem, f->paths, f->n, sizeof(*f->paths));
	if (!f->paths)
		return arena_check(f->mem, err);
	f->paths[f->n++] =
	        (char *)(uintptr_t)arena_str(f->mem, c->path); /* libgit2 only reads it */
	weigh(f, c->from);
	weigh(f, c->to);
	return arena_check(f->mem, err);
}

/* ---- what differs in them, by libgit2 ---- */

/* Bytes of both sides of it. */
static uint64_t delta_bytes(git_odb *odb, const git_diff_delta *d)
{
	const git_oid *const ids[] = { &d->old_file.id, &d->new_file.id };
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		git_object_t type;
		size_t len = 0;

		if (!git_oid_is_zero(ids[i]) && git_odb_read_header(&len, &type, odb, ids[i]) == 0)
			sum += len;
	}
	return sum;
}

static void read_delta(git_diff *diff, size_t i, bool count, struct arena *mem,
                       struct repo_diff_file *ret)
{
	const git_diff_delta *d = git_diff_get_delta(diff, i);
	bool gone = d->status == GIT_DELTA_DELETED;
	git_patch *patch = NULL;
	size_t context = 0;

	if (count && git_patch_from_diff(&patch, diff, i) == 0 && patch)
		git_patch_line_stats(&context, &ret->added, &ret->removed, patch);
	git_patch_free(patch);
	ret->status = status_of_delta(d->status);
	ret->path = arena_str(mem, gone ? d->old_file.path : d->new_file.path);
	if (!gone)
		git_oid_tostr(ret->sha, sizeof(ret->sha), &d->new_file.id);
	if (d->status == GIT_DELTA_RENAMED || d->status == GIT_DELTA_COPIED)
		ret->old_path = arena_str(mem, d->old_file.path);
}

/* With too many files, those that come first, and lines of as many as are cheap to count. */
static int read_deltas(git_diff *diff, const struct found *f, struct bounds *b, struct arena *mem,
                       struct repo_comparison *ret, struct err *err)
{
	size_t n = MIN(git_diff_num_deltas(diff), (size_t)COMPARE_FILES);
	uint64_t spent = 0;
	int r = 0;

	ret->v = arena_array(mem, n, sizeof(*ret->v));
	if (!ret->v)
		return arena_check(mem, err);
	for (ret->n = 0; r == 0 && ret->n < n; ret->n++) {
		spent += f->large ? delta_bytes(f->odb, git_diff_get_delta(diff, ret->n)) : 0;
		read_delta(diff, ret->n, spent <= SMALL_ALL, mem, &ret->v[ret->n]);
		r = bounds_look(b, err);
	}
	return r < 0 ? r : arena_check(mem, err);
}

/* Before a path is added: it is one of those that were found. */
static int on_delta(const git_diff *so_far, const git_diff_delta *d, const char *spec, void *ctx)
{
	(void)d;
	(void)spec;
	return git_diff_num_deltas(so_far) > *(const size_t *)ctx ? -1 : 0;
}

static int diff_here(git_repository *repo, git_tree *a, git_tree *t, const struct found *f,
                     struct bounds *b, struct arena *mem, struct repo_comparison *ret,
                     struct err *err)
{
	git_diff_find_options fo = GIT_DIFF_FIND_OPTIONS_INIT;
	git_diff_options o = GIT_DIFF_OPTIONS_INIT;
	/* A file that became a directory names what is below it: those are found as well. */
	size_t most = 2 * (size_t)COMPARE_FILES;
	git_diff *diff = NULL;
	int rc;

	if (f->n == 0)
		return 0;
	o.max_size = SMALL_FILE;
	o.flags |= GIT_DIFF_DISABLE_PATHSPEC_MATCH;
	o.pathspec = (git_strarray){ .strings = f->paths, .count = f->n };
	o.notify_cb = on_delta;
	o.payload = &most;
	fo.flags = GIT_DIFF_FIND_RENAMES;
	fo.rename_limit = COMPARE_RENAMES;
	if ((rc = git_diff_tree_to_tree(&diff, repo, a, t, &o)) < 0)
		return git_fail(rc, "compare", err);
	/* Without it a rename is a removal and an addition. */
	if (!f->more)
		git_diff_find_similar(diff, &fo);
	rc = read_deltas(diff, f, b, mem, ret, err);
	git_diff_free(diff);
	return rc;
}

static int diff_files(struct repos *g, const struct store_repo *r, git_repository *repo,
                      git_commit *from, git_commit *to, struct bounds *b, struct arena *mem,
                      struct repo_comparison *ret, struct err *err)
{
	AUTO(found_done) struct found f = { .mem = mem };
	autotree *a = NULL, *t = NULL;
	int rc;

	if ((rc = git_repository_odb(&f.odb, repo)) < 0)
		return git_fail(rc, "read objects", err);
	if ((rc = bounds_tree(b, repo, git_commit_tree_id(from), &a, err)) < 0 ||
	    (rc = bounds_tree(b, repo, git_commit_tree_id(to), &t, err)) < 0)
		return rc == -ENOENT ? err_tag(err, -EIO, ERR_GIT_ERROR,
		                               "a tree of the repository is missing")
		                     : rc;
	if ((rc = tree_changes(repo, a, t, b, on_change, &f, err)) < 0)
		return rc;
	if (f.large && !f.more)
		return compare_git(g, r, b->client, a, t, mem, ret, err);
	return diff_here(repo, a, t, &f, b, mem, ret, err);
}

int repo_compare(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                 const char *base, const char *head, struct arena *mem, struct repo_comparison *ret,
                 struct err *err)
{
	autocommit *b = NULL, *h = NULL, *m = NULL;
	struct graph gr = { .g = g, .r = r, .client = by };
	struct bounds bounds = bounds_begin(by, BOUNDS_MS);
	struct relation rel;
	autorepo *repo = NULL;
	int rc;

	if ((rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_commit(repo, base, &b, err)) < 0 ||
	    (rc = rev_commit(repo, head, &h, err)) < 0)
		return rc;
	gr.repo = repo;
	if ((rc = graph_relate(&gr, git_commit_id(b), git_commit_id(h), &rel, err)) < 0)
		return rc;
	if (rel.has_base && (rc = commit_get(repo, &rel.base, &m, err)) < 0)
		return rc == -ENOENT ? git_fail(rc, "compare", err) : rc;
	*ret = (struct repo_comparison){ .ahead = rel.ahead, .behind = rel.behind };
	return diff_files(g, r, repo, m ? m : b, h, &bounds, mem, ret, err);
}
