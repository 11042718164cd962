/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_identity.c - identities, their tokens and grants
 *
 * An identity belongs to an account; other accounts cannot see it. Tokens are in memory with the
 * keys; grants are read from the store with each request, so that a revoked grant, or one of a
 * deleted VM, is void at once.
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
#include "store/store_git.h"

static int too_many(struct err *err, const char *what, size_t n, int max)
{
	err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED, "at most %d %s: delete some first", max, what);
	err_fact(err, "limit", max);
	err_fact(err, "current", (long long)n);
	return -EDQUOT;
}

int auth_identity_create(struct auth *a, const char *account, struct store_identity *ret,
                         struct err *err)
{
	struct store_identity i = { .created_ms = clock_wall_ms() };
	autofree struct store_identity *v = NULL;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&a->change);
	if ((r = store_identity_list(a->store, account, &v, &n, err)) < 0)
		return r;
	if (n >= AUTH_IDENTITIES_MAX)
		return too_many(err, "identities for an account", n, AUTH_IDENTITIES_MAX);
	id_make("idn-", i.id);
	snprintf(i.account, sizeof(i.account), "%s", account);
	if ((r = store_identity_add(a->store, &i, err)) < 0)
		return r;
	*ret = i;
	return 0;
}

int auth_identity_get(struct auth *a, const char *account, const char *id,
                      struct store_identity *ret, struct err *err)
{
	struct store_identity i = { 0 };
	int r = id_valid("idn-", id) ? store_identity_get(a->store, id, &i, err) : -ENOENT;

	if (r == -ENOENT || (r == 0 && strcmp(i.account, account) != 0))
		return err_tag(err, -ENOENT, ERR_IDENTITY_NOT_FOUND, "no identity '%.60s'", id);
	if (r == 0 && ret)
		*ret = i;
	return r;
}

int auth_identity_list(struct auth *a, const char *account, struct store_identity **ret,
                       size_t *ret_n, struct err *err)
{
	return store_identity_list(a->store, account, ret, ret_n, err);
}

int auth_identity_delete(struct auth *a, const char *account, const char *id, struct err *err)
{
	struct store_identity i = { 0 };
	int r;

	LOCK_SCOPE(&a->change);
	if ((r = auth_identity_get(a, account, id, &i, err)) < 0)
		return r;
	if (i.managed)
		return err_tag(err, -EACCES, ERR_CANNOT_DELETE_MANAGED_IDENTITY,
		               "identity '%s' is managed by the server", id);
	if ((r = store_identity_delete(a->store, id, err)) < 0)
		return r;
	cred_remove(a, account, id, NULL);
	return 0;
}

int auth_token_create(struct auth *a, const char *account, const char *identity,
                      char ret_id[ID_SIZE], char ret_secret[AUTH_SECRET_SIZE], struct err *err)
{
	struct store_token t = { .created_ms = clock_wall_ms() };
	autofree struct store_token *v = NULL;
	char secret[AUTH_SECRET_SIZE];
	size_t n = 0;
	int r;

	LOCK_SCOPE(&a->change);
	if ((r = auth_identity_get(a, account, identity, NULL, err)) < 0 ||
	    (r = store_token_list(a->store, identity, &v, &n, err)) < 0)
		return r;
	if (n >= AUTH_TOKENS_MAX)
		return too_many(err, "tokens for an identity", n, AUTH_TOKENS_MAX);
	id_make("tok-", t.id);
	snprintf(t.identity, sizeof(t.identity), "%s", identity);
	snprintf(t.account, sizeof(t.account), "%s", account);
	auth_make_secret(AUTH_TOKEN_PREFIX, secret);
	if ((r = auth_hash(secret, t.hash, err)) >= 0 &&
	    (r = store_token_add(a->store, &t, err)) >= 0)
		r = cred_add(a, t.hash, t.id, account, identity, /* admin= */ false, err);
	if (r >= 0) {
		memcpy(ret_secret, secret, sizeof(secret));
		memcpy(ret_id, t.id, ID_SIZE);
	}
	OPENSSL_cleanse(secret, sizeof(secret));
	return MIN(r, 0);
}

int auth_token_list(struct auth *a, const char *account, const char *identity,
                    struct store_token **ret, size_t *ret_n, struct err *err)
{
	int r = auth_identity_get(a, account, identity, NULL, err);

	return r < 0 ? r : store_token_list(a->store, identity, ret, ret_n, err);
}

int auth_token_revoke(struct auth *a, const char *account, const char *identity, const char *id,
                      struct err *err)
{
	int r;

	LOCK_SCOPE(&a->change);
	if ((r = auth_identity_get(a, account, identity, NULL, err)) < 0 ||
	    (r = store_token_delete(a->store, identity, id, err)) < 0)
		return r;
	cred_remove(a, account, identity, id);
	return 0;
}

