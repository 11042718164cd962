/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_cred.c - the live keys and tokens, in memory, by hash
 *
 * A chained table under a read-write lock. Lookups by id walk the whole table: they happen when
 * a key is listed or revoked, not with each request.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

unsigned cred_bucket(const char *hash, unsigned buckets)
{
	/* The hash is uniform, so its first three hex digits will do. */
	unsigned n = 0;

	for (int i = 0; i < 3; i++) {
		char c = hash[i];

		n = n * 16 + (unsigned)(c >= 'a' ? c - 'a' + 10 : c - '0');
	}
	return n % buckets;
}

static struct cred **bucket(struct auth *a, const char *hash)
{
	return &a->creds[cred_bucket(hash, CRED_BUCKETS)];
}

int cred_add(struct auth *a, const char *hash, const char *id, const char *account,
             const char *identity, bool admin, struct err *err)
{
	struct cred *c = calloc(1, sizeof(*c)), **b = bucket(a, hash);

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(c->hash, sizeof(c->hash), "%s", hash);
	snprintf(c->who.key, sizeof(c->who.key), "%s", id);
	snprintf(c->who.account, sizeof(c->who.account), "%s", account);
	snprintf(c->who.identity, sizeof(c->who.identity), "%s", identity);
	c->who.scopes = *identity ? SCOPE_TOKEN : admin ? SCOPE_KEY | SCOPE_ADMIN : SCOPE_KEY;
	rwlock_wrlock(&a->creds_lock);
	c->next = *b;
	*b = c;
	rwlock_unlock(&a->creds_lock);
	return 0;
}

bool cred_find(struct auth *a, const char *hash, struct auth_who *ret)
{
	bool found = false;

	rwlock_rdlock(&a->creds_lock);
	for (struct cred *c = *bucket(a, hash); c && !found; c = c->next) {
		if (strcmp(c->hash, hash) != 0)
			continue;
		*ret = c->who;
		atomic_store_explicit(&c->used_ms, clock_wall_ms(), memory_order_relaxed);
		found = true;
	}
	rwlock_unlock(&a->creds_lock);
	return found;
}

/* Calls fn for each credential until it returns false. */
static void each(struct auth *a, bool (*fn)(struct cred *c, void *ctx), void *ctx)
{
	bool stop = false;

	rwlock_rdlock(&a->creds_lock);
	for (size_t i = 0; i < CRED_BUCKETS && !stop; i++)
		for (struct cred *c = a->creds[i]; c && !stop; c = c->next)
			stop = fn(c, ctx);
	rwlock_unlock(&a->creds_lock);
}

struct lookup {
	const char *id;
	bool found;
	int64_t used_ms;
};

static bool is_it(struct cred *c, void *ctx)
{
	struct lookup *l = ctx;

	if (strcmp(c->who.key, l->id) != 0)
		return false;
	l->found = true;
	l->used_ms = atomic_load_explicit(&c->used_ms, memory_order_relaxed);
	return true;
}

bool cred_exists(struct auth *a, const char *id)
{
	struct lookup l = { .id = id };

	each(a, is_it, &l);
	return l.found;
}

int64_t cred_used(struct auth *a, const char *id)
{
	struct lookup l = { .id = id };

	each(a, is_it, &l);
	return l.used_ms;
}

struct uses {
	struct audit_use *u;
	size_t n, max;
};

static bool take_use(struct cred *c, void *ctx)
{
	struct uses *t = ctx;
	int64_t used = atomic_load_explicit(&c->used_ms, memory_order_relaxed);

	if (t->n == t->max)
		return true;
	if (used > c->saved_ms) { /* only one thread does this, so the read lock is enough */
		snprintf(t->u[t->n].id, sizeof(t->u[t->n].id), "%s", c->who.key);
		t->u[t->n++].at_ms = c->saved_ms = used;
	}
	return false;
}

size_t cred_take_uses(struct auth *a, struct audit_use *u, size_t max)
{
	struct uses t = { .u = u, .max = max };

	each(a, take_use, &t);
	return t.n;
}

static bool is(const char *want, const char *have)
{
	return !want || strcmp(want, have) == 0;
}

void cred_remove(struct auth *a, const char *account, const char *identity, const char *id)
{
	rwlock_wrlock(&a->creds_lock);
	for (size_t i = 0; i < CRED_BUCKETS; i++) {
		struct cred **at = &a->creds[i];

		while (*at) {
			struct cred *c = *at;

			if (is(account, c->who.account) && is(identity, c->who.identity) &&
			    is(id, c->who.key)) {
				*at = c->next;
				sessions_forget(a, c);
				free(c);
			} else {
				at = &c->next;
			}
		}
	}
	if (account && !identity && !id)
		sessions_forget_acting(a, account);
	rwlock_unlock(&a->creds_lock);
	atomic_fetch_add(&a->epoch, 1);
}

