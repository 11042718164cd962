/* SPDX-License-Identifier: Apache-2.0 */
/* store_github.c - GitHub Apps, and their installations with what these reach */
#include "store/store_github.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

static const struct col app_cols[] = {
	COL_AT(COL_TEXT, store_github_app, id, "id"),
	COL_AT(COL_TEXT, store_github_app, account, "account"),
	COL_AT(COL_BOOL, store_github_app, shared, "shared"),
	COL_AT(COL_TEXT, store_github_app, server, "server"),
	COL_AT(COL_TEXT, store_github_app, api_url, "api_url"),
	COL_AT(COL_TEXT, store_github_app, app_id, "app_id"),
	COL_AT(COL_TEXT, store_github_app, name, "name"),
	COL_AT(COL_TEXT, store_github_app, page, "page"),
	COL_AT(COL_TEXT, store_github_app, client_id, "client_id"),
	COL_AT(COL_SECRET, store_github_app, private_key, "private_key"),
	COL_AT(COL_SECRET, store_github_app, client_secret, "client_secret"),
	COL_AT(COL_SECRET, store_github_app, webhook_secret, "webhook_secret"),
	COL_AT(COL_I64, store_github_app, created_ms, "created_ms"),
	COL_AT(COL_I64, store_github_app, heard_ms, "heard_ms"),
};
static const struct table app_table = {
	.name = "github_apps",
	.cols = app_cols,
	.n_cols = ARRAY_SIZE(app_cols),
	.row_size = sizeof(struct store_github_app),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "GitHub App",
};

static const struct col installation_cols[] = {
	COL_AT(COL_TEXT, store_installation, id, "id"),
	COL_AT(COL_TEXT, store_installation, app, "app"),
	COL_AT(COL_TEXT, store_installation, number, "number"),
	COL_AT(COL_TEXT, store_installation, account, "account"),
	COL_AT(COL_TEXT, store_installation, login, "login"),
	COL_AT(COL_TEXT, store_installation, kind, "kind"),
	COL_AT(COL_TEXT, store_installation, selection, "selection"),
	COL_AT(COL_BOOL, store_installation, suspended, "suspended"),
	COL_AT(COL_TEXT, store_installation, note, "note"),
	COL_AT(COL_I64, store_installation, created_ms, "created_ms"),
	COL_AT(COL_I64, store_installation, checked_ms, "checked_ms"),
	COL_AT(COL_I64, store_installation, due_ms, "due_ms"),
	COL_AT(COL_U32, store_installation, tries, "tries"),
};
static const struct table installation_table = {
	.name = "github_installations",
	.cols = installation_cols,
	.n_cols = ARRAY_SIZE(installation_cols),
	.row_size = sizeof(struct store_installation),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "installation",
};

static const struct col repo_cols[] = {
	COL_AT(COL_TEXT, store_github_repo, name, "name"),
};
static const struct table repo_table = {
	.name = "github_repos",
	.cols = repo_cols,
	.n_cols = ARRAY_SIZE(repo_cols),
	.row_size = sizeof(struct store_github_repo),
	.noun = "repository",
};

/* ---- Apps ---- */

int store_github_app_add(struct store *s, const struct store_github_app *a, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &app_table, a, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_github_app_get(struct store *s, const char *id, struct store_github_app *ret,
                         struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &app_table, id, ret, err);
}

int store_github_app_list(struct store *s, const char *account, struct store_github_app **ret,
                          size_t *ret_n, struct err *err)
{
	void *rows = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &app_table, "WHERE account = $1 OR shared = 1 ORDER BY created_ms, id",
	             &account, 1, &rows, ret_n, err);
	if (r >= 0)
		*ret = rows;
	return r;
}

