/* SPDX-License-Identifier: Apache-2.0 */
#include "net/wgkey.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"

static void pkey_freep(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}

static void to_text(const uint8_t raw[WGKEY_LEN], char ret[WGKEY_TEXT])
{
	EVP_EncodeBlock((unsigned char *)ret, raw, WGKEY_LEN);
}

int wgkey_bytes(const char *text, uint8_t ret[WGKEY_LEN])
{
	unsigned char raw[WGKEY_LEN + 4]; /* decoding counts the padding as bytes */
	char again[WGKEY_TEXT];

	if (strlen(text) != WGKEY_TEXT - 1 || text[WGKEY_TEXT - 2] != '=' ||
	    EVP_DecodeBlock(raw, (const unsigned char *)text, WGKEY_TEXT - 1) != WGKEY_LEN + 1)
		return -EINVAL;
	memcpy(ret, raw, WGKEY_LEN);
	to_text(ret, again);
	return strcmp(again, text) ? -EINVAL : 0; /* only the canonical text of a key */
}

static int raw_public(EVP_PKEY *key, char ret[WGKEY_TEXT])
{
	uint8_t raw[WGKEY_LEN];
	size_t n = sizeof(raw);

	if (EVP_PKEY_get_raw_public_key(key, raw, &n) != 1 || n != sizeof(raw))
		return -EIO;
	to_text(raw, ret);
	return 0;
}

int wgkey_make(char ret_private[WGKEY_TEXT], char ret_public[WGKEY_TEXT], struct err *err)
{
	AUTO(pkey_freep) EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
	uint8_t raw[WGKEY_LEN];
	size_t n = sizeof(raw);

	if (!key || EVP_PKEY_get_raw_private_key(key, raw, &n) != 1 || n != sizeof(raw) ||
	    (ret_public && raw_public(key, ret_public) < 0))
		return err_set(err, -EIO, "a key could not be generated");
	raw[0] &= 248; /* as wg(8) writes them */
	raw[31] = (raw[31] & 127) | 64;
	to_text(raw, ret_private);
	explicit_bzero(raw, sizeof(raw));
	return 0;
}

int wgkey_public(const char *private, char ret_public[WGKEY_TEXT], struct err *err)
{
	AUTO(pkey_freep) EVP_PKEY *key = NULL;
	uint8_t raw[WGKEY_LEN];

	if (wgkey_bytes(private, raw) == 0)
		key = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, raw, sizeof(raw));
	explicit_bzero(raw, sizeof(raw));
	if (!key || raw_public(key, ret_public) < 0)
		return err_set(err, -EINVAL, "not a private key");
	return 0;
}