void cred_free_all(struct auth *a)
{
	cred_remove(a, NULL, NULL, NULL);
}

static bool is_admin(const struct store_account *v, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].admin && strcmp(v[i].id, id) == 0)
			return true;
	return false;
}

int cred_load(struct auth *a, struct err *err)
{
	autofree struct store_account *accounts = NULL;
	autofree struct store_key *keys = NULL;
	autofree struct store_token *tokens = NULL;
	size_t n_accounts = 0, n_keys = 0, n_tokens = 0;
	int r;

	if ((r = store_account_list(a->store, &accounts, &n_accounts, err)) < 0 ||
	    (r = store_key_list(a->store, NULL, &keys, &n_keys, err)) < 0 ||
	    (r = store_token_list(a->store, NULL, &tokens, &n_tokens, err)) < 0)
		return r;
	for (size_t i = 0; i < n_keys; i++)
		if ((r = cred_add(a, keys[i].hash, keys[i].id, keys[i].account, "",
		                  is_admin(accounts, n_accounts, keys[i].account), err)) < 0)
			return r;
	for (size_t i = 0; i < n_tokens; i++)
		if ((r = cred_add(a, tokens[i].hash, tokens[i].id, tokens[i].account,
		                  tokens[i].identity, /* admin= */ false, err)) < 0)
			return r;
	return 0;
}

static bool listed(const struct cred *c, const struct store_key *keys, size_t n_keys,
                   const struct store_token *tokens, size_t n_tokens)
{
	for (size_t i = 0; i < n_keys; i++)
		if (strcmp(keys[i].id, c->who.key) == 0)
			return true;
	for (size_t i = 0; i < n_tokens; i++)
		if (strcmp(tokens[i].id, c->who.key) == 0)
			return true;
	return false;
}

struct known_creds {
	struct store_account *accounts;
	struct store_key *keys;
	struct store_token *tokens;
	size_t n_accounts, n_keys, n_tokens;
};

static void known_done(struct known_creds *k)
{
	free(k->accounts);
	free(k->keys);
	free(k->tokens);
}

static int known_read(struct auth *a, struct known_creds *k, struct err *err)
{
	int r;

	if ((r = store_account_list(a->store, &k->accounts, &k->n_accounts, err)) < 0 ||
	    (r = store_key_list(a->store, NULL, &k->keys, &k->n_keys, err)) < 0)
		return r;
	return store_token_list(a->store, NULL, &k->tokens, &k->n_tokens, err);
}

/* The ids of credentials that are in memory only; at most max. */
static size_t find_revoked(struct auth *a, const struct known_creds *k, char (*ret)[ID_SIZE],
                           size_t max)
{
	size_t n = 0;

	rwlock_rdlock(&a->creds_lock);
	for (size_t i = 0; i < CRED_BUCKETS; i++)
		for (struct cred *c = a->creds[i]; c && n < max; c = c->next)
			if (!listed(c, k->keys, k->n_keys, k->tokens, k->n_tokens))
				memcpy(ret[n++], c->who.key, ID_SIZE);
	rwlock_unlock(&a->creds_lock);
	return n;
}

/* Without counting as a use. */
static bool is_known(struct auth *a, const char *hash)
{
	struct cred *c;

	rwlock_rdlock(&a->creds_lock);
	for (c = *bucket(a, hash); c && strcmp(c->hash, hash) != 0; c = c->next)
		;
	rwlock_unlock(&a->creds_lock);
	return c != NULL;
}

int cred_reload(struct auth *a, struct err *err)
{
	AUTO(known_done) struct known_creds k = { 0 };
	char gone[64][ID_SIZE];
	size_t n;
	int r = known_read(a, &k, err);

	if (r < 0)
		return r;
	do {
		n = find_revoked(a, &k, gone, ARRAY_SIZE(gone));
		for (size_t i = 0; i < n; i++)
			cred_remove(a, NULL, NULL, gone[i]);
	} while (n == ARRAY_SIZE(gone));
	for (size_t i = 0; r >= 0 && i < k.n_keys; i++)
		if (!is_known(a, k.keys[i].hash))
			r = cred_add(a, k.keys[i].hash, k.keys[i].id, k.keys[i].account, "",
			             is_admin(k.accounts, k.n_accounts, k.keys[i].account), err);
	for (size_t i = 0; r >= 0 && i < k.n_tokens; i++)
		if (!is_known(a, k.tokens[i].hash))
			r = cred_add(a, k.tokens[i].hash, k.tokens[i].id, k.tokens[i].account,
			             k.tokens[i].identity, /* admin= */ false, err);
	return MIN(r, 0);
}
