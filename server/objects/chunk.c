/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk.c - one chunk of a file as an object: compressed, encrypted, and that one only
 *
 *   0   8  "PNDOCHK1"
 *   8   1  form: 0 zstd, 1 as it is, 2 zeros (nothing follows but the tag)
 *   9   3  zero
 *   12  4  bytes of the chunk, big endian
 *   16  12 nonce, random
 *   28  4  zero
 *   32     AES-256-GCM of the compressed bytes, then its tag of 16
 *
 * Authenticated with it: these 32 bytes, the file's name, the chunk's number, how many there are
 * and how long the file is. So an object that is another chunk, another file's or of another length
 * does not open, whoever put it there; a chunk that opens has the bytes that were sealed. A random
 * nonce of 96 bits is good for 2^32 chunks (32 PiB) of one owner.
 *
 * Memory that is all zeros and holes of files are common: such a chunk has no contents.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/auto.h"
#include "base/id.h"
#include "objects/objects_internal.h"

#define MAGIC "PNDOCHK1"
#define NONCE_AT 16
#define NONCE_LEN 12
#define LEVEL 1 /* of zstd: more costs much time and saves little of memory images */

enum form { FORM_ZSTD, FORM_PLAIN, FORM_ZEROS };

uint32_t objects_chunks(uint64_t bytes)
{
	return bytes ? (uint32_t)((bytes + OBJECT_CHUNK - 1) / OBJECT_CHUNK) : 1;
}

size_t chunk_len(const struct chunk *c)
{
	uint64_t left = c->bytes - (uint64_t)c->i * OBJECT_CHUNK;

	return (size_t)MIN(left, (uint64_t)OBJECT_CHUNK);
}

size_t chunk_object_max(size_t len)
{
	return CHUNK_HEAD + ZSTD_compressBound(len) + CHUNK_TAG;
}

/* What is authenticated beside the contents. */
static int add_aad(EVP_CIPHER_CTX *x, const struct chunk *c, const uint8_t *head, bool seal)
{
	autobuf struct buf b = { 0 };
	int got = 0;

	buf_put(&b, head, CHUNK_HEAD);
	buf_put_str(&b, c->name);
	buf_put_u32(&b, c->i);
	buf_put_u32(&b, c->n);
	buf_put_u64(&b, c->bytes);
	if (b.failed)
		return -ENOMEM;
	return (seal ? EVP_EncryptUpdate(x, NULL, &got, b.p, (int)b.len)
	             : EVP_DecryptUpdate(x, NULL, &got, b.p, (int)b.len)) == 1
	               ? 0
	               : -EIO;
}

static int encrypt(const struct chunk *c, uint8_t *object, size_t n)
{
	EVP_CIPHER_CTX *x = EVP_CIPHER_CTX_new();
	uint8_t *body = object + CHUNK_HEAD;
	int got = 0, r = -EIO;

	if (!x)
		return -ENOMEM;
	if (EVP_EncryptInit_ex(x, EVP_aes_256_gcm(), NULL, c->key, object + NONCE_AT) == 1 &&
	    add_aad(x, c, object, /* seal= */ true) == 0 &&
	    (n == 0 || (EVP_EncryptUpdate(x, body, &got, body, (int)n) == 1 && got == (int)n)) &&
	    EVP_EncryptFinal_ex(x, body + n, &got) == 1 && got == 0 &&
	    EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_GCM_GET_TAG, CHUNK_TAG, body + n) == 1)
		r = 0;
	EVP_CIPHER_CTX_free(x);
	return r;
}

