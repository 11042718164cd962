/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/bounds.h - reading what others made, within limits; for git/ only
 *
 * A tree may name another one a thousand times, that one another, and so on: a few KB are billions
 * of paths. Whatever walks trees, history or many objects in this process counts its steps here,
 * and ends with GIT_TOO_LARGE, with the name of the limit, or when its client has left.
 */
#pragma once

#include "git/git_internal.h"

#define BOUNDS_TREES 100000        /* directories that are read for one question */
#define BOUNDS_ENTRIES 2000000     /* names in them */
#define BOUNDS_MS 20000            /* for one question */
#define TREE_BYTES_MAX (32u << 20) /* of one tree object: half a million names */
#define META_BYTES_MAX (4u << 20)  /* of one commit or tag */
#define META_BYTES_ALL (64u << 20) /* of all commits or tags of one answer */
#define TAGS_DEEP 16               /* tags of tags */

struct bounds {
	const struct repo_client *client; /* or NULL */
	uint64_t deadline;                /* ms; 0: none */
	unsigned limit_s;                 /* what that was, for the message */
	size_t trees, entries;            /* left */
	unsigned steps;
};
struct bounds bounds_begin(const struct repo_client *client, unsigned limit_ms);
/* One more step. Cheap: the clock and the client are looked at now and then. */
int bounds_step(struct bounds *b, struct err *err);
int bounds_look(struct bounds *b, struct err *err); /* at once: after something that took long */
/* Has it left? -ECANCELED. */
int client_check(const struct repo_client *c, struct err *err);
int client_left(struct err *err);

/* Lookups that know the size first: GIT_TOO_LARGE; -ENOENT without a message: there is none. */
int tree_get(git_repository *repo, const git_oid *id, git_tree **ret, struct err *err);
int commit_get(git_repository *repo, const git_oid *id, git_commit **ret, struct err *err);
/* The commit that a commit, or a tag of one, leads to. */
int commit_peel(git_repository *repo, const git_oid *id, git_commit **ret, struct err *err);
/* An object of any kind but blobs; *ret_type GIT_OBJECT_BLOB: it is one, and was not read. */
int meta_check(git_repository *repo, const git_oid *id, git_object_t *ret_type, struct err *err);
/* What a path leads to, directory by directory; -ENOENT without a message. Caller frees. */
int tree_path(git_repository *repo, const git_oid *root, const char *path, git_tree_entry **ret,
              struct err *err);
/* A tree inside a walk: counted. */
int bounds_tree(struct bounds *b, git_repository *repo, const git_oid *id, git_tree **ret,
                struct err *err);

/* ---- weight.c: how many paths a tree has ---- */

/*
 * 0: at most max files and directories; more is GIT_TOO_LARGE. A tree that is named often is read
 * once, so this takes as long as there are different directories.
 */
int tree_weigh(git_repository *repo, const git_oid *id, uint64_t max, struct bounds *b,
               struct err *err);

/* ---- changes.c: which paths differ between two trees ---- */

struct change {
	const char *path;
	const git_tree_entry *from, *to; /* NULL: it is only in the other */
};
/* 1: enough, ends the walk. */
typedef int (*change_fn)(void *ctx, const struct change *c, struct err *err);
/*
 * Trees that are the same are not entered. NULL: an empty tree. 1 if fn ended it; directories
 * nest BOUNDS_DEPTH deep at most.
 */
#define BOUNDS_DEPTH 128
int tree_changes(git_repository *repo, git_tree *from, git_tree *to, struct bounds *b, change_fn fn,
                 void *ctx, struct err *err);
