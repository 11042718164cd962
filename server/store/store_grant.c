/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_grant.c - grants of identities
 *
 * One table for all kinds of targets: a grant is (identity, kind, target) and the fields of the
 * kind (Linux users of a VM, level of a repository). A new kind adds a word here and its
 * check of ownership in target_exists().
 */
#include "store/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"

static const char *const kind_words[] = { [GRANT_VM] = "vm", [GRANT_GIT] = "git" };
static_assert(ARRAY_SIZE(kind_words) == GRANT_KIND_MAX, "a kind is missing in kind_words");

static const struct col grant_cols[] = {
	COL_AT(COL_TEXT, store_grant, id, "id"),
	COL_AT(COL_TEXT, store_grant, identity, "identity"),
	COL_WORD_AT(store_grant, kind, "kind", kind_words),
	COL_AT(COL_TEXT, store_grant, target, "target"),
	COL_AT(COL_BOOL, store_grant, any_user, "any_user"),
	COL_AT(COL_TEXT, store_grant, users, "users"),
	COL_AT(COL_TEXT, store_grant, level, "level"),
	COL_AT(COL_I64, store_grant, granted_ms, "granted_ms"),
	COL_AT(COL_TEXT, store_grant, granted_by, "granted_by"),
};
static const struct table grant_table = {
	.name = "grants",
	.cols = grant_cols,
	.n_cols = ARRAY_SIZE(grant_cols),
	.row_size = sizeof(struct store_grant),
	.missing_tag = ERR_PERMISSION_NOT_FOUND,
	.noun = "grant",
};

static int no_grant(enum grant_kind kind, const char *target, struct err *err)
{
	return err_tag(err, -ENOENT,
	               kind == GRANT_VM ? ERR_VM_PERMISSION_NOT_FOUND : ERR_PERMISSION_NOT_FOUND,
	               "the identity has no permission on '%.60s'", target);
}

/* 1 if there is a row. */
static int exists(struct store *s, const char *sql, const char *id, const char *account,
                  struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, id);
	query_bind_text(&q, account);
	return query_step(&q, err);
}

static int target_exists(struct store *s, const char *account, const struct store_grant *g,
                         struct err *err)
{
	int r;

	if (g->kind != GRANT_VM) {
		r = exists(s, "SELECT 1 FROM git_repos WHERE id = $1 AND account = $2", g->target,
		           account, err);
		return r ? MIN(r, 0)
		         : err_tag(err, -ENOENT, ERR_GIT_REPOSITORY_NOT_FOUND,
		                   "no repository '%.60s'", g->target);
	}
	r = exists(s, "SELECT 1 FROM vms WHERE id = $1 AND account = $2", g->target, account, err);
	return r ? MIN(r, 0) : err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%.60s'", g->target);
}

int store_grant_add(struct store *s, const char *account, const struct store_grant *g,
                    struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = exists(s, "SELECT 1 FROM identities WHERE id = $1 AND account = $2", g->identity,
	                account, err)) < 0)
		return r;
	if (r == 0)
		return err_tag(err, -ENOENT, ERR_IDENTITY_NOT_FOUND, "no identity '%.60s'",
		               g->identity);
	if ((r = target_exists(s, account, g, err)) < 0)
		return r;
	r = row_insert(s, &grant_table, g, err);
	if (r == -EEXIST)
		return err_tag(err, r, ERR_PERMISSION_ALREADY_EXISTS,
		               "the identity already has a permission on '%.60s': update it",
		               g->target);
	return r < 0 ? r : tx_commit(&t, err);
}

static int get_locked(struct store *s, const char *identity, enum grant_kind kind,
                      const char *target, struct store_grant *ret, struct err *err)
{
	const char *args[] = { identity, kind_words[kind], target };
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(s, &grant_table, "WHERE identity = $1 AND kind = $2 AND target = $3", args,
	                 3, &rows, &n, err);

	if (r < 0)
		return r;
	if (n == 0)
		return no_grant(kind, target, err);
	memcpy(ret, rows, sizeof(*ret));
	return 0;
}

int store_grant_get(struct store *s, const char *identity, enum grant_kind kind, const char *target,
                    struct store_grant *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return get_locked(s, identity, kind, target, ret, err);
}

int store_grant_update(struct store *s, const struct store_grant *g, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_grant old;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = get_locked(s, g->identity, g->kind, g->target, &old, err)) < 0)
		return r;
	old.any_user = g->any_user;
	memcpy(old.users, g->users, sizeof(old.users));
	memcpy(old.level, g->level, sizeof(old.level));
	if ((r = row_update(s, &grant_table, &old, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_grant_delete(struct store *s, const char *identity, enum grant_kind kind,
                       const char *target, struct err *err)
{
	const char *args[] = { identity, kind_words[kind], target };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM grants WHERE identity = $1 AND kind = $2 AND target = $3",
	                  args, 3, err)) < 0)
		return r;
	return r == 0 ? no_grant(kind, target, err) : tx_commit(&t, err);
}

int store_grant_list(struct store *s, const char *identity, enum grant_kind kind,
                     struct store_grant **ret, size_t *ret_n, struct err *err)
{
	const char *args[] = { identity, kind_words[kind] };
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &grant_table, "WHERE identity = $1 AND kind = $2 ORDER BY granted_ms, id",
	             args, 2, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int grants_drop_locked(struct store *s, enum grant_kind kind, const char *target, struct err *err)
{
	const char *args[] = { kind_words[kind], target };

	return run_text(s, "DELETE FROM grants WHERE kind = $1 AND target = $2", args, 2, err);
}
