/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_session.c - web sessions: what a browser has instead of a key
 *
 * A session is a prefix and 40 random letters and digits in a cookie; only its hash is kept, in the
 * store and in memory, so neither a copy of the database nor the page itself has anything that
 * could be used elsewhere. It points to its key or token and has no permission of its own: who it
 * is follows from the credential each time, and it ends when that is revoked. The operator's may
 * act as another account; then `account` is that one, and `operator_account` says who it really is.
 *
 * A session ends 12 hours after its last use and 7 days after it was opened, whichever is first.
 * Uses are noted in memory and written to the store once a minute (sessions_tend()), so after a
 * crash one may count as used a minute earlier than it was.
 *
 * Sessions are under the same lock as credentials: one can never outlive the other.
 */
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
#include "base/log.h"

#define TEND_MAX 1024 /* sessions written or ended at one time */

static struct session **bucket(struct auth *a, const char *hash)
{
	return &a->sessions[cred_bucket(hash, SESSION_BUCKETS)];
}

/* The first of those the bucket has, then of the next: a walk over all. */
#define EACH_SESSION(a, s)                                \
	for (unsigned b_ = 0; b_ < SESSION_BUCKETS; b_++) \
		for (struct session *s = (a)->sessions[b_]; s; s = s->next)

static int64_t used_of(const struct session *s)
{
	return atomic_load_explicit(&s->used_ms, memory_order_relaxed);
}

static int64_t expiry(const struct auth *a, const struct session *s)
{
	return MIN(used_of(s) + a->session_idle_ms, s->row.created_ms + a->session_max_ms);
}

static void who_is(const struct session *s, struct auth_who *ret)
{
	*ret = s->cred->who;
	memcpy(ret->session, s->row.id, sizeof(ret->session));
	if (!*s->row.acting)
		return;
	memcpy(ret->operator_account, ret->account, sizeof(ret->operator_account));
	memcpy(ret->account, s->row.acting, sizeof(ret->account));
}

/* ---- in memory; the lock is held ---- */

static struct cred *cred_by_id(struct auth *a, const char *id) REQUIRES(&a->creds_lock)
{
	for (unsigned i = 0; i < CRED_BUCKETS; i++)
		for (struct cred *c = a->creds[i]; c; c = c->next)
			if (strcmp(c->who.key, id) == 0)
				return c;
	return NULL;
}

static struct session *by_id(struct auth *a, const char *id) REQUIRES_SHARED(&a->creds_lock)
{
	EACH_SESSION(a, s)
	{
		if (strcmp(s->row.id, id) == 0)
			return s;
	}
	return NULL;
}

static void add_locked(struct auth *a, struct session *s, struct cred *c) REQUIRES(&a->creds_lock)
{
	struct session **b = bucket(a, s->row.hash);

	s->cred = c;
	s->next = *b;
	*b = s;
	a->n_sessions++;
}

static void forget(struct auth *a, bool (*gone)(const struct session *s, const void *ctx),
                   const void *ctx) REQUIRES(&a->creds_lock)
{
	for (unsigned i = 0; i < SESSION_BUCKETS; i++) {
		struct session **at = &a->sessions[i];

		while (*at) {
			struct session *s = *at;

			if (!gone(s, ctx)) {
				at = &s->next;
				continue;
			}
			*at = s->next;
			a->n_sessions--;
			free(s);
		}
	}
}

static bool is_of_cred(const struct session *s, const void *ctx)
{
	return s->cred == ctx;
}

static bool is_acting_as(const struct session *s, const void *ctx)
{
	return strcmp(s->row.acting, ctx) == 0;
}

static bool has_id(const struct session *s, const void *ctx)
{
	return strcmp(s->row.id, ctx) == 0;
}

void sessions_forget(struct auth *a, const struct cred *c)
{
	if (a->n_sessions)
		forget(a, is_of_cred, c);
}

void sessions_forget_acting(struct auth *a, const char *account)
{
	if (a->n_sessions)
		forget(a, is_acting_as, account);
}

/* ---- ending ---- */

