/* SPDX-License-Identifier: Apache-2.0 */
/* hook/jwt.h - parts of a compact JWT; for git/ and hook/ */
#pragma once

#include <jansson.h>
#include <openssl/evp.h>

#include "base/buf.h"

struct err;

/* Base64 for URLs, without padding. */
void put_base64url(struct buf *b, const void *p, size_t n);
/* header.claims.signature; both are consumed. digest NULL: the key has its own. Caller frees. */
int jwt_sign(EVP_PKEY *key, const EVP_MD *digest, json_t *header, json_t *claims, char **ret,
             struct err *err);
