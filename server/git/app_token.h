/* SPDX-License-Identifier: Apache-2.0 */
/* git/app_token.h - passwords of a GitHub App; for git/credential.c */
#pragma once

#include "git/credential.h"

struct app_tokens;
struct app_tokens *app_tokens_new(void);
struct app_tokens *app_tokens_free(struct app_tokens *t);
/* An RSA key in PEM that can sign? */
bool app_key_ok(const char *pem);
/* The one that is remembered, or a new one. */
int app_token(struct app_tokens *t, const struct store_credential *c, bool allow_private,
              const atomic_bool *ending, char ret[CREDENTIAL_TOKEN_SIZE], struct err *err);
void app_token_forget(struct app_tokens *t, const char *credential);