/* Store first, then memory; a->change is held. */
static int end_these(struct auth *a, const char (*ids)[ID_SIZE], size_t n, struct err *err)
{
	int r = n ? store_session_delete(a->store, ids, n, err) : 0;

	if (r < 0 || !n)
		return r;
	rwlock_wrlock(&a->creds_lock);
	for (size_t i = 0; i < n; i++)
		forget(a, has_id, ids[i]);
	rwlock_unlock(&a->creds_lock);
	auth_changed(a);
	return 0;
}

int auth_session_end(struct auth *a, const char *id, struct err *err)
{
	char ids[1][ID_SIZE];

	snprintf(ids[0], sizeof(ids[0]), "%s", id);
	LOCK_SCOPE(&a->change);
	return end_these(a, (const char(*)[ID_SIZE])ids, 1, err);
}

static bool is_whose(const struct session *s, const char *account, const char *identity)
{
	return strcmp(s->cred->who.account, account) == 0 &&
	       strcmp(s->cred->who.identity, identity) == 0;
}

int auth_session_end_all(struct auth *a, const char *account, const char *identity, size_t *ret_n,
                         struct err *err)
{
	autofree char(*ids)[ID_SIZE] = NULL;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&a->change);
	rwlock_rdlock(&a->creds_lock);
	ids = calloc(a->n_sessions + 1, sizeof(*ids));
	if (ids)
		EACH_SESSION(a, s)
		{
			if (is_whose(s, account, identity))
				memcpy(ids[n++], s->row.id, ID_SIZE);
		}
	rwlock_unlock(&a->creds_lock);
	if (!ids)
		return err_set(err, -ENOMEM, "out of memory");
	r = end_these(a, (const char(*)[ID_SIZE])ids, n, err);
	if (r == 0 && ret_n)
		*ret_n = n;
	return r;
}

/* ---- opening ---- */

/* Makes room for one more of this key: *ret_id is the one that has to end, or "". */
static int find_room(struct auth *a, const struct auth_who *who, char ret_id[ID_SIZE],
                     struct err *err)
{
	size_t of_key = 0, of_account = 0;
	int64_t oldest = INT64_MAX;
	bool full;

	ret_id[0] = '\0';
	rwlock_rdlock(&a->creds_lock);
	full = a->n_sessions >= AUTH_SESSIONS_MAX;
	EACH_SESSION(a, s)
	{
		of_account += strcmp(s->cred->who.account, who->account) == 0;
		if (strcmp(s->cred->who.key, who->key) != 0)
			continue;
		of_key++;
		if (used_of(s) >= oldest)
			continue;
		oldest = used_of(s);
		memcpy(ret_id, s->row.id, ID_SIZE);
	}
	rwlock_unlock(&a->creds_lock);
	if (of_key < AUTH_SESSIONS_PER_KEY && of_account < AUTH_SESSIONS_PER_ACCOUNT && !full)
		ret_id[0] = '\0';
	else if (!of_key)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED, "%s: sign out elsewhere first",
		               full ? "this server has too many web sessions"
		                    : "this account has too many web sessions");
	return 0;
}

int auth_session_open(struct auth *a, const struct auth_who *who, const char *remote,
                      const char *client, char ret_secret[AUTH_SECRET_SIZE], struct auth_who *ret,
                      struct err *err)
{
	autofree struct session *s = calloc(1, sizeof(*s));
	char secret[AUTH_SECRET_SIZE], oldest[1][ID_SIZE];
	struct cred *c;
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	id_make("ws-", s->row.id);
	memcpy(s->row.account, who->account, sizeof(s->row.account));
	memcpy(s->row.key, who->key, sizeof(s->row.key));
	memcpy(s->row.identity, who->identity, sizeof(s->row.identity));
	snprintf(s->row.remote, sizeof(s->row.remote), "%s", remote);
	snprintf(s->row.client, sizeof(s->row.client), "%s", client);
	s->row.created_ms = s->row.used_ms = clock_wall_ms();
	atomic_store(&s->used_ms, s->row.used_ms);
	auth_make_secret(AUTH_SESSION_PREFIX, secret);

