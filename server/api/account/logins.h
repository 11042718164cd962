/* SPDX-License-Identifier: Apache-2.0 */
/* api/account/logins.h - login requests, shared by those who speak of them differently */
#pragma once

#include "api/call.h"

int login_begin(struct request *req, const char *client, struct auth_login *ret,
                char ret_secret[AUTH_SECRET_SIZE], struct err *err);
/* 1: confirmed, *ret_key is {apiKey, accountId, keyId}; 0: not yet. */
int login_poll(struct request *req, const char *id, const char *secret, json_t **ret_key,
               struct err *err);
