/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c - a layer's cache key
 *
 * SHA-256 over a version, the account, the parent's key and the canonical text of the content:
 * sorted members, no white space. It includes everything that could change the result, so
 * an entry never has to be checked for being out of date. Accounts do not share layers: what one of
 * them downloaded is private to it.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "build/build_internal.h"

#define FORMAT_VERSION "pando-spec-1" /* changed whenever layers are applied differently */

char *layer_text(const struct spec_layer *l)
{
	autojson json_t *o = json_object();
	const struct {
		const char *name;
		json_t *value;
	} parts[] = { { "groups", l->groups },        { "users", l->users },
		      { "files", l->files },          { "apt", l->apt },
		      { "gitConfig", l->git_config }, { "repos", l->repos },
		      { "services", l->services },    { "patched", l->patched },
		      { "runtimes", l->runtimes } };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i].value)
			json_object_set(o, parts[i].name, parts[i].value);
	if (l->workdir[0])
		json_object_set_new(o, "workdir", json_string(l->workdir));
	if (l->discriminator)
		json_object_set_new(o, "discriminator", json_string(l->discriminator));
	if (l->vcpus)
		json_object_set_new(o, "vcpus", json_integer(l->vcpus));
	if (l->mem_mb)
		json_object_set_new(o, "memMb", json_integer(l->mem_mb));
	if (l->disk_mb)
		json_object_set_new(o, "diskMb", json_integer(l->disk_mb));
	return json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
}

/* Parts are separated by a NUL, which none of them has. */
static int hash(const char *const *parts, size_t n, char ret[SPEC_KEY_SIZE], struct err *err)
{
	uint8_t sum[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	int ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL);

	for (size_t i = 0; ok && i < n; i++)
		ok = EVP_DigestUpdate(md, parts[i], strlen(parts[i]) + 1);
	ok = ok && EVP_DigestFinal_ex(md, sum, &len) && len == 32;
	EVP_MD_CTX_free(md);
	if (!ok)
		return err_set(err, -ENOMEM, "hash a spec: out of memory");
	hex_encode(sum, len, ret);
	return 0;
}

int base_key(const char *account, const char *template_key, const char *snapshot_id,
             char ret[SPEC_KEY_SIZE], struct err *err)
{
	return hash((const char *const[]){ FORMAT_VERSION, account, template_key, snapshot_id }, 4,
	            ret, err);
}

int layer_key(const char *parent, const struct spec_layer *l, char ret[SPEC_KEY_SIZE],
              struct err *err)
{
	autofree char *text = layer_text(l);

	if (!text)
		return err_set(err, -ENOMEM, "hash a spec: out of memory");
	return hash((const char *const[]){ parent, text }, 2, ret, err);
}
