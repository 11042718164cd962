/* SPDX-License-Identifier: Apache-2.0 */
/* git/app_token.h - passwords of a GitHub App; for git/credential.c and git/ghapps*.c */
#pragma once

#include "base/id.h"
#include "git/credential.h"
#include "git/github.h"

#define APP_TOKEN_KEY_SIZE (ID_SIZE + 104)

struct app_tokens;
struct app_tokens *app_tokens_new(void);
struct app_tokens *app_tokens_free(struct app_tokens *t);

struct app_token_of {
	const char *key; /* what it is remembered by */
	struct github_who who;
	const char *number; /* of the installation */
	const char *repo;   /* its name without the owner: for nothing else. NULL: all of them */
};
/* The one that is remembered, or a new one. -ENOKEY: the installation is gone, or suspended. */
int app_token(struct app_tokens *t, const struct app_token_of *of, const struct github_net *net,
              char ret[CREDENTIAL_TOKEN_SIZE], struct err *err);
/* Forgets that one, and those whose key continues with a slash. */
void app_token_forget(struct app_tokens *t, const char *key);
