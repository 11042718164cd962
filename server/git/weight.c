/* SPDX-License-Identifier: Apache-2.0 */
/* weight.c - how many paths a tree has, without walking all of them */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"

struct weighed {
	git_oid id;
	uint64_t paths; /* below it; 0: an empty place */
};
struct scale {
	git_repository *repo;
	struct bounds *b;
	uint64_t max;
	struct weighed *v; /* owned; a hash table: ids are as good as random */
	size_t n, cap;     /* cap: a power of two */
};

static void scale_done(struct scale *s)
{
	free(s->v);
}

/* Where it is, or would be. */
static struct weighed *place(struct weighed *v, size_t cap, const git_oid *id)
{
	size_t i;

	memcpy(&i, id->id, sizeof(i));
	while (v[i & (cap - 1)].paths && !git_oid_equal(&v[i & (cap - 1)].id, id))
		i++;
	return &v[i & (cap - 1)];
}

static int remember(struct scale *s, const git_oid *id, uint64_t paths, struct err *err)
{
	if (2 * (s->n + 1) > s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 256;
		struct weighed *v = calloc(cap, sizeof(*v));

		if (!v)
			return err_set(err, -ENOMEM, "out of memory");
		for (size_t i = 0; i < s->cap; i++)
			if (s->v[i].paths)
				*place(v, cap, &s->v[i].id) = s->v[i];
		free(s->v);
		s->v = v;
		s->cap = cap;
	}
	*place(s->v, s->cap, id) = (struct weighed){ *id, paths };
	s->n++;
	return 0;
}

/* *ret: itself and what is below it. */
static int weigh(struct scale *s, const git_oid *id, unsigned depth, uint64_t *ret, struct err *err)
{
	const struct weighed *w = s->cap ? place(s->v, s->cap, id) : NULL;
	autotree *t = NULL;
	uint64_t sum = 1;
	int r;

	if (w && w->paths) {
		*ret = w->paths;
		return 0;
	}
	if (depth > BOUNDS_DEPTH)
		return err_tag(err, -ELOOP, ERR_GIT_TOO_LARGE, "directories nest deeper than %d",
		               BOUNDS_DEPTH);
	if ((r = bounds_tree(s->b, s->repo, id, &t, err)) < 0)
		return r == -ENOENT ? err_tag(err, -EIO, ERR_GIT_ERROR,
		                              "a tree of the repository is missing")
		                    : r;
	for (size_t i = 0; i < git_tree_entrycount(t); i++) {
		const git_tree_entry *e = git_tree_entry_byindex(t, i);
		uint64_t below = 1;

		if (git_tree_entry_filemode(e) == GIT_FILEMODE_TREE &&
		    (r = weigh(s, git_tree_entry_id(e), depth + 1, &below, err)) < 0)
			return r;
		sum += below;
		if (sum > s->max)
			return err_tag(
			        err, -EFBIG, ERR_GIT_TOO_LARGE,
			        "the revision has more than %llu files and directories: clone "
			        "the repository instead",
			        (unsigned long long)s->max);
	}
	*ret = sum;
	return remember(s, id, sum, err);
}

int tree_weigh(git_repository *repo, const git_oid *id, uint64_t max, struct bounds *b,
               struct err *err)
{
	AUTO(scale_done) struct scale s = { .repo = repo, .b = b, .max = max };
	uint64_t paths;

	return weigh(&s, id, 0, &paths, err);
}
