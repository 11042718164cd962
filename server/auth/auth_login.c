/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_login.c - a program asks for a key, and a person who is signed in confirms it
 *
 * The program gets a code, which the person sees, and a secret, which nobody sees. Who knows the
 * code can look at the request and decide about it; only who knows the secret gets the key, once,
 * and the key is made only then. Nothing of this survives a restart: a request lives for ten
 * minutes at most.
 *
 * A code has 8 of 20 letters (34 bits) and is worth something only to somebody who is signed in;
 * wrong ones count as failed attempts. Codes and secrets are compared in constant time, and every
 * row is looked at.
 */
#include <ctype.h>
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

/* Without vowels, so that no words come out, and without letters that look like another. */
static const char alphabet[] = "BCDFGHJKLMNPQRSTVWXZ";
#define CODE_LETTERS 8

static void make_code(char ret[AUTH_CODE_SIZE])
{
	size_t n = 0;

	while (n < CODE_LETTERS) {
		uint8_t r;

		random_bytes(&r, 1);
		if (r < 240) /* 12 * 20, so that all letters are equally likely */
			ret[n + (n >= CODE_LETTERS / 2)] = alphabet[r % 20], n++;
	}
	ret[CODE_LETTERS / 2] = '-';
	ret[CODE_LETTERS + 1] = '\0';
}

/* As a person types it: small letters, with or without the dash. False: it cannot be a code. */
static bool read_code(const char *text, char ret[AUTH_CODE_SIZE])
{
	size_t n = 0;

	for (; *text; text++) {
		char c = (char)toupper((unsigned char)*text);

		if (c == '-' || c == ' ')
			continue;
		if (n == CODE_LETTERS || !strchr(alphabet, c))
			return false;
		ret[n + (n >= CODE_LETTERS / 2)] = c;
		n++;
	}
	ret[CODE_LETTERS / 2] = '-';
	ret[CODE_LETTERS + 1] = '\0';
	return n == CODE_LETTERS;
}

static bool is_live(const struct login *l, uint64_t now)
{
	return l->until_ms > now;
}

static struct login *by_code(struct auth *a, const char *code) REQUIRES(&a->logins_lock)
{
	char want[AUTH_CODE_SIZE] = "";
	struct login *found = NULL;
	uint64_t now = clock_ms();
	bool valid = read_code(code, want);

	for (size_t i = 0; i < AUTH_LOGINS_MAX; i++) {
		struct login *l = &a->logins[i];

		if (CRYPTO_memcmp(l->info.code, want, sizeof(want)) == 0 && valid &&
		    is_live(l, now))
			found = l;
	}
	return found;
}

static struct login *by_secret(struct auth *a, const char *id, const char *hash)
        REQUIRES(&a->logins_lock)
{
	struct login *found = NULL;
	uint64_t now = clock_ms();

	for (size_t i = 0; i < AUTH_LOGINS_MAX; i++) {
		struct login *l = &a->logins[i];

		if (CRYPTO_memcmp(l->hash, hash, HASH_HEX_SIZE) == 0 && is_live(l, now) &&
		    strcmp(l->info.id, id) == 0)
			found = l;
	}
	return found;
}

static int unknown(struct err *err)
{
	return err_tag(err, -ENOENT, ERR_LOGIN_REQUEST_NOT_FOUND,
	               "there is no login request with this code: it is wrong, used or older than "
	               "ten minutes");
}

int auth_login_begin(struct auth *a, const char *client, const char *remote, const char *net,
                     struct auth_login *ret, char ret_secret[AUTH_SECRET_SIZE], struct err *err)
{
	struct login l = { .until_ms = clock_ms() + AUTH_LOGIN_MS }, *room = NULL;
	uint64_t now = clock_ms();
	unsigned own = 0;
	int r;

