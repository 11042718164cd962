/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/shared.h - repositories that outlive their node; for git/ only
 *
 * Of nodes with an object store (repos_conf.objects) a repository's references are rows and its
 * packs are objects (store/store_pack.h); what is on the disk is a copy. Everybody who writes takes
 * the repository's slot first, there is one for each; then slot_write() makes it true for all
 * nodes, and only then references move here. The copy says in a file which version it is: whoever
 * uses it after a crash, or on another node, brings it up to date first. Everywhere else all of
 * this does nothing.
 */
#pragma once

#include "git/git_internal.h"
#include "store/store_pack.h"

#define SHARED_FILE "pando-version" /* in a repository: that of its references */

struct copy; /* what this process knows of a repository's files */
struct slot {
	struct repos *g;
	struct copy *copy;
	struct store_repo row; /* as it is while nobody else writes */
	uint64_t to;           /* the version that was written, until references have moved; 0 */
};

int shared_open(struct repos *g, struct err *err);
/* Looks after what is not stored yet, and what a drain gives up. */
int shared_begin(struct repos *g, struct err *err);
void shared_end(struct repos *g);
void shared_close(struct repos *g);
static inline bool is_shared(const struct repos *g)
{
	return g->shared;
}

/* Before a repository is read: it is this node's, or becomes so, and what is here is up to date. */
int shared_ready(struct repos *g, const struct store_repo *r, struct err *err);

/*
 * Before anything is decided about references: nobody else writes, they are up to date, and all of
 * it is stored. *ret stays NULL where nothing is shared, which all others take.
 */
int slot_take(struct repos *g, const char *repo, struct slot **ret, struct err *err);
/* Only that nobody else writes. */
int slot_only(struct repos *g, const char *repo, struct slot **ret, struct err *err);
struct slot *slot_give(struct slot *s);
/*
 * Stored for all nodes: these moves, and all objects that they bring. quarantine: the directory of
 * objects/ that they are in, or "". -EEXIST: a reference is not where a move says.
 */
int slot_write(struct slot *s, const char *quarantine, const struct repo_update *u, size_t n,
               struct err *err);
int slot_head(struct slot *s, const char *ref, struct err *err);
/* They have moved here, too, and are on the disk. */
void slot_moved(struct slot *s);
/* Many packs become one in the object store, if it is time. */
int slot_repack(struct slot *s, struct err *err);

/* ---- shared_put.c ---- */
int put_all(struct slot *s, const char *path, struct err *err);

/* ---- shared_get.c ---- */
/* What is here becomes what is stored; from: the version that it is, 0 if there is nothing. */
int get_all(struct slot *s, uint64_t from, struct err *err);
uint64_t copy_version(const char *path); /* 0: nobody knows */
int copy_set_version(const char *path, uint64_t version, struct err *err);

/* ---- shared_hook.c: a push by git ---- */
/* Answers pre-receive, which runs when all objects have come; child_fd: the child's descriptor 4.
 */
int hook_start(struct repos *g, const struct store_repo *r, const struct note *note,
               struct push_hook **ret, struct err *err);
int hook_fd(const struct push_hook *h); /* -1: none */
void hook_started(struct push_hook *h); /* the child has its end */
/* The child has ended. */
struct push_hook *hook_end(struct push_hook *h);
/* note.c: what is to move, by what pre-receive wrote. Caller frees. */
int note_moves(const struct note *n, struct repo_update **ret, size_t *ret_n, struct err *err);

/* ---- repo.c ---- */
int repo_init_at(const char *path, const char *branch, struct err *err);
int repo_put_in_place(const char *tmp, const char *path, struct err *err);
