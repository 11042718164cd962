/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.c - API keys: created at the first start, checked on every request
 *
 * Order at the first start: account, then the key file, then the key's hash in the
 * store. A crash before the last step leaves no key in the store, and the next start
 * creates a new one and overwrites the file; a key in the store was always in the file
 * first. A file that goes missing later is reported and not recreated:
 * a lost key is replaced by adding one, not by a restart.
 */
#include "auth/auth.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/rate.h"
#include "store/store.h"
#include "store/store_node.h"

#define KEY_FILE "api-key"
#define REFRESH_EACH_MS 500 /* for a key that is not known */

static const char key_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

int auth_hash(const char *key, char ret_hex[HASH_HEX_SIZE], struct err *err)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (EVP_Digest(key, strlen(key), md, &n, EVP_sha256(), NULL) != 1 || n != 32)
		return err_set(err, -EIO, "cannot compute SHA-256");
	hex_encode(md, n, ret_hex);
	return 0;
}

void auth_make_secret(const char *prefix, char ret[AUTH_SECRET_SIZE])
{
	size_t n = (size_t)snprintf(ret, AUTH_SECRET_SIZE, "%s", prefix);
	size_t end = n + AUTH_KEY_RANDOM;

	while (n < end) {
		uint8_t r[64];

		random_bytes(r, sizeof(r));
		for (size_t i = 0; i < sizeof(r) && n < end; i++)
			if (r[i] < 248) /* 4 * 62, so that all characters are equally likely */
				ret[n++] = key_alphabet[r[i] % 62];
	}
	ret[n] = '\0';
}

bool auth_well_formed(const char *prefix, const char *secret)
{
	size_t p = strlen(prefix);

	return strncmp(secret, prefix, p) == 0 &&
	       strspn(secret + p, key_alphabet) == AUTH_KEY_RANDOM &&
	       secret[p + AUTH_KEY_RANDOM] == '\0';
}

void auth_mask(char *text)
{
	for (char *p = text; (p = strstr(p, "pando"));) {
		static const char *const prefixes[] = { AUTH_KEY_PREFIX, AUTH_TOKEN_PREFIX,
			                                AUTH_SESSION_PREFIX, AUTH_LOGIN_PREFIX };
		size_t k = 0;

		for (size_t i = 0; i < ARRAY_SIZE(prefixes) && !k; i++)
			if (strncmp(p, prefixes[i], strlen(prefixes[i])) == 0)
				k = strlen(prefixes[i]);
		p += k ? k : 1;
		for (; k && isalnum((unsigned char)*p); p++)
			*p = '*';
	}
}

static int first_key(struct store *s, int dirfd, struct err *err)
{
	char account[ACCOUNT_SIZE], key[AUTH_SECRET_SIZE], hash[HASH_HEX_SIZE], id[ID_SIZE];
	char line[AUTH_SECRET_SIZE + 1];
	int r = store_account_first(s, account, err);

	if (r == -ENOENT) {
		uuid_make(account);
		r = store_account_create(s, account, "default", err);
	}
	if (r < 0)
		return r;
	auth_make_secret(AUTH_KEY_PREFIX, key);
	snprintf(line, sizeof(line), "%s\n", key);
	id_make("ak-", id);
	if ((r = io_write_file(dirfd, KEY_FILE, line, strlen(line), 0600, err)) >= 0 &&
	    (r = auth_hash(key, hash, err)) >= 0)
		r = store_key_add(s, account, id, "first key", hash, err);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(line, sizeof(line));
	return r;
}

/* The file is for the operator and for local tools; the server works without it. */
static void check_key_file(struct store *s, int dirfd, const char *data_dir)
{
	char hash[HASH_HEX_SIZE], account[ACCOUNT_SIZE];
	autofree char *text = NULL;
	struct err why = { 0 };

	if (io_read_file(dirfd, KEY_FILE, 4096, &text, &why) < 0) {
		log_warn("%s/%s cannot be read although keys exist: existing keys still work; the "
		         "file is not created again (%s)",
		         data_dir, KEY_FILE, why.msg);
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	if (!auth_well_formed(AUTH_KEY_PREFIX, text) || auth_hash(text, hash, &why) < 0 ||
	    store_key_find(s, hash, account, &why) < 0)
		log_warn("%s/%s does not contain a valid key of this server: local tools that read "
		         "it will be rejected",
		         data_dir, KEY_FILE);
	OPENSSL_cleanse(text, strlen(text));
}

static void auth_closep(struct auth **a)
{
	auth_close(*a);
}

static struct auth *auth_new(struct store *s)
{
	struct auth *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->store = s;
	atomic_store(&a->epoch, 1);
	a->session_idle_ms = AUTH_SESSION_IDLE_MS;
	a->session_max_ms = AUTH_SESSION_MAX_MS;
	mutex_init(&a->change, "auth change");
	mutex_init(&a->logins_lock, "auth logins");
	mutex_unshared(&a->logins_lock);
	a->logins = calloc(AUTH_LOGINS_MAX, sizeof(*a->logins));
	if (!a->logins) {
		free(a);
		return NULL;
	}
	rwlock_init(&a->creds_lock, "auth credentials");
	mutex_init(&a->audit_lock, "auth audit");
	cond_init(&a->audit_cond);
	return a;
}

int auth_open(struct store *s, const char *data_dir, struct auth **ret, bool *ret_new_key,
              struct err *err)
{
	autofd int dirfd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(auth_closep) struct auth *a = NULL;
	bool made = false;
	int n, r;

	if (dirfd < 0)
		return err_sys(err, -errno, "open the data directory '%s'", data_dir);
	n = store_key_count(s, err);
	if (n < 0)
		return n;
	if (n == 0) {
		if ((r = first_key(s, dirfd, err)) < 0)
			return err_wrap(err, r, "create the first API key");
		made = true;
	} else {
		check_key_file(s, dirfd, data_dir);
	}
	a = auth_new(s);
	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = cred_load(a, err)) < 0 || (r = sessions_load(a, err)) < 0 ||
	    (r = failures_start(a, err)) < 0 || (r = audit_start(a, data_dir, err)) < 0)
		return r;
	*ret = TAKE_PTR(a);
	if (ret_new_key)
		*ret_new_key = made;
	return 0;
}