	l.info.created_ms = clock_wall_ms();
	l.info.expires_ms = l.info.created_ms + AUTH_LOGIN_MS;
	id_make("lr-", l.info.id);
	snprintf(l.info.client, sizeof(l.info.client), "%s", client);
	snprintf(l.info.remote, sizeof(l.info.remote), "%s", remote);
	snprintf(l.net, sizeof(l.net), "%s", net);
	auth_make_secret(AUTH_LOGIN_PREFIX, ret_secret);
	if ((r = auth_hash(ret_secret, l.hash, err)) < 0)
		return r;
	LOCK_SCOPE(&a->logins_lock);
	do
		make_code(l.info.code);
	while (by_code(a, l.info.code));
	for (size_t i = 0; i < AUTH_LOGINS_MAX; i++) {
		if (!is_live(&a->logins[i], now))
			room = &a->logins[i];
		else
			own += strcmp(a->logins[i].net, net) == 0;
	}
	if (own >= AUTH_LOGINS_EACH || !room) {
		r = err_tag(
		        err, -EAGAIN,
		        own >= AUTH_LOGINS_EACH ? ERR_LIMIT_EXCEEDED : ERR_UNAVAILABLE,
		        "too many login requests wait for an answer: confirm or deny them, or try "
		        "again in ten minutes");
		err_fact(err, ERR_FACT_RETRY, 60);
		return r;
	}
	*room = l;
	*ret = l.info;
	return 0;
}

int auth_login_find(struct auth *a, const char *code, struct auth_login *ret, struct err *err)
{
	const struct login *l;

	LOCK_SCOPE(&a->logins_lock);
	l = by_code(a, code);
	if (!l)
		return unknown(err);
	*ret = l->info;
	return 0;
}

int auth_login_decide(struct auth *a, const char *code, const struct auth_who *by, bool confirmed,
                      struct auth_login *ret, struct err *err)
{
	struct login *l;

	LOCK_SCOPE(&a->logins_lock);
	l = by_code(a, code);
	if (!l)
		return unknown(err);
	if (l->info.state != LOGIN_PENDING)
		return err_tag(err, -EBUSY, ERR_CONFLICT, "this login request is already decided");
	auth_lease_take(a, by, SCOPE_ACCOUNT, NULL, NULL, &l->by);
	l->info.state = confirmed ? LOGIN_CONFIRMED : LOGIN_DENIED;
	*ret = l->info;
	return 0;
}

/* 1: confirmed; the row is used up. */
static int take(struct auth *a, const char *id, const char *hash, struct login *ret,
                struct err *err)
{
	struct login *l;

	LOCK_SCOPE(&a->logins_lock);
	l = by_secret(a, id, hash);
	if (!l)
		return err_tag(
		        err, -ESTALE, ERR_LOGIN_REQUEST_EXPIRED,
		        "this login request is unknown, used or older than ten minutes: begin "
		        "another one");
	*ret = *l;
	if (l->info.state == LOGIN_PENDING)
		return 0;
	l->until_ms = 0;
	l->info.code[0] = l->hash[0] = '\0';
	if (ret->info.state == LOGIN_DENIED)
		return err_tag(err, -EACCES, ERR_LOGIN_REQUEST_DENIED,
		               "somebody denied this login request");
	return 1;
}

int auth_login_poll(struct auth *a, const char *id, const char *secret, struct auth_key *ret,
                    char ret_account[ACCOUNT_SIZE], char ret_secret[AUTH_SECRET_SIZE],
                    struct err *err)
{
	char hash[HASH_HEX_SIZE];
	struct login l;
	int r = auth_hash(secret, hash, err);

	if (r < 0 || (r = take(a, id, hash, &l, err)) <= 0)
		return r;
	if (!auth_lease_holds(a, &l.by))
		return err_tag(err, -EACCES, ERR_LOGIN_REQUEST_DENIED,
		               "whoever confirmed this login request has signed out since");
	memcpy(ret_account, l.by.who.account, ACCOUNT_SIZE);
	r = auth_key_create(a, l.by.who.account, l.info.client, ret, ret_secret, err);
	return r < 0 ? r : 1;
}