int store_github_app_delete(struct store *s, const char *account, const char *id, struct err *err)
{
	const char *args[] = { id, account };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM github_apps WHERE id = $1 AND account = $2", args, 2,
	                  err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&app_table, id, err);
	if ((r = run_text(s,
	                  "DELETE FROM github_repos WHERE installation IN "
	                  "(SELECT id FROM github_installations WHERE app = $1)",
	                  &id, 1, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM github_installations WHERE app = $1", &id, 1, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM github_links WHERE app = $1", &id, 1, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM github_deliveries WHERE app = $1", &id, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- installations ---- */

static int one(struct store *s, const char *tail, const char *const *args, size_t n_args,
               struct store_installation *ret, struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(s, &installation_table, tail, args, n_args, &rows, &n, err);

	if (r < 0)
		return r;
	if (n == 0)
		return -ENOENT;
	memcpy(ret, rows, sizeof(*ret));
	return 0;
}

int store_installation_add(struct store *s, struct store_installation *i, struct err *err)
{
	const char *args[] = { i->app, i->number };
	struct store_installation have;
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0)
		return r;
	r = one(s, "WHERE app = $1 AND number = $2", args, 2, &have, err);
	if (r == 0 && strcmp(have.account, i->account) != 0)
		return err_tag(err, -EEXIST, ERR_CONFLICT,
		               "installation %s belongs to another account of this server: remove "
		               "it there, or uninstall the App on GitHub, first",
		               i->number);
	if (r == 0) {
		*i = have;
		return 0;
	}
	if (r != -ENOENT || (r = row_insert(s, &installation_table, i, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_installation_get(struct store *s, const char *id, struct store_installation *ret,
                           struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &installation_table, id, ret, err);
}

int store_installation_find(struct store *s, const char *app, const char *number,
                            struct store_installation *ret, struct err *err)
{
	const char *args[] = { app, number };

	LOCK_SCOPE(&s->lock);
	return one(s, "WHERE app = $1 AND number = $2", args, 2, ret, err);
}

int store_installation_for(struct store *s, const char *account, const char *server,
                           const char *name, const char *number, struct store_installation *ret,
                           struct err *err)
{
	const char *args[] = { account, server, name, number };

	LOCK_SCOPE(&s->lock);
	return one(s,
	           number ? "WHERE account = $1 AND EXISTS (SELECT 1 FROM github_apps AS a WHERE "
	                    "a.id = github_installations.app AND a.server = $2) AND EXISTS (SELECT "
	                    "1 FROM github_repos AS r WHERE r.installation = "
	                    "github_installations.id AND LOWER(r.name) = LOWER($3)) AND "
	                    "number = $4 ORDER BY created_ms LIMIT 1"
	                  : "WHERE account = $1 AND EXISTS (SELECT 1 FROM github_apps AS a WHERE "
	                    "a.id = github_installations.app AND a.server = $2) AND EXISTS (SELECT "
	                    "1 FROM github_repos AS r WHERE r.installation = "
	                    "github_installations.id AND LOWER(r.name) = LOWER($3)) "
	                    "ORDER BY suspended, created_ms LIMIT 1",
	           args, number ? 4 : 3, ret, err);
}

int store_installation_list(struct store *s, const char *account, struct store_installation **ret,
                            size_t *ret_n, struct err *err)
{
	void *rows = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &installation_table, "WHERE account = $1 ORDER BY created_ms, id", &account,
	             1, &rows, ret_n, err);
	if (r >= 0)
		*ret = rows;
	return r;
}

int store_installation_delete(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_delete(s, &installation_table, id, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM github_repos WHERE installation = $1", &id, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_installation_due(struct store *s, const char *id, int64_t at_ms, struct err *err)
{
	char at[24];
	const char *args[] = { at, id };
	autotx struct tx t = { 0 };
	int r, n;

	snprintf(at, sizeof(at), "%lld", (long long)at_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = n = run_text(s,
	                      "UPDATE github_installations SET due_ms = CAST($1 AS BIGINT), "
	                      "tries = 0 WHERE id = $2",
	                      args, 2, err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	return n;
}

int store_installation_claim(struct store *s, int64_t now_ms, int64_t hold_ms,
                             struct store_installation *ret, struct err *err)
{
	char now[24];
	const char *args[] = { now };
	autotx struct tx t = { 0 };
	int r;

	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = one(s, "WHERE due_ms <= CAST($1 AS BIGINT) ORDER BY due_ms, id LIMIT 1", args, 1,
	             ret, err)) < 0)
		return r;
	ret->due_ms = now_ms + hold_ms;
	if ((r = row_update(s, &installation_table, ret, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_installation_next(struct store *s, int64_t *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(
	        &q, s,
	        "SELECT COALESCE(MIN(due_ms), 9223372036854775807) FROM github_installations", err);

	if (r < 0 || (r = query_step(&q, err)) < 0)
		return r;
	*ret = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

/* Its repositories are these, whatever they were. */
static int put_repos(struct store *s, const char *id, const char *const *names, size_t n,
                     struct err *err)
{
	int r = run_text(s, "DELETE FROM github_repos WHERE installation = $1", &id, 1, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		const char *args[] = { id, names[i] };

		r = run_text(s,
		             "INSERT INTO github_repos (installation, name) VALUES ($1, $2) "
		             "ON CONFLICT DO NOTHING",
		             args, 2, err);
	}
	return MIN(r, 0);
}

int store_installation_found(struct store *s, const struct store_installation *i, int64_t held_ms,
                             const char *const *names, size_t n, struct err *err)
{
	struct store_installation row = *i, now;
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_get(s, &installation_table, i->id, &now, err)) < 0)
		return r == -ENOENT ? 0 : r;
	if (now.due_ms != held_ms) {
		row.due_ms = now.due_ms;
		row.tries = now.tries;
	}
	if ((r = row_update(s, &installation_table, &row, err)) < 0 ||
	    (names && (r = put_repos(s, i->id, names, n, err)) < 0))
		return r;
	return tx_commit(&t, err);
}

int store_github_repo_list(struct store *s, const char *installation, int64_t limit, int64_t offset,
                           struct store_github_repo **ret, size_t *ret_n, struct err *err)
{
	char lim[24], off[24];
	const char *args[] = { installation, lim, off };
	void *rows = NULL;
	int r;

	snprintf(lim, sizeof(lim), "%lld", (long long)limit);
	snprintf(off, sizeof(off), "%lld", (long long)offset);
	LOCK_SCOPE(&s->lock);
	r = row_list(s, &repo_table,
	             "WHERE installation = $1 ORDER BY name LIMIT CAST($2 AS BIGINT) "
	             "OFFSET CAST($3 AS BIGINT)",
	             args, 3, &rows, ret_n, err);
	if (r >= 0)
		*ret = rows;
	return r;
}
