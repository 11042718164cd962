/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.c - which commits come before which
 *
 * libgit2 walks them, in this process. What it cannot walk is a shallow repository (imported with a
 * depth): it fails on missing parents. And a long history takes memory and time that nothing could
 * take back. Then Git itself is asked, in its jail, with limits on both.
 */
#include "git/graph.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define WALK_MAX 5000000 /* commits of one branch */
#define ASK_MS 60000
#define HERE_BYTES (INT64_C(64) << 20) /* of a repository that is walked in this process */
#define ASK_BYTES (256u << 20)

void oids_done(struct oids *o)
{
	free(o->v);
}

int oids_add(struct oids *o, const git_oid *id, struct err *err)
{
	if (o->n == WALK_MAX)
		return err_tag(err, -EFBIG, ERR_GIT_ERROR, "the branch has more than %d commits",
		               WALK_MAX);
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 1024;
		void *p = realloc(o->v, cap * sizeof(*o->v));

		if (!p)
			return err_set(err, -ENOMEM, "out of memory");
		o->v = p;
		o->cap = cap;
	}
	o->v[o->n++] = *id;
	return 0;
}

/* As it was measured after its last push; a history of so many bytes is a second's walk. */
static bool by_git(const struct graph *g)
{
	return g->r->bytes > HERE_BYTES || git_repository_is_shallow(g->repo) == 1;
}

/* ---- shallow or large: git's own programs ---- */

static int ask(struct graph *g, const char *const *argv, struct run_result *ret, struct err *err)
{
	char path[PATH_MAX];
	int r;

	repo_path(g->g, g->r->id, path);
	r = run_git(g->g,
	            &(struct run_opts){ .repo = path,
	                                .argv = argv,
	                                .client = g->client,
	                                .out_max = ASK_BYTES,
	                                .limit_ms = ASK_MS },
	            ret, err);
	if (r == -ETIMEDOUT || r == -EFBIG || (r == 0 && run_exhausted(ret)))
		return err_tag(
		        err, -EFBIG, ERR_GIT_TOO_LARGE,
		        "the history is too long for this: it takes more than %d seconds, %u "
		        "MiB of hashes or %d MiB of memory",
		        ASK_MS / 1000, ASK_BYTES >> 20, CHILD_ASK_MB);
	if (r < 0)
		return r;
	return ret->status <= 1
	               ? 0
	               : err_tag(err, -EIO, ERR_GIT_ERROR, "git: %.200s", (char *)ret->err_text.p);
}

static int ask_walk(struct graph *g, const git_oid *tip, const git_oid *hide, size_t max,
                    struct oids *ret, struct err *err)
{
	char from[REPO_SHA_SIZE], not [REPO_SHA_SIZE + 1] = "^", most[32];
	const char *argv[] = { GIT_PROGRAM,       "rev-list", "--topo-order", most, from,
		               hide ? not : NULL, NULL };
	autorun struct run_result res = { 0 };
	git_oid id;
	int r;

	snprintf(most, sizeof(most), "-n%zu", MIN(max, (size_t)WALK_MAX + 1));
	git_oid_tostr(from, sizeof(from), tip);
	if (hide)
		git_oid_tostr(not +1, sizeof(not ) - 1, hide);
	if ((r = ask(g, argv, &res, err)) < 0)
		return r;
	for (size_t at = 0; at + REPO_SHA_SIZE <= res.out.len && ret->n < max; at += REPO_SHA_SIZE)
		if (git_oid_fromstrn(&id, (char *)res.out.p + at, REPO_SHA_SIZE - 1) < 0 ||
		    (r = oids_add(ret, &id, err)) < 0)
			return r < 0 ? r
			             : err_tag(err, -EIO, ERR_GIT_ERROR,
			                       "git printed something that is not a hash");
	return 0;
}

static int ask_ancestor(struct graph *g, const git_oid *a, const git_oid *b, struct err *err)
{
	char old[REPO_SHA_SIZE], young[REPO_SHA_SIZE];
	const char *argv[] = { GIT_PROGRAM, "merge-base", "--is-ancestor", old, young, NULL };
	autorun struct run_result res = { 0 };
	int r;

	git_oid_tostr(old, sizeof(old), a);
	git_oid_tostr(young, sizeof(young), b);
	r = ask(g, argv, &res, err);
	return r < 0 ? r : res.status == 0;
}

static int ask_relation(struct graph *g, const git_oid *base, const git_oid *head,
                        struct relation *ret, struct err *err)
{
	char a[REPO_SHA_SIZE], b[REPO_SHA_SIZE], both[2 * REPO_SHA_SIZE + 4];
	const char *count[] = { GIT_PROGRAM, "rev-list", "--left-right", "--count", both, NULL };
	const char *merge[] = { GIT_PROGRAM, "merge-base", a, b, NULL };
	autorun struct run_result n = { 0 }, m = { 0 };
	char *end;
	int r;

	git_oid_tostr(a, sizeof(a), base);
	git_oid_tostr(b, sizeof(b), head);
	snprintf(both, sizeof(both), "%s...%s", a, b);
	if ((r = ask(g, count, &n, err)) < 0 || (r = ask(g, merge, &m, err)) < 0)
		return r;
	buf_put(&n.out, "", 1);
	if (n.out.failed)
		return err_set(err, -ENOMEM, "out of memory");
	ret->behind = strtoull((char *)n.out.p, &end, 10);
	ret->ahead = strtoull(end, NULL, 10);
	ret->has_base = m.out.len >= REPO_SHA_SIZE - 1 &&
	                git_oid_fromstrn(&ret->base, (char *)m.out.p, REPO_SHA_SIZE - 1) == 0;
	return 0;
}

/* ---- libgit2 ---- */

int graph_walk(struct graph *g, const git_oid *tip, const git_oid *hide, size_t max,
               struct oids *ret, struct err *err)
{
	autowalk *w = NULL;
	git_oid id;
	int rc;

	if (by_git(g))
		return ask_walk(g, tip, hide, max, ret, err);
	rc = git_revwalk_new(&w, g->repo);
	if (rc == 0)
		rc = git_revwalk_sorting(w, GIT_SORT_TOPOLOGICAL | GIT_SORT_TIME);
	if (rc == 0)
		rc = git_revwalk_push(w, tip);
	if (rc == 0 && hide)
		rc = git_revwalk_hide(w, hide);
	while (rc == 0 && ret->n < max && (rc = git_revwalk_next(&id, w)) == 0)
		if ((rc = oids_add(ret, &id, err)) < 0)
			return rc;
	return rc < 0 && rc != GIT_ITEROVER ? git_fail(rc, "walk the commits", err) : 0;
}

int graph_before(struct graph *g, const git_oid *a, const git_oid *b, struct err *err)
{
	int d;

	if (git_oid_equal(a, b))
		return 1;
	if (by_git(g))
		return ask_ancestor(g, a, b, err);
	d = git_graph_descendant_of(g->repo, b, a);
	return d < 0 ? git_fail(d, "walk the commits", err) : d;
}

int graph_relate(struct graph *g, const git_oid *base, const git_oid *head, struct relation *ret,
                 struct err *err)
{
	int rc;

	*ret = (struct relation){ 0 };
	if (by_git(g))
		return ask_relation(g, base, head, ret, err);
	rc = git_graph_ahead_behind(&ret->ahead, &ret->behind, g->repo, head, base);
	if (rc < 0)
		return git_fail(rc, "compare", err);
	ret->has_base = git_merge_base(&ret->base, g->repo, base, head) == 0;
	return 0;
}
