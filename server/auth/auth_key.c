/* SPDX-License-Identifier: Apache-2.0 */
/* auth_key.c - accounts and their API keys: create, list, revoke */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"

int auth_account_create(struct auth *a, struct store_account *n, struct err *err)
{
	uuid_make(n->id);
	LOCK_SCOPE(&a->change);
	return store_account_add(a->store, n, err);
}

void auth_account_forget(struct auth *a, const char *account)
{
	LOCK_SCOPE(&a->change);
	cred_remove(a, account, NULL, NULL);
}

static int count_keys(struct auth *a, const char *account, size_t *ret, struct err *err)
{
	autofree struct store_key *v = NULL;

	return store_key_list(a->store, account, &v, ret, err);
}

int auth_key_create(struct auth *a, const char *account, const char *name, struct auth_key *ret,
                    char ret_secret[AUTH_SECRET_SIZE], struct err *err)
{
	struct auth_key k = { .created_ms = clock_wall_ms() };
	char secret[AUTH_SECRET_SIZE], hash[HASH_HEX_SIZE];
	struct store_account owner;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&a->change);
	if ((r = store_account_get(a->store, account, &owner, err)) < 0 ||
	    (r = count_keys(a, account, &n, err)) < 0)
		return r;
	if (n >= AUTH_KEYS_MAX) {
		r = err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		            "an account has at most %d keys: revoke one first", AUTH_KEYS_MAX);
		err_fact(err, "limit", AUTH_KEYS_MAX);
		err_fact(err, "current", (long long)n);
		return r;
	}
	id_make("ak-", k.id);
	snprintf(k.name, sizeof(k.name), "%s", name);
	auth_make_secret(AUTH_KEY_PREFIX, secret);
	if ((r = auth_hash(secret, hash, err)) >= 0 &&
	    (r = store_key_add(a->store, account, k.id, k.name, hash, err)) >= 0)
		r = cred_add(a, hash, k.id, account, "", owner.admin, err);
	if (r >= 0) {
		memcpy(ret_secret, secret, sizeof(secret));
		*ret = k;
	}
	OPENSSL_cleanse(secret, sizeof(secret));
	return MIN(r, 0);
}

int auth_key_list(struct auth *a, const char *account, struct auth_key **ret, size_t *ret_n,
                  struct err *err)
{
	autofree struct store_key *v = NULL;
	struct auth_key *k;
	size_t n = 0;
	int r = store_key_list(a->store, account, &v, &n, err);

	if (r < 0)
		return r;
	k = calloc(n ? n : 1, sizeof(*k));
	if (!k)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		int64_t now = cred_used(a, v[i].id);

		snprintf(k[i].id, sizeof(k[i].id), "%s", v[i].id);
		snprintf(k[i].name, sizeof(k[i].name), "%s", v[i].name);
		k[i].created_ms = v[i].created_ms;
		k[i].last_used_ms = now ? now : store_audit_last_use(a->audit_db, v[i].id);
	}
	*ret = k;
	*ret_n = n;
	return 0;
}

int auth_key_revoke(struct auth *a, const char *account, const char *id, struct err *err)
{
	autofree struct store_key *v = NULL;
	struct store_account owner;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&a->change);
	if ((r = store_account_get(a->store, account, &owner, err)) < 0 ||
	    (r = store_key_list(a->store, account, &v, &n, err)) < 0)
		return r;
	if (owner.admin && n == 1 && strcmp(v[0].id, id) == 0)
		return err_tag(err, -EBUSY, ERR_CONFLICT,
		               "this is the operator's last key: create another one first");
	if ((r = store_key_revoke(a->store, account, id, err)) < 0)
		return r;
	cred_remove(a, account, "", id);
	return 0;
}
