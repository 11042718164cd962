/* SPDX-License-Identifier: Apache-2.0 */
/* net/wgkey.h - WireGuard keys: X25519, as base64 and as bytes */
#pragma once

#include <stdint.h>

struct err;

#define WGKEY_LEN 32
#define WGKEY_TEXT 45 /* with the NUL */

/* A private key and its public key (ret_public may be NULL). */
int wgkey_make(char ret_private[WGKEY_TEXT], char ret_public[WGKEY_TEXT], struct err *err);
int wgkey_public(const char *private, char ret_public[WGKEY_TEXT], struct err *err);
/* 0 or -EINVAL: it is not the base64 of 32 bytes. */
int wgkey_bytes(const char *text, uint8_t ret[WGKEY_LEN]);