	LOCK_SCOPE(&a->change);
	if ((r = auth_hash(secret, s->row.hash, err)) < 0 ||
	    (r = find_room(a, who, oldest[0], err)) < 0 ||
	    (r = end_these(a, (const char(*)[ID_SIZE])oldest, *oldest[0] ? 1 : 0, err)) < 0 ||
	    (r = store_session_add(a->store, &s->row, err)) < 0)
		return r;
	rwlock_wrlock(&a->creds_lock);
	c = cred_by_id(a, who->key);
	if (c) {
		add_locked(a, s, c);
		who_is(s, ret);
		s = NULL;
	}
	rwlock_unlock(&a->creds_lock);
	if (!c) /* the row is dropped at the next start */
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED, "this key or token was revoked");
	memcpy(ret_secret, secret, sizeof(secret));
	OPENSSL_cleanse(secret, sizeof(secret));
	return 0;
}

static bool known(struct auth *a, const char *hash) REQUIRES(&a->creds_lock)
{
	struct session *s;

	for (s = *bucket(a, hash); s && strcmp(s->row.hash, hash) != 0; s = s->next)
		;
	return s != NULL;
}

struct session_list {
	const struct store_session *v;
	size_t n;
};

/* Ended, or acting as another account, by another node. */
static bool is_unlisted(const struct session *s, const void *ctx)
{
	const struct session_list *l = ctx;

	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].hash, s->row.hash) == 0)
			return strcmp(l->v[i].acting, s->row.acting) != 0;
	return true;
}

int sessions_load(struct auth *a, struct err *err)
{
	autofree struct store_session *v = NULL;
	size_t n = 0;
	int r = store_session_list(a->store, &v, &n, err);

	if (r < 0)
		return r;
	rwlock_wrlock(&a->creds_lock);
	forget(a, is_unlisted, &(struct session_list){ v, n });
	for (size_t i = 0; i < n && r >= 0; i++) {
		struct cred *c = known(a, v[i].hash) ? NULL : cred_by_id(a, v[i].key);
		struct session *s = c ? calloc(1, sizeof(*s)) : NULL;

		if (c && !s)
			r = err_set(err, -ENOMEM, "out of memory");
		if (!s)
			continue;
		s->row = v[i];
		atomic_store(&s->used_ms, v[i].used_ms);
		add_locked(a, s, c);
	}
	rwlock_unlock(&a->creds_lock);
	return MIN(r, 0);
}

/* ---- using ---- */

int auth_session_check(struct auth *a, const char *secret, struct auth_who *ret, struct err *err)
{
	char hash[HASH_HEX_SIZE];
	int64_t now = clock_wall_ms();
	bool found = false;
	int r;

	if (auth_well_formed(AUTH_SESSION_PREFIX, secret)) {
		if ((r = auth_hash(secret, hash, err)) < 0)
			return r;
		rwlock_rdlock(&a->creds_lock);
		for (struct session *s = *bucket(a, hash); s && !found; s = s->next) {
			if (strcmp(s->row.hash, hash) != 0 || expiry(a, s) <= now)
				continue;
			who_is(s, ret);
			atomic_store_explicit(&s->used_ms, now, memory_order_relaxed);
			atomic_store_explicit(&s->cred->used_ms, now, memory_order_relaxed);
			found = true;
		}
		rwlock_unlock(&a->creds_lock);
	}
	return found ? 0
	             : err_tag(err, -EACCES, ERR_UNAUTHORIZED,
	                       "this session has expired or was ended: sign in again");
}

int auth_session_csrf(const char *secret, char ret[AUTH_CSRF_SIZE], struct err *err)
{
	char text[AUTH_SECRET_SIZE + 8];
	int r;

	snprintf(text, sizeof(text), "csrf:%s", secret);
	r = auth_hash(text, ret, err);
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}

bool session_holds(struct auth *a, const struct auth_who *who)
{
	struct auth_who now;
	struct session *s;
	bool holds = false;

	rwlock_rdlock(&a->creds_lock);
	s = by_id(a, who->session);
	if (s && expiry(a, s) > clock_wall_ms()) {
		who_is(s, &now);
		holds = strcmp(now.account, who->account) == 0;
	}
	rwlock_unlock(&a->creds_lock);
	return holds;
}

