/* SPDX-License-Identifier: Apache-2.0 */
/* search_files.c - names of files of a revision; and the globs that other searches are narrowed by
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"
#include "git/search.h"

int globs_new(const struct repo_search *q, enum err_code tag, struct globs *ret, struct err *err)
{
	struct match_opts o = { .glob = true, .case_sensitive = true };
	const char *in = q->path_pattern, *out = q->exclude_pattern;
	int r = 0;

	*ret = (struct globs){ 0 };
	if (in)
		r = match_new(in + (*in == '/'), &o, &ret->in, err);
	if (r == 0 && out)
		r = match_new(out + (*out == '/'), &o, &ret->out, err);
	if (r < 0) {
		err->tag = tag;
		globs_done(ret);
	}
	return r;
}

void globs_done(struct globs *g)
{
	g->in = match_free(g->in);
	g->out = match_free(g->out);
}

static bool fits(struct match *m, const char *path)
{
	size_t a, b;

	return match_find(m, path, strlen(path), &a, &b) == 1;
}

bool globs_in(const struct globs *g, const char *path)
{
	return !g->in || fits(g->in, path);
}

bool globs_out(const struct globs *g, const char *path)
{
	return g->out && fits(g->out, path);
}

bool globs_pass(const struct globs *g, const char *path)
{
	return globs_in(g, path) && !globs_out(g, path);
}

int search_glob_check(const struct repo_search *q, enum err_code tag, struct err *err)
{
	struct globs g;
	int r = globs_new(q, tag, &g, err);

	if (r == 0)
		globs_done(&g);
	return r;
}

struct walk {
	const struct repo_search *q;
	struct match *m;
	struct globs globs;
	git_odb *odb;
	struct arena *mem;
	struct repo_found_files *files; /* the result */
	struct bounds b;
	char path[PATH_MAX];
};

static int add(struct walk *w, const git_tree_entry *e, struct err *err)
{
	struct repo_found_files *f = w->files;
	size_t len = 0;
	git_object_t type;

	if (f->total++ < w->q->offset || f->n >= w->q->max_results)
		return 0;
	f->v = arena_more(w->mem, f->v, f->n, sizeof(*f->v));
	if (!f->v)
		return arena_check(w->mem, err);
	if (git_odb_read_header(&len, &type, w->odb, git_tree_entry_id(e)) < 0)
		len = 0;
	f->v[f->n++] = (struct repo_found_file){ .path = arena_str(w->mem, w->path), .size = len };
	return arena_check(w->mem, err);
}

/* w->path holds the first n bytes: the directory with its slash. */
static int look(struct walk *w, git_repository *repo, git_tree *t, size_t n, unsigned depth,
                struct err *err)
{
	int r = 0;

	if (depth > BOUNDS_DEPTH)
		return 0;
	for (size_t i = 0; i < git_tree_entrycount(t) && r == 0; i++) {
		const git_tree_entry *e = git_tree_entry_byindex(t, i);
		size_t len = (size_t)snprintf(w->path + n, sizeof(w->path) - n, "%s",
		                              git_tree_entry_name(e));
		size_t a, b;

		if (n + len + 2 > sizeof(w->path))
			continue;
		if (git_tree_entry_type(e) == GIT_OBJECT_TREE) {
			autotree *sub = NULL;

			r = bounds_tree(&w->b, repo, git_tree_entry_id(e), &sub, err);
			if (r < 0 && r != -ENOENT)
				return r;
			r = 0;
			if (!sub)
				continue;
			w->path[n + len] = '/';
			w->path[n + len + 1] = '\0';
			r = look(w, repo, sub, n + len + 1, depth + 1, err);
			continue;
		}
		if ((r = bounds_step(&w->b, err)) < 0)
			return r;
		r = match_find(w->m, w->path, n + len, &a, &b);
		if (r == 1)
			r = globs_pass(&w->globs, w->path) ? add(w, e, err) : 0;
	}
	return r;
}

static void walk_done(struct walk *w)
{
	match_free(w->m);
	globs_done(&w->globs);
	git_odb_free(w->odb);
}

int repo_search_files(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      struct arena *mem, struct repo_found_files *ret, struct err *err)
{
	AUTO(walk_done)
	struct walk w = { .q = q,
		          .mem = mem,
		          .files = ret,
		          .b = bounds_begin(q->client, (unsigned)search_limit_ms(g)) };
	struct match_opts mo = { .regex = q->regex,
		                 .case_sensitive = q->case_sensitive,
		                 .glob = !q->regex && strpbrk(q->query, "*?[") };
	autorepo *repo = NULL;
	autocommit *c = NULL;
	autotree *root = NULL;
	int rc;

	if (!*q->query)
		return err_tag(err, -EINVAL, ERR_FILENAME_EMPTY_QUERY, "'query' is empty");
	if (match_new(q->query, &mo, &w.m, err) < 0) {
		err->tag = ERR_FILENAME_INVALID_PATTERN;
		return err->code;
	}
	if ((rc = globs_new(q, ERR_FILENAME_INVALID_PATTERN, &w.globs, err)) < 0 ||
	    (rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_commit(repo, q->rev, &c, err)) < 0)
		return rc;
	if ((rc = bounds_tree(&w.b, repo, git_commit_tree_id(c), &root, err)) < 0 && rc != -ENOENT)
		return rc;
	if (rc < 0 || (rc = git_repository_odb(&w.odb, repo)) < 0)
		return git_fail(rc, "read the tree", err);
	*ret = (struct repo_found_files){ 0 };
	rc = look(&w, repo, root, 0, 0, err);
	return rc == -ELOOP ? search_too_slow(g, ERR_FILENAME_INVALID_PATTERN, true, err) : rc;
}
