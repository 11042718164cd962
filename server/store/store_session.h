/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_session.h - web sessions of people who signed in with a key or token; for auth/
 *
 * Only the hash of a session's secret is stored, as with keys. Revoking the key or token, or
 * deleting the identity or account, deletes its sessions in the same transaction.
 */
#pragma once

#include "store/store_account.h"

#define SESSION_REMOTE_SIZE 48
#define SESSION_CLIENT_SIZE 160

struct store_session {
	char id[ID_SIZE]; /* "ws-..." */
	char hash[HASH_HEX_SIZE];
	char account[ACCOUNT_SIZE]; /* of the key or token */
	char key[ID_SIZE];          /* API key or token, by id */
	char identity[ID_SIZE];     /* "": it is a key */
	char acting[ACCOUNT_SIZE];  /* the account that the operator acts as, or "" */
	int64_t created_ms, used_ms;
	char remote[SESSION_REMOTE_SIZE]; /* where it was opened from, */
	char client[SESSION_CLIENT_SIZE]; /* and with which program */
};
int store_session_add(struct store *s, const struct store_session *n, struct err *err);
/* All of them, oldest first. Caller frees. */
int store_session_list(struct store *s, struct store_session **ret, size_t *ret_n, struct err *err);
/* Changes acting and used_ms of those that exist. */
int store_session_update(struct store *s, const struct store_session *v, size_t n, struct err *err);
/* By id, in one transaction; those that are gone already do not matter. */
int store_session_delete(struct store *s, const char (*ids)[ID_SIZE], size_t n, struct err *err);