int auth_grant(struct auth *a, const char *account, struct store_grant *g, struct err *err)
{
	int r = auth_identity_get(a, account, g->identity, NULL, err);

	if (r < 0)
		return r;
	id_make("gr-", g->id);
	g->granted_ms = clock_wall_ms();
	snprintf(g->granted_by, sizeof(g->granted_by), "%s", account);
	return store_grant_add(a->store, account, g, err);
}

int auth_grant_get(struct auth *a, const char *account, const char *identity, enum grant_kind kind,
                   const char *target, struct store_grant *ret, struct err *err)
{
	int r = auth_identity_get(a, account, identity, NULL, err);

	return r < 0 ? r : store_grant_get(a->store, identity, kind, target, ret, err);
}

int auth_grant_update(struct auth *a, const char *account, struct store_grant *g, struct err *err)
{
	int r = auth_identity_get(a, account, g->identity, NULL, err);

	if (r < 0 || (r = store_grant_update(a->store, g, err)) < 0)
		return r;
	atomic_fetch_add(&a->epoch, 1);
	return store_grant_get(a->store, g->identity, g->kind, g->target, g, err);
}

int auth_grant_revoke(struct auth *a, const char *account, const char *identity,
                      enum grant_kind kind, const char *target, struct err *err)
{
	int r = auth_identity_get(a, account, identity, NULL, err);

	if (r < 0 || (r = store_grant_delete(a->store, identity, kind, target, err)) < 0)
		return r;
	atomic_fetch_add(&a->epoch, 1);
	return 0;
}

int auth_grant_list(struct auth *a, const char *account, const char *identity, enum grant_kind kind,
                    struct store_grant **ret, size_t *ret_n, struct err *err)
{
	int r = auth_identity_get(a, account, identity, NULL, err);

	return r < 0 ? r : store_grant_list(a->store, identity, kind, ret, ret_n, err);
}

/* Is "bob" in "alice,bob,"? */
static bool user_listed(const struct store_grant *g, const char *user)
{
	size_t n = strlen(user);

	for (const char *p = g->users; *p; p += strcspn(p, ",") + 1)
		if (n == strcspn(p, ",") && memcmp(p, user, n) == 0)
			return true;
	return g->any_user;
}

static int not_granted(struct err *err)
{
	return err_tag(err, -EACCES, ERR_VM_ACCESS_DENIED,
	               "this access token has no permission on this VM");
}

static int no_repository(const char *id, struct err *err)
{
	return err_tag(err, -ENOENT, ERR_REPOSITORY_NOT_FOUND, "no repository '%.60s'", id);
}

/* Public repositories may be read by everyone; everything else requires a grant. */
static int permit_repo(struct auth *a, const struct auth_who *who, enum auth_scope scope,
                       const char *id, struct err *err)
{
	struct store_grant g;
	struct store_repo repo;
	bool granted;
	int r = store_repo_get(a->store, id, &repo, err);

	if (r < 0)
		return r == -ENOENT ? no_repository(id, err) : r;
	r = store_grant_get(a->store, who->identity, GRANT_GIT, id, &g, err);
	if (r < 0 && r != -ENOENT)
		return r;
	granted = r == 0;
	if (!granted && !repo.is_public)
		return no_repository(id, err);
	if (scope == SCOPE_GIT_READ || (granted && strcmp(g.level, "write") == 0))
		return 0;
	return err_tag(err, -EACCES, ERR_REPOSITORY_ACCESS_DENIED,
	               "this access token may only read this repository");
}

int auth_permit(struct auth *a, const struct auth_who *who, enum auth_scope scope,
                const char *target, const char *user, struct err *err)
{
	const char *vm_id = target;
	struct store_grant g;
	int r;

	if (!(who->scopes & scope)) {
		if (scope == SCOPE_FROM_VM)
			return err_tag(err, -EACCES, ERR_FORBIDDEN,
			               "only a VM may call this, about itself, through its own "
			               "socket (pando self); use /v1/vms from outside");
		if (*who->identity && vm_id)
			return err_tag(err, -EACCES, ERR_VM_ACCESS_DENIED,
			               "an access token may only view, start and use its VMs: this "
			               "needs an API key");
		return err_tag(err, -EACCES, ERR_FORBIDDEN, "this requires %s",
		               scope == SCOPE_ADMIN ? "a key of the operator's account"
		                                    : "an API key, not an access token");
	}
	if (!*who->identity || scope == SCOPE_SELF)
		return 0;
	if (target && (scope == SCOPE_GIT_READ || scope == SCOPE_GIT_WRITE))
		return permit_repo(a, who, scope, target, err);
	if (!vm_id)
		return not_granted(err);
	r = store_grant_get(a->store, who->identity, GRANT_VM, vm_id, &g, err);
	if (r == -ENOENT)
		return not_granted(err);
	if (r < 0 || scope == SCOPE_VM_LOOK)
		return r;
	if (scope == SCOPE_VM_ROOT || !user || !*user)
		user = "root";
	if (!user_listed(&g, user))
		return err_tag(err, -EACCES, ERR_VM_ACCESS_DENIED,
		               "this access token may not act as Linux user '%.40s' in this VM",
		               user);
	return 0;
}