static void describe(const struct auth *a, const struct session *s, struct auth_session *ret)
{
	*ret = (struct auth_session){ .created_ms = s->row.created_ms,
		                      .used_ms = used_of(s),
		                      .expires_ms = expiry(a, s) };
	memcpy(ret->id, s->row.id, sizeof(ret->id));
	memcpy(ret->account, s->cred->who.account, sizeof(ret->account));
	memcpy(ret->identity, s->cred->who.identity, sizeof(ret->identity));
	memcpy(ret->acting, s->row.acting, sizeof(ret->acting));
	memcpy(ret->remote, s->row.remote, sizeof(ret->remote));
	memcpy(ret->client, s->row.client, sizeof(ret->client));
}

int auth_session_get(struct auth *a, const char *id, struct auth_session *ret, struct err *err)
{
	struct session *s;

	rwlock_rdlock(&a->creds_lock);
	s = by_id(a, id);
	if (s)
		describe(a, s, ret);
	rwlock_unlock(&a->creds_lock);
	return s ? 0 : err_tag(err, -ENOENT, ERR_NOT_FOUND, "there is no such session");
}

static int by_age(const void *x, const void *y)
{
	const struct auth_session *a = x, *b = y;

	if (a->created_ms != b->created_ms)
		return a->created_ms < b->created_ms ? -1 : 1;
	return strcmp(a->id, b->id);
}

int auth_session_list(struct auth *a, const char *account, const char *identity,
                      struct auth_session **ret, size_t *ret_n, struct err *err)
{
	int64_t now = clock_wall_ms();
	struct auth_session *v;
	size_t n = 0;

	rwlock_rdlock(&a->creds_lock);
	v = calloc(a->n_sessions + 1, sizeof(*v));
	if (v)
		EACH_SESSION(a, s)
		{
			if (is_whose(s, account, identity) && expiry(a, s) > now)
				describe(a, s, &v[n++]);
		}
	rwlock_unlock(&a->creds_lock);
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	qsort(v, n, sizeof(*v), by_age);
	*ret = v;
	*ret_n = n;
	return 0;
}

int auth_session_act(struct auth *a, const char *id, const char *account, struct err *err)
{
	struct store_session row;
	struct session *s;
	int r;

	LOCK_SCOPE(&a->change);
	rwlock_rdlock(&a->creds_lock);
	s = by_id(a, id);
	if (s) {
		row = s->row;
		row.used_ms = used_of(s);
	}
	rwlock_unlock(&a->creds_lock);
	if (!s)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "there is no such session");
	snprintf(row.acting, sizeof(row.acting), "%s", account ? account : "");
	if ((r = store_session_update(a->store, &row, 1, err)) < 0)
		return r;
	rwlock_wrlock(&a->creds_lock);
	s = by_id(a, id);
	if (s)
		memcpy(s->row.acting, row.acting, sizeof(s->row.acting));
	rwlock_unlock(&a->creds_lock);
	auth_changed(a);
	return 0;
}

/* ---- now and then ---- */

void sessions_tend(struct auth *a)
{
	autofree struct store_session *used = calloc(TEND_MAX, sizeof(*used));
	autofree char(*over)[ID_SIZE] = calloc(TEND_MAX, sizeof(*over));
	size_t n_used = 0, n_over = 0;
	int64_t now = clock_wall_ms();
	struct err err = { 0 };

	if (!used || !over)
		return;
	LOCK_SCOPE(&a->change);
	rwlock_wrlock(&a->creds_lock);
	EACH_SESSION(a, s)
	{
		int64_t at = used_of(s);

		if (expiry(a, s) <= now) {
			if (n_over < TEND_MAX)
				memcpy(over[n_over++], s->row.id, ID_SIZE);
		} else if (at - s->row.used_ms >= SESSION_SAVE_MS && n_used < TEND_MAX) {
			s->row.used_ms = at;
			used[n_used++] = s->row;
		}
	}
	rwlock_unlock(&a->creds_lock);
	if ((n_used && store_session_update(a->store, used, n_used, &err) < 0) ||
	    end_these(a, (const char(*)[ID_SIZE])over, n_over, &err) < 0)
		log_warn("web sessions: %s", err.msg);
}
