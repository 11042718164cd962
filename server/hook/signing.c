/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signing.c - signatures that prove that a webhook is ours
 *
 * Ed25519 keys; the newest signs, and those that were retired within a week are still published,
 * for receivers that fetched the list before. The secret is in the store, which nobody else can
 * read, and is used for signing only.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json_field.h"
#include "base/lock.h"
#include "hook/hook.h"
#include "hook/jwt.h"
#include "store/store.h"
#include "store/store_trigger.h"

#define KEY_BYTES 32u
#define LIFE_S 600 /* of a signature: every attempt has one of its own */

struct signer {
	struct store *store; /* weak */
	struct mutex lock;
	EVP_PKEY *key GUARDED_BY(lock); /* owned */
	char kid[ID_SIZE] GUARDED_BY(lock);
};

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static EVP_PKEY *key_of(const struct store_signing_key *k)
{
	unsigned char raw[KEY_BYTES];
	EVP_PKEY *key;

	for (size_t i = 0; i < KEY_BYTES; i++) {
		int hi = hex_digit(k->secret[2 * i]);
		int lo = hi < 0 ? -1 : hex_digit(k->secret[2 * i + 1]);

		if (lo < 0)
			return NULL;
		raw[i] = (unsigned char)(hi << 4 | lo);
	}
	key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, raw, KEY_BYTES);
	OPENSSL_cleanse(raw, sizeof(raw));
	return key;
}

static int use_key(struct signer *s, const struct store_signing_key *k, struct err *err)
{
	EVP_PKEY *key = key_of(k);

	if (!key)
		return err_set(err, -EIO, "the signing key '%s' is damaged", k->id);
	LOCK_SCOPE(&s->lock);
	EVP_PKEY_free(s->key);
	s->key = key;
	snprintf(s->kid, sizeof(s->kid), "%s", k->id);
	return 0;
}

int signer_rotate(struct signer *s, char ret_kid[ID_SIZE], struct err *err)
{
	struct store_signing_key k = { .created_ms = clock_wall_ms() };
	unsigned char raw[KEY_BYTES];
	int r;

	id_make("key-", k.id);
	random_bytes(raw, sizeof(raw));
	hex_encode(raw, sizeof(raw), k.secret);
	OPENSSL_cleanse(raw, sizeof(raw));
	if ((r = store_signing_key_add(s->store, &k, err)) == 0)
		r = use_key(s, &k, err);
	if (ret_kid)
		memcpy(ret_kid, k.id, ID_SIZE);
	OPENSSL_cleanse(&k, sizeof(k));
	return r;
}

int signer_open(struct store *store, struct signer **ret, struct err *err)
{
	autofree struct store_signing_key *keys = NULL;
	struct signer *s = calloc(1, sizeof(*s));
	size_t n = 0;
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->store = store;
	mutex_init(&s->lock, "hook signing");
	r = store_signing_keys(store, clock_wall_ms() - SIGNING_KEPT_MS, &keys, &n, err);
	if (r >= 0)
		r = n && !keys->retired_ms ? use_key(s, keys, err) : signer_rotate(s, NULL, err);
	if (keys)
		OPENSSL_cleanse(keys, n * sizeof(*keys));
	if (r < 0) {
		signer_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct signer *signer_close(struct signer *s)
{
	if (!s)
		return NULL;
	mutex_unshared(&s->lock);
	EVP_PKEY_free(s->key);
	mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

int signer_sign(struct signer *s, const char *issuer, const char *id, const void *body, size_t n,
                char **ret, struct err *err)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	json_int_t now = clock_wall_ms() / 1000;
	char hash[65];
	unsigned md_n;

	if (EVP_Digest(body, n, md, &md_n, EVP_sha256(), NULL) != 1 || md_n != 32)
		return err_set(err, -EIO, "cannot hash");
	hex_encode(md, 32, hash);
	LOCK_SCOPE(&s->lock);
	return jwt_sign(s->key, NULL,
	                json_pack("{s:s, s:s, s:s}", "alg", "EdDSA", "typ", "JWT", "kid", s->kid),
	                json_pack("{s:s, s:s, s:I, s:I, s:s}", "iss", issuer, "jti", id, "iat", now,
	                          "exp", now + LIFE_S, "body_sha256", hash),
	                ret, err);
}

static bool public_of(const struct store_signing_key *k, struct signing_public *ret)
{
	unsigned char raw[KEY_BYTES];
	size_t len = sizeof(raw);
	autobuf struct buf x = { 0 };
	EVP_PKEY *key = key_of(k);
	bool ok = key && EVP_PKEY_get_raw_public_key(key, raw, &len) == 1 && len == sizeof(raw);

	EVP_PKEY_free(key);
	if (!ok)
		return false;
	put_base64url(&x, raw, sizeof(raw));
	if (x.failed)
		return false;
	snprintf(ret->kid, sizeof(ret->kid), "%s", k->id);
	snprintf(ret->x, sizeof(ret->x), "%.*s", (int)x.len, (char *)x.p);
	return true;
}

int signer_keys(struct signer *s, struct signing_public **ret, size_t *ret_n, struct err *err)
{
	autofree struct store_signing_key *keys = NULL;
	autofree struct signing_public *v = NULL;
	size_t n = 0;
	int r = store_signing_keys(s->store, clock_wall_ms() - SIGNING_KEPT_MS, &keys, &n, err);

	if (r >= 0 && !(v = calloc(n + 1, sizeof(*v))))
		r = err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < n; i++)
		if (!public_of(&keys[i], &v[i]))
			r = err_set(err, -EIO, "the signing key '%s' is damaged", keys[i].id);
	if (keys)
		OPENSSL_cleanse(keys, n * sizeof(*keys));
	if (r < 0)
		return r;
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}
