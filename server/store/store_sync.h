/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_sync.h - repositories that mirror another server; for git/ */
#pragma once

#include "store/store_git.h"

#define SYNC_CONFLICTS_SIZE 16384 /* as JSON */

enum sync_state { SYNC_WAITING, SYNC_RUNNING, SYNC_OK, SYNC_CONFLICT, SYNC_FAILED, SYNC_STATE_MAX };
extern const char *const sync_state_words[SYNC_STATE_MAX];

struct store_sync {
	char repo[REPO_ID_SIZE];
	char account[ACCOUNT_SIZE];
	char remote[256]; /* "owner/name" */
	char url[1024];
	char token[512];            /* password there, or "" */
	char hook[65];              /* secret in the address that starts a sync */
	char hook_hash[65];         /* of it; store_sync_put() fills it in */
	char installation[ID_SIZE]; /* of a GitHub App, whose tokens it uses; or "" */
	enum sync_state state;
	char note[256];
	char conflicts[SYNC_CONFLICTS_SIZE];  /* JSON array */
	int64_t next_ms, last_ms, started_ms; /* due; last success; begun last */
};
/* Replaces an existing one. */
int store_sync_put(struct store *s, const struct store_sync *y, struct err *err);
/* -ENOENT: it mirrors nothing. */
int store_sync_get(struct store *s, const char *repo, struct store_sync *ret, struct err *err);
int store_sync_delete(struct store *s, const char *repo, struct err *err);
/* Makes it due now; by repository, or by hook (the other NULL). Number of rows. */
int store_sync_wake(struct store *s, const char *repo, const char *hook, int64_t now_ms,
                    struct err *err);
/* The same for all of an account that mirror one of these addresses, in lower case. */
#define SYNC_SPELLINGS 3
int store_sync_wake_urls(struct store *s, const char *account,
                         const char *const urls[SYNC_SPELLINGS], int64_t now_ms, struct err *err);
/*
 * Takes one that is due: marks it as running, and as due again after poll_ms. Accounts take turns:
 * one of an account at a time, and first the one whose account has waited for longest. -ENOENT:
 * none.
 */
int store_sync_claim(struct store *s, int64_t now_ms, int64_t poll_ms, struct store_sync *ret,
                     struct err *err);
/* Stores the result, unless the mirror was changed meanwhile. */
int store_sync_finish(struct store *s, const struct store_sync *y, struct err *err);
int store_sync_next(struct store *s, int64_t *ret, struct err *err);
/* At start: makes those that were running due. */
int store_sync_recover(struct store *s, int64_t now_ms, struct err *err);