static int decrypt(const struct chunk *c, uint8_t *object, size_t n)
{
	EVP_CIPHER_CTX *x = EVP_CIPHER_CTX_new();
	uint8_t *body = object + CHUNK_HEAD;
	int got = 0, r = -EBADMSG;

	if (!x)
		return -ENOMEM;
	if (EVP_DecryptInit_ex(x, EVP_aes_256_gcm(), NULL, c->key, object + NONCE_AT) == 1 &&
	    add_aad(x, c, object, /* seal= */ false) == 0 &&
	    (n == 0 || (EVP_DecryptUpdate(x, body, &got, body, (int)n) == 1 && got == (int)n)) &&
	    EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_GCM_SET_TAG, CHUNK_TAG, body + n) == 1 &&
	    EVP_DecryptFinal_ex(x, body + n, &got) == 1)
		r = 0;
	EVP_CIPHER_CTX_free(x);
	return r;
}

static bool all_zeros(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

int chunk_seal(const struct chunk *c, const uint8_t *plain, uint8_t **ret, size_t *ret_n,
               struct err *err)
{
	size_t len = chunk_len(c), n = 0, cap = chunk_object_max(len);
	autofree uint8_t *o = NULL;
	enum form form = FORM_ZEROS;

	if (!plain || all_zeros(plain, len))
		cap = CHUNK_HEAD + CHUNK_TAG;
	o = malloc(cap);
	if (!o)
		return err_set(err, -ENOMEM, "out of memory for a chunk of %zu bytes", cap);
	if (cap > CHUNK_HEAD + CHUNK_TAG) {
		n = ZSTD_compress(o + CHUNK_HEAD, cap - CHUNK_HEAD - CHUNK_TAG, plain, len, LEVEL);
		form = FORM_ZSTD;
		if (ZSTD_isError(n) || n >= len) {
			memcpy(o + CHUNK_HEAD, plain, len);
			n = len;
			form = FORM_PLAIN;
		}
	}
	memset(o, 0, CHUNK_HEAD);
	memcpy(o, MAGIC, 8);
	o[8] = (uint8_t)form;
	put_be32(o + 12, (uint32_t)len);
	random_bytes(o + NONCE_AT, NONCE_LEN);
	if (encrypt(c, o, n) < 0)
		return err_set(err, -EIO, "cannot encrypt chunk %u of %s", c->i, c->name);
	*ret_n = CHUNK_HEAD + n + CHUNK_TAG;
	*ret = TAKE_PTR(o);
	return 0;
}

static int bad(const struct chunk *c, const char *why, struct err *err)
{
	return err_set(err, -EBADMSG, "chunk %u of %s is damaged: %s", c->i, c->name, why);
}

int chunk_open(const struct chunk *c, uint8_t *object, size_t n, uint8_t *plain, bool *ret_zeros,
               struct err *err)
{
	size_t len = chunk_len(c), body = n - CHUNK_HEAD - CHUNK_TAG;
	int r;

	*ret_zeros = false;
	if (n < CHUNK_HEAD + CHUNK_TAG || n > chunk_object_max(len))
		return bad(c, "it has a length that no such chunk has", err);
	if (memcmp(object, MAGIC, 8) != 0)
		return bad(c, "it is not an object of ours", err);
	r = decrypt(c, object, body);
	if (r == -ENOMEM)
		return err_set(err, r, "out of memory for a chunk");
	if (r < 0)
		return bad(c, "it was changed, or is another one", err);
	/* From here on it is what chunk_seal() made of this very chunk. */
	if (get_be32(object + 12) != len)
		return bad(c, "it has another length", err);
	switch (object[8]) {
	case FORM_ZEROS:
		*ret_zeros = true;
		return body == 0 ? 0 : bad(c, "zeros have no contents", err);
	case FORM_PLAIN:
		if (body != len)
			return bad(c, "it has another length", err);
		memcpy(plain, object + CHUNK_HEAD, len);
		return 0;
	case FORM_ZSTD:
		return ZSTD_decompress(plain, len, object + CHUNK_HEAD, body) == len
		               ? 0
		               : bad(c, "it does not unpack to its length", err);
	default:
		return bad(c, "it has a form of a later version", err);
	}
}
