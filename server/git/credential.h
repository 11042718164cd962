/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/credential.h - an account's passwords for other Git servers; for sync, api/ and main.c
 *
 * An account has one per server, for its mirrors that have no token of their own. It is a password,
 * or a GitHub App: its id, the number of its installation, and its private key, with which we
 * request passwords that are valid for an hour. Secrets are sent to that server only, and never
 * shown to anyone.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/store_credential.h"

struct credentials;
struct err;

struct credential_new {
	const char *server;                              /* NULL: the default */
	const char *token;                               /* or NULL: */
	const char *app_id, *installation, *private_key; /* all of them */
	const char *api_url;                             /* or NULL: GitHub's rules */
};
int credentials_new(struct store *s, const char *default_server, bool allow_private,
                    const atomic_bool *ending, struct credentials **ret, struct err *err);
struct credentials *credentials_free(struct credentials *c);

/* One without its secret. */
struct credential_info {
	char server[CREDENTIAL_URL_SIZE];
	bool is_app; /* else a password, and the next three are "" */
	char app_id[CREDENTIAL_APP_SIZE], installation[CREDENTIAL_INSTALLATION_SIZE];
	char api_url[CREDENTIAL_URL_SIZE];
	int64_t created_ms;
};
int credential_put(struct credentials *c, const char *account, const struct credential_new *n,
                   struct credential_info *ret, struct err *err);
/* Caller frees *ret. */
int credential_list(struct credentials *c, const char *account, struct credential_info **ret,
                    size_t *ret_n, struct err *err);
/* server NULL: the default. -ENOENT: there is none. */
int credential_delete(struct credentials *c, const char *account, const char *server,
                      struct err *err);

#define CREDENTIAL_TOKEN_SIZE 512
/* The password for an address; "": the account has none for that server. */
int credential_token(struct credentials *c, const char *account, const char *url,
                     char ret[CREDENTIAL_TOKEN_SIZE], struct err *err);
/* The server refused it: the next call requests a new one. */
void credential_refused(struct credentials *c, const char *account, const char *url);
