/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_git.h - repositories and what belongs to them; for git/ and auth/
 *
 * The contents of a repository are on disk only; the tables have its owner and size. Of nodes with
 * an object store its references and packs are here, too, and the disk is a copy: store_pack.h.
 * Deleting a repository deletes the grants on it in the same transaction.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"

struct err;
struct store;

#define REPO_ID_SIZE 40    /* a UUID and the NUL */
#define REPO_NAME_SIZE 128 /* bytes of a name, with the NUL */
#define LFS_OID_SIZE 65    /* hex SHA-256 and the NUL */

struct store_repo {
	char id[REPO_ID_SIZE];
	char account[ACCOUNT_SIZE];
	char name[REPO_NAME_SIZE]; /* "": none */
	bool is_public;
	int64_t created_ms;
	int64_t pushed_ms;  /* 0: never */
	int64_t bytes;      /* on the disk, when it was last measured */
	char node[ID_SIZE]; /* that has its files; set by store_repo_add(). "": no nodes, or given
	                       up */
	uint64_t epoch;     /* raised by each change of node */
	uint64_t version;   /* raised by each change of references that were stored */
	bool stored;        /* its references are in the database, its packs in the object store */
};

int store_repo_add(struct store *s, const struct store_repo *r, struct err *err);
/* -ENOENT REPOSITORY_NOT_FOUND. */
int store_repo_get(struct store *s, const char *id, struct store_repo *ret, struct err *err);
int store_repo_set_public(struct store *s, const char *id, bool is_public, struct err *err);
/* Size (negative: unchanged), and the time of a push unless that is 0. A repository deleted
 * meanwhile is not an error. */
int store_repo_measured(struct store *s, const char *id, int64_t bytes, int64_t pushed_ms,
                        struct err *err);
/* With its grants, its list of large files, its references; its packs become garbage. -ESTALE: it
 * is a living node's. */
int store_repo_delete(struct store *s, const char *id, struct err *err);
/* Newest first; search: part of the name or the id, ignoring case, or NULL. total: of all pages. */
int store_repo_list(struct store *s, const char *account, const char *search, int64_t limit,
                    int64_t offset, struct store_repo **ret, size_t *ret_n, int64_t *ret_total,
                    struct err *err);
/* All ids, for the reconciliation at start. */
int store_repo_ids(struct store *s, struct store_repo **ret, size_t *ret_n, struct err *err);

/* A repository of before rows had nodes, whose files are here. */
int store_repo_claim(struct store *s, const char *id, struct err *err);

struct store_repo_usage {
	int64_t repos, bytes, lfs_bytes;
};
int store_repo_usage(struct store *s, const char *account, struct store_repo_usage *ret,
                     struct err *err);

/* ---- large files (Git LFS): the bytes are kept once per account ---- */
struct store_lfs {
	char repo[REPO_ID_SIZE];
	char oid[LFS_OID_SIZE];
	char account[ACCOUNT_SIZE];
	int64_t bytes;
};
/* Does this repository have that object? -ENOENT. */
int store_lfs_get(struct store *s, const char *repo, const char *oid, struct store_lfs *ret,
                  struct err *err);
/* Adding it again is fine. */
int store_lfs_add(struct store *s, const struct store_lfs *l, struct err *err);
/* Does any repository of the account have it? 1 or 0. */
int store_lfs_known(struct store *s, const char *account, const char *oid, struct err *err);
/* Every object of a repository. Caller frees. */
int store_lfs_of(struct store *s, const char *repo, struct store_lfs **ret, size_t *ret_n,
                 struct err *err);
