/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth/auth.h - who is asking; for main.c and api/
 *
 * An API key is "pando_" and 40 random letters and digits (238 bits). Only its
 * SHA-256 is stored: a key is found by its hash, so nothing secret is ever
 * compared byte by byte, and a copy of the database opens nothing.
 */
#pragma once

#include <stdbool.h>

#include "store/store.h" /* ACCOUNT_SIZE */

struct auth;
struct err;
struct store;

#define AUTH_KEY_PREFIX "pando_"
#define AUTH_KEY_RANDOM 40
#define AUTH_KEY_SIZE (6 + AUTH_KEY_RANDOM + 1)

/*
 * First start: makes the account and its key and leaves the key in
 * <data_dir>/api-key, mode 0600. Later starts only check. *ret_new_key (may be
 * NULL) tells the caller that there is a new key to point the operator to.
 */
int auth_open(struct store *s, const char *data_dir, struct auth **ret, bool *ret_new_key,
              struct err *err);
struct auth *auth_close(struct auth *a);

/* What a route asks for; an API key may do all of it. */
enum auth_scope {
	SCOPE_PUBLIC = 1 << 0, /* no key at all */
	SCOPE_ACCOUNT = 1 << 1,
	SCOPE_VM_READ = 1 << 2,
	SCOPE_VM_WRITE = 1 << 3,
	SCOPE_VM_EXEC = 1 << 4, /* commands and files inside a VM */
	SCOPE_ALL = SCOPE_PUBLIC | SCOPE_ACCOUNT | SCOPE_VM_READ | SCOPE_VM_WRITE | SCOPE_VM_EXEC,
};

struct auth_who {
	char account[ACCOUNT_SIZE];
	unsigned scopes; /* of enum auth_scope */
};

/*
 * The account behind a request's headers; NULL for a header that was not sent.
 * -EACCES with tag UNAUTHORIZED_ERROR (key missing, malformed or unknown) or UNAUTHORIZED
 * (identity tokens, which this version does not have yet).
 */
int auth_check(struct auth *a, const char *authorization, const char *identity_token,
               struct auth_who *ret, struct err *err);
