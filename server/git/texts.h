/* SPDX-License-Identifier: Apache-2.0 */
/* git/texts.h - the files of a tree as text, ready to be searched; for git/ only */
#pragma once

#include "git/git_internal.h"

struct text_file {
	uint64_t at; /* of its text in the map */
	size_t path; /* of its name in the paths */
	size_t len;
	git_oid oid;
	bool binary; /* has no text: it is not searched */
};

/* Immutable once made. */
struct texts {
	char repo[REPO_ID_SIZE];
	git_oid tree;
	char rev[REPO_REF_SIZE]; /* as it was asked for; "": HEAD */
	struct text_file *v;     /* owned; in the order of the tree, regular files only */
	size_t n;
	char *paths; /* owned; each with its NUL */
	char *map;   /* owned; a file without a name. NULL: there is no text at all */
	size_t map_len;
	size_t bytes; /* what it costs, all in all */
	/* texts.c */
	unsigned refs;
	uint64_t used_ms;
};

static inline const char *text_path(const struct texts *t, const struct text_file *f)
{
	return t->paths + f->path;
}
static inline const char *text_of(const struct texts *t, const struct text_file *f)
{
	return f->len ? t->map + f->at : "";
}

/* ---- texts.c: which are kept ---- */

struct text_cache;
int text_cache_new(struct repos *g, struct text_cache **ret, struct err *err);
struct text_cache *text_cache_free(struct text_cache *c);
/*
 * Those of a tree, or NULL: there are none, and they may be there next time. give back what was
 * found with texts_unref().
 */
struct texts *texts_find(struct text_cache *c, const struct store_repo *r, git_repository *repo,
                         git_commit *commit, const char *rev, const struct repo_client *by);
void texts_unref(struct text_cache *c, struct texts *t);
/* A repository was written to: what is searched there is made again, in the background. */
void texts_follow(struct text_cache *c, const char *repo);
/* It is gone. */
void texts_forget(struct text_cache *c, const char *repo);

/* ---- texts_make.c ---- */

struct texts_limits {
	size_t files, bytes, blob; /* more is -EFBIG */
	uint64_t deadline;
	const atomic_bool *ending;        /* or NULL */
	const struct repo_client *client; /* who waits for it, or NULL */
};
/* old: texts of another tree, taken over as far as they are the same; or NULL. */
int texts_make(const char *dir, git_repository *repo, git_commit *commit, const struct texts *old,
               const struct texts_limits *l, struct texts **ret, struct err *err);
struct texts *texts_free(struct texts *t);
static inline void texts_freep(struct texts **t)
{
	*t = texts_free(*t);
}
