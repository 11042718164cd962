/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.c - sealing and opening one value
 *
 * AES-256-GCM with a random nonce. With 96 random bits a key may seal 2^32 values; we seal a few
 * per change of a policy or password. Associated data: the format, the place and the key's id, each
 * ended by a NUL, which no place contains.
 */
#include "secret/secret.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "secret/secret_internal.h"

static void ctx_freep(EVP_CIPHER_CTX **c)
{
	EVP_CIPHER_CTX_free(*c);
}

static void key_wipe(struct ring_key *k)
{
	explicit_bzero(k, sizeof(*k));
}

static int aad_of(struct secret_place at, uint8_t id, struct buf *ret)
{
	buf_put(ret, SEALED_PREFIX, sizeof(SEALED_PREFIX));
	buf_put(ret, at.column, strlen(at.column) + 1);
	buf_put(ret, at.row, strlen(at.row) + 1);
	buf_put(ret, &id, 1);
	return ret->failed ? -ENOMEM : 0;
}

bool secret_is_sealed(const char *text)
{
	return strncmp(text, SEALED_PREFIX, sizeof(SEALED_PREFIX) - 1) == 0;
}

int secret_seal(struct secrets *k, struct secret_place at, const void *p, size_t n, char **ret,
                struct err *err)
{
	AUTO(ctx_freep) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	AUTO(key_wipe) struct ring_key key = { 0 };
	autobuf struct buf aad = { 0 };
	autofree uint8_t *raw = NULL;
	autofree char *text = NULL;
	size_t len = 1 + NONCE_BYTES + n + TAG_BYTES;
	int out = 0;

	if (n > SEALED_MAX)
		return err_set(err, -EFBIG, "a secret of %zu bytes: at most %u can be kept", n,
		               SEALED_MAX);
	if (!ring_key_get(k, 0, &key))
		return err_set(err, -ENOKEY, "'%s' has no key", k->source);
	raw = malloc(len);
	text = malloc(sizeof(SEALED_PREFIX) + 4 * ((len + 2) / 3));
	if (!c || !raw || !text || aad_of(at, key.id, &aad) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	raw[0] = key.id;
	random_bytes(raw + 1, NONCE_BYTES);
	if (EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key.key, raw + 1) != 1 ||
	    EVP_EncryptUpdate(c, NULL, &out, aad.p, (int)aad.len) != 1 ||
	    (n && EVP_EncryptUpdate(c, raw + 1 + NONCE_BYTES, &out, p, (int)n) != 1) ||
	    EVP_EncryptFinal_ex(c, raw + len - TAG_BYTES, &out) != 1 ||
	    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, raw + len - TAG_BYTES) != 1)
		return err_set(err, -EIO, "OpenSSL cannot seal '%s'", at.column);
	memcpy(text, SEALED_PREFIX, sizeof(SEALED_PREFIX) - 1);
	EVP_EncodeBlock((uint8_t *)text + sizeof(SEALED_PREFIX) - 1, raw, (int)len);
	*ret = TAKE_PTR(text);
	return 0;
}

/* The bytes behind the prefix; *ret_n: how many. NULL: no memory, or not base64. */
static uint8_t *decode(const char *sealed, size_t *ret_n)
{
	const char *b64 = sealed + sizeof(SEALED_PREFIX) - 1;
	size_t n = strlen(b64);
	autofree uint8_t *raw = NULL;
	int len;

	if (n % 4 || n < 4 || n > 2 * (size_t)SEALED_MAX || !(raw = malloc(n / 4 * 3)))
		return NULL;
	len = EVP_DecodeBlock(raw, (const uint8_t *)b64, (int)n);
	if (len < 0)
		return NULL;
	len -= (b64[n - 1] == '=') + (b64[n - 2] == '=');
	*ret_n = (size_t)len;
	return TAKE_PTR(raw);
}

bool secret_is_current(struct secrets *k, const char *sealed)
{
	AUTO(key_wipe) struct ring_key key = { 0 };
	size_t n = 0;
	autofree uint8_t *raw = secret_is_sealed(sealed) ? decode(sealed, &n) : NULL;

	return raw && n && ring_key_get(k, 0, &key) && raw[0] == key.id;
}

int secret_open(struct secrets *k, struct secret_place at, const char *sealed, char **ret,
                size_t *ret_n, struct err *err)
{
	AUTO(ctx_freep) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	AUTO(key_wipe) struct ring_key key = { 0 };
	autobuf struct buf aad = { 0 };
	autowipe uint8_t *plain = NULL;
	size_t len = 0, n;
	autofree uint8_t *raw = secret_is_sealed(sealed) ? decode(sealed, &len) : NULL;
	int out = 0;

	if (!raw || len < 1 + NONCE_BYTES + TAG_BYTES)
		return err_set(err, -EBADMSG, "%s of '%s' is damaged: it is not a sealed secret",
		               at.column, at.row);
	if (raw[0] == 0 || !ring_key_get(k, raw[0], &key)) /* 0 would be any key */
		return err_set(err, -ENOKEY,
		               "%s of '%s' was sealed with key %u, which is not in '%s'", at.column,
		               at.row, raw[0], k->source);
	n = len - 1 - NONCE_BYTES - TAG_BYTES;
	plain = malloc(n + 1);
	if (!c || !plain || aad_of(at, key.id, &aad) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	if (EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key.key, raw + 1) != 1 ||
	    EVP_DecryptUpdate(c, NULL, &out, aad.p, (int)aad.len) != 1 ||
	    (n && EVP_DecryptUpdate(c, plain, &out, raw + 1 + NONCE_BYTES, (int)n) != 1) ||
	    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, raw + len - TAG_BYTES) != 1 ||
	    EVP_DecryptFinal_ex(c, plain + n, &out) != 1)
		return err_set(err, -EBADMSG,
		               "%s of '%s' does not open with key %u of '%s': it was changed or "
		               "moved, or the key is another one",
		               at.column, at.row, key.id, k->source);
	plain[n] = '\0';
	*ret = (char *)TAKE_PTR(plain);
	if (ret_n)
		*ret_n = n;
	return 0;
}

void secret_digest(const char *v, char ret[SECRET_DIGEST_SIZE])
{
	uint8_t md[EVP_MAX_MD_SIZE] = { 0 };
	unsigned n = 0;

	if (EVP_Digest(v, strlen(v), md, &n, EVP_sha256(), NULL) != 1)
		abort(); /* only without memory for a context, or without SHA-256 */
	hex_encode(md, (SECRET_DIGEST_SIZE - 1) / 2, ret);
}
