/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_credential.h - an account's passwords for other Git servers; for git/ */
#pragma once

#include "store/store.h"

#define CREDENTIAL_SECRET_SIZE 8192
#define CREDENTIAL_URL_SIZE 256
#define CREDENTIAL_APP_SIZE 64
#define CREDENTIAL_INSTALLATION_SIZE 32

struct store_credential {
	char id[ID_SIZE];
	char account[ACCOUNT_SIZE];
	char server[CREDENTIAL_URL_SIZE];    /* "https://host:port", nothing behind it */
	char secret[CREDENTIAL_SECRET_SIZE]; /* a password; of an app: its private key */
	char app_id[CREDENTIAL_APP_SIZE];    /* "": it is a password */
	char installation[CREDENTIAL_INSTALLATION_SIZE];
	char api_url[CREDENTIAL_URL_SIZE];
	int64_t created_ms;
};
/* Replaces the account's credential for that server. */
int store_credential_put(struct store *s, const struct store_credential *c, struct err *err);
/* -ENOENT: there is none. */
int store_credential_get(struct store *s, const char *account, const char *server,
                         struct store_credential *ret, struct err *err);
/* All of an account, by server; the caller frees. */
int store_credential_list(struct store *s, const char *account, struct store_credential **ret,
                          size_t *ret_n, struct err *err);
/* -ENOENT: there is none. */
int store_credential_delete(struct store *s, const char *account, const char *server,
                            struct err *err);
