/* SPDX-License-Identifier: Apache-2.0 */
/* jwt.c - compact JWTs: webhooks are signed with Ed25519, an app proves itself with RSA */
#include "hook/jwt.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/json_field.h"

#define SIGNATURE_MAX 1024u /* bytes: RSA with 8192 bits */

void put_base64url(struct buf *b, const void *p, size_t n)
{
	unsigned char *dst = buf_reserve(b, n / 3 * 4 + 8);
	int k;

	if (!dst)
		return;
	k = EVP_EncodeBlock(dst, p, (int)n);
	while (k > 0 && dst[k - 1] == '=')
		k--;
	for (int i = 0; i < k; i++)
		dst[i] = dst[i] == '+' ? '-' : dst[i] == '/' ? '_' : dst[i];
	b->len += (size_t)k;
}

static int put_json(struct buf *b, const json_t *j)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (!text)
		return -ENOMEM;
	put_base64url(b, text, strlen(text));
	return 0;
}

static int put_signature(struct buf *b, EVP_PKEY *key, const EVP_MD *digest)
{
	unsigned char sig[SIGNATURE_MAX];
	size_t len = sizeof(sig);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_PKEY_get_size(key) <= (int)sizeof(sig) &&
	          EVP_DigestSignInit(ctx, NULL, digest, NULL, key) == 1 &&
	          EVP_DigestSign(ctx, sig, &len, b->p, b->len) == 1;

	EVP_MD_CTX_free(ctx);
	if (!ok)
		return -EIO;
	buf_put_u8(b, '.');
	put_base64url(b, sig, len);
	return 0;
}

int jwt_sign(EVP_PKEY *key, const EVP_MD *digest, json_t *header, json_t *claims, char **ret,
             struct err *err)
{
	autojson json_t *head = header, *body = claims;
	autobuf struct buf b = { 0 };
	int r = put_json(&b, head);

	if (r == 0) {
		buf_put_u8(&b, '.');
		r = put_json(&b, body);
	}
	if (r < 0 || b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	if (put_signature(&b, key, digest) < 0)
		return err_set(err, -EIO, "cannot sign");
	*ret = buf_take_str(&b);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}
