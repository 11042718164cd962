/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_account.h - accounts, keys, identities, tokens and grants; for auth/ and vm/
 *
 * Secrets are stored as the hex SHA-256 of the whole text and are never compared, only looked up.
 * Deleting an identity deletes its tokens and grants with it, deleting a VM its grants, in the same
 * transaction: a token never works on something that is gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"
#include "model/vm.h"

struct err;
struct store;

#define HASH_HEX_SIZE 65

struct store_account {
	char id[ACCOUNT_SIZE];
	char name[VM_NAME_MAX];
	int64_t created_ms;
	bool admin;
	struct vm_quota quota;     /* QUOTA_NONE, QUOTA_DEFAULT or a limit */
	int64_t git_repos, git_mb; /* likewise: repositories, and their total size */
};
/* A new one: the caller sets id and name, and quotas if they are not the server's defaults. */
#define STORE_ACCOUNT_NEW                                                                  \
	((struct store_account){ .quota = { QUOTA_DEFAULT, QUOTA_DEFAULT, QUOTA_DEFAULT,   \
	                                    QUOTA_DEFAULT, QUOTA_DEFAULT, QUOTA_DEFAULT }, \
	                         .git_repos = QUOTA_DEFAULT,                               \
	                         .git_mb = QUOTA_DEFAULT })
/* The first one is the operator's: sets admin and created_ms. */
int store_account_add(struct store *s, struct store_account *a, struct err *err);
/* -ENOENT (tag NOT_FOUND) when there is none. */
int store_account_get(struct store *s, const char *id, struct store_account *ret, struct err *err);
int store_account_list(struct store *s, struct store_account **ret, size_t *ret_n, struct err *err);
/* Changes name and quota only. */
int store_account_update(struct store *s, const struct store_account *a, struct err *err);
/* With its keys, identities, tokens and grants. -EBUSY while it has VMs or snapshots. */
int store_account_delete(struct store *s, const char *id, struct err *err);
/* Snapshots of the account that are not deleted, or negative. */
int store_snapshot_count(struct store *s, const char *account, struct err *err);

struct store_key {
	char id[ID_SIZE]; /* "ak-..." */
	char account[ACCOUNT_SIZE];
	char name[VM_NAME_MAX];
	char hash[HASH_HEX_SIZE];
	int64_t created_ms;
};
/* Those that are not revoked, oldest first. account NULL: of all accounts. */
int store_key_list(struct store *s, const char *account, struct store_key **ret, size_t *ret_n,
                   struct err *err);

struct store_identity {
	char id[ID_SIZE]; /* "idn-..." */
	char account[ACCOUNT_SIZE];
	bool managed;
	int64_t created_ms;
};
int store_identity_add(struct store *s, const struct store_identity *i, struct err *err);
int store_identity_get(struct store *s, const char *id, struct store_identity *ret,
                       struct err *err);
int store_identity_list(struct store *s, const char *account, struct store_identity **ret,
                        size_t *ret_n, struct err *err);
int store_identity_delete(struct store *s, const char *id, struct err *err);

struct store_token {
	char id[ID_SIZE]; /* "tok-..." */
	char identity[ID_SIZE];
	char account[ACCOUNT_SIZE]; /* the identity's */
	char hash[HASH_HEX_SIZE];
	int64_t created_ms;
};
int store_token_add(struct store *s, const struct store_token *t, struct err *err);
/* identity NULL: of all identities. */
int store_token_list(struct store *s, const char *identity, struct store_token **ret, size_t *ret_n,
                     struct err *err);
int store_token_delete(struct store *s, const char *identity, const char *id, struct err *err);

enum grant_kind { GRANT_VM, GRANT_GIT, GRANT_KIND_MAX };
#define GRANT_USERS_MAX 64             /* Linux users in one grant */
#define GRANT_USERS_SIZE (64 * 33 + 1) /* their names, each with a comma after it */
#define GRANT_TARGET_SIZE 64

struct store_grant {
	char id[ID_SIZE]; /* "gr-..." */
	char identity[ID_SIZE];
	enum grant_kind kind;
	char target[GRANT_TARGET_SIZE]; /* VM or repository id */
	bool any_user;                  /* VM: as any Linux user */
	char users[GRANT_USERS_SIZE];   /* VM: "alice,bob," */
	char level[8];                  /* git: "read" or "write" */
	int64_t granted_ms;
	char granted_by[ACCOUNT_SIZE]; /* account */
};
/*
 * account must own both the identity and the VM: -ENOENT IDENTITY_NOT_FOUND, VM_NOT_FOUND; -EEXIST
 * PERMISSION_ALREADY_EXISTS.
 */
int store_grant_add(struct store *s, const char *account, const struct store_grant *g,
                    struct err *err);
/* -ENOENT with VM_PERMISSION_NOT_FOUND or PERMISSION_NOT_FOUND, all three */
int store_grant_get(struct store *s, const char *identity, enum grant_kind kind, const char *target,
                    struct store_grant *ret, struct err *err);
int store_grant_update(struct store *s, const struct store_grant *g, struct err *err);
int store_grant_delete(struct store *s, const char *identity, enum grant_kind kind,
                       const char *target, struct err *err);
int store_grant_list(struct store *s, const char *identity, enum grant_kind kind,
                     struct store_grant **ret, size_t *ret_n, struct err *err);