int auth_refresh(struct auth *a, struct err *err)
{
	int r;
	LOCK_SCOPE(&a->change);

	atomic_store(&a->refreshed_ms, clock_ms());
	if ((r = cred_reload(a, err)) < 0 || (r = sessions_load(a, err)) < 0)
		return r;
	atomic_fetch_add(&a->epoch, 1); /* grants may have changed */
	return 0;
}

/* A key that nobody knows here may be one that another node has just made. */
static bool find(struct auth *a, const char *hash, struct auth_who *ret)
{
	if (cred_find(a, hash, ret))
		return true;
	return *store_node_id(a->store) &&
	       clock_ms() - atomic_load(&a->refreshed_ms) >= REFRESH_EACH_MS &&
	       auth_refresh(a, NULL) == 0 && cred_find(a, hash, ret);
}

struct auth *auth_close(struct auth *a)
{
	if (!a)
		return NULL;
	audit_end(a);
	cred_free_all(a);
	cond_destroy(&a->audit_cond);
	mutex_destroy(&a->audit_lock);
	rate_free(a->failures);
	mutex_unshared(&a->logins_lock);
	free(a->logins);
	mutex_destroy(&a->logins_lock);
	rwlock_destroy(&a->creds_lock);
	mutex_destroy(&a->change);
	free(a);
	return NULL;
}

static int refuse(struct err *err, const char *why)
{
	return err_tag(err, -EACCES, ERR_UNAUTHORIZED_ERROR, "%s", why);
}

static int check_token(struct auth *a, const char *token, struct auth_who *ret, struct err *err)
{
	char hash[HASH_HEX_SIZE];
	int r;

	if (!auth_well_formed(AUTH_TOKEN_PREFIX, token))
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED, "this is not a valid access token");
	if ((r = auth_hash(token, hash, err)) < 0)
		return r;
	if (!find(a, hash, ret) || !*ret->identity)
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED,
		               "this access token is unknown or was revoked");
	return 0;
}

int auth_check(struct auth *a, const char *authorization, const char *identity_token,
               struct auth_who *ret, struct err *err)
{
	static const char scheme[] = "Bearer ";
	char hash[HASH_HEX_SIZE];
	const char *key;
	int r;

	if (identity_token)
		return check_token(a, identity_token, ret, err);
	if (!authorization)
		return refuse(err, "no API key: send 'Authorization: Bearer <key>'");
	if (strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
		return refuse(err, "the Authorization header must be 'Bearer <key>'");
	key = authorization + sizeof(scheme) - 1;
	key += strspn(key, " ");
	if (auth_well_formed(AUTH_TOKEN_PREFIX, key))
		return check_token(a, key, ret, err);
	if (!auth_well_formed(AUTH_KEY_PREFIX, key))
		return refuse(err, "this is not a valid API key");
	if ((r = auth_hash(key, hash, err)) < 0)
		return r;
	if (!find(a, hash, ret) || *ret->identity)
		return refuse(err, "this API key is unknown or was revoked");
	return 0;
}

void auth_lease_take(struct auth *a, const struct auth_who *who, enum auth_scope scope,
                     const char *target, const char *user, struct auth_lease *ret)
{
	*ret = (struct auth_lease){ .who = *who, .scope = scope };
	snprintf(ret->target, sizeof(ret->target), "%s", target ? target : "");
	snprintf(ret->user, sizeof(ret->user), "%s", user ? user : "");
	/* Epoch 0 is before the first, so that a revocation since the check is found at the next
	 * check. */
}

void auth_changed(struct auth *a)
{
	atomic_fetch_add(&a->epoch, 1);
}

/* If the store cannot be read, access is not revoked. */
static bool is_no(int r)
{
	return r == -EACCES || r == -ENOENT;
}

bool auth_lease_holds(struct auth *a, struct auth_lease *l)
{
	uint64_t now = atomic_load(&a->epoch);

	if (l->epoch == now)
		return true;
	if (l->scope != SCOPE_PUBLIC &&
	    (!cred_exists(a, l->who.key) || (*l->who.session && !session_holds(a, &l->who)) ||
	     is_no(auth_permit(a, &l->who, l->scope, *l->target ? l->target : NULL, l->user,
	                       NULL))))
		return false;
	l->epoch = now;
	return true;
}
